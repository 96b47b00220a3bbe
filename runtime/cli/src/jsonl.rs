//! Events as JSON, one object a line, for programs.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};
use trunkline_host::{Event, EventKind, TurnEnd, TurnScope};

use crate::ask::Settled;

/// Writes the events of a session to stdout.
#[derive(Debug)]
pub(crate) struct Lines {
    out: BufWriter<io::Stdout>,
    /// What the adapter last said of the turn's usage.
    usage: Option<Value>,
}

impl Lines {
    /// Writes to stdout.
    pub(crate) fn new() -> Self {
        Self {
            out: BufWriter::new(io::stdout()),
            usage: None,
        }
    }

    /// Writes one event: its `type` is that of the protocol's message (`end` for a turn's end), its members are the message's.
    ///
    /// # Errors
    /// When stdout takes no more.
    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        let (kind, mut body) = body(event);
        match &event.kind {
            EventKind::Usage(usage) => self.usage = serde_json::to_value(usage).ok(),
            EventKind::End(_) => {
                // What the end itself says stands.
                let earlier = self.usage.take().filter(|_| body["usage"].is_null());
                earlier.into_iter().for_each(|usage| body["usage"] = usage);
            }
            _ => {}
        }
        let place = match event.scope {
            TurnScope::Running(turn) => json!({ "place": "turn", "turn": turn.get() }),
            TurnScope::Outside => json!({ "place": "outside" }),
            TurnScope::Ended(turn) => json!({ "place": "late", "turn": turn.get() }),
        };
        self.line(&kind, &place, &body)
    }

    /// Writes how a request was settled here.
    ///
    /// # Errors
    /// When stdout takes no more.
    pub(crate) fn settled(&mut self, settled: &Settled) -> io::Result<()> {
        let reason = if settled.unasked { "policy" } else { "user" };
        let body = json!({ "request_id": settled.request_id, "approved": settled.approved, "reason": reason });
        self.line("permission.response", &json!({}), &body)
    }

    /// `type` and where it belongs first, so that a person finds them.
    fn line(&mut self, kind: &str, place: &Value, body: &Value) -> io::Result<()> {
        write!(self.out, "{{\"type\":{}", json!(kind))?;
        for members in [place, body] {
            for (name, value) in members
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, _)| *name != "type")
            {
                write!(self.out, ",{}:{value}", json!(name))?;
            }
        }
        self.out.write_all(b"}\n")?;
        self.out.flush()
    }
}

/// The event's type and members: the message's, but for where it belongs, which stands before them.
fn body(event: &Event) -> (String, Value) {
    if let EventKind::End(end) = &event.kind {
        return ("end".to_owned(), end_body(end));
    }
    let mut body = serde_json::to_value(event).unwrap_or_default();
    let kind = body["type"].as_str().unwrap_or_default().to_owned();
    if let Value::Object(members) = &mut body {
        members.retain(|name, _| !matches!(name.as_str(), "type" | "turn_id" | "_meta"));
        match &event.kind {
            EventKind::File(file) => drop(members.insert("size".to_owned(), json!(file.size))),
            EventKind::Closed(_) => drop(members.entry("error").or_insert(Value::Null)),
            _ => {}
        }
    }
    (kind, body)
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
