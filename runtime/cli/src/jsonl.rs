//! Events as JSON, one object a line, for programs.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde_json::{Value, json};
use trunkline_host::{Event, EventKind, TurnEnd, TurnScope};

use crate::ask::Settled;

/// Writes the events of a session to stdout.
#[derive(Debug)]
pub(crate) struct Lines {
    out: BufWriter<io::Stdout>,
}

impl Lines {
    /// Writes to stdout.
    pub(crate) fn new() -> Self {
        Self { out: BufWriter::new(io::stdout()) }
    }

    /// Writes one event: its `type` is that of the protocol's message, its members are the message's.
    ///
    /// # Errors
    /// When stdout takes no more.
    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        let Some((kind, body)) = body(&event.kind) else { return Ok(()) };
        let place = match event.scope {
            TurnScope::Running(turn) => json!({ "place": "turn", "turn": turn.get() }),
            TurnScope::Outside => json!({ "place": "outside" }),
            TurnScope::Ended(turn) => json!({ "place": "late", "turn": turn.get() }),
        };
        self.line(kind, &place, &body)
    }

    /// Writes how a request was settled here.
    ///
    /// # Errors
    /// When stdout takes no more.
    pub(crate) fn settled(&mut self, settled: &Settled) -> io::Result<()> {
        let reason = if settled.unasked { "policy" } else { "user" };
        let body =
            json!({ "request_id": settled.request_id, "approved": settled.approved, "reason": reason });
        self.line("permission.response", &json!({}), &body)
    }

    /// `type` and where it belongs first, so that a person finds them.
    fn line(&mut self, kind: &str, place: &Value, body: &Value) -> io::Result<()> {
        write!(self.out, "{{\"type\":{}", json!(kind))?;
        for members in [place, body] {
            for (name, value) in members.as_object().into_iter().flatten().filter(|(name, _)| *name != "type")
            {
                write!(self.out, ",{}:{value}", json!(name))?;
            }
        }
        self.out.write_all(b"}\n")?;
        self.out.flush()
    }
}

/// The event's type and members; nothing for kinds that this program does not know.
fn body(kind: &EventKind) -> Option<(&'static str, Value)> {
    fn of(body: &impl Serialize) -> Value {
        serde_json::to_value(body).unwrap_or_default()
    }
    Some(match kind {
        EventKind::Output(body) => ("output", of(body)),
        EventKind::Thinking(body) => ("thinking", of(body)),
        EventKind::Message(body) => ("message", of(body)),
        EventKind::ToolStart(body) => ("tool.start", of(body)),
        EventKind::ToolUpdate(body) => ("tool.update", of(body)),
        EventKind::ToolEnd(body) => ("tool.end", of(body)),
        EventKind::Plan(body) => ("plan", of(body)),
        EventKind::Progress(body) => ("progress", of(body)),
        EventKind::Log(body) => ("log", of(body)),
        EventKind::Error(body) => ("error", of(body)),
        EventKind::Custom(body) => ("custom", of(body)),
        EventKind::Usage(body) => ("usage", of(body)),
        EventKind::ContextUsage(body) => ("context.usage", of(body)),
        EventKind::Compaction(body) => ("compaction", of(body)),
        EventKind::RateLimit(body) => ("rate_limit", of(body)),
        EventKind::Info(body) => ("session.info", of(body)),
        EventKind::Working => ("working", json!({})),
        EventKind::File(file) => (
            "file.output",
            json!({
                "file_name": file.name,
                "file_mime_type": file.mime_type,
                "file_path": file.path,
                "size": file.size,
            }),
        ),
        EventKind::Permission(permission) => ("permission.request", of(permission.request())),
        EventKind::Question(question) => ("input.request", of(question.request())),
        EventKind::Withdrawn { request_id, reason } => {
            ("permission.cancel", json!({ "request_id": request_id, "reason": reason }))
        }
        EventKind::End(end) => ("end", end_body(end)),
        EventKind::Closed(end) => ("session.closed", json!({ "reason": end.reason, "error": end.error })),
        _ => return None,
    })
}

fn end_body(end: &TurnEnd) -> Value {
    let complete = serde_json::to_value(end.complete.as_deref()).unwrap_or_default();
    let mut body = json!({
        "cause": end.cause.as_str(),
        "status": end.status,
        "delivered": end.delivered,
        "exit": end.exit.map(|exit| json!({ "code": exit.code, "signal": exit.signal })),
        "error": end.error,
        "stderr_tail": end.stderr_tail,
        "usage": end.complete.as_ref().and_then(|complete| complete.usage.as_ref()),
        "took_ms": u64::try_from(end.took.as_millis()).unwrap_or(u64::MAX),
    });
    // What the adapter said besides; what the host knows better stands.
    if let (Value::Object(body), Value::Object(complete)) = (&mut body, complete) {
        for (name, value) in complete {
            body.entry(name).or_insert(value);
        }
    }
    body
}
