//! JSON-RPC 2.0 as editors use it: one message a line, no batches.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// The id of an editor's request, as the editor wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Id(String);

impl Id {
    /// Reads an id. `None` for a value that cannot be one.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        matches!(value, Value::String(_) | Value::Number(_)).then(|| Self(value.to_string()))
    }
}

/// Codes of errors, of JSON-RPC and of ACP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Parse = -32700,
    InvalidRequest = -32600,
    MethodNotFound = -32601,
    InvalidParams = -32602,
    Internal = -32603,
    Cancelled = -32800,
    AuthRequired = -32000,
    NotFound = -32002,
}

/// The refusal of a request: a code, and a sentence for a person.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// Details for programs.
    pub(crate) data: Option<Box<Value>>,
}

impl Refusal {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// Wrong parameters.
    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidParams, message)
    }
}

/// A message of an editor.
#[derive(Debug)]
pub(crate) enum EditorMessage {
    Request {
        id: Id,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The answer to a request of this agent, by its number. `Err` for an error, and for an answer
    /// without a result.
    Answer {
        to: u64,
        result: Result<Value, String>,
    },
    /// An answer without a request, which is ignored.
    Stray,
}

#[derive(Deserialize)]
struct Raw {
    jsonrpc: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<Value>,
    #[serde(default)]
    params: Value,
    result: Option<Value>,
    error: Option<Value>,
}

/// Reads a member that may be `null`.
fn present<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(reader).map(Some)
}

/// Reads a line of an editor.
///
/// # Errors
/// The answer, and the id of its request if that can be read.
pub(crate) fn parse(line: &str) -> Result<EditorMessage, (Option<Id>, Refusal)> {
    let raw: Raw = serde_json::from_str(line).map_err(|error| {
        (
            None,
            Refusal::new(Code::Parse, format!("the line is not JSON-RPC: {error}")),
        )
    })?;
    let id = raw.id.as_ref().and_then(Id::from_value);
    let invalid = |why: &str| (id.clone(), Refusal::new(Code::InvalidRequest, why));
    if raw.jsonrpc.as_ref().and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("`jsonrpc` must be \"2.0\""));
    }
    match raw.method {
        Some(Value::String(method)) => Ok(match (id.clone(), raw.id) {
            (Some(id), _) => EditorMessage::Request {
                id,
                method,
                params: raw.params,
            },
            (None, None) => EditorMessage::Notification {
                method,
                params: raw.params,
            },
            (None, Some(_)) => return Err(invalid("`id` must be a string or a number")),
        }),
        Some(_) => Err(invalid("`method` must be a string")),
        None => Ok(
            match (
                raw.id.as_ref().and_then(Value::as_u64),
                raw.result,
                raw.error,
            ) {
                (Some(to), Some(result), None) => EditorMessage::Answer {
                    to,
                    result: Ok(result),
                },
                (Some(to), _, Some(error)) => EditorMessage::Answer {
                    to,
                    result: Err(error.to_string()),
                },
                // A result of `null` is one that decides nothing.
                (Some(to), None, None) => EditorMessage::Answer {
                    to,
                    result: Err("no result".to_owned()),
                },
                (None, ..) => EditorMessage::Stray,
            },
        ),
    }
}

/// Writes the answer to a request. `None` is an id that could not be read.
pub(crate) fn answer(id: Option<&Id>, result: Result<Value, Refusal>) -> Vec<u8> {
    let mut line = r#"{"jsonrpc":"2.0","id":"#.to_owned();
    line.push_str(id.map_or("null", |id| &id.0));
    match result {
        Ok(result) => drop(write!(line, r#","result":{result}"#)),
        Err(Refusal {
            code,
            message,
            data,
        }) => {
            let message = Value::from(message);
            let _ = write!(
                line,
                r#","error":{{"code":{},"message":{message}"#,
                code as i32
            );
            if let Some(data) = data {
                let _ = write!(line, r#","data":{data}"#);
            }
            line.push('}');
        }
    }
    line.push_str("}\n");
    line.into_bytes()
}

/// Writes a request of this agent.
pub(crate) fn request(id: u64, method: &str, params: &impl Serialize) -> Vec<u8> {
    message(Some(id), method, params)
}

/// Writes a notification.
pub(crate) fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    message(None, method, params)
}

fn message(id: Option<u64>, method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Message<'a> {
        jsonrpc: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        method: &'a str,
        params: Box<RawValue>,
    }
    // Values of JSON can be written.
    let params = serde_json::value::to_raw_value(params).unwrap_or_default();
    let message = Message {
        jsonrpc: "2.0",
        id,
        method,
        params,
    };
    let mut line = serde_json::to_vec(&message).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_message_is_answered_with_the_right_code() {
        for (line, code, id) in [
            ("{", Code::Parse, None),
            (r#"{"id":1,"method":"x"}"#, Code::InvalidRequest, Some("1")),
            (
                r#"{"jsonrpc":"1.0","id":"a","method":"x"}"#,
                Code::InvalidRequest,
                Some("\"a\""),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
                Code::InvalidRequest,
                Some("1"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
                Code::InvalidRequest,
                None,
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
                Code::InvalidRequest,
                None,
            ),
        ] {
            let (of, refusal) = parse(line).unwrap_err();
            assert_eq!(
                (refusal.code, of.as_ref().map(|id| &*id.0)),
                (code, id),
                "{line}"
            );
        }
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}"#,
            "[".repeat(100_000)
        );
        assert_eq!(parse(&deep).unwrap_err().1.code, Code::Parse);
    }

    #[test]
    fn answers_and_messages_are_told_apart() {
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#),
            Ok(EditorMessage::Request { .. })
        ));
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","method":"m"}"#),
            Ok(EditorMessage::Notification { .. })
        ));
        for (line, is_ok) in [
            (r#"{"jsonrpc":"2.0","id":3,"result":{}}"#, true),
            (r#"{"jsonrpc":"2.0","id":3,"result":null}"#, false),
            (r#"{"jsonrpc":"2.0","id":3}"#, false),
            (
                r#"{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"m"}}"#,
                false,
            ),
            (r#"{"jsonrpc":"2.0","id":3,"result":{},"error":{}}"#, false),
        ] {
            match parse(line) {
                Ok(EditorMessage::Answer { to: 3, result }) => {
                    assert_eq!(result.is_ok(), is_ok, "{line}")
                }
                message => panic!("{line}: {message:?}"),
            }
        }
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","id":"x","result":{}}"#),
            Ok(EditorMessage::Stray)
        ));
    }
}
