//! An adapter's end of its pipe, for every kind of adapter: the SDK's programs, and the relay.
//!
//! # Theory of operation
//!
//! [`take_stdio`] takes descriptors 0 and 1 for the wire, once, for the rest of the process's life.
//! Dropping its result closes the pipe; the descriptors are not given back.
//!
//! [`Fair`] holds the messages that wait for stdout, by session, and decides which session writes
//! next. It is plain data: no lock, no task, no clock. Its owner puts whole messages in, takes a
//! batch for each write, and wakes the sessions that contributed to it; dropping it drops the
//! waiting messages.
//!
//! ```
//! use trunkline_pipe::{Class, Fair, Key, Rounds, Turns};
//!
//! let turns = Turns { quantum: 4, batch: 8, rounds: Rounds::One };
//! let (mut fair, mut batch, mut gave) = (Fair::default(), Vec::new(), Vec::new());
//! for _ in 0..100 {
//!     fair.push(Key(1), b"aaaa".to_vec(), Class::Event);
//! }
//! fair.push(Key(2), b"b".to_vec(), Class::Event);
//! fair.take(turns, &mut batch, &mut gave);
//! assert_eq!(batch, b"aaaab", "a flood keeps no other session waiting");
//! assert_eq!(gave, [Key(1), Key(2)]);
//! ```

#![forbid(unsafe_code)]

mod fair;
mod large;
mod socket_path;
mod stdio;

pub use fair::{Class, Fair, Flow, Key, Rounds, Turns};
pub use large::{keep_json, place_large, place_large_aside, take_json};
pub use socket_path::SocketPath;
pub use stdio::{Input, Output, take_stdio};
