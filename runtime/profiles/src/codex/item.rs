//! The items of a thread that are tool calls, as they begin and end. The app server writes
//! `commandExecution` and `aggregatedOutput`, `exec` writes `command_execution` and
//! `aggregated_output`: both are read.

use serde_json::{Map, Value, json};
use trunkline_sdk::protocol::{Diff, ToolEnd, ToolStart};
use trunkline_sdk::{Json, ToolCallId};

use super::shell;
use crate::agent::read::{self, list};

/// The longest result that a tool call's end repeats, in bytes.
pub(super) const LONGEST_RESULT: usize = 256 * 1024;

/// An item, as far as its kind and id are text.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadItem<'v> {
    pub(super) kind: ItemType,
    pub(super) id: &'v str,
    value: &'v Value,
}

/// Kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemType {
    UserMessage,
    AgentMessage,
    Plan,
    Reasoning,
    Command,
    FileChange,
    McpCall,
    DynamicCall,
    Collaboration,
    WebSearch,
    ImageView,
    TodoList,
    Compaction,
    /// A warning of `exec`.
    Error,
    Unknown,
}

const KINDS: &[(&str, ItemType)] = &[
    ("usermessage", ItemType::UserMessage),
    ("agentmessage", ItemType::AgentMessage),
    ("assistantmessage", ItemType::AgentMessage),
    ("plan", ItemType::Plan),
    ("reasoning", ItemType::Reasoning),
    ("commandexecution", ItemType::Command),
    ("filechange", ItemType::FileChange),
    ("mcptoolcall", ItemType::McpCall),
    ("dynamictoolcall", ItemType::DynamicCall),
    ("collabagenttoolcall", ItemType::Collaboration),
    ("collabtoolcall", ItemType::Collaboration),
    ("websearch", ItemType::WebSearch),
    ("imageview", ItemType::ImageView),
    ("todolist", ItemType::TodoList),
    ("contextcompaction", ItemType::Compaction),
    ("error", ItemType::Error),
];

impl<'v> ThreadItem<'v> {
    /// Reads an item; nothing where it has no type.
    pub(super) fn from_value(value: &'v Value) -> Option<Self> {
        let name = value.get("type")?.as_str()?;
        let plain: String = name
            .chars()
            .filter(|char| *char != '_')
            .take(64)
            .flat_map(char::to_lowercase)
            .collect();
        let kind = KINDS
            .iter()
            .find(|(known, _)| *known == plain)
            .map_or(ItemType::Unknown, |(_, kind)| *kind);
        Some(Self {
            kind,
            id: value["id"].as_str().unwrap_or_default(),
            value,
        })
    }

    /// A member by its name in `exec` or in the app server.
    pub(super) fn get(&self, names: [&str; 2]) -> Option<&'v Value> {
        names
            .iter()
            .find_map(|name| self.value.get(*name))
            .filter(|value| !value.is_null())
    }

    /// A member's text.
    pub(super) fn text(&self, name: &str) -> &'v str {
        read::text(self.value, name).unwrap_or_default()
    }

    /// Returns the state of the call: `inProgress`, `completed`, `failed`, `declined`.
    fn status(&self) -> String {
        self.text("status").replace('_', "")
    }

    fn number(&self, names: [&str; 2]) -> Option<i64> {
        self.get(names).and_then(Value::as_i64)
    }

    /// Returns true if it is a tool call.
    pub(super) fn is_tool(&self) -> bool {
        matches!(
            self.kind,
            ItemType::Command
                | ItemType::FileChange
                | ItemType::McpCall
                | ItemType::DynamicCall
                | ItemType::Collaboration
                | ItemType::WebSearch
                | ItemType::ImageView
        )
    }

    /// The tool's name: census row of section 3.2.
    pub(super) fn tool(&self) -> String {
        match self.kind {
            ItemType::Command => "bash".to_owned(),
            ItemType::FileChange => changing(self.value).to_owned(),
            ItemType::McpCall => format!("mcp__{}__{}", self.text("server"), self.text("tool")),
            ItemType::DynamicCall | ItemType::Collaboration => self.text("tool").to_owned(),
            ItemType::WebSearch => "WebSearch".to_owned(),
            ItemType::ImageView => "view_image".to_owned(),
            _ => self.text("type").to_owned(),
        }
    }

    /// Returns the kind of the tool, in terms common among agents.
    fn sort(&self) -> &'static str {
        match self.kind {
            ItemType::Command => "execute",
            ItemType::FileChange => "edit",
            ItemType::WebSearch => "fetch",
            ItemType::ImageView => "read",
            _ => "other",
        }
    }

    /// The tool's input.
    pub(super) fn input(&self) -> Value {
        match self.kind {
            ItemType::Command => {
                let command = shell::script(self.text("command"));
                let mut input = Map::new();
                input.insert("command".to_owned(), command.into());
                if let Some(cwd) = self.value["cwd"].as_str() {
                    input.insert("cwd".to_owned(), cwd.into());
                }
                Value::Object(input)
            }
            ItemType::FileChange => {
                let change =
                    |change: &Value| json!({ "path": change.get("path"), "kind": kind_of(change) });
                json!({ "changes": list(self.value, "changes").iter().map(change).collect::<Vec<_>>() })
            }
            ItemType::McpCall | ItemType::DynamicCall => {
                self.value.get("arguments").cloned().unwrap_or(Value::Null)
            }
            ItemType::Collaboration => json!({ "prompt": self.value.get("prompt") }),
            ItemType::WebSearch => json!({ "query": self.text("query") }),
            ItemType::ImageView => json!({ "path": self.text("path") }),
            _ => Value::Null,
        }
    }

    /// The files that it changes.
    fn locations(&self) -> Option<Json> {
        let paths: Vec<_> = match self.kind {
            ItemType::FileChange => list(self.value, "changes")
                .iter()
                .map(|change| json!({ "path": change.get("path") }))
                .collect(),
            ItemType::ImageView => vec![json!({ "path": self.text("path") })],
            _ => return None,
        };
        Json::from_serialize(&paths).ok()
    }

    /// The call's beginning.
    pub(super) fn start(&self, call: ToolCallId) -> ToolStart {
        let title = match self.kind {
            // The table of titles knows inputs of one file.
            ItemType::FileChange => paths(self.value),
            _ => None,
        };
        ToolStart {
            kind: Some(self.sort().to_owned()),
            title,
            input: Json::from_serialize(&self.input()).ok(),
            locations: self.locations(),
            ..ToolStart::new(call, self.tool())
        }
    }

    /// The call's end.
    pub(super) fn end(&self, call: ToolCallId) -> ToolEnd {
        let (content, truncated) = cut(self.result());
        let status = self.status();
        let exit_code = self.number(["exit_code", "exitCode"]);
        let failed = matches!(status.as_str(), "failed" | "declined")
            || exit_code.is_some_and(|code| code != 0)
            || self.value.get("success") == Some(&Value::Bool(false))
            || self.get(["error", "error"]).is_some();
        let mut data = Map::new();
        if let Some(code) = exit_code {
            data.insert("exit_code".to_owned(), code.into());
        }
        if !status.is_empty() {
            data.insert("status".to_owned(), status.into());
        }
        let duration = self.number(["duration_ms", "durationMs"]);
        ToolEnd {
            content: Some(content),
            is_error: Some(failed),
            truncated: truncated.then_some(true),
            diffs: (self.kind == ItemType::FileChange).then(|| diffs(self.value)),
            data: (!data.is_empty())
                .then(|| Json::from_serialize(&data).ok())
                .flatten(),
            duration_ms: duration.and_then(|duration| u64::try_from(duration).ok()),
            ..ToolEnd::new(call)
        }
    }

    /// Returns its result, as text.
    fn result(&self) -> String {
        let declined = self.status() == "declined";
        match self.kind {
            ItemType::Command => match self.get(["aggregated_output", "aggregatedOutput"]) {
                Some(output) => output.as_str().unwrap_or_default().to_owned(),
                None if declined => "declined".to_owned(),
                None => String::new(),
            },
            ItemType::FileChange => {
                let line = |change: &Value| {
                    format!(
                        "{} {}",
                        kind_of(change),
                        change["path"].as_str().unwrap_or("?")
                    )
                };
                let lines: Vec<_> = list(self.value, "changes").iter().map(line).collect();
                let word = if declined { "declined: " } else { "" };
                format!("{word}{}", lines.join("\n"))
            }
            ItemType::McpCall | ItemType::DynamicCall => {
                let error = self.value.get("error").map(|error| {
                    error["message"]
                        .as_str()
                        .or(error.as_str())
                        .unwrap_or_default()
                });
                match error.filter(|error| !error.is_empty()) {
                    Some(error) => error.to_owned(),
                    None => {
                        let result = self.value.get("result");
                        let content = result.and_then(|result| result.get("content"));
                        blocks(content.or_else(|| self.get(["content_items", "contentItems"])))
                    }
                }
            }
            _ => String::new(),
        }
    }

    /// The changes of a file change, for a permission request.
    pub(super) fn diffs(&self) -> Vec<Diff> {
        diffs(self.value)
    }
}

/// The texts of content blocks, one after the other; other blocks by their type.
fn blocks(content: Option<&Value>) -> String {
    let block = |block: &Value| match block["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("[{}]", block["type"].as_str().unwrap_or("content")),
    };
    let blocks: Vec<_> = content
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(block)
        .collect();
    blocks.join("\n")
}

/// The longest beginning that a tool call's end repeats, and whether something is missing.
fn cut(mut text: String) -> (String, bool) {
    let long = text.len() > LONGEST_RESULT;
    text.truncate(text.floor_char_boundary(LONGEST_RESULT));
    (text, long)
}

/// `add`, `delete` or `update`: `exec` writes a text, the app server an object.
fn kind_of(change: &Value) -> &str {
    let kind = &change["kind"];
    kind.as_str()
        .or_else(|| kind.get("type")?.as_str())
        .unwrap_or("update")
}

/// The name of the tool that makes such changes, by the first of them.
fn changing(item: &Value) -> &'static str {
    match list(item, "changes").first().map(kind_of) {
        Some("add") => "Write",
        Some("delete") => "Delete",
        _ => "Edit",
    }
}

/// The first path, and how many more.
fn paths(item: &Value) -> Option<String> {
    let paths: Vec<_> = list(item, "changes")
        .iter()
        .filter_map(|change| change.get("path")?.as_str())
        .collect();
    let first = trunkline_sdk::preview::cut(paths.first()?, 120);
    Some(match paths.len() {
        1 => first,
        many => format!("{first} and {} more", many - 1),
    })
}

/// Returns a file change's effect on each file. For a new or deleted file Codex reports the whole
/// text, otherwise a patch.
pub(super) fn diffs(item: &Value) -> Vec<Diff> {
    let diff = |change: &Value| {
        let path = change["path"].as_str().unwrap_or_default().to_owned();
        let text = change["diff"].as_str().map(str::to_owned);
        match kind_of(change) {
            "add" => Diff {
                path,
                new_text: Some(text.unwrap_or_default()),
                ..Diff::default()
            },
            "delete" => Diff {
                path,
                old_text: text,
                ..Diff::default()
            },
            _ => Diff {
                path,
                patch: text,
                ..Diff::default()
            },
        }
    };
    list(item, "changes").iter().map(diff).collect()
}
