//! What one session has put and the pipe has not taken yet.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::Notify;

/// One session's messages, in order.
#[derive(Debug, Default)]
pub(super) struct Line {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
    /// What it may still take in its turn; negative after a message larger than that, which it pays back.
    credit: i64,
    /// Held back by `flow.pause`.
    pub(super) paused: bool,
    /// Wakes the session's turns that wait for room.
    pub(super) drained: Arc<Notify>,
}

impl Line {
    pub(super) fn push(&mut self, message: Vec<u8>) {
        self.bytes += message.len();
        self.messages.push_back(message);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves what a quantum more allows to the batch.
    pub(super) fn take_turn(&mut self, quantum: i64, out: &mut Vec<u8>) {
        self.credit += quantum;
        while self.credit > 0 {
            let Some(message) = self.messages.pop_front() else {
                self.credit = 0;
                return;
            };
            self.credit -= i64::try_from(message.len()).unwrap_or(i64::MAX);
            self.bytes -= message.len();
            out.extend_from_slice(&message);
        }
    }
}
