//! Saying that quiet work goes on.

use std::{future::Future, pin::pin, time::Duration};

use tokio::time::sleep;
use trunkline_sdk::Turn;

/// How often quiet work says that it goes on.
const WORKING: Duration = Duration::from_secs(10);

/// Waits for something, and says meanwhile that the turn is alive, so that no host takes it for a stall.
pub(crate) async fn while_working<T>(turn: &Turn, work: impl Future<Output = T>) -> T {
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
