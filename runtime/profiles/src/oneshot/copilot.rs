//! `copilot --output-format json`, one run a turn.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trunkline_sdk::protocol::{ModelUsage, Progress, Usage, UsageScope};
use trunkline_sdk::{Error, TurnComplete};

use super::{Extras, Native, Reader, RunEvent, Runs};
use crate::acp::{AcpAgent, Transport};
use crate::agent::attachment::open_regular;
use crate::agent::end::{EndSigns, PendingWork};
use crate::agent::failure;
use crate::agent::launch::Launch;
use crate::agent::mcp::{self, McpServer};
use crate::agent::options::Options;
use crate::agent::process::Ended;
use crate::agent::settings::settings;
use crate::agent::skills::Roster;
use crate::agent::tokens::Tokens;
use crate::agent::version::Version;
use crate::agents;
use crate::oneshot::json::{count, output, text, thinking, tool_end, tool_start};

/// The largest usage file that is read, in bytes.
const MAX_USAGE: u64 = 1024 * 1024;

/// Limits for messages that are streamed at once, sub-agents' included, and for the bytes of their ids.
const MOST_STREAMED: usize = 1024;
const LONGEST_ID: usize = 256;

settings! {
    /// The configuration, key `copilot`.
    struct Copilot, "copilot";
    {
        /// How the agent is spoken to.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools that no one is asked about, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// Tools that run unasked.
        allowed_tools: Vec<String> = Vec::new(),
        /// Tools that never run.
        denied_tools: Vec<String> = Vec::new(),
        /// The most turns that the agent takes by itself in autopilot.
        max_autopilot_continues: u32 = 0,
    }
}

/// The dialect, with its agent.
#[derive(Clone)]
pub(crate) struct CopilotRuns(AcpAgent);

impl From<Copilot> for CopilotRuns {
    fn from(settings: Copilot) -> Self {
        let file = agents::built_in("github-copilot");
        Self(AcpAgent::new(
            &file.name,
            file,
            settings.common(),
            &settings,
        ))
    }
}

impl Runs for CopilotRuns {
    const HONOURS: &'static [&'static str] = &[
        "add_dirs",
        "mode",
        "reasoning_effort",
        "denied_tools",
        "mcp_servers",
    ];

    type Reader = CopilotReader;

    fn agent(&self) -> &AcpAgent {
        &self.0
    }

    fn check(&self, _: &Options, version: Option<Version>) -> Result<(), Error> {
        self.0
            .since()
            .need("--output-format", "this profile", version)
    }

    /// A tool that is not allowed is denied: the user cannot be asked.
    fn launch(
        &self,
        options: &Options,
        version: Option<Version>,
        session: &Native,
        reader: &CopilotReader,
    ) -> Launch {
        let mut launch = options
            .launch()
            .args(["--output-format", "json", "--no-color", "--no-auto-update"])
            .option("--agent", options.mode.as_deref());
        if self.0.allows_all(options) {
            launch = launch.arg("--allow-all-tools");
        }
        launch = self
            .0
            .with_options(launch, options, version, &mut Vec::new());
        if let Some(file) = &reader.usage_file {
            launch = launch.arg("--usage-output-file").arg(&file.0);
        }
        match session {
            Native::Unknown => launch,
            // It makes the session or continues it.
            Native::Chosen(id) => launch.arg("--session-id").arg(id),
            Native::Known(id) => launch.arg(format!("--resume={id}")),
        }
    }

    /// The agent's own id comes only with its last line.
    fn chooses_id(&self, version: Option<Version>) -> bool {
        self.0.since().has("--session-id", version)
    }

    fn reader(&self, version: Option<Version>) -> CopilotReader {
        let file =
            || UsageFile(std::env::temp_dir().join(format!("usage-{}.json", uuid::Uuid::new_v4())));
        let usage_file = self
            .0
            .since()
            .has("--usage-output-file", version)
            .then(file);
        CopilotReader {
            usage_file,
            ..CopilotReader::default()
        }
    }

    /// Skills by a folder that the agent is given, servers by a file.
    fn give(&self, _: &Options, skills: &Roster, servers: &[McpServer]) -> Extras {
        let mut given = Extras::default();
        if let Some(folder) = given.folder(skills) {
            given
                .args
                .extend(["--add-dir".into(), folder.path().into()]);
            given.finds_skills = true;
            given.kept.push(Box::new(folder));
        }
        if !servers.is_empty() {
            let (config, variables) = mcp::copilot_config(servers);
            match mcp::private_file(&config) {
                Ok(file) => {
                    let mut at = OsString::from("@");
                    at.push(file.path());
                    given.args.extend(["--additional-mcp-config".into(), at]);
                    given.env.extend(
                        variables
                            .into_iter()
                            .map(|(name, value)| (name.into(), value.into())),
                    );
                    given.kept.push(Box::new(file));
                }
                Err(error) => given
                    .warnings
                    .push(format!("MCP servers are left out: {error}")),
            }
        }
        given
    }
}

/// A file that the CLI writes a run's tokens to. It goes with its reader.
#[derive(Debug)]
pub(crate) struct UsageFile(PathBuf);

impl Drop for UsageFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Reads the lines of one run.
#[derive(Debug, Default)]
pub(crate) struct CopilotReader {
    usage_file: Option<UsageFile>,
    /// Messages that were reported in part and are not whole yet.
    streamed: HashSet<String>,
    is_over: bool,
    signs: EndSigns,
    model: Option<String>,
}

impl Reader for CopilotReader {
    fn line(&mut self, line: &Value, out: &mut Vec<RunEvent>) {
        let data = &line["data"];
        let id = text(data, "/messageId");
        match text(line, "/type") {
            "assistant.turn_start" => self.signs.begin_step(),
            "assistant.turn_end" => self.signs.end_step(""),
            "assistant.message_delta" => {
                let piece = text(data, "/deltaContent");
                if !piece.is_empty() {
                    self.note_streamed(id);
                    out.push(output(piece, id).into());
                }
            }
            "assistant.message" => {
                let whole = text(data, "/content");
                if !self.streamed.remove(id) && !whole.is_empty() {
                    out.push(output(whole, id).into());
                }
                let requests = data["toolRequests"].as_array().into_iter().flatten();
                for request in requests {
                    self.signs.open_call(text(request, "/toolCallId"));
                }
                self.told_model(text(data, "/model"), out);
            }
            "assistant.reasoning_delta" => {
                let piece = text(data, "/deltaContent");
                if !piece.is_empty() {
                    self.note_streamed(text(data, "/reasoningId"));
                    out.push(thinking(piece).into());
                }
            }
            "assistant.reasoning" => {
                let whole = text(data, "/content");
                if !self.streamed.remove(text(data, "/reasoningId")) && !whole.is_empty() {
                    out.push(thinking(whole).into());
                }
            }
            "tool.execution_start" => {
                let (id, tool) = (text(data, "/toolCallId"), text(data, "/toolName"));
                out.extend(tool_start(id, tool, data.get("arguments")).map(Into::into));
            }
            "tool.execution_complete" => {
                let failed = data["success"].as_bool() == Some(false)
                    || data["shellExecution"]["exitCode"].as_i64().unwrap_or(0) != 0;
                let content = match text(data, "/result/content") {
                    "" => text(data, "/error/message"),
                    content => content,
                };
                out.extend(tool_end(text(data, "/toolCallId"), content, failed).map(Into::into));
            }
            "assistant.turn_retry" => {
                self.signs.set_pending(PendingWork::Retry, true);
                let reason = text(data, "/reason");
                let message = format!("the model is asked again: {reason}");
                out.push(
                    Progress {
                        message,
                        ..Progress::default()
                    }
                    .into(),
                );
            }
            "session.error" => {
                let http = count(data, "/statusCode").and_then(|code| u16::try_from(code).ok());
                self.signs
                    .note_error(failure::failed(text(data, "/message"), http));
            }
            "result" => {
                let id = text(line, "/sessionId");
                if !id.is_empty() {
                    out.push(RunEvent::Session(id.to_owned()));
                }
                self.is_over = true;
                // A run that failed exits with the code that it reports.
                if line["exitCode"].as_i64() == Some(0) {
                    self.signs.report(Ok(()));
                }
            }
            _ => {}
        }
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn signs(&mut self) -> &mut EndSigns {
        &mut self.signs
    }

    fn end(self, _: &Ended, _: &mut Vec<RunEvent>) -> (EndSigns, TurnComplete) {
        let usage = self
            .usage_file
            .as_ref()
            .and_then(|file| usage_in(&file.0, self.model.as_deref()));
        let end = TurnComplete {
            usage,
            model: self.model,
            ..TurnComplete::default()
        };
        (self.signs, end)
    }
}

impl CopilotReader {
    fn note_streamed(&mut self, id: &str) {
        if self.streamed.len() < MOST_STREAMED && id.len() <= LONGEST_ID {
            self.streamed.insert(id.to_owned());
        }
    }

    fn told_model(&mut self, model: &str, out: &mut Vec<RunEvent>) {
        if !model.is_empty() && self.model.as_deref() != Some(model) {
            self.model = Some(model.to_owned());
            out.push(RunEvent::Model(model.to_owned()));
        }
    }
}

/// The tokens of the conversation up to a run's end. The agent knows the file's path, and may have put anything there.
fn usage_in(file: &Path, model: Option<&str>) -> Option<Usage> {
    let (file, _) = open_regular(file).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_USAGE).read_to_end(&mut bytes).ok()?;
    usage(&serde_json::from_slice(&bytes).ok()?, model)
}

fn usage(file: &Value, model: Option<&str>) -> Option<Usage> {
    let metrics = file.get("modelMetrics")?.as_object()?;
    let tokens = |value: &Value| {
        let read = |name: &str| count(value, &format!("/usage/{name}"));
        Tokens {
            input: read("inputTokens"),
            output: read("outputTokens"),
            total: None,
            cache_read: read("cacheReadTokens"),
            cache_write: read("cacheWriteTokens"),
            reasoning: read("reasoningTokens"),
        }
    };
    let all = metrics
        .values()
        .map(tokens)
        .fold(Tokens::default(), Tokens::plus);
    let one = |(name, value): (&String, &Value)| {
        (
            name.clone(),
            tokens(value).model_usage(ModelUsage::default()),
        )
    };
    let models = Some(metrics.iter().map(one).collect());
    let scope = Some(UsageScope::Session);
    Some(all.usage(Usage {
        model: model.map(str::to_owned),
        models,
        scope,
        ..Usage::default()
    }))
}

#[cfg(test)]
mod tests;
