//! The inputs that a session has had, by their ids: the same one twice is one turn.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use trunkline_journal::{Batch, Journal};
use trunkline_protocol::{MessageId, RelayBody, RelayMessage, SessionId, TurnId};

/// How much of the journal is read at once, in bytes.
const READ: usize = 1024 * 1024;

/// How a line begins that tells of an input.
const BEGINS: [&[u8]; 2] = [b"{\"type\":\"turn.begin\"", b"{\"type\":\"input.steered\""];

/// The inputs of one session.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    by_id: HashMap<MessageId, Input>,
    turns: HashSet<TurnId>,
}

#[derive(Debug)]
struct Input {
    turn: Option<TurnId>,
    seq: u64,
    content: u64,
}

/// What is known of an input's id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The journal has this input.
    Same { turn: Option<TurnId>, seq: u64 },
    /// It has another one of this id.
    Other,
}

impl Inputs {
    /// Reads those that the journal has of a session, up to an entry.
    pub(crate) async fn read(journal: &Journal, id: &SessionId, last: u64) -> Self {
        let Some(key) = journal.find(id.as_str()).filter(|_| last > 0) else {
            return Self::default();
        };
        let mut reader = journal.read(key, 1);
        let read = move || {
            let (mut inputs, mut lines) = (Self::default(), Vec::new());
            loop {
                let first = match reader.next(&mut lines, READ) {
                    Ok(Batch::Lines(numbers)) => *numbers.start(),
                    Ok(Batch::Missing(_)) => continue,
                    Ok(Batch::End) | Err(_) => return inputs,
                };
                let each = lines
                    .split(|byte| *byte == b'\n')
                    .filter(|line| !line.is_empty());
                for (seq, line) in (first..).zip(each) {
                    if BEGINS.iter().any(|begin| line.starts_with(begin)) {
                        inputs.take(seq, line);
                    }
                }
                lines.clear();
            }
        };
        // Given up with the runtime.
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }

    fn take(&mut self, seq: u64, line: &[u8]) {
        let message = std::str::from_utf8(line)
            .ok()
            .and_then(|line| RelayMessage::parse(line).ok());
        let Some(message) = message else { return };
        match &message.body {
            RelayBody::TurnBegin(begin) => {
                if let Some(turn) = &message.turn_id {
                    self.add(begin.message_id.as_ref(), turn, seq, &begin.content);
                }
            }
            RelayBody::InputSteered(steered) => {
                if let Some(id) = &steered.message_id {
                    self.add_steer(id.clone(), message.turn_id, seq, &steered.content);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn add(&mut self, id: Option<&MessageId>, turn: &TurnId, seq: u64, content: &str) {
        self.turns.insert(turn.clone());
        if let Some(id) = id {
            let content = hash(content);
            self.by_id.insert(
                id.clone(),
                Input {
                    turn: Some(turn.clone()),
                    seq,
                    content,
                },
            );
        }
    }

    pub(crate) fn add_steer(
        &mut self,
        id: MessageId,
        turn: Option<TurnId>,
        seq: u64,
        content: &str,
    ) {
        self.by_id.insert(
            id,
            Input {
                turn,
                seq,
                content: hash(content),
            },
        );
    }

    pub(crate) fn find(&self, id: &MessageId, content: &str) -> Option<Known> {
        let input = self.by_id.get(id)?;
        Some(match input.content == hash(content) {
            true => Known::Same {
                turn: input.turn.clone(),
                seq: input.seq,
            },
            false => Known::Other,
        })
    }

    pub(crate) fn has_turn(&self, turn: &TurnId) -> bool {
        self.turns.contains(turn)
    }
}

fn hash(content: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
