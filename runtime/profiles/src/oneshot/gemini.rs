//! `gemini --output-format stream-json`, one run a turn.

mod repetition;

use serde_json::Value;
use trunkline_sdk::protocol::{Output, Usage, UsageScope};
use trunkline_sdk::{Category, Error, TurnComplete};

use self::repetition::Repetition;
use super::{Native, Reader, RunEvent, Runs};
use crate::acp::{AcpAgent, Transport};
use crate::agent::end::EndSigns;
use crate::agent::failure;
use crate::agent::launch::Launch;
use crate::agent::options::Options;
use crate::agent::process::Ended;
use crate::agent::settings::settings;
use crate::agent::version::Version;
use crate::agents;
use crate::oneshot::json::{count, text, tool_end, tool_start};

settings! {
    /// The configuration, key `gemini`.
    struct Gemini, "gemini";
    {
        /// How the agent is spoken to.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools that no one is asked about, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// How tools are permitted: `default`, `auto_edit`, `plan`; `yolo` only with `dangerous`.
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
        let file = agents::built_in("gemini-cli");
        Self(AcpAgent::new(
            &file.name,
            file,
            settings.common(),
            &settings,
        ))
    }
}

impl Runs for GeminiRuns {
    const HONOURS: &'static [&'static str] = &["add_dirs", "mode", "permission_mode"];

    type Reader = GeminiReader;

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
        _: &GeminiReader,
    ) -> Launch {
        let launch = options
            .launch()
            .args(["--output-format", "stream-json"])
            .option("--approval-mode", Some(self.approval_mode(options)));
        let launch = self
            .0
            .with_options(launch, options, version, &mut Vec::new());
        match session {
            Native::Unknown => launch,
            Native::Chosen(id) => launch.arg("--session-id").arg(id),
            Native::Known(id) => launch.arg("--resume").arg(id),
        }
    }

    fn chooses_id(&self, version: Option<Version>) -> bool {
        self.0.since().has("--session-id", version)
    }

    fn reader(&self, _: Option<Version>) -> GeminiReader {
        GeminiReader::default()
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
    model: Option<String>,
    signs: EndSigns,
}

impl Reader for GeminiReader {
    fn line(&mut self, line: &Value, out: &mut Vec<RunEvent>) {
        match text(line, "/type") {
            "init" => {
                let (id, model) = (text(line, "/session_id"), text(line, "/model"));
                if !id.is_empty() {
                    out.push(RunEvent::Session(id.to_owned()));
                }
                if !model.is_empty() {
                    self.model = Some(model.to_owned());
                    out.push(RunEvent::Model(model.to_owned()));
                }
            }
            // The user's own words come back as a message too.
            "message" if text(line, "/role") == "assistant" => {
                if let Some(piece) = self.held.take(text(line, "/content")) {
                    out.push(Output::text(piece).into());
                }
            }
            "tool_use" => {
                self.flush(out);
                let (id, tool) = (text(line, "/tool_id"), text(line, "/tool_name"));
                out.extend(tool_start(id, tool, line.get("parameters")).map(Into::into));
            }
            "tool_result" => {
                self.flush(out);
                let failed = text(line, "/status") == "error";
                let content = match text(line, "/output") {
                    "" => text(line, "/error/message"),
                    output => output,
                };
                out.extend(tool_end(text(line, "/tool_id"), content, failed).map(Into::into));
            }
            "error" => {
                let message = text(line, "/message");
                let http = http_in(message);
                // `{"type":"error","message":…}` without a severity is a failure of older versions.
                if text(line, "/severity") == "warning" {
                    // `Loop detected…` ends the turn as a success.
                    self.signs.doubt(failure::failed(message, http));
                    let category = failure::classify(message, None);
                    out.push(failure::warning(category, message).into());
                } else {
                    self.signs.note_error(failure::failed(message, http));
                }
            }
            "result" => self.result = Some(line.clone()),
            _ => {}
        }
    }

    fn is_over(&self) -> bool {
        self.result.is_some()
    }

    fn signs(&mut self) -> &mut EndSigns {
        &mut self.signs
    }

    fn end(mut self, ended: &Ended, out: &mut Vec<RunEvent>) -> (EndSigns, TurnComplete) {
        let result = self.result.take();
        let status = result.as_ref().map(|result| text(result, "/status"));
        if let Some(rest) = self.held.end(status != Some("success"))
            && !rest.is_empty()
        {
            let rest = Output::text(rest).into();
            self.signs.note_event(&rest);
            out.push(RunEvent::Event(rest));
        }
        match status {
            Some("success") => self.signs.report(Ok(())),
            Some(status) => {
                let message = match (
                    text(result.as_ref().unwrap_or(&Value::Null), "/error/message"),
                    self.signs.last_error(),
                ) {
                    ("", Some(error)) => error.to_string(),
                    ("", None) => format!("gemini ended the turn with status {status:?}"),
                    (message, _) => message.to_owned(),
                };
                let http = http_of(ended.exit.code).or_else(|| http_in(&message));
                self.signs.report(Err(match ended.exit.code {
                    Some(53) => Error::limit(Category::MaxTurns, message),
                    _ => failure::failed(message, http),
                }));
            }
            None if self.signs.last_error().is_none() => {
                self.signs.report(Err(without_result(ended)))
            }
            None => {}
        }
        let result = result.unwrap_or_default();
        let end = TurnComplete {
            duration_ms: count(&result, "/stats/duration_ms"),
            usage: usage(&result, self.model.as_deref()),
            model: self.model,
            ..TurnComplete::default()
        };
        (self.signs, end)
    }
}

impl GeminiReader {
    fn flush(&mut self, out: &mut Vec<RunEvent>) {
        if let Some(piece) = self.held.boundary() {
            out.push(Output::text(piece).into());
        }
    }
}

/// An end without a result, by its exit code.
fn without_result(ended: &Ended) -> Error {
    let of = |category, what: &str| {
        let said = ended.error();
        failure::of(category, format!("{what}: {said}"), None)
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
