//! What an agent has sent of one session and no one has read yet.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::agent::locked;
use crate::agent::rpc::Id;

/// The most that waits in a session, in bytes. A session whose host does not read costs this much, and then its turn.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// The most updates and requests that wait in a session.
const MOST_ITEMS: usize = 256 * 1024;

/// What an agent has sent.
#[derive(Debug)]
pub(crate) enum Item {
    /// The parameters of a `session/update`.
    Update(Box<RawValue>),
    /// The parameters of an `elicitation/complete`.
    Complete(Box<RawValue>),
    /// A request that is to be answered.
    Request {
        id: Id,
        method: String,
        params: Box<RawValue>,
    },
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Arrival {
    Item(Item),
    /// So many updates found no room and are lost.
    Lost(u64),
    /// Another session has resumed this one's and gets what follows. Reported once.
    Taken,
}

/// A session's queue. Who puts something in never waits.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    bytes: usize,
    lost: u64,
    taken: Option<Taken>,
}

/// Whether the reader knows that nothing follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Unreported,
    Reported,
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Self::Update(params) | Self::Complete(params) => params.get().len(),
            Self::Request { params, method, .. } => params.get().len() + method.len(),
        }
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        locked(&self.queue)
    }

    /// Puts something in. Where there is no room it is given back, and an update counts as lost.
    pub(crate) fn put(&self, item: Item) -> Result<(), Item> {
        let mut queue = self.lock();
        let bytes = item.bytes();
        // One that is larger than the bound still comes through, alone: its line had a bound of its own.
        let is_full = !queue.items.is_empty()
            && (queue.bytes.saturating_add(bytes) > MOST_BYTES || queue.items.len() >= MOST_ITEMS);
        let put = if is_full {
            queue.lost += u64::from(matches!(item, Item::Update(_)));
            Err(item)
        } else {
            queue.bytes += bytes;
            queue.items.push_back(item);
            Ok(())
        };
        drop(queue);
        self.came.notify_one();
        put
    }

    /// From now on another session gets what the agent sends; what waits is still read.
    pub(crate) fn hand_over(&self) {
        self.lock().taken = Some(Taken::Unreported);
        self.came.notify_one();
    }

    /// Whether another session gets what the agent sends.
    pub(crate) fn is_taken(&self) -> bool {
        self.lock().taken.is_some()
    }

    /// What came first, if anything did.
    pub(crate) fn take(&self) -> Option<Arrival> {
        let mut queue = self.lock();
        if let Some(item) = queue.items.pop_front() {
            queue.bytes -= item.bytes();
            return Some(Arrival::Item(item));
        }
        match std::mem::take(&mut queue.lost) {
            0 if queue.taken == Some(Taken::Unreported) => {
                queue.taken = Some(Taken::Reported);
                Some(Arrival::Taken)
            }
            0 => None,
            lost => Some(Arrival::Lost(lost)),
        }
    }

    /// Waits for what comes next. One reader at a time.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn next(&self) -> Arrival {
        loop {
            let came = self.came.notified();
            if let Some(arrival) = self.take() {
                return arrival;
            }
            came.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(bytes: usize) -> Item {
        let text = serde_json::value::to_raw_value(&"x".repeat(bytes)).unwrap();
        Item::Update(text)
    }

    #[tokio::test]
    async fn what_finds_no_room_is_counted_and_told_after_the_rest() {
        let inbox = Inbox::default();
        inbox.put(update(MOST_BYTES - 100)).unwrap();
        inbox.put(update(200)).unwrap_err();
        inbox.put(update(300)).unwrap_err();
        assert!(matches!(inbox.next().await, Arrival::Item(Item::Update(_))));
        assert!(matches!(inbox.next().await, Arrival::Lost(2)));
        assert!(inbox.take().is_none());
        inbox.put(update(200)).unwrap();
        assert!(matches!(inbox.next().await, Arrival::Item(_)));
    }

    #[tokio::test]
    async fn what_another_session_took_over_is_told_once_and_after_the_rest() {
        let inbox = Inbox::default();
        inbox.put(update(1)).unwrap();
        assert!(!inbox.is_taken());
        inbox.hand_over();
        assert!(matches!(inbox.next().await, Arrival::Item(_)));
        assert!(matches!(inbox.next().await, Arrival::Taken));
        assert!(inbox.take().is_none() && inbox.is_taken());
    }
}
