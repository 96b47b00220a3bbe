//! `opencode run --format json` and `kilo run --format json`, one run a turn.

use serde_json::Value;
use trunkline_sdk::protocol::Usage;
use trunkline_sdk::{Category, Error, TurnComplete};

use super::adapter::built_in;
use super::{Extras, Native, RunProgress, RunReader, Runs};
use crate::acp::{AcpAgent, Transport, variable};
use crate::agent::end;
use crate::agent::failure;
use crate::agent::launch::Launch;
use crate::agent::mcp::McpServer;
use crate::agent::opencode_config;
use crate::agent::options::Options;
use crate::agent::permission_rules::Unallowed;
use crate::agent::process::ProcessEnd;
use crate::agent::settings::{Wait, settings};
use crate::agent::skills::Roster;
use crate::agent::tokens::Tokens;
use crate::agent::version::Version;
use crate::oneshot::json::{count, text};

/// Limit for answers in a row that break off: opencode retries forever.
const MOST_CUTS: u32 = 3;

settings! {
    /// The configuration, key `opencode`.
    struct Opencode, "opencode";
    {
        /// Transport to the agent.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools unasked, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// The model's provider, written before a model without one.
        provider: String = String::new(),
        /// The agent's mode when a session names none.
        mode: String = String::new(),
    }
}

settings! {
    /// The configuration, key `kilo`.
    struct Kilo, "kilo";
    {
        /// Transport to the agent.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools unasked, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// The model's provider, written before a model without one.
        provider: String = String::new(),
        /// The agent's mode when a session names none.
        mode: String = String::new(),
        /// The longest turn, by the name that older configurations use; `turn_timeout` wins.
        timeout: Wait = Wait(None),
    }
}

/// The dialect of opencode and of Kilo Code, its descendant, with the agent.
#[derive(Clone)]
pub(crate) struct OpencodeRuns(AcpAgent);

impl From<Opencode> for OpencodeRuns {
    fn from(settings: Opencode) -> Self {
        Self(built_in("opencode", settings.common(), &settings))
    }
}

impl From<Kilo> for OpencodeRuns {
    fn from(mut settings: Kilo) -> Self {
        settings.turn_timeout.0 = settings.turn_timeout.0.or(settings.timeout.0);
        Self(built_in("kilo-code", settings.common(), &settings))
    }
}

impl OpencodeRuns {
    /// Variable that holds configuration.
    fn configuration(&self) -> &'static str {
        self.0.configuration_variable().unwrap_or_default()
    }
}

impl Runs for OpencodeRuns {
    const HONOURS: &'static [&'static str] =
        &["mode", "reasoning_effort", "mcp_servers", "temperature"];

    type OutputReader = OpencodeReader;

    fn agent(&self) -> &AcpAgent {
        &self.0
    }

    fn check(&self, options: &Options, version: Option<Version>) -> Result<(), Error> {
        self.0.since().need("--format", "this profile", version)?;
        let configured = variable(options, self.configuration());
        match opencode_config::read(configured.as_deref()) {
            Err(_) if !self.0.is_dangerous() => Err(self.0.asks_no_one()),
            _ => Ok(()),
        }
    }

    fn launch(
        &self,
        options: &Options,
        version: Option<Version>,
        session: &Native,
    ) -> (Launch, OpencodeReader) {
        let has = |option| self.0.since().has(option, version);
        let model = options.model.as_deref().map(|name| self.0.model_name(name));
        let mut launch = options
            .launch()
            .args(["run", "--format", "json"])
            .option("-m", model.as_deref());
        // Without the option it runs what its own rules would ask for.
        if self.0.is_dangerous() && has("--auto") {
            launch = launch.arg("--auto");
        }
        if has("--thinking") {
            launch = launch.arg("--thinking");
        }
        let effort = options
            .reasoning_effort
            .as_deref()
            .filter(|_| has("--variant"));
        let launch = launch
            .option(
                "--agent",
                options.mode.as_deref().or(Some(self.0.configured_mode())),
            )
            .option("--variant", effort)
            .option("--session", session.id());
        (launch, OpencodeReader::default())
    }

    /// Both by the variable that holds configuration, and that nothing runs which would have to be asked.
    fn give(&self, options: &Options, skills: &Roster, servers: &[McpServer]) -> Extras {
        let mut given = Extras::default();
        let folder = given.folder(skills);
        let configured = variable(options, self.configuration());
        let denied = self.0.unallowed(Unallowed::Denied);
        match opencode_config::content(
            configured.as_deref(),
            denied,
            servers,
            folder.as_ref(),
            None,
            self.0.temperature(options),
        ) {
            Ok(content) => {
                let content = content.map(|content| (self.configuration().into(), content.into()));
                given.env.extend(content);
                given.finds_skills = folder.is_some();
            }
            Err(why) => given.warnings.push(why),
        }
        given.kept.push(Box::new(folder));
        given
    }
}

/// Reads the lines of one run. Its end is the process's.
#[derive(Debug, Default)]
pub(crate) struct OpencodeReader {
    usage: Option<Usage>,
    steps: u64,
    /// The answers in a row that broke off.
    cuts: u32,
}

impl RunReader for OpencodeReader {
    fn line(&mut self, line: &Value, run: &mut RunProgress) {
        run.session(text(line, "/sessionID"));
        let part = &line["part"];
        match text(line, "/type") {
            "text" => run.output(text(part, "/text"), text(part, "/id")),
            "reasoning" => run.thinking(text(part, "/text")),
            "tool_use" => {
                self.cuts = 0;
                note_tool(part, run);
            }
            "step_start" => run.signs.begin_step(),
            "step_finish" => {
                self.steps += 1;
                let reason = text(part, "/reason");
                run.signs.end_step(reason);
                self.cuts = if end::is_cut_off(reason) {
                    self.cuts + 1
                } else {
                    0
                };
                if self.cuts > MOST_CUTS {
                    let text = format!("the model's answer broke off {} times in a row", self.cuts);
                    run.failure = Some(failure::with_category(Category::Overloaded, text, None));
                }
                self.add(part);
            }
            "error" => run.signs.note_error(error(&line["error"])),
            _ => {}
        }
    }

    fn end(self, ended: &ProcessEnd, run: &mut RunProgress) -> TurnComplete {
        run.signs.report_by_exit();
        if failure::is_unknown_session(&ended.stderr) && run.signs.last_error().is_none() {
            let text = ended.error().to_string();
            run.signs.note_error(failure::with_category(
                Category::SessionNotFound,
                text,
                None,
            ));
        }
        TurnComplete {
            num_turns: Some(self.steps),
            usage: self.usage,
            ..TurnComplete::default()
        }
    }
}

impl OpencodeReader {
    /// Adds a step's tokens and cost. What was read from a cache counts as read.
    fn add(&mut self, part: &Value) {
        let Some(tokens) = part.get("tokens") else {
            return;
        };
        let read = |path: &str| count(tokens, path).unwrap_or(0);
        let reasoning = read("/reasoning");
        let tokens = Tokens {
            input: Some(read("/input")),
            output: Some(read("/output").saturating_add(reasoning)),
            total: None,
            cache_read: Some(read("/cache/read")),
            cache_write: Some(read("/cache/write")),
            reasoning: Some(reasoning),
        };
        tokens.add_to(&mut self.usage, part["cost"].as_f64());
    }
}

/// Notes a tool call, which is reported once when it is done.
fn note_tool(part: &Value, run: &mut RunProgress) {
    let state = &part["state"];
    let id = text(part, "/callID");
    run.tool_start(
        id,
        text(part, "/tool"),
        text(state, "/title"),
        state.get("input"),
    );
    let failed =
        text(state, "/status") == "error" || state["metadata"]["exit"].as_i64().unwrap_or(0) != 0;
    run.tool_end(id, text(state, "/output"), text(state, "/error"), failed);
}

/// An `error` line: an object, or a plain text.
fn error(error: &Value) -> Error {
    let message = [error.as_str(), error["data"]["message"].as_str()];
    let message = message
        .into_iter()
        .chain([error["message"].as_str(), error["name"].as_str()]);
    let message = message
        .flatten()
        .next()
        .unwrap_or("the agent reports an error");
    if message.contains("auto-rejected permission") {
        let hint = "the agent asked for a permission that this mode cannot ask for; use `transport: \"acp\"`";
        return failure::with_category(
            Category::PermissionDenied,
            format!("{message}; {hint}"),
            None,
        );
    }
    if failure::is_unknown_session(message) {
        return failure::with_category(Category::SessionNotFound, message, None);
    }
    let http = count(error, "/data/statusCode").and_then(|code| u16::try_from(code).ok());
    failure::failed(message, http)
}

#[cfg(test)]
mod tests;
