//! The Agent Client Protocol, as each agent speaks it.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{
    super::{
        expected::{Answer, Expected, Permission, Text, Turn, Usage},
        recording::{Recording, Step},
    },
    category_of,
    dialogue::{Dialogue, answer_to, refused},
    in_words, number, status_in, text,
};

/// The code of an error that wants a login.
const AUTH_REQUIRED: i64 = -32000;

/// Usage of a session so far.
#[derive(Default, Clone, Copy)]
struct Total {
    cost: f64,
    /// Input, output, cached, thought.
    tokens: [u64; 4],
    turns: usize,
}

#[derive(Default)]
struct Reading {
    dialogue: Dialogue,
    /// Usage of each session so far: cost, input, output.
    totals: HashMap<String, Total>,
    /// Messages that an earlier turn began.
    earlier: HashSet<String>,
    open: Option<Open>,
}

struct Open {
    session: String,
    request: Value,
    turn: Turn,
    text: Text,
    /// The messages that were reported.
    messages: HashSet<String>,
    /// The running total of the cost, as last reported.
    cost: Option<f64>,
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
        // Nothing came: only a stop ends it.
        open.turn.stopped = true;
        open.turn.status = vec!["stopped"];
        reading.close(open);
    }
    reading.dialogue.expected()
}

impl Reading {
    fn input(&mut self, line: &Value) {
        self.dialogue.asks(line);
        let session = text(line, "/params/sessionId").unwrap_or_default();
        match text(line, "/method").unwrap_or_default() {
            "session/prompt" if self.dialogue.knows(session) => {
                let prompt = text(line, "/params/prompt/0/text").unwrap_or_default();
                self.open = Some(Open {
                    session: session.to_owned(),
                    request: line["id"].clone(),
                    turn: Turn::new(prompt),
                    text: Text::default(),
                    messages: HashSet::new(),
                    cost: None,
                });
            }
            "session/cancel" => {
                if let Some(open) = &mut self.open {
                    open.turn.stopped = true;
                    open.text.stop();
                }
            }
            "session/set_mode" => {
                if let Some(session) = self.dialogue.session(session) {
                    session.mode = text(line, "/params/modeId").map(str::to_owned);
                }
            }
            _ => {}
        }
    }

    fn output(&mut self, line: &Value, recording: &Recording) {
        match text(line, "/method") {
            None => self.answer(line, recording),
            Some("session/request_permission") => {
                if let Some(open) = &mut self.open {
                    let call = &line["params"]["toolCall"];
                    let tool = open
                        .turn
                        .tool(text(call, "/toolCallId").unwrap_or_default());
                    // Some agents report a call only when it is done, and a refused one never.
                    tool.optional |= tool.failed.is_none();
                    let request = permission(line, recording);
                    open.turn.permissions.push(request);
                }
            }
            Some("session/update") => self.update(&line["params"]["update"]),
            Some(_) => {}
        }
    }

    fn update(&mut self, update: &Value) {
        let Some(open) = &mut self.open else { return };
        match text(update, "/sessionUpdate").unwrap_or_default() {
            "agent_message_chunk" => {
                let id = text(update, "/messageId").unwrap_or_default();
                let chunk = text(update, "/content/text").unwrap_or_default();
                // Where messages have no ids, a tool call is what parts them.
                let key = if id.is_empty() {
                    format!("#{}", open.turn.tools.len())
                } else {
                    id.to_owned()
                };
                open.text.delta(&key, chunk);
                if self.earlier.contains(id) || tells_an_error(chunk) {
                    open.text.optional(&key);
                }
                open.messages.insert(id.to_owned());
            }
            kind @ ("tool_call" | "tool_call_update") => {
                let id = text(update, "/toolCallId").unwrap_or_default();
                let known = open.turn.tools.iter().any(|tool| tool.id == id);
                let stopped = open.turn.stopped;
                let tool = open.turn.tool(id);
                match text(update, "/status") {
                    Some("completed") => tool.failed = Some(false),
                    Some("failed") => tool.failed = Some(true),
                    _ => {}
                }
                // Events after a stop may be reported or not.
                let new = kind == "tool_call" || tool.failed.is_some();
                tool.optional = if new && !stopped {
                    false
                } else {
                    tool.optional || (new && stopped && !known)
                };
            }
            "usage_update" => {
                open.cost = update
                    .pointer("/cost/amount")
                    .and_then(Value::as_f64)
                    .or(open.cost);
            }
            _ => {}
        }
    }

    fn answer(&mut self, line: &Value, recording: &Recording) {
        let Some(asked) = self.dialogue.asked(line) else {
            return;
        };
        match text(&asked, "/method").unwrap_or_default() {
            "session/new" => {
                let failed = refused(line).map(|error| {
                    let mut turn = Turn::new("FAKE:text");
                    fail(&mut turn, error);
                    turn
                });
                self.dialogue.begun(text(line, "/result/sessionId"), failed);
            }
            "session/load" => {
                self.dialogue
                    .resumed(text(&asked, "/params/sessionId"), refused(line).is_some());
            }
            "session/prompt" => {
                if let Some(mut open) = self.open.take_if(|open| open.request == line["id"]) {
                    self.ended(&mut open, line, recording);
                    self.close(open);
                }
            }
            _ => {}
        }
    }

    fn ended(&mut self, open: &mut Open, line: &Value, recording: &Recording) {
        let result = &line["result"];
        let turn = &mut open.turn;
        turn.text = std::mem::take(&mut open.text).pieces();
        let whole: String = turn
            .text
            .iter()
            .map(|piece| piece.ways[0].as_str())
            .collect();
        if let Some(error) = refused(line) {
            fail(turn, error);
        } else {
            let stopped = turn.stopped;
            turn.status = match text(result, "/stopReason").unwrap_or_default() {
                "cancelled" if stopped => vec!["stopped"],
                "cancelled" => vec!["stopped", "completed", "refused", "failed"],
                "max_tokens" | "max_turn_requests" => vec!["limit"],
                "refusal" => vec!["refused"],
                _ if recording.cli() == "copilot" && whole.starts_with("Error: ") => vec!["failed"],
                // Some agents report an error of the model as their answer.
                _ if result.get("usage").is_some_and(Value::is_null) => vec!["completed", "failed"],
                _ => vec!["completed"],
            };
        }
        let session = open.session.clone();
        self.use_of(open, &session, result, recording);
    }

    /// Tokens and cost: of the turn for some agents, running totals for others.
    fn use_of(&mut self, open: &mut Open, session: &str, result: &Value, recording: &Recording) {
        let total = self.totals.entry(session.to_owned()).or_default();
        let resumed = self
            .dialogue
            .session(session)
            .is_some_and(|one| one.resume.is_some());
        let begun = total.turns > 0 || !resumed;
        total.turns += 1;
        if let Some(cost) = open.cost {
            // The earlier cost of a resumed session is unknown here.
            if begun {
                open.turn.cost = Some(cost - total.cost);
            } else {
                open.turn.no_total = Some(cost);
            }
            total.cost = cost;
        }
        let usage = &result["usage"];
        let quota = &result["_meta"]["quota"]["token_count"];
        let optional = open.turn.status != ["completed"];
        let of = |name: &str| number(usage, &format!("/{name}"));
        if let (Some(input), Some(output)) = (of("inputTokens"), of("outputTokens")) {
            let cached = of("cachedReadTokens").unwrap_or(0) + of("cachedWriteTokens").unwrap_or(0);
            let now = [input, output, cached, of("thoughtTokens").unwrap_or(0)];
            let before = if recording.cli() == "copilot" {
                total.tokens
            } else {
                [0; 4]
            };
            total.tokens = now;
            let [input, output, cached, thought] =
                std::array::from_fn(|at| now[at].saturating_sub(before[at]));
            let input = vec![input, input + cached];
            let output = vec![output, output + thought];
            open.turn.usage = Some(Usage {
                input,
                output,
                optional: optional || !begun,
            });
        } else if let (Some(input), Some(output)) = (
            number(quota, "/input_tokens"),
            number(quota, "/output_tokens"),
        ) {
            open.turn.usage = Some(Usage {
                input: vec![input],
                output: vec![output],
                optional,
            });
        }
    }

    fn close(&mut self, open: Open) {
        let Open {
            session,
            mut turn,
            text,
            messages,
            ..
        } = open;
        self.earlier
            .extend(messages.into_iter().filter(|id| !id.is_empty()));
        if turn.text.is_empty() {
            turn.text = text.pieces();
        }
        if let Some(session) = self.dialogue.session(&session) {
            session.turns.push(turn);
        }
    }
}

/// Returns true if an agent reports as its answer that its model failed.
fn tells_an_error(chunk: &str) -> bool {
    ["Error: ", "API Error: ", "{\"error\""]
        .iter()
        .any(|begin| chunk.starts_with(begin))
}

fn fail(turn: &mut Turn, error: &Value) {
    let code = error["code"].as_i64().unwrap_or(0);
    let message = text(error, "/message").unwrap_or_default();
    let status = u64::try_from(code).ok().or_else(|| status_in(message));
    let category = if code == AUTH_REQUIRED {
        &["auth"]
    } else {
        category_of(status)
    };
    turn.fails(
        category,
        (!message.is_empty()).then(|| in_words(message).chars().take(16).collect()),
    );
}

fn permission(line: &Value, recording: &Recording) -> Permission {
    let call = &line["params"]["toolCall"];
    let answer = answer_to(recording, line);
    let strings = call["rawInput"]
        .as_object()
        .into_iter()
        .flat_map(|input| input.values());
    let strings = strings.filter_map(|value| value.as_str().map(str::to_owned));
    let places = call["locations"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|at| text(at, "/path").map(str::to_owned));
    let option = answer.and_then(|answer| text(answer, "/result/outcome/optionId"));
    let options = line["params"]["options"].as_array().into_iter().flatten();
    let kind = options
        .filter(|known| text(known, "/optionId") == option)
        .find_map(|known| text(known, "/kind"));
    Permission {
        tool: None,
        tool_call_id: text(call, "/toolCallId").map(str::to_owned),
        about: strings
            .chain(places)
            .chain(text(call, "/title").map(str::to_owned))
            .collect(),
        answer: option.map(|option| Answer {
            approved: kind.is_some_and(|kind| kind.starts_with("allow")),
            option: Some(option.to_owned()),
            to_cli: Some(("/result/outcome/optionId", json!(option))),
            ..Answer::default()
        }),
    }
}
