//! One prompt, until pi rests: pure.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::time::Instant;
use trunkline_sdk::protocol::{Choice, ContextUsage, QuestionField};
use trunkline_sdk::{Answer, Error, FieldKind, Question, Status};

use super::translate::{ExtensionQuestion, PiEvent, Reader};
use crate::agent::failure;
use crate::agent::lines::Line;
use crate::agent::turn::{Dialect, Grace, LineOut, Out, Reply};
use crate::oneshot::json::count;

/// The most questions that are open at once.
const MOST_QUESTIONS: usize = 16;

/// The ids of our commands.
pub(super) const PROMPT: &str = "prompt";
const STATS: &str = "stats";
const ABORT: &str = "abort";
/// A number follows.
const STEER: &str = "steer-";

/// The engine's view of one prompt.
#[derive(Default)]
pub(super) struct Running {
    pub(super) reader: Reader,
    events: Vec<PiEvent>,
    /// Questions that are open, by their id.
    questions: HashMap<String, ExtensionQuestion>,
    /// Whether the statistics are asked for, whose answer ends the turn.
    asked_stats: bool,
    /// Why pi did not take the prompt.
    pub(super) refused: Option<Error>,
}

impl Running {
    pub(super) fn new(reader: Reader) -> Self {
        Self {
            reader,
            ..Self::default()
        }
    }
}

impl Dialect for Running {
    type Message = Line;
    type Command = LineOut;

    fn message(&mut self, line: Line, _: Instant, out: &mut Out<LineOut>) {
        out.alive();
        if let Line::TooLong(bytes) = line {
            return out.left_out(bytes);
        }
        self.reader.line(&parsed(&line), &mut self.events);
        for event in self.events.drain(..) {
            match event {
                PiEvent::Event(event) => out.emit(event),
                PiEvent::Question(asked) if self.questions.len() >= MOST_QUESTIONS => {
                    let cancelled = answered(&asked.id, &asked.method, &Answer::default());
                    out.send(LineOut::IfRoom(cancelled.to_string()));
                }
                PiEvent::Question(asked) => {
                    out.ask(asked.id.as_str(), question(&asked));
                    self.questions.insert(asked.id.clone(), asked);
                }
                // Whether a retry follows is known once a command after it is answered.
                PiEvent::Rests => {
                    if !std::mem::replace(&mut self.asked_stats, true) {
                        out.send((&json!({ "id": STATS, "type": "get_session_stats" })).into());
                    }
                }
                PiEvent::Answer { id, result } => match (id.as_str(), result) {
                    (STATS, stats) => {
                        self.asked_stats = false;
                        if !self.reader.retries {
                            if let Some(usage) = stats.ok().as_ref().and_then(context) {
                                out.emit(usage);
                            }
                            out.end();
                        }
                    }
                    (PROMPT, Err(why)) => {
                        self.refused = Some(failure::failed(why, None));
                        out.end();
                    }
                    (id, result) => {
                        if let Some(number) = id
                            .strip_prefix(STEER)
                            .and_then(|number| number.parse().ok())
                        {
                            out.steered(number, result.map(drop));
                        }
                    }
                },
            }
        }
    }

    fn interrupt(&mut self, why: &Error, out: &mut Out<LineOut>) -> Grace {
        if why.status() != Status::Stopped {
            return Grace::None;
        }
        out.send((&json!({ "id": ABORT, "type": "abort" })).into());
        Grace::AgentEnds
    }

    fn steer(&mut self, number: u64, text: &str, out: &mut Out<LineOut>) {
        out.send(
            (&json!({ "id": format!("{STEER}{number}"), "type": "steer", "message": text })).into(),
        );
    }

    fn replied(&mut self, id: &str, reply: Reply, out: &mut Out<LineOut>) {
        if let (Some(asked), Reply::Answer(answer)) = (self.questions.remove(id), reply) {
            out.send((&answered(id, &asked.method, &answer)).into());
        }
    }
}

pub(super) fn parsed(line: &Line) -> Value {
    match line {
        Line::Whole(line) => serde_json::from_slice(line).unwrap_or_default(),
        Line::TooLong(_) => Value::Null,
    }
}

fn context(stats: &Value) -> Option<ContextUsage> {
    let used_tokens = Some(count(stats, "/contextUsage/tokens")?);
    Some(ContextUsage {
        used_tokens,
        total_tokens: count(stats, "/contextUsage/contextWindow"),
    })
}

/// The only field of a question.
const FIELD: &str = "answer";

fn question(asked: &ExtensionQuestion) -> Question {
    let kind = match asked.method.as_str() {
        "confirm" => FieldKind::Boolean,
        "select" => FieldKind::Choice,
        _ => FieldKind::Text,
    };
    let choice = |option: &String| Choice {
        id: option.clone(),
        ..Choice::default()
    };
    let choices: Vec<Choice> = asked.options.iter().map(choice).collect();
    Question::new(&asked.title).field(QuestionField {
        id: FIELD.to_owned(),
        kind: Some(kind),
        choices: (!choices.is_empty()).then_some(choices),
        ..QuestionField::default()
    })
}

fn answered(id: &str, method: &str, answer: &Answer) -> Value {
    let value = answer
        .values
        .get(FIELD)
        .and_then(|value| value.to::<Value>().ok());
    let mut response = json!({ "type": "extension_ui_response", "id": id });
    match (method, value) {
        ("confirm", Some(value)) => response["confirmed"] = json!(value.as_bool() == Some(true)),
        (_, Some(Value::String(value))) => response["value"] = value.into(),
        _ => response["cancelled"] = true.into(),
    }
    response
}
