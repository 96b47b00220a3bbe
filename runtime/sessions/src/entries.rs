//! Encoder for entries of one session: numbered lines that are not handed on yet.

use std::{fmt::Write, sync::Arc};

use bytes::Bytes;
use trunkline_protocol::{Body, Envelope, Meta, SessionId, TurnId};

use crate::{
    entry::{EntryBody, EntryContent},
    facts::now,
};

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
