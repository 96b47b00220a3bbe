//! Lines in what comes in chunks.

/// The longest part of a line that is kept, in bytes: what every reader of the protocol accepts.
pub const LONGEST: usize = 1024 * 1024;

/// Additional bytes that are held until secrets are hidden. A secret that is cut by the end of the
/// held bytes is within this margin. No pattern of a registered value is as long.
pub(crate) const MARGIN: usize = 8 * 1024;

/// A line, or what was found of it.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// The bytes without the LF; only the first ones if some were omitted.
    pub line: &'a [u8],
    /// Number of omitted bytes.
    pub omitted: u64,
    /// True if an LF ended it.
    pub is_ended: bool,
    /// True if it arrived in one chunk.
    pub is_whole: bool,
}

/// Splits chunks into lines; keeps at most [`LONGEST`] bytes and a margin of one that has not ended.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
    omitted: u64,
    /// A part of the line under way is missing: it is passed over.
    is_broken: bool,
}

impl Lines {
    /// Takes a chunk and hands over each line that it ends.
    pub fn push(&mut self, mut chunk: &[u8], mut each: impl FnMut(Piece<'_>)) {
        while let Some(end) = memchr::memchr(b'\n', chunk) {
            let line = &chunk[..end];
            let after = &chunk[end + 1..];
            chunk = after;
            if std::mem::take(&mut self.is_broken) {
                self.clear();
            } else if self.rest.is_empty() && line.len() <= LONGEST + MARGIN {
                each(Piece {
                    line,
                    omitted: 0,
                    is_ended: true,
                    is_whole: true,
                });
            } else {
                self.keep(line);
                each(self.piece(true));
                self.clear();
            }
        }
        if !self.is_broken {
            self.keep(chunk);
        }
    }

    /// A chunk is missing here: the line that it belongs to is passed over.
    pub fn lose(&mut self) {
        self.clear();
        self.is_broken = true;
    }

    /// Passes on the text behind the last LF, once.
    pub fn finish(&mut self, each: impl FnOnce(Piece<'_>)) {
        if !self.rest.is_empty() {
            each(self.piece(false));
        }
        self.clear();
    }

    fn piece(&self, is_ended: bool) -> Piece<'_> {
        Piece {
            line: &self.rest,
            omitted: self.omitted,
            is_ended,
            is_whole: false,
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = (LONGEST + MARGIN).saturating_sub(self.rest.len());
        let (kept, left_out) = bytes.split_at(room.min(bytes.len()));
        self.rest.extend_from_slice(kept);
        self.omitted += left_out.len() as u64;
    }

    fn clear(&mut self) {
        self.rest.clear();
        self.rest.shrink_to(64 * 1024);
        self.omitted = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(lines: &mut Lines, chunks: &[&[u8]]) -> Vec<(String, u64)> {
        let mut found = Vec::new();
        for chunk in chunks {
            lines.push(chunk, |piece| {
                found.push((
                    String::from_utf8(piece.line.to_vec()).unwrap(),
                    piece.omitted,
                ));
            });
        }
        found
    }

    #[test]
    fn a_line_is_the_same_however_it_is_cut_into_chunks() {
        let text = b"one\n\ntwo \r\nthree";
        for cut in 0..text.len() {
            let mut lines = Lines::default();
            let found = split(&mut lines, &[&text[..cut], &text[cut..]]);
            assert_eq!(
                found,
                [("one".into(), 0), (String::new(), 0), ("two \r".into(), 0)]
            );
            let mut rest = Vec::new();
            lines.finish(|piece| rest.extend_from_slice(piece.line));
            assert_eq!(rest, b"three");
        }
    }

    #[test]
    fn a_line_with_a_missing_part_is_passed_over() {
        let mut lines = Lines::default();
        assert_eq!(split(&mut lines, &[b"one\ntw"]), [("one".into(), 0)]);
        lines.lose();
        assert_eq!(split(&mut lines, &[b"o\nthree\n"]), [("three".into(), 0)]);
    }

    #[test]
    fn a_long_line_costs_bounded_memory_and_says_what_is_left_out() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 100_000];
        for _ in 0..100 {
            lines.push(&chunk, |_| panic!("it has not ended"));
        }
        let found = split(&mut lines, &[b"\nnext\n"]);
        assert_eq!(
            (found[0].0.len(), found[0].1),
            (LONGEST + MARGIN, 10_000_000 - (LONGEST + MARGIN) as u64)
        );
        assert_eq!(found[1], ("next".into(), 0));
    }
}
