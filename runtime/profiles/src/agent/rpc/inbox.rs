//! Messages of one session that wait until it reads them: bounded, so that the reader of a shared
//! process never waits for a slow session.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::Id;
use crate::agent::locked;

/// The most that waits for a session, in bytes. One message may be larger: its line had a bound of its own.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The most that waits for a session that is not reading, in bytes.
const MAX_UNREAD_BYTES: usize = 256 * 1024;

/// Bytes that are counted for a message beside its text.
const OVERHEAD: usize = 128;

/// A message of the process for one session.
#[derive(Debug)]
pub(crate) enum InboxMessage {
    Notification {
        method: String,
        params: Box<RawValue>,
    },
    Request {
        id: Id,
        method: String,
        params: Box<RawValue>,
    },
    /// A session that this one has begun works.
    Alive,
}

impl InboxMessage {
    pub(crate) fn notification(method: &str, params: &RawValue) -> Self {
        Self::Notification {
            method: method.to_owned(),
            params: params.to_owned(),
        }
    }

    pub(crate) fn request(id: Id, method: &str, params: &RawValue) -> Self {
        Self::Request {
            id,
            method: method.to_owned(),
            params: params.to_owned(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        OVERHEAD
            + match self {
                Self::Notification { method, params } | Self::Request { method, params, .. } => {
                    method.len() + params.get().len()
                }
                Self::Alive => 0,
            }
    }

    /// Returns the id of a request.
    fn into_request(self) -> Option<Id> {
        match self {
            Self::Request { id, .. } => Some(id),
            Self::Notification { .. } | Self::Alive => None,
        }
    }
}

/// The next thing that a session reads.
#[derive(Debug)]
pub(crate) enum InboxArrival {
    Mail(InboxMessage),
    /// So many notifications found no room. Everything before them was read.
    Lost(u64),
    /// Another session has resumed this one and gets what follows. Reported once.
    Taken,
}

/// Queue of a session's messages. Putting one in never waits.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    queue: Mutex<MailQueue>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct MailQueue {
    mail: VecDeque<InboxMessage>,
    bytes: usize,
    lost: u64,
    taken: Option<ResumedElsewhere>,
    /// While the session is not reading: the notifications that are kept, by their methods.
    kept_unread: Option<&'static [&'static str]>,
}

/// Another session has resumed this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResumedElsewhere {
    Unreported,
    Reported,
}

impl MailQueue {
    fn wants(&self, mail: &InboxMessage) -> bool {
        match (mail, self.kept_unread) {
            _ if self.taken.is_some() => false,
            (InboxMessage::Alive, None) => !matches!(self.mail.back(), Some(InboxMessage::Alive)),
            (InboxMessage::Notification { method, .. }, Some(kept)) => {
                kept.contains(&method.as_str())
            }
            (InboxMessage::Notification { .. } | InboxMessage::Request { .. }, None) => true,
            (InboxMessage::Alive | InboxMessage::Request { .. }, Some(_)) => false,
        }
    }

    /// Returns true if a message of so many bytes finds no room. After a loss none does, until the
    /// loss was reported: what is read has no gap.
    fn is_full_for(&self, bytes: usize) -> bool {
        let max = self.kept_unread.map_or(MAX_BYTES, |_| MAX_UNREAD_BYTES);
        self.lost > 0 || !self.mail.is_empty() && self.bytes.saturating_add(bytes) > max
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, MailQueue> {
        locked(&self.queue)
    }

    /// Adds a message. Returns the id of a request that is not kept and must be refused.
    pub(crate) fn put(&self, mail: InboxMessage) -> Option<Id> {
        let mut queue = self.lock();
        if !queue.wants(&mail) {
            return mail.into_request();
        }
        let bytes = mail.bytes();
        let refused = if queue.is_full_for(bytes) {
            let is_loss =
                matches!(mail, InboxMessage::Notification { .. }) && queue.kept_unread.is_none();
            queue.lost += u64::from(is_loss);
            mail.into_request()
        } else {
            queue.bytes += bytes;
            queue.mail.push_back(mail);
            None
        };
        drop(queue);
        self.arrived.notify_one();
        refused
    }

    /// Hands the session over to another one, which gets the messages from now on; those that wait
    /// are still read.
    pub(crate) fn hand_over(&self) {
        self.lock().taken = Some(ResumedElsewhere::Unreported);
        self.arrived.notify_one();
    }

    /// Returns true if another session gets the messages.
    pub(crate) fn is_taken(&self) -> bool {
        self.lock().taken.is_some()
    }

    /// Begins to read again after [`pause`](Self::pause).
    pub(crate) fn resume(&self) {
        self.lock().kept_unread = None;
    }

    /// Stops reading, except that the notifications of these methods are kept. Drops what waits,
    /// and returns the ids of the requests in it, which must be refused.
    pub(crate) fn pause(&self, kept: &'static [&'static str]) -> Vec<Id> {
        let mut queue = self.lock();
        let taken = queue.taken;
        let kept_unread = Some(kept);
        let unread = std::mem::replace(
            &mut *queue,
            MailQueue {
                taken,
                kept_unread,
                ..MailQueue::default()
            },
        );
        drop(queue);
        let mail = unread.mail.into_iter();
        mail.filter_map(InboxMessage::into_request).collect()
    }

    /// Takes what came first, if there is anything.
    pub(crate) fn take(&self) -> Option<InboxArrival> {
        let mut queue = self.lock();
        if let Some(mail) = queue.mail.pop_front() {
            queue.bytes -= mail.bytes();
            return Some(InboxArrival::Mail(mail));
        }
        match std::mem::take(&mut queue.lost) {
            0 if queue.taken == Some(ResumedElsewhere::Unreported) => {
                queue.taken = Some(ResumedElsewhere::Reported);
                Some(InboxArrival::Taken)
            }
            0 => None,
            lost => Some(InboxArrival::Lost(lost)),
        }
    }

    /// Waits for what comes next. One reader at a time.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn next(&self) -> InboxArrival {
        loop {
            let arrived = self.arrived.notified();
            if let Some(arrival) = self.take() {
                return arrival;
            }
            arrived.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    const KEPT: &[&str] = &["usage"];

    fn note(method: &str, bytes: usize) -> InboxMessage {
        InboxMessage::notification(method, &to_raw_value(&"x".repeat(bytes)).unwrap())
    }

    fn request() -> InboxMessage {
        InboxMessage::request(
            Id::from_raw(to_raw_value(&7).unwrap()),
            "ask",
            RawValue::NULL,
        )
    }

    async fn read(inbox: &Inbox) -> String {
        match inbox.next().await {
            InboxArrival::Mail(InboxMessage::Notification { method, .. }) => method,
            other => format!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn notifications_without_room_are_counted_and_reported_after_the_rest() {
        let inbox = Inbox::default();
        inbox.put(note("large", MAX_BYTES + 1));
        inbox.put(note("lost", 200));
        assert!(inbox.put(request()).is_some());
        assert_eq!(read(&inbox).await, "large");
        inbox.put(note("after the gap", 1));
        assert_eq!(read(&inbox).await, "Lost(2)");
        assert!(inbox.take().is_none());
        inbox.put(note("later", 1));
        assert_eq!(read(&inbox).await, "later");
    }

    #[tokio::test]
    async fn the_handing_over_of_a_session_is_reported_once_and_after_the_rest() {
        let inbox = Inbox::default();
        inbox.put(note("before", 1));
        assert!(!inbox.is_taken());
        inbox.hand_over();
        inbox.put(note("of the other session", 1));
        assert!(inbox.put(request()).is_some());
        assert_eq!(read(&inbox).await, "before");
        assert_eq!(read(&inbox).await, "Taken");
        assert!(inbox.take().is_none() && inbox.is_taken());
    }

    #[tokio::test]
    async fn a_session_that_is_not_reading_keeps_little_and_refuses_requests() {
        let inbox = Inbox::default();
        assert!(inbox.put(request()).is_none());
        inbox.put(note("delta", 10));
        assert_eq!(inbox.pause(KEPT).len(), 1);
        inbox.put(note("delta", 10));
        inbox.put(InboxMessage::Alive);
        assert!(inbox.put(request()).is_some());
        for _ in 0..10_000 {
            inbox.put(note(KEPT[0], 100));
        }
        assert!(inbox.lock().bytes <= MAX_UNREAD_BYTES);
        inbox.resume();
        inbox.put(note("delta", 10));
        assert_eq!(read(&inbox).await, KEPT[0]);
        inbox.pause(KEPT);
        inbox.resume();
        assert!(inbox.take().is_none());
    }

    #[tokio::test]
    async fn signs_of_life_in_a_row_are_one() {
        let inbox = Inbox::default();
        inbox.put(InboxMessage::Alive);
        inbox.put(InboxMessage::Alive);
        inbox.put(note("delta", 1));
        assert_eq!(read(&inbox).await, "Mail(Alive)");
        assert_eq!(read(&inbox).await, "delta");
        assert!(inbox.take().is_none());
    }
}
