//! Finding lines: the same items however the bytes are split, in bounded memory.

use proptest::prelude::*;
use trunkline_protocol::{FIRST_BYTES, Item, LineReader, READ_BYTES};

/// An item that has outlived its reader's next step.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Line(String),
    TooLong { first: Vec<u8>, bytes: u64 },
    NotUtf8(Vec<u8>),
    NotObject(String),
    Cut(Vec<u8>),
}

impl From<Item<'_>> for Seen {
    fn from(item: Item<'_>) -> Self {
        match item {
            Item::Line(text) => Self::Line(text.to_owned()),
            Item::TooLong { first, bytes } => Self::TooLong {
                first: first.to_vec(),
                bytes,
            },
            Item::NotUtf8 { line } => Self::NotUtf8(line.to_vec()),
            Item::NotObject(text) => Self::NotObject(text.to_owned()),
            Item::Cut(rest) => Self::Cut(rest.to_vec()),
        }
    }
}

/// Reads chunks as a pipe would give them, and takes all items after each.
fn push(reader: &mut LineReader, chunk: &[u8], seen: &mut Vec<Seen>) {
    let mut rest = chunk;
    while !rest.is_empty() {
        let space = reader.space();
        let length = space.len().min(rest.len());
        space[..length].copy_from_slice(&rest[..length]);
        reader.filled(length);
        rest = &rest[length..];
        while let Some(item) = reader.next() {
            seen.push(item.into());
        }
    }
}

fn read<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Seen> {
    let mut reader = LineReader::new(limit);
    let mut seen = Vec::new();
    for chunk in chunks {
        push(&mut reader, chunk, &mut seen);
    }
    seen.extend(reader.finish().map(Seen::from));
    assert_eq!(reader.finish(), None, "an input ends once");
    seen
}

/// Reads an input as specified, as if memory and time were free.
fn specified(limit: usize, input: &[u8]) -> Vec<Seen> {
    let mut begun = false;
    let mut seen = Vec::new();
    let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    for (at, line) in lines.iter().enumerate() {
        if line.len() > limit {
            let first = line[..line.len().min(FIRST_BYTES)].to_vec();
            seen.push(Seen::TooLong {
                first,
                bytes: line.len() as u64,
            });
            continue;
        }
        let line = if begun {
            line
        } else {
            line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
        };
        let line = line.trim_ascii();
        begun |= line.starts_with(b"{");
        let judged = match std::str::from_utf8(line) {
            _ if line.is_empty() => continue,
            Err(_) => Seen::NotUtf8(line.to_vec()),
            Ok(text) if text.starts_with('{') => Seen::Line(text.to_owned()),
            Ok(text) => Seen::NotObject(text.to_owned()),
        };
        let last = at + 1 == lines.len();
        let whole = matches!(&judged, Seen::Line(text) if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
        seen.push(if last && !whole {
            Seen::Cut(line.to_vec())
        } else {
            judged
        });
    }
    seen
}

/// Bytes that lines are made of, and that might be taken for their ends.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\n".to_vec()),
        2 => Just(b"\r\n".to_vec()),
        3 => Just(b"{\"a\":\"b\"}".to_vec()),
        1 => Just(b"\xEF\xBB\xBF".to_vec()),
        1 => Just(b"\xEF\xBB\xBF{}\n".to_vec()),
        1 => Just(b"{\"type\":\"out".to_vec()),
        1 => Just("é€😀\u{2028}\u{2029}\u{85}\u{b}\u{c} ".as_bytes().to_vec()),
        1 => Just(b"\xff\xc0\xaf".to_vec()),
        1 => Just(b" \t\r".to_vec()),
        2 => prop::collection::vec(any::<u8>(), 0..20),
        1 => (0_usize..3000).prop_map(|length| vec![b'x'; length]),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn the_split_over_reads_changes_nothing(
        input in input(),
        limit in prop_oneof![0_usize..40, 1000_usize..1050, 0_usize..4000],
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        cuts.extend([0, input.len()]);
        cuts.sort_unstable();
        let wanted = specified(limit, &input);
        prop_assert_eq!(&read(limit, [&input[..]]), &wanted, "in one piece");
        prop_assert_eq!(&read(limit, input.chunks(1)), &wanted, "byte by byte");
        let pieces = cuts.windows(2).map(|cut| &input[cut[0]..cut[1]]);
        prop_assert_eq!(&read(limit, pieces), &wanted, "in pieces");
    }
}

#[test]
fn the_limit_counts_the_bytes_before_the_lf() {
    for limit in [
        4,
        1000,
        FIRST_BYTES - 1,
        FIRST_BYTES,
        FIRST_BYTES + 1,
        READ_BYTES,
        3 * READ_BYTES,
    ] {
        for (length, fits) in [
            (limit - 1, true),
            (limit, true),
            (limit + 1, false),
            (limit + 2, false),
        ] {
            // The CR is a byte of the line; the LF is not.
            for (before, end) in [(length, "\n{}\n"), (length - 1, "\r\n{}\n"), (length, "")] {
                let input = "x".repeat(before) + end;
                for chunk in [input.len(), 1000, 7] {
                    let seen = read(limit, input.as_bytes().chunks(chunk));
                    let too_long =
                        matches!(seen[0], Seen::TooLong { bytes, .. } if bytes == length as u64);
                    assert_eq!(too_long, !fits, "{length} bytes, limit {limit}, {end:?}");
                    assert_eq!(
                        seen.get(1),
                        (!end.is_empty())
                            .then(|| Seen::Line("{}".to_owned()))
                            .as_ref()
                    );
                }
            }
        }
    }
}

#[test]
fn memory_stays_bounded_while_a_giant_passes_and_falls_back_afterwards() {
    const LIMIT: usize = 8 << 20;
    const BOUND: usize = LIMIT + 2 * READ_BYTES + 4096;
    const FALLEN: usize = 41 * READ_BYTES;
    // A limit of lines that fit, a line that does not, and one that fits with the next in its wake.
    for (length, tail) in [
        (LIMIT, "\n"),
        (LIMIT - READ_BYTES / 2, "\n{"),
        (4 * LIMIT + 5, "\n{"),
        (3 * LIMIT, "\n"),
    ] {
        let mut reader = LineReader::new(LIMIT);
        let mut seen = Vec::new();
        let mut most = 0;
        let giant = [b"{".repeat(length), tail.as_bytes().to_vec()].concat();
        for chunk in giant.chunks(READ_BYTES - 1) {
            push(&mut reader, chunk, &mut seen);
            most = most.max(reader.memory());
        }
        assert!(most <= BOUND, "{most} bytes for a line of {length}");
        assert_eq!(seen.len(), 1);
        // A busy pipe: each read ends within a line.
        for _ in 0..3 {
            push(&mut reader, b"}\n{", &mut seen);
        }
        assert!(
            reader.memory() <= FALLEN,
            "{} bytes after a line of {length}",
            reader.memory()
        );
    }
}

#[test]
fn memory_is_small_while_lines_are_small() {
    let mut reader = LineReader::new(16 << 20);
    let mut seen = Vec::new();
    let input = b"{\"type\":\"output\",\"session_id\":\"s-1\"}\n".repeat(40_000);
    for chunk in input.chunks(READ_BYTES) {
        push(&mut reader, chunk, &mut seen);
        assert!(reader.memory() <= 4 * READ_BYTES);
    }
    assert_eq!(seen.len(), 40_000);
}

#[test]
fn ten_thousand_lines_of_half_the_limit_pass() {
    const LIMIT: usize = 32 * 1024;
    let mut reader = LineReader::new(LIMIT);
    let mut seen = Vec::new();
    let line = format!("{{{}}}\n", " ".repeat(LIMIT / 2 - 2));
    for number in 0..10_000 {
        push(&mut reader, line.as_bytes(), &mut seen);
        assert_eq!(
            seen.pop(),
            Some(Seen::Line(line.trim_end().to_owned())),
            "line {number}"
        );
    }
}

#[test]
fn a_giant_without_an_end_is_told_at_the_end() {
    let giant = b"{\"session_id\":\"s-1\"".repeat(20_000);
    let seen = read(1024, giant.chunks(1000));
    assert_eq!(
        seen,
        [Seen::TooLong {
            first: giant[..FIRST_BYTES].to_vec(),
            bytes: giant.len() as u64
        }]
    );
}

#[test]
fn a_bom_is_skipped_before_the_first_message_and_is_data_after_it() {
    let bom = "\u{feff}";
    let line = |text: &str| Seen::Line(text.to_owned());
    let noise = |text: &str| Seen::NotObject(text.to_owned());
    for (input, wanted) in [
        (format!("{bom}{{}}\n"), vec![line("{}")]),
        (format!("\n{bom}{{}}\n"), vec![line("{}")]),
        (
            format!("banner\n{bom}{{}}\n"),
            vec![noise("banner"), line("{}")],
        ),
        (format!("{bom}\n{{}}\n"), vec![line("{}")]),
        (
            format!("{{}}\n{bom}{{}}\n"),
            vec![line("{}"), noise("\u{feff}{}")],
        ),
        (format!("{bom}{bom}{{}}\n"), vec![noise("\u{feff}{}")]),
        (format!("{bom}{{}}"), vec![line("{}")]),
    ] {
        assert_eq!(read(1024, [input.as_bytes()]), wanted, "{input:?}");
    }
}

#[test]
fn the_rest_counts_as_a_line_only_if_it_parses() {
    let cut = |text: &str| vec![Seen::Cut(text.into())];
    for (input, wanted) in [
        ("{\"a\":1}", vec![Seen::Line("{\"a\":1}".to_owned())]),
        (" {\"a\":1}\r", vec![Seen::Line("{\"a\":1}".to_owned())]),
        ("{\"a\":", cut("{\"a\":")),
        ("{} {}", cut("{} {}")),
        ("banner", cut("banner")),
        ("[]", cut("[]")),
        ("  \r", vec![]),
        ("", vec![]),
    ] {
        assert_eq!(read(1024, [input.as_bytes()]), wanted, "{input:?}");
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(read(1 << 20, [deep.as_bytes()]), [Seen::Line(deep)]);
}

#[test]
#[should_panic(expected = "no more than the space")]
fn more_bytes_than_there_was_room_for_are_a_bug_of_the_caller() {
    let mut reader = LineReader::new(16);
    let room = reader.space().len();
    reader.filled(room + 1);
}
