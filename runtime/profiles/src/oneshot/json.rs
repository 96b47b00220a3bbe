//! Reading JSON that may have any shape.

use serde_json::Value;
use trunkline_sdk::protocol::{Output, Thinking, ToolEnd, ToolStart};
use trunkline_sdk::{Json, ToolCallId};

use crate::agent::read;

/// The text at a path, `""` where there is none.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The count at a path; a fraction is rounded down.
pub(crate) fn count(value: &Value, path: &str) -> Option<u64> {
    read::whole(value.pointer(path)?)
}

/// The start of a tool call; nothing where it has no usable id.
pub(crate) fn tool_start(id: &str, tool: &str, input: Option<&Value>) -> Option<ToolStart> {
    let input = input.and_then(|input| Json::from_serialize(input).ok());
    Some(ToolStart {
        input,
        ..ToolStart::new(ToolCallId::new(id).ok()?, tool)
    })
}

/// The end of a tool call.
pub(crate) fn tool_end(id: &str, content: &str, is_error: bool) -> Option<ToolEnd> {
    let id = ToolCallId::new(id).ok()?;
    let content = (!content.is_empty()).then(|| content.to_owned());
    Some(ToolEnd {
        content,
        is_error: Some(is_error),
        ..ToolEnd::new(id)
    })
}

/// A piece of the answer that belongs to a message.
pub(crate) fn output(content: &str, message_id: &str) -> Output {
    Output {
        message_id: trunkline_sdk::protocol::MessageId::new(message_id).ok(),
        ..Output::text(content)
    }
}

/// A piece of the model's thoughts.
pub(crate) fn thinking(content: &str) -> Thinking {
    Thinking {
        content: content.to_owned(),
        ..Thinking::default()
    }
}
