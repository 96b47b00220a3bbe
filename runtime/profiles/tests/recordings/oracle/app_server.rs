//! codex app-server: threads, turns, items.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{
    super::{
        expected::{Answer, Expected, Permission, Text, Turn, Usage},
        recording::{Recording, Step},
    },
    category_of,
    dialogue::{Dialogue, answer_to, refused},
    number, status_in, text,
};

#[derive(Default)]
struct Reading {
    dialogue: Dialogue,
    /// Running totals of each thread: input and output.
    totals: HashMap<String, (u64, u64)>,
    open: Option<Open>,
}

struct Open {
    thread: String,
    turn: Turn,
    text: Text,
    before: (u64, u64),
    status: Option<u64>,
    counted: bool,
}

pub(super) fn expect(recording: &Recording) -> Expected {
    let mut reading = Reading::default();
    for step in &recording.steps {
        match step {
            Step::In(line) => reading.input(line),
            Step::Out(line) => reading.output(&line.json, recording),
            Step::Signal | Step::Closed => {}
        }
    }
    if let Some(mut open) = reading.open.take() {
        // The process ended in the middle.
        open.turn.fails(&[], []);
        reading.close(open);
    }
    reading.dialogue.expected()
}

impl Reading {
    fn input(&mut self, line: &Value) {
        self.dialogue.asks(line);
        let prompt = || {
            text(line, "/params/input/0/text")
                .unwrap_or_default()
                .to_owned()
        };
        match text(line, "/method").unwrap_or_default() {
            "turn/start" | "turn/steer" if self.open.is_some() => {
                if let Some(open) = &mut self.open {
                    open.turn.steers.push(prompt());
                }
            }
            "turn/start" => {
                let thread = text(line, "/params/threadId")
                    .unwrap_or_default()
                    .to_owned();
                if self.dialogue.knows(&thread) {
                    let before = self.totals.get(&thread).copied().unwrap_or_default();
                    let turn = Turn::new(prompt());
                    self.open = Some(Open {
                        thread,
                        turn,
                        text: Text::default(),
                        before,
                        status: None,
                        counted: false,
                    });
                }
            }
            "turn/interrupt" => {
                if let Some(open) = &mut self.open {
                    open.turn.stopped = true;
                    open.text.stop();
                }
            }
            _ => {}
        }
    }

    fn output(&mut self, line: &Value, recording: &Recording) {
        let Some(method) = text(line, "/method") else {
            return self.answer(line);
        };
        let params = line.get("params").unwrap_or(&Value::Null);
        let thread = text(params, "/threadId").unwrap_or_default();
        if method == "thread/tokenUsage/updated" {
            let of = |name: &str| number(params, &format!("/tokenUsage/total/{name}")).unwrap_or(0);
            self.totals
                .insert(thread.to_owned(), (of("inputTokens"), of("outputTokens")));
            if let Some(open) = &mut self.open {
                open.counted = true;
            }
        }
        let Some(open) = &mut self.open else { return };
        match method {
            "item/agentMessage/delta" => {
                open.text.delta(
                    text(params, "/itemId").unwrap_or_default(),
                    text(params, "/delta").unwrap_or_default(),
                );
            }
            "item/started" | "item/completed" => {
                item(open, &params["item"], method == "item/completed")
            }
            "error" => {
                if params["willRetry"] == json!(true) {
                    open.text.retry();
                } else {
                    open.note_error(&params["error"]);
                }
            }
            "turn/completed" => {
                if let Some(open) = self.open.take() {
                    self.completed(open, &params["turn"]);
                }
            }
            _ if method.ends_with("requestApproval") => {
                let request = permission(line, recording);
                open.turn.permissions.push(request);
            }
            _ => {}
        }
    }

    /// The CLI's answer to a request of the recorder.
    fn answer(&mut self, line: &Value) {
        let Some(asked) = self.dialogue.asked(line) else {
            return;
        };
        let refused = refused(line);
        match text(&asked, "/method").unwrap_or_default() {
            "thread/start" => {
                let failed = refused.map(|error| {
                    let mut turn = Turn::new("FAKE:text");
                    turn.fails(&[], text(error, "/message").map(str::to_owned));
                    turn
                });
                self.dialogue.begun(text(line, "/result/thread/id"), failed);
            }
            "thread/resume" => {
                self.dialogue
                    .resumed(text(&asked, "/params/threadId"), refused.is_some());
            }
            "turn/start" if refused.is_some() => {
                if let Some(mut open) = self.open.take() {
                    open.turn.fails(&[], []);
                    self.close(open);
                }
            }
            _ => {}
        }
    }

    fn completed(&mut self, mut open: Open, turn: &Value) {
        let stopped = open.turn.stopped;
        match text(turn, "/status").unwrap_or_default() {
            "completed" => open.turn.status = vec!["completed"],
            "interrupted" if stopped => open.turn.status = vec!["stopped"],
            // The user answered a request so that the turn ended.
            "interrupted" => open.turn.status = vec!["stopped", "completed", "refused", "failed"],
            _ => {
                open.note_error(&turn["error"]);
                open.turn.fails(category_of(open.status), []);
            }
        }
        self.close(open);
    }

    fn close(&mut self, open: Open) {
        let Open {
            thread,
            mut turn,
            text,
            before,
            counted,
            ..
        } = open;
        let after = self.totals.get(&thread).copied().unwrap_or_default();
        if counted {
            let optional = turn.status != ["completed"];
            let input = vec![after.0 - before.0.min(after.0)];
            let output = vec![after.1 - before.1.min(after.1)];
            turn.usage = Some(Usage {
                input,
                output,
                optional,
            });
        }
        turn.text = text.pieces();
        if let Some(session) = self.dialogue.session(&thread) {
            session.turns.push(turn);
        }
    }
}

impl Open {
    fn note_error(&mut self, error: &Value) {
        let by_info = error
            .get("codexErrorInfo")
            .and_then(Value::as_object)
            .and_then(|info| {
                info.values()
                    .find_map(|details| number(details, "/httpStatusCode"))
            });
        let message = text(error, "/message").unwrap_or_default();
        self.status = by_info.or_else(|| status_in(message)).or(self.status);
        self.turn
            .told
            .extend((!message.is_empty()).then(|| message.chars().take(24).collect()));
    }
}

fn item(open: &mut Open, item: &Value, completed: bool) {
    let id = text(item, "/id").unwrap_or_default();
    match text(item, "/type").unwrap_or_default() {
        "agentMessage" if completed => open.text.whole(id, text(item, "/text").unwrap_or_default()),
        "commandExecution" | "fileChange" | "mcpToolCall" | "dynamicToolCall" | "webSearch" => {
            let tool = open.turn.tool(id);
            if completed {
                tool.failed = text(item, "/status").map(|status| status != "completed");
            }
        }
        _ => {}
    }
}

fn permission(line: &Value, recording: &Recording) -> Permission {
    let params = &line["params"];
    let answer = answer_to(recording, line);
    // The files of a change are in the item before the request.
    let item = recording
        .outputs()
        .find(|out| out.json.pointer("/params/item/id") == params.get("itemId"));
    let changes = item.and_then(|item| {
        item.json
            .pointer("/params/item/changes")
            .and_then(Value::as_array)
            .cloned()
    });
    let paths = changes
        .into_iter()
        .flatten()
        .filter_map(|change| text(&change, "/path").map(str::to_owned));
    let named = ["/command", "/reason", "/grantRoot"]
        .iter()
        .filter_map(|place| text(params, place).map(str::to_owned));
    Permission {
        tool: None,
        tool_call_id: text(params, "/itemId").map(str::to_owned),
        about: named.chain(paths).collect(),
        answer: answer
            .and_then(|answer| answer.pointer("/result/decision"))
            .map(|decision| {
                let name = decision
                    .as_str()
                    .or_else(|| decision.as_object()?.keys().next().map(String::as_str));
                let name = name.unwrap_or_default();
                Answer {
                    approved: name.starts_with("accept"),
                    option: Some(name.to_owned()),
                    end_turn: name == "cancel",
                    to_cli: Some(("/result/decision", decision.clone())),
                    ..Answer::default()
                }
            }),
    }
}
