//! What the app server says of one thread, kept until its session reads it: within a bound, so that the reading of the
//! shared process never waits for a slow session.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::agent::locked;
use crate::agent::process::Ended;
use crate::agent::rpc::Id;

/// The most that waits for a session during its turn, in bytes. One message may be larger.
const MOST: usize = 64 * 1024 * 1024;

/// The most that waits between turns, in bytes: usage and what was learnt of MCP servers.
const MOST_BETWEEN: usize = 256 * 1024;

/// What is counted of a message beside its text.
const OVERHEAD: usize = 128;

/// A message for one session.
#[derive(Debug)]
pub(super) enum Mail {
    Notification {
        method: String,
        params: Box<RawValue>,
    },
    Request {
        id: Id,
        method: String,
        params: Box<RawValue>,
    },
    /// A thread that this one has begun works.
    Alive,
    /// More waited than is kept; all of it is lost.
    Overflow,
    /// The app server has ended.
    Gone(Ended),
    /// Another session has resumed the thread and reads it now.
    Taken,
}

impl Mail {
    fn bytes(&self) -> usize {
        OVERHEAD
            + match self {
                Self::Notification { method, params } | Self::Request { method, params, .. } => {
                    method.len() + params.get().len()
                }
                Self::Alive | Self::Overflow | Self::Gone(_) | Self::Taken => 0,
            }
    }
}

/// Where a session's messages wait.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    mail: VecDeque<Mail>,
    bytes: usize,
    /// Whether a turn reads.
    reading: bool,
    overflowed: bool,
    gone: Option<Ended>,
    taken: bool,
}

/// Notifications that are kept when no turn reads.
const BETWEEN: &[&str] = &[
    "thread/tokenUsage/updated",
    "mcpServer/startupStatus/updated",
    "turn/started",
    "turn/completed",
];

impl Inbox {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Adds a message. Gives it back where it is a request that no one will read.
    pub(super) fn put(&self, mail: Mail) -> Option<Mail> {
        let mut state = self.state();
        let between = |method: &str| BETWEEN.contains(&method);
        let wanted = match &mail {
            _ if state.gone.is_some() || state.taken || state.overflowed => false,
            Mail::Notification { method, .. } => state.reading || between(method),
            Mail::Alive => state.reading && !matches!(state.mail.back(), Some(Mail::Alive)),
            Mail::Request { .. } => state.reading,
            Mail::Overflow | Mail::Gone(_) | Mail::Taken => true,
        };
        if !wanted {
            return matches!(mail, Mail::Request { .. }).then_some(mail);
        }
        let most = if state.reading { MOST } else { MOST_BETWEEN };
        let bytes = mail.bytes();
        if state.bytes + bytes > most && !state.mail.is_empty() {
            if !state.reading {
                return None;
            }
            state.mail.clear();
            state.bytes = 0;
            state.overflowed = true;
            state.mail.push_back(Mail::Overflow);
            self.arrived.notify_one();
            return matches!(mail, Mail::Request { .. }).then_some(mail);
        }
        state.bytes += bytes;
        state.mail.push_back(mail);
        self.arrived.notify_one();
        None
    }

    /// The app server has ended; what waits is still read.
    pub(super) fn gone(&self, ended: &Ended) {
        let mut state = self.state();
        state.gone = Some(ended.clone());
        self.arrived.notify_one();
    }

    /// The thread's messages go to another session from now on; what waits is still read.
    pub(super) fn take(&self) {
        self.state().taken = true;
        self.arrived.notify_one();
    }

    /// Whether they do.
    pub(super) fn is_taken(&self) -> bool {
        self.state().taken
    }

    /// A turn begins to read.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        state.reading = true;
        if std::mem::take(&mut state.overflowed) {
            state.mail.clear();
            state.bytes = 0;
        }
    }

    /// No one reads any more. Gives back the requests that no one has read.
    pub(super) fn end(&self) -> Vec<Mail> {
        let mut state = self.state();
        state.reading = false;
        state.bytes = 0;
        let mail = std::mem::take(&mut state.mail);
        mail.into_iter()
            .filter(|mail| matches!(mail, Mail::Request { .. }))
            .collect()
    }

    /// The next message.
    ///
    /// # Cancel safety
    /// No message is lost.
    pub(super) async fn next(&self) -> Mail {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut state = self.state();
                if let Some(mail) = state.mail.pop_front() {
                    state.bytes = state.bytes.saturating_sub(mail.bytes());
                    return mail;
                }
                if let Some(ended) = &state.gone {
                    return Mail::Gone(ended.clone());
                }
                if state.taken {
                    return Mail::Taken;
                }
            }
            arrived.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(method: &str, bytes: usize) -> Mail {
        let params = RawValue::from_string(format!("\"{}\"", "x".repeat(bytes))).unwrap();
        Mail::Notification {
            method: method.to_owned(),
            params,
        }
    }

    async fn names(inbox: &Inbox, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(match inbox.next().await {
                Mail::Notification { method, .. } => method,
                other => format!("{other:?}"),
            });
        }
        names
    }

    #[tokio::test]
    async fn between_turns_only_little_is_kept() {
        let inbox = Inbox::default();
        inbox.put(note("item/agentMessage/delta", 10));
        for _ in 0..10_000 {
            inbox.put(note(BETWEEN[0], 100));
        }
        assert!(inbox.state().bytes <= MOST_BETWEEN);
        inbox.begin();
        inbox.put(note("later", 1));
        assert_eq!(names(&inbox, 1).await, [BETWEEN[0]]);
    }

    #[tokio::test]
    async fn one_large_message_is_kept_and_too_many_are_one_overflow() {
        let inbox = Inbox::default();
        inbox.begin();
        inbox.put(note("large", MOST + 1));
        assert_eq!(names(&inbox, 1).await, ["large"]);
        for _ in 0..5 {
            inbox.put(note("many", MOST / 2));
        }
        assert_eq!(names(&inbox, 1).await, ["Overflow"]);
        inbox.put(note("after", 1));
        assert!(inbox.state().mail.is_empty());
        inbox.begin();
        inbox.put(note("next turn", 1));
        assert_eq!(names(&inbox, 1).await, ["next turn"]);
    }
}
