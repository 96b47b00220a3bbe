//! Lines of an agent's stdout, each within a bound.

use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::json_size::is_crowded;

/// Bytes asked for by one read.
const CHUNK: usize = 64 * 1024;

/// Item of a stream of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AgentLine {
    /// A line without its end; CR before LF is gone too. The last line may lack its LF.
    Whole(Bytes),
    /// A line of this many bytes is left out: it is longer than the bound, or holds more JSON
    /// values than any message needs.
    TooLong(u64),
}

/// Cuts a stream into lines. A line above the bound costs itself only, and no more memory than the bound.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    buffer: BytesMut,
    /// Up to here the buffer holds no LF.
    searched: usize,
    /// Bytes of the line that is being left out.
    skipped: Option<u64>,
    max: usize,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R, max: usize) -> Self {
        Self {
            reader,
            buffer: BytesMut::new(),
            searched: 0,
            skipped: None,
            max,
            ended: false,
        }
    }

    /// The next line; nothing after the end.
    ///
    /// # Cancel safety
    /// No byte is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> io::Result<Option<AgentLine>> {
        loop {
            if let Some(line) = self.cut() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            self.buffer.reserve(CHUNK);
            self.ended = self.reader.read_buf(&mut self.buffer).await? == 0;
        }
    }

    /// Returns true if the end has arrived with nothing before it, as far as is known without
    /// waiting. Arriving data is kept.
    pub(crate) fn has_ended(&mut self) -> bool {
        while !self.ended && self.buffer.len() < CHUNK {
            self.buffer.reserve(CHUNK);
            match self.reader.read_buf(&mut self.buffer).now_or_never() {
                Some(Ok(0) | Err(_)) => self.ended = true,
                Some(Ok(_)) => {}
                None => break,
            }
        }
        self.ended && self.buffer.is_empty() && self.skipped.is_none()
    }

    fn cut(&mut self) -> Option<AgentLine> {
        if let Some(at) = memchr(b'\n', &self.buffer[self.searched..]) {
            let at = self.searched + at;
            self.searched = 0;
            let mut line = self.buffer.split_to(at + 1).freeze();
            line.truncate(at);
            return Some(self.whole(line));
        }
        self.searched = self.buffer.len();
        if self.searched > self.max || self.skipped.is_some() {
            *self.skipped.get_or_insert(0) += self.buffer.len() as u64;
            // The room of a giant is not kept.
            self.buffer = BytesMut::new();
            self.searched = 0;
        }
        if self.ended && (!self.buffer.is_empty() || self.skipped.is_some()) {
            self.searched = 0;
            let rest = self.buffer.split().freeze();
            return Some(self.whole(rest));
        }
        None
    }

    fn whole(&mut self, mut line: Bytes) -> AgentLine {
        if let Some(skipped) = self.skipped.take() {
            return AgentLine::TooLong(skipped + line.len() as u64);
        }
        if line.len() > self.max || is_crowded(&line) {
            return AgentLine::TooLong(line.len() as u64);
        }
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        AgentLine::Whole(line)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn all(input: &[u8], max: usize) -> Vec<AgentLine> {
        let mut lines = Lines::new(input, max);
        let mut got = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            got.push(line);
        }
        got
    }

    fn whole(text: &'static str) -> AgentLine {
        AgentLine::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn lines_end_at_lf_and_the_last_one_at_the_end() {
        assert_eq!(
            all(b"a\r\n\nb\rc\nlast", 10).await,
            [whole("a"), whole(""), whole("b\rc"), whole("last")]
        );
        assert_eq!(all(b"", 10).await, []);
    }

    #[tokio::test]
    async fn an_end_is_seen_without_waiting_and_costs_no_line() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let mut lines = Lines::new(reader, 10);
        assert!(!lines.has_ended());
        writer.write_all(b"a\nb").await.unwrap();
        assert!(!lines.has_ended());
        drop(writer);
        assert!(!lines.has_ended(), "two lines are left");
        assert_eq!(lines.next().await.unwrap(), Some(whole("a")));
        assert_eq!(lines.next().await.unwrap(), Some(whole("b")));
        assert!(lines.has_ended());
    }

    #[tokio::test]
    async fn a_long_line_costs_itself_only() {
        let mut input = vec![b'x'; 3 * CHUNK];
        input.extend_from_slice(b"\nnext\n");
        assert_eq!(
            all(&input, 100).await,
            [AgentLine::TooLong(3 * CHUNK as u64), whole("next")]
        );
        assert_eq!(
            all(b"12345\n123456\n", 5).await,
            [whole("12345"), AgentLine::TooLong(6)]
        );
        assert_eq!(
            all(&vec![b'x'; 200_000], 100).await,
            [AgentLine::TooLong(200_000)]
        );
    }

    #[tokio::test]
    async fn a_line_of_countless_values_is_too_long() {
        let mut input = vec![b'['];
        input.extend(b"0,".repeat(1 << 20));
        input.extend_from_slice(b"0]\nnext\n");
        let length = input.len() as u64 - 6;
        assert_eq!(
            all(&input, usize::MAX).await,
            [AgentLine::TooLong(length), whole("next")]
        );
    }
}
