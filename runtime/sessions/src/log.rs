//! The log of a session: takes its entries, and returns the actions that follow when they are
//! stored.

use std::{collections::VecDeque, future::pending, sync::Arc};

use futures_util::future::BoxFuture;
use trunkline_host::{Event, Host, SendError, Session};
use trunkline_journal::{Journal, RetentionHold, SessionKey};
use trunkline_protocol::{AdapterBody, Body, Category, HostMessage, Meta, SessionClosed, TurnId};

use crate::{
    activity::ActivityCell,
    actor::{ActorStep, OnStored},
    changes::ChangeAnnouncer,
    entry::EntryBody,
    facts::SessionFacts,
    input_index::InputIndex,
    record::{NotRecorded, Recording},
    recorder::{EntryRecorder, StoredBlock},
    tail::EntryTail,
};

/// The log of a session.
pub(crate) enum SessionLog {
    /// The journal, behind the record if there is one. Listeners read entries once they are stored.
    Journal(Box<JournalLog>),
    /// The bounded queue of the only client.
    Memory(Box<MemoryLog>),
}

/// The entries of a session that a journal stores, and what the session needs to continue from it.
pub(crate) struct JournalLog {
    /// The host that opens the agent's session again.
    pub(crate) host: Host,
    pub(crate) journal: Journal,
    pub(crate) key: SessionKey,
    pub(crate) recorder: EntryRecorder<OnStored>,
    /// The record that is written before the journal.
    pub(crate) recording: Option<Recording>,
    /// The ids that the session has used, once they were read from the journal.
    pub(crate) index: Option<InputIndex>,
    pub(crate) tail: Arc<EntryTail>,
    /// Current activity, for session lists.
    pub(crate) shown: ActivityCell,
    pub(crate) announcer: ChangeAnnouncer,
    pub(crate) _hold: RetentionHold,
}

/// The entries of a session that is not stored: each one counts as stored at once.
pub(crate) struct MemoryLog {
    pub(crate) sink: Box<dyn EntrySink>,
    /// True if the client's answers to permissions count.
    pub(crate) may_approve: bool,
    last: u64,
    ready: VecDeque<OnStored>,
    /// The number of turns that had no id.
    pub(crate) unnamed_turns: u64,
    /// The agent's session once it has ended: its files may still be read ([file.3]).
    pub(crate) ended: Option<Session>,
    pub(crate) has_files: bool,
    /// The end of the agent's session, which is the end of this one.
    pub(crate) end: Option<SessionClosed>,
    pub(crate) is_end_sent: bool,
    pub(crate) phase: MemoryPhase,
}

/// The state of a session that is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryPhase {
    Open,
    /// The host ends: nothing more is accepted.
    Finishing,
    /// The client has closed the session.
    Closed,
}

impl MemoryLog {
    pub(crate) fn new(sink: Box<dyn EntrySink>, may_approve: bool) -> Self {
        Self {
            sink,
            may_approve,
            last: 0,
            ready: VecDeque::new(),
            unnamed_turns: 0,
            ended: None,
            has_files: false,
            end: None,
            is_end_sent: false,
            phase: MemoryPhase::Open,
        }
    }

    /// Waits for the next event of the agent as soon as there is room, or for the end of the session
    /// once the client may have read it.
    ///
    /// # Cancel safety
    /// Loses nothing.
    async fn next_step(&mut self, session: Option<&Session>) -> ActorStep {
        if self.is_end_sent && self.sink.knows_end() {
            self.sink.drained().await;
            return ActorStep::EndRead;
        }
        if !self.sink.has_room() {
            let had_held = self.sink.has_held();
            self.sink.room().await;
            if had_held {
                return ActorStep::Room;
            }
        }
        ActorStep::Event(next_event(session).await)
    }
}

async fn next_event(session: Option<&Session>) -> Option<Event> {
    match session {
        Some(session) => session.next_event().await,
        None => pending().await,
    }
}

impl SessionLog {
    /// Returns the journal's part, if the session is stored.
    pub(crate) fn journal(&self) -> Option<&JournalLog> {
        match self {
            Self::Journal(log) => Some(log),
            Self::Memory(_) => None,
        }
    }

    /// Returns the journal's part, if the session is stored.
    pub(crate) fn journal_mut(&mut self) -> Option<&mut JournalLog> {
        match self {
            Self::Journal(log) => Some(log),
            Self::Memory(_) => None,
        }
    }

    /// Returns the part of a session that is not stored.
    pub(crate) fn memory(&mut self) -> Option<&mut MemoryLog> {
        match self {
            Self::Journal(_) => None,
            Self::Memory(log) => Some(log),
        }
    }

    /// Returns true if the session is not stored.
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// Writes an entry and returns its number.
    pub(crate) fn entry<B: Body + Into<EntryBody>>(
        &mut self,
        turn: Option<TurnId>,
        body: B,
        meta: Option<Meta>,
    ) -> u64 {
        match self {
            Self::Journal(log) => log.recorder.entry(turn, body, meta),
            Self::Memory(log) => {
                log.last += 1;
                log.sink.entry(turn, body.into(), meta);
                log.last
            }
        }
    }

    /// Adds an action for the time when all entries written so far are stored.
    pub(crate) fn then(&mut self, then: OnStored) {
        match self {
            Self::Journal(log) => log.recorder.then(then),
            Self::Memory(log) => {
                // Mostly one action waits, and an idle session keeps the room.
                if log.ready.capacity() == 0 {
                    log.ready.reserve_exact(1);
                }
                log.ready.push_back(then);
            }
        }
    }

    /// Returns the next action that follows at once. Those of a journal come by
    /// [`SessionLog::stored`].
    pub(crate) fn next_ready(&mut self) -> Option<OnStored> {
        self.memory()?.ready.pop_front()
    }

    /// Notes that the agent may get the input of a turn from now on.
    pub(crate) fn mark(&mut self, turn: &TurnId) {
        if let Self::Journal(log) = self {
            log.recorder.mark(turn.as_str().as_bytes().to_vec());
        }
    }

    /// Hands on the gathered entries.
    pub(crate) fn flush(&mut self) {
        if let Self::Journal(log) = self {
            log.recorder.flush();
        }
    }

    /// Waits until the oldest block is stored. Never resolves if nothing was handed on.
    ///
    /// # Errors
    /// As [`EntryRecorder::stored`].
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(crate) async fn stored(&mut self) -> Result<StoredBlock<OnStored>, NotRecorded> {
        match self {
            Self::Journal(log) => log.recorder.stored().await,
            Self::Memory(_) => pending().await,
        }
    }

    /// Waits until something is stored, or for the next event of a session if there is room for it.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(crate) async fn next_step(&mut self, session: Option<&Session>) -> ActorStep {
        match self {
            Self::Journal(log) => {
                let session = session.filter(|_| log.recorder.has_room());
                tokio::select! {
                    biased;
                    stored = log.recorder.stored() => stored.map_or_else(ActorStep::Lost, ActorStep::Stored),
                    event = next_event(session) => ActorStep::Event(event),
                }
            }
            Self::Memory(log) => log.next_step(session).await,
        }
    }

    /// Stores the facts, as of all entries written so far.
    pub(crate) fn put_facts(&mut self, facts: &SessionFacts) {
        if let Self::Journal(log) = self {
            log.recorder.put_facts(facts);
        }
    }

    /// Returns the number of the last entry that was written.
    pub(crate) fn last(&self) -> u64 {
        match self {
            Self::Journal(log) => log.recorder.last(),
            Self::Memory(log) => log.last,
        }
    }

    /// Returns the number of the last entry that is stored.
    pub(crate) fn last_stored(&self) -> u64 {
        match self {
            Self::Journal(log) => log.tail.stored(),
            Self::Memory(log) => log.last,
        }
    }

    /// Returns true if a further event of the agent may be taken.
    pub(crate) fn has_room(&self) -> bool {
        match self {
            Self::Journal(log) => log.recorder.has_room(),
            Self::Memory(log) => log.sink.has_room(),
        }
    }

    /// Returns true if everything is stored and every action was taken.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Journal(log) => log.recorder.is_idle(),
            Self::Memory(log) => log.ready.is_empty(),
        }
    }

    /// Returns true if enough was gathered to hand it on now.
    pub(crate) fn is_due(&self) -> bool {
        self.journal().is_some_and(|log| log.recorder.is_due())
    }

    /// Counts the actions of entries that are not stored yet for which `is_meant` holds.
    pub(crate) fn count_actions(&self, is_meant: impl FnMut(&OnStored) -> bool) -> usize {
        self.journal()
            .map_or(0, |log| log.recorder.count_actions(is_meant))
    }

    /// Takes back actions of entries that are not stored yet.
    pub(crate) fn take_back(&mut self, is_meant: impl FnMut(&OnStored) -> bool) -> Vec<OnStored> {
        self.journal_mut()
            .map_or_else(Vec::new, |log| log.recorder.take_back(is_meant))
    }

    /// Returns the reason not to accept anything that becomes an entry: the entries that wait to be
    /// stored must not grow.
    pub(crate) fn obstacle(&self) -> Option<(Category, String)> {
        let log = self.journal()?;
        let trouble = log.journal.trouble().map(|trouble| trouble.to_string());
        let trouble = trouble.or_else(|| log.recording.as_ref()?.trouble());
        let trouble = trouble.map(|why| (Category::Other, why));
        trouble.or_else(|| {
            let is_full = log.journal.is_full();
            is_full.then(|| (Category::Busy, SendError::Busy.to_string()))
        })
    }
}

/// The only client of a session without a journal: it gets each entry at once, and in order.
///
/// The client bounds what waits for its reader. While it has no room the session takes no further
/// event of its agent, and the host's spool holds the rest ([relay.5], [flow.3]). Replies do not
/// wait, and are never dropped ([relay.6]).
pub trait EntrySink: Send {
    /// Begins a turn under its id in the session. `is_named` is false if the input had no id.
    fn begin_turn(&mut self, turn: &TurnId, is_named: bool);

    /// Passes on an entry.
    fn entry(&mut self, turn: Option<TurnId>, body: EntryBody, meta: Option<Meta>);

    /// Passes on a reply to a message of the client. Returns true if the reply ended a pause, which
    /// would have held back too much ([relay.5]).
    fn reply(&mut self, turn: Option<TurnId>, body: AdapterBody) -> bool;

    /// Counts an answer that no request waits for.
    fn count_late_answer(&self);

    /// Returns the message with the members that the client has passed in files ([large.2]), or the
    /// message without them and the reason.
    fn read_members(
        &self,
        message: HostMessage,
    ) -> BoxFuture<'static, (HostMessage, Option<String>)>;

    /// Returns true if the client can get this message, however it is cut ([frame.11]).
    fn fits(&self, turn: Option<&TurnId>, body: &AdapterBody) -> bool;

    /// Returns true if the client can answer questions ([ext.3]).
    fn answers_questions(&self) -> bool;

    /// Returns true if there is room for a further entry, and no held entry goes before it.
    fn has_room(&self) -> bool;

    /// Waits until [`EntrySink::has_room`], and passes on held entries meanwhile.
    ///
    /// # Cancel safety
    /// Loses nothing.
    fn room(&mut self) -> BoxFuture<'_, ()>;

    /// Returns true if entries are held until others have ended or have been read.
    fn has_held(&self) -> bool;

    /// Returns true if too much waits to be read to accept a further input ([relay.6]).
    fn is_full(&self) -> bool;

    /// Holds everything back ([flow.1]).
    fn pause(&mut self);

    /// Releases what a pause holds back.
    fn resume(&mut self);

    /// Returns true if the client knows by `session.closed` that the session has ended, and needs
    /// no answer afterwards ([session.8]).
    fn knows_end(&self) -> bool;

    /// Waits until the client may have read everything.
    ///
    /// # Cancel safety
    /// Loses nothing.
    fn drained(&mut self) -> BoxFuture<'_, ()>;

    /// Passes on held entries as far as they fit, and counts the rest: nothing more comes.
    fn drop_held(&mut self);

    /// Drops what the client has not read: it has closed the session ([session.4]).
    fn close(&mut self);
}
