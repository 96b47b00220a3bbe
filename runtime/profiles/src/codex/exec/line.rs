//! Translates the lines of `codex exec --json`. Pure.

use serde_json::{Value, json};

use super::super::fault::CodexError;
use super::super::translate::{CodexEvent, ReportedEnd, Translator};
use super::super::usage::read_tokens;

/// Meaning of a line.
#[derive(Debug, PartialEq)]
pub(super) enum Meaning {
    /// The thread's id.
    Thread(String),
    Events(Vec<CodexEvent>),
    /// The line is not JSON.
    Noise,
}

/// Translates the lines of one process, whose items are numbered from 0 in each.
#[derive(Default)]
pub(super) struct ExecLines {
    pub(super) translator: Translator,
    run: u64,
}

/// The turn that the translator knows: `exec` has one a process, and does not name it.
const TURN: &str = "turn";

impl ExecLines {
    /// A process begins.
    pub(super) fn begin(&mut self) {
        self.run += 1;
        self.translator.begin();
        self.translator.is_turn(TURN);
    }

    /// Takes a line. What is not an event means nothing.
    pub(super) fn take(&mut self, line: &[u8]) -> Meaning {
        let Ok(mut event @ Value::Object(_)) = serde_json::from_slice(line) else {
            return Meaning::Noise;
        };
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        Meaning::Events(match kind.as_str() {
            "thread.started" => match event["thread_id"].as_str() {
                Some(id) => return Meaning::Thread(id.to_owned()),
                None => Vec::new(),
            },
            "item.started" | "item.updated" | "item.completed" => {
                let mut item = event.get_mut("item").map(Value::take).unwrap_or_default();
                if let Some(id) = item["id"].as_str() {
                    item["id"] = format!("run-{}-{id}", self.run).into();
                }
                let method = kind.replace('.', "/");
                self.translator
                    .take(&method, &json!({ "item": item, "turnId": TURN }))
            }
            "turn.completed" => {
                if let Some(usage) = event.get("usage") {
                    self.translator.meter.read_total(read_tokens(usage));
                }
                vec![CodexEvent::Ended(ReportedEnd::Completed)]
            }
            "turn.failed" => {
                let fault = event.get("error").map(CodexError::from_error);
                vec![CodexEvent::Ended(ReportedEnd::Failed(fault))]
            }
            "error" => {
                let fault = CodexError::from_error(&event);
                vec![if fault.message.starts_with("Reconnecting...") {
                    CodexEvent::Retries(fault)
                } else {
                    CodexEvent::Error(fault)
                }]
            }
            _ => Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use trunkline_sdk::protocol::AdapterBody;

    use super::*;

    /// Plays the lines of one process.
    fn play(lines: &mut ExecLines, text: &str) -> Vec<String> {
        lines.begin();
        let mut told = Vec::new();
        for line in text.lines() {
            match lines.take(line.as_bytes()) {
                Meaning::Thread(id) => told.push(format!("thread {id}")),
                Meaning::Noise => {}
                Meaning::Events(events) => told.extend(events.iter().map(|event| match event {
                    CodexEvent::Tell(AdapterBody::Output(output)) => {
                        format!("output {}", output.content)
                    }
                    CodexEvent::Tell(AdapterBody::ToolStart(start)) => {
                        format!("start {} {}", start.tool_call_id, start.tool)
                    }
                    CodexEvent::Tell(AdapterBody::ToolEnd(end)) => {
                        format!(
                            "end {:?} {:?}",
                            end.content.as_deref().unwrap_or_default(),
                            end.is_error
                        )
                    }
                    CodexEvent::Tell(other) => format!("{:?}", other.kind()),
                    CodexEvent::Retries(_) => "retries".to_owned(),
                    CodexEvent::Error(fault) => format!("error {}", fault.told()),
                    CodexEvent::Ended(ReportedEnd::Failed(Some(fault))) => {
                        format!("failed {}", fault.told())
                    }
                    CodexEvent::Ended(end) => format!("{end:?}"),
                })),
            }
        }
        told
    }

    #[test]
    fn a_run_with_a_command_is_told_and_its_items_are_its_own() {
        let run = r#"{"type":"thread.started","thread_id":"T"}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"I look."}}
{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"/bin/bash -lc ls","aggregated_output":"","exit_code":null,"status":"in_progress"}}
{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"/bin/bash -lc ls","aggregated_output":"a\n","exit_code":2,"status":"failed"}}
{"type":"item.updated","item":{"id":"item_2","type":"todo_list","items":[{"text":"x","completed":true}]}}
not json
{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":2}}"#;
        let mut lines = ExecLines {
            translator: Translator::fresh(),
            ..ExecLines::default()
        };
        let told = play(&mut lines, run);
        assert_eq!(
            told,
            [
                "thread T",
                "output I look.",
                "start run-1-item_1 bash",
                "end \"a\\n\" Some(true)",
                "Plan",
                "Completed"
            ]
        );
        assert_eq!(
            lines
                .translator
                .meter
                .take()
                .and_then(|tokens| tokens.total),
            Some(12)
        );
        assert_eq!(play(&mut lines, run)[2], "start run-2-item_1 bash");
        // The same total again: nothing was added.
        assert_eq!(
            lines
                .translator
                .meter
                .take()
                .and_then(|tokens| tokens.total),
            Some(0)
        );
    }

    #[test]
    fn of_a_thread_begun_elsewhere_the_first_runs_usage_is_unknown() {
        let mut lines = ExecLines::default();
        play(
            &mut lines,
            r#"{"type":"turn.completed","usage":{"input_tokens":100,"output_tokens":2}}"#,
        );
        assert_eq!(lines.translator.meter.take(), None);
        play(
            &mut lines,
            r#"{"type":"turn.completed","usage":{"input_tokens":110,"output_tokens":3}}"#,
        );
        assert_eq!(
            lines
                .translator
                .meter
                .take()
                .and_then(|tokens| tokens.total),
            Some(11)
        );
    }

    #[test]
    fn retries_failures_and_older_updates() {
        let mut lines = ExecLines::default();
        let failed = r#"{"type":"error","message":"Reconnecting... 1/1 (unexpected status 401 Unauthorized)"}
{"type":"error","message":"unexpected status 401 Unauthorized"}
{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized"}}"#;
        assert_eq!(
            play(&mut lines, failed),
            [
                "retries",
                "error unexpected status 401 Unauthorized",
                "failed unexpected status 401 Unauthorized"
            ]
        );
        let mute = "{\"type\":\"error\",\"message\":\"first\"}\n{\"type\":\"turn.failed\"}";
        assert_eq!(play(&mut lines, mute), ["error first", "Failed(None)"]);
        let updates = r#"{"type":"item.updated","item":{"id":"a","type":"agent_message","text":"He"}}
{"type":"item.updated","item":{"id":"a","type":"agent_message","text":"Hello"}}
{"type":"item.completed","item":{"id":"a","type":"agent_message","text":"Hello!"}}"#;
        assert_eq!(
            play(&mut lines, updates),
            ["output He", "output llo", "output !"]
        );
        let warning = r#"{"type":"item.completed","item":{"id":"w","type":"error","message":"unknown model"}}"#;
        assert_eq!(play(&mut lines, warning), ["Log"]);
        for odd in [
            "{}",
            "[]",
            "7",
            r#"{"type":7}"#,
            r#"{"type":"item.completed","item":7}"#,
            r#"{"type":"error"}"#,
        ] {
            play(&mut lines, odd);
        }
    }
}
