//! The frames of a hub's WebSocket: one JSON object each, with a `type` and a `payload`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// The longest id of the hub's that is taken, in bytes: its own are UUIDs.
const ID_BYTES: usize = 128;

/// What the hub says.
pub(crate) enum FromHub {
    /// Whether the runtime was taken.
    Ack(Ack),
    /// A session begins.
    Create(Create),
    /// A person says something: `true` for a text that is meant for the running turn.
    Message(Message, bool),
    /// The running turn is to stop.
    Stop(OfSession),
    /// A person has decided about a request.
    Permission(Decision),
    /// A person gives a file.
    File(Box<File>),
    /// An administrator changes what an agent may do.
    Config(Box<ConfigUpdate>),
    /// Which sessions can be resumed.
    NativeList(NativeList),
    /// The token for the next connection.
    Token(String),
    /// The session is over. The hub defines it, and has never sent it.
    Close(OfSession),
    /// Asks for a pong.
    Ping,
    /// A type that is not known here.
    Unknown,
}

/// Why a frame of the hub was dropped. It tells nothing of what the frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Dropped {
    /// Not an object with a type.
    #[error("it is not an object with a type")]
    NotAFrame,
    /// A member is missing, or has the wrong type.
    #[error("its payload lacks a member, or one has the wrong type")]
    Payload,
    /// An id is empty or too long.
    #[error("an id in it is empty or longer than {ID_BYTES} bytes")]
    Id,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct Ack {
    pub(crate) ok: bool,
    #[serde(default)]
    pub(crate) error: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct OfSession {
    pub(crate) session_id: String,
}

#[derive(Deserialize)]
pub(crate) struct Create {
    pub(crate) session_id: String,
    pub(crate) agent_id: String,
    #[serde(default)]
    pub(crate) user_id: Option<String>,
    #[serde(default)]
    pub(crate) resume_session_id: Option<String>,
    #[serde(default)]
    pub(crate) prompt_profile: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Message {
    pub(crate) session_id: String,
    pub(crate) message_id: String,
    #[serde(default)]
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) agent_id: String,
    #[serde(default)]
    pub(crate) user_id: Option<String>,
    #[serde(default)]
    pub(crate) prompt_profile: Option<String>,
    #[serde(default)]
    pub(crate) native_handle: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Decision {
    pub(crate) session_id: String,
    pub(crate) request_id: String,
    /// Nothing but `true` approves.
    #[serde(default)]
    pub(crate) approved: bool,
    #[serde(default)]
    pub(crate) always_allow: Option<bool>,
}

#[derive(Deserialize)]
pub(crate) struct File {
    pub(crate) session_id: String,
    pub(crate) metadata: Metadata,
    /// Base64, whole.
    pub(crate) data: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Metadata {
    #[serde(default)]
    pub(crate) file_id: String,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) mime_type: String,
    #[serde(default)]
    pub(crate) size: u64,
}

#[derive(Deserialize)]
pub(crate) struct ConfigUpdate {
    pub(crate) agent_id: String,
    #[serde(default)]
    pub(crate) security: Option<Security>,
    #[serde(default)]
    pub(crate) limits: Option<Limits>,
}

/// What an administrator may set of an agent; an empty member is unchanged.
#[derive(Default, Deserialize)]
pub(crate) struct Security {
    #[serde(default)]
    pub(crate) allowed_paths: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) denied_paths: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) allowed_tools: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) disallowed_tools: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) env_whitelist: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) permission_mode: Option<String>,
    #[serde(default)]
    pub(crate) cwd: Option<String>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Limits {
    #[serde(default)]
    pub(crate) max_sessions: Option<u64>,
    #[serde(default)]
    pub(crate) session_timeout: Option<String>,
    #[serde(default)]
    pub(crate) max_output_bytes: Option<u64>,
    #[serde(default)]
    pub(crate) idle_timeout: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct NativeList {
    pub(crate) agent_id: String,
    pub(crate) request_id: String,
}

#[derive(Deserialize)]
struct Refresh {
    token: String,
}

impl FromHub {
    /// Reads a frame.
    pub(crate) fn read(text: &str) -> Result<Self, Dropped> {
        let Ok(Envelope { kind, payload }) = serde_json::from_str(text) else {
            return Err(Dropped::NotAFrame);
        };
        let read = match kind.as_ref() {
            "hello.ack" => Self::Ack(of(payload)?),
            "session.create" => Self::Create(of(payload)?),
            "user.message" => Self::Message(of(payload)?, false),
            "interactive.input" => Self::Message(of(payload)?, true),
            "stop.request" => Self::Stop(of(payload)?),
            "permission.response" => Self::Permission(of(payload)?),
            "file.upload" => Self::File(of(payload)?),
            "agent.config_update" => Self::Config(of(payload)?),
            "native.sessions.list" => Self::NativeList(of(payload)?),
            "runtime.token_refresh" => Self::Token(of::<Refresh>(payload)?.token),
            "session.close" => Self::Close(of(payload)?),
            "ping" => Self::Ping,
            _ => Self::Unknown,
        };
        let are_good = read.ids().all(|id| !id.is_empty() && id.len() <= ID_BYTES);
        if are_good { Ok(read) } else { Err(Dropped::Id) }
    }

    /// The ids that are kept, and must be there.
    fn ids(&self) -> impl Iterator<Item = &str> {
        let (one, other) = match self {
            Self::Create(create) => (Some(&create.session_id), None),
            Self::Message(message, _) => (Some(&message.session_id), Some(&message.message_id)),
            Self::Stop(of) | Self::Close(of) => (Some(&of.session_id), None),
            Self::Permission(decision) => (Some(&decision.session_id), Some(&decision.request_id)),
            Self::File(file) => (Some(&file.session_id), None),
            Self::NativeList(list) => (Some(&list.request_id), None),
            Self::Ack(_) | Self::Config(_) | Self::Token(_) | Self::Ping | Self::Unknown => {
                (None, None)
            }
        };
        one.into_iter().chain(other).map(String::as_str)
    }
}

fn of<T: DeserializeOwned>(payload: Option<&RawValue>) -> Result<T, Dropped> {
    let text = payload.map_or("{}", RawValue::get);
    serde_json::from_str(text).map_err(|_| Dropped::Payload)
}

/// What the runtime says.
#[derive(Serialize)]
#[serde(tag = "type", content = "payload")]
pub(crate) enum ToHub {
    #[serde(rename = "runtime.hello")]
    Hello(Hello),
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
    Permission {
        session_id: String,
        request_id: String,
        tool: String,
        description: String,
        resource: String,
    },
    #[serde(rename = "file.available")]
    File {
        session_id: String,
        metadata: Metadata,
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
pub(crate) struct Hello {
    pub(crate) runtime_id: String,
    pub(crate) token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) org_id: Option<String>,
    pub(crate) agents: Vec<HelloAgent>,
}

#[derive(Serialize)]
pub(crate) struct HelloAgent {
    pub(crate) id: String,
    pub(crate) profile: String,
    pub(crate) name: String,
    pub(crate) caps: Caps,
}

#[derive(Serialize)]
pub(crate) struct Caps {
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
        // Strings and numbers alone: it cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_and_bad_ones_say_why_and_nothing_of_what_they_hold() {
        let read = |text: &str| FromHub::read(text);
        let message = r#"{"type":"user.message","id":null,"ts":"x","payload":{"session_id":"s","message_id":"m","content":"","agent_id":"r.a","new":1}}"#;
        assert!(matches!(
            read(message),
            Ok(FromHub::Message(Message { .. }, false))
        ));
        assert!(matches!(read(r#"{"type":"\u0070ing"}"#), Ok(FromHub::Ping)));
        assert!(matches!(
            read(r#"{"type":"later","payload":[1]}"#),
            Ok(FromHub::Unknown)
        ));
        let long = "x".repeat(ID_BYTES + 1);
        for (text, why) in [
            ("", Dropped::NotAFrame),
            ("[]", Dropped::NotAFrame),
            (r#"{"payload":{}}"#, Dropped::NotAFrame),
            (r#"{"type":"stop.request"}"#, Dropped::Payload),
            (
                r#"{"type":"stop.request","payload":{"session_id":1}}"#,
                Dropped::Payload,
            ),
            (
                r#"{"type":"stop.request","payload":{"session_id":""}}"#,
                Dropped::Id,
            ),
            (
                &format!(r#"{{"type":"stop.request","payload":{{"session_id":"{long}"}}}}"#),
                Dropped::Id,
            ),
            // A text is not `true`.
            (
                r#"{"type":"permission.response","payload":{"session_id":"s","request_id":"r","approved":"true"}}"#,
                Dropped::Payload,
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
