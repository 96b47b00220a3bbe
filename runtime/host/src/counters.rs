//! What was counted of an adapter: nothing is lost in silence.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($( $(#[$doc:meta])* $name:ident, )*) => {
        /// Counters of one agent's link, live.
        #[derive(Debug, Default)]
        pub(crate) struct Counting {
            $( pub(crate) $name: Count, )*
        }

        /// Counters of one agent's link at a moment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
        #[non_exhaustive]
        pub struct Counters {
            $( $(#[$doc])* pub $name: u64, )*
        }

        impl Counting {
            /// The counters as they stand.
            pub(crate) fn snapshot(&self) -> Counters {
                Counters { $( $name: self.$name.0.load(Ordering::Relaxed), )* }
            }
        }
    };
}

counters! {
    /// Lines that were no messages ([frame.6]).
    noise,
    /// Messages with a member missing or wrong ([msg.3]).
    bad,
    /// Lines over the limit ([frame.5]).
    too_long,
    /// Messages of an unknown type, or of an extension that was not agreed on ([msg.2]).
    unknown_type,
    /// Messages for sessions that never were ([session.5]).
    unknown_session,
    /// Messages for closed sessions, and of turns that have ended ([session.4], [turn.9]).
    late,
    /// Messages with a `turn_id` that was never given ([turn.9]).
    foreign,
    /// `turn.complete` without a turn to end ([turn.9]).
    stray_ends,
    /// Answers and requests that came twice or too late ([permission.4]).
    stray_requests,
    /// Files that were refused ([file.4]).
    files_refused,
    /// Processes started after the first.
    restarts,
    /// Lines read.
    lines_in,
    /// Bytes read.
    bytes_in,
    /// Bytes written.
    bytes_out,
    /// Bytes that wait to be written.
    queued_bytes,
    /// Bytes of events that went to disk, since their readers were slow.
    spooled_bytes,
    /// How often reading paused, since the disk was slower than the adapter.
    pauses,
    /// Sessions open.
    sessions,
    /// Turns begun.
    turns,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}
