//! Lines in bytes, however these are split over reads.

use trunkline_protocol::{Item, LineReader, READ_BYTES};

use super::{Target, portions};

/// The limit of a line; short, so that inputs go over it.
const LIMIT: usize = 512;

pub(super) const LINES: Target = Target {
    name: "lines",
    seeds: &[
        b"\x03\x05\x01\x02{\"type\":\"stop\",\"session_id\":\"s\"}\nbanner\r\n\n{\"type\":\"x\"}\n",
        b"\x00\xef\xbb\xbf{\"a\":\"\xc3\xa9\xf0\x9f\x98\x80\"}\n\xff\xfe\n{\"cut\":",
        b"\x02\xff\xff{\"long\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}\n",
    ],
    words: &[
        "\n",
        "\r\n",
        "\r",
        "{",
        "}",
        "\"",
        "\u{feff}",
        "é",
        "😀",
        "\u{2028}",
        "\0",
        " ",
        "{\"type\":\"output\"}\n",
    ],
    run,
};

fn run(input: &[u8]) {
    let (parts, whole) = portions(input);
    let split = items(&parts);
    let at_once = items(&[whole]);
    assert_eq!(split, at_once, "items do not depend on reads");
    let named = split.iter().filter(|item| item.starts_with("Line")).count();
    let text = String::from_utf8_lossy(whole);
    assert!(named <= text.matches('{').count(), "a line is an object");
}

/// Every item as a text.
fn items(parts: &[&[u8]]) -> Vec<String> {
    let mut reader = LineReader::new(LIMIT);
    let mut items = Vec::new();
    for part in parts {
        for read in part.chunks(READ_BYTES) {
            reader.space()[..read.len()].copy_from_slice(read);
            reader.filled(read.len());
            while let Some(item) = reader.next() {
                check(&item);
                items.push(format!("{item:?}"));
            }
            assert!(
                reader.memory() <= LIMIT + 4 * READ_BYTES,
                "{} bytes are held",
                reader.memory()
            );
        }
    }
    items.extend(reader.finish().map(|item| format!("{item:?}")));
    items
}

fn check(item: &Item<'_>) {
    match item {
        Item::Line(line) => {
            assert!(
                line.starts_with('{') && line.len() <= LIMIT && !line.contains('\n'),
                "{line:?}"
            );
        }
        Item::TooLong { bytes, .. } => assert!(*bytes > LIMIT as u64, "{bytes}"),
        Item::NotUtf8 { line } => assert!(std::str::from_utf8(line).is_err(), "{line:?}"),
        Item::NotObject(_) | Item::Cut(_) => {}
    }
}
