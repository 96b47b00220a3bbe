//! Reads a whole run for a test: lines in, events out.

use serde_json::Value;
use trunkline_sdk::TurnComplete;
use trunkline_sdk::protocol::AdapterBody;

use super::{RunEvent, RunProgress, RunReader};
use crate::agent::process::ProcessEnd;

/// Events of a run, each as its JSON, and its end.
pub(crate) struct Read {
    pub(crate) told: Vec<String>,
    pub(crate) end: TurnComplete,
}

impl Read {
    pub(crate) fn run(mut reader: impl RunReader, lines: &str, code: i32, stderr: &str) -> Self {
        let mut run = RunProgress::default();
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            reader.line(&serde_json::from_str::<Value>(line).unwrap(), &mut run);
        }
        let end = run.end(reader, &ProcessEnd::with_stderr(code, stderr), None);
        Self {
            told: run.events.iter().map(shown).collect(),
            end,
        }
    }

    /// The status of the turn's end, and the text of its failure or the agent's reason.
    pub(crate) fn status(&self) -> (&'static str, String) {
        let status = self
            .end
            .status
            .map_or("none", trunkline_sdk::Status::as_str);
        let message = self.end.error.clone().and_then(|error| error.message);
        let reason = message.or_else(|| self.end.stop_reason.clone());
        (status, reason.unwrap_or_default())
    }

    /// The category of the failure.
    pub(crate) fn category(&self) -> &'static str {
        let error = self.end.error.as_ref().expect("a failed run");
        error
            .category
            .map_or("none", trunkline_sdk::Category::as_str)
    }
}

/// Every shape of a line, with every member of the wrong type: nothing panics.
pub(crate) fn survives_any_shape<R: RunReader>(reader: impl Fn() -> R, types: &[&str]) {
    let odd = [
        Value::Null,
        1.into(),
        "x".into(),
        serde_json::json!([1]),
        serde_json::json!({"a": {}}),
    ];
    for kind in types {
        for value in &odd {
            let mut reader = reader();
            let mut run = RunProgress::default();
            let names = [
                "data",
                "part",
                "error",
                "content",
                "session_id",
                "sessionID",
                "stats",
                "status",
            ];
            let mut line = serde_json::json!({ "type": kind });
            for name in names {
                line[name] = value.clone();
                reader.line(&line, &mut run);
            }
            // Any verdict will do.
            drop(run.end(reader, &ProcessEnd::with_stderr(0, ""), None));
        }
    }
}

fn shown(told: &RunEvent) -> String {
    match told {
        RunEvent::Session(id) => format!("session {id}"),
        RunEvent::Model(model) => format!("model {model}"),
        RunEvent::Event(AdapterBody::Output(output)) => format!("output {}", output.content),
        RunEvent::Event(AdapterBody::Thinking(thinking)) => {
            format!("thinking {}", thinking.content)
        }
        RunEvent::Event(AdapterBody::ToolStart(start)) => {
            let input = start.input.as_ref().map_or("", |input| input.get());
            format!(
                "start {} {} {input}",
                start.tool_call_id.as_str(),
                start.tool
            )
        }
        RunEvent::Event(AdapterBody::ToolEnd(end)) => {
            let failed = if end.is_error == Some(true) {
                "failed"
            } else {
                "done"
            };
            format!(
                "end {} {failed} {}",
                end.tool_call_id.as_str(),
                end.content.as_deref().unwrap_or_default()
            )
        }
        RunEvent::Event(AdapterBody::Usage(usage)) => {
            format!(
                "usage {:?} {:?} {:?}",
                usage.input_tokens, usage.output_tokens, usage.cost_usd
            )
        }
        RunEvent::Event(event) => format!("{event:?}"),
    }
}
