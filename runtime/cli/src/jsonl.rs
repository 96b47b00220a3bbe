//! Events as JSON, one object a line, for programs that read the output of a command.

use std::{
    io::{self, BufWriter, Write},
    time::SystemTime,
};

use serde_json::{Value, json};
use trunkline_host::{Event, EventKind, TurnEnd, TurnScope};

use crate::{
    ask::SettledRequest,
    session_backend::{AgentRequest, PendingRequest},
};

/// Writer of a session's events, one JSON object a line.
#[derive(Debug)]
pub(crate) struct EventWriter<W: Write = io::Stdout> {
    out: BufWriter<W>,
    /// Latest usage that the adapter reported in the running turn.
    usage: Option<Value>,
    /// Id of the session, if it is stored.
    pub(crate) session_id: Option<String>,
}

impl EventWriter {
    /// Creates a writer to stdout.
    pub(crate) fn to_stdout() -> Self {
        Self::new(io::stdout())
    }
}

impl<W: Write> EventWriter<W> {
    fn new(out: W) -> Self {
        Self {
            out: BufWriter::new(out),
            usage: None,
            session_id: None,
        }
    }

    /// Writes one event. Its `type` is the type of the protocol's message (`end` for the end of a
    /// turn), its members are the message's members, after `place`, `turn` and `time`.
    ///
    /// # Errors
    /// The error of the output.
    pub(crate) fn write_event(&mut self, event: &Event) -> io::Result<()> {
        let (kind, mut members) = members_of(event);
        match &event.kind {
            EventKind::Usage(usage) => self.usage = serde_json::to_value(usage).ok(),
            EventKind::End(_) => {
                // The usage of the end itself has precedence.
                let earlier = self.usage.take().filter(|_| members["usage"].is_null());
                if let Some(usage) = earlier {
                    members["usage"] = usage;
                }
                members["session_id"] = json!(self.session_id);
            }
            _ => {}
        }
        self.write_line(&kind, &place(event.scope), event.time, &members)
    }

    /// Writes a request of the agent, as [`Self::write_event`] does an event.
    ///
    /// # Errors
    /// The error of the output.
    pub(crate) fn write_request(&mut self, pending: &PendingRequest) -> io::Result<()> {
        let (kind, members) = match &pending.request {
            AgentRequest::Permission(request) => {
                ("permission.request", serde_json::to_value(request))
            }
            AgentRequest::Question(request) => ("input.request", serde_json::to_value(request)),
        };
        let members = members.unwrap_or_default();
        self.write_line(kind, &place(pending.scope), pending.time, &members)
    }

    /// Writes the decision on a request that was made in this process.
    ///
    /// # Errors
    /// The error of the output.
    pub(crate) fn write_decision(&mut self, decision: &SettledRequest) -> io::Result<()> {
        let members = json!({
            "request_id": decision.request_id,
            "approved": decision.approved,
            "reason": if decision.unasked { "policy" } else { "user" },
        });
        self.write_line(
            "permission.response",
            &json!({}),
            SystemTime::now(),
            &members,
        )
    }

    /// Writes a line. `type`, the place and `time` come first, for readability.
    fn write_line(
        &mut self,
        kind: &str,
        place: &Value,
        time: SystemTime,
        members: &Value,
    ) -> io::Result<()> {
        write!(self.out, "{{\"type\":{}", json!(kind))?;
        // The format of an entry of a journal.
        let time = json!({ "time": humantime::format_rfc3339_millis(time).to_string() });
        for object in [place, &time, members] {
            for (name, value) in object.as_object().into_iter().flatten() {
                write!(self.out, ",{}:{value}", json!(name))?;
            }
        }
        self.out.write_all(b"}\n")?;
        self.out.flush()
    }
}

fn place(scope: TurnScope) -> Value {
    match scope {
        TurnScope::Running(turn) => json!({ "place": "turn", "turn": turn.get() }),
        TurnScope::Outside => json!({ "place": "outside" }),
        TurnScope::Ended(turn) => json!({ "place": "late", "turn": turn.get() }),
    }
}

/// Returns the type of an event and the members of its message, without those that name its place.
fn members_of(event: &Event) -> (String, Value) {
    if let EventKind::End(end) = &event.kind {
        return ("end".to_owned(), members_of_end(end));
    }
    let mut message = serde_json::to_value(event).unwrap_or_default();
    let kind = message["type"].as_str().unwrap_or_default().to_owned();
    if let Value::Object(members) = &mut message {
        members.retain(|name, _| !matches!(name.as_str(), "type" | "turn_id" | "_meta"));
        match &event.kind {
            EventKind::File(file) => drop(members.insert("size".to_owned(), json!(file.size))),
            EventKind::Closed(_) => drop(members.entry("error").or_insert(Value::Null)),
            _ => {}
        }
    }
    (kind, message)
}

fn members_of_end(end: &TurnEnd) -> Value {
    let complete = serde_json::to_value(end.complete.as_deref()).unwrap_or_default();
    let mut members = json!({
        "cause": end.cause.as_str(),
        "status": end.status,
        "delivered": end.delivered,
        "exit": end.exit.map(|exit| json!({ "code": exit.code, "signal": exit.signal })),
        "error": end.error,
        "stderr_tail": end.stderr_tail,
        "usage": end.complete.as_ref().and_then(|complete| complete.usage.as_ref()),
        "took_ms": u64::try_from(end.took.as_millis()).unwrap_or(u64::MAX),
    });
    // The other members of the adapter's `turn.complete`. The host's own values have precedence.
    if let (Value::Object(members), Value::Object(complete)) = (&mut members, complete) {
        for (name, value) in complete {
            members.entry(name).or_insert(value);
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trunkline_host::{
        TurnNo,
        protocol::{Output, RequestId},
    };

    use super::*;

    fn written(write: impl FnOnce(&mut EventWriter<Vec<u8>>)) -> String {
        let mut writer = EventWriter::new(Vec::new());
        write(&mut writer);
        String::from_utf8(writer.out.into_inner().unwrap()).unwrap()
    }

    #[test]
    fn an_event_has_its_own_time_whenever_it_is_written() {
        let output = Output {
            content: "hi".to_owned(),
            ..Output::default()
        };
        let event = Event {
            time: SystemTime::UNIX_EPOCH + Duration::from_millis(1_772_366_400_250),
            ..Event::new(
                TurnScope::Running(TurnNo::new(3)),
                EventKind::Output(output),
            )
        };
        assert_eq!(
            written(|writer| writer.write_event(&event).unwrap()),
            "{\"type\":\"output\",\"place\":\"turn\",\"turn\":3,\"time\":\"2026-03-01T12:00:00.250Z\",\
             \"content\":\"hi\"}\n"
        );
    }

    #[test]
    fn a_decision_has_the_time_of_its_making() {
        let decision = SettledRequest {
            request_id: RequestId::new("r").unwrap(),
            approved: true,
            unasked: true,
        };
        let before = SystemTime::now() - Duration::from_millis(1);
        let line: Value =
            serde_json::from_str(&written(|writer| writer.write_decision(&decision).unwrap()))
                .unwrap();
        let time = humantime::parse_rfc3339(line["time"].as_str().unwrap()).unwrap();
        assert!(time >= before, "{line}");
        assert_eq!(
            (&line["type"], &line["reason"]),
            (&json!("permission.response"), &json!("policy"))
        );
    }
}
