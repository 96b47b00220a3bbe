//! Events of many sessions, and calls on them, for a program that handles all of them in one task.

use std::{future::Future, pin::Pin};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};

use crate::{ClientError, Event, Events};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The next item of a stream, and the rest of the stream.
type StreamItem<K> = (K, Result<Option<Event>, ClientError>, Events);

/// The rest of a call: it changes the program's state by the result.
pub type FinishCall<S> = Box<dyn FnOnce(&mut S) + Send>;

/// The next thing for the program to handle.
#[expect(missing_debug_implementations, reason = "a call has none")]
#[expect(clippy::large_enum_variant, reason = "an item is handled at once")]
pub enum SetItem<K, S> {
    /// An event of a session by its key, or the session's end, as [`Events::next`] returns it.
    Event(K, Result<Option<Event>, ClientError>),
    /// The rest of a call that has its result.
    Result(FinishCall<S>),
}

/// Event streams by the key `K`, and calls whose results change a state `S`.
///
/// A program that translates between sessions and one other party polls this in its only loop: no
/// event and no result is handled while another one is. Calls begin in the order of
/// [`SessionSet::call`], so a host gets the calls of a session in that order.
#[expect(missing_debug_implementations, reason = "a call has none")]
pub struct SessionSet<K, S> {
    streams: FuturesUnordered<BoxFuture<StreamItem<K>>>,
    calls: FuturesUnordered<BoxFuture<FinishCall<S>>>,
}

impl<K, S> Default for SessionSet<K, S> {
    fn default() -> Self {
        Self {
            streams: FuturesUnordered::new(),
            calls: FuturesUnordered::new(),
        }
    }
}

impl<K: Send + Clone + 'static, S: 'static> SessionSet<K, S> {
    /// Adds the events of a session, up to their end.
    pub fn watch(&self, key: K, mut events: Events) {
        self.streams.push(Box::pin(async move {
            let next = events.next().await;
            (key, next, events)
        }));
    }

    /// Returns true until all streams have ended.
    #[must_use]
    pub fn is_watching(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Adds a call. It begins when the set is next polled, and `finish` gets its result.
    pub fn call<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
        finish: impl FnOnce(&mut S, T) + Send + 'static,
    ) {
        self.calls.push(Box::pin(async move {
            let result = call.await;
            Box::new(move |state: &mut S| finish(state, result)) as FinishCall<S>
        }));
    }

    /// The number of calls without a result.
    #[must_use]
    pub fn pending_calls(&self) -> usize {
        self.calls.len()
    }

    /// Waits for the next event if `reads_events`, and for the next result. Without, events wait at
    /// their hosts. Of both the event comes first: a result follows the events that brought it.
    /// `None` if there is nothing to wait for.
    ///
    /// # Cancel safety
    /// Cancelling loses nothing.
    pub async fn next(&mut self, reads_events: bool) -> Option<SetItem<K, S>> {
        let Self { streams, calls } = self;
        let (key, next, events) = tokio::select! {
            biased;
            Some(item) = streams.next(), if reads_events => item,
            Some(finish) = calls.next() => return Some(SetItem::Result(finish)),
            else => return None,
        };
        if let Ok(Some(_)) = next {
            self.watch(key.clone(), events);
        }
        Some(SetItem::Event(key, next))
    }

    /// Begins the new calls. Returns the next result without waiting.
    pub fn try_next_result(&mut self) -> Option<FinishCall<S>> {
        self.calls.next().now_or_never().flatten()
    }

    /// Cancels the calls without a result.
    pub fn cancel_calls(&mut self) {
        self.calls.clear();
    }
}
