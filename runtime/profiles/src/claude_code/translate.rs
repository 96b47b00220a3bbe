//! From Claude's lines to events: pure, and forgiving of any shape.

mod system;
mod tools;

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use trunkline_sdk::protocol::{ContextUsage, MessageId, Output, Thinking, Usage};
use trunkline_sdk::{SessionInfo, ToolCallId};

use self::tools::Tools;
use super::answer::{SpeakerMessage, TextRole};
use super::control::ControlRequest;
use super::event::ClaudeEvent;
use super::native::{content, count, is_true, list, text, texts};
use super::outcome::{ApiError, http};
use super::usage;
use crate::agent::native_id;

/// The most speakers of one turn that are distinguished: the model and its sub-agents.
const MOST_SPEAKERS: usize = 256;

/// The longest text of one event, in bytes: not every host reads lines over 1 MiB.
const LONGEST_PIECE: usize = 256 * 1024;

/// The longest output of a command that Claude itself carries out, in bytes.
const LONGEST_COMMAND_OUTPUT: usize = 256 * 1024;

/// Reads the lines of one process.
#[derive(Debug, Default)]
pub(super) struct Translator {
    /// By the tool call of the sub-agent; the model's own answer under nothing.
    answers: HashMap<Option<String>, SpeakerMessage>,
    tools: Tools,
    /// True if a part of the answer was reported in this turn.
    pub(super) answered: bool,
    /// Last output of a command of Claude's own in this turn.
    pub(super) printed: String,
    /// Last error of the API in this turn.
    pub(super) api_error: Option<ApiError>,
    /// Time at which the provider's limit is reset, if it is used up.
    pub(super) resets_at: Option<String>,
    /// The model in force.
    pub(super) model: Option<String>,
    /// Tokens that fit into the context.
    pub(super) window: Option<u64>,
    /// Last reported use of the context.
    used: Option<u64>,
    /// Last reported information about the session.
    pub(super) told: SessionInfo,
    /// MCP servers whose failure was reported.
    failed_servers: HashSet<String>,
    /// The last message of the model's own in the conversation, by its id in the transcript.
    pub(super) last_message: Option<String>,
    /// True during a turn.
    pub(super) is_busy: bool,
    /// True if the last line was not an event.
    pub(super) is_unread: bool,
}

impl Translator {
    /// Returns the events of a line.
    pub(super) fn line(&mut self, line: &[u8]) -> Vec<ClaudeEvent> {
        let Ok(value @ Value::Object(_)) = serde_json::from_slice(line) else {
            self.is_unread = true;
            return Vec::new();
        };
        let mut said = Vec::new();
        match text(&value, "type") {
            Some("stream_event") => self.stream(&value, &mut said),
            Some("assistant") => self.assistant(&value, &mut said),
            Some("user") => self.user(&value, &mut said),
            Some("system") => self.system(&value, &mut said),
            Some("result") => self.result(value, &mut said),
            Some("control_request") => self.asked(&value, &mut said),
            Some("control_response") => said.extend(answered(&value)),
            Some("control_cancel_request") => {
                said.extend(
                    text(&value, "request_id").map(|id| ClaudeEvent::Withdrawn(id.to_owned())),
                );
            }
            Some("rate_limit_event") => self.rate_limit(&value, &mut said),
            Some("conversation_reset") => {
                self.last_message = None;
                said.extend(
                    text(&value, "new_conversation_id")
                        .map(|id| ClaudeEvent::Native(id.to_owned())),
                );
            }
            _ => {}
        }
        said
    }

    /// A turn of the user begins.
    pub(super) fn begin(&mut self) {
        self.answered = false;
        self.printed = String::new();
        self.api_error = None;
        self.resets_at = None;
    }

    fn asked(&self, value: &Value, said: &mut Vec<ClaudeEvent>) {
        let Some(request_id) = text(value, "request_id") else {
            return;
        };
        let request = &value["request"];
        let subtype = text(request, "subtype").unwrap_or_default();
        if subtype == "hook_callback" {
            return said.push(ClaudeEvent::Hook {
                request_id: request_id.to_owned(),
                request: request.clone(),
            });
        }
        if subtype != "can_use_tool" {
            return said.push(ClaudeEvent::Unsupported {
                request_id: request_id.to_owned(),
                subtype: subtype.to_owned(),
            });
        }
        let mut ask = ControlRequest::from_request(request_id, request);
        ask.parent = ask
            .tool_use_id()
            .and_then(|call| self.tools.parent(call))
            .map(str::to_owned);
        said.push(ClaudeEvent::Request(Box::new(ask)));
    }

    fn stream(&mut self, value: &Value, said: &mut Vec<ClaudeEvent>) {
        let parent = parent(value);
        self.is_busy |= parent.is_none();
        let event = &value["event"];
        match text(event, "type") {
            Some("message_start") => {
                let message = &event["message"];
                self.answer(parent.as_deref()).begin(text(message, "id"));
                if parent.is_none() {
                    self.context(message.get("usage"), said);
                }
            }
            Some("content_block_start") => {
                let block = &event["content_block"];
                let kind = match text(block, "type") {
                    Some("text") => Some(TextRole::Text),
                    Some("thinking") => Some(TextRole::Thought),
                    _ => None,
                };
                self.answer(parent.as_deref()).block(kind);
                let begins_with = [(TextRole::Text, "text"), (TextRole::Thought, "thinking")];
                for (kind, piece) in begins_with
                    .into_iter()
                    .filter_map(|(kind, name)| Some((kind, text(block, name)?)))
                {
                    self.piece(
                        parent.as_deref(),
                        kind,
                        piece,
                        message_id(value).as_ref(),
                        said,
                    );
                }
            }
            Some("content_block_delta") => {
                let delta = &event["delta"];
                let piece = match text(delta, "type") {
                    Some("text_delta") => text(delta, "text").map(|piece| (TextRole::Text, piece)),
                    Some("thinking_delta") => {
                        text(delta, "thinking").map(|piece| (TextRole::Thought, piece))
                    }
                    _ => None,
                };
                if let Some((kind, piece)) = piece {
                    self.piece(
                        parent.as_deref(),
                        kind,
                        piece,
                        message_id(value).as_ref(),
                        said,
                    );
                }
            }
            Some("message_stop") => {
                if let Some(abandoned) = value.get("abandoned_blocks").filter(|it| it.is_object()) {
                    let from = count(abandoned, "from_block_index").unwrap_or(0);
                    self.answer(parent.as_deref())
                        .abandon(usize::try_from(from).unwrap_or(usize::MAX));
                } else {
                    self.answer(parent.as_deref()).settle();
                }
            }
            _ => {}
        }
    }

    fn piece(
        &mut self,
        parent: Option<&str>,
        kind: TextRole,
        piece: &str,
        id: Option<&MessageId>,
        said: &mut Vec<ClaudeEvent>,
    ) {
        let fresh = self.answer(parent).piece(kind, piece);
        self.tell(parent, kind, &fresh, id, said);
    }

    fn tell(
        &mut self,
        parent: Option<&str>,
        kind: TextRole,
        fresh: &str,
        id: Option<&MessageId>,
        said: &mut Vec<ClaudeEvent>,
    ) {
        if fresh.is_empty() {
            return;
        }
        let parent_tool_call_id = parent.and_then(|parent| ToolCallId::new(parent).ok());
        self.answered |= kind == TextRole::Text && parent.is_none();
        let mut rest = fresh;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(LONGEST_PIECE));
            rest = after;
            let message_id = id.cloned();
            let parent_tool_call_id = parent_tool_call_id.clone();
            said.push(ClaudeEvent::Event(match kind {
                TextRole::Text => Output {
                    message_id,
                    parent_tool_call_id,
                    ..Output::text(piece)
                }
                .into(),
                TextRole::Thought => {
                    let content = piece.to_owned();
                    Thinking {
                        content,
                        message_id,
                        parent_tool_call_id,
                        history: None,
                    }
                    .into()
                }
            }));
        }
    }

    fn assistant(&mut self, value: &Value, said: &mut Vec<ClaudeEvent>) {
        let message = &value["message"];
        let parent = parent(value);
        self.is_busy |= parent.is_none();
        if text(value, "error").is_some() || is_true(value, "is_api_error_message") {
            if parent.is_none() {
                self.api_error = Some(ApiError {
                    name: text(value, "error").unwrap_or("unknown").to_owned(),
                    text: content(message.get("content")),
                    status: http(value),
                });
            }
            return;
        }
        if parent.is_none() && text(message, "model") != Some("<synthetic>") {
            self.api_error = None;
        }
        if parent.is_none()
            && let Some(uuid) = text(value, "uuid").filter(|uuid| native_id::is_uuid(uuid))
        {
            self.last_message = Some(uuid.to_owned());
        }
        let native = text(message, "id");
        let id = native.and_then(|id| MessageId::new(id).ok());
        if parent.is_none() && text(message, "model") != Some("<synthetic>") {
            self.context(message.get("usage"), said);
        }
        if let Some(whole) = message["content"].as_str() {
            let fresh = self
                .answer(parent.as_deref())
                .whole(native, TextRole::Text, whole);
            self.tell(parent.as_deref(), TextRole::Text, &fresh, id.as_ref(), said);
            return;
        }
        for block in list(message, "content") {
            let whole = match text(block, "type") {
                Some("text") => text(block, "text").map(|whole| (TextRole::Text, whole)),
                Some("thinking") => text(block, "thinking").map(|whole| (TextRole::Thought, whole)),
                Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
                    self.answer(parent.as_deref()).settle();
                    self.tools.begin(block, parent.as_deref(), id.clone(), said);
                    None
                }
                Some(
                    "web_search_tool_result"
                    | "web_fetch_tool_result"
                    | "mcp_tool_result"
                    | "code_execution_tool_result",
                ) => {
                    self.tools.end(block, &Value::Null, parent.as_deref(), said);
                    None
                }
                _ => None,
            };
            if let Some((kind, whole)) = whole {
                let fresh = self.answer(parent.as_deref()).whole(native, kind, whole);
                self.tell(parent.as_deref(), kind, &fresh, id.as_ref(), said);
            }
        }
    }

    fn user(&mut self, value: &Value, said: &mut Vec<ClaudeEvent>) {
        let message = &value["message"];
        let parent = parent(value);
        if let Some(words) = message["content"].as_str() {
            return self.command_output(words);
        }
        let blocks = list(message, "content");
        let results = blocks
            .iter()
            .filter(|block| text(block, "type") == Some("tool_result"));
        // What is reported beside the blocks belongs to the only one.
        let only = results.clone().count() == 1;
        let beside = value
            .get("tool_use_result")
            .filter(|_| only)
            .unwrap_or(&Value::Null);
        for block in results {
            self.tools.end(block, beside, parent.as_deref(), said);
        }
    }

    /// Keeps what a command printed that Claude carries out by itself, such as `/compact`. Other
    /// news come so too, such as a model that was changed: they answer nothing.
    fn command_output(&mut self, words: &str) {
        for tag in ["local-command-stdout", "local-command-stderr"] {
            let open = format!("<{tag}>");
            let close = format!("</{tag}>");
            let inner = words
                .strip_prefix(open.as_str())
                .and_then(|rest| rest.strip_suffix(close.as_str()));
            if let Some(printed) = inner.map(str::trim).filter(|printed| !printed.is_empty()) {
                let printed = trunkline_sdk::preview::without_escapes(printed);
                self.printed =
                    printed[..printed.floor_char_boundary(LONGEST_COMMAND_OUTPUT)].to_owned();
            }
        }
    }

    fn result(&mut self, value: Value, said: &mut Vec<ClaudeEvent>) {
        self.is_busy = false;
        for answer in self.answers.values_mut() {
            answer.end();
        }
        self.answers.retain(|speaker, _| speaker.is_none());
        self.tools.turn_ended();
        self.window = usage::window(&value, self.model.as_deref()).or(self.window);
        said.push(ClaudeEvent::Ended(Box::new(value)));
    }

    /// Tells how full the context is, once for each change.
    fn context(&mut self, used: Option<&Value>, said: &mut Vec<ClaudeEvent>) {
        let Usage {
            input_tokens,
            output_tokens,
            ..
        } = used.map(usage::tokens).unwrap_or_default();
        let Some(used) = input_tokens.map(|input| input.saturating_add(output_tokens.unwrap_or(0)))
        else {
            return;
        };
        if used == 0 || self.used == Some(used) {
            return;
        }
        self.used = Some(used);
        said.push(
            ContextUsage {
                used_tokens: Some(used),
                total_tokens: self.window,
            }
            .into(),
        );
    }

    fn answer(&mut self, parent: Option<&str>) -> &mut SpeakerMessage {
        let known = self.answers.contains_key(&parent.map(str::to_owned));
        // Speakers beyond the bound share the one under the empty name.
        let speaker = if known || self.answers.len() < MOST_SPEAKERS {
            parent
        } else {
            Some("")
        };
        self.answers.entry(speaker.map(str::to_owned)).or_default()
    }
}

/// The tool call of the sub-agent whose line this is.
fn parent(value: &Value) -> Option<String> {
    text(value, "parent_tool_use_id").map(str::to_owned)
}

/// Returns the message that a stream event belongs to, if this version reports it.
fn message_id(value: &Value) -> Option<MessageId> {
    MessageId::new(text(value, "api_message_id")?).ok()
}

fn answered(value: &Value) -> Option<ClaudeEvent> {
    let response = value.get("response")?;
    let request_id = text(response, "request_id")?.to_owned();
    let answer = match text(response, "subtype") {
        Some("success") => Ok(response.get("response").cloned().unwrap_or(Value::Null)),
        _ => Err(text(response, "error")
            .unwrap_or("refused without a reason")
            .to_owned()),
    };
    Some(ClaudeEvent::Answered { request_id, answer })
}

/// Returns the names of a list that are texts, for the information about a session.
fn names(value: &Value, name: &str) -> Option<Vec<String>> {
    let names = texts(value, name);
    (!names.is_empty()).then_some(names)
}

#[cfg(test)]
mod tests;
