//! Meaning of Claude's lines.

use serde_json::Value;
use trunkline_sdk::SessionInfo;
use trunkline_sdk::protocol::AdapterBody;

use super::control::ControlRequest;

/// An event of a line. A line may have several events, or none.
#[derive(Debug)]
pub(super) enum ClaudeEvent {
    /// An event for the host.
    Event(AdapterBody),
    /// News of the session.
    Info(Box<SessionInfo>),
    /// The conversation that it works on has this id.
    Native(String),
    /// A request for permission, or a question to the user.
    Request(Box<ControlRequest>),
    /// A call of a hook of ours.
    Hook { request_id: String, request: Value },
    /// A request of this id is withdrawn.
    Withdrawn(String),
    /// An unknown request.
    Unsupported { request_id: String, subtype: String },
    /// An answer to a request of ours.
    Answered {
        request_id: String,
        answer: Result<Value, String>,
    },
    /// A turn is over: the whole line.
    Ended(Box<Value>),
}

impl<E: Into<AdapterBody>> From<E> for ClaudeEvent {
    fn from(event: E) -> Self {
        Self::Event(event.into())
    }
}
