//! Claude's reports about itself: its beginning, retries, denials, compactions, limits.

use std::time::{Duration, SystemTime};

use serde_json::Value;
use trunkline_sdk::preview::cut;
use trunkline_sdk::protocol::{
    AdapterInfo, Command, Compaction, CompactionTrigger, ContextUsage, Output, Progress, RateLimit,
};
use trunkline_sdk::{Category, SessionInfo, ToolCallId};

use super::super::event::ClaudeEvent;
use super::super::native::{amount, count, list, text};
use super::{LONGEST_COMMAND_OUTPUT, Translator, names};
use crate::agent::failure;

/// The most commands that are reported.
const MOST_COMMANDS: usize = 256;

/// The nearest and the farthest time at which a limit is believed to begin anew.
const SOONEST: Duration = Duration::from_secs(60);
const LATEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl Translator {
    pub(super) fn system(&mut self, value: &Value, said: &mut Vec<ClaudeEvent>) {
        match text(value, "subtype") {
            Some("init") => self.init(value, said),
            Some("status") => self.status(value, said),
            Some("api_retry") => said.push(progress(retry(value))),
            Some("permission_denied") => said.push(denied(value)),
            Some("compact_boundary") => self.compacted(value, said),
            Some("task_notification") => said.extend(self.task(value)),
            Some("local_command_output") => {
                if let Some(printed) = text(value, "content") {
                    self.answered = true;
                    let cut = printed.floor_char_boundary(LONGEST_COMMAND_OUTPUT);
                    said.push(Output::text(&printed[..cut]).into());
                }
            }
            _ => {}
        }
    }

    /// The beginning of each turn: what is in force. Told as far as it has changed.
    fn init(&mut self, value: &Value, said: &mut Vec<ClaudeEvent>) {
        self.is_busy = true;
        said.extend(text(value, "session_id").map(|id| ClaudeEvent::Native(id.to_owned())));
        self.model = text(value, "model")
            .map(str::to_owned)
            .or(self.model.take());
        let command = |name: String| Command {
            text: Some(format!("/{name}")),
            name,
            ..Command::default()
        };
        let commands = names(value, "slash_commands")
            .map(|names| names.into_iter().take(MOST_COMMANDS).map(command).collect());
        let info = SessionInfo {
            adapter: text(value, "claude_code_version").map(|version| AdapterInfo {
                name: "claude-code".to_owned(),
                version: Some(version.to_owned()),
            }),
            model: text(value, "model").map(str::to_owned),
            permission_mode: text(value, "permissionMode").map(str::to_owned),
            mode: text(value, "permissionMode").map(str::to_owned),
            commands,
            ..SessionInfo::default()
        };
        self.info(info, said);
        for server in list(value, "mcp_servers") {
            let (Some(name), Some(status @ ("failed" | "needs-auth"))) =
                (text(server, "name"), text(server, "status"))
            else {
                continue;
            };
            if self.failed_servers.len() >= MOST_COMMANDS
                || !self.failed_servers.insert(name.to_owned())
            {
                continue;
            }
            let message = format!("the MCP server {} is not used: {status}", cut(name, 128));
            said.push(failure::warning(Category::Other, message).into());
        }
    }

    /// Handles the answer to `initialize`: commands with their descriptions.
    pub(in super::super) fn initialized(&mut self, answer: &Value) -> Vec<ClaudeEvent> {
        let command = |command: &Value| {
            let name = text(command, "name")?;
            Some(Command {
                name: name.to_owned(),
                description: text(command, "description").map(|words| cut(words, 500)),
                hint: text(command, "argumentHint").map(|hint| cut(hint, 200)),
                text: Some(format!("/{name}")),
            })
        };
        let commands: Vec<_> = list(answer, "commands")
            .iter()
            .filter_map(command)
            .take(MOST_COMMANDS)
            .collect();
        let model = |model: &Value| {
            Some(trunkline_sdk::protocol::Model {
                id: text(model, "value")?.to_owned(),
                label: text(model, "displayName").map(|label| cut(label, 100)),
                description: text(model, "description").map(|description| cut(description, 1000)),
            })
        };
        let models: Vec<_> = list(answer, "models")
            .iter()
            .filter_map(model)
            .take(64)
            .collect();
        let mut said = Vec::new();
        let info = SessionInfo {
            commands: (!commands.is_empty()).then_some(commands),
            models: (!models.is_empty()).then_some(models),
            ..SessionInfo::default()
        };
        self.info(info, &mut said);
        said
    }

    fn status(&mut self, value: &Value, said: &mut Vec<ClaudeEvent>) {
        if let Some(mode) = text(value, "permissionMode") {
            let mode = Some(mode.to_owned());
            self.info(
                SessionInfo {
                    permission_mode: mode.clone(),
                    mode,
                    ..SessionInfo::default()
                },
                said,
            );
        }
        if text(value, "status") == Some("compacting") {
            said.push(progress("shortening the conversation".to_owned()));
        }
    }

    /// Reports new information about the session.
    fn info(&mut self, info: SessionInfo, said: &mut Vec<ClaudeEvent>) {
        fn news<T: PartialEq + Clone>(told: &mut Option<T>, now: Option<T>) -> Option<T> {
            let news = now.filter(|now| told.as_ref() != Some(now))?;
            *told = Some(news.clone());
            Some(news)
        }
        // The answer to `initialize` reported them with descriptions.
        let described = self
            .told
            .commands
            .as_ref()
            .is_some_and(|told| told.iter().any(|it| it.description.is_some()));
        let commands = info
            .commands
            .filter(|now| !described || now.iter().any(|it| it.description.is_some()));
        let told = &mut self.told;
        let fresh = SessionInfo {
            adapter: news(&mut told.adapter, info.adapter),
            model: news(&mut told.model, info.model),
            models: news(&mut told.models, info.models),
            mode: news(&mut told.mode, info.mode),
            permission_mode: news(&mut told.permission_mode, info.permission_mode),
            commands: news(&mut told.commands, commands),
            ..SessionInfo::default()
        };
        if fresh != SessionInfo::default() {
            said.push(ClaudeEvent::Info(Box::new(fresh)));
        }
    }

    fn compacted(&mut self, value: &Value, said: &mut Vec<ClaudeEvent>) {
        let told = &value["compact_metadata"];
        let trigger = match text(told, "trigger") {
            Some("auto") => Some(CompactionTrigger::Auto),
            Some("manual") => Some(CompactionTrigger::Manual),
            _ => None,
        };
        let pre_tokens = count(told, "pre_tokens");
        said.push(
            Compaction {
                trigger,
                pre_tokens,
                total_tokens: self.window,
                ..Compaction::default()
            }
            .into(),
        );
        if let Some(used) = count(told, "post_tokens") {
            self.used = Some(used);
            let usage = ContextUsage {
                used_tokens: Some(used),
                total_tokens: self.window,
            };
            said.push(usage.into());
        }
    }

    /// Work that has ended in the background; what ends within its call is reported by that.
    fn task(&self, value: &Value) -> Option<ClaudeEvent> {
        let call = text(value, "tool_use_id");
        if call.is_some_and(|call| self.tools.is_open(call)) {
            return None;
        }
        let status = cut(text(value, "status")?, 32);
        let summary = cut(text(value, "summary").unwrap_or("a task"), 500);
        let parent_tool_call_id = call.and_then(|id| ToolCallId::new(id).ok());
        let message = format!("{status}: {summary}");
        Some(
            Progress {
                message,
                parent_tool_call_id,
                ..Progress::default()
            }
            .into(),
        )
    }

    pub(super) fn rate_limit(&mut self, value: &Value, said: &mut Vec<ClaudeEvent>) {
        let told = &value["rate_limit_info"];
        let status = text(told, "status").map(str::to_owned);
        let resets_at =
            amount(told, "resetsAt").and_then(|seconds| time(seconds, SystemTime::now()));
        if status.as_deref() == Some("rejected") {
            self.resets_at.clone_from(&resets_at);
        }
        let utilization = amount(told, "utilization");
        // Told as a part by some versions, in percent by others.
        let utilization = utilization
            .map(|used| if used > 1.0 { used / 100.0 } else { used })
            .map(|used| used.min(1.0));
        let window = text(told, "rateLimitType").map(str::to_owned);
        said.push(
            RateLimit {
                window,
                status,
                utilization,
                resets_at,
            }
            .into(),
        );
    }
}

/// A time in seconds since 1970, as far as it is believed.
fn time(seconds: f64, now: SystemTime) -> Option<String> {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
    let time = time.clamp(now + SOONEST, now + LATEST);
    Some(humantime::format_rfc3339_seconds(time).to_string())
}

fn progress(message: String) -> ClaudeEvent {
    Progress {
        message,
        ..Progress::default()
    }
    .into()
}

/// `try 2 of 10 in 1.1 s: rate_limit (HTTP 429)`.
fn retry(value: &Value) -> String {
    let shown =
        |name: &str| count(value, name).map_or_else(|| "?".to_owned(), |count| count.to_string());
    let mut message = format!(
        "the model did not answer; retry {} of {}",
        shown("attempt"),
        shown("max_retries")
    );
    if let Some(delay) = amount(value, "retry_delay_ms") {
        message.push_str(&format!(" in {:.1} s", delay / 1000.0));
    }
    if let Some(error) = text(value, "error").filter(|error| *error != "unknown") {
        message.push_str(&format!(": {}", cut(error, 64)));
    }
    if let Some(status) = count(value, "error_status") {
        message.push_str(&format!(" (HTTP {status})"));
    }
    message
}

/// Reports a tool that a rule has denied without asking.
fn denied(value: &Value) -> ClaudeEvent {
    let tool = cut(text(value, "tool_name").unwrap_or("a tool"), 128);
    let why = text(value, "message")
        .map(|why| format!(": {}", cut(why, 1_000)))
        .unwrap_or_default();
    let message = format!("{tool} was denied{why}");
    failure::warning(Category::PermissionDenied, message).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_begins_anew_neither_at_once_nor_in_years() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let at = |seconds: f64| time(seconds, now);
        assert_eq!(at(1_000_003_600.0).as_deref(), Some("2001-09-09T02:46:40Z"));
        assert_eq!(at(0.0).as_deref(), Some("2001-09-09T01:47:40Z"));
        assert_eq!(at(9e9).as_deref(), Some("2001-09-16T01:46:40Z"));
        assert_eq!((at(1e300), at(-1.0)), (None, None));
    }
}
