//! Keeps what happened in sessions, in files that survive the process.
//!
//! A [`Journal`] is a folder. Of each session it keeps *entries*, lines numbered from 1 without a gap, and *facts*, of
//! which the latest replaces those before. What is put is gathered in memory and written by one thread, everything that
//! waits at once; a [`Ticket`] says when it is stored. Stored is what survives the end of the process, also by
//! SIGKILL; what survives the end of the machine is said by [`Sync`].
//!
//! The journal does not look into lines and facts. What they mean is the affair of those who put them.
//!
//! ```
//! use trunkline_journal::{Journal, Options, Settled};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let (journal, _) = Journal::open(folder.path(), Options::default())?;
//! let (session, _) = journal.create("s-1", br#"{"title":"first"}"#)?;
//! let stored = journal.put_entries(session, 1, 2, b"{\"seq\":1}\n{\"seq\":2}\n");
//! journal.put_facts(session, 2, br#"{"title":"first","turns":1}"#, Settled::Yes).detach();
//! stored.wait()?;
//!
//! let mut lines = Vec::new();
//! journal.read(session, 2).next(&mut lines, 64 * 1024)?;
//! assert_eq!(lines, b"{\"seq\":2}\n");
//! # Ok(())
//! # }
//! ```
//!
//! # Theory of operation
//!
//! ```text
//! put ──▶ block being gathered ──▶ thread: one write ──▶ index, head, tickets
//!                                         │
//!                                         └──▶ NNNNNNNN.log, full at 64 MiB ──▶ NNNNNNNN.dir, checkpoint
//! ```
//!
//! The log is the only truth: blocks of lines and facts of all sessions, in the order in which they were put
//! (`block`, `segment`). The index says in memory what is known of each session, about 200 bytes of each (`index`). It is
//! read again from a checkpoint and the blocks behind it. A database would write each entry into a tree of its own:
//! measured with 64 lines a commit, a block costs 22 µs in a file, 86 µs in SQLite, and rows there 3 ms.
//!
//! The head says how far the log was written, so that an end that is missing is noticed (`head`). One process has a
//! journal at a time (`lock`).

#![forbid(unsafe_code)]

mod block;
mod check;
mod erase;
mod error;
mod files;
mod head;
mod index;
mod journal;
mod lock;
mod opening;
mod reader;
mod retention;
mod segment;
mod ticket;
mod writer;

pub use check::{Damage, Damaged, Report, check};
pub use error::{CreateError, NotStored, OpenError, ReadError};
pub use files::NewFile;
pub use journal::{Hold, Journal, Known, Listed, Options, Position, Settled, Sync};
pub use opening::Opened;
pub use reader::{Batch, Reader};
pub use retention::Retention;
pub use ticket::Ticket;

/// Names a session within its journal. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey(pub(crate) u64);
