//! Copying, while somebody watches that something moves.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};

use super::connection::READ;

/// When something last moved, in either direction.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    /// Milliseconds after `start`.
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
        self.last.store(passed, Ordering::Relaxed);
    }

    /// Waits until nothing has moved for `limit`.
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

/// Which end of a copy broke.
#[derive(Debug)]
pub(super) enum Broke {
    Reading(io::Error),
    Writing(io::Error),
}

/// Copies at most `limit` bytes, or to the end; says how many.
pub(super) async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    limit: u64,
    activity: &Activity,
) -> Result<u64, Broke> {
    let mut buffer = vec![0; READ];
    let mut copied = 0;
    while copied < limit {
        let room = usize::try_from(limit - copied).unwrap_or(READ).min(READ);
        let count = match buffer.get_mut(..room) {
            Some(room) => from.read(room).await.map_err(Broke::Reading)?,
            None => 0,
        };
        if count == 0 {
            break;
        }
        activity.note();
        write(to, buffer.get(..count).unwrap_or_default(), activity)
            .await
            .map_err(Broke::Writing)?;
        copied += count as u64;
    }
    Ok(copied)
}

/// Writes all of `bytes`; each part that goes counts as movement.
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
