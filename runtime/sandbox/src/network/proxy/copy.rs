//! Copies of streams, heads and bodies, with the time of the last progress.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};

use super::connection::READ_BYTES;
use crate::network::chunked::ChunkedReader;
use crate::network::head::{BodyFraming, CompleteHead, HeadBuffer, HeadProblem};

/// Time of the last progress in either direction.
#[derive(Debug)]
pub(super) struct CopyProgress {
    start: Instant,
    /// Milliseconds after `start`, at least 1; 0 before the first progress.
    last: AtomicU64,
}

impl CopyProgress {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    pub(super) fn record(&self) {
        let passed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(passed.max(1), Ordering::Relaxed);
    }

    /// Returns true if there was any progress.
    pub(super) fn has_started(&self) -> bool {
        self.last.load(Ordering::Relaxed) > 0
    }

    /// Waits until there was no progress for `limit`.
    pub(super) async fn wait_for_silence(&self, limit: Duration) {
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
pub(super) struct StreamRest<R> {
    pub(super) read_ahead: Vec<u8>,
    pub(super) from: R,
}

impl<R: AsyncRead + Unpin> StreamRest<R> {
    /// Copies a body. The bytes after it stay in `read_ahead`.
    pub(super) async fn copy_body(
        &mut self,
        framing: BodyFraming,
        to: &mut (impl AsyncWrite + Unpin),
        progress: &CopyProgress,
    ) -> Result<(), CopyError> {
        let limit = match framing {
            BodyFraming::Chunked => return self.copy_chunks(to, progress).await,
            BodyFraming::Length(length) => length,
            BodyFraming::UntilClose => u64::MAX,
        };
        let end = usize::try_from(limit).map_or(self.read_ahead.len(), |limit| {
            limit.min(self.read_ahead.len())
        });
        let rest = self.read_ahead.split_off(end);
        let read_ahead = std::mem::replace(&mut self.read_ahead, rest);
        write(to, &read_ahead, progress)
            .await
            .map_err(CopyError::Write)?;
        let left = limit - read_ahead.len() as u64;
        let copied = copy(&mut self.from, to, left, progress).await?;
        if copied < left && framing != BodyFraming::UntilClose {
            return Err(CopyError::Read(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }

    async fn copy_chunks(
        &mut self,
        to: &mut (impl AsyncWrite + Unpin),
        progress: &CopyProgress,
    ) -> Result<(), CopyError> {
        let mut reader = ChunkedReader::default();
        let mut out = Vec::new();
        let mut bytes = std::mem::take(&mut self.read_ahead);
        loop {
            let rest = reader.push(&bytes, &mut out);
            let rest = rest.map_err(|_| CopyError::Malformed)?;
            write(to, &out, progress).await.map_err(CopyError::Write)?;
            if let Some(rest) = rest {
                self.read_ahead = rest.to_vec();
                return Ok(());
            }
            out.clear();
            bytes.resize(READ_BYTES, 0);
            let count = self.from.read(&mut bytes).await.map_err(CopyError::Read)?;
            if count == 0 {
                return Err(CopyError::Read(io::ErrorKind::UnexpectedEof.into()));
            }
            bytes.truncate(count);
            progress.record();
        }
    }

    /// Reads a whole head. The bytes after it stay in `read_ahead`.
    pub(super) async fn read_head(
        &mut self,
        progress: &CopyProgress,
    ) -> Result<Vec<u8>, HeadError> {
        let mut head = HeadBuffer::default();
        let mut bytes = std::mem::take(&mut self.read_ahead);
        loop {
            if let Some(CompleteHead { head, rest }) = head.push(&bytes)? {
                self.read_ahead = rest;
                return Ok(head);
            }
            bytes.resize(READ_BYTES, 0);
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
            progress.record();
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
    progress: &CopyProgress,
) -> Result<u64, CopyError> {
    let mut buffer = vec![0; READ_BYTES];
    let mut copied = 0;
    while copied < limit {
        let room = usize::try_from(limit - copied)
            .unwrap_or(READ_BYTES)
            .min(READ_BYTES);
        let count = match buffer.get_mut(..room) {
            Some(room) => from.read(room).await.map_err(CopyError::Read)?,
            None => 0,
        };
        if count == 0 {
            break;
        }
        progress.record();
        write(to, buffer.get(..count).unwrap_or_default(), progress)
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
    progress: &CopyProgress,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = to.write(bytes).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        progress.record();
        bytes = bytes.get(count..).unwrap_or_default();
    }
    Ok(())
}
