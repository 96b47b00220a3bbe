//! Takes sessions: new ones, the host's earlier ones, and sessions of hosts that are gone.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use tokio::time::Instant;
use trunkline_process::BootInstant;
use trunkline_protocol::SessionId;
use trunkline_sessions::{AdoptError, NotRecorded};

use super::{SeenHost, SharedNode};
use crate::{
    lock,
    ownership::{self, HostFacts, TakeRefusal},
    placement::{finder, shares},
    recorded::forget,
    row::{OwnershipState, Row, SessionRow},
    store::{NotKept, Space, key_of},
    wire,
};

/// Limit of sessions that are taken at the same time.
pub const AT_ONCE: usize = 8;

/// First delay between searches for the sessions of a host that is gone; it doubles each time.
pub const AGAIN: Duration = Duration::from_secs(1);
/// See [`AGAIN`].
pub const AGAIN_MOST: Duration = Duration::from_secs(4);

/// Limit of attempts while another host writes at the same time.
const TRIES: usize = 5;

/// Error of a session that this host could not take.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotTaken {
    #[error("there is no session with this id")]
    Unknown,
    #[error("{0}")]
    Kept(TakeRefusal),
    #[error("{0}")]
    Failed(String),
}

/// A row as it was read.
pub(super) struct ReadRow {
    pub(super) row: SessionRow,
    pub(super) number: u64,
}

impl SharedNode {
    /// The row of a session.
    pub(super) async fn read(&self, id: &SessionId) -> Result<Option<ReadRow>, String> {
        let kept = self
            .store
            .last(Space::Sessions, &key_of(id.as_str()))
            .await?;
        let Some(kept) = kept.filter(|kept| !kept.bytes.is_empty()) else {
            return Ok(None);
        };
        let row = SessionRow::parse(&kept.bytes).filter(|row| row.id == id.as_str());
        if row.is_none() && self.keeper.counters.rows_refused.note() {
            tracing::warn!(session = %id, "the session's row was written by no host, and is refused");
        }
        Ok(row.map(|row| ReadRow {
            row,
            number: kept.number,
        }))
    }

    /// Takes a new id. `false` where it is taken.
    pub(super) async fn take_new(
        &self,
        id: &SessionId,
        agent: Option<&str>,
    ) -> Result<bool, String> {
        let Some(sessions) = self.sessions() else {
            return Err("this host is not up yet".to_owned());
        };
        if let Some(why) = self.keeper.idle() {
            return Err(why);
        }
        let key = key_of(id.as_str());
        let row = ownership::opened(
            &self.me,
            id.as_str(),
            agent,
            self.me.storage.first().cloned(),
        );
        // First the row under which it is found when this host ends, so that none is owned and not found.
        self.note_own(&key).await;
        match self
            .store
            .put(Space::Sessions, &key, 0, row.to_bytes())
            .await
        {
            Ok(_) => {}
            Err(NotKept::Other) => return Ok(false),
            Err(NotKept::Unknown(why)) => {
                let own = self.read(id).await?.filter(|read| read.row == row);
                if own.is_none() {
                    return Err(why);
                }
            }
            Err(why @ (NotKept::Refused(_) | NotKept::Full(_))) => return Err(why.to_string()),
        }
        self.keeper.begin(id, row.epoch, 0);
        sessions.own(id, row.epoch).await;
        Ok(true)
    }

    /// Notes that this host has a session. In vain, it is found on demand.
    async fn note_own(&self, key: &str) {
        let index = SessionRow::index(&self.at.host, key);
        let last = match self.store.put(Space::Sessions, &index, 0, "1".into()).await {
            Ok(_) => return,
            Err(_) => self
                .store
                .last(Space::Sessions, &index)
                .await
                .ok()
                .flatten(),
        };
        if let Some(last) = last.filter(|last| last.bytes.is_empty()) {
            let _ = self
                .store
                .put(Space::Sessions, &index, last.number, "1".into())
                .await;
        }
    }

    /// Takes over a session, unless another task of this host does so.
    pub(super) async fn take(&self, id: &SessionId, relocates: bool) -> Result<(), NotTaken> {
        if !lock(&self.taking).insert(id.clone()) {
            return Err(NotTaken::Failed(
                "the session is being taken over".to_owned(),
            ));
        }
        let taken = self.take_once(id, relocates).await;
        lock(&self.taking).remove(id);
        if let Err(NotTaken::Failed(why)) = &taken {
            tracing::debug!(session = %id, "the session was not taken over: {why}");
        }
        taken
    }

    async fn take_once(&self, id: &SessionId, relocates: bool) -> Result<(), NotTaken> {
        let sessions = self
            .sessions()
            .ok_or_else(|| NotTaken::Failed("this host is not up yet".to_owned()))?;
        let key = key_of(id.as_str());
        let failed = NotTaken::Failed;
        let mut last_epoch = 0;
        for _ in 0..TRIES {
            if let Some(why) = self.keeper.idle() {
                return Err(failed(why));
            }
            let Some(read) = self.read(id).await.map_err(failed)? else {
                return Err(NotTaken::Unknown);
            };
            let last = self
                .store
                .last(Space::Journal, &key)
                .await
                .map_err(failed)?;
            last_epoch = last
                .and_then(|kept| Some(wire::head(&kept.bytes).ok()?.0.epoch))
                .max(Some(last_epoch))
                .unwrap_or(0);
            let known = HostFacts {
                last_epoch,
                relocates,
                serves: self.serves(id),
            };
            let is_gone = read.row.host != self.at.host && self.end_lease(&read.row.host).await;
            let row = ownership::taken(&read.row, &self.me, known, |_| is_gone)
                .map_err(NotTaken::Kept)?;
            self.note_own(&key).await;
            match self
                .store
                .put(Space::Sessions, &key, read.number, row.to_bytes())
                .await
            {
                Ok(_) => {}
                // Looked at again: it may be this one's own.
                Err(NotKept::Other | NotKept::Unknown(_)) => continue,
                Err(why @ (NotKept::Refused(_) | NotKept::Full(_))) => {
                    return Err(failed(why.to_string()));
                }
            }
            if read.row.host != self.at.host {
                forget(&*self.store, &read.row.host, &key).await;
            }
            let (last, epoch) = self.copy(id, &key, &read.row).await.map_err(failed)?;
            if epoch >= row.epoch {
                // Another writer has stored an unreadable message behind it.
                last_epoch = epoch;
                continue;
            }
            self.keeper.begin(id, row.epoch, last);
            match sessions.adopt(id, row.epoch, row.anew.is_some()).await {
                Ok(()) => {
                    self.keeper.counters.sessions_taken_over.add(1);
                    tracing::info!(session = %id, epoch = row.epoch, from = %read.row.host, "a session was taken over");
                    return Ok(());
                }
                Err(AdoptError::NotRecorded(NotRecorded::Behind)) => self.keeper.end(id),
                Err(AdoptError::Epoch(later)) => {
                    self.keeper.end(id);
                    last_epoch = later;
                }
                // It was opened, and its host ended before anything of it was stored: it is as if
                // it never was.
                Err(AdoptError::Unknown) if epoch == 0 => {
                    self.keeper.end(id);
                    return self.never_was(id, &key).await;
                }
                Err(error) => {
                    self.keeper.end(id);
                    return Err(failed(error.to_string()));
                }
            }
        }
        Err(failed("others write at the same time".to_owned()))
    }

    /// Copies what the record has of a session, and gives the number of its last message and the last epoch.
    async fn copy(
        &self,
        id: &SessionId,
        key: &str,
        row: &SessionRow,
    ) -> Result<(u64, u64), String> {
        let Some(sessions) = self.sessions() else {
            return Ok((0, 0));
        };
        let mut reader = wire::BatchReader::new(id.clone(), row);
        let mut last = 0;
        loop {
            let slice = self.store.read(Space::Journal, key, last).await?;
            let Some(end) = slice.last().map(|kept| kept.number) else {
                break;
            };
            let mut batches: Vec<_> = slice
                .iter()
                .filter_map(|kept| reader.take(&kept.bytes))
                .collect();
            let copied = sessions.copied_to(id);
            batches.retain(|batch| batch.last() >= copied);
            sessions
                .copy(id, batches)
                .await
                .map_err(|error| error.to_string())?;
            last = end;
        }
        self.keeper.counters.batches_skipped.add(reader.skipped());
        reader.end().map_err(|error| error.to_string())?;
        // What comes to this machine was kept by the store before.
        match (sessions.copied_to(id), reader.last()) {
            (copied, kept) if copied > kept => Err(format!(
                "this host has entries of the session up to {copied}, and the cluster's store up to {kept}: the store \
                 has lost what is between, or is an older copy"
            )),
            _ => Ok((last, reader.epoch())),
        }
    }

    /// Gives the id of a session back that never was opened.
    async fn never_was(&self, id: &SessionId, key: &str) -> Result<(), NotTaken> {
        if let Some(read) = self.read(id).await.map_err(NotTaken::Failed)? {
            // In vain, the next one who looks for it does so.
            let _ = self
                .store
                .put(Space::Sessions, key, read.number, bytes::Bytes::new())
                .await;
        }
        forget(&*self.store, &self.at.host, key).await;
        Err(NotTaken::Unknown)
    }

    /// The rows of the sessions that a host has, or had when it ended.
    async fn rows_of(&self, host: &str) -> Result<Vec<SessionRow>, String> {
        let prefix = SessionRow::index(host, "");
        let found = self.store.list(Space::Sessions, &prefix).await?;
        let rows = stream::iter(found).map(|change| {
            let key = change.key[prefix.len()..].to_owned();
            async move {
                let kept = self.store.last(Space::Sessions, &key).await.ok().flatten();
                let row = kept.and_then(|kept| SessionRow::parse(&kept.bytes));
                if row
                    .as_ref()
                    .is_none_or(|row| row.host != host || row.state == OwnershipState::Removed)
                {
                    // It has gone on to another, or was removed.
                    forget(&*self.store, host, &key).await;
                    return None;
                }
                row
            }
        });
        Ok(rows
            .buffer_unordered(AT_ONCE)
            .filter_map(std::future::ready)
            .collect()
            .await)
    }

    /// Takes sessions over, so many at the same time of all that this host takes.
    pub(super) async fn take_all(&self, ids: impl IntoIterator<Item = String>) {
        let taken = stream::iter(ids).map(|id| async move {
            let Ok(id) = SessionId::new(&id) else { return };
            let Ok(_turn) = self.takes.acquire().await else {
                return;
            };
            if self.serves(&id) {
                return;
            }
            match self.take(&id, false).await {
                Ok(()) | Err(NotTaken::Kept(TakeRefusal::Own) | NotTaken::Unknown) => {}
                Err(why) => {
                    tracing::warn!(session = %id, "the session stays without a host: {why}")
                }
            }
        });
        taken.buffer_unordered(AT_ONCE).collect().await
    }

    /// Takes the sessions that an earlier run of this host had, or this one before it lost its lease.
    pub(super) async fn take_own(self: Arc<Self>) -> Result<(), String> {
        let rows = self.rows_of(&self.at.host).await?;
        self.take_all(rows.into_iter().map(|row| row.id)).await;
        Ok(())
    }

    /// Searches for sessions of hosts that are gone, while the node lives.
    pub(super) async fn take_over(self: Arc<Self>) {
        let mut changed = self.changed.subscribe();
        // When each was looked at last, and how long after that it is again.
        let mut looks = BTreeMap::<String, (Instant, Duration)>::new();
        loop {
            Self::change(&mut changed).await;
            if !self.may_act() || *self.is_draining.borrow() {
                continue;
            }
            self.heal().await;
            let gone = self.gone();
            looks.retain(|host, _| gone.contains(host));
            for host in gone {
                let look = looks.get(&host).copied();
                let is_due = look.is_none_or(|(at, wait)| at.elapsed() >= wait);
                let is_finder = || finder(&host, &self.alive()) == Some(&*self.at.host);
                if !is_due || !is_finder() || !self.end_lease(&host).await {
                    continue;
                }
                // The remaining sessions are being taken, or stay with that host.
                let wait = look.map_or(AGAIN, |(_, wait)| AGAIN_MOST.min(wait * 2));
                looks.insert(host.clone(), (Instant::now(), wait));
                if let Err(why) = self.find(&host).await {
                    tracing::debug!(%host, "the sessions of a host that is gone were not looked for: {why}");
                }
            }
        }
    }

    /// Takes sessions again, under a later epoch, in which a writer without the right has written:
    /// their rows still name this host.
    async fn heal(&self) {
        let mut rows = Vec::new();
        for id in self.keeper.fenced() {
            match self.read(&id).await {
                // It was looked for meanwhile.
                _ if self.keeper.has(&id) => {}
                Ok(read) if !self.serves(&id) => rows.extend(read.map(|read| read.row)),
                // What it was doing is about to end; or the store does not answer.
                Ok(_) | Err(_) => self.keeper.note_fenced(id),
            }
        }
        rows.retain(|row| {
            row.incarnation == self.at.incarnation && row.state == OwnershipState::Owned
        });
        for row in &rows {
            tracing::warn!(
                session = row.id,
                "a writer that is not a host of the session has written to it"
            );
        }
        self.take_all(rows.into_iter().map(|row| row.id)).await;
    }

    /// The hosts that are gone and have a row.
    fn gone(&self) -> Vec<String> {
        let view = self.view();
        let now = BootInstant::now();
        let is_gone =
            |seen: &&SeenHost| seen.row.is_over || view.watch.is_gone(&seen.row.host, now);
        view.hosts
            .values()
            .filter(is_gone)
            .map(|seen| seen.row.host.clone())
            .collect()
    }

    /// Finds the sessions of a host that is gone, and assigns them to their successors.
    async fn find(self: &Arc<Self>, host: &str) -> Result<(), String> {
        let rows = self.rows_of(host).await?;
        if rows.is_empty() {
            // Nothing is left of it.
            let seen = self.view().hosts.get(host).map(|seen| seen.number);
            if let Some(number) = seen {
                let _ = self
                    .store
                    .put(Space::Hosts, host, number, bytes::Bytes::new())
                    .await;
            }
            return Ok(());
        }
        let alive = self.alive();
        let told = shares(rows, &alive)
            .into_iter()
            .map(|(heir, ids)| self.clone().bequeath(heir, ids));
        stream::iter(told)
            .buffer_unordered(AT_ONCE)
            .collect::<()>()
            .await;
        Ok(())
    }
}
