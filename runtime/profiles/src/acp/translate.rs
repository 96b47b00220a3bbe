//! `session/update`, read: what an agent's updates mean to a host. Pure.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use serde_json::Value;
use trunkline_sdk::protocol::{
    AdapterBody, Command, ContextUsage, Message, MessageId, Output, Plan, Progress, SessionInfo, Thinking,
    ToolEnd, ToolStart, ToolUpdate,
};
use trunkline_sdk::{Json, PlanEntry, PlanStatus, ToolCallId};

use super::choices::Choices;
use super::content::{Content, LONGEST_RESULT, block, blocks, raw_output};
use super::initialize::{FailuresAsText, Quirks};
use super::media::{self, Allowance, Media};
use super::read::{count, json, list, text};
use super::restarts::{Piece, Restarts};
use super::usage::Totals;

/// The most tool calls of one turn that are reported.
const MOST_CALLS: usize = 16 * 1024;

/// The most commands that are reported, and of each text of theirs the most bytes.
const MOST_COMMANDS: usize = 512;
const LONGEST_COMMAND: usize = 1024;

/// The most entries of a plan.
const MOST_ENTRIES: usize = 1024;

/// The longest title, in bytes.
const LONGEST_TITLE: usize = 1024;

/// What an update means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum UpdateEvent {
    /// A piece of the answer.
    Text(Output),
    /// A file; where it cannot be delivered, this text of the answer.
    File(Box<Media>, Option<Output>),
    /// Any other event.
    Event(AdapterBody),
    /// Something is known of the session.
    Info(Box<SessionInfo>),
    /// The agent says that its model failed; what it says next is the failure.
    SystemError,
    /// The model's answer broke off too often in a row: so many times.
    BrokeOff(u32),
}

/// Whose updates these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// What happens now.
    Now,
    /// What was said before.
    Before,
}

/// Reads a session's updates.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    quirks: Quirks,
    pub(crate) choices: Choices,
    pub(crate) totals: Totals,
    calls: HashMap<String, Call>,
    /// The agent's commands, as it told them last.
    commands: Vec<Command>,
    /// The session's skills, which are commands too.
    skills: Vec<Command>,
    context: Option<ContextUsage>,
    restarts: Restarts,
    /// What came last was nothing but what had been said before.
    repeats: bool,
    pub(crate) files: Allowance,
    /// What tool calls of this turn have shown, by its hash: they show it with each update.
    shown: HashSet<u64>,
    hasher: RandomState,
}

/// A tool call, as far as it was told.
#[derive(Debug)]
struct Call {
    id: ToolCallId,
    tool: String,
    title: Option<String>,
    /// The input that was told last.
    input: Option<Json>,
    /// The content that was told last.
    text: String,
    ended: bool,
    /// The host has denied it.
    denied: bool,
}

impl Reader {
    pub(crate) fn new(quirks: Quirks) -> Self {
        Self { quirks, ..Self::default() }
    }

    /// With skills that are commands of the session.
    pub(crate) fn with_skills(self, skills: Option<Vec<Command>>) -> Self {
        Self { skills: skills.unwrap_or_default(), ..self }
    }

    /// Whether the agent has told commands of its own.
    pub(crate) fn knows_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Whether the agent has a command of this name.
    pub(crate) fn has_command(&self, name: &str) -> bool {
        self.commands.iter().any(|command| command.name == name)
    }

    /// The agent's commands, and the skills whose names it has not taken.
    pub(crate) fn commands(&self) -> Vec<Command> {
        let skills = self.skills.iter().filter(|skill| !self.has_command(&skill.name));
        self.commands.iter().chain(skills).cloned().collect()
    }

    /// A turn begins: earlier tool calls are over.
    pub(crate) fn begin(&mut self) {
        self.calls.clear();
        self.totals.begin();
        self.restarts.worked();
        self.repeats = false;
        self.files.begin();
        self.shown.clear();
    }

    /// Whether the last update was not news: the agent asks its model again, and says what it has said.
    pub(crate) fn repeats(&self) -> bool {
        self.repeats
    }

    /// Watches the text of an answer that may break off.
    fn watch(&mut self, update: &Value, content: &str, when: When, out: &mut Vec<UpdateEvent>) {
        if !self.quirks.restarts || when == When::Before {
            return;
        }
        match self.restarts.said(text(update, "messageId"), content) {
            Piece::New => {}
            Piece::Again => self.repeats = true,
            Piece::TooMuch => out.push(UpdateEvent::BrokeOff(self.restarts.in_a_row())),
        }
    }

    /// Reads one update. One of an unknown kind means nothing. `terminal` gives the output of a terminal of ours.
    pub(crate) fn update(
        &mut self,
        update: &Value,
        when: When,
        terminal: &dyn Fn(&str) -> Option<String>,
        out: &mut Vec<UpdateEvent>,
    ) {
        let history = (when == When::Before).then_some(true);
        self.repeats = false;
        match text(update, "sessionUpdate").unwrap_or_default() {
            "agent_message_chunk" => {
                let content = said(update);
                self.watch(update, &content, when, out);
                if self.quirks.failures_as_text == FailuresAsText::Prefixed && is_remark(&content) {
                    let message = content.trim_start_matches("Info: ").to_owned();
                    out.push(UpdateEvent::Event(Progress { message, history, ..Progress::default() }.into()));
                } else if !content.is_empty() {
                    let message_id = message_id(update);
                    let output = Output { content, message_id, history, ..Output::default() };
                    let content = update.get("content").filter(|_| when == When::Now);
                    out.push(match content.and_then(|content| self.files.take(content)) {
                        Some(media) => UpdateEvent::File(Box::new(media), Some(output)),
                        None => UpdateEvent::Text(output),
                    });
                }
            }
            "agent_thought_chunk" => {
                let content = said(update);
                self.watch(update, &content, when, out);
                if !content.is_empty() {
                    let message_id = message_id(update);
                    out.push(UpdateEvent::Event(
                        Thinking { content, message_id, history, ..Thinking::default() }.into(),
                    ));
                }
            }
            // The echo of the prompt, unless it was said before.
            "user_message_chunk" if when == When::Before => {
                let content = said(update);
                if !content.is_empty() {
                    let (role, message_id) = ("user".to_owned(), message_id(update));
                    let message = Message { role, content, message_id, history, ..Message::default() };
                    out.push(UpdateEvent::Event(message.into()));
                }
            }
            "tool_call" | "tool_call_update" => {
                self.tool_call(update, when, terminal, out);
                self.tool_files(update, when, out);
            }
            "plan" => {
                let entries =
                    list(update, "entries").iter().take(MOST_ENTRIES).filter_map(plan_entry).collect();
                out.push(UpdateEvent::Event(Plan { entries, history, ..Plan::default() }.into()));
            }
            "available_commands_update" => {
                let commands = list(update, "availableCommands").iter().take(MOST_COMMANDS);
                let commands: Vec<_> = commands.filter_map(command).collect();
                // Some agents tell them before each turn.
                if commands != self.commands {
                    self.commands = commands;
                    let commands = Some(self.commands());
                    out.push(info(SessionInfo { commands, ..SessionInfo::default() }));
                }
            }
            "current_mode_update" => {
                if let Some(mode) = text(update, "currentModeId") {
                    self.choices.mode.current = Some(mode.to_owned());
                    out.push(info(SessionInfo { mode: Some(mode.to_owned()), ..SessionInfo::default() }));
                }
            }
            "config_option_update" => {
                let before = self.choices.clone();
                self.choices.read(update);
                if self.choices != before {
                    out.push(info(self.choices.info()));
                }
            }
            "usage_update" => self.usage(update, when, out),
            "session_info_update" => {
                let status = update.pointer("/_meta/codex/threadStatus/type").and_then(Value::as_str);
                if status == Some("systemError") && when == When::Now {
                    out.push(UpdateEvent::SystemError);
                }
            }
            _ => {}
        }
    }

    fn usage(&mut self, update: &Value, when: When, out: &mut Vec<UpdateEvent>) {
        let nothing = Value::Null;
        let cost = update.get("cost").unwrap_or(&nothing);
        let is_usd = text(cost, "currency").is_none_or(|currency| currency.eq_ignore_ascii_case("usd"));
        if let Some(cost) = cost.get("amount").and_then(Value::as_f64).filter(|_| is_usd) {
            self.totals.spent(cost);
        }
        let (used_tokens, total_tokens) = (count(update, "used"), count(update, "size"));
        // Zero of a full session is what some say when they do not know.
        let usage = ContextUsage { used_tokens, total_tokens };
        if when == When::Now
            && used_tokens.is_some_and(|used| used > 0)
            && self.context.as_ref() != Some(&usage)
        {
            self.context = Some(usage.clone());
            out.push(UpdateEvent::Event(usage.into()));
        }
    }

    /// A request asks about a tool call: it has begun, if it was not told before. Its id and tool.
    pub(crate) fn asked(
        &mut self,
        tool_call: &Value,
        out: &mut Vec<UpdateEvent>,
    ) -> Option<(ToolCallId, String)> {
        let id = text(tool_call, "toolCallId")?;
        self.restarts.worked();
        let call = self.call(id, tool_call, When::Now, out)?;
        Some((call.id.clone(), call.tool.clone()))
    }

    /// The host has denied a call. Some agents say no more of it.
    pub(crate) fn denied(&mut self, call: &ToolCallId) {
        if let Some(call) = self.calls.get_mut(call.as_str()) {
            call.denied = true;
        }
    }

    /// The turn ends: ends of calls that were denied and of which the agent said no more.
    pub(crate) fn end(&mut self, out: &mut Vec<UpdateEvent>) {
        for call in self.calls.values_mut().filter(|call| call.denied && !call.ended) {
            call.ended = true;
            let content = Some("the permission was denied".to_owned());
            let end = ToolEnd { content, is_error: Some(true), ..ToolEnd::new(call.id.clone()) };
            out.push(UpdateEvent::Event(end.into()));
        }
    }

    /// The call of this id, begun now if it is new.
    fn call(
        &mut self,
        id: &str,
        update: &Value,
        when: When,
        out: &mut Vec<UpdateEvent>,
    ) -> Option<&mut Call> {
        if !self.calls.contains_key(id) {
            if self.calls.len() >= MOST_CALLS {
                return None;
            }
            let call_id = ToolCallId::new(id).ok()?;
            let tool = self.tool(id, update);
            let title = title(update);
            let input = update.get("rawInput").and_then(json);
            let start = ToolStart {
                kind: text(update, "kind").map(str::to_owned),
                title: title.clone(),
                input: input.clone(),
                locations: update.get("locations").and_then(json),
                parent_tool_call_id: parent(update),
                history: (when == When::Before).then_some(true),
                ..ToolStart::new(call_id.clone(), tool.clone())
            };
            out.push(UpdateEvent::Event(start.into()));
            let call =
                Call { id: call_id, tool, title, input, text: String::new(), ended: false, denied: false };
            self.calls.insert(id.to_owned(), call);
        }
        self.calls.get_mut(id)
    }

    /// The tool's name: ACP has none, but most agents tell it somewhere. Else the kind of tool.
    fn tool(&self, id: &str, update: &Value) -> String {
        let meta = || {
            let meta = update.get("_meta")?.as_object()?;
            meta.values().find_map(|agent| text(agent, "toolName"))
        };
        let in_id = || {
            let (name, _) = id.split_once("__").filter(|_| self.quirks.names_tools_in_ids)?;
            (!name.is_empty()).then_some(name)
        };
        let in_title = || {
            let is_name = |title: &&str| {
                title.len() <= 64
                    && title.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-'))
            };
            text(update, "title").filter(is_name).filter(|_| self.quirks.names_tools_in_titles)
        };
        let kind = || text(update, "kind").filter(|kind| *kind != "other");
        let name = meta().or_else(in_id).or_else(in_title).or_else(kind);
        name.unwrap_or("tool").chars().take(128).collect()
    }

    /// The files that a tool call shows, each once.
    fn tool_files(&mut self, update: &Value, when: When, out: &mut Vec<UpdateEvent>) {
        let Some(id) = text(update, "toolCallId").filter(|id| self.calls.contains_key(*id)) else { return };
        for block in blocks(update).filter(|_| when == When::Now) {
            let Some(identity) = media::identity(block) else { continue };
            let hash = self.hasher.hash_one((id, identity));
            if self.shown.len() < MOST_CALLS
                && self.shown.insert(hash)
                && let Some(media) = self.files.take(block)
            {
                out.push(UpdateEvent::File(Box::new(media), None));
            }
        }
    }

    fn tool_call(
        &mut self,
        update: &Value,
        when: When,
        terminal: &dyn Fn(&str) -> Option<String>,
        out: &mut Vec<UpdateEvent>,
    ) {
        let Some(id) = text(update, "toolCallId") else { return };
        self.restarts.worked();
        let is_new = !self.calls.contains_key(id);
        let history = (when == When::Before).then_some(true);
        let Some(call) = self.call(id, update, when, out) else { return };
        if call.ended {
            return;
        }
        let mut content = Content::of(update);
        let shown: Vec<String> = content.terminals.iter().filter_map(|id| terminal(id)).collect();
        shown.iter().for_each(|output| content.say(output));
        // What agents with terminals of their own print into them.
        let printed = update.pointer("/_meta/terminal_output/data").and_then(Value::as_str);
        let mut delta = None;
        if let Some(printed) = printed {
            let room = LONGEST_RESULT.saturating_sub(call.text.len());
            let fits = &printed[..printed.floor_char_boundary(room)];
            call.text.push_str(fits);
            delta = (!fits.is_empty()).then(|| fits.to_owned());
        }
        let status = text(update, "status").unwrap_or_default();
        if matches!(status, "completed" | "failed") {
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
            let end = ToolEnd {
                content: (!content.text.is_empty()).then_some(content.text),
                is_error: Some(failed),
                truncated: content.is_cut.then_some(true),
                diffs: (!content.diffs.is_empty()).then_some(content.diffs),
                history,
                parent_tool_call_id: parent(update),
                ..ToolEnd::new(call.id.clone())
            };
            out.push(UpdateEvent::Event(end.into()));
            return;
        }
        if printed.is_none() && content.text.len() > call.text.len() && content.text.starts_with(&call.text) {
            // The content is whole each time; a host gets what is new.
            delta = Some(content.text[call.text.len()..].to_owned());
            call.text = content.text;
        }
        let title = title(update).filter(|title| call.title.as_ref() != Some(title));
        let input = update.get("rawInput").and_then(json).filter(|input| call.input.as_ref() != Some(input));
        if let Some(input) = &input {
            call.input = Some(input.clone());
        }
        if let Some(title) = &title {
            call.title = Some(title.clone());
        }
        let title = title.filter(|_| !is_new);
        if delta.is_some() || title.is_some() || input.is_some() {
            let update = ToolUpdate {
                content: delta,
                title,
                input,
                parent_tool_call_id: parent(update),
                history,
                ..ToolUpdate::new(call.id.clone())
            };
            out.push(UpdateEvent::Event(update.into()));
        }
    }
}

/// What Copilot says of its own work among the text of the model.
fn is_remark(text: &str) -> bool {
    ["Info: Request failed due to a transient API error. Retrying...", "Info: Operation cancelled by user"]
        .contains(&text.trim())
}

fn info(info: SessionInfo) -> UpdateEvent {
    UpdateEvent::Info(Box::new(info))
}

fn said(update: &Value) -> String {
    update.get("content").map(block).unwrap_or_default()
}

fn message_id(update: &Value) -> Option<MessageId> {
    text(update, "messageId").and_then(|id| MessageId::new(id).ok())
}

/// The tool call of the sub-agent that this one belongs to, where the agent tells.
fn parent(update: &Value) -> Option<ToolCallId> {
    let id = update.pointer("/_meta/claudeCode/parentToolUseId")?.as_str()?;
    ToolCallId::new(id).ok()
}

fn title(update: &Value) -> Option<String> {
    text(update, "title").map(|title| title[..title.floor_char_boundary(LONGEST_TITLE)].to_owned())
}

fn plan_entry(entry: &Value) -> Option<PlanEntry> {
    let status = match text(entry, "status") {
        Some("pending") => Some(PlanStatus::Pending),
        Some("in_progress") => Some(PlanStatus::InProgress),
        Some("completed") => Some(PlanStatus::Completed),
        _ => None,
    };
    let priority = text(entry, "priority").map(str::to_owned);
    Some(PlanEntry { content: text(entry, "content")?.to_owned(), status, priority })
}

fn command(command: &Value) -> Option<Command> {
    let cut = |text: &str| text[..text.floor_char_boundary(LONGEST_COMMAND)].to_owned();
    let name = text(command, "name")?.trim_start_matches('/');
    Some(Command {
        name: cut(name),
        description: text(command, "description").map(cut),
        hint: command.get("input").and_then(|input| text(input, "hint")).map(cut),
        text: Some(format!("/{}", cut(name))),
    })
}

#[cfg(test)]
mod tests;
