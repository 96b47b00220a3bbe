//! Meaning of a thread's notifications for its turn. Pure: no time, no bytes.

mod told;

use std::collections::HashMap;

use hmac_sha256::Hash as Sha256;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use trunkline_sdk::protocol::{AdapterBody, Compaction, CompactionTrigger, ContextUsage, Custom};
use trunkline_sdk::{Category, Error, Json, ToolCallId};

pub(super) use self::told::timestamp;
use self::told::{
    mcp_status, output, plan, printed, progress, rate_limit, rerouted, tell, thinking,
};
use super::fault::CodexError;
use super::item::{ItemType, LONGEST_RESULT, ThreadItem, diffs};
use super::usage::{Meter, read_tokens};
use crate::agent::end::EndSigns;
use crate::agent::report::meta_log;

/// The longest diff of a turn that is reported as it grows, in bytes.
const LONGEST_DIFF: usize = 256 * 1024;

/// The longest status that is passed on, in characters.
const MAX_STATUS_CHARS: usize = 100;

/// The most items of a turn that are remembered.
const MOST_ITEMS: usize = 10_000;

/// Meaning of a notification.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CodexEvent {
    /// An event to report.
    Tell(AdapterBody),
    /// The model could not be reached; Codex tries again.
    Retries(CodexError),
    /// An error that Codex does not try to recover from.
    Error(CodexError),
    /// The turn has ended.
    Ended(ReportedEnd),
}

/// Codex's report of the end of a turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ReportedEnd {
    Completed,
    Interrupted,
    /// Without a fault the last error is the reason.
    Failed(Option<CodexError>),
    /// A status that this version does not know.
    Unknown(String),
}

impl ReportedEnd {
    /// Adds the report to the signs of the turn's end.
    pub(super) fn sign(self, signs: &mut EndSigns) {
        signs.report(match self {
            Self::Completed => Ok(()),
            // The error that came before is the reason.
            Self::Failed(None) if signs.last_error().is_some() => Ok(()),
            Self::Failed(fault) => Err(fault.unwrap_or_default().error()),
            Self::Interrupted => Err(Error::new(
                Category::Cancelled,
                "codex interrupted the turn by itself",
            )),
            Self::Unknown(status) => {
                let text = format!("codex ended the turn with status {status:?}");
                Err(Error::other(text).code(status))
            }
        });
    }
}

/// State of an item that has begun.
#[derive(Default)]
struct ItemProgress {
    /// Number of reported bytes of its text.
    told: usize,
    /// Digest of those bytes.
    digest: Sha256,
    /// The last reported part of a reasoning summary.
    part: Option<u64>,
    ended: bool,
}

/// Translates one thread's notifications. Lives as long as its thread.
#[derive(Default)]
pub(super) struct Translator {
    turn: Option<String>,
    items: HashMap<String, ItemProgress>,
    /// Changes of files, by item: a permission request shows them.
    changes: HashMap<String, Vec<trunkline_sdk::protocol::Diff>>,
    pub(super) meter: Meter,
    limits: Option<Value>,
    diff: Option<String>,
    /// The last message of the turn, if it is a JSON object.
    pub(super) answer: Option<Json>,
    /// The last word that this translator forgets at a turn's beginning.
    warned: Option<String>,
}

impl Translator {
    /// A thread without a turn.
    pub(super) fn fresh() -> Self {
        Self {
            meter: Meter::fresh(),
            ..Self::default()
        }
    }

    /// Begins a turn; until its id is known nothing of it is translated.
    pub(super) fn begin(&mut self) {
        self.turn = None;
        self.items.clear();
        self.changes.clear();
        self.diff = None;
        self.answer = None;
    }

    /// The turn's id is known.
    pub(super) fn is_turn(&mut self, id: &str) {
        self.turn = Some(id.to_owned());
    }

    /// Returns the turn's id, once known.
    pub(super) fn turn(&self) -> Option<&str> {
        self.turn.as_deref()
    }

    /// Returns the changes of a file change that waits for permission.
    pub(super) fn changes(&self, item: &str) -> Vec<trunkline_sdk::protocol::Diff> {
        self.changes.get(item).cloned().unwrap_or_default()
    }

    /// Handles a notification of the thread. Unknown ones and ones of other turns are ignored.
    pub(super) fn take(&mut self, method: &str, params: &Value) -> Vec<CodexEvent> {
        let of_turn = |key: &str| params[key].as_str();
        let named = of_turn("turnId").or_else(|| params.get("turn")?.get("id")?.as_str());
        if method == "thread/tokenUsage/updated" {
            return self.tokens(params, named);
        }
        if let Some(named) = named
            && self.turn.as_deref() != Some(named)
        {
            return Vec::new();
        }
        let delta = || params["delta"].as_str().unwrap_or_default();
        let item = || params["itemId"].as_str().unwrap_or_default();
        match method {
            "item/agentMessage/delta" | "item/plan/delta" => self.text(item(), delta()),
            "item/reasoning/summaryTextDelta" => {
                self.thought(item(), delta(), params.get("summaryIndex"))
            }
            "item/reasoning/textDelta" => self.thought(item(), delta(), params.get("contentIndex")),
            "item/commandExecution/outputDelta" | "item/fileChange/outputDelta" => {
                printed(item(), delta())
            }
            "item/fileChange/patchUpdated" => {
                self.remember(item(), diffs(params));
                Vec::new()
            }
            "item/mcpToolCall/progress" => progress(params.get("message")),
            "item/started" => self.started(params.get("item")),
            "item/updated" => self.updated(params.get("item")),
            "item/completed" => self.completed(params.get("item")),
            "turn/plan/updated" => tell(plan(params.get("plan"), "step")),
            "turn/diff/updated" => self.turn_diff(params),
            "error" => Self::error(params),
            "turn/completed" => vec![CodexEvent::Ended(ended(&params["turn"]))],
            "account/rateLimits/updated" => self.rate_limits(params),
            "model/rerouted" => rerouted(params),
            "warning" | "guardianWarning" | "configWarning" => self.warning(params),
            "mcpServer/startupStatus/updated" => mcp_status(params),
            _ => Vec::new(),
        }
    }

    fn item(&mut self, id: &str) -> &mut ItemProgress {
        if self.items.len() >= MOST_ITEMS && !self.items.contains_key(id) {
            self.items.clear();
        }
        self.items.entry(id.to_owned()).or_default()
    }

    fn remember(&mut self, item: &str, diffs: Vec<trunkline_sdk::protocol::Diff>) {
        if self.changes.len() < MOST_ITEMS && !diffs.is_empty() {
            self.changes.insert(item.to_owned(), diffs);
        }
    }

    fn text(&mut self, id: &str, delta: &str) -> Vec<CodexEvent> {
        let open = self.item(id);
        open.told += delta.len();
        open.digest.update(delta);
        output(id, delta)
    }

    /// Returns the part of a whole text that its deltas have not reported; empty if they reported
    /// another one.
    fn rest<'t>(&mut self, id: &str, text: &'t str) -> &'t str {
        let open = self.item(id);
        match text.split_at_checked(open.told) {
            Some((told, rest)) if Sha256::hash(told.as_bytes()) == open.digest.finalize() => rest,
            _ => "",
        }
    }

    /// A piece of a reasoning's text; a blank line between its parts.
    fn thought(&mut self, id: &str, delta: &str, part: Option<&Value>) -> Vec<CodexEvent> {
        let part = part.and_then(Value::as_u64).unwrap_or(0);
        let open = self.item(id);
        let new_part = open.part.is_some_and(|last| last != part) && open.told > 0;
        open.part = Some(part);
        open.told += delta.len();
        let lead = if new_part { "\n\n" } else { "" };
        thinking(id, &format!("{lead}{delta}"))
    }

    fn started(&mut self, item: Option<&Value>) -> Vec<CodexEvent> {
        let Some(item) = item.and_then(ThreadItem::from_value) else {
            return Vec::new();
        };
        if item.kind == ItemType::FileChange {
            self.remember(item.id, item.diffs());
        }
        if item.is_tool() && !self.items.contains_key(item.id) {
            self.item(item.id);
            return call(item.id)
                .map(|call| CodexEvent::Tell(item.start(call).into()))
                .into_iter()
                .collect();
        }
        Vec::new()
    }

    /// `exec` repeats an item as it grows.
    fn updated(&mut self, item: Option<&Value>) -> Vec<CodexEvent> {
        let Some(item) = item.and_then(ThreadItem::from_value) else {
            return Vec::new();
        };
        match item.kind {
            ItemType::AgentMessage => {
                let rest = self.rest(item.id, item.text("text"));
                self.text(item.id, rest)
            }
            ItemType::TodoList => tell(plan(item.get(["items", "items"]), "text")),
            _ => Vec::new(),
        }
    }

    fn completed(&mut self, item: Option<&Value>) -> Vec<CodexEvent> {
        let Some(item) = item.and_then(ThreadItem::from_value) else {
            return Vec::new();
        };
        let known = self.items.contains_key(item.id);
        let open = self.item(item.id);
        if std::mem::replace(&mut open.ended, true) {
            return Vec::new();
        }
        let told = open.told;
        match item.kind {
            ItemType::AgentMessage | ItemType::Plan => {
                let text = item.text("text");
                let is_object = text.starts_with('{') && text.len() <= LONGEST_RESULT;
                self.answer = is_object
                    .then(|| serde_json::from_str::<&RawValue>(text).ok())
                    .flatten()
                    .and_then(|answer| Json::from_serialize(answer).ok());
                output(item.id, self.rest(item.id, text))
            }
            ItemType::Reasoning if told == 0 => thinking(item.id, &reasoning(&item)),
            ItemType::TodoList => tell(plan(item.get(["items", "items"]), "text")),
            ItemType::Compaction => {
                let trigger = Some(CompactionTrigger::Auto);
                tell(Compaction {
                    trigger,
                    ..Compaction::default()
                })
            }
            ItemType::Error => self.warning(&json!({ "message": item.text("message") })),
            _ if item.is_tool() => {
                let Some(call) = call(item.id) else {
                    return Vec::new();
                };
                let start = (!known).then(|| CodexEvent::Tell(item.start(call.clone()).into()));
                start
                    .into_iter()
                    .chain([CodexEvent::Tell(item.end(call).into())])
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn tokens(&mut self, params: &Value, turn: Option<&str>) -> Vec<CodexEvent> {
        let usage = &params["tokenUsage"];
        let Some(total) = usage.get("total") else {
            return Vec::new();
        };
        let total = read_tokens(total);
        let last = usage.get("last").map(read_tokens);
        if self.turn.is_none() || turn.is_some_and(|turn| self.turn.as_deref() != Some(turn)) {
            self.meter.settle(total);
            return Vec::new();
        }
        self.meter.read(total, last);
        let window = usage["modelContextWindow"].as_u64();
        let used_tokens = last.and_then(|tokens| tokens.total);
        tell(ContextUsage {
            used_tokens,
            total_tokens: window,
        })
    }

    /// Reports the changes of the whole turn so far if they differ, unless they are large.
    fn turn_diff(&mut self, params: &Value) -> Vec<CodexEvent> {
        let diff = params["diff"].as_str().unwrap_or_default();
        if diff.len() > LONGEST_DIFF || self.diff.as_deref() == Some(diff) {
            return Vec::new();
        }
        self.diff = Some(diff.to_owned());
        let data = Json::from_serialize(&json!({ "diff": diff })).ok();
        tell(Custom {
            name: "codex.turn_diff".to_owned(),
            data,
            ..Custom::default()
        })
    }

    fn error(params: &Value) -> Vec<CodexEvent> {
        let fault = CodexError::from_error(params.get("error").unwrap_or(params));
        vec![if params.get("willRetry") == Some(&Value::Bool(true)) {
            CodexEvent::Retries(fault)
        } else {
            CodexEvent::Error(fault)
        }]
    }

    fn rate_limits(&mut self, params: &Value) -> Vec<CodexEvent> {
        let Some(limits) = params.get("rateLimits") else {
            return Vec::new();
        };
        if self.limits.as_ref() == Some(limits) {
            return Vec::new();
        }
        self.limits = Some(limits.clone());
        let status = limits["rateLimitReachedType"].as_str().map(str::to_owned);
        ["primary", "secondary"]
            .iter()
            .filter_map(|name| limits.get(*name).filter(|window| window.is_object()))
            .map(|window| CodexEvent::Tell(rate_limit(window, status.clone()).into()))
            .collect()
    }

    fn warning(&mut self, params: &Value) -> Vec<CodexEvent> {
        let text = ["message", "summary"]
            .iter()
            .find_map(|key| params.get(*key)?.as_str());
        let Some(text) = text.filter(|text| self.warned.as_deref() != Some(*text)) else {
            return Vec::new();
        };
        self.warned = Some(text.to_owned());
        let content = crate::agent::failure::message(text);
        tell(meta_log(content))
    }
}

/// The report of a turn's end. Older versions give no status to a turn that completed.
fn ended(turn: &Value) -> ReportedEnd {
    match turn["status"].as_str().unwrap_or("completed") {
        "completed" => ReportedEnd::Completed,
        "interrupted" => ReportedEnd::Interrupted,
        "failed" => ReportedEnd::Failed(
            turn.get("error")
                .filter(|error| !error.is_null())
                .map(CodexError::from_error),
        ),
        status => ReportedEnd::Unknown(status.chars().take(MAX_STATUS_CHARS).collect()),
    }
}

/// The id of a tool call; nothing where Codex gives none that is usable.
pub(super) fn call(id: &str) -> Option<ToolCallId> {
    ToolCallId::new(id).ok()
}

/// The text of a reasoning that came without deltas: its summary, else its content.
pub(super) fn reasoning(item: &ThreadItem<'_>) -> String {
    let parts = |name| {
        item.get([name, name])
            .and_then(Value::as_array)
            .filter(|parts| !parts.is_empty())
    };
    let texts = |parts: &Vec<Value>| {
        parts
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join("\n\n")
    };
    match parts("summary").or_else(|| parts("content")) {
        Some(parts) => texts(parts),
        None => item.text("text").to_owned(),
    }
}

#[cfg(test)]
mod tests;
