//! Bytes into lines: split at 0x0A and nowhere else, bounded ([frame.2] to [frame.7]), or with one fault.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read},
};

/// The longest line that is read, in bytes ([frame.5]).
pub const LONGEST: usize = 16 * 1024 * 1024;

/// Bytes that are kept of a longer line, to find its session.
const KEPT: usize = 64 * 1024;

/// Maximum of bytes per read.
const CHUNK: usize = 64 * 1024;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// A line of the input, without its LF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputLine {
    /// A line.
    Whole(Vec<u8>),
    /// The first bytes of a line over the limit.
    TooLong(Vec<u8>),
    /// The text after the last LF.
    Unended(Vec<u8>),
}

impl InputLine {
    /// Returns its bytes, as far as they are kept.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) | Self::TooLong(bytes) | Self::Unended(bytes) => bytes,
        }
    }
}

/// Fault of a broken reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderFault {
    /// Decodes each read by itself.
    DecodesReads,
    /// Takes the end of a read for the end of a line.
    ReadIsLine,
    /// Forgets what a read holds after so many lines.
    LinesPerRead(usize),
    /// Ends lines where `str.splitlines` of Python does.
    SplitsAtUnicode,
    /// Takes a byte order mark for data.
    KeepsBom,
}

/// Takes lines from a pipe. Holds what one read gave, and one line.
#[derive(Debug)]
pub struct LineReader<R> {
    pipe: R,
    longest: usize,
    fault: Option<ReaderFault>,
    chunk: Vec<u8>,
    found: VecDeque<InputLine>,
    line: Vec<u8>,
    skipping: bool,
    begun: bool,
    ended: bool,
}

impl<R: Read> LineReader<R> {
    /// A reader that skips lines of more than `longest` bytes.
    pub fn new(pipe: R, longest: usize, fault: Option<ReaderFault>) -> Self {
        Self {
            pipe,
            longest,
            fault,
            chunk: vec![0; CHUNK],
            found: VecDeque::new(),
            line: Vec::new(),
            skipping: false,
            begun: false,
            ended: false,
        }
    }

    fn take(&mut self, length: usize) {
        let chunk = std::mem::take(&mut self.chunk);
        if self.fault == Some(ReaderFault::DecodesReads) {
            self.split(String::from_utf8_lossy(&chunk[..length]).as_bytes());
        } else {
            self.split(&chunk[..length]);
        }
        if self.fault == Some(ReaderFault::ReadIsLine) && length < CHUNK && !self.line.is_empty() {
            self.end();
        }
        self.chunk = chunk;
    }

    fn split(&mut self, mut rest: &[u8]) {
        let mut lines = 0;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            self.extend(&rest[..at]);
            self.end();
            rest = &rest[at + 1..];
            lines += 1;
            if self.fault == Some(ReaderFault::LinesPerRead(lines)) {
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
        if self.line.len() > self.longest {
            self.skipping = true;
            self.line.truncate(KEPT);
            self.line.shrink_to_fit();
        }
    }

    fn end(&mut self) {
        let line = self.taken();
        match std::mem::take(&mut self.skipping) {
            true => self.found.push_back(InputLine::TooLong(line)),
            false if self.fault == Some(ReaderFault::SplitsAtUnicode) => {
                let text = String::from_utf8_lossy(&line);
                let parts = text.split(['\u{2028}', '\u{2029}', '\u{85}', '\u{b}', '\u{c}']);
                self.found
                    .extend(parts.map(|part| InputLine::Whole(part.as_bytes().to_vec())));
            }
            false => self.found.push_back(InputLine::Whole(line)),
        }
    }

    /// The text after the last LF is a line too, if it parses ([frame.7]).
    fn finish(&mut self) {
        self.ended = true;
        if self.skipping {
            self.end();
        } else if !self.line.is_empty() {
            let line = self.taken();
            self.found.push_back(InputLine::Unended(line));
        }
    }

    fn taken(&mut self) -> Vec<u8> {
        let mut line = std::mem::take(&mut self.line);
        if !self.begun && self.fault != Some(ReaderFault::KeepsBom) && line.starts_with(BOM) {
            line.drain(..BOM.len());
        }
        self.begun = true;
        line
    }
}

impl<R: Read> Iterator for LineReader<R> {
    type Item = io::Result<InputLine>;

    /// Returns the next line; `None` at the end of the input. An error means that the pipe cannot
    /// be read.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(line) = self.found.pop_front() {
                return Some(Ok(line));
            }
            if self.ended {
                return None;
            }
            match self.pipe.read(&mut self.chunk) {
                Ok(0) => self.finish(),
                Ok(length) => self.take(length),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pieces<'a>(VecDeque<&'a [u8]>);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let Some(piece) = self.0.front_mut() else {
                return Ok(0);
            };
            let read = piece.read(into)?;
            if piece.is_empty() {
                self.0.pop_front();
            }
            Ok(read)
        }
    }

    fn lines(pieces: &[&[u8]]) -> Vec<InputLine> {
        let lines = LineReader::new(Pieces(pieces.iter().copied().collect()), LONGEST, None);
        lines.map(Result::unwrap).collect()
    }

    #[test]
    fn chunks_make_no_difference() {
        let text = "\u{feff}{\"a\":\"\u{2028}😀\"}\r\n\nend\nrest".as_bytes();
        let whole = lines(&[text]);
        let single: Vec<_> = text.chunks(1).collect();
        assert_eq!(whole, lines(&single));
        let told = whole
            .iter()
            .map(|line| String::from_utf8_lossy(line.bytes()))
            .collect::<Vec<_>>();
        assert_eq!(told, ["{\"a\":\"\u{2028}😀\"}\r", "", "end", "rest"]);
        assert_eq!(whole[3], InputLine::Unended(b"rest".to_vec()));
    }

    #[test]
    fn a_line_over_the_limit_costs_itself_alone() {
        let long = vec![b'x'; LONGEST + 1];
        let found = lines(&[b"a\n", &long, b"\nb\n"]);
        assert_eq!(
            (&found[0], &found[2]),
            (
                &InputLine::Whole(b"a".to_vec()),
                &InputLine::Whole(b"b".to_vec())
            )
        );
        assert_eq!(found[1], InputLine::TooLong(vec![b'x'; KEPT]));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_line_of_the_limit_is_whole() {
        let long = vec![b'x'; LONGEST];
        assert_eq!(lines(&[&long, b"\n"]), [InputLine::Whole(long.clone())]);
    }
}
