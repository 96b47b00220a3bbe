//! Cuts a stream of bytes into lines of bounded length.

use std::borrow::Cow;

/// The longest line that is handed over, in bytes; the rest of a longer one is counted and dropped.
/// The tail has it.
pub const MAX_STDERR_LINE: usize = 8 * 1024;

/// A line of a child's standard error, without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StderrLine<'a> {
    /// Text; bytes that are not UTF-8 are replaced.
    pub text: Cow<'a, str>,
    /// Number of bytes dropped at its end, because it was longer than [`MAX_STDERR_LINE`].
    pub omitted: u64,
}

#[derive(Debug, Default)]
pub(super) struct LineCutter {
    /// At most `MAX_STDERR_LINE` bytes of the unfinished line.
    partial: Vec<u8>,
    omitted: u64,
}

impl LineCutter {
    pub(super) fn push(&mut self, bytes: &[u8], on_line: &mut impl FnMut(StderrLine<'_>)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(end_of_line) => {
                    self.grow(end_of_line);
                    self.emit(on_line);
                }
                None => self.grow(piece),
            }
        }
    }

    /// Hands over the unfinished line, if there is one.
    pub(super) fn end(&mut self, on_line: &mut impl FnMut(StderrLine<'_>)) {
        if !self.partial.is_empty() {
            self.emit(on_line);
        }
    }

    fn grow(&mut self, piece: &[u8]) {
        let kept = piece.len().min(MAX_STDERR_LINE - self.partial.len());
        self.partial.extend_from_slice(&piece[..kept]);
        self.omitted += (piece.len() - kept) as u64;
    }

    fn emit(&mut self, on_line: &mut impl FnMut(StderrLine<'_>)) {
        let line = self.partial.strip_suffix(b"\r").unwrap_or(&self.partial);
        on_line(StderrLine {
            text: String::from_utf8_lossy(line),
            omitted: self.omitted,
        });
        self.partial.clear();
        self.omitted = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<(String, u64)> {
        let mut lines = Vec::new();
        let mut take = |line: StderrLine<'_>| lines.push((line.text.into_owned(), line.omitted));
        let mut cutter = LineCutter::default();
        for chunk in chunks {
            cutter.push(chunk, &mut take);
        }
        cutter.end(&mut take);
        lines
    }

    #[test]
    fn lines_do_not_depend_on_how_the_bytes_arrive() {
        let text = "one\r\n\ntwo with \u{e9}\nno newline".as_bytes();
        let whole = cut(&[text]);
        let texts: Vec<&str> = whole.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["one", "", "two with \u{e9}", "no newline"]);
        assert_eq!(cut(&text.chunks(1).collect::<Vec<_>>()), whole);
    }

    #[test]
    fn an_endless_line_is_cut_and_its_rest_counted() {
        let long = vec![b'x'; MAX_STDERR_LINE];
        let lines = cut(&[&long, b"yz", b"z\nnext\n"]);
        assert_eq!(lines[0], ("x".repeat(MAX_STDERR_LINE), 3));
        assert_eq!(lines[1], ("next".to_owned(), 0));
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        assert_eq!(cut(&[b"\xff\xfe\n"])[0].0, "\u{fffd}\u{fffd}");
    }
}
