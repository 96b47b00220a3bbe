//! The last words of a child.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Default length of the kept end of standard error, in bytes.
pub const STDERR_TAIL: usize = 64 * 1024;

/// The end of a child's standard error, bounded, readable at any time.
///
/// Clones share it. What is older than the last `limit` bytes is forgotten.
#[derive(Debug, Clone)]
pub struct StderrTail {
    kept: Arc<Mutex<TailBuffer>>,
    limit: usize,
}

#[derive(Debug, Default)]
struct TailBuffer {
    bytes: VecDeque<u8>,
    total: u64,
    /// The byte before `bytes`, when one was forgotten: a newline means that the first kept line is whole.
    before: Option<u8>,
}

impl Default for StderrTail {
    /// Keeps [`STDERR_TAIL`] bytes.
    fn default() -> Self {
        Self::new(STDERR_TAIL)
    }
}

impl StderrTail {
    /// Keeps the last `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            kept: Arc::default(),
            limit,
        }
    }

    /// Adds bytes as they come.
    pub fn push(&self, bytes: &[u8]) {
        self.count(bytes.len());
        self.keep(bytes);
    }

    /// Counts bytes that the child wrote.
    pub(super) fn count(&self, bytes: usize) {
        self.lock().total += bytes as u64;
    }

    /// Keeps what may be shown of them.
    pub(super) fn keep(&self, bytes: &[u8]) {
        let mut kept = self.lock();
        let new = &bytes[bytes.len().saturating_sub(self.limit)..];
        let forgotten = (kept.bytes.len() + new.len()).saturating_sub(self.limit);
        if let Some(last) = forgotten.checked_sub(1) {
            kept.before = kept.bytes.get(last).copied();
            kept.bytes.drain(..forgotten);
        }
        if let Some(last) = (bytes.len() - new.len()).checked_sub(1) {
            kept.before = Some(bytes[last]);
        }
        kept.bytes.extend(new);
    }

    /// The kept end as text; bytes that are not UTF-8 are replaced.
    ///
    /// Begins with a whole line where there is one: of a first line whose beginning was forgotten nothing is
    /// shown, unless it is all there is.
    #[must_use]
    pub fn text(&self) -> String {
        let mut kept = self.lock();
        let starts_inside = kept.before.is_some_and(|byte| byte != b'\n');
        let bytes: &[u8] = kept.bytes.make_contiguous();
        let first_whole = bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .map(|newline| &bytes[newline + 1..]);
        let shown = match first_whole {
            Some(rest) if starts_inside && !rest.is_empty() => rest,
            Some(_) | None => bytes,
        };
        String::from_utf8_lossy(shown).into_owned()
    }

    /// Returns the number of bytes that the child has written so far, including forgotten ones.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.lock().total
    }

    fn lock(&self) -> MutexGuard<'_, TailBuffer> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_on_whole_lines() {
        for (limit, chunks, text) in [
            (10, &["one\n", "two\n"][..], "one\ntwo\n"),
            (10, &["one\n", "two\n", "three\n"], "two\nthree\n"),
            (9, &["one\n", "two\n", "three\n"], "three\n"),
            (8, &["one\ntwo\nthree\n"], "three\n"),
            (6, &["one\ntwo\nthree\n"], "three\n"),
            (4, &["one\ntwo\nthree\n"], "ree\n"),
            (4, &["abc", "def", "ghi"], "fghi"),
            (4, &["abcdefghi", ""], "fghi"),
            (0, &["one\n"], ""),
        ] {
            let tail = StderrTail::new(limit);
            for chunk in chunks {
                tail.push(chunk.as_bytes());
            }
            assert_eq!(tail.text(), text, "{limit} bytes of {chunks:?}");
            assert_eq!(tail.total_bytes(), chunks.concat().len() as u64);
        }
    }

    #[test]
    fn clones_see_the_same_end() {
        let tail = StderrTail::default();
        let reader = tail.clone();
        tail.push(b"caf\xe9");
        assert_eq!(reader.text(), "caf\u{fffd}");
    }
}
