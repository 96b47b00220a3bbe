//! Copies of streams, heads and bodies, with the time of the last progress.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};

use super::connection::READ;
use crate::network::chunked::ChunkedReader;
use crate::network::head::{Framing, HeadBuffer, HeadProblem, Whole};

/// Time of the last progress in either direction.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    /// Milliseconds after `start`, at least 1; 0 before the first progress.
    last: AtomicU64,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    pub(super) fn note(&self) {
        let passed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(passed.max(1), Ordering::Relaxed);
    }

    /// Returns true if there was any progress.
    pub(super) fn is_noted(&self) -> bool {
        self.last.load(Ordering::Relaxed) > 0
    }

    /// Waits until there was no progress for `limit`.
    pub(super) async fn ceases(&self, limit: Duration) {
        loop {
            let due = self.start + Duration::from_millis(self.last.load(Ordering::Relaxed)) + limit;
            if Instant::now() >= due {
                return;
            }
            sleep_until(due).await;
        }
    }
}

/// Failure of a copy.
#[derive(Debug)]
pub(super) enum CopyError {
    Read(io::Error),
    Write(io::Error),
    /// The chunks of a body are malformed.
    Malformed,
}

impl From<CopyError> for io::Error {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Read(error) | CopyError::Write(error) => error,
            CopyError::Malformed => io::ErrorKind::InvalidData.into(),
        }
    }
}

/// The rest of a stream: bytes that were read ahead, and their source.
#[derive(Debug)]
pub(super) struct Rest<R> {
    pub(super) held: Vec<u8>,
    pub(super) from: R,
}

impl<R: AsyncRead + Unpin> Rest<R> {
    /// Copies a body. The bytes after it stay held.
    pub(super) async fn copy_body(
        &mut self,
        framing: Framing,
        to: &mut (impl AsyncWrite + Unpin),
        activity: &Activity,
    ) -> Result<(), CopyError> {
        let limit = match framing {
            Framing::Chunked => return self.copy_chunks(to, activity).await,
            Framing::Length(length) => length,
            Framing::UntilClose => u64::MAX,
        };
        let end =
            usize::try_from(limit).map_or(self.held.len(), |limit| limit.min(self.held.len()));
        let rest = self.held.split_off(end);
        let held = std::mem::replace(&mut self.held, rest);
        write(to, &held, activity).await.map_err(CopyError::Write)?;
        let left = limit - held.len() as u64;
        let copied = copy(&mut self.from, to, left, activity).await?;
        if copied < left && framing != Framing::UntilClose {
            return Err(CopyError::Read(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }

    async fn copy_chunks(
        &mut self,
        to: &mut (impl AsyncWrite + Unpin),
        activity: &Activity,
    ) -> Result<(), CopyError> {
        let mut reader = ChunkedReader::default();
        let mut out = Vec::new();
        let mut bytes = std::mem::take(&mut self.held);
        loop {
            let rest = reader.push(&bytes, &mut out);
            let rest = rest.map_err(|_| CopyError::Malformed)?;
            write(to, &out, activity).await.map_err(CopyError::Write)?;
            if let Some(rest) = rest {
                self.held = rest.to_vec();
                return Ok(());
            }
            out.clear();
            bytes.resize(READ, 0);
            let count = self.from.read(&mut bytes).await.map_err(CopyError::Read)?;
            if count == 0 {
                return Err(CopyError::Read(io::ErrorKind::UnexpectedEof.into()));
            }
            bytes.truncate(count);
            activity.note();
        }
    }

    /// Reads a whole head. The bytes after it stay held.
    pub(super) async fn read_head(&mut self, activity: &Activity) -> Result<Vec<u8>, HeadError> {
        let mut head = HeadBuffer::default();
        let mut bytes = std::mem::take(&mut self.held);
        loop {
            if let Some(Whole { head, rest }) = head.push(&bytes)? {
                self.held = rest;
                return Ok(head);
            }
            bytes.resize(READ, 0);
            let read = self.from.read(&mut bytes).await;
            bytes.truncate(*read.as_ref().unwrap_or(&0));
            if bytes.is_empty() {
                let error = read.err().unwrap_or(io::ErrorKind::UnexpectedEof.into());
                return Err(if head.is_empty() {
                    HeadError::Missing(error)
                } else {
                    HeadError::Cut(error)
                });
            }
            activity.note();
        }
    }
}

/// Failure to read a head.
#[derive(Debug)]
pub(super) enum HeadError {
    /// The stream ended before the first byte.
    Missing(io::Error),
    Cut(io::Error),
    Problem(HeadProblem),
}

impl From<HeadProblem> for HeadError {
    fn from(problem: HeadProblem) -> Self {
        Self::Problem(problem)
    }
}

/// Copies at most `limit` bytes, or to the end. Returns their number.
pub(super) async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    limit: u64,
    activity: &Activity,
) -> Result<u64, CopyError> {
    let mut buffer = vec![0; READ];
    let mut copied = 0;
    while copied < limit {
        let room = usize::try_from(limit - copied).unwrap_or(READ).min(READ);
        let count = match buffer.get_mut(..room) {
            Some(room) => from.read(room).await.map_err(CopyError::Read)?,
            None => 0,
        };
        if count == 0 {
            break;
        }
        activity.note();
        write(to, buffer.get(..count).unwrap_or_default(), activity)
            .await
            .map_err(CopyError::Write)?;
        copied += count as u64;
    }
    Ok(copied)
}

/// Writes all of `bytes`. Each part counts as progress.
pub(super) async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    activity: &Activity,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = to.write(bytes).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        activity.note();
        bytes = bytes.get(count..).unwrap_or_default();
    }
    Ok(())
}
