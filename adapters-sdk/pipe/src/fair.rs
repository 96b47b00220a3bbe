//! Fair scheduling of writes: deficit round robin over the sessions, by bytes ([relay.6]).
//!
//! Pure: takes bytes of whole messages, and returns batches. A session in its turn gets a quantum
//! and writes while it has credit; its last message may overdraw, and the debt is paid back in the
//! following turns, even if nothing waits at the moment: otherwise a session whose task puts one
//! large message at a time would escape it.

use std::collections::{HashMap, VecDeque};

/// Parameters of the scheduling.
#[derive(Debug, Clone, Copy)]
pub struct Turns {
    /// Bytes that a session may write in its turn.
    pub quantum: usize,
    /// Bytes of a batch, unless a single message is larger.
    pub batch: usize,
    /// Rounds of a batch.
    pub rounds: Rounds,
}

/// Rounds of a batch. A round without any write does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounds {
    /// One round. Sessions that have nothing left can add messages meanwhile, so that no session gains
    /// from the time of the write.
    One,
    /// As many as fill it.
    Full,
}

/// Names a session's queue; never used twice, unlike session ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub u64);

/// Messages that wait for the pipe, by session.
#[derive(Debug, Default)]
pub struct Fair {
    /// Sessions that hold or owe something, or are paused.
    queues: HashMap<Key, Queue>,
    /// Sessions with a coming turn, in order.
    ring: VecDeque<Key>,
    /// Number of turns left in this round.
    left: usize,
    /// Session whose turn the last batch cut short.
    interrupted: Option<Key>,
    /// The bytes of answers in queues that are not paused.
    answers: usize,
    /// True if a session may owe something.
    owed: bool,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Number of bytes that are answers.
    answers: usize,
    /// Bytes that it may still write in its turn; negative after an overdraft.
    credit: i64,
    paused: bool,
    in_ring: bool,
}

#[derive(Debug)]
struct Message {
    line: Vec<u8>,
    class: Class,
}

/// Class of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// An event of the session. Its producer waits for room.
    Event,
    /// An answer to a message of the peer. Its producer cannot wait and must not drop it, so the
    /// peer's messages wait instead.
    Answer,
}

/// State change of a session's flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Holds its messages back.
    Pause,
    /// Releases its messages.
    Resume,
}

impl Fair {
    /// Adds a whole message of a session.
    pub fn push(&mut self, key: Key, line: Vec<u8>, class: Class) {
        let queue = self.queues.entry(key).or_default();
        queue.bytes += line.len();
        if class == Class::Answer {
            queue.answers += line.len();
            if !queue.paused {
                self.answers += line.len();
            }
        }
        queue.messages.push_back(Message { line, class });
        if !queue.paused && !std::mem::replace(&mut queue.in_ring, true) {
            self.ring.push_back(key);
        }
    }

    /// Returns the number of sessions that hold or owe something, or are paused.
    #[inline]
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.queues.len()
    }

    /// Returns true if a session holds or owes something, or is paused: its writes wait for their
    /// turn.
    #[inline]
    #[must_use]
    pub fn has(&self, key: Key) -> bool {
        !self.queues.is_empty() && self.queues.contains_key(&key)
    }

    /// Returns the number of waiting bytes of a session.
    #[inline]
    #[must_use]
    pub fn bytes(&self, key: Key) -> usize {
        self.queues.get(&key).map_or(0, |queue| queue.bytes)
    }

    /// Returns the number of bytes of answers in all queues that are not paused.
    #[must_use]
    pub fn answers(&self) -> usize {
        self.answers
    }

    /// Returns the number of bytes of answers that a paused session holds back.
    #[must_use]
    pub fn held_answers(&self, key: Key) -> usize {
        self.queues
            .get(&key)
            .filter(|queue| queue.paused)
            .map_or(0, |queue| queue.answers)
    }

    /// Returns true if a session is paused.
    #[inline]
    #[must_use]
    pub fn is_paused(&self, key: Key) -> bool {
        self.queues.get(&key).is_some_and(|queue| queue.paused)
    }

    /// Holds a session's messages back, or lets them go in order ([flow.1]).
    pub fn flow(&mut self, key: Key, flow: Flow) {
        match flow {
            Flow::Pause => {
                let queue = self.queues.entry(key).or_default();
                if !std::mem::replace(&mut queue.paused, true) {
                    self.answers -= queue.answers;
                }
            }
            Flow::Resume => {
                let Some(queue) = self.queues.get_mut(&key) else {
                    return;
                };
                if std::mem::replace(&mut queue.paused, false) {
                    self.answers += queue.answers;
                }
                if !std::mem::replace(&mut queue.in_ring, true) {
                    self.ring.push_back(key);
                }
            }
        }
    }

    /// Lets all paused sessions go.
    pub fn resume_all(&mut self) {
        let paused: Vec<_> = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.paused)
            .map(|(key, _)| *key)
            .collect();
        for key in paused {
            self.flow(key, Flow::Resume);
        }
    }

    /// Drops what a session holds: it has fallen silent ([session.4]).
    pub fn purge(&mut self, key: Key) {
        let Some(queue) = self.queues.remove(&key) else {
            return;
        };
        if !queue.paused {
            self.answers -= queue.answers;
        }
        if queue.in_ring {
            self.ring.retain(|waiting| *waiting != key);
        }
    }

    /// Appends the next batch to `out` and names those that gave to it. Nothing given: nothing can
    /// be written now.
    ///
    /// A session is named once for each turn in which it wrote.
    #[inline]
    pub fn take(&mut self, turns: Turns, out: &mut Vec<u8>, gave: &mut Vec<Key>) {
        if !self.ring.is_empty() || self.interrupted.is_some() {
            self.take_turns(turns, out, gave);
        }
    }

    fn take_turns(&mut self, turns: Turns, out: &mut Vec<u8>, gave: &mut Vec<Key>) {
        let quantum = i64::try_from(turns.quantum).unwrap_or(i64::MAX);
        let start = out.len();
        loop {
            let (key, earned) = match self.interrupted.take() {
                Some(key) => (key, 0),
                None => {
                    if self.left == 0 {
                        let enough = turns.rounds == Rounds::One && out.len() > start;
                        if enough || !self.any_waits() {
                            return;
                        }
                        self.left = self.ring.len();
                    }
                    self.left = self.left.saturating_sub(1);
                    let Some(key) = self.ring.pop_front() else {
                        return;
                    };
                    (key, quantum)
                }
            };
            let Some(queue) = self.queues.get_mut(&key) else {
                continue;
            };
            if queue.paused {
                queue.in_ring = false;
                continue;
            }
            queue.credit += earned;
            let before = out.len();
            let answers = queue.answers;
            let cut = queue.write(out, start, turns.batch);
            self.owed |= queue.credit < 0;
            self.answers -= answers - queue.answers;
            if out.len() > before {
                gave.push(key);
            }
            if cut {
                self.interrupted = Some(key);
                return;
            }
            if queue.messages.is_empty() && queue.credit >= 0 {
                self.queues.remove(&key);
            } else {
                self.ring.push_back(key);
            }
        }
    }

    fn any_waits(&self) -> bool {
        let mut queues = self.ring.iter().filter_map(|key| self.queues.get(key));
        queues.any(|queue| !queue.paused && !queue.messages.is_empty())
    }

    /// Forgives all debts: the peer has read everything, so no session had to wait.
    #[inline]
    pub fn forgive(&mut self) {
        if std::mem::take(&mut self.owed) {
            self.forgive_all();
        }
    }

    fn forgive_all(&mut self) {
        self.queues.retain(|_, queue| {
            queue.credit = 0;
            queue.paused || !queue.messages.is_empty()
        });
        self.ring.retain(|key| self.queues.contains_key(key));
        self.left = 0;
    }
}

impl Queue {
    /// Writes while there is credit. Whether the batch, which begins at `start` and has `most`
    /// bytes, was full before the credit was used up.
    fn write(&mut self, out: &mut Vec<u8>, start: usize, most: usize) -> bool {
        while self.credit > 0 {
            let Some(message) = self.messages.front() else {
                break;
            };
            let batch = out.len() - start;
            let bytes = message.line.len();
            if batch > 0 && batch + bytes > most {
                return true;
            }
            self.credit -= i64::try_from(bytes).unwrap_or(i64::MAX);
            self.bytes -= bytes;
            if message.class == Class::Answer {
                self.answers -= bytes;
            }
            out.extend_from_slice(&message.line);
            self.messages.pop_front();
        }
        if self.messages.is_empty() {
            // Credit is for waiting messages; an empty queue saves nothing up.
            self.credit = self.credit.min(0);
        }
        false
    }
}

#[cfg(test)]
mod tests;
