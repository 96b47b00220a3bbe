//! Counters of an adapter: nothing is lost silently.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use trunkline_core::Counter;

macro_rules! counters {
    (
        counts { $( $(#[$doc:meta])* $name:ident, )* }
        levels { $( $(#[$level_doc:meta])* $level:ident, )* }
    ) => {
        /// Counters of one agent's link, live.
        #[derive(Debug, Default)]
        pub(crate) struct LiveCounters {
            $( pub(crate) $name: Count, )*
            $( pub(crate) $level: Count, )*
        }

        /// Counters of one agent's link at a moment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
        #[non_exhaustive]
        pub struct Counters {
            $( $(#[$doc])* pub $name: u64, )*
            $( $(#[$level_doc])* pub $level: u64, )*
        }

        impl Counters {
            /// Returns the counters that only grow, each with its name.
            pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$( (stringify!($name), self.$name) ),*].into_iter()
            }

            /// Returns the counters that rise and fall, each with its name.
            pub fn levels(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$( (stringify!($level), self.$level) ),*].into_iter()
            }
        }

        impl LiveCounters {
            /// Returns the present values.
            pub(crate) fn snapshot(&self) -> Counters {
                Counters {
                    $( $name: self.$name.0.load(Ordering::Relaxed), )*
                    $( $level: self.$level.0.load(Ordering::Relaxed), )*
                }
            }
        }
    };
}

counters! {
    counts {
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
        /// Messages for closed sessions, and of turns that have ended ([session.4], [turn.9]).
        late,
        /// Messages with a `turn_id` that was never given ([turn.9]).
        foreign,
        /// `turn.complete` without a turn to end ([turn.9]).
        stray_ends,
        /// Answers and requests that came twice or too late ([permission.4]).
        stray_requests,
        /// Requests that were denied at once, since too many wait for their answers.
        denied_requests,
        /// Files that were refused ([file.4]).
        files_refused,
        /// Processes started after the first.
        restarts,
        /// Number of pings that the process did not answer in time.
        suspicions,
        /// Lines read.
        lines_in,
        /// Bytes read.
        bytes_in,
        /// Bytes written.
        bytes_out,
        /// Number of pauses in reading because the disk was slower than the adapter.
        pauses,
        /// Sessions that ended since their unread events fit nowhere; what came after those was dropped.
        overflows,
        /// Turns begun.
        turns,
    }
    levels {
        /// Bytes that wait to be written.
        queued_bytes,
        /// Bytes of events that went to disk, since their readers were slow.
        spooled_bytes,
        /// Sessions open.
        sessions,
    }
}

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Counters of one session, live; they stop at the largest number.
#[derive(Debug, Default)]
pub(crate) struct LiveSessionCounters {
    bad: AtomicU32,
    unknown_type: AtomicU32,
    late: AtomicU32,
    foreign: AtomicU32,
    stray_ends: AtomicU32,
    stray_requests: AtomicU32,
}

/// Counters of one session at a moment; each is part of the agent's counter of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[non_exhaustive]
pub struct SessionCounters {
    /// Messages that were bad, cut or too long, if they named the session ([msg.3], [frame.5]).
    pub bad: u32,
    /// Messages of an unknown type or of an extension that was not agreed on ([msg.2]).
    pub unknown_type: u32,
    /// Messages of turns that have ended ([turn.9]).
    pub late: u32,
    /// Messages with a `turn_id` that was never given ([turn.9]).
    pub foreign: u32,
    /// `turn.complete` without a turn to end ([turn.9]).
    pub stray_ends: u32,
    /// Answers and requests that came twice or too late ([permission.4]).
    pub stray_requests: u32,
}

impl LiveSessionCounters {
    /// Counts what belongs to a session; the rest is its agent's.
    pub(crate) fn count(&self, counter: Counter) {
        let counter = match counter {
            Counter::Bad | Counter::BadOfSession => &self.bad,
            Counter::UnknownType => &self.unknown_type,
            Counter::Late => &self.late,
            Counter::Foreign => &self.foreign,
            Counter::StrayEnd => &self.stray_ends,
            Counter::StrayRequest => &self.stray_requests,
            Counter::UnknownSession | Counter::DeniedRequest | Counter::Restart => return,
        };
        // An error means that it is at the largest number.
        let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            count.checked_add(1)
        });
    }

    pub(crate) fn snapshot(&self) -> SessionCounters {
        let read = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
        SessionCounters {
            bad: read(&self.bad),
            unknown_type: read(&self.unknown_type),
            late: read(&self.late),
            foreign: read(&self.foreign),
            stray_ends: read(&self.stray_ends),
            stray_requests: read(&self.stray_requests),
        }
    }
}
