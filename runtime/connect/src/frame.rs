//! The frames of a hub's WebSocket: one JSON object each, with a `type` and a `payload`.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

/// The longest id of the hub, in bytes. Its own are UUIDs.
const MAX_ID_BYTES: usize = 128;

/// A frame of the hub.
pub(crate) enum FromHub {
    /// The acceptance or refusal of the runtime.
    Ack(HelloAck),
    /// A session begins.
    Create(SessionCreate),
    /// A message of a person; `true` for one to the running turn.
    Message(UserMessage, bool),
    /// A stop of the running turn.
    Stop(SessionFrame),
    /// The decision of a person about a request.
    Permission(PermissionDecision),
    /// A file of a person.
    File(Box<FileUpload>),
    /// An administrator's change of an agent's limits.
    Config(Box<ConfigUpdate>),
    /// A request for the sessions that can be resumed.
    NativeList(NativeList),
    /// The token for the next connection.
    Token(String),
    /// The end of a session. The hub defines it, and has never sent it.
    Close(SessionFrame),
    /// A request for a pong.
    Ping,
    /// An unknown type.
    Unknown,
}

/// The reason why a frame of the hub was dropped. It contains nothing of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    /// Not an object with a type.
    #[error("it is not an object with a type")]
    NotAFrame,
    /// A member is missing, or has the wrong type.
    #[error("its payload lacks a member, or one has the wrong type")]
    Payload,
    /// An id is empty or too long.
    #[error("an id in it is empty or longer than {MAX_ID_BYTES} bytes")]
    Id,
}

#[derive(Deserialize)]
struct FrameEnvelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct HelloAck {
    pub(crate) ok: bool,
    pub(crate) error: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct SessionFrame {
    pub(crate) session_id: String,
}

#[derive(Deserialize)]
pub(crate) struct SessionCreate {
    pub(crate) session_id: String,
    pub(crate) agent_id: String,
    pub(crate) user_id: Option<String>,
    pub(crate) resume_session_id: Option<String>,
    pub(crate) prompt_profile: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct UserMessage {
    pub(crate) session_id: String,
    pub(crate) message_id: String,
    #[serde(default)]
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) agent_id: String,
    pub(crate) user_id: Option<String>,
    pub(crate) prompt_profile: Option<String>,
    pub(crate) native_handle: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct PermissionDecision {
    pub(crate) session_id: String,
    pub(crate) request_id: String,
    /// Only `true` approves.
    #[serde(default)]
    pub(crate) approved: bool,
    pub(crate) always_allow: Option<bool>,
}

#[derive(Deserialize)]
pub(crate) struct FileUpload {
    pub(crate) session_id: String,
    pub(crate) metadata: FileMetadata,
    /// Base64, whole.
    pub(crate) data: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct FileMetadata {
    pub(crate) file_id: String,
    pub(crate) name: String,
    pub(crate) mime_type: String,
    pub(crate) size: u64,
}

#[derive(Deserialize)]
pub(crate) struct ConfigUpdate {
    pub(crate) agent_id: String,
    pub(crate) security: Option<SecuritySettings>,
    pub(crate) limits: Option<AgentLimits>,
}

/// Settings of an agent by an administrator. An empty member changes nothing.
#[derive(Default, Deserialize)]
pub(crate) struct SecuritySettings {
    pub(crate) disallowed_tools: Option<Vec<String>>,
    #[serde(flatten)]
    pub(crate) others: BTreeMap<String, Value>,
}

#[derive(Default, Deserialize)]
pub(crate) struct AgentLimits {
    pub(crate) max_sessions: Option<u64>,
    pub(crate) session_timeout: Option<String>,
    pub(crate) max_output_bytes: Option<u64>,
    pub(crate) idle_timeout: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct NativeList {
    pub(crate) agent_id: String,
    pub(crate) request_id: String,
}

#[derive(Deserialize)]
struct TokenRefresh {
    token: String,
}

impl FromHub {
    /// Parses a frame.
    pub(crate) fn parse(text: &str) -> Result<Self, FrameError> {
        let Ok(FrameEnvelope { kind, payload }) = serde_json::from_str(text) else {
            return Err(FrameError::NotAFrame);
        };
        let read = match kind.as_ref() {
            "hello.ack" => Self::Ack(parse_payload(payload)?),
            "session.create" => Self::Create(parse_payload(payload)?),
            "user.message" => Self::Message(parse_payload(payload)?, false),
            "interactive.input" => Self::Message(parse_payload(payload)?, true),
            "stop.request" => Self::Stop(parse_payload(payload)?),
            "permission.response" => Self::Permission(parse_payload(payload)?),
            "file.upload" => Self::File(parse_payload(payload)?),
            "agent.config_update" => Self::Config(parse_payload(payload)?),
            "native.sessions.list" => Self::NativeList(parse_payload(payload)?),
            "runtime.token_refresh" => Self::Token(parse_payload::<TokenRefresh>(payload)?.token),
            "session.close" => Self::Close(parse_payload(payload)?),
            "ping" => Self::Ping,
            _ => Self::Unknown,
        };
        let is_id = |id: &String| (1..=MAX_ID_BYTES).contains(&id.len());
        let are_ids = match &read {
            Self::Create(it) => is_id(&it.session_id),
            Self::Message(it, _) => is_id(&it.session_id) && is_id(&it.message_id),
            Self::Stop(it) | Self::Close(it) => is_id(&it.session_id),
            Self::Permission(it) => is_id(&it.session_id) && is_id(&it.request_id),
            Self::File(it) => is_id(&it.session_id),
            Self::NativeList(it) => is_id(&it.request_id),
            Self::Ack(_) | Self::Config(_) | Self::Token(_) | Self::Ping | Self::Unknown => true,
        };
        if are_ids {
            Ok(read)
        } else {
            Err(FrameError::Id)
        }
    }
}

fn parse_payload<T: DeserializeOwned>(payload: Option<&RawValue>) -> Result<T, FrameError> {
    let text = payload.map_or("{}", RawValue::get);
    serde_json::from_str(text).map_err(|_| FrameError::Payload)
}

/// A frame of the runtime.
#[derive(Serialize)]
#[serde(tag = "type", content = "payload")]
pub(crate) enum ToHub {
    #[serde(rename = "runtime.hello")]
    Hello(RuntimeHello),
    #[serde(rename = "session.created")]
    Created {
        session_id: String,
        ok: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        native_handle: Option<String>,
    },
    #[serde(rename = "turn.started")]
    Started {
        session_id: String,
        in_response_to: String,
    },
    #[serde(rename = "agent.output")]
    Output {
        session_id: String,
        channel: String,
        content: String,
    },
    #[serde(rename = "turn.completed")]
    Completed {
        session_id: String,
        in_response_to: String,
        exit_code: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        native_handle: Option<String>,
    },
    #[serde(rename = "stop.ack")]
    StopAck {
        session_id: String,
        ok: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    #[serde(rename = "permission.request")]
    Permission(PermissionFrame),
    #[serde(rename = "file.available")]
    File {
        session_id: String,
        metadata: FileMetadata,
        data: String,
    },
    #[serde(rename = "agent.config_ack")]
    ConfigAck {
        agent_id: String,
        ok: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    #[serde(rename = "native.sessions.response")]
    Native {
        agent_id: String,
        request_id: String,
        sessions: Vec<NativeSession>,
    },
    #[serde(rename = "pong")]
    Pong {},
}

#[derive(Serialize)]
pub(crate) struct RuntimeHello {
    pub(crate) runtime_id: String,
    pub(crate) token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) org_id: Option<String>,
    pub(crate) agents: Vec<HelloAgent>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct PermissionFrame {
    pub(crate) session_id: String,
    pub(crate) request_id: String,
    pub(crate) tool: String,
    pub(crate) description: String,
    pub(crate) resource: String,
}

#[derive(Serialize)]
pub(crate) struct HelloAgent {
    pub(crate) id: String,
    pub(crate) profile: String,
    pub(crate) name: String,
    pub(crate) caps: AgentCapabilities,
}

#[derive(Serialize)]
pub(crate) struct AgentCapabilities {
    pub(crate) native_session_ids: bool,
    pub(crate) turn_completion: bool,
    pub(crate) resume_attach: bool,
    pub(crate) exec_model: String,
}

#[derive(Serialize, Clone)]
pub(crate) struct NativeSession {
    pub(crate) session_id: String,
    pub(crate) first_prompt: String,
    pub(crate) message_count: u64,
}

impl ToHub {
    /// The frame's text.
    pub(crate) fn text(&self) -> String {
        // Only strings and numbers: it cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_and_bad_ones_say_why_and_nothing_of_what_they_hold() {
        let read = |text: &str| FromHub::parse(text);
        let message = r#"{"type":"user.message","id":null,"ts":"x","payload":{"session_id":"s","message_id":"m","content":"","agent_id":"r.a","new":1}}"#;
        assert!(matches!(
            read(message),
            Ok(FromHub::Message(UserMessage { .. }, false))
        ));
        assert!(matches!(read(r#"{"type":"\u0070ing"}"#), Ok(FromHub::Ping)));
        assert!(matches!(
            read(r#"{"type":"later","payload":[1]}"#),
            Ok(FromHub::Unknown)
        ));
        let long = "x".repeat(MAX_ID_BYTES + 1);
        for (text, why) in [
            ("", FrameError::NotAFrame),
            ("[]", FrameError::NotAFrame),
            (r#"{"payload":{}}"#, FrameError::NotAFrame),
            (r#"{"type":"stop.request"}"#, FrameError::Payload),
            (
                r#"{"type":"stop.request","payload":{"session_id":1}}"#,
                FrameError::Payload,
            ),
            (
                r#"{"type":"stop.request","payload":{"session_id":""}}"#,
                FrameError::Id,
            ),
            (
                &format!(r#"{{"type":"stop.request","payload":{{"session_id":"{long}"}}}}"#),
                FrameError::Id,
            ),
            // A text is not `true`.
            (
                r#"{"type":"permission.response","payload":{"session_id":"s","request_id":"r","approved":"true"}}"#,
                FrameError::Payload,
            ),
        ] {
            assert_eq!(read(text).err(), Some(why), "{text}");
        }
    }

    #[test]
    fn a_frame_has_its_type_beside_its_payload() {
        let stop = ToHub::StopAck {
            session_id: "s".to_owned(),
            ok: true,
            error: None,
        };
        assert_eq!(
            stop.text(),
            r#"{"type":"stop.ack","payload":{"session_id":"s","ok":true}}"#
        );
        assert_eq!(ToHub::Pong {}.text(), r#"{"type":"pong","payload":{}}"#);
    }
}
