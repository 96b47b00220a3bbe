//! Keeps what happened in sessions, in files that survive the process.
//!
//! A [`Journal`] is a folder. Each session in it has *entries*, lines numbered from 1 without a
//! gap, and *facts*, the latest of which replace those before. Puts are gathered in memory, and one
//! thread writes everything that waits at once; a [`Ticket`] resolves when it is stored. What is
//! stored survives the end of the process, also by SIGKILL; [`SyncMode`] decides about the end of
//! the machine.
//!
//! A session has one writer at a time, named by its epoch. The journal refuses what does not
//! continue a session: see [`Journal::put_entries`]. It does not parse lines and facts; their
//! meaning is the caller's.
//!
//! ```
//! use trunkline_journal::{Journal, Options, Settled};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let (journal, _) = Journal::open(folder.path(), Options::default())?;
//! let (session, _) = journal.create("s-1", br#"{"title":"first"}"#)?;
//! let epoch = journal.epoch();
//! let stored = journal.put_entries(session, epoch, 1, 2, b"{\"seq\":1}\n{\"seq\":2}\n");
//! let facts = br#"{"title":"first","turns":1}"#;
//! journal.put_facts(session, epoch, 2, facts, Settled::Yes).detach();
//! stored.wait()?;
//!
//! let mut lines = Vec::new();
//! journal.read(session, 2).next(&mut lines, 64 * 1024)?;
//! assert_eq!(lines, b"{\"seq\":2}\n");
//!
//! // Another writer that takes 2 for the next number.
//! let refused = journal.put_entries(session, epoch, 2, 1, b"{\"seq\":2}\n");
//! assert!(refused.wait().unwrap_err().is_out_of_order());
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
//! The log is the only truth: blocks of lines and facts of all sessions, in the order in which they
//! were put (`block`, `segment`). The index has the state of each session in memory, about 200
//! bytes of each (`index`). At an opening it is read from a checkpoint and the blocks behind it. A
//! database would write each entry into a tree of its own: measured with 64 lines a commit, a block
//! costs 22 µs in a file, 86 µs in SQLite, and rows there 3 ms.
//!
//! Each file beside the log is checked, and can be made again from it. The head records how far the
//! log was written, so that a missing end is noticed (`head`). The file `format` has the salt of
//! the ids; each epoch and segment begins with a copy of it (`format`). One process has a journal
//! open at a time (`lock`).

#![forbid(unsafe_code)]

mod block;
mod check;
mod erase;
mod error;
mod files;
mod format;
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
pub use journal::{
    Journal, ListPosition, Options, ReadSessionName, RetentionHold, SessionListing, Settled,
    StoredSession, SyncMode,
};
pub use opening::OpeningReport;
pub use reader::{ReadBatch, Reader};
pub use retention::Retention;
pub use ticket::Ticket;

/// Identifies a session within its journal. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey(pub(crate) u64);
