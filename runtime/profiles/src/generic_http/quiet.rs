//! Waiting for a server, and not forever.

use std::{future::Future, time::Duration};

use tokio::time::timeout;

/// Waits for something as long as is allowed; past that, says how long that was.
pub(super) async fn within<T>(
    longest: Option<Duration>,
    work: impl Future<Output = T>,
) -> Result<T, humantime::FormattedDuration> {
    match longest {
        None => Ok(work.await),
        Some(longest) => timeout(longest, work)
            .await
            .map_err(|_| humantime::format_duration(longest)),
    }
}
