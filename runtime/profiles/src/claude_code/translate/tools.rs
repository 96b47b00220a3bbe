//! Tool calls and their ends; plans, which are tool calls too.

use std::collections::HashMap;

use serde_json::{Value, json};
use trunkline_sdk::preview::cut;
use trunkline_sdk::protocol::{MessageId, Plan, PlanEntry, ToolEnd, ToolStart};
use trunkline_sdk::{Json, PlanStatus, ToolCallId};

use super::super::native::{content, is_true, list, text};
use super::super::{diff, event::ClaudeEvent};

/// The most calls of a turn that are remembered.
const MOST_CALLS: usize = 4_096;

/// The longest result that is reported, in bytes. A longer one is cut and marked.
const LONGEST_RESULT: usize = 256 * 1024;

/// The most entries of a plan.
const MOST_ENTRIES: usize = 200;

/// The calls of a turn, and the plan of the session.
#[derive(Debug, Default)]
pub(super) struct Tools {
    calls: HashMap<String, RunningCall>,
    plan: Vec<(String, PlanEntry)>,
}

#[derive(Debug)]
struct RunningCall {
    tool: String,
    input: Value,
    parent: Option<String>,
}

impl Tools {
    /// The tool call of the sub-agent that made this call.
    pub(super) fn parent(&self, call: &str) -> Option<&str> {
        self.calls.get(call)?.parent.as_deref()
    }

    /// Returns true if this call has begun and not ended.
    pub(super) fn is_open(&self, call: &str) -> bool {
        self.calls.contains_key(call)
    }

    /// Forgets the calls of the turn.
    pub(super) fn turn_ended(&mut self) {
        self.calls.clear();
    }

    /// A whole `tool_use` block.
    pub(super) fn begin(
        &mut self,
        block: &Value,
        parent: Option<&str>,
        id: Option<MessageId>,
        said: &mut Vec<ClaudeEvent>,
    ) {
        let Some(call) = text(block, "id") else {
            return;
        };
        let Ok(tool_call_id) = ToolCallId::new(call) else {
            return;
        };
        if self.calls.contains_key(call) || self.calls.len() >= MOST_CALLS {
            return;
        }
        let tool = text(block, "name").unwrap_or("tool");
        let input = block.get("input").cloned().unwrap_or(Value::Null);
        let parent_id = parent.and_then(|parent| ToolCallId::new(parent).ok());
        said.push(
            ToolStart {
                kind: kind(tool).map(str::to_owned),
                input: Json::from_serialize(&input)
                    .ok()
                    .filter(|_| !input.is_null()),
                locations: locations(&input),
                message_id: id,
                parent_tool_call_id: parent_id.clone(),
                ..ToolStart::new(tool_call_id, cut(tool, 256))
            }
            .into(),
        );
        if tool == "TodoWrite" {
            let entries = todos(&input);
            said.push(
                Plan {
                    entries,
                    parent_tool_call_id: parent_id,
                    ..Plan::default()
                }
                .into(),
            );
        }
        let call = call.to_owned();
        self.calls.insert(
            call,
            RunningCall {
                tool: tool.to_owned(),
                input,
                parent: parent.map(str::to_owned),
            },
        );
    }

    /// A `tool_result` block, and what is reported beside it.
    pub(super) fn end(
        &mut self,
        block: &Value,
        beside: &Value,
        parent: Option<&str>,
        said: &mut Vec<ClaudeEvent>,
    ) {
        let Some(id) = text(block, "tool_use_id") else {
            return;
        };
        let Ok(tool_call_id) = ToolCallId::new(id) else {
            return;
        };
        let failed = is_true(block, "is_error");
        let result = content(block.get("content"));
        let cut = result.floor_char_boundary(LONGEST_RESULT);
        let truncated = (cut < result.len()).then_some(true);
        let diffs = if failed {
            Vec::new()
        } else {
            diff::done(beside)
        };
        said.push(
            ToolEnd {
                content: Some(result[..cut].to_owned()),
                is_error: Some(failed),
                truncated,
                diffs: (!diffs.is_empty()).then_some(diffs),
                data: printed(beside),
                parent_tool_call_id: parent.and_then(|parent| ToolCallId::new(parent).ok()),
                ..ToolEnd::new(tool_call_id)
            }
            .into(),
        );
        if let Some(call) = self.calls.remove(id)
            && !failed
            && self.tasks(&call, beside)
        {
            let entries = self.plan.iter().map(|(_, entry)| entry.clone()).collect();
            said.push(
                Plan {
                    entries,
                    ..Plan::default()
                }
                .into(),
            );
        }
    }

    /// Keeps the plan that newer versions make task by task. Says whether it has changed.
    fn tasks(&mut self, call: &RunningCall, beside: &Value) -> bool {
        match call.tool.as_str() {
            "TaskCreate" => {
                let Some(task) = beside.get("task") else {
                    return false;
                };
                let (Some(id), Some(subject)) = (text(task, "id"), text(task, "subject")) else {
                    return false;
                };
                if self.plan.len() >= MOST_ENTRIES {
                    return false;
                }
                let entry = entry(subject, Some("pending"));
                self.plan.push((id.to_owned(), entry));
                true
            }
            "TaskUpdate" => {
                let Some(id) = text(&call.input, "taskId") else {
                    return false;
                };
                let Some(at) = self.plan.iter().position(|(known, _)| known == id) else {
                    return false;
                };
                match text(&call.input, "status") {
                    Some("deleted") => drop(self.plan.remove(at)),
                    status => {
                        let known = &mut self.plan[at].1;
                        known.status = status.and_then(PlanStatus::named).or(known.status);
                        if let Some(subject) = text(&call.input, "subject") {
                            known.content = cut(subject, 1_000);
                        }
                    }
                }
                true
            }
            _ => false,
        }
    }
}

/// Returns the output of a command, separated by stream.
fn printed(beside: &Value) -> Option<Json> {
    let short = |name: &str| {
        beside
            .get(name)?
            .as_str()
            .filter(|text| text.len() <= LONGEST_RESULT)
    };
    let stdout = short("stdout")?;
    let stderr = short("stderr")?;
    if stderr.is_empty() {
        return None;
    }
    Json::from_serialize(&json!({"stdout": stdout, "stderr": stderr})).ok()
}

fn locations(input: &Value) -> Option<Json> {
    let path = text(input, "file_path").or_else(|| text(input, "notebook_path"))?;
    Json::from_serialize(&json!([{"path": path}])).ok()
}

/// Returns the kind of a tool, in the terms of the Agent Client Protocol.
fn kind(tool: &str) -> Option<&'static str> {
    match tool {
        "Read" | "NotebookRead" | "LS" => Some("read"),
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => Some("edit"),
        "Bash" | "BashOutput" | "KillShell" | "PowerShell" => Some("execute"),
        "Glob" | "Grep" | "WebSearch" | "ToolSearch" => Some("search"),
        "WebFetch" => Some("fetch"),
        "Task" | "Agent" | "TodoWrite" | "TaskCreate" | "TaskUpdate" => Some("think"),
        "EnterPlanMode" | "ExitPlanMode" => Some("switch_mode"),
        _ => None,
    }
}

fn todos(input: &Value) -> Vec<PlanEntry> {
    let todo = |todo: &Value| Some(entry(text(todo, "content")?, text(todo, "status")));
    list(input, "todos")
        .iter()
        .take(MOST_ENTRIES)
        .filter_map(todo)
        .collect()
}

fn entry(content: &str, status: Option<&str>) -> PlanEntry {
    PlanEntry {
        content: cut(content, 1_000),
        status: status.and_then(PlanStatus::named),
        priority: None,
    }
}
