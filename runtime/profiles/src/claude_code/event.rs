//! What Claude's lines mean.

use serde_json::Value;
use trunkline_sdk::SessionInfo;
use trunkline_sdk::protocol::AdapterBody;

use super::control::Ask;

/// What one line says. A line may say several things, or nothing.
#[derive(Debug)]
pub(super) enum ClaudeEvent {
    /// An event for the host.
    Event(AdapterBody),
    /// News of the session.
    Info(Box<SessionInfo>),
    /// The conversation that it works on has this id.
    Native(String),
    /// It asks for permission, or the user.
    Request(Box<Ask>),
    /// It calls a hook of ours.
    Hook { request_id: String, request: Value },
    /// A request of this id is withdrawn.
    Withdrawn(String),
    /// It asks for something that is not known here.
    Unsupported { request_id: String, subtype: String },
    /// It answers a request of ours.
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
