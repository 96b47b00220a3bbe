//! Which sessions this host owns, where their record is elsewhere: how it gets them, and how it loses them.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};
use trunkline_journal::{NotStored, ReadError, SessionKey};
use trunkline_protocol::{AttachRefusal, Fact, HostFact, SessionId, SessionRefused};

use crate::{
    ends,
    live::Command,
    record::{Batch, NotRecorded, Recording},
    recovery,
    sessions::{Sessions, Shared, epoch_of},
    tail::Tail,
};

/// How long a session whose batch was refused tries to write that.
const MEND: Duration = Duration::from_secs(10);

/// The sessions that this host owns.
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    owned: HashMap<SessionId, Own>,
    /// Sessions that were released and whose tasks have not ended.
    leaving: HashMap<SessionId, Arc<Tail>>,
}

#[derive(Debug)]
struct Own {
    epoch: u64,
    /// Whether it waits to be opened.
    is_new: bool,
    /// Whether no one is let in: it is about to leave, or something is written first.
    is_shut: bool,
}

/// A session that this host owns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owned {
    /// Its id.
    pub id: SessionId,
    /// The epoch under which it is owned.
    pub epoch: u64,
    /// Whether a turn runs or waits in it.
    pub is_busy: bool,
    /// How many listen to it.
    pub listeners: usize,
}

/// Why batches were not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// Entries between what this machine has and the batch are missing, or the first batch has no facts.
    #[error(
        "the batch from entry {first} on does not follow what this machine has, up to entry {copied}"
    )]
    #[non_exhaustive]
    Gap {
        /// The last entry that this machine has.
        copied: u64,
        /// The first of the batch.
        first: u64,
    },
    /// This host serves the session.
    #[error("this host serves the session")]
    Served,
    /// The journal could not be written.
    #[error("{0}")]
    NotStored(NotStored),
}

/// Why a session was not taken over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// Nothing of it was copied to this machine, or its facts cannot be read.
    #[error("nothing of the session that can be read was copied to this machine")]
    Unknown,
    /// Its last entry has this epoch or a later one.
    #[error("the last entry of the session has the epoch {0}")]
    Epoch(u64),
    /// The record does not take it. After [`NotRecorded::Behind`] copy what is missing, and adopt again.
    #[error("{0}")]
    NotRecorded(NotRecorded),
    /// The journal could not be written.
    #[error("{0}")]
    NotStored(NotStored),
    /// The journal could not be read.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// The host ends.
    #[error("the host ends")]
    Ends,
}

/// Why a session was not handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandOverError {
    /// This host does not own it.
    #[error("this host does not own the session")]
    NotOwned,
    /// Something is open in it: a turn runs, say.
    #[error("something is open in the session")]
    Busy,
}

impl Ownership {
    /// The epoch of a session that is owned.
    pub(crate) fn epoch(&self, id: &str) -> Option<u64> {
        self.owned.get(id).map(|own| own.epoch)
    }

    /// Whether a session that is owned under this epoch may be loaded: it does not move, and nothing is written first.
    pub(crate) fn lets_in(&self, id: &SessionId, epoch: u64) -> bool {
        self.owned
            .get(id)
            .is_some_and(|own| own.epoch == epoch && !own.is_shut)
    }

    /// Forgets a session that is owned under this epoch. Whether it was.
    pub(crate) fn lose(&mut self, id: &SessionId, epoch: u64) -> bool {
        let is_it = self.owned.get(id).is_some_and(|own| own.epoch == epoch);
        is_it && self.owned.remove(id).is_some()
    }

    fn shut(&mut self, id: &SessionId, epoch: u64, is_shut: bool) {
        if let Some(own) = self.owned.get_mut(id).filter(|own| own.epoch == epoch) {
            own.is_shut = is_shut;
        }
    }
}

impl Shared {
    /// The epoch in which this host serves a session, or why it does not; nothing said: it is another's.
    pub(crate) fn serves(&self, id: &SessionId) -> Result<u64, Option<SessionRefused>> {
        if self.recording.is_none() {
            return Ok(self.journal.epoch());
        }
        match self.registry().ownership.owned.get(id) {
            None => Err(None),
            Some(own) if own.is_shut => {
                let why = "the session is about to move; attach to it again";
                Err(Some(ends::refused(AttachRefusal::Unavailable, why)))
            }
            Some(own) => Ok(own.epoch),
        }
    }

    fn recording(&self) -> &Recording {
        self.recording
            .as_ref()
            .expect("only a host with a record owns sessions")
    }

    /// Writes first what a host writes of a session that it takes over: into the record, then into the journal.
    async fn take_over(
        self: &Arc<Self>,
        id: &SessionId,
        epoch: u64,
        facts: Vec<HostFact>,
        begins_anew: bool,
    ) -> Result<(), AdoptError> {
        let journal = self.journal.clone();
        let known = journal
            .find(id.as_str())
            .and_then(|key| Some((key, journal.known(key)?)));
        let Some((key, known)) = known.filter(|(_, known)| !known.is_removed) else {
            return Err(AdoptError::Unknown);
        };
        let read = tokio::task::spawn_blocking(move || {
            match epoch_of(&journal, key, known.last).filter(|last| *last > epoch) {
                Some(later) => Err(AdoptError::Epoch(later)),
                None => Ok(recovery::take_over(
                    &journal,
                    key,
                    epoch,
                    facts,
                    begins_anew,
                )?),
            }
        });
        let batch = read
            .await
            .map_err(|_| AdoptError::Ends)??
            .ok_or(AdoptError::Unknown)?;
        if batch.session != *id {
            return Err(AdoptError::Unknown);
        }
        self.recording()
            .record
            .store(batch.clone())
            .await
            .map_err(AdoptError::NotRecorded)?;
        batch
            .put(&self.journal, key, known.last)
            .await
            .map_err(AdoptError::NotStored)
    }
}

impl Sessions {
    /// This host owns a new id from now on, under this epoch: [`Sessions::start`] opens it. What this machine has of an
    /// earlier session of the id is removed.
    ///
    /// # Cancel safety
    /// Dropped, the id may or may not be owned; [`Sessions::release`] gives it back.
    pub async fn own(&self, id: &SessionId, epoch: u64) {
        let journal = self.journal().clone();
        if let Some(key) = journal.find(id.as_str())
            && journal.known(key).is_some_and(|known| !known.is_removed)
        {
            // Where that fails the id is not opened.
            let _ = tokio::task::spawn_blocking(move || journal.remove(key)).await;
        }
        let own = Own {
            epoch,
            is_new: true,
            is_shut: false,
        };
        self.shared()
            .registry()
            .ownership
            .owned
            .insert(id.clone(), own);
    }

    /// The number of the last entry of this machine's copy of a session; 0: there is none.
    #[must_use]
    pub fn copied_to(&self, id: &SessionId) -> u64 {
        self.copy_of(id).map_or(0, |(_, last)| last)
    }

    fn copy_of(&self, id: &SessionId) -> Option<(SessionKey, u64)> {
        let key = self.journal().find(id.as_str())?;
        let known = self.journal().known(key)?;
        (!known.is_removed).then_some((key, known.last))
    }

    /// Copies batches of a session from the record into this machine's journal, in their order and any number of times:
    /// all whose last entry has the number [`Sessions::copied_to`] or a later one, those without entries too. Entries that
    /// this machine has are passed over.
    ///
    /// # Errors
    /// [`CopyError`]. What came before stays copied.
    ///
    /// # Cancel safety
    /// Dropped, some may be copied; the same may be copied again.
    pub async fn copy(&self, id: &SessionId, batches: Vec<Batch>) -> Result<(), CopyError> {
        if self.owns(id) {
            return Err(CopyError::Served);
        }
        self.left(id).await;
        let journal = self.journal();
        let Some(first) = batches.first() else {
            return Ok(());
        };
        let (key, mut last) = match (self.copy_of(id), &first.facts) {
            (Some(copy), _) => copy,
            (None, Some(facts)) => match journal.create_again(id.as_str(), facts) {
                Ok((key, ticket)) => {
                    ticket.detach();
                    (key, 0)
                }
                // Created by another call, and not stored yet.
                Err(_) => {
                    return Err(CopyError::Gap {
                        copied: 0,
                        first: first.first,
                    });
                }
            },
            (None, None) => {
                return Err(CopyError::Gap {
                    copied: 0,
                    first: first.first,
                });
            }
        };
        let mut ticket = None;
        for batch in &batches {
            if batch.first > last + 1 {
                return Err(CopyError::Gap {
                    copied: last,
                    first: batch.first,
                });
            }
            ticket = Some(batch.put(journal, key, last));
            last = last.max(batch.last());
        }
        match ticket {
            Some(ticket) => ticket.await.map_err(CopyError::NotStored),
            None => Ok(()),
        }
    }

    /// Takes over a session of which this machine has all that the record has: writes that this host has it, as the first
    /// entry of the epoch, and that what was open is closed; then it is served. Where it `begins_anew`, what its agent had is
    /// on another machine: that entry says `context: lost`, and nothing is resumed.
    ///
    /// # Errors
    /// [`AdoptError`]. The session is not served then.
    ///
    /// # Cancel safety
    /// Dropped, that entry may or may not be in the record: begin again, with a later epoch.
    pub async fn adopt(
        &self,
        id: &SessionId,
        epoch: u64,
        begins_anew: bool,
    ) -> Result<(), AdoptError> {
        let shared = self.shared();
        self.release(id);
        self.left(id).await;
        let recording = shared.recording();
        let host = recording.record.host().to_owned();
        let fact = |fact, message| HostFact {
            fact: Some(fact),
            message: Some(message),
            ..HostFact::default()
        };
        let mut facts = vec![fact(Fact::Moved, host)];
        match recording.take_dropped(id) {
            0 => {}
            count => {
                let message = format!(
                    "{count} entries of this host did not get into the record, and are dropped"
                );
                facts.push(fact(Fact::ProcessEnded, message));
            }
        }
        shared.take_over(id, epoch, facts, begins_anew).await?;
        let mut registry = shared.registry();
        if registry.is_over {
            return Err(AdoptError::Ends);
        }
        registry.ownership.owned.insert(
            id.clone(),
            Own {
                epoch,
                is_new: false,
                is_shut: false,
            },
        );
        Ok(())
    }

    /// Stops to serve a session at once and writes nothing more of it: another host has it. Its agent's session is closed,
    /// and its listeners end.
    pub fn release(&self, id: &SessionId) {
        let mut registry = self.shared().registry();
        registry.ownership.owned.remove(id);
        if let Some(handle) = registry.live.remove(id) {
            handle.tail.moves();
            handle.abort();
            // Its listeners end when its task has.
            registry.ownership.leaving.insert(id.clone(), handle.tail);
        }
    }

    /// Waits until what served a session before has ended.
    async fn left(&self, id: &SessionId) {
        let leaving = self.shared().registry().ownership.leaving.get(id).cloned();
        if let Some(tail) = leaving {
            tail.over().await;
        }
    }

    /// Gives up a session in order, so that another host may have it: all is stored, its listeners end, and it is no longer
    /// owned.
    ///
    /// # Errors
    /// [`HandOverError`]; it is served as before then.
    ///
    /// # Cancel safety
    /// Dropped, it may or may not be given up: [`Sessions::owned`] says so.
    pub async fn hand_over(&self, id: &SessionId) -> Result<(), HandOverError> {
        let shared = self.shared();
        let shut = self.shut(id)?;
        let handle = shared.registry().live.get(id).cloned();
        if let Some(handle) = handle {
            let (done, has_left) = oneshot::channel();
            let is_told = handle.commands.send(Command::HandOver(done)).await.is_ok();
            // Where it has left the memory by itself, all was stored.
            if is_told && has_left.await == Ok(false) {
                return Err(HandOverError::Busy);
            }
            handle.tail.over().await;
        }
        shut.lose();
        Ok(())
    }

    /// Lets no one into a session that is owned, until it is dropped.
    pub(crate) fn shut<'a>(&'a self, id: &'a SessionId) -> Result<Shut<'a>, HandOverError> {
        let shared = self.shared();
        let mut registry = shared.registry();
        let own = registry
            .ownership
            .owned
            .get_mut(id)
            .filter(|own| !own.is_new);
        let own = own.ok_or(HandOverError::NotOwned)?;
        match std::mem::replace(&mut own.is_shut, true) {
            true => Err(HandOverError::Busy),
            false => Ok(Shut {
                shared,
                id,
                epoch: own.epoch,
                is_lost: false,
            }),
        }
    }

    /// Whether this host owns a session, also one that waits to be opened.
    #[must_use]
    pub fn owns(&self, id: &SessionId) -> bool {
        self.shared().registry().ownership.owned.contains_key(id)
    }

    /// The sessions that this host owns.
    #[must_use]
    pub fn owned(&self) -> Vec<Owned> {
        let registry = self.shared().registry();
        let owned = registry.ownership.owned.iter().map(|(id, own)| {
            let handle = registry.live.get(id);
            let is_busy = handle.is_some_and(|handle| handle.shown.get().open_turns > 0);
            let listeners = handle.map_or(0, |handle| handle.tail.listeners());
            Owned {
                id: id.clone(),
                epoch: own.epoch,
                is_busy,
                listeners,
            }
        });
        owned.collect()
    }

    /// How many entries were dropped because they did not get into the record.
    #[must_use]
    pub fn dropped_entries(&self) -> u64 {
        self.shared()
            .recording
            .as_ref()
            .map_or(0, Recording::dropped)
    }
}

/// A session that lets no one in while it is handed over or removed.
pub(crate) struct Shut<'a> {
    shared: &'a Shared,
    id: &'a SessionId,
    pub(crate) epoch: u64,
    is_lost: bool,
}

impl Shut<'_> {
    /// It is this host's no more.
    pub(crate) fn lose(mut self) {
        self.is_lost = true;
    }
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        let ownership = &mut self.shared.registry().ownership;
        match self.is_lost {
            true => drop(ownership.lose(self.id, self.epoch)),
            false => ownership.shut(self.id, self.epoch, false),
        }
    }
}

/// An id that is owned and about to be opened. Dropped, it waits to be opened again.
pub(crate) struct NewId<'a> {
    shared: &'a Shared,
    id: &'a SessionId,
    pub(crate) epoch: u64,
    is_kept: bool,
}

impl<'a> NewId<'a> {
    pub(crate) fn take(shared: &'a Shared, id: &'a SessionId) -> Result<Self, SessionRefused> {
        let mut registry = shared.registry();
        let Some(own) = registry.ownership.owned.get_mut(id) else {
            return Err(ends::refused(
                AttachRefusal::Unavailable,
                "this host does not own the session",
            ));
        };
        if !std::mem::replace(&mut own.is_new, false) {
            return Err(ends::exists());
        }
        Ok(Self {
            shared,
            id,
            epoch: own.epoch,
            is_kept: false,
        })
    }

    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewId<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let mut registry = self.shared.registry();
        let own = registry.ownership.owned.get_mut(self.id);
        if let Some(own) = own.filter(|own| own.epoch == self.epoch) {
            own.is_new = true;
        }
    }
}

/// The end of a session's task: it leaves the memory, and its listeners end.
pub(crate) struct Leaves {
    pub(crate) shared: Weak<Shared>,
    pub(crate) id: SessionId,
    pub(crate) tail: Arc<Tail>,
    pub(crate) commands: mpsc::WeakSender<Command>,
}

impl Leaves {
    /// The record takes nothing more of the session, which has ended.
    pub(crate) async fn without_record(&self, epoch: u64, why: NotRecorded) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let NotRecorded::Refused(why) = why else {
            tracing::warn!(session = %self.id, epoch, "{why}; it is not served any more");
            shared.registry().ownership.lose(&self.id, epoch);
            return;
        };
        shared.registry().ownership.shut(&self.id, epoch, true);
        let dropped = shared.recording().take_dropped(&self.id);
        let message =
            format!("{dropped} entries did not get into the record, and are dropped: {why}");
        let fact = HostFact {
            fact: Some(Fact::ProcessEnded),
            message: Some(message),
            ..HostFact::default()
        };
        let mended =
            tokio::time::timeout(MEND, shared.take_over(&self.id, epoch, vec![fact], false)).await;
        let mut registry = shared.registry();
        match mended {
            Ok(Ok(())) => registry.ownership.shut(&self.id, epoch, false),
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(session = %self.id, "what is open in the session was not closed; it is not served any more");
                registry.ownership.lose(&self.id, epoch);
            }
        }
    }
}

impl Drop for Leaves {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            let mut registry = shared.registry();
            let ownership = &mut registry.ownership;
            if ownership
                .leaving
                .get(&self.id)
                .is_some_and(|tail| Arc::ptr_eq(tail, &self.tail))
            {
                ownership.leaving.remove(&self.id);
            }
            let is_own = |own: mpsc::Sender<Command>| {
                registry
                    .live
                    .get(&self.id)
                    .is_some_and(|handle| own.same_channel(&handle.commands))
            };
            // Without a sender nothing has it any more.
            if self.commands.upgrade().is_some_and(is_own) {
                registry.live.remove(&self.id);
            }
        }
        self.tail.end();
    }
}
