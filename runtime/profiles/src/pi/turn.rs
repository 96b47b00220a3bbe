//! A prompt, until pi rests. Pure.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::time::Instant;
use trunkline_sdk::protocol::{Choice, ContextUsage, QuestionField};
use trunkline_sdk::{Answer, Error, FieldKind, Question, Status};

use super::translate::{ExtensionQuestion, PiEvent, PiReader};
use crate::agent::failure;
use crate::agent::lines::AgentLine;
use crate::agent::turn::{Dialect, EffectList, Grace, LineOut, UserReply};
use crate::oneshot::json::count;

/// The most questions that are open at once.
const MOST_QUESTIONS: usize = 16;

/// The ids of our commands.
const PROMPT: &str = "prompt";
/// Asks for the state of the conversation.
pub(super) const STATE: &str = "state";
const STATS: &str = "stats";
const ABORT: &str = "abort";
/// A number follows.
const STEER: &str = "steer-";

/// The engine's view of one prompt.
#[derive(Default)]
pub(super) struct PiTurn {
    pub(super) reader: PiReader,
    events: Vec<PiEvent>,
    /// Questions that are open, by their id.
    questions: HashMap<String, ExtensionQuestion>,
    /// True while the statistics are requested, whose answer ends the turn.
    asked_stats: bool,
    /// The prompt, until it is sent. During a compaction pi would drop it.
    pub(super) unsent: Option<Value>,
    /// True while a compaction runs that pi began before the prompt.
    is_compacting: bool,
    /// Reason why pi refused the prompt.
    pub(super) refused: Option<Error>,
}

impl PiTurn {
    /// A turn that sends this message once pi can take it.
    pub(super) fn new(reader: PiReader, message: Value) -> Self {
        Self {
            reader,
            unsent: Some(message),
            ..Self::default()
        }
    }

    /// Asks for the state: what pi has begun by itself since its last turn is read before the answer.
    pub(super) fn begin(&mut self, out: &mut EffectList<LineOut>) {
        out.send((&json!({ "id": STATE, "type": "get_state" })).into());
    }

    /// Sends the prompt, if it is not sent yet.
    fn send_prompt(&mut self, out: &mut EffectList<LineOut>) {
        if let Some(mut prompt) = self.unsent.take() {
            (prompt["id"], prompt["type"]) = (PROMPT.into(), PROMPT.into());
            self.reader.begin();
            out.send((&prompt).into());
        }
    }
}

impl Dialect for PiTurn {
    type Message = AgentLine;
    type Command = LineOut;

    fn message(&mut self, line: AgentLine, _: Instant, out: &mut EffectList<LineOut>) {
        out.alive();
        if let AgentLine::TooLong(bytes) = line {
            return out.left_out(bytes);
        }
        let value = parsed(&line);
        if let (AgentLine::Whole(line), false) = (line, value.is_object()) {
            self.reader.signs.note_noise(&line);
            return out.log_line(line);
        }
        self.reader.line(&value, &mut self.events);
        for event in std::mem::take(&mut self.events) {
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
                PiEvent::Compacted => {
                    if std::mem::take(&mut self.is_compacting) {
                        self.send_prompt(out);
                    }
                }
                // Whether other work follows is known once a command after it is answered.
                PiEvent::Rests if self.unsent.is_some() => {}
                PiEvent::Rests => {
                    if !std::mem::replace(&mut self.asked_stats, true) {
                        out.send((&json!({ "id": STATS, "type": "get_session_stats" })).into());
                    }
                }
                PiEvent::Answer { id, result } => match (id.as_str(), result) {
                    (STATE, state) => {
                        let is_compacting = |state: Value| state["isCompacting"].as_bool();
                        self.is_compacting = state.ok().and_then(is_compacting) == Some(true)
                            || self.reader.signs.is_pending();
                        if !self.is_compacting {
                            self.send_prompt(out);
                        }
                    }
                    (STATS, stats) => {
                        self.asked_stats = false;
                        if self.reader.is_over() {
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

    fn last_error(&self) -> Option<&Error> {
        self.reader.signs.last_error()
    }

    fn interrupt(&mut self, why: &Error, out: &mut EffectList<LineOut>) -> Grace {
        if why.status() != Status::Stopped || self.unsent.is_some() {
            return Grace::None;
        }
        out.send((&json!({ "id": ABORT, "type": "abort" })).into());
        Grace::AgentEnds
    }

    fn steer(&mut self, number: u64, text: &str, out: &mut EffectList<LineOut>) {
        out.send(
            (&json!({ "id": format!("{STEER}{number}"), "type": "steer", "message": text })).into(),
        );
    }

    fn replied(&mut self, id: &str, reply: UserReply, out: &mut EffectList<LineOut>) {
        if let (Some(asked), UserReply::Answer(answer)) = (self.questions.remove(id), reply) {
            out.send((&answered(id, &asked.method, &answer)).into());
        }
    }
}

/// The event of a line; null if it is none.
pub(super) fn parsed(line: &AgentLine) -> Value {
    match line {
        AgentLine::Whole(line) => serde_json::from_slice(line)
            .ok()
            .filter(Value::is_object)
            .unwrap_or_default(),
        AgentLine::TooLong(_) => Value::Null,
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
