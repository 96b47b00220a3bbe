//! The session above a host. In a journal it outlives its hub, its host and its adapter; in memory
//! it serves one hub.
//!
//! [`Sessions`] serves sessions of a [`Host`](trunkline_host::Host) from a
//! [`Journal`](trunkline_journal::Journal). Every event in a session is an *entry*: a line of the
//! protocol with a number, stored before any listener gets it. A [`Listener`] gets each entry once,
//! in order, from its last position on; of several answers to one request the first decides. When
//! the host ends, even by SIGKILL, the next one on the same folder closes everything that was open,
//! each item by an entry, and the conversation continues with its next input.
//!
//! [`serve_in_memory`] serves a session that no journal stores, for one client, an [`EntrySink`]. It
//! is the same task with the same turns, queue, files and requests; only its log differs, and it
//! ends when the agent's session ends.
//!
//! # Theory of operation
//!
//! ```text
//! client ── enter ──▶ registry ── live ──▶ SessionActor ──▶ EntryRecorder ──▶ journal ──▶ EntryTail ──▶ Listener
//!                        └─ reserve, read the journal, publish
//! ```
//!
//! The registry makes sure that at most one task serves a session: look-up and reservation are one
//! step, and callers wait while another one opens the session or its task leaves. The task
//! (`actor`) owns all state of its session: it handles messages of listeners and events of the
//! host, writes entries (`recorder`), and performs the actions of an entry when it is stored. The
//! log (`log`) is the journal, with a record before it if several hosts share the session, or the
//! bounded queue of the only client. Stored entries reach the listeners through the session's
//! `tail`; a listener that is behind reads the journal at its own pace and delays nothing. Open
//! turns and requests of a session are a function of its entries (`open`), so that a later host
//! finds them too (`recovery`). A session can begin as a copy of another one (`fork`), whose agent
//! may need a `transcript`. Changes that a list of sessions shows are announced to all readers of one
//! bounded feed (`changes`).

#![forbid(unsafe_code)]

mod activity;
mod actor;
mod archive;
mod changes;
mod conversation;
pub mod ends;
mod entry;
mod export;
mod facts;
mod files;
mod fork;
mod history;
mod input_index;
mod list;
mod listener;
mod log;
mod open;
mod ownership;
mod record;
mod recorder;
mod recovery;
mod registry;
mod search;
mod sessions;
mod tail;
mod transcript;
mod visitor;

pub use actor::{AnswerNote, OpenRequest, Submission, serve_in_memory};
pub use archive::Archive;
#[cfg(feature = "schema")]
pub use changes::change_schema;
pub use changes::{AnnouncedChange, ChangeGap, ChangeReader};
pub use conversation::{ConversationWriter, decision_text};
pub use entry::{Entry, EntryBody, EntryContent, Reply, without_path, without_paths};
pub use export::{EntryPrinter, ExportFormat, SessionExport};
pub use facts::controls_display;
pub use history::{HistoryError, HistoryPage, HistoryRange};
pub use list::{OverviewPage, SessionOverview};
pub use listener::{EntryItem, EntryListener, Listener, SessionSender, StreamItem};
pub use log::EntrySink;
pub use ownership::{AdoptError, CopyError, HandOverError, Owned};
pub use record::{Batch, NotRecorded, Record};
pub use search::{SearchError, SearchHit, SearchPage, SearchQuery, SearchedText};
pub use sessions::{ConversationsError, RemoveError, Sessions, StartError};
pub use tail::StreamEnd;
pub use trunkline_journal::SessionKey;
pub use visitor::Visitor;
