//! `session/update`, read: what an agent's updates mean to a host. Pure.

mod compaction;
mod tools;

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;
use trunkline_sdk::protocol::{
    AdapterBody, Command, ContextUsage, Log, LogStream, Message, MessageId, Output, Plan, Progress,
    SessionInfo, Thinking,
};
use trunkline_sdk::{Category, PlanEntry, PlanStatus, preview};

use self::compaction::PartialCompaction;
use self::tools::ReportedCall;
use super::choices::Choices;
use super::content::block;
use super::initialize::{FailuresAsText, Quirks};
use super::media::{Allowance, Media};
use super::read::{count, list, text};
use super::restarts::{PieceClass, Restarts};
use super::usage::Totals;
use crate::agent::failure;

/// The most commands that are reported, and of each text of theirs the most bytes.
const MOST_COMMANDS: usize = 512;
const LONGEST_COMMAND: usize = 1024;

/// The most entries of a plan.
const MOST_ENTRIES: usize = 1024;

/// Meaning of an update.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum UpdateEvent {
    /// A piece of the answer.
    Text(Output),
    /// A file; if it cannot be delivered, this text of the answer.
    File(Box<Media>, Option<Output>),
    /// Any other event.
    Event(AdapterBody),
    /// Something is known of the session.
    Info(Box<SessionInfo>),
    /// The agent reports that its model failed; its next text is the failure.
    SystemError,
    /// The model's answer broke off too often in a row: so many times.
    BrokeOff(u32),
}

impl<E: Into<AdapterBody>> From<E> for UpdateEvent {
    fn from(event: E) -> Self {
        Self::Event(event.into())
    }
}

/// Time of the updates' events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventTime {
    /// New events.
    Now,
    /// A replay of earlier events.
    Before,
}

/// Reads a session's updates.
#[derive(Debug, Default)]
pub(crate) struct UpdateReader {
    quirks: Quirks,
    pub(crate) choices: Choices,
    pub(crate) totals: Totals,
    calls: HashMap<String, ReportedCall>,
    /// The agent's commands, as last reported.
    commands: Vec<Command>,
    /// The session's skills, which are commands too.
    skills: Vec<Command>,
    context: Option<ContextUsage>,
    /// The last compactions, the newest first.
    compactions: VecDeque<PartialCompaction>,
    pub(super) title: Option<String>,
    restarts: Restarts,
    /// True if the last message was only a repetition.
    repeats: bool,
    pub(crate) files: Allowance,
    /// Hashes of the content that tool calls of this turn have shown: they repeat it in each
    /// update.
    shown: HashSet<u64>,
    hasher: RandomState,
}

impl UpdateReader {
    pub(crate) fn new(quirks: Quirks) -> Self {
        Self {
            quirks,
            ..Self::default()
        }
    }

    /// With skills that are commands of the session.
    pub(crate) fn with_skills(self, skills: Option<Vec<Command>>) -> Self {
        Self {
            skills: skills.unwrap_or_default(),
            ..self
        }
    }

    /// Returns true if the agent has listed commands of its own.
    pub(crate) fn knows_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Returns true if the agent has a command of this name.
    pub(crate) fn has_command(&self, name: &str) -> bool {
        self.commands.iter().any(|command| command.name == name)
    }

    /// The agent's commands, and the skills whose names it has not taken.
    pub(crate) fn commands(&self) -> Vec<Command> {
        let skills = self
            .skills
            .iter()
            .filter(|skill| !self.has_command(&skill.name));
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

    /// Returns true if the last update was a repetition: the agent repeats the request to its
    /// model, and its output.
    pub(crate) fn repeats(&self) -> bool {
        self.repeats
    }

    /// Watches the text of an answer that may break off.
    fn watch(
        &mut self,
        update: &Value,
        content: &str,
        when: EventTime,
        out: &mut Vec<UpdateEvent>,
    ) {
        if !self.quirks.restarts || when == EventTime::Before {
            return;
        }
        match self.restarts.said(text(update, "messageId"), content) {
            PieceClass::New => {}
            PieceClass::Again => self.repeats = true,
            PieceClass::TooMuch => out.push(UpdateEvent::BrokeOff(self.restarts.in_a_row())),
        }
    }

    /// Reads one update. One of an unknown kind means nothing. `terminal` gives the output of a
    /// terminal of ours.
    pub(crate) fn update(
        &mut self,
        update: &Value,
        when: EventTime,
        terminal: &dyn Fn(&str) -> Option<String>,
        out: &mut Vec<UpdateEvent>,
    ) {
        let history = (when == EventTime::Before).then_some(true);
        self.repeats = false;
        match text(update, "sessionUpdate").unwrap_or_default() {
            "agent_message_chunk" => {
                let content = said(update);
                self.watch(update, &content, when, out);
                if self.quirks.failures_as_text == FailuresAsText::Prefixed && is_remark(&content) {
                    let message = content.trim_start_matches("Info: ").to_owned();
                    out.push(
                        Progress {
                            message,
                            history,
                            ..Progress::default()
                        }
                        .into(),
                    );
                } else if !content.is_empty() {
                    let message_id = message_id(update);
                    let output = Output {
                        content,
                        message_id,
                        history,
                        ..Output::default()
                    };
                    let content = update.get("content").filter(|_| when == EventTime::Now);
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
                    out.push(
                        Thinking {
                            content,
                            message_id,
                            history,
                            ..Thinking::default()
                        }
                        .into(),
                    );
                }
            }
            // The echo of the prompt, except in a replay.
            "user_message_chunk" if when == EventTime::Before => {
                let content = said(update);
                if !content.is_empty() {
                    let role = "user".to_owned();
                    let message_id = message_id(update);
                    let message = Message {
                        role,
                        content,
                        message_id,
                        history,
                        ..Message::default()
                    };
                    out.push(message.into());
                }
            }
            "tool_call" | "tool_call_update" => {
                self.tool_call(update, when, terminal, out);
                self.tool_files(update, when, out);
            }
            "plan" => {
                let entries = list(update, "entries")
                    .iter()
                    .take(MOST_ENTRIES)
                    .filter_map(plan_entry)
                    .collect();
                out.push(
                    Plan {
                        entries,
                        history,
                        ..Plan::default()
                    }
                    .into(),
                );
            }
            "available_commands_update" => {
                let commands = list(update, "availableCommands").iter().take(MOST_COMMANDS);
                let commands: Vec<_> = commands.filter_map(command).collect();
                // Some agents report them before each turn.
                if commands != self.commands {
                    self.commands = commands;
                    let commands = Some(self.commands());
                    out.push(info(SessionInfo {
                        commands,
                        ..SessionInfo::default()
                    }));
                }
            }
            "current_mode_update" => {
                if let Some(mode) = text(update, "currentModeId") {
                    self.choices.mode.current = Some(mode.to_owned());
                    out.push(info(SessionInfo {
                        mode: Some(mode.to_owned()),
                        ..SessionInfo::default()
                    }));
                }
            }
            "config_option_update" => {
                let before = self.choices.clone();
                self.choices.read(update);
                if self.choices != before {
                    out.push(info(self.choices.info()));
                }
            }
            "notice" if when == EventTime::Now => out.extend(notice(update)),
            "compaction_update" if when == EventTime::Now => self.compaction_update(update, out),
            "compaction_summary_chunk" if when == EventTime::Now => self.compaction_chunk(update),
            "usage_update" => self.usage(update, when, out),
            "session_info_update" => {
                let title = text(update, "title")
                    .filter(|title| !title.trim().is_empty())
                    .map(preview::text);
                if title.is_some() && title != self.title {
                    self.title.clone_from(&title);
                    out.push(info(SessionInfo {
                        display_id: title,
                        ..SessionInfo::default()
                    }));
                }
                let status = update["_meta"]["codex"]["threadStatus"]["type"].as_str();
                if status == Some("systemError") && when == EventTime::Now {
                    out.push(UpdateEvent::SystemError);
                }
            }
            _ => {}
        }
    }

    fn usage(&mut self, update: &Value, when: EventTime, out: &mut Vec<UpdateEvent>) {
        let cost = &update["cost"];
        let is_usd =
            text(cost, "currency").is_none_or(|currency| currency.eq_ignore_ascii_case("usd"));
        if let Some(cost) = cost["amount"].as_f64().filter(|_| is_usd) {
            self.totals.spent(cost);
        }
        let used_tokens = count(update, "used");
        let total_tokens = count(update, "size");
        // Zero of a full session is the value of agents that do not know.
        let usage = ContextUsage {
            used_tokens,
            total_tokens,
        };
        if when == EventTime::Now
            && used_tokens.is_some_and(|used| used > 0)
            && self.context.as_ref() != Some(&usage)
        {
            self.context = Some(usage.clone());
            out.push(usage.into());
        }
    }
}

/// Returns true for a remark of Copilot about its own work in the text of the model.
fn is_remark(text: &str) -> bool {
    let remarks = [
        "Info: Request failed due to a transient API error. Retrying...",
        "Info: Response was interrupted due to a server error. Retrying...",
        "Info: Operation cancelled by user",
    ];
    remarks.contains(&text.trim())
}

/// A notice: information is logged, and anything else is a warning.
fn notice(update: &Value) -> Option<UpdateEvent> {
    let texts = [
        text(update, "title")?,
        text(update, "description").unwrap_or_default(),
    ];
    let content = failure::message(&texts.join("\n"));
    Some(match text(update, "severity") {
        Some("info") => UpdateEvent::from(Log {
            stream: Some(LogStream::Meta),
            content,
            ..Log::default()
        }),
        _ => failure::warning(Category::Other, content).into(),
    })
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

fn plan_entry(entry: &Value) -> Option<PlanEntry> {
    let status = text(entry, "status").and_then(PlanStatus::named);
    let priority = text(entry, "priority").map(str::to_owned);
    Some(PlanEntry {
        content: text(entry, "content")?.to_owned(),
        status,
        priority,
    })
}

fn command(command: &Value) -> Option<Command> {
    let cut = |text: &str| text[..text.floor_char_boundary(LONGEST_COMMAND)].to_owned();
    let name = text(command, "name")?.trim_start_matches('/');
    Some(Command {
        name: cut(name),
        description: text(command, "description").map(cut),
        // An empty hint means that the command has arguments.
        hint: command
            .get("input")
            .and_then(|input| input.get("hint")?.as_str())
            .map(cut),
        text: Some(format!("/{}", cut(name))),
    })
}

#[cfg(test)]
mod tests;
