//! Counters of a relay's hub: nothing is ignored in silence ([relay.7]).

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($( $(#[$doc:meta])* $name:ident, )*) => {
        #[derive(Debug, Default)]
        pub(crate) struct LiveCounters {
            $( pub(crate) $name: Counter, )*
        }

        /// Counters of one hub.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Counters {
            $( $(#[$doc])* pub $name: u64, )*
        }

        impl LiveCounters {
            /// Returns the current values.
            pub(crate) fn snapshot(&self) -> Counters {
                Counters { $( $name: self.$name.0.load(Ordering::Relaxed), )* }
            }
        }
    };
}

counters! {
    /// Accepted messages.
    messages,
    /// Lines that were not messages ([frame.6]).
    noise,
    /// Messages with a member missing or wrong ([msg.3]).
    bad,
    /// Lines over the limit ([frame.5]).
    too_long,
    /// Messages of an unknown type, or of an extension that was not agreed on ([msg.2]).
    unknown_type,
    /// Messages for sessions that never were ([session.5]).
    unknown_session,
    /// Messages for closed sessions, and answers that nothing waits for ([session.4],
    /// [permission.4]).
    late,
    /// Messages that the hub is not allowed to send.
    forbidden,
    /// A second `session.start` or `session.close` ([session.7]).
    repeated,
    /// Output of turns that had ended, for a hub that cannot distinguish it from the next turn
    /// ([turn.9]).
    late_output,
    /// Messages that were cut, or replaced by an `error`, for the length of the hub's lines
    /// ([frame.11]).
    shortened,
    /// Refused inputs whose ends the hub had not read when the relay ended, beyond what is still
    /// written then.
    unanswered,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add_one(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}
