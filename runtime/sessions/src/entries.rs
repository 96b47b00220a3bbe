//! Entries of one session that are written down and not handed on: numbered lines.

use std::{fmt::Write, sync::Arc};

use bytes::Bytes;
use trunkline_protocol::{Body, Envelope, Meta, SessionId, TurnId};

use crate::{
    entry::{EntryBody, EntryContent},
    facts::now,
};

/// Entries that follow each other, under one epoch.
#[derive(Debug)]
pub(crate) struct EntryWriter {
    id: SessionId,
    epoch: u64,
    /// The number of the next entry.
    next: u64,
    /// The number of the first that is not handed on, and the lines from it on.
    first: u64,
    lines: Vec<u8>,
    /// Their contents, if a listener wants them: all from `first` on, or none.
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
    /// Those behind the entry `last`.
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
        // In place of the brace and the LF.
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

    /// The number of the last entry that was written.
    pub(crate) fn last(&self) -> u64 {
        self.next - 1
    }

    /// How many are not handed on.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.next - self.first).unwrap_or(u32::MAX)
    }

    /// How many bytes these have.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len()
    }

    /// Takes what was written since the last block.
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
