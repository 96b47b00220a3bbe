//! Reading a log back.

use std::io::{self, BufRead};

use crate::Record;

/// The longest line of a log that is read. No log has a longer one.
const LONGEST_RECORD: usize = 16 * 1024 * 1024;

/// A line of a log.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A record.
    Record(Record),
    /// A line that is not a record: cut by the end of the process or a full disk, or of another
    /// file.
    Unreadable {
        /// Line number, from 1.
        line: u64,
        /// Cause.
        reason: String,
        /// The text, at most 200 bytes.
        text: String,
    },
}

/// Reads a log line by line.
///
/// A last line without an LF is held until it is complete, so that a log can be followed while it
/// is written: [`Reader::next`] continues at the same position. [`Reader::finish`] returns the
/// rest.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    line: u64,
    rest: Vec<u8>,
    /// The line under way is too long, and passed over.
    is_too_long: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads from here.
    pub fn new(from: R) -> Self {
        Self {
            from,
            line: 0,
            rest: Vec::new(),
            is_too_long: false,
        }
    }

    /// Returns the next complete entry, or `None` at the end of the file. Blank lines are skipped.
    ///
    /// # Errors
    /// The log cannot be read.
    #[expect(
        clippy::should_implement_trait,
        reason = "the end is not the end of a log that is still written"
    )]
    pub fn next(&mut self) -> io::Result<Option<Entry>> {
        loop {
            let available = self.from.fill_buf()?;
            if available.is_empty() {
                return Ok(None);
            }
            let end = memchr::memchr(b'\n', available);
            let taken = end.map_or(available.len(), |end| end + 1);
            if self.rest.len() + taken <= LONGEST_RECORD {
                self.rest.extend_from_slice(&available[..taken]);
            } else {
                self.is_too_long = true;
            }
            self.from.consume(taken);
            if end.is_some()
                && let Some(entry) = self.entry()
            {
                return Ok(Some(entry));
            }
        }
    }

    /// Returns the text behind the last LF.
    pub fn finish(&mut self) -> Option<Entry> {
        self.entry()
    }

    fn entry(&mut self) -> Option<Entry> {
        self.line += 1;
        let line = std::mem::take(&mut self.rest);
        let is_too_long = std::mem::take(&mut self.is_too_long);
        if line.trim_ascii().is_empty() {
            return None;
        }
        let reason = match serde_json::from_slice(&line) {
            Ok(record) if !is_too_long => return Some(Entry::Record(record)),
            Ok(_) => "it is too long".to_owned(),
            Err(_) if is_too_long => "it is too long".to_owned(),
            Err(error) if !line.ends_with(b"\n") => format!("it is cut: {error}"),
            Err(error) => error.to_string(),
        };
        let text = String::from_utf8_lossy(&line[..line.len().min(200)])
            .trim_end()
            .to_owned();
        Some(Entry::Unreadable {
            line: self.line,
            reason,
            text,
        })
    }
}
