//! `gemini --output-format stream-json`, one run a turn.

mod repetition;

use serde_json::Value;
use trunkline_sdk::protocol::{Usage, UsageScope};
use trunkline_sdk::{Category, Error, TurnComplete};

use self::repetition::Repetition;
use super::adapter::built_in;
use super::{Native, RunProgress, RunReader, Runs};
use crate::acp::{AcpAgent, Transport};
use crate::agent::failure;
use crate::agent::launch::Launch;
use crate::agent::options::Options;
use crate::agent::process::ProcessEnd;
use crate::agent::settings::settings;
use crate::agent::version::Version;
use crate::oneshot::json::{count, text};

settings! {
    /// The configuration, key `gemini`.
    struct Gemini, "gemini";
    {
        /// Transport to the agent.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools unasked, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// Approval mode: `default`, `auto_edit`, `plan`; `yolo` only with `dangerous`.
        approval_mode: String = String::new(),
        /// A file whose text takes the place of the agent's own instructions.
        system_prompt_file: String = String::new(),
        /// More directories that the agent may work in.
        include_directories: Vec<String> = Vec::new(),
        /// Runs the agent's tools in its own sandbox.
        sandbox: bool = false,
    }
}

/// The dialect, with its agent.
#[derive(Clone)]
pub(crate) struct GeminiRuns(AcpAgent);

impl From<Gemini> for GeminiRuns {
    fn from(settings: Gemini) -> Self {
        Self(built_in("gemini-cli", settings.common(), &settings))
    }
}

impl Runs for GeminiRuns {
    const HONOURS: &'static [&'static str] = &["add_dirs", "mode", "permission_mode"];

    type OutputReader = GeminiReader;

    fn agent(&self) -> &AcpAgent {
        &self.0
    }

    fn check(&self, options: &Options, version: Option<Version>) -> Result<(), Error> {
        self.0.since().need("--resume", "this profile", version)?;
        if self.approval_mode(options) == "yolo" && !self.0.is_dangerous() {
            let why = "approval mode `yolo` runs every tool unasked; it needs `dangerous: true` in the configuration";
            return Err(Error::new(Category::PermissionDenied, why));
        }
        Ok(())
    }

    fn launch(
        &self,
        options: &Options,
        version: Option<Version>,
        session: &Native,
    ) -> (Launch, GeminiReader) {
        let launch = options
            .launch()
            .args(["--output-format", "stream-json"])
            .option("--approval-mode", Some(self.approval_mode(options)));
        let launch = self
            .0
            .with_options(launch, options, version, &mut Vec::new());
        let launch = match session {
            Native::Unknown => launch,
            Native::Chosen(id) => launch.arg("--session-id").arg(id),
            Native::Known(id) => launch.arg("--resume").arg(id),
        };
        (launch, GeminiReader::default())
    }

    fn chooses_id(&self, version: Option<Version>) -> bool {
        self.0.since().has("--session-id", version)
    }
}

impl GeminiRuns {
    /// `default`, `auto_edit`, `yolo` or `plan`; empty is the CLI's own default.
    fn approval_mode<'o>(&'o self, options: &'o Options) -> &'o str {
        let asked = options
            .permission_mode
            .as_deref()
            .or(options.mode.as_deref());
        asked.unwrap_or(self.0.configured_mode())
    }
}

/// Reads the lines of one run.
#[derive(Debug, Default)]
pub(crate) struct GeminiReader {
    held: Repetition,
    result: Option<Value>,
}

impl RunReader for GeminiReader {
    fn line(&mut self, line: &Value, run: &mut RunProgress) {
        match text(line, "/type") {
            "init" => {
                run.session(text(line, "/session_id"));
                run.model(text(line, "/model"));
            }
            // The user's own words come back as a message too.
            "message" if text(line, "/role") == "assistant" => {
                let piece = self.held.take(text(line, "/content"));
                run.output(&piece.unwrap_or_default(), "");
            }
            "tool_use" => {
                run.output(&self.held.boundary().unwrap_or_default(), "");
                let id = text(line, "/tool_id");
                let tool = text(line, "/tool_name");
                run.tool_start(id, tool, "", line.get("parameters"));
            }
            "tool_result" => {
                run.output(&self.held.boundary().unwrap_or_default(), "");
                let output = text(line, "/output");
                let error = text(line, "/error/message");
                let failed = text(line, "/status") == "error";
                run.tool_end(text(line, "/tool_id"), output, error, failed);
            }
            "error" => {
                let message = text(line, "/message");
                let error = failure::failed(message, http_in(message));
                // `{"type":"error","message":…}` without a severity is a failure of older versions.
                if text(line, "/severity") == "warning" {
                    // `Loop detected…` ends the turn as a success.
                    run.signs.doubt(error);
                    let category = failure::classify(message, None);
                    run.emit(failure::warning(category, message));
                } else {
                    run.signs.note_error(error);
                }
            }
            "result" => {
                run.is_over = true;
                self.result = Some(line.clone());
            }
            _ => {}
        }
    }

    fn end(mut self, ended: &ProcessEnd, run: &mut RunProgress) -> TurnComplete {
        let status = self.result.as_ref().map(|result| text(result, "/status"));
        let rest = self.held.end(status != Some("success"));
        run.output(&rest.unwrap_or_default(), "");
        let last_error = run.signs.last_error();
        let code = ended.exit.code;
        match &self.result {
            Some(_) if status == Some("success") => run.signs.report(Ok(())),
            Some(result) => {
                let message = match (text(result, "/error/message"), last_error) {
                    ("", Some(error)) => error.to_string(),
                    ("", None) => {
                        format!(
                            "gemini ended the turn with status {:?}",
                            text(result, "/status")
                        )
                    }
                    (message, _) => message.to_owned(),
                };
                let http = http_of(code).or_else(|| http_in(&message));
                run.signs.report(Err(match code {
                    Some(53) => Error::limit(Category::MaxTurns, message),
                    _ => failure::failed(message, http),
                }));
            }
            None if last_error.is_none() => run.signs.report(Err(without_result(ended))),
            None => {}
        }
        let result = self.result.unwrap_or_default();
        TurnComplete {
            duration_ms: count(&result, "/stats/duration_ms"),
            usage: usage(&result, run.model.as_deref()),
            ..TurnComplete::default()
        }
    }
}

/// An end without a result, by its exit code.
fn without_result(ended: &ProcessEnd) -> Error {
    let of = |category, what: &str| {
        let said = ended.error();
        failure::with_category(category, format!("{what}: {said}"), None)
    };
    match ended.exit.code {
        Some(41) => of(Category::Auth, "gemini has no credentials"),
        Some(42)
            if failure::is_unknown_session(&ended.stderr)
                || ["session identifier", "No previous sessions found"]
                    .iter()
                    .any(|said| ended.stderr.contains(said)) =>
        {
            of(Category::SessionNotFound, "there is no such session")
        }
        Some(42) => of(Category::Other, "gemini refused its command line"),
        Some(53) => Error::limit(Category::MaxTurns, ended.error().to_string()),
        Some(55) => of(
            Category::PermissionDenied,
            "the folder is not trusted; trust it in `gemini`, or set GEMINI_CLI_TRUST_WORKSPACE=true in `env`",
        ),
        code => match http_of(code) {
            Some(http) => failure::failed(ended.error().to_string(), Some(http)),
            None => ended.error(),
        },
    }
}

/// A failed request exits with its HTTP status modulo 256.
fn http_of(code: Option<i32>) -> Option<u16> {
    let code = u16::try_from(code?).ok()?;
    match code {
        144..=195 => Some(code + 256),
        244..=255 => Some(code + 256),
        _ => None,
    }
}

/// The status within the provider's own words: `{"error":{"code":401,…}}`.
fn http_in(message: &str) -> Option<u16> {
    let at = message.find("\"code\":")?;
    let digits: String = message[at + 7..]
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .take(3)
        .collect();
    digits.parse().ok().filter(|code| (400..600).contains(code))
}

fn usage(result: &Value, model: Option<&str>) -> Option<Usage> {
    let stats = result.get("stats")?;
    let read = |path| count(stats, path);
    Some(Usage {
        input_tokens: Some(read("/input_tokens")?),
        output_tokens: read("/output_tokens"),
        total_tokens: read("/total_tokens"),
        cache_read_tokens: read("/cached"),
        model: model.map(str::to_owned),
        scope: Some(UsageScope::Turn),
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests;
