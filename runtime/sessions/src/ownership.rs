//! Ownership of sessions whose record is elsewhere: acquiring and losing them.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;
use trunkline_journal::{NotStored, ReadError, SessionKey};
use trunkline_protocol::{AttachRefusal, Fact, HostFact, SessionId, SessionRefused};

use crate::{
    actor::SessionCommand,
    ends,
    record::{Batch, NotRecorded, Recording},
    recovery,
    registry::{OwnedSession, SlotLease},
    sessions::{Sessions, SessionsState, epoch_of},
    tail::StreamEnd,
};

/// Timeout for the batch that closes a session after the record refused one.
const MEND: Duration = Duration::from_secs(10);

/// A session that this host owns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owned {
    /// Id of the session.
    pub id: SessionId,
    /// The epoch under which the session is owned.
    pub epoch: u64,
    /// Set if a turn runs or waits in the session.
    pub is_busy: bool,
    /// Number of listeners of the session.
    pub listeners: usize,
}

/// Reason that batches were not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// Entries between this machine's copy and the batch are missing, or the first batch has no
    /// facts.
    #[error(
        "the batch from entry {first} on does not follow what this machine has, up to entry {copied}"
    )]
    #[non_exhaustive]
    Gap {
        /// The last entry that this machine has.
        copied: u64,
        /// The first entry of the batch.
        first: u64,
    },
    /// This host serves the session.
    #[error("this host serves the session")]
    Served,
    /// The journal could not be written.
    #[error("{0}")]
    NotStored(NotStored),
}

/// Reason that a session was not taken over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// Nothing of the session was copied to this machine, or its facts cannot be read.
    #[error("nothing of the session that can be read was copied to this machine")]
    Unknown,
    /// The last entry of the session has this epoch or a later one.
    #[error("the last entry of the session has the epoch {0}")]
    Epoch(u64),
    /// The record rejects the session. After [`NotRecorded::Behind`] copy the missing batches, and
    /// adopt again.
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

/// Reason that a session was not handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandOverError {
    /// This host does not own the session.
    #[error("this host does not own the session")]
    NotOwned,
    /// Something is open in the session, for example a running turn.
    #[error("something is open in the session")]
    Busy,
}

impl SessionsState {
    /// Returns the epoch in which this host serves a session.
    ///
    /// # Errors
    /// The refusal that a hub gets if another host has the session or is about to get it.
    pub(crate) fn check_serves(&self, id: &SessionId) -> Result<u64, SessionRefused> {
        if self.recording.is_none() {
            return Ok(self.journal.epoch());
        }
        self.registry.ownership(id.as_str(), |own| match own {
            None => Err(ends::moved()),
            Some(own) if own.is_shut => Err(ends::refused(
                AttachRefusal::Unavailable,
                "the session is about to move; attach to it again",
            )),
            Some(own) => Ok(own.epoch),
        })
    }

    /// Waits until the blocks of a session that an aborted task or a dropped call left in flight
    /// are stored, so that numbers continue from them. If nothing can be stored, they come later,
    /// and the journal rejects entries that do not follow them.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub(crate) async fn settle_journal(&self, id: &SessionId) {
        if let Some(key) = self.journal.find(id.as_str())
            && self.journal.stalled().is_none()
        {
            let _ = self.journal.pending_ticket(key).await;
        }
    }

    fn recording(&self) -> &Recording {
        self.recording
            .as_ref()
            .expect("only a host with a record owns sessions")
    }

    /// Writes the first batch of a session that this host takes over: into the record, then into
    /// the journal.
    async fn take_over(
        self: &Arc<Self>,
        id: &SessionId,
        epoch: u64,
        facts: Vec<HostFact>,
        begins_anew: bool,
    ) -> Result<(), AdoptError> {
        let journal = self.journal.clone();
        self.settle_journal(id).await;
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
    /// Makes this host the owner of a new id, under this epoch. [`Sessions::start`] opens it. This
    /// machine's copy of an earlier session with the id is removed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the id may or may not be owned; [`Sessions::release`] gives it
    /// back.
    pub async fn own(&self, id: &SessionId, epoch: u64) {
        self.shared().registry.wait_until_left(id.as_str()).await;
        let journal = self.journal().clone();
        if let Some(key) = journal.find(id.as_str())
            && journal.known(key).is_some_and(|known| !known.is_removed)
        {
            // If that fails, the id is not opened.
            let _ = tokio::task::spawn_blocking(move || journal.remove(key)).await;
        }
        let owned = OwnedSession {
            epoch,
            is_new: true,
            is_shut: false,
        };
        self.shared().registry.own(id, owned);
    }

    /// Returns the number of the last entry of this machine's copy of a session, or 0 if there is
    /// none.
    #[must_use]
    pub fn copied_to(&self, id: &SessionId) -> u64 {
        self.copy_of(id).map_or(0, |(_, last)| last)
    }

    fn copy_of(&self, id: &SessionId) -> Option<(SessionKey, u64)> {
        let key = self.journal().find(id.as_str())?;
        let known = self.journal().known(key)?;
        (!known.is_removed).then_some((key, known.last))
    }

    /// Copies batches of a session from the record into this machine's journal, in their order and
    /// any number of times: all whose last entry has the number [`Sessions::copied_to`] or a later
    /// one, including batches without entries. Entries that this machine has are skipped.
    ///
    /// # Errors
    /// [`CopyError`]. Batches before the failed one stay copied.
    ///
    /// # Cancel safety
    /// If the future is dropped, some batches may be copied; the same may be copied again.
    pub async fn copy(&self, id: &SessionId, batches: Vec<Batch>) -> Result<(), CopyError> {
        if self.owns(id) {
            return Err(CopyError::Served);
        }
        self.shared().registry.wait_until_left(id.as_str()).await;
        self.shared().settle_journal(id).await;
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
                // Another call has created the session, and it is not stored yet.
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

    /// Takes over a session of which this machine has a complete copy of the record. Writes that
    /// this host has the session, as the first entry of the epoch, and that everything open is
    /// closed; then serves it. If it `begins_anew`, the context of its agent is on another machine:
    /// the first entry has `context: lost`, and nothing is resumed.
    ///
    /// # Errors
    /// [`AdoptError`]. The session is not served then.
    ///
    /// # Cancel safety
    /// If the future is dropped, the first entry may or may not be in the record: begin again, with
    /// a later epoch.
    pub async fn adopt(
        &self,
        id: &SessionId,
        epoch: u64,
        begins_anew: bool,
    ) -> Result<(), AdoptError> {
        let shared = self.shared();
        self.release(id);
        self.shared().registry.wait_until_left(id.as_str()).await;
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
        let owned = OwnedSession {
            epoch,
            is_new: false,
            is_shut: false,
        };
        shared.registry.own(id, owned);
        // A shutdown of the host that began meanwhile does not include this session.
        if shared.registry.is_ending() {
            shared.registry.disown(id.as_str(), epoch);
            return Err(AdoptError::Ends);
        }
        shared.announce(shared.stored_change(id, "opened").await);
        Ok(())
    }

    /// Stops serving a session at once and writes nothing more of it, because another host has it.
    /// Closes the session at its agent and ends its listeners.
    pub fn release(&self, id: &SessionId) {
        let was_owned = self.owns(id);
        let shared = self.shared();
        shared.registry.release(id.as_str(), StreamEnd::Moved);
        if was_owned {
            shared.changes.skip();
        }
    }

    /// Gives up a session in order, so that another host may have it: everything is stored, its
    /// listeners end, and it is no longer owned.
    ///
    /// # Errors
    /// [`HandOverError`]. The session is then served as before.
    ///
    /// # Cancel safety
    /// If the future is dropped, the session may or may not be given up: check [`Sessions::owned`].
    pub async fn hand_over(&self, id: &SessionId) -> Result<(), HandOverError> {
        let shared = self.shared();
        let shut = self.lock_entry(id)?;
        if let Some(handle) = shared.registry.live_handle(id.as_str()) {
            let (done, has_left) = oneshot::channel();
            let is_asked = handle
                .commands
                .send(Box::new(SessionCommand::HandOver(done)))
                .await
                .is_ok();
            // If the session has left the memory by itself, everything was stored.
            if is_asked && has_left.await == Ok(false) {
                return Err(HandOverError::Busy);
            }
        }
        shared.registry.wait_until_left(id.as_str()).await;
        let change = shared.stored_change(id, "removed").await;
        shut.lose();
        shared.announce(change);
        Ok(())
    }

    /// Locks an owned session against callers until the lock is dropped.
    pub(crate) fn lock_entry<'a>(
        &'a self,
        id: &'a SessionId,
    ) -> Result<EntryLock<'a>, HandOverError> {
        let shared = self.shared();
        let shut = shared.registry.change_ownership(id.as_str(), |own| {
            if own.is_new {
                return Err(HandOverError::NotOwned);
            }
            if std::mem::replace(&mut own.is_shut, true) {
                return Err(HandOverError::Busy);
            }
            Ok(own.epoch)
        });
        Ok(EntryLock {
            shared,
            id,
            epoch: shut.unwrap_or(Err(HandOverError::NotOwned))?,
            is_lost: false,
        })
    }

    /// Returns `true` if this host owns a session, including one that waits to be opened.
    #[must_use]
    pub fn owns(&self, id: &SessionId) -> bool {
        self.shared()
            .registry
            .ownership(id.as_str(), |own| own.is_some())
    }

    /// Returns the sessions that this host owns.
    #[must_use]
    pub fn owned(&self) -> Vec<Owned> {
        self.shared().registry.owned(|id, own, handle| Owned {
            id: id.clone(),
            epoch: own.epoch,
            is_busy: handle.is_some_and(|handle| handle.shown.get().open_turns > 0),
            listeners: handle.map_or(0, |handle| handle.tail.listeners()),
        })
    }
}

/// Lock that keeps callers out of a session while it is handed over or removed.
pub(crate) struct EntryLock<'a> {
    shared: &'a SessionsState,
    id: &'a SessionId,
    pub(crate) epoch: u64,
    is_lost: bool,
}

impl EntryLock<'_> {
    /// Gives up the ownership of the session.
    pub(crate) fn lose(mut self) {
        self.is_lost = true;
    }
}

impl Drop for EntryLock<'_> {
    fn drop(&mut self) {
        let registry = &self.shared.registry;
        if self.is_lost {
            return registry.disown(self.id.as_str(), self.epoch);
        }
        registry.change_ownership(self.id.as_str(), |own| {
            if own.epoch == self.epoch {
                own.is_shut = false;
            }
        });
    }
}

/// An id that is owned and about to be opened. Dropping it makes the id wait to be opened again.
pub(crate) struct NewId<'a> {
    shared: &'a SessionsState,
    id: &'a SessionId,
    pub(crate) epoch: u64,
    is_kept: bool,
}

impl<'a> NewId<'a> {
    pub(crate) fn take(
        shared: &'a SessionsState,
        id: &'a SessionId,
    ) -> Result<Self, SessionRefused> {
        let taken = shared
            .registry
            .change_ownership(id.as_str(), |own| {
                let was_new = std::mem::replace(&mut own.is_new, false);
                was_new.then_some(own.epoch)
            })
            .ok_or_else(|| {
                ends::refused(
                    AttachRefusal::Unavailable,
                    "this host does not own the session",
                )
            })?;
        Ok(Self {
            shared,
            id,
            epoch: taken.ok_or_else(ends::exists)?,
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
        self.shared
            .registry
            .change_ownership(self.id.as_str(), |own| {
                if own.epoch == self.epoch {
                    own.is_new = true;
                }
            });
    }
}

impl SlotLease {
    /// Ends a session whose record rejects further batches. A record that refused the last batch
    /// gets one that closes everything open, before any caller enters the session again.
    pub(crate) async fn end_without_record(&self, epoch: u64, why: NotRecorded) {
        let Some(shared) = self.shared() else {
            return;
        };
        self.leave();
        let NotRecorded::Refused(why) = why else {
            self.set_end(StreamEnd::Moved);
            tracing::warn!(session = %self.id(), epoch, "{why}; this host does not serve it from now on");
            shared.registry.disown(self.id().as_str(), epoch);
            return shared.changes.skip();
        };
        let dropped = shared.recording().take_dropped(self.id());
        let message =
            format!("{dropped} entries did not get into the record, and are dropped: {why}");
        let fact = HostFact {
            fact: Some(Fact::ProcessEnded),
            message: Some(message),
            ..HostFact::default()
        };
        let closed = shared.take_over(self.id(), epoch, vec![fact], false);
        if !matches!(tokio::time::timeout(MEND, closed).await, Ok(Ok(()))) {
            tracing::warn!(session = %self.id(), "what is open in the session was not closed; this host does not serve it from now on");
            shared.registry.disown(self.id().as_str(), epoch);
        }
        shared.changes.skip();
    }
}
