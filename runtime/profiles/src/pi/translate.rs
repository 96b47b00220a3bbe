//! Translates pi's lines. Pure.

use std::collections::HashMap;

use serde_json::Value;
use trunkline_sdk::protocol::{
    AdapterBody, Compaction, CompactionTrigger, Output, Progress, ToolUpdate, Usage,
};
use trunkline_sdk::{Category, Error, ToolCallId, TurnComplete};

use crate::agent::end::{EndSigns, PendingWork};
use crate::agent::failure;
use crate::agent::tokens::Tokens;
use crate::oneshot::json::{count, text, thinking, tool_end, tool_start};

/// Meaning of a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PiEvent {
    /// An event of the turn.
    Event(AdapterBody),
    /// The answer to a command, by the command's id.
    Answer {
        id: String,
        /// The data, or the reason of the refusal.
        result: Result<Value, String>,
    },
    /// The agent rests; unless other work follows, the turn has ended.
    Rests,
    /// A compaction has ended.
    Compacted,
    /// An extension asks the user.
    Question(ExtensionQuestion),
}

/// A question of an extension.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ExtensionQuestion {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) title: String,
    pub(super) options: Vec<String>,
}

/// Reads the lines of one turn.
#[derive(Debug, Default)]
pub(super) struct PiReader {
    /// True if pieces of the running message were reported.
    streamed: bool,
    /// Output of each running tool so far, which pi repeats whole.
    printed: HashMap<String, String>,
    usage: Option<Usage>,
    pub(super) signs: EndSigns,
    /// The agent has ended its run, and has not begun another one.
    is_at_rest: bool,
    /// True if the model's tokens are counted, as an earlier message has shown.
    pub(super) counts: bool,
    model: Option<String>,
    provider: Option<String>,
    steps: u64,
}

/// Failure of an answer without tokens.
const CUT: &str =
    "the model's answer broke off: the agent counts no tokens for it; send the input again";

/// Limit for the remembered output of a tool, in bytes. Only what is new in it is reported.
const MAX_PRINTED: usize = 1024 * 1024;

/// The most tools whose output is remembered at once.
const MAX_PRINTING: usize = 64;

impl PiReader {
    /// `counts`: whether the model's tokens are counted, as an earlier turn has shown.
    pub(super) fn new(counts: bool) -> Self {
        Self {
            counts,
            ..Self::default()
        }
    }

    /// The prompt is sent: what ended before is no end of its turn.
    pub(super) fn begin(&mut self) {
        (self.signs, self.is_at_rest) = (EndSigns::default(), false);
    }

    /// Takes one line.
    pub(super) fn line(&mut self, line: &Value, out: &mut Vec<PiEvent>) {
        match text(line, "/type") {
            "response" => {
                let id = text(line, "/id").to_owned();
                let refused = line["success"].as_bool() == Some(false);
                let result = if refused {
                    Err(text(line, "/error").to_owned())
                } else {
                    Ok(line.get("data").cloned().unwrap_or_default())
                };
                out.push(PiEvent::Answer { id, result });
            }
            "agent_start" => {
                self.is_at_rest = false;
                self.signs.set_pending(PendingWork::Retry, false);
                self.signs.set_pending(PendingWork::Continuation, false);
            }
            "message_start" => self.streamed = false,
            "message_update" => self.delta(line, out),
            "message_end" if text(line, "/message/role") == "assistant" => {
                self.message(&line["message"], out);
            }
            "tool_execution_start" => {
                let start = tool_start(
                    text(line, "/toolCallId"),
                    text(line, "/toolName"),
                    line.get("args"),
                );
                self.tell(start, out);
            }
            "tool_execution_update" => {
                let printed = joined(line.pointer("/partialResult/content"));
                let update = self.update(text(line, "/toolCallId"), printed);
                self.tell(update, out);
            }
            "tool_execution_end" => {
                let id = text(line, "/toolCallId");
                self.printed.remove(id);
                let failed = line["isError"].as_bool().unwrap_or(false);
                let end = tool_end(id, &joined(line.pointer("/result/content")), failed);
                self.tell(end, out);
                // Such a tool ends the run: the model is not asked again.
                if line.pointer("/result/terminate") == Some(&Value::Bool(true)) {
                    self.signs.end_step("stop");
                }
            }
            "compaction_start" => self.signs.set_pending(PendingWork::Compaction, true),
            "compaction_end" => {
                let continues = line["willRetry"].as_bool() == Some(true);
                self.signs.set_pending(PendingWork::Compaction, false);
                self.signs
                    .set_pending(PendingWork::Continuation, continues && self.is_at_rest);
                let manual = text(line, "/reason") == "manual";
                let trigger = if manual {
                    CompactionTrigger::Manual
                } else {
                    CompactionTrigger::Auto
                };
                let pre_tokens = count(line, "/result/tokensBefore");
                out.push(event(Compaction {
                    trigger: Some(trigger),
                    pre_tokens,
                    ..Compaction::default()
                }));
                if self.is_over() {
                    out.push(PiEvent::Rests);
                }
                out.push(PiEvent::Compacted);
            }
            "auto_retry_start" => {
                self.signs.set_pending(PendingWork::Retry, true);
                let attempt = count(line, "/attempt");
                let most = count(line, "/maxAttempts");
                let message = format!(
                    "attempt {} of {} failed: {}",
                    attempt.unwrap_or(0),
                    most.unwrap_or(0),
                    text(line, "/errorMessage")
                );
                out.push(event(Progress {
                    message,
                    ..Progress::default()
                }));
            }
            "auto_retry_end" => {
                self.signs.set_pending(PendingWork::Retry, false);
                if line["success"].as_bool() == Some(false) {
                    self.signs.note_error(failed(text(line, "/finalError")));
                } else {
                    self.signs.note_success();
                }
            }
            "agent_end" => {
                self.is_at_rest = true;
                out.push(PiEvent::Rests);
            }
            "extension_error" => {
                let message = format!("an extension failed: {}", text(line, "/error"));
                let error = trunkline_sdk::protocol::ErrorEvent {
                    message,
                    fatal: Some(false),
                    ..Default::default()
                };
                out.push(event(error));
            }
            "extension_ui_request" => out.extend(asked(line)),
            _ => {}
        }
    }

    /// Returns true if the agent rests, and nothing that it does yet belongs to the turn.
    pub(super) fn is_over(&self) -> bool {
        self.is_at_rest && !self.signs.is_pending()
    }

    /// The message of the end of a turn that is over.
    pub(super) fn end(mut self) -> TurnComplete {
        self.signs.report(Ok(()));
        self.signs.judge().complete(TurnComplete {
            num_turns: Some(self.steps),
            model: self.model,
            provider: self.provider,
            usage: self.usage,
            ..TurnComplete::default()
        })
    }

    /// Pushes an event, and notes it as a sign of the turn's end.
    fn tell(&mut self, told: Option<impl Into<AdapterBody>>, out: &mut Vec<PiEvent>) {
        if let Some(told) = told.map(Into::into) {
            self.signs.note_event(&told);
            out.push(PiEvent::Event(told));
        }
    }

    fn delta(&mut self, line: &Value, out: &mut Vec<PiEvent>) {
        let piece = text(line, "/assistantMessageEvent/delta");
        if piece.is_empty() {
            return;
        }
        match text(line, "/assistantMessageEvent/type") {
            "text_delta" => {
                self.streamed = true;
                self.tell(Some(Output::text(piece)), out);
            }
            "thinking_delta" => {
                self.streamed = true;
                self.tell(Some(thinking(piece)), out);
            }
            _ => {}
        }
    }

    /// A whole message of the assistant: its tokens, and its text where no piece of it came.
    fn message(&mut self, message: &Value, out: &mut Vec<PiEvent>) {
        self.steps += 1;
        let mut spoke = std::mem::take(&mut self.streamed);
        if !spoke {
            let whole = joined(message.get("content"));
            if !whole.is_empty() {
                spoke = true;
                self.tell(Some(Output::text(whole)), out);
            }
        }
        let reason = text(message, "/stopReason");
        self.signs.end_step(reason);
        if reason == "error" {
            self.signs.note_error(match text(message, "/errorMessage") {
                "" => failed("the model failed"),
                error => failed(error),
            });
        }
        let tokens = &message["usage"];
        let counted = ["/totalTokens", "/input", "/output"]
            .iter()
            .any(|path| count(tokens, path) > Some(0));
        self.counts |= counted;
        // pi reports such an answer as a whole one.
        if reason == "stop" && spoke && self.counts && !counted {
            self.signs.note_error(Error::new(Category::Overloaded, CUT));
        }
        let named = |path| Some(text(message, path).to_owned()).filter(|name| !name.is_empty());
        self.model = named("/model").or(self.model.take());
        self.provider = named("/provider").or(self.provider.take());
        self.add(tokens);
    }

    fn add(&mut self, tokens: &Value) {
        let read = |path: &str| count(tokens, path).unwrap_or(0);
        if ["/totalTokens", "/input", "/output"]
            .iter()
            .all(|path| read(path) == 0)
        {
            return;
        }
        let counts = Tokens {
            input: Some(read("/input")),
            output: Some(read("/output")),
            cache_read: Some(read("/cacheRead")),
            cache_write: Some(read("/cacheWrite")),
            ..Tokens::default()
        };
        counts.add_to(&mut self.usage, tokens["cost"]["total"].as_f64());
    }

    /// Output of a tool since its last update.
    fn update(&mut self, id: &str, printed: String) -> Option<ToolUpdate> {
        let is_known = self.printed.contains_key(id);
        if printed.len() > MAX_PRINTED || (!is_known && self.printed.len() >= MAX_PRINTING) {
            // The end of the call has it whole.
            return None;
        }
        let before = self.printed.get(id).map_or("", String::as_str);
        // A window that has moved does not show what is new.
        let new = printed.strip_prefix(before)?.to_owned();
        if new.is_empty() {
            return None;
        }
        self.printed.insert(id.to_owned(), printed);
        Some(ToolUpdate {
            content: Some(new),
            ..ToolUpdate::new(ToolCallId::new(id).ok()?)
        })
    }
}

/// The failure that an error's text means.
fn failed(message: &str) -> Error {
    failure::failed(message, http_in(message))
}

fn event(event: impl Into<AdapterBody>) -> PiEvent {
    PiEvent::Event(event.into())
}

/// The texts of a list of blocks.
fn joined(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks
            .iter()
            .filter(|block| text(block, "/type") == "text")
            .map(|block| text(block, "/text"))
            .collect(),
        _ => String::new(),
    }
}

/// A question that waits for an answer; what is merely shown is none.
fn asked(line: &Value) -> Option<PiEvent> {
    let method = text(line, "/method");
    let waits = ["select", "confirm", "input", "editor"].contains(&method);
    let title = match text(line, "/message") {
        "" => text(line, "/title").to_owned(),
        message => format!("{}: {message}", text(line, "/title")),
    };
    if !waits {
        let shown = (method == "notify").then(|| text(line, "/message").to_owned())?;
        return Some(event(Progress {
            message: shown,
            ..Progress::default()
        }));
    }
    let options = line["options"].as_array().into_iter().flatten();
    let options = options
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let id = text(line, "/id").to_owned();
    Some(PiEvent::Question(ExtensionQuestion {
        id,
        method: method.to_owned(),
        title,
        options,
    }))
}

/// The HTTP status that an error's text begins with: `429 …`.
fn http_in(message: &str) -> Option<u16> {
    let first = message.split(|c: char| !c.is_ascii_digit()).next()?;
    first.parse().ok().filter(|code| (400..600).contains(code))
}
