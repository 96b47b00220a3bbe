//! Reading a child's standard error to its own end, within bounded memory.

mod lines;
mod tail;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;
use trunkline_redact as redact;

use crate::pipe::read_held;
use crate::stderr::lines::LineCutter;

pub use crate::stderr::lines::{MAX_STDERR_LINE, StderrLine};
pub use crate::stderr::tail::{STDERR_TAIL, StderrTail};

/// Bytes taken by one read.
const CHUNK: usize = 16 * 1024;

/// Drains a child's standard error: into a [`StderrTail`], and line by line to a callback.
///
/// Secrets are hidden on the way ([`redact`]), so an unfinished line is in neither until it ends.
///
/// Runs beside everything else, so that no amount of noise ever blocks the child. A task typically
/// awaits [`StderrDrain::run`] until it returns or the child has ended, and then
/// [`StderrDrain::finish`]; only then is the tail complete and fit for a report.
///
/// The callback must not block. It gets every line, the last unfinished one included, in order, cut
/// at
/// [`MAX_STDERR_LINE`].
#[derive(Debug)]
pub struct StderrDrain<R> {
    reader: R,
    chunk: Box<[u8]>,
    redacted: redact::Stream,
    tail: StderrTail,
    lines: LineCutter,
    state: DrainState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrainState {
    Open,
    Ended,
}

impl<R> StderrDrain<R> {
    /// Makes a drain that has read nothing yet.
    pub fn new(reader: R, tail: StderrTail) -> Self {
        let chunk = vec![0; CHUNK].into_boxed_slice();
        let redacted = redact::Stream::default();
        let lines = LineCutter::default();
        Self {
            reader,
            chunk,
            redacted,
            tail,
            lines,
            state: DrainState::Open,
        }
    }

    /// Takes the last unfinished line, once.
    fn end(&mut self, on_line: &mut impl FnMut(StderrLine<'_>)) {
        if self.state == DrainState::Open {
            self.state = DrainState::Ended;
            let tail = &self.tail;
            let lines = &mut self.lines;
            self.redacted.finish(|shown| {
                tail.keep(shown);
                lines.push(shown, on_line);
            });
            lines.end(on_line);
        }
    }
}

impl<R: AsyncRead + Unpin> StderrDrain<R> {
    /// Reads until every process that holds the pipe has closed it.
    ///
    /// # Errors
    ///
    /// The pipe cannot be read; this ends it as well.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no byte is lost, and the next call continues.
    pub async fn run(&mut self, mut on_line: impl FnMut(StderrLine<'_>)) -> io::Result<()> {
        while self.state == DrainState::Open {
            match self.reader.read(&mut self.chunk).await {
                Ok(0) => self.end(&mut on_line),
                Ok(count) => {
                    let tail = &self.tail;
                    let lines = &mut self.lines;
                    tail.count(count);
                    self.redacted.push(&self.chunk[..count], |shown| {
                        tail.keep(shown);
                        lines.push(shown, &mut on_line);
                    });
                }
                Err(error) => {
                    self.end(&mut on_line);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl<R: AsyncRead + AsFd + Unpin> StderrDrain<R> {
    /// Ends the reading after the child has ended: waits for the end of the pipe for at most
    /// `grace`, then takes what the pipe holds at that moment, and stops.
    ///
    /// Everything that the child itself wrote is in the tail then, even while a descendant holds
    /// the pipe open.
    ///
    /// # Errors
    ///
    /// When the pipe cannot be read; what was read before is in the tail.
    ///
    /// # Cancel safety
    ///
    /// The tail keeps what was read.
    pub async fn finish(
        mut self,
        grace: Duration,
        mut on_line: impl FnMut(StderrLine<'_>),
    ) -> io::Result<()> {
        if let Ok(ended) = timeout(grace, self.run(&mut on_line)).await {
            return ended;
        }
        let tail = &self.tail;
        let lines = &mut self.lines;
        let taken = read_held(&self.reader, |bytes| {
            tail.count(bytes.len());
            self.redacted.push(bytes, |shown| {
                tail.keep(shown);
                lines.push(shown, &mut on_line);
            });
        });
        self.end(&mut on_line);
        taken.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn a_cancelled_run_goes_on_where_it_was() {
        let (mut child, host) = tokio::io::duplex(64);
        let mut drain = StderrDrain::new(host, StderrTail::default());
        let mut lines = Vec::new();

        child.write_all(b"one\ntw").await.unwrap();
        tokio::select! {
            biased;
            _ = drain.run(|line| lines.push(line.text.into_owned())) => panic!("the pipe is open"),
            () = tokio::task::yield_now() => {}
        }
        child.write_all(b"o\nthree").await.unwrap();
        drop(child);
        drain
            .run(|line| lines.push(line.text.into_owned()))
            .await
            .unwrap();
        assert_eq!(lines, ["one", "two", "three"]);
        assert_eq!(drain.tail.text(), "one\ntwo\nthree");

        drain
            .run(|line| lines.push(line.text.into_owned()))
            .await
            .unwrap();
        assert_eq!(lines.len(), 3, "an end is an end");
    }

    #[tokio::test]
    async fn a_secret_that_comes_in_two_reads_is_in_no_line_and_not_in_the_tail() {
        let secret = "a-secret-of-the-stderr-test";
        redact::register("STDERR_TEST", secret);
        let (mut child, host) = tokio::io::duplex(8192);
        let mut drain = StderrDrain::new(host, StderrTail::default());
        let mut lines = Vec::new();
        // The second secret is at the position of a long line's cut, which would leave its
        // beginning.
        let long = "x".repeat(MAX_STDERR_LINE - 5);
        let text = format!("key {secret}\n{long}{secret}\n{secret}");
        let writer = tokio::spawn(async move {
            for part in text.as_bytes().chunks(13) {
                child.write_all(part).await.unwrap();
                child.flush().await.unwrap();
                tokio::task::yield_now().await;
            }
            text.len() as u64
        });
        drain
            .run(|line| lines.push(line.text.into_owned()))
            .await
            .unwrap();
        let written = writer.await.unwrap();

        assert_eq!(lines[0], "key [REDACTED:STDERR_TEST]");
        assert_eq!(lines[1], format!("{long}[REDA"));
        assert_eq!(lines[2], "[REDACTED:STDERR_TEST]");
        assert!(!drain.tail.text().contains("a-sec"));
        assert_eq!(
            drain.tail.total_bytes(),
            written,
            "what the child wrote is counted, not what is shown"
        );
    }
}
