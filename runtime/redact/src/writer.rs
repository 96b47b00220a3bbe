//! Hiding secrets in what is written.

use std::io::{self, Write};

use crate::stream::Stream;

/// Writes whole lines with the secrets hidden, by the [`shared`](crate::shared) redactor.
///
/// The unfinished last line waits, in bounded memory, until its end comes, or this is dropped;
/// `flush` does not write it, or a secret could be cut in two.
#[derive(Debug)]
pub struct Writer<W: Write> {
    inner: W,
    stream: Stream,
}

impl<W: Write> Writer<W> {
    /// Writes to `inner`.
    pub fn new(inner: W) -> Self {
        Self {
            inner,
            stream: Stream::default(),
        }
    }
}

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let inner = &mut self.inner;
        let mut done = Ok(());
        self.stream.push(bytes, |shown| {
            if done.is_ok() {
                done = inner.write_all(shown);
            }
        });
        done.map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for Writer<W> {
    fn drop(&mut self) {
        let inner = &mut self.inner;
        self.stream.finish(|shown| {
            // The failure cannot be reported anywhere.
            let _ = inner.write_all(shown);
        });
        let _ = self.inner.flush();
    }
}
