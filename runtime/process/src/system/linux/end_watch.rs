//! Waiting for the end of a process.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

/// A pidfd that the current runtime watches: readable once its process has ended.
#[derive(Debug)]
pub(crate) struct EndWatch(AsyncFd<Arc<OwnedFd>>);

impl EndWatch {
    pub(crate) fn new(pidfd: Arc<OwnedFd>) -> io::Result<Self> {
        // SAFETY: the `Arc` keeps the descriptor open for as long as the watch lives, and an
        // `OwnedFd` behind a shared pointer cannot be exchanged for another.
        Ok(Self(unsafe {
            AsyncFd::register_with_interest(pidfd, Interest::READABLE)
        }?))
    }

    /// Ready when the process has ended; wakes the last that polled. Fails only when the runtime shuts down.
    pub(crate) fn poll_ended(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'_, Arc<OwnedFd>>>> {
        self.0.poll_read_ready(cx)
    }

    /// Cancel-safe. Fails only when the runtime shuts down.
    pub(crate) async fn ended(&self) -> io::Result<AsyncFdReadyGuard<'_, Arc<OwnedFd>>> {
        self.0.readable().await
    }
}
