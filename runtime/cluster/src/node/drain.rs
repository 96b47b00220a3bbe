//! Drains a host: its sessions move to other hosts, in order.

use std::{
    collections::{BTreeSet, HashSet},
    io,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use trunkline_protocol::{
    Envelope, HostBody, HostMessage, SessionAttach, SessionId, Stop, StopReason,
};
use trunkline_sessions::Sessions;

use super::{Node, SharedNode, letters::LetterReply};
use crate::{
    ownership,
    placement::heir,
    recorded::forget,
    row::Row,
    store::{Space, key_of},
};

/// Interval between checks whether a session can move.
const LOOK: Duration = Duration::from_millis(100);

/// Time for turns that were stopped at the deadline to end.
const ENDS: Duration = Duration::from_secs(5);

/// Result of a drain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drained {
    /// Number of moved sessions.
    pub moved: usize,
    /// Sessions that stay, because no other host has their storage and configuration.
    pub stay: Vec<String>,
    /// Sessions with open work after their turns were stopped.
    pub busy: Vec<String>,
}

impl SharedNode {
    /// Begins to drain.
    ///
    /// # Errors
    /// When that was asked too often.
    pub(super) fn begin_drain(self: &Arc<Self>, deadline: Duration) -> Result<(), String> {
        let turn = self.drains.clone().try_acquire_owned();
        let turn = turn
            .map_err(|_| "this host is draining already; its deadline stays as it is".to_owned())?;
        let this = self.clone();
        tokio::spawn(async move {
            this.drain(deadline).await;
            drop(turn);
        });
        Ok(())
    }

    /// Takes no further sessions, and moves those that there are as soon as no turn is open in
    /// them. At the deadline turns that are open are stopped.
    pub(super) async fn drain(self: Arc<Self>, deadline: Duration) -> Drained {
        self.is_draining.send_replace(true);
        let until = Instant::now() + deadline;
        let mut drained = Drained::default();
        let mut stay = BTreeSet::new();
        loop {
            let Some(sessions) = self.sessions() else {
                return drained;
            };
            let left: Vec<_> = sessions
                .owned()
                .into_iter()
                .filter(|owned| !stay.contains(owned.id.as_str()))
                .collect();
            for owned in left.iter().filter(|owned| !owned.is_busy) {
                match self.hand_over(&owned.id).await {
                    Ok(true) => drained.moved += 1,
                    Ok(false) => drop(stay.insert(owned.id.as_str().to_owned())),
                    Err(why) => {
                        tracing::debug!(session = %owned.id, "the session did not move: {why}")
                    }
                }
            }
            if Instant::now() >= until {
                for owned in left.iter().filter(|owned| owned.is_busy) {
                    stop(sessions, &owned.id).await;
                }
            }
            if left.is_empty() || Instant::now() >= until + ENDS {
                // The others learn at once what is left.
                self.is_draining.send_replace(true);
                drained.stay = stay.into_iter().collect();
                drained.busy = left
                    .into_iter()
                    .filter(|owned| owned.is_busy)
                    .map(|owned| owned.id.as_str().to_owned())
                    .collect();
                return drained;
            }
            sleep(LOOK).await;
        }
    }

    /// Moves one session to another host. `false` where no other may have it.
    async fn hand_over(&self, id: &SessionId) -> Result<bool, String> {
        let _leaving = Leaving::new(&self.leaving, id).ok_or("it is being handed over already")?;
        let Some(read) = self.read(id).await? else {
            return Ok(false);
        };
        let alive = self.alive();
        let others = alive.iter().filter(|host| host.host != self.at.host);
        let Some(to) = heir(&read.row, others) else {
            return Ok(false);
        };
        let Some(sessions) = self.sessions() else {
            return Ok(false);
        };
        sessions
            .hand_over(id)
            .await
            .map_err(|error| error.to_string())?;
        self.keeper.end(id);
        let key = key_of(id.as_str());
        let row = ownership::freed(&read.row);
        let freed = self
            .store
            .put(Space::Sessions, &key, read.number, row.to_bytes())
            .await;
        freed.map_err(|error| error.to_string())?;
        forget(&*self.store, &self.at.host, &key).await;
        match self.take_at(to, id, false).await {
            Ok(LetterReply::Done) => {}
            // Who looks for it has it taken over.
            Ok(answer) => {
                tracing::warn!(session = %id, host = to, ?answer, "the session is not taken over yet")
            }
            Err(error) => {
                tracing::warn!(session = %id, host = to, "the session is not taken over yet: {error}")
            }
        }
        Ok(true)
    }
}

/// A session that is being handed over: who looks for it waits until that is dropped.
struct Leaving<'a> {
    all: &'a watch::Sender<HashSet<SessionId>>,
    id: &'a SessionId,
}

impl<'a> Leaving<'a> {
    fn new(all: &'a watch::Sender<HashSet<SessionId>>, id: &'a SessionId) -> Option<Self> {
        all.send_if_modified(|all| all.insert(id.clone()))
            .then_some(Self { all, id })
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.all.send_modify(|all| {
            all.remove(self.id);
        });
    }
}

/// Stops the turns of a session, those that wait before the one that runs.
async fn stop(sessions: &Sessions, id: &SessionId) {
    let Ok((now, listener)) = sessions.attach(id, &SessionAttach::default()).await else {
        return;
    };
    for turn in now.queued.into_iter().flatten().chain(now.turn_id) {
        let stop = Stop {
            reason: Some(StopReason::Shutdown),
        };
        let message = Envelope::new(id.clone(), HostBody::Stop(stop));
        let message = HostMessage {
            turn_id: Some(turn),
            ..message
        };
        // Gone, it needs none.
        let _ = listener.sender().send(message).await;
    }
}

impl Node {
    /// Empties this host: it takes no further sessions, and those it has move to others as soon as
    /// no turn is open in them. Turns that are open at the deadline are stopped, with the reason
    /// `shutdown`, and have 5 s to end.
    pub async fn drain(&self, deadline: Duration) -> Drained {
        self.shared.clone().drain(deadline).await
    }

    /// Has another host emptied.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn drain_other(&self, host: &str, deadline: Duration) -> io::Result<()> {
        match self.shared.drain_at(host, deadline).await? {
            LetterReply::Done => Ok(()),
            answer => Err(io::Error::other(format!("{answer:?}"))),
        }
    }
}
