//! `opencode run --format json` and `kilo run --format json`, one run a turn.

use serde_json::Value;
use trunkline_sdk::protocol::{Thinking, Usage, UsageScope};
use trunkline_sdk::{Category, Error, Status, TurnComplete};

use super::Family;
use crate::acp::{Kind, variable};
use crate::agent::failure;
use crate::agent::launch::Launch;
use crate::agent::mcp::McpServer;
use crate::agent::native_id;
use crate::agent::opencode_config;
use crate::agent::options::Options;
use crate::agent::permission_rules::Unallowed;
use crate::agent::process::Ended;
use crate::agent::skills::Roster;
use crate::agent::version::Version;
use crate::oneshot::json::{count, output, text, tool_end, tool_start};
use crate::oneshot::{AgentCli, Extras, Native, Reader, RunEvent, Runs};

/// How often in a row a model's answer may break off: opencode asks again forever.
const MOST_CUTS: u32 = 3;

impl Runs for Family {
    const HONOURS: &'static [&'static str] = &["mode", "reasoning_effort", "mcp_servers"];

    type Cli = OpencodeJson;

    fn cli(&self, options: &Options, version: Option<Version>) -> Result<OpencodeJson, Error> {
        self.since.need("--format", "this profile", version)?;
        if !self.dangerous && opencode_config::read(variable(options, self.configuration).as_deref()).is_err()
        {
            return Err(self.asks_no_one());
        }
        let model = options.model.as_deref().map(|name| self.model(name));
        let mode = options.mode.clone().or_else(|| self.default_mode());
        let has = |option| self.since.has(option, version);
        Ok(OpencodeJson {
            // Without the option it runs what its own rules would ask for.
            auto: self.dangerous && has("--auto"),
            thinks_aloud: has("--thinking"),
            takes_effort: has("--variant"),
            model,
            mode,
        })
    }

    /// Both by the variable that holds configuration, and that nothing runs which would have to be asked.
    fn give(&self, options: &Options, skills: &Roster, servers: &[McpServer]) -> Extras {
        let mut given = Extras::default();
        let folder = given.folder(skills);
        let configured = variable(options, self.configuration);
        let denied = self.unallowed(Unallowed::Denied);
        match opencode_config::content(configured.as_deref(), denied, servers, folder.as_ref(), None) {
            Ok(content) => {
                let content = content.map(|content| (self.configuration.into(), content.into()));
                given.env.extend(content);
                given.finds_skills = folder.is_some();
            }
            Err(why) => given.warnings.push(why),
        }
        given.kept.push(Box::new(folder));
        given
    }
}

/// How kilo and opencode are run once a turn.
#[derive(Debug, Clone)]
pub(crate) struct OpencodeJson {
    /// Every tool runs unasked. Otherwise the CLI rejects what its own rules would ask for.
    pub(crate) auto: bool,
    /// It tells its thoughts where it is asked to.
    pub(crate) thinks_aloud: bool,
    pub(crate) takes_effort: bool,
    /// As `provider/model`.
    pub(crate) model: Option<String>,
    /// The agent's mode.
    pub(crate) mode: Option<String>,
}

impl AgentCli for OpencodeJson {
    type Reader = OpencodeReader;

    fn launch(&self, options: &Options, session: &Native, launch: Launch) -> Launch {
        let mut launch = launch.arg("run").args(["--format", "json"]).option("-m", self.model.as_deref());
        if self.auto {
            launch = launch.arg("--auto");
        }
        if self.thinks_aloud {
            launch = launch.arg("--thinking");
        }
        let effort = options.reasoning_effort.as_deref().filter(|_| self.takes_effort);
        launch
            .option("--agent", self.mode.as_deref())
            .option("--variant", effort)
            .option("--session", session.id())
    }

    fn is_id(&self, id: &str) -> bool {
        native_id::is_word(id)
    }

    fn chooses_id(&self) -> bool {
        false
    }

    fn reader(&self) -> OpencodeReader {
        OpencodeReader::default()
    }

    fn prepends_system_prompt(&self) -> bool {
        true
    }
}

/// Reads the lines of one run. Its end is the process's.
#[derive(Debug, Default)]
pub(crate) struct OpencodeReader {
    session: bool,
    usage: Option<Usage>,
    steps: u64,
    reason: String,
    error: Option<Error>,
    /// The answers in a row that broke off.
    cuts: u32,
}

impl Reader for OpencodeReader {
    fn line(&mut self, line: &Value, out: &mut Vec<RunEvent>) {
        let id = text(line, "/sessionID");
        if !self.session && !id.is_empty() {
            self.session = true;
            out.push(RunEvent::Session(id.to_owned()));
        }
        let part = line.get("part").unwrap_or(&Value::Null);
        match text(line, "/type") {
            "text" => {
                let piece = text(part, "/text");
                if !piece.is_empty() {
                    out.push(output(piece, text(part, "/id")).into());
                }
            }
            "reasoning" => {
                let content = text(part, "/text").to_owned();
                if !content.is_empty() {
                    out.push(Thinking { content, ..Thinking::default() }.into());
                }
            }
            "tool_use" => {
                self.cuts = 0;
                tool(part, out);
            }
            "step_finish" => {
                self.steps += 1;
                text(part, "/reason").clone_into(&mut self.reason);
                self.cuts = if self.is_cut() { self.cuts + 1 } else { 0 };
                self.add(part);
            }
            "error" => self.error = Some(error(line.get("error").unwrap_or(&Value::Null))),
            _ => {}
        }
    }

    fn failure(&self) -> Option<Error> {
        let text = || format!("the model's answer broke off {} times in a row", self.cuts);
        (self.cuts > MOST_CUTS).then(|| failure::of(Category::Overloaded, text(), None))
    }

    fn end(self, ended: &Ended, out: &mut Vec<RunEvent>) -> Result<TurnComplete, Error> {
        let failed = match self.error {
            Some(error) => Some(error),
            None if !ended.exit.success() => Some(without_event(ended)),
            None if self.steps == 0 => Some(failure::of(
                Category::ProcessExit,
                format!("the agent ended without an answer; {}", ended.error()),
                None,
            )),
            None if self.is_cut() => Some(failure::of(
                Category::Overloaded,
                "the model's stream broke off; the answer is not whole",
                None,
            )),
            None if self.reason == "length" => {
                Some(Error::limit(Category::ContextExhausted, "the model has reached its output limit"))
            }
            None => None,
        };
        if let Some(error) = failed {
            out.extend(self.usage.map(Into::into));
            return Err(error);
        }
        Ok(TurnComplete {
            status: Some(Status::Completed),
            num_turns: Some(self.steps),
            usage: self.usage,
            ..TurnComplete::default()
        })
    }
}

impl OpencodeReader {
    /// Whether the last step ended without the end of the model's answer.
    fn is_cut(&self) -> bool {
        matches!(self.reason.as_str(), "other" | "unknown" | "error")
    }

    /// Adds a step's tokens and cost. What was read from a cache counts as read.
    fn add(&mut self, part: &Value) {
        let Some(tokens) = part.get("tokens") else { return };
        let sum =
            self.usage.get_or_insert_with(|| Usage { scope: Some(UsageScope::Turn), ..Usage::default() });
        let read = |path: &str| count(tokens, path).unwrap_or(0);
        let (cached, written, reasoning) = (read("/cache/read"), read("/cache/write"), read("/reasoning"));
        let add = |to: &mut Option<u64>, more: u64| *to = Some(to.unwrap_or(0).saturating_add(more));
        add(&mut sum.input_tokens, read("/input").saturating_add(cached).saturating_add(written));
        add(&mut sum.output_tokens, read("/output").saturating_add(reasoning));
        add(&mut sum.cache_read_tokens, cached);
        add(&mut sum.cache_write_tokens, written);
        add(&mut sum.reasoning_tokens, reasoning);
        if let Some(cost) = part.get("cost").and_then(Value::as_f64) {
            sum.cost_usd = Some(sum.cost_usd.unwrap_or(0.0) + cost);
        }
    }
}

/// A tool call, told once when it is done.
fn tool(part: &Value, out: &mut Vec<RunEvent>) {
    let (id, tool) = (text(part, "/callID"), text(part, "/tool"));
    let Some(mut start) = tool_start(id, tool, part.pointer("/state/input")) else { return };
    let title = text(part, "/state/title");
    start.title = (!title.is_empty()).then(|| title.to_owned());
    out.push(start.into());
    let failed = text(part, "/state/status") == "error"
        || part.pointer("/state/metadata/exit").and_then(Value::as_i64).unwrap_or(0) != 0;
    let content = match text(part, "/state/output") {
        "" => text(part, "/state/error"),
        content => content,
    };
    out.extend(tool_end(id, content, failed).map(Into::into));
}

/// An `error` line: an object, or a plain text.
fn error(error: &Value) -> Error {
    let message = [error.as_str(), error.pointer("/data/message").and_then(Value::as_str)];
    let message = message
        .into_iter()
        .chain([error.get("message").and_then(Value::as_str), error.get("name").and_then(Value::as_str)]);
    let message = message.flatten().next().unwrap_or("the agent reports an error");
    if message.contains("auto-rejected permission") {
        let hint = "the agent asked for a permission that this mode cannot ask for; use `transport: \"acp\"`";
        return failure::of(Category::PermissionDenied, format!("{message}; {hint}"), None);
    }
    let http = count(error, "/data/statusCode").and_then(|code| u16::try_from(code).ok());
    failure::failed(message, http)
}

fn without_event(ended: &Ended) -> Error {
    if failure::is_unknown_session(&ended.stderr) {
        return failure::of(Category::SessionNotFound, ended.error().to_string(), None);
    }
    ended.error()
}

#[cfg(test)]
mod tests;
