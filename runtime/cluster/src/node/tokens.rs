//! Tokens: what is made and revoked at one host is so at each.

use std::{future::pending, io, sync::Arc, time::Duration};

use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use trunkline_gateway::TokenFile;

use super::{Node, SharedNode};
use crate::{
    blocking, lock,
    placement::jitter,
    store::{Change, NotKept, Space},
};

/// Interval between checks whether the file has changed.
const LOOK: Duration = Duration::from_millis(250);

/// First delay before a retry; it doubles each time.
const AGAIN: Duration = Duration::from_millis(250);
const AGAIN_MOST: Duration = Duration::from_secs(5);

/// Limit of attempts while others write at the same time.
const TRIES: usize = 16;

/// Under which key all of them are: two that change them at the same time change one after the other.
const KEY: &str = "all";

impl Node {
    /// Shares the tokens of this daemon's file with the other hosts, as long as the node lives.
    /// When it resolves, the file has what was made and revoked at them.
    ///
    /// # Errors
    /// Why they cannot be compared.
    ///
    /// # Cancel safety
    /// Dropped, they may or may not be shared once, and are not from then on.
    pub async fn share_tokens(&self, file: TokenFile) -> Result<(), String> {
        self.shared.compare_tokens(&file).await?;
        lock(&self.shared.tasks).spawn(self.shared.clone().watch_tokens(file));
        Ok(())
    }
}

impl SharedNode {
    async fn compare_tokens(&self, file: &TokenFile) -> Result<(), String> {
        for n in 0..TRIES {
            let kept = self.store.last(Space::Tokens, KEY).await?;
            let number = kept.as_ref().map_or(0, |kept| kept.number);
            let shared = kept
                .map(|kept| kept.bytes)
                .filter(|bytes| !bytes.is_empty());
            let file = file.clone();
            let compared =
                blocking(move || file.compare(shared.as_deref()).map_err(io::Error::other));
            let compared = compared.await.map_err(|error| error.to_string())?;
            if let Some(put) = compared.put.clone() {
                match self.store.put(Space::Tokens, KEY, number, put.into()).await {
                    Ok(_) => {}
                    Err(NotKept::Other | NotKept::Unknown(_)) => {
                        sleep(jitter(&self.at.host, n as u64, LOOK)).await;
                        continue;
                    }
                    Err(why) => return Err(why.to_string()),
                }
            }
            let settled = blocking(move || compared.apply().map_err(io::Error::other)).await;
            return settled.map_err(|error| error.to_string());
        }
        Err("others write at the same time".to_owned())
    }

    async fn watch_tokens(self: Arc<Self>, file: TokenFile) {
        let mut changes = None;
        let mut is_due = true;
        let mut tries = 0;
        let mut seen = file.version();
        loop {
            if changes.is_none() {
                // Changes that happened without a watch are found by a read.
                changes = self.store.watch(Space::Tokens).await.ok();
                is_due = true;
            }
            let mut wait = LOOK;
            if is_due {
                // Before it is compared: what changes meanwhile is looked at again.
                seen = file.version();
                match self.compare_tokens(&file).await {
                    Ok(()) => (is_due, tries) = (false, 0),
                    Err(why) => {
                        if tries == 0 {
                            tracing::warn!("tokens are judged by what this host knows: {why}");
                        }
                        wait = AGAIN_MOST.min(AGAIN * 2_u32.pow(tries.min(8)));
                        wait += jitter(&self.at.host, tries.into(), wait);
                        tries = tries.saturating_add(1);
                    }
                }
            }
            match timeout(wait, next(&mut changes)).await {
                Ok(Some(_)) => is_due = true,
                Ok(None) => changes = None,
                Err(_) => is_due |= file.version() != seen,
            }
        }
    }
}

/// Returns the next change. Never resolves without a watch.
async fn next(changes: &mut Option<mpsc::Receiver<Change>>) -> Option<Change> {
    match changes {
        Some(changes) => changes.recv().await,
        None => pending().await,
    }
}
