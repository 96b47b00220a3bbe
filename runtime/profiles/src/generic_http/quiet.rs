//! Waits for a server, with an end.

use std::{future::Future, time::Duration};

use trunkline_sdk::protocol::format_duration;

use crate::agent::deadlines;

/// Waits for something as long as is allowed; after that, returns that time as text.
pub(super) async fn within<T>(
    longest: Option<Duration>,
    work: impl Future<Output = T>,
) -> Result<T, String> {
    match longest {
        None => Ok(work.await),
        Some(longest) => deadlines::within(longest, work)
            .await
            .ok_or_else(|| format_duration(longest)),
    }
}
