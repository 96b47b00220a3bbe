//! The adapter protocol, version 1: the messages between a host and an adapter.
//!
//! A message is one JSON object on one line. [`LineReader`] finds lines in bytes, [`Head`] reads
//! the members that every message has, [`HostMessage`] and [`AdapterMessage`] are the typed
//! messages of the two directions, [`rules`] decides which may follow which, and [`fold`] reduces
//! an extension to the core for a peer that does not know it. There is no clock, no process and no
//! runtime here. `SPEC.md` beside this crate is the contract; clause ids such as `[turn.4]` refer
//! to it.
//!
//! ```
//! use trunkline_protocol::{AdapterBody, AdapterMessage, HostBody, HostMessage, Output, SessionId};
//!
//! let line = r#"{"type":"user.input","session_id":"abc-123","content":"Hello, agent!"}"#;
//! let message = HostMessage::parse(line)?;
//! let HostBody::UserInput(input) = message.body else { panic!("not an input") };
//!
//! let answer = AdapterMessage::new(message.session_id, AdapterBody::Output(Output::text(input.content)));
//! let mut wire = Vec::new();
//! answer.write(&mut wire);
//! assert_eq!(wire, b"{\"type\":\"output\",\"session_id\":\"abc-123\",\"content\":\"Hello, agent!\"}\n");
//! # Ok::<(), trunkline_protocol::Unread>(())
//! ```

#![forbid(unsafe_code)]

mod channel;
mod digest;
mod duration;
mod envelope;
mod escape;
mod extension;
mod field;
mod fit;
mod fold;
#[doc(hidden)]
pub mod fuzz;
mod head;
mod id;
mod json;
mod line;
mod message;
mod recipient;
pub mod rules;
mod scan;
pub mod schema;
mod stamp;
mod surrogate;
mod swar;
pub mod tool_loop;

pub use channel::Channel;
pub use digest::{Hasher, Sha256};
pub use duration::format_duration;
pub use envelope::{AdapterMessage, Body, Envelope, HostMessage, HubMessage, RelayMessage, filled};
pub use extension::{Extensions, PROTOCOL};
pub use field::{Unread, Why};
pub use fit::{StoreMember, TooLong, fit, goes_by_file, line_limit, move_to_files, wants_file};
pub use fold::{Folded, ToolsAsOutput, fold, question_as_output, strip, strip_info};
pub use head::{Head, session_named_in, type_named_in};
pub use id::{BadId, MessageId, RequestId, SessionId, ToolCallId, TurnId};
pub use json::{Json, Meta, json_len};
pub use line::{FIRST_BYTES, Item, LineReader, MAX_LINE, MIN_MAX_LINE, READ_BYTES};
pub use message::*;
pub use recipient::Recipient;
pub use stamp::{FromRelay, Stamp};
