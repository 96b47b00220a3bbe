//! `copilot --output-format json`, one run a turn.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trunkline_sdk::protocol::{ModelUsage, Progress, Usage, UsageScope};
use trunkline_sdk::{Error, TurnComplete};

use super::adapter::built_in;
use super::{Extras, Native, RunProgress, RunReader, Runs};
use crate::acp::{AcpAgent, Transport};
use crate::agent::attachment::open_regular;
use crate::agent::end::PendingWork;
use crate::agent::failure;
use crate::agent::launch::Launch;
use crate::agent::mcp::{self, McpServer};
use crate::agent::options::Options;
use crate::agent::process::ProcessEnd;
use crate::agent::settings::settings;
use crate::agent::skills::Roster;
use crate::agent::tokens::Tokens;
use crate::agent::version::Version;
use crate::oneshot::json::{count, text};

/// The largest usage file that is read, in bytes.
const MAX_USAGE: u64 = 1024 * 1024;

/// Limits for messages that are streamed at once, sub-agents' included, and for the bytes of their ids.
const MOST_STREAMED: usize = 1024;
const LONGEST_ID: usize = 256;

settings! {
    /// The configuration, key `copilot`.
    struct Copilot, "copilot";
    {
        /// Transport to the agent.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools unasked, and sessions choose modes of that kind.
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
        Self(built_in("github-copilot", settings.common(), &settings))
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

    type OutputReader = CopilotReader;

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
    ) -> (Launch, CopilotReader) {
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
        let mut reader = CopilotReader::default();
        if self.0.since().has("--usage-output-file", version) {
            let file = format!("usage-{}.json", uuid::Uuid::new_v4());
            let file = UsageFile(std::env::temp_dir().join(file));
            launch = launch.arg("--usage-output-file").arg(&file.0);
            reader.usage_file = Some(file);
        }
        let launch = match session {
            Native::Unknown => launch,
            // It makes the session or continues it.
            Native::Chosen(id) => launch.arg("--session-id").arg(id),
            Native::Known(id) => launch.arg(format!("--resume={id}")),
        };
        (launch, reader)
    }

    /// The agent's own id comes only with its last line.
    fn chooses_id(&self, version: Option<Version>) -> bool {
        self.0.since().has("--session-id", version)
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
}

impl RunReader for CopilotReader {
    fn line(&mut self, line: &Value, run: &mut RunProgress) {
        let data = &line["data"];
        let id = text(data, "/messageId");
        match text(line, "/type") {
            "assistant.turn_start" => run.signs.begin_step(),
            "assistant.turn_end" => run.signs.end_step(""),
            "assistant.message_delta" => {
                let piece = text(data, "/deltaContent");
                self.note_streamed(id, piece);
                run.output(piece, id);
            }
            "assistant.message" => {
                // Calls first: the text beside them is an answer until they start.
                let requests = data["toolRequests"].as_array().into_iter().flatten();
                for request in requests {
                    run.signs.open_call(text(request, "/toolCallId"));
                }
                if !self.streamed.remove(id) {
                    run.output(text(data, "/content"), id);
                }
                run.model(text(data, "/model"));
            }
            "assistant.reasoning_delta" => {
                let piece = text(data, "/deltaContent");
                self.note_streamed(text(data, "/reasoningId"), piece);
                run.thinking(piece);
            }
            "assistant.reasoning" if !self.streamed.remove(text(data, "/reasoningId")) => {
                run.thinking(text(data, "/content"));
            }
            "tool.execution_start" => {
                let id = text(data, "/toolCallId");
                let tool = text(data, "/toolName");
                run.tool_start(id, tool, "", data.get("arguments"));
            }
            "tool.execution_complete" => {
                let failed = data["success"].as_bool() == Some(false)
                    || data["shellExecution"]["exitCode"].as_i64().unwrap_or(0) != 0;
                let output = text(data, "/result/content");
                let error = text(data, "/error/message");
                run.tool_end(text(data, "/toolCallId"), output, error, failed);
            }
            "assistant.turn_retry" => {
                run.signs.set_pending(PendingWork::Retry, true);
                run.emit(Progress {
                    message: format!("the model is asked again: {}", text(data, "/reason")),
                    ..Progress::default()
                });
            }
            "session.error" => {
                let http = count(data, "/statusCode").and_then(|code| u16::try_from(code).ok());
                run.signs
                    .note_error(failure::failed(text(data, "/message"), http));
            }
            "result" => {
                run.session(text(line, "/sessionId"));
                run.is_over = true;
                // A run that failed exits with the code that it reports.
                if line["exitCode"].as_i64() == Some(0) {
                    run.signs.report(Ok(()));
                }
            }
            _ => {}
        }
    }

    fn end(self, _: &ProcessEnd, run: &mut RunProgress) -> TurnComplete {
        let usage = self
            .usage_file
            .as_ref()
            .and_then(|file| usage_in(&file.0, run.model.as_deref()));
        TurnComplete {
            usage,
            ..TurnComplete::default()
        }
    }
}

impl CopilotReader {
    /// Notes the message of a piece: its whole text repeats it.
    fn note_streamed(&mut self, id: &str, piece: &str) {
        let fits = self.streamed.len() < MOST_STREAMED && id.len() <= LONGEST_ID;
        if fits && !piece.is_empty() {
            self.streamed.insert(id.to_owned());
        }
    }
}

/// The tokens of the conversation up to a run's end. The agent knows the file's path, and may have
/// put anything there.
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
