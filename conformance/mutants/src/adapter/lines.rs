//! Bytes into lines, at 0x0A and nowhere else ([frame.2], [frame.4], [frame.5]).

use crate::switches::{Mutant, broken};

/// The longest line that is read ([frame.5]).
const LONGEST: usize = 16 * 1024 * 1024;

/// How much of a longer one is kept, to find its session.
const KEPT: usize = 4096;

/// What a line buffer may keep of its room between two lines.
const IDLE: usize = 256 * 1024;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// One thing that stood on the input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Item<'a> {
    /// A line, without its LF.
    Line(&'a [u8]),
    /// A line over the limit, of which only the first bytes are known.
    TooLong(&'a [u8]),
}

/// Puts lines together. Holds one line at most.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    line: Vec<u8>,
    skipping: bool,
    begun: bool,
}

impl Splitter {
    /// Takes a chunk, as the pipe gave it. What stays after the last LF waits.
    pub(crate) fn push(&mut self, chunk: &[u8], take: &mut dyn FnMut(Item<'_>)) {
        if broken(Mutant::DecodePerChunk) {
            let text = String::from_utf8_lossy(chunk).into_owned();
            return self.split(text.as_bytes(), take);
        }
        self.split(chunk, take);
        if broken(Mutant::ReadIsLine) && !self.line.is_empty() {
            self.end(take);
        }
    }

    /// The input has ended: what stands after the last LF is a line too, if it parses ([frame.7]).
    pub(crate) fn finish(&mut self, take: &mut dyn FnMut(Item<'_>)) {
        if !self.line.is_empty() && !self.skipping {
            if broken(Mutant::CutLineExits) {
                std::process::exit(1);
            }
            self.end(take);
        }
    }

    fn split(&mut self, mut rest: &[u8], take: &mut dyn FnMut(Item<'_>)) {
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            self.extend(&rest[..at]);
            self.end(take);
            rest = &rest[at + 1..];
            if broken(Mutant::OneLinePerRead) {
                return;
            }
        }
        self.extend(rest);
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > longest() {
            self.skipping = true;
            self.line.truncate(KEPT);
            self.line.shrink_to_fit();
        }
    }

    fn end(&mut self, take: &mut dyn FnMut(Item<'_>)) {
        let mut line = self.line.as_slice();
        if !self.begun && !broken(Mutant::BomIsData) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        self.begun = true;
        match self.skipping {
            true if broken(Mutant::ExitOnLongLine) => std::process::exit(1),
            true => take(Item::TooLong(line)),
            false if broken(Mutant::SplitAtUnicode) => split_at_unicode(line, take),
            false => take(Item::Line(line)),
        }
        self.skipping = false;
        self.line.clear();
        if self.line.capacity() > IDLE {
            self.line = Vec::new();
        }
    }
}

fn longest() -> usize {
    if broken(Mutant::Limit64k) {
        return 64 * 1024;
    }
    if broken(Mutant::Limit4m) {
        return 4 * 1024 * 1024;
    }
    if broken(Mutant::LimitBelow1m) {
        return 1024 * 1024 - 1;
    }
    LONGEST
}

/// What `str.splitlines` of Python does.
fn split_at_unicode(line: &[u8], take: &mut dyn FnMut(Item<'_>)) {
    let text = String::from_utf8_lossy(line).into_owned();
    for part in text.split(['\u{2028}', '\u{2029}', '\u{85}', '\u{b}', '\u{c}']) {
        take(Item::Line(part.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<(bool, Vec<u8>)> {
        let mut splitter = Splitter::default();
        let mut found = Vec::new();
        for chunk in chunks {
            splitter.push(chunk, &mut |item| match item {
                Item::Line(line) => found.push((true, line.to_vec())),
                Item::TooLong(first) => found.push((false, first.to_vec())),
            });
        }
        found
    }

    #[test]
    fn chunks_make_no_difference() {
        let text = "\u{feff}{\"a\":\"\u{2028}😀\"}\r\n\nend\nrest".as_bytes();
        let whole = lines(&[text]);
        let single: Vec<_> = text.chunks(1).collect();
        assert_eq!(whole, lines(&single));
        assert_eq!(whole.len(), 3);
        assert_eq!(whole[0].1, "{\"a\":\"\u{2028}😀\"}\r".as_bytes());
    }

    #[test]
    fn a_line_over_the_limit_costs_itself_alone() {
        let long = vec![b'x'; LONGEST + 1];
        let found = lines(&[b"a\n", &long, b"\nb\n"]);
        assert_eq!(found.iter().map(|(whole, _)| *whole).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(found[1].1.len(), KEPT);
    }

    #[test]
    fn a_line_of_the_limit_is_whole() {
        let long = vec![b'x'; LONGEST];
        assert_eq!(lines(&[&long, b"\n"])[0].1.len(), LONGEST);
    }
}
