//! The logged part of a line.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Members that identify a message and its place. None of them is text of a person or an agent.
const HEAD: [&str; 11] = [
    "type",
    "session_id",
    "turn_id",
    "message_id",
    "request_id",
    "tool_call_id",
    "protocol",
    "extensions",
    "status",
    "channel",
    "delivered",
];

/// The part of each line that a log keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// All of it.
    #[default]
    Full,
    /// The type and the ids of messages. Of other lines and of stderr only the length.
    Head,
    /// Only the length.
    None,
}

impl FromStr for Content {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "full" => Ok(Self::Full),
            "head" => Ok(Self::Head),
            "none" => Ok(Self::None),
            _ => Err(format!("`{text}` is not `full`, `head` or `none`")),
        }
    }
}

/// Returns the head of a line, or `None` if it is not a message.
pub(crate) fn head(line: &[u8]) -> Option<Vec<u8>> {
    let mut message: Map<String, Value> = serde_json::from_slice(line).ok()?;
    message.retain(|name, value| {
        let is_short = value.as_str().is_none_or(|text| text.len() <= 256);
        HEAD.contains(&name.as_str()) && !value.is_object() && is_short
    });
    serde_json::to_vec(&message).ok()
}
