//! Base64 that is broken over lines, as mail and PEM texts are: lines of eight characters or more.

use std::collections::HashMap;

use crate::span::{Label, Span};

/// As many characters as three bytes make, and padding.
pub(super) const EDGE: usize = 6;

/// The characters by which the beginning of a value is known at the end of a line. Of one that is
/// cut after fewer, what the next line begins with is found by itself; see [`forms`](crate::forms).
pub(super) const HEAD: usize = 4;

/// No pattern is longer: base64 of a piece.
const LONGEST: usize = 1400;

/// The bits of the table before the counted heads.
const BITS: usize = 1 << 16;

/// The beginnings of values in base64.
pub(super) struct Heads {
    counts: HashMap<[u8; HEAD], usize>,
    /// A bit for each, and stale ones of what was removed.
    bits: Box<[u64]>,
}

impl Default for Heads {
    fn default() -> Self {
        Self {
            counts: HashMap::new(),
            bits: vec![0; BITS / 64].into(),
        }
    }
}

impl Heads {
    pub(super) fn add(&mut self, pattern: &[u8]) {
        let Some(head) = pattern.first_chunk::<HEAD>() else {
            return;
        };
        *self.counts.entry(*head).or_default() += 1;
        let (word, bit) = place(*head);
        self.bits[word] |= bit;
    }

    pub(super) fn remove(&mut self, pattern: &[u8]) {
        let Some(head) = pattern.first_chunk::<HEAD>() else {
            return;
        };
        if let Some(count) = self.counts.get_mut(head) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(head);
            }
        }
        if self.counts.is_empty() {
            self.bits.fill(0);
        }
    }

    fn begins(&self, text: &[u8]) -> bool {
        text.first_chunk::<HEAD>().is_some_and(|head| {
            let (word, bit) = place(*head);
            self.bits[word] & bit != 0 && self.counts.contains_key(head)
        })
    }

    /// Finds values that continue behind the end of a line; `longest` returns the value at the
    /// beginning of a text without line ends.
    pub(super) fn find(
        &self,
        text: &[u8],
        longest: impl Fn(&[u8]) -> Option<(usize, Label)>,
        spans: &mut Vec<Span>,
    ) {
        if self.counts.is_empty() {
            return;
        }
        for at in memchr::memchr3_iter(b'\r', b'\n', b'\\', text) {
            let run = text[..at]
                .iter()
                .rev()
                .take(LONGEST)
                .take_while(|byte| is_base64(**byte))
                .count();
            if run < HEAD || !(HEAD..=run).any(|length| self.begins(&text[at - length..at])) {
                continue;
            }
            let Some(joined) = Joined::from(text, at - run, at) else {
                continue;
            };
            for start in 0..=run - HEAD {
                if !self.begins(&joined.text[start..]) {
                    continue;
                }
                // What ends before the line does is found without this.
                if let Some((length, label)) =
                    longest(&joined.text[start..]).filter(|(length, _)| start + length > run)
                {
                    let from = at - run + start.saturating_sub(EDGE);
                    let end = joined.end_of((start + length + EDGE).min(joined.text.len()));
                    spans.push(Span {
                        from,
                        hidden: from..end,
                        label,
                    });
                    break;
                }
            }
        }
    }

    /// Returns where a value may begin whose rest has not arrived; `lines` are whole, and `is_open`
    /// returns true if a longer value begins with a text.
    pub(super) fn open_from(&self, lines: &[u8], is_open: impl Fn(&[u8]) -> bool) -> Option<usize> {
        if self.counts.is_empty() {
            return None;
        }
        // The characters up to the end, backwards, with their positions.
        let (mut text, mut places): (Vec<u8>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut rest = lines
            .strip_suffix(b"\n")
            .map_or(lines, |line| line.strip_suffix(b"\r").unwrap_or(line));
        while text.len() < LONGEST {
            match rest {
                [before @ .., byte] if is_base64(*byte) => {
                    text.push(*byte);
                    places.push(before.len());
                    rest = before;
                }
                _ => match before_break(rest).filter(|_| !text.is_empty()) {
                    Some(before) if before.last().is_some_and(|byte| is_base64(*byte)) => {
                        rest = before
                    }
                    _ => break,
                },
            }
        }
        text.reverse();
        places.reverse();
        let begins = |start: &usize| self.begins(&text[*start..]) && is_open(&text[*start..]);
        (0..text.len()).find(begins).map(|start| places[start])
    }
}

/// Base64 with the ends of lines taken out.
struct Joined {
    text: Vec<u8>,
    /// The beginning of each line here, and in the original.
    lines: Vec<(usize, usize)>,
}

impl Joined {
    /// Joins the lines of a text that begins at `from` and breaks at `at`; `None` if the next line
    /// does not continue it.
    fn from(text: &[u8], from: usize, at: usize) -> Option<Self> {
        let mut joined = Self {
            text: text[from..at].to_vec(),
            lines: vec![(0, from)],
        };
        let mut at = at;
        while joined.text.len() < 2 * LONGEST {
            let Some(next) = break_at(text, at) else {
                break;
            };
            let run = text[next..]
                .iter()
                .take(LONGEST)
                .take_while(|byte| is_base64(**byte))
                .count();
            if run == 0 {
                break;
            }
            joined.lines.push((joined.text.len(), next));
            joined.text.extend_from_slice(&text[next..next + run]);
            at = next + run;
        }
        (joined.lines.len() > 1).then_some(joined)
    }

    /// Returns the original end of the first `length` characters.
    fn end_of(&self, length: usize) -> usize {
        let line = self
            .lines
            .partition_point(|(begin, _)| *begin < length)
            .saturating_sub(1);
        let (begin, original) = self.lines[line];
        original + length - begin
    }
}

/// Returns the beginning of the next line's text if a line ends here, by a line end or its escape.
fn break_at(text: &[u8], at: usize) -> Option<usize> {
    let after = |from: usize, plain: u8, letter: u8| match text.get(from)? {
        byte if *byte == plain => Some(from + 1),
        b'\\' => {
            let slashes = text[from..]
                .iter()
                .take(8)
                .take_while(|byte| **byte == b'\\')
                .count();
            (text.get(from + slashes) == Some(&letter)).then_some(from + slashes + 1)
        }
        _ => None,
    };
    let feed = after(at, b'\r', b'r').unwrap_or(at);
    let next = after(feed, b'\n', b'n')?;
    Some(
        next + text[next..]
            .iter()
            .take(64)
            .take_while(|byte| b" \t".contains(byte))
            .count(),
    )
}

/// Returns the text before the end of the line whose text begins behind `text`.
fn before_break(text: &[u8]) -> Option<&[u8]> {
    let indent = text
        .iter()
        .rev()
        .take(64)
        .take_while(|byte| b" \t".contains(byte))
        .count();
    let line = text[..text.len() - indent].strip_suffix(b"\n")?;
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte)
}

/// Multiplicative hashing, as in [`grams`](crate::grams).
fn place(head: [u8; HEAD]) -> (usize, u64) {
    let hash = (u32::from_ne_bytes(head).wrapping_mul(0x9E37_79B1) >> (32 - BITS.ilog2())) as usize;
    (hash / 64, 1 << (hash % 64))
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn found(pattern: &[u8], text: &str) -> Vec<Range<usize>> {
        let mut heads = Heads::default();
        heads.add(pattern);
        let mut spans = Vec::new();
        let longest = |joined: &[u8]| {
            joined
                .starts_with(pattern)
                .then_some((pattern.len(), Label::Shape("value")))
        };
        heads.find(text.as_bytes(), longest, &mut spans);
        spans.into_iter().map(|span| span.hidden).collect()
    }

    #[test]
    fn a_value_is_found_over_every_kind_of_line_end() {
        for end in ["\n", "\r\n", "\n\t  ", r"\n", r"\r\n", r"\\n"] {
            let text = format!("x: abcdefgh{end}ijklmnop{end}qrst, and more");
            let whole = 3..text.find(',').unwrap();
            assert_eq!(
                found(b"abcdefghijklmnopqrst", &text),
                std::slice::from_ref(&whole),
                "{text:?}"
            );
            // The characters beside it belong to it.
            assert_eq!(found(b"bcdefghijklmnopqrs", &text), [whole], "{text:?}");
        }
        for apart in [
            "abcdefgh\n\nijklmnop",
            "abcdefgh \nijklmnop",
            "abcdefgh\n> ijklmnop",
            "abc\ndefghijklmnop",
        ] {
            assert!(found(b"abcdefghijklmnop", apart).is_empty(), "{apart:?}");
        }
    }

    #[test]
    fn lines_end_within_a_value_where_they_end_with_its_beginning() {
        let pattern = b"abcdefghijklmnopqrst";
        let mut heads = Heads::default();
        heads.add(pattern);
        let open = |text: &str| {
            heads.open_from(text.as_bytes(), |begun| {
                begun.len() < pattern.len() && pattern.starts_with(begun)
            })
        };
        assert_eq!(open("one abcdef\n"), Some(4));
        assert_eq!(open("one abcdef\r\n ghijkl\r\n"), Some(4));
        for closed in [
            "one abcdef\ntwo\n",
            "one abc\n",
            "abcdefghijklmnopqrst\n",
            "",
            "\n",
            "one abcdef\n\n",
        ] {
            assert_eq!(open(closed), None, "{closed:?}");
        }
        heads.remove(pattern);
        assert_eq!(heads.open_from(b"one abcdef\n", |_| true), None);
    }
}
