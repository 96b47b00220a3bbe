//! Events in the wire's own form, for embedders that pass them on as JSON.

use std::time::Duration;

use serde::{Serialize, Serializer};
use trunkline_protocol::{AdapterKind, FileOutput, Meta, PermissionCancel, Progress, Working};

use crate::{Event, EventKind, File, TurnScope};

impl Event {
    fn message<S: Serializer>(
        &self,
        kind: AdapterKind,
        body: &impl Serialize,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Message<'a, B> {
            #[serde(rename = "type")]
            kind: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            turn_id: Option<String>,
            #[serde(flatten)]
            body: &'a B,
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            meta: Option<&'a trunkline_protocol::Json>,
        }
        let turn_id = match self.scope {
            TurnScope::Running(turn) | TurnScope::Ended(turn) => Some(turn.to_string()),
            TurnScope::Outside => None,
        };
        let meta = self.meta.as_deref().map(Meta::json);
        Message {
            kind: kind.as_str(),
            turn_id,
            body,
            meta,
        }
        .serialize(serializer)
    }
}

/// The message that reports it on the wire, without the `session_id`: its reader knows the session.
/// `turn_id` is the host's [`TurnNo`](crate::TurnNo).
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use AdapterKind as Kind;
        match &self.kind {
            EventKind::Output(body) => self.message(Kind::Output, body, serializer),
            EventKind::Thinking(body) => self.message(Kind::Thinking, body, serializer),
            EventKind::Message(body) => self.message(Kind::Message, body, serializer),
            EventKind::ToolStart(body) => self.message(Kind::ToolStart, body, serializer),
            EventKind::ToolUpdate(body) => self.message(Kind::ToolUpdate, body, serializer),
            EventKind::ToolEnd(body) => self.message(Kind::ToolEnd, body, serializer),
            EventKind::Plan(body) => self.message(Kind::Plan, body, serializer),
            EventKind::Progress(body) => self.message(Kind::Progress, body, serializer),
            EventKind::Log(body) => self.message(Kind::Log, body, serializer),
            EventKind::Error(body) => self.message(Kind::Error, body, serializer),
            EventKind::Custom(body) => self.message(Kind::Custom, body, serializer),
            EventKind::Usage(body) => self.message(Kind::Usage, body, serializer),
            EventKind::ContextUsage(body) => self.message(Kind::ContextUsage, body, serializer),
            EventKind::Compaction(body) => self.message(Kind::Compaction, body, serializer),
            EventKind::RateLimit(body) => self.message(Kind::RateLimit, body, serializer),
            EventKind::Info(body) => self.message(Kind::SessionInfo, body, serializer),
            EventKind::Working => self.message(Kind::Working, &Working::default(), serializer),
            EventKind::Stalled {
                silent_for,
                deadline_in,
            } => {
                let message = stalled(*silent_for, *deadline_in);
                self.message(
                    Kind::Progress,
                    &Progress {
                        message,
                        ..Progress::default()
                    },
                    serializer,
                )
            }
            EventKind::File(file) => self.message(Kind::FileOutput, file, serializer),
            EventKind::Permission(asked) => {
                self.message(Kind::PermissionRequest, asked.request(), serializer)
            }
            EventKind::Question(asked) => {
                self.message(Kind::InputRequest, asked.request(), serializer)
            }
            EventKind::Withdrawn { request_id, reason } => {
                let cancel = PermissionCancel {
                    request_id: request_id.clone(),
                    reason: Some(*reason),
                };
                self.message(Kind::PermissionCancel, &cancel, serializer)
            }
            EventKind::End(end) => self.message(Kind::TurnComplete, end, serializer),
            EventKind::Closed(end) => self.message(Kind::SessionClosed, end, serializer),
        }
    }
}

/// The members of the `file.output` that announces the host's copy.
impl Serialize for File {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        FileOutput::from(self.clone()).serialize(serializer)
    }
}

/// A stall as a sentence: one that a host reports as `progress`.
fn stalled(silent_for: Duration, deadline_in: Option<Duration>) -> String {
    let mut text = format!("no message for {} s", silent_for.as_secs());
    if let Some(deadline_in) = deadline_in {
        text.push_str(&format!(
            "; the turn is stopped in {} s",
            deadline_in.as_secs()
        ));
    }
    text
}
