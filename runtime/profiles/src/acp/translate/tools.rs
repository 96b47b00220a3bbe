//! Tool calls: their begin, their pieces and their end.

use std::hash::BuildHasher;

use serde_json::{Map, Value};
use trunkline_sdk::protocol::{ToolEnd, ToolStart, ToolUpdate};
use trunkline_sdk::{Json, ToolCallId};

use super::super::content::{Content, LONGEST_RESULT, blocks, raw_output};
use super::super::media;
use super::super::read::{json, list, says_nothing, text};
use super::{EventTime, UpdateEvent, UpdateReader};

/// The most tool calls of one turn that are reported.
const MOST_CALLS: usize = 16 * 1024;

/// The longest title, in bytes.
const LONGEST_TITLE: usize = 1024;

/// Limit of an agent's own data about a result, in bytes as JSON. Larger data is left out: the
/// result has its text.
pub(super) const MAX_DATA_BYTES: usize = 16 * 1024;

/// The agent's own data about a result, an object or a list. A text is the content.
fn raw_data(output: &Value) -> Option<Json> {
    let is_data = output.is_object() || output.is_array();
    json(output).filter(|_| is_data && output.to_string().len() <= MAX_DATA_BYTES)
}

/// Sets `known` to a value of an update. Returns the value if it is new.
fn replace_known(known: &mut Option<Json>, value: Option<Json>) -> Option<Json> {
    let new = value.filter(|new| known.as_ref() != Some(new))?;
    *known = Some(new.clone());
    Some(new)
}

/// A tool call, as far as it was reported.
#[derive(Debug)]
pub(super) struct ReportedCall {
    id: ToolCallId,
    tool: String,
    title: Option<String>,
    /// The last input that was reported.
    input: Option<Json>,
    /// The last places that were reported.
    locations: Option<Json>,
    /// The last data that was reported while the call ran.
    data: Option<Json>,
    /// The last reported content.
    text: String,
    /// Members that a permission request may leave out, as last reported; empty once the call has
    /// ended.
    told: Map<String, Value>,
    ended: bool,
    /// The host has denied it.
    denied: bool,
}

/// A tool call that a request asks about.
#[derive(Debug)]
pub(crate) struct AskedCall {
    /// `None` if the request has an id of its own, which belongs to no call.
    pub(crate) id: Option<ToolCallId>,
    pub(crate) tool: String,
    /// Everything known of it: the content of the request, and earlier reports.
    pub(crate) tool_call: Value,
}

impl ReportedCall {
    fn tell(&mut self, update: &Value) {
        let shows_change = || {
            list(update, "content")
                .iter()
                .any(|one| text(one, "type") == Some("diff"))
        };
        for name in ["title", "kind", "rawInput", "locations", "content"] {
            // Other content may be long, is repeated in each update, and is irrelevant to the
            // request.
            let Some(value) = update
                .get(name)
                .filter(|_| name != "content" || shows_change())
            else {
                continue;
            };
            if !says_nothing(value) {
                self.told.insert(name.to_owned(), value.clone());
            }
        }
    }
}

/// Words of Kimi Code before the command that it wants to run.
const ANNOUNCEMENT: &str = "Requesting approval to Running: ";

/// The command of a request that has it only in its text.
fn announced_command(tool_call: &Map<String, Value>) -> Option<String> {
    if tool_call.get("kind")? != "execute" || tool_call.contains_key("rawInput") {
        return None;
    }
    let content = Content::from_tool_call(&Value::Object(tool_call.clone()));
    content
        .text
        .strip_prefix(ANNOUNCEMENT)
        .map(|command| command.trim_end().to_owned())
}

impl UpdateReader {
    /// Handles a request about a tool call, which has begun even if it was not reported before.
    pub(crate) fn asked(
        &mut self,
        tool_call: &Value,
        out: &mut Vec<UpdateEvent>,
    ) -> Option<AskedCall> {
        let id = text(tool_call, "toolCallId")?;
        self.restarts.worked();
        if self.quirks.asks_by_ids_of_their_own {
            let tool = self.tool(id, tool_call);
            return Some(AskedCall {
                id: None,
                tool,
                tool_call: tool_call.clone(),
            });
        }
        let announces_commands = self.quirks.announces_commands;
        let call = self.call(id, tool_call, EventTime::Now, out)?;
        let said = tool_call
            .as_object()?
            .iter()
            .filter(|(_, value)| !says_nothing(value));
        let mut whole = call.told.clone();
        whole.extend(said.map(|(name, value)| (name.clone(), value.clone())));
        if announces_commands && let Some(command) = announced_command(&whole) {
            whole.insert(
                "rawInput".to_owned(),
                serde_json::json!({ "command": command }),
            );
        }
        Some(AskedCall {
            id: Some(call.id.clone()),
            tool: call.tool.clone(),
            tool_call: whole.into(),
        })
    }

    /// Returns true if a tool was called in this turn.
    pub(crate) fn has_called(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Records that the host has denied a call. Some agents do not report it again.
    pub(crate) fn denied(&mut self, call: &ToolCallId) {
        if let Some(call) = self.calls.get_mut(call.as_str()) {
            call.denied = true;
        }
    }

    /// Ends the calls that the agent left open at the end of the turn. A denied one has failed; the
    /// result of another is unknown if the turn `is_well`.
    pub(crate) fn end(&mut self, is_well: bool, out: &mut Vec<UpdateEvent>) {
        self.report_compactions(out);
        for call in self
            .calls
            .values_mut()
            .filter(|call| !call.ended && (call.denied || is_well))
        {
            call.ended = true;
            let content = call.denied.then(|| "the permission was denied".to_owned());
            let end = ToolEnd {
                content,
                is_error: call.denied.then_some(true),
                ..ToolEnd::new(call.id.clone())
            };
            out.push(end.into());
        }
    }

    /// The call of this id, begun now if it is new.
    fn call(
        &mut self,
        id: &str,
        update: &Value,
        when: EventTime,
        out: &mut Vec<UpdateEvent>,
    ) -> Option<&mut ReportedCall> {
        if !self.calls.contains_key(id) {
            if self.calls.len() >= MOST_CALLS {
                return None;
            }
            let call_id = ToolCallId::new(id).ok()?;
            let tool = self.tool(id, update);
            let title = title(update);
            let input = update.get("rawInput").and_then(json);
            let locations = update.get("locations").and_then(json);
            let start = ToolStart {
                kind: text(update, "kind").map(str::to_owned),
                title: title.clone(),
                input: input.clone(),
                locations: locations.clone(),
                parent_tool_call_id: parent(update),
                history: (when == EventTime::Before).then_some(true),
                ..ToolStart::new(call_id.clone(), tool.clone())
            };
            out.push(start.into());
            let call = ReportedCall {
                id: call_id,
                tool,
                title,
                input,
                locations,
                data: None,
                text: String::new(),
                told: Map::new(),
                ended: false,
                denied: false,
            };
            self.calls.insert(id.to_owned(), call);
        }
        self.calls.get_mut(id)
    }

    /// The tool's name. Agents that send none have it elsewhere, or only the kind of tool.
    fn tool(&self, id: &str, update: &Value) -> String {
        let meta = || {
            let meta = update.get("_meta")?.as_object()?;
            meta.values().find_map(|agent| text(agent, "toolName"))
        };
        let in_id = || {
            let (name, _) = id
                .split_once("__")
                .filter(|_| self.quirks.names_tools_in_ids)?;
            (!name.is_empty()).then_some(name)
        };
        let in_title = || {
            let is_name = |title: &&str| {
                title.len() <= 64
                    && title
                        .chars()
                        .all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-'))
            };
            text(update, "title")
                .filter(is_name)
                .filter(|_| self.quirks.names_tools_in_titles)
        };
        let kind = || text(update, "kind").filter(|kind| *kind != "other");
        let name = text(update, "name")
            .or_else(meta)
            .or_else(in_id)
            .or_else(in_title)
            .or_else(kind);
        name.unwrap_or("tool").chars().take(128).collect()
    }

    /// The files that a tool call shows, each once.
    pub(super) fn tool_files(
        &mut self,
        update: &Value,
        when: EventTime,
        out: &mut Vec<UpdateEvent>,
    ) {
        let Some(id) = text(update, "toolCallId").filter(|id| self.calls.contains_key(*id)) else {
            return;
        };
        for block in blocks(update).filter(|_| when == EventTime::Now) {
            let Some(identity) = media::identity(block) else {
                continue;
            };
            let hash = self.hasher.hash_one((id, identity));
            if self.shown.len() < MOST_CALLS
                && self.shown.insert(hash)
                && let Some(media) = self.files.take(block)
            {
                out.push(UpdateEvent::File(Box::new(media), None));
            }
        }
    }

    pub(super) fn tool_call(
        &mut self,
        update: &Value,
        when: EventTime,
        terminal: &dyn Fn(&str) -> Option<String>,
        out: &mut Vec<UpdateEvent>,
    ) {
        let Some(id) = text(update, "toolCallId") else {
            return;
        };
        self.restarts.worked();
        let is_new = !self.calls.contains_key(id);
        let history = (when == EventTime::Before).then_some(true);
        let Some(call) = self.call(id, update, when, out) else {
            return;
        };
        if call.ended {
            return;
        }
        call.tell(update);
        let mut content = Content::from_tool_call(update);
        let shown: Vec<String> = content
            .terminals
            .iter()
            .filter_map(|id| terminal(id))
            .collect();
        shown.iter().for_each(|output| content.say(output));
        // What agents with terminals of their own print into them.
        let printed = update["_meta"]["terminal_output"]["data"].as_str();
        let mut delta = None;
        if let Some(printed) = printed {
            let room = LONGEST_RESULT.saturating_sub(call.text.len());
            let fits = &printed[..printed.floor_char_boundary(room)];
            call.text.push_str(fits);
            delta = (!fits.is_empty()).then(|| fits.to_owned());
        }
        let status = text(update, "status").unwrap_or_default();
        let locations = update.get("locations").and_then(json);
        let locations = replace_known(&mut call.locations, locations);
        if matches!(status, "completed" | "failed") {
            // The end of a call has no places of its own.
            if locations.is_some() {
                let update = ToolUpdate {
                    locations,
                    parent_tool_call_id: parent(update),
                    history,
                    ..ToolUpdate::new(call.id.clone())
                };
                out.push(update.into());
            }
            call.ended = true;
            let failed = status == "failed";
            if content.text.is_empty()
                && let Some(said) = update.get("rawOutput").and_then(raw_output)
            {
                content.say(said);
            }
            if content.text.is_empty() {
                content.text = std::mem::take(&mut call.text);
            }
            if content.text.is_empty() && failed && call.denied {
                content.say("the permission was denied");
            }
            call.text = String::new();
            let told = Value::Object(std::mem::take(&mut call.told));
            // An end without content leaves the content of before.
            if update.get("content").is_none() && !failed {
                content.diffs = Content::from_tool_call(&told).diffs;
            }
            let end = ToolEnd {
                content: (!content.text.is_empty()).then_some(content.text),
                is_error: Some(failed),
                truncated: content.is_cut.then_some(true),
                diffs: (!content.diffs.is_empty()).then_some(content.diffs),
                data: update.get("rawOutput").and_then(raw_data),
                history,
                parent_tool_call_id: parent(update),
                ..ToolEnd::new(call.id.clone())
            };
            out.push(end.into());
            return;
        }
        if printed.is_none()
            && content.text.len() > call.text.len()
            && content.text.starts_with(&call.text)
        {
            // The content is whole each time; a host gets what is new.
            delta = Some(content.text[call.text.len()..].to_owned());
            call.text = content.text;
        }
        let title = title(update).filter(|title| call.title.as_ref() != Some(title));
        let input = replace_known(&mut call.input, update.get("rawInput").and_then(json));
        let data = replace_known(&mut call.data, update.get("rawOutput").and_then(raw_data));
        if let Some(title) = &title {
            call.title = Some(title.clone());
        }
        let title = title.filter(|_| !is_new);
        let has_values = input.is_some() || locations.is_some() || data.is_some();
        if delta.is_some() || title.is_some() || has_values {
            let update = ToolUpdate {
                content: delta,
                title,
                input,
                locations,
                data,
                parent_tool_call_id: parent(update),
                history,
                ..ToolUpdate::new(call.id.clone())
            };
            out.push(update.into());
        }
    }
}

/// Returns the tool call of the sub-agent that this one belongs to, if the agent reports it.
fn parent(update: &Value) -> Option<ToolCallId> {
    let id = update
        .pointer("/_meta/claudeCode/parentToolUseId")?
        .as_str()?;
    ToolCallId::new(id).ok()
}

fn title(update: &Value) -> Option<String> {
    text(update, "title").map(|title| title[..title.floor_char_boundary(LONGEST_TITLE)].to_owned())
}
