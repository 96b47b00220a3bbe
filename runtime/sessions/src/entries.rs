//! Entries of one session that are written down and not handed on: numbered lines.

use std::fmt::Write;

use bytes::Bytes;
use trunkline_protocol::{Body, Envelope, Meta, SessionId, TurnId};

use crate::facts::now;

/// Entries that follow each other, under one epoch.
#[derive(Debug)]
pub(crate) struct Entries {
    id: SessionId,
    epoch: u64,
    /// The number of the next entry.
    next: u64,
    /// The number of the first that is not handed on, and the lines from it on.
    first: u64,
    lines: Vec<u8>,
    ending: String,
}

impl Entries {
    /// Those behind the entry `last`.
    pub(crate) fn new(id: SessionId, epoch: u64, last: u64) -> Self {
        let next = last + 1;
        Self {
            id,
            epoch,
            next,
            first: next,
            lines: Vec::new(),
            ending: String::new(),
        }
    }

    /// Writes an entry, and says its number.
    pub(crate) fn entry<B: Body>(
        &mut self,
        turn: Option<TurnId>,
        body: B,
        meta: Option<Meta>,
    ) -> u64 {
        let message = Envelope {
            session_id: self.id.clone(),
            turn_id: turn,
            meta,
            large: None,
            body,
        };
        message.write(&mut self.lines);
        // In place of the brace and the line's end.
        self.lines.truncate(self.lines.len() - 2);
        let seq = self.next;
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

    /// Hands them on: the number of the first, how many there are, their lines.
    pub(crate) fn take(&mut self) -> (u64, u32, Bytes) {
        let taken = (
            self.first,
            self.count(),
            Bytes::from(std::mem::take(&mut self.lines)),
        );
        self.first = self.next;
        taken
    }
}
