//! Sessions that outlive their hub, their host and their adapter.
//!
//! [`Sessions`] stands on a [`Host`](trunkline_host::Host) and a [`Journal`](trunkline_journal::Journal). Whatever
//! happens in a session is an *entry*: a line of the protocol with a number, stored before anyone hears of it. Those who
//! listen ([`Listener`]) get each entry once, in order, from where they left off; the first answer of several to one
//! request decides. When the host ends, by SIGKILL too, the next one on the same folder closes what was open, each by an
//! entry, and the conversation goes on with its next input.
//!
//! # Theory of operation
//!
//! A task for each session in memory owns everything of it (`live`): it takes what hubs say and what the host reports,
//! writes entries (`recorder`), and does what follows from an entry when it is stored. Stored entries go to the
//! listeners through the session's `tail`; one that is behind reads the journal at its own pace, and holds back no one. What is
//! open in a session is a function of its entries (`open`), so that a later host finds it too (`recovery`).

#![forbid(unsafe_code)]

mod activity;
mod actor;
mod archive;
pub mod ends;
mod entries;
mod entry;
mod facts;
mod files;
mod input_index;
mod list;
mod listener;
mod open;
mod ownership;
mod record;
mod recorder;
mod recovery;
mod registry;
mod sessions;
mod tail;
mod visitor;

pub use actor::Submission;
pub use archive::Archive;
pub use entry::{Entry, EntryBody, EntryContent, Reply};
pub use listener::{EntryItem, EntryListener, Listener, SessionSender, StreamItem};
pub use ownership::{AdoptError, CopyError, HandOverError, Owned};
pub use record::{Batch, NotRecorded, Record};
pub use sessions::{RemoveError, Sessions, StartError};
pub use tail::StreamEnd;
pub use visitor::Visitor;
