//! claude: stream-json lines, one turn or many.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    super::{
        expected::{Answer, Expected, Permission, Session, Text, Turn, Usage},
        mode::Mode,
        recording::{Exit, Recording, Step},
    },
    begun_afresh, category_of, first_words, number, one_turn, refused_to_resume, text,
};

/// Running totals of a process.
#[derive(Default)]
struct Totals {
    cost: f64,
    turns: usize,
    models: HashMap<&'static str, u64>,
}

/// A turn as its lines come.
#[derive(Default)]
struct Open {
    turn: Turn,
    text: Text,
    error: Option<String>,
    /// The message whose deltas come.
    streaming: String,
}

pub(super) fn expect(recording: &Recording) -> Expected {
    let mut session = Session {
        native_id: native_id(recording),
        ..Session::default()
    };
    let mut totals = Totals::default();
    if Mode::from_recording(recording) != Mode::StreamJson {
        let mut open = Open::default();
        let mut format = false;
        for line in recording.outputs() {
            if open.line(&line.json, recording, &mut totals, false) {
                format = true;
                break;
            }
        }
        let mut turn = open.finish();
        if !format {
            turn.status.clear();
        }
        return one_turn(recording, "one turn", session, turn);
    }
    session.resume = recording.resumes().map(str::to_owned);
    session.model = recording.option(&["--model"]).map(str::to_owned);
    if session.resume.is_some() && refused_to_resume(recording) {
        return begun_afresh(recording, &session, Turn::default());
    }
    session.turns = turns(recording, &mut totals);
    Expected {
        rule: "dialogue",
        sessions: vec![session],
        or: None,
    }
}

fn turns(recording: &Recording, totals: &mut Totals) -> Vec<Turn> {
    let mut waiting = std::collections::VecDeque::new();
    let mut open: Option<Open> = None;
    let mut done = Vec::new();
    let mut stopped = false;
    for step in &recording.steps {
        match step {
            Step::In(line) if text(line, "/type") == Some("user") => {
                waiting.push_back(
                    text(line, "/message/content/0/text")
                        .unwrap_or_default()
                        .to_owned(),
                );
            }
            Step::In(line) if text(line, "/request/subtype") == Some("interrupt") => {
                if let Some(open) = &mut open {
                    stopped = true;
                    open.text.stop();
                }
            }
            Step::Signal => {
                if let Some(open) = &mut open {
                    stopped = true;
                    open.text.stop();
                }
            }
            Step::In(_) | Step::Closed => {}
            Step::Out(line) => {
                if ["control_response"].contains(&line.str("/type").unwrap_or_default()) {
                    continue;
                }
                if open.is_none() {
                    open = waiting.pop_front().map(|prompt| Open {
                        turn: Turn::new(prompt),
                        ..Open::default()
                    });
                }
                if let Some(mut current) = open.take() {
                    if current.line(&line.json, recording, totals, stopped) {
                        done.push(current.finish());
                        stopped = false;
                    } else {
                        open = Some(current);
                    }
                }
            }
        }
    }
    let unfinished = open
        .into_iter()
        .chain(waiting.into_iter().map(|prompt| Open {
            turn: Turn::new(prompt),
            ..Open::default()
        }));
    for unfinished in unfinished {
        let mut turn = unfinished.finish();
        turn.stopped = stopped || recording.exit == Exit::Never;
        if turn.stopped {
            turn.status = vec!["stopped", "failed"];
        } else {
            turn.fails(&[], first_words(&recording.stderr));
        }
        done.push(turn);
    }
    if done.is_empty() {
        // It died of what it was sent before any input of a user.
        let mut turn = Turn::new("FAKE:text");
        turn.fails(&[], first_words(&recording.stderr));
        done.push(turn);
    }
    done
}

impl Open {
    /// Takes a line; true when it ends the turn.
    fn line(
        &mut self,
        line: &Value,
        recording: &Recording,
        totals: &mut Totals,
        stopped: bool,
    ) -> bool {
        if line
            .get("parent_tool_use_id")
            .is_some_and(|parent| !parent.is_null())
        {
            return false;
        }
        match text(line, "/type").unwrap_or_default() {
            "stream_event" => {
                if let Some(id) = text(line, "/event/message/id") {
                    self.streaming = id.to_owned();
                }
                if let Some(delta) = text(line, "/event/delta/text") {
                    self.text.delta(&self.streaming, delta);
                }
            }
            "assistant" => self.assistant(line),
            "user" => self.results(line),
            "control_request" => self.permission(line, recording),
            "result" => {
                self.result(line, recording, totals, stopped);
                return true;
            }
            _ => {}
        }
        false
    }

    fn assistant(&mut self, line: &Value) {
        let id = text(line, "/message/id").unwrap_or_default().to_owned();
        for (at, block) in line
            .pointer("/message/content")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            match text(block, "/type").unwrap_or_default() {
                "text" => {
                    // One line for each block, all with the message's id.
                    let key = if self.text.knows(&id) && at == 0 {
                        id.clone()
                    } else {
                        format!("{id}.{at}")
                    };
                    let whole = text(block, "/text").unwrap_or_default();
                    self.text.whole(&key, whole);
                    if line.get("error").is_some_and(|error| !error.is_null()) {
                        self.text.optional(&key);
                        self.error = text(line, "/error").map(str::to_owned);
                        self.turn.told.push(whole.chars().take(20).collect());
                    }
                }
                "tool_use" => {
                    let tool = self.turn.tool(text(block, "/id").unwrap_or_default());
                    tool.name = text(block, "/name").map(str::to_owned);
                }
                _ => {}
            }
        }
    }

    fn results(&mut self, line: &Value) {
        for block in line
            .pointer("/message/content")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if text(block, "/type") == Some("tool_result") {
                let failed = block
                    .get("is_error")
                    .and_then(Value::as_bool)
                    .unwrap_or(false);
                self.turn
                    .tool(text(block, "/tool_use_id").unwrap_or_default())
                    .failed = Some(failed);
            }
        }
    }

    fn permission(&mut self, line: &Value, recording: &Recording) {
        let Some(request) = line.get("request") else {
            return;
        };
        let strings = request
            .get("input")
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|input| input.values());
        let answer = recording.steps.iter().find_map(|step| match step {
            Step::In(answer)
                if answer.pointer("/response/request_id") == line.get("request_id") =>
            {
                Some(answer)
            }
            _ => None,
        });
        self.turn.permissions.push(Permission {
            tool: text(request, "/tool_name").map(str::to_owned),
            tool_call_id: text(request, "/tool_use_id").map(str::to_owned),
            about: strings
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect(),
            answer: answer.map(|answer| decision(answer, request)),
        });
    }

    fn result(&mut self, line: &Value, recording: &Recording, totals: &mut Totals, stopped: bool) {
        let reason = text(line, "/terminal_reason").unwrap_or_default();
        let subtype = text(line, "/subtype").unwrap_or_default();
        let failed = line
            .get("is_error")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        let said = text(line, "/result").unwrap_or_default();
        if self.text.is_empty() && !said.is_empty() && !failed {
            self.text.whole("result", said);
        }
        self.turn.stopped = stopped;
        if stopped {
            self.turn.status = vec!["stopped"];
        } else if reason.starts_with("aborted") {
            // The user denied and wanted the turn ended.
            self.turn.status = vec!["stopped", "completed", "refused", "failed"];
        } else if subtype == "error_max_turns" || subtype == "error_max_budget_usd" {
            self.turn.status = vec!["limit", "failed"];
        } else if failed {
            let status = number(line, "/api_error_status");
            let by_word: &[_] = match self.error.as_deref() {
                Some("authentication_failed") => &["auth"],
                Some("rate_limit") => &["rate_limit"],
                _ => category_of(status),
            };
            let errors = line
                .get("errors")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            let told: Vec<_> = errors
                .filter_map(|error| error.as_str().map(|error| error.chars().take(30).collect()))
                .collect();
            self.turn.fails(by_word, told);
        } else {
            let cut = matches!(text(line, "/stop_reason"), None | Some(""));
            self.turn.status = if cut {
                vec!["completed", "failed"]
            } else {
                vec!["completed"]
            };
        }
        self.usage(line, recording, totals);
    }

    fn usage(&mut self, line: &Value, recording: &Recording, totals: &mut Totals) {
        let of = |name: &str| number(line, &format!("/usage/{name}")).unwrap_or(0);
        let input =
            of("input_tokens") + of("cache_read_input_tokens") + of("cache_creation_input_tokens");
        let output = of("output_tokens");
        let mut by_model = |name: &'static str, keys: &[&str]| {
            let models = line
                .get("modelUsage")
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(|models| models.values());
            let total: u64 = models
                .map(|model| {
                    keys.iter()
                        .filter_map(|key| number(model, key))
                        .sum::<u64>()
                })
                .sum();
            let before = totals.models.insert(name, total).unwrap_or(0);
            total.saturating_sub(before)
        };
        let inputs = [
            "/inputTokens",
            "/cacheReadInputTokens",
            "/cacheCreationInputTokens",
        ];
        let model_input = by_model("input", &inputs);
        let model_output = by_model("output", &["/outputTokens"]);
        let certain = self.turn.status == ["completed"];
        let mut inputs = vec![input];
        let mut outputs = vec![output];
        if !certain {
            inputs.push(model_input);
            outputs.push(model_output);
        }
        self.turn.usage = Some(Usage {
            input: inputs,
            output: outputs,
            optional: !certain,
        });
        let cost = line.get("total_cost_usd").and_then(Value::as_f64);
        if let Some(total) = cost {
            // The total includes the cost before a resumed session, which is unknown here.
            if continues(recording) && totals.turns == 0 {
                self.turn.no_total = (model_input != input).then_some(total);
            } else {
                self.turn.cost = Some(total - totals.cost);
            }
            totals.cost = total;
        }
        totals.turns += 1;
    }

    fn finish(self) -> Turn {
        Turn {
            text: self.text.pieces(),
            ..self.turn
        }
    }
}

/// Returns true if the recorded run continued an earlier one.
fn continues(recording: &Recording) -> bool {
    recording.resumes().is_some() || recording.argv.iter().any(|word| word == "--continue")
}

fn decision(answer: &Value, request: &Value) -> Answer {
    let behavior = text(answer, "/response/response/behavior").unwrap_or_default();
    let approved = behavior == "allow";
    let always = answer
        .pointer("/response/response/updatedPermissions")
        .and_then(Value::as_array);
    let updated = answer.pointer("/response/response/updatedInput");
    let told = if approved { "allow" } else { "deny" };
    Answer {
        approved,
        option: always
            .filter(|list| !list.is_empty())
            .map(|_| "allow_always".to_owned()),
        end_turn: answer
            .pointer("/response/response/interrupt")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        updated_input: updated
            .filter(|input| Some(*input) != request.get("input"))
            .cloned(),
        message: text(answer, "/response/response/message").map(str::to_owned),
        to_cli: Some(("/response/response/behavior", told.into())),
    }
}

fn native_id(recording: &Recording) -> Option<String> {
    let known = |line: &super::super::recording::Line| {
        line.str("/session_id")
            .filter(|id| !id.is_empty())
            .map(str::to_owned)
    };
    recording.outputs().find_map(known)
}
