//! Waiting for a server: saying that quiet work goes on, and not for ever.

use std::{future::Future, pin::pin, time::Duration};

use tokio::time::{sleep, timeout};
use trunkline_sdk::Turn;

/// How often quiet work says that it goes on.
const WORKING: Duration = Duration::from_secs(10);

/// Waits for something, and says meanwhile that the turn is alive, so that no host takes it for a stall.
pub(super) async fn while_working<T>(turn: &Turn, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep(WORKING) => {}
        }
        // The work goes on while the message waits for room.
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = turn.working() => {}
        }
    }
}

/// Waits for something as long as is allowed; past that, says how long that was.
pub(super) async fn within<T>(
    longest: Option<Duration>,
    work: impl Future<Output = T>,
) -> Result<T, humantime::FormattedDuration> {
    match longest {
        None => Ok(work.await),
        Some(longest) => timeout(longest, work).await.map_err(|_| humantime::format_duration(longest)),
    }
}
