//! Writer of the entries of one session: puts them into the record, if there is one, then into the
//! journal, and returns the actions that follow when they are stored.

use std::{collections::VecDeque, fmt::Write, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use trunkline_journal::{Journal, NotStored, SessionKey, Settled, Ticket};
use trunkline_protocol::{Body, Envelope, Meta, SessionId, TurnId};

use crate::{
    entry::{EntryBody, EntryContent},
    facts::{SessionFacts, now},
    record::{Batch, NotRecorded, Recording},
    tail::EntryTail,
};

/// Maximum number of bytes that wait to be stored before the session takes no further event.
const ROOM: usize = 256 * 1024;

/// The entries of one session on their way to the journal. `T` is the action that follows an entry.
#[derive(Debug)]
pub(crate) struct EntryRecorder<T> {
    journal: Journal,
    key: SessionKey,
    tail: Arc<EntryTail>,
    /// Entries, actions and marks that were gathered since the last put.
    entries: EntryWriter,
    then: Vec<T>,
    marks: Vec<Bytes>,
    /// Blocks that were put into the journal but are not known to be stored there.
    unstored: VecDeque<PendingBlock<T>>,
    unstored_bytes: usize,
    /// Set if this session wakes the journal for all sessions that have put something.
    leads_gathering: bool,
    /// Set if the journal has rejected a block: the session has another writer.
    is_refused: bool,
    /// The stage before the journal. `None` if there is only the journal.
    before: Option<Box<RecordStage<T>>>,
}

/// A block that was put but is not known to be stored.
#[derive(Debug)]
struct PendingBlock<T> {
    ticket: Ticket,
    first: u64,
    last: u64,
    lines: Bytes,
    contents: Vec<Arc<EntryContent>>,
    then: Vec<T>,
}

/// The way into the record. One batch is on its way at a time; the rest is gathered.
struct RecordStage<T> {
    recording: Recording,
    facts: Option<GatheredFacts>,
    on_way: Option<BatchInFlight<T>>,
    /// Set if the record accepts nothing more.
    is_over: bool,
}

/// Facts as of the entry `last`.
struct GatheredFacts {
    bytes: Bytes,
    last: u64,
    is_settled: bool,
}

struct BatchInFlight<T> {
    recorded: BoxFuture<'static, Result<(), NotRecorded>>,
    batch: Batch,
    contents: Vec<Arc<EntryContent>>,
    then: Vec<T>,
}

impl<T> std::fmt::Debug for RecordStage<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let on_way = self
            .on_way
            .as_ref()
            .map(|on_way| (on_way.batch.first, on_way.batch.count));
        f.debug_struct("RecordStage")
            .field("on_way", &on_way)
            .finish_non_exhaustive()
    }
}

/// Outcome of a block: stored or not.
#[derive(Debug)]
pub(crate) struct StoredBlock<T> {
    pub(crate) result: Result<(), NotStored>,
    pub(crate) then: Vec<T>,
}

impl<T> EntryRecorder<T> {
    /// Creates a recorder that continues after the tail's last entry, under an epoch.
    pub(crate) fn new(
        journal: &Journal,
        key: SessionKey,
        id: SessionId,
        epoch: u64,
        tail: Arc<EntryTail>,
    ) -> Self {
        let entries = EntryWriter::new(id, epoch, tail.stored());
        Self {
            journal: journal.gathering(),
            key,
            tail,
            entries,
            then: Vec::new(),
            marks: Vec::new(),
            unstored: VecDeque::new(),
            unstored_bytes: 0,
            leads_gathering: false,
            is_refused: false,
            before: None,
        }
    }

    /// Sends everything that is written to this record first.
    pub(crate) fn record_first(&mut self, recording: Recording) {
        let before = RecordStage {
            recording,
            facts: None,
            on_way: None,
            is_over: false,
        };
        self.before = Some(Box::new(before));
    }

    /// Writes an entry and returns its number.
    pub(crate) fn entry<B: Body + Into<EntryBody>>(
        &mut self,
        turn: Option<TurnId>,
        body: B,
        meta: Option<Meta>,
    ) -> u64 {
        let keeps_content = self.tail.wants_contents();
        self.entries.entry(turn, body, meta, keeps_content)
    }

    /// Returns the writer of the entries.
    pub(crate) fn entries(&mut self) -> &mut EntryWriter {
        &mut self.entries
    }

    /// Adds an action for the time when all entries written so far are stored.
    pub(crate) fn then(&mut self, then: T) {
        self.then.push(then);
    }

    /// Puts a mark after the entries written so far.
    pub(crate) fn mark(&mut self, mark: Vec<u8>) {
        self.marks.push(mark.into());
    }

    /// Hands on the gathered entries: to the journal, or to the record if nothing is on its way
    /// there.
    pub(crate) fn flush(&mut self) {
        self.write_gathered();
        let has_facts = self
            .before
            .as_ref()
            .is_some_and(|before| before.facts.is_some());
        let has_more = self.entries.count() > 0 || !self.marks.is_empty() || has_facts;
        if !has_more && self.then.is_empty() {
            return;
        }
        let Some(before) = &mut self.before else {
            return self.flush_to_journal();
        };
        if before.on_way.is_some() || before.is_over {
            return;
        }
        let then = std::mem::take(&mut self.then);
        if !has_more {
            let ticket = self.last_ticket();
            let first = self.entries.last() + 1;
            let last = self.entries.last();
            return self.unstored.push_back(PendingBlock {
                ticket,
                first,
                last,
                lines: Bytes::new(),
                contents: Vec::new(),
                then,
            });
        }
        let session = self.entries.id().clone();
        let epoch = self.entries.epoch();
        let EntryBlock {
            first,
            count,
            lines,
            contents,
        } = self.entries.take_block();
        let marks = std::mem::take(&mut self.marks);
        let facts = before.facts.take();
        let is_last = |facts: &GatheredFacts| facts.is_settled && facts.last == self.entries.last();
        let is_settled = facts.as_ref().is_some_and(is_last) && marks.is_empty();
        let facts = facts.map(|facts| facts.bytes);
        self.unstored_bytes += lines.len();
        let batch = Batch {
            session,
            epoch,
            first,
            count,
            lines,
            facts,
            is_settled,
            marks,
        };
        let recorded = before.recording.record.store(batch.clone());
        before.on_way = Some(BatchInFlight {
            recorded,
            batch,
            contents,
            then,
        });
    }

    fn flush_to_journal(&mut self) {
        let epoch = self.entries.epoch();
        let EntryBlock {
            first,
            count,
            lines,
            contents,
        } = self.entries.take_block();
        let last = self.entries.last();
        // The actions of earlier entries follow when those are stored.
        let mut ticket = self.last_ticket();
        if count > 0 && !is_refused(&ticket) {
            ticket = self
                .journal
                .put_entries(self.key, epoch, first, count, &lines);
        }
        for mark in std::mem::take(&mut self.marks) {
            if !is_refused(&ticket) {
                ticket = self.journal.put_mark(self.key, epoch, last, &mark);
            }
        }
        self.is_refused |= is_refused(&ticket);
        self.unstored_bytes += lines.len();
        let then = std::mem::take(&mut self.then);
        self.unstored.push_back(PendingBlock {
            ticket,
            first,
            last,
            lines,
            contents,
            then,
        });
        self.leads_gathering |= self.journal.leads_gathering();
    }

    fn write_gathered(&mut self) {
        if std::mem::take(&mut self.leads_gathering) {
            self.journal.write_gathered();
        }
    }

    /// Returns the ticket of the last block. Nothing is put behind a block that was rejected,
    /// whatever its number is.
    fn last_ticket(&self) -> Ticket {
        self.unstored
            .back()
            .map_or_else(Ticket::stored, |unstored| unstored.ticket.clone())
    }

    /// Puts the facts, as of all entries written so far.
    pub(crate) fn put_facts(&mut self, facts: &SessionFacts) {
        let bytes = facts.to_bytes();
        if let Some(before) = &mut self.before {
            // The facts include the marks.
            self.marks.clear();
            let last = self.entries.last();
            let is_settled = facts.open.is_empty();
            before.facts = Some(GatheredFacts {
                bytes: bytes.into(),
                last,
                is_settled,
            });
            return self.flush();
        }
        self.flush();
        let settled = if facts.open.is_empty() {
            Settled::Yes
        } else {
            Settled::No
        };
        if self.is_refused {
            return;
        }
        self.journal
            .put_facts(
                self.key,
                self.entries.epoch(),
                self.entries.last(),
                &bytes,
                settled,
            )
            .detach();
        self.leads_gathering |= self.journal.leads_gathering();
    }

    /// Returns the epoch in which entries are written.
    pub(crate) fn epoch(&self) -> u64 {
        self.entries.epoch()
    }

    /// Returns the number of the last entry that was written.
    pub(crate) fn last(&self) -> u64 {
        self.entries.last()
    }

    /// Returns `true` if there is room for a further event.
    pub(crate) fn has_room(&self) -> bool {
        self.unstored_bytes + self.entries.bytes() < ROOM && !self.journal.is_full()
    }

    /// Returns `true` if everything is stored.
    pub(crate) fn is_idle(&self) -> bool {
        let is_recorded = self.before.as_ref().is_none_or(|before| {
            before.on_way.is_none() && before.facts.is_none() && self.marks.is_empty()
        });
        self.unstored.is_empty() && self.entries.bytes() == 0 && self.then.is_empty() && is_recorded
    }

    /// Returns `true` if enough was gathered to put it now.
    pub(crate) fn is_due(&self) -> bool {
        self.entries.bytes() > ROOM / 4
    }

    /// Waits until the oldest block is stored, and publishes it to the listeners. Never resolves if
    /// nothing was put.
    ///
    /// # Errors
    /// The reason that the record rejects the oldest batch. Nothing that was written from it on is
    /// stored, or will be.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(crate) async fn stored(&mut self) -> Result<StoredBlock<T>, NotRecorded> {
        if std::mem::take(&mut self.leads_gathering) {
            let _write = GatheredWrite(&self.journal);
            // The sessions that run meanwhile are written with this one.
            tokio::task::yield_now().await;
        }
        while let Some(on_way) = self
            .before
            .as_mut()
            .and_then(|before| before.on_way.as_mut())
        {
            let oldest = self.unstored.front_mut();
            let is_some = oldest.is_some();
            tokio::select! {
                biased;
                result = async { (&mut oldest.expect("the branch's condition ensures it").ticket).await }, if is_some => return Ok(self.take_stored(result)),
                recorded = &mut on_way.recorded => self.recorded(recorded)?,
            }
        }
        let result = match self.unstored.front_mut() {
            Some(unstored) => (&mut unstored.ticket).await,
            None => std::future::pending().await,
        };
        Ok(self.take_stored(result))
    }

    /// Waits until the journal has everything that was put into it, and publishes it to the
    /// listeners.
    pub(crate) async fn journaled(&mut self) {
        self.write_gathered();
        while let Some(unstored) = self.unstored.front_mut() {
            let result = (&mut unstored.ticket).await;
            drop(self.take_stored(result));
        }
    }

    /// Handles the record's answer to the batch on its way. An accepted batch goes to the journal.
    fn recorded(&mut self, recorded: Result<(), NotRecorded>) -> Result<(), NotRecorded> {
        let Some(before) = &mut self.before else {
            return Ok(());
        };
        if let Err(why) = recorded {
            before.is_over = true;
            // No further answer comes; the batch that was on its way is still counted.
            before
                .on_way
                .iter_mut()
                .for_each(|on_way| on_way.recorded = Box::pin(std::future::pending()));
            return Err(why);
        }
        let Some(BatchInFlight {
            batch,
            contents,
            then,
            ..
        }) = before.on_way.take()
        else {
            return Ok(());
        };
        let mut ticket = self.last_ticket();
        if !batch.is_empty() && !is_refused(&ticket) {
            ticket = batch.put(&self.journal, self.key, batch.first - 1);
            self.journal.write_gathered();
        }
        self.is_refused |= is_refused(&ticket);
        let first = batch.first;
        let last = batch.last();
        self.unstored.push_back(PendingBlock {
            ticket,
            first,
            last,
            lines: batch.lines,
            contents,
            then,
        });
        self.flush();
        Ok(())
    }

    /// Handles the outcome of the oldest block.
    fn take_stored(&mut self, result: Result<(), NotStored>) -> StoredBlock<T> {
        let Some(unstored) = self.unstored.pop_front() else {
            return StoredBlock {
                result,
                then: Vec::new(),
            };
        };
        self.unstored_bytes -= unstored.lines.len();
        if unstored.last >= unstored.first {
            match &result {
                Ok(()) => {
                    self.tail.publish(
                        unstored.first,
                        unstored.last,
                        unstored.lines,
                        unstored.contents,
                    );
                }
                Err(why) => {
                    let from = unstored.first;
                    let to = unstored.last;
                    tracing::warn!(session = %self.entries.id(), from, to, "entries are lost: {why}");
                }
            }
        }
        StoredBlock {
            result,
            then: unstored.then,
        }
    }

    /// Counts the waiting actions for which `is_meant` holds.
    pub(crate) fn count_actions(&self, mut is_meant: impl FnMut(&T) -> bool) -> usize {
        let on_way = self
            .before
            .iter()
            .flat_map(|before| &before.on_way)
            .flat_map(|on_way| &on_way.then);
        let thens = self
            .unstored
            .iter()
            .flat_map(|unstored| &unstored.then)
            .chain(on_way)
            .chain(&self.then);
        thens.filter(|then| is_meant(then)).count()
    }

    /// Takes back actions of entries that are not stored yet.
    pub(crate) fn take_back(&mut self, mut is_meant: impl FnMut(&T) -> bool) -> Vec<T> {
        let on_way = self
            .before
            .iter_mut()
            .filter_map(|before| before.on_way.as_mut());
        let unstored = self.unstored.iter_mut().map(|unstored| &mut unstored.then);
        let thens = unstored
            .chain(on_way.map(|on_way| &mut on_way.then))
            .chain([&mut self.then]);
        thens
            .flat_map(|then| {
                then.extract_if(.., |then| is_meant(then))
                    .collect::<Vec<_>>()
            })
            .collect()
    }
}

/// Makes the journal write what was gathered when it is dropped, so that a session which leads never
/// keeps the others waiting.
struct GatheredWrite<'a>(&'a Journal);

impl Drop for GatheredWrite<'_> {
    fn drop(&mut self) {
        self.0.write_gathered();
    }
}

/// Returns `true` if the journal has rejected the block.
pub(crate) fn is_refused(ticket: &Ticket) -> bool {
    matches!(ticket.ended(), Some(Err(_)))
}

impl<T> Drop for RecordStage<T> {
    fn drop(&mut self) {
        // The recorder counts the entries that were gathered behind it.
        if let Some(on_way) = &self.on_way
            && on_way.batch.count > 0
        {
            self.recording
                .drop_entries(&on_way.batch.session, u64::from(on_way.batch.count));
        }
    }
}

impl<T> Drop for EntryRecorder<T> {
    fn drop(&mut self) {
        self.write_gathered();
        if let Some(before) = &self.before
            && self.entries.count() > 0
        {
            before
                .recording
                .drop_entries(self.entries.id(), u64::from(self.entries.count()));
        }
    }
}

/// Consecutive entries of one epoch.
#[derive(Debug)]
pub(crate) struct EntryWriter {
    id: SessionId,
    epoch: u64,
    /// The number of the next entry.
    next: u64,
    /// The number of the first entry that is not handed on, and the lines from there on.
    first: u64,
    lines: Vec<u8>,
    /// The contents of these entries if a listener wants them: all from `first` on, or none.
    contents: Vec<Arc<EntryContent>>,
    ending: String,
}

/// Entries that go into the journal together.
#[derive(Debug)]
pub(crate) struct EntryBlock {
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) lines: Bytes,
    pub(crate) contents: Vec<Arc<EntryContent>>,
}

impl EntryWriter {
    /// Creates a writer of the entries after `last`.
    pub(crate) fn new(id: SessionId, epoch: u64, last: u64) -> Self {
        let next = last + 1;
        Self {
            id,
            epoch,
            next,
            first: next,
            lines: Vec::new(),
            contents: Vec::new(),
            ending: String::new(),
        }
    }

    /// Writes an entry and returns its number. Its content is kept for listeners if
    /// `keeps_content`.
    pub(crate) fn entry<B: Body + Into<EntryBody>>(
        &mut self,
        turn: Option<TurnId>,
        body: B,
        meta: Option<Meta>,
        keeps_content: bool,
    ) -> u64 {
        let message = Envelope {
            session_id: self.id.clone(),
            turn_id: turn,
            meta,
            large: None,
            body,
        };
        message.write(&mut self.lines);
        // Replaces the brace and the LF.
        self.lines.truncate(self.lines.len() - 2);
        let seq = self.next;
        if keeps_content {
            self.contents.push(Arc::new(EntryContent {
                turn_id: message.turn_id,
                body: message.body.into(),
            }));
        }
        self.next += 1;
        self.ending.clear();
        let _ = writeln!(
            self.ending,
            ",\"seq\":{seq},\"epoch\":{},\"time\":\"{}\"}}",
            self.epoch,
            now()
        );
        self.lines.extend_from_slice(self.ending.as_bytes());
        seq
    }

    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the number of the last entry that was written.
    pub(crate) fn last(&self) -> u64 {
        self.next - 1
    }

    /// Returns the number of entries that are not handed on.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.next - self.first).unwrap_or(u32::MAX)
    }

    /// Returns the size of these entries in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len()
    }

    /// Returns the entries that were written since the last block.
    pub(crate) fn take_block(&mut self) -> EntryBlock {
        let block = EntryBlock {
            first: self.first,
            count: self.count(),
            lines: Bytes::from(std::mem::take(&mut self.lines)),
            contents: std::mem::take(&mut self.contents),
        };
        self.first = self.next;
        block
    }
}
