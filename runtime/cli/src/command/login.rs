//! `trunkline agents login`: logs an agent in, with the environment of its configuration entry.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus};
use std::time::{Duration, SystemTime};

use anstream::eprintln;
use anyhow::anyhow;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use trunkline_host::Host;
use trunkline_host::config::AgentConfig;
use trunkline_host::process::{ChildSpec, QueryOutput, child_environment, query};
use trunkline_host::redact;
use trunkline_profiles::Credentials;

use super::{doctor::installed, print_json, print_line};
use crate::error::{CliError, CommandResult};
use crate::private_file::write_private;
use crate::terminal::one_line;
use crate::{advice, exit, target};

/// Timeout for an agent's login status, and for its logout.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// Limit of an agent's login status, in characters.
const MAX_REPORT_CHARS: usize = 200;

/// Size limit of a login file, in bytes.
const MAX_AUTH_BYTES: u64 = 1024 * 1024;

/// Variables that a login needs to open a browser. A running agent does not need them.
const BROWSER_VARIABLES: [&str; 5] = [
    "BROWSER",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "COLORTERM",
];

/// Logs an agent in by its own login command
///
/// Runs the agent's login command on this terminal, with the agent's variables, and then reports
/// whether the agent is logged in. The agent stores the login. If an agent logs in within its own
/// interface, the command prints what to type there and starts it.
///
/// --logout ends the login that the agent stores, by the agent's own command or by ACP.
///
/// Without a user, --auth-file and --auth-variable write the agent's login file, such as
/// `auth.json` of Codex, with mode 0600. A newer file is preserved.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline agents login codex
  trunkline agents login claude-code --check && trunkline run --agent claude-code 'hello'
  trunkline agents login codex --auth-file /run/secrets/codex-auth.json
  trunkline agents login codex --auth-variable CODEX_AUTH_JSON
  trunkline agents login codex --logout

Exit codes: 0 the agent is logged in, 1 it is not logged in, 2 no login command is \
known for it, 3 it is not installed.")]
pub(super) struct LoginArgs {
    /// Agent, by its id in the configuration, or a built-in adapter by its name
    #[arg(value_name = "AGENT", add = crate::completion::agents())]
    agent: String,

    /// Reports whether the agent is logged in, without changes
    #[arg(long, conflicts_with = "auth")]
    check: bool,

    /// Ends the agent's login
    #[arg(long, conflicts_with_all = ["auth", "check"])]
    logout: bool,

    /// Prints the report as one JSON object
    #[arg(long, requires = "check")]
    json: bool,

    /// Writes this JSON file as the agent's login, unless the existing login is newer
    #[arg(long, value_name = "FILE", group = "auth")]
    auth_file: Option<PathBuf>,

    /// Writes the JSON of this variable as the agent's login, unless another login exists
    #[arg(long, value_name = "NAME", group = "auth")]
    auth_variable: Option<String>,

    /// Replaces an existing login
    #[arg(long, requires = "auth")]
    replace: bool,
}

impl LoginArgs {
    pub(super) async fn run(self, file: Option<&Path>) -> CommandResult {
        let agent = LoginAgent::find(file, &self.agent)?;
        if self.logout {
            return print_line(agent.log_out().await?);
        }
        if let Some(auth) = self.provided_login()? {
            return print_line(agent.write_auth(&auth, self.replace)?);
        }
        if self.check {
            let report = agent.read_report().await?;
            if self.json {
                print_json(&report)?;
            } else {
                print_line(report.text())?;
            }
            let is_logged_in = report.logged_in == Some(true);
            return Ok(if is_logged_in { exit::OK } else { exit::FAILED });
        }
        let status = agent.log_in()?;
        let report = agent.read_report().await?;
        print_line(report.text())?;
        match report.logged_in {
            Some(true) => Ok(exit::OK),
            // The agent cannot report its login; only the end of its login command is known.
            None if status.success() => Ok(exit::OK),
            Some(false) | None => Err(CliError::failed(anyhow!(
                "{} is not logged in: {} ended with {status}",
                agent.config.id,
                agent.credentials()?.login()
            ))
            .next(agent.credentials()?.hint(|name| agent.variable(name)))),
        }
    }

    /// Returns the login that the command line provides.
    fn provided_login(&self) -> Result<Option<ProvidedLogin>, CliError> {
        match (&self.auth_file, &self.auth_variable) {
            (Some(path), _) => ProvidedLogin::read(path).map(Some),
            (None, Some(name)) => ProvidedLogin::of_variable(name).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// A provided login: JSON, and its source.
struct ProvidedLogin {
    json: Vec<u8>,
    source: String,
    /// Time of the file's last change. `None` if it comes from a variable.
    modified: Option<SystemTime>,
}

impl ProvidedLogin {
    fn read(path: &Path) -> Result<Self, CliError> {
        let source = path.display().to_string();
        let read = || -> io::Result<_> {
            let file = File::open(path)?;
            let modified = file.metadata()?.modified()?;
            let mut json = Vec::new();
            file.take(MAX_AUTH_BYTES + 1).read_to_end(&mut json)?;
            Ok((json, Some(modified)))
        };
        let (json, modified) = read().map_err(|error| {
            CliError::usage(anyhow!(error).context(format!("failed to read {source}")))
                .next("use a file with the agent's login")
        })?;
        let auth = Self {
            json,
            source,
            modified,
        };
        auth.checked()
    }

    fn of_variable(name: &str) -> Result<Self, CliError> {
        let value = std::env::var(name).unwrap_or_default();
        if value.trim().is_empty() {
            return Err(CliError::usage(anyhow!("the variable {name} is not set"))
                .next("set it to the JSON of the agent's login, or use --auth-file"));
        }
        let auth = Self {
            json: value.into_bytes(),
            source: name.to_owned(),
            modified: None,
        };
        auth.checked()
    }

    /// Rejects a value that is not a login. The error quotes nothing of it.
    fn checked(self) -> Result<Self, CliError> {
        let why = if self.json.len() as u64 > MAX_AUTH_BYTES {
            format!("is longer than {MAX_AUTH_BYTES} bytes")
        } else if serde_json::from_slice::<Value>(&self.json).is_ok_and(|json| json.is_object()) {
            return Ok(self);
        } else {
            "is not a JSON object".to_owned()
        };
        Err(CliError::usage(anyhow!("{} {why}", self.source))
            .next("provide the complete login file of the agent"))
    }
}

/// An agent, and what its login needs.
struct LoginAgent {
    config: AgentConfig,
    /// `None` if its profile has no known login.
    credentials: Option<&'static Credentials>,
    /// The process of its adapter, whose variables the agent inherits.
    spec: ChildSpec,
    environment: BTreeMap<OsString, OsString>,
    /// Owner of the folder that contains the private folder of `spec`.
    _host: Host,
}

impl LoginAgent {
    fn find(file: Option<&Path>, id: &str) -> Result<Self, CliError> {
        let mut config = target::config(file)?;
        target::add_built_in(&mut config, id);
        let Some(agent) = config.agent(id) else {
            return Err(target::no_agent(Some(id), &config));
        };
        let profile = target::built_in(&agent.profile);
        let credentials = profile.and_then(|profile| profile.credentials());
        config.agents.retain(|agent| agent.id == id);
        config.default_agent = None;
        config.usage_log = false;
        let host = target::build(config)?;
        let (Some(status), Some(spec)) = (host.agent(id), host.child_spec(id)) else {
            return Err(CliError::usage(anyhow!("the agent {id} cannot run here"))
                .next(format!("`trunkline doctor {id}` shows the cause")));
        };
        let spec = spec.map_err(|error| CliError::usage(anyhow!("failed to {error}")))?;
        spec.register_secrets();
        let environment = child_environment(std::env::vars_os(), spec.inherit, [], &spec.env);
        Ok(Self {
            config: status.config,
            credentials,
            spec,
            environment: environment.variables,
            _host: host,
        })
    }

    /// Returns the login commands and variables of its profile.
    fn credentials(&self) -> Result<&'static Credentials, CliError> {
        self.credentials.ok_or_else(|| {
            let id = &self.config.id;
            let profile = self.config.profile.name();
            CliError::usage(anyhow!(
                "no login command is known for the agent {id}: its profile is {profile}"
            ))
            .next("log in by its own command, or add its variables to `env` or `env_passthrough`")
        })
    }

    /// Returns the value of a variable in the agent's environment.
    fn variable(&self, name: &str) -> Option<String> {
        let value = self.environment.get(OsStr::new(name))?;
        value.to_str().map(str::to_owned)
    }

    /// Returns path and arguments of a command of the agent. Its own program is the one that the
    /// entry names, with the entry's arguments first.
    fn command(
        &self,
        program: &str,
        arguments: &[String],
    ) -> Result<(PathBuf, Vec<String>), CliError> {
        let is_own =
            advice::wrapped_by(&self.config).is_some_and(|wrapped| wrapped.program == program);
        let configured = installed::configured_program(&self.config).filter(|_| is_own);
        let config = self.config.config.as_ref().filter(|_| is_own);
        let own_arguments = config.and_then(|config| config["args"].as_array());
        let own_arguments = own_arguments.into_iter().flatten();
        let own_arguments = own_arguments.filter_map(Value::as_str).map(str::to_owned);
        let path = installed::locate_program(
            &self.config,
            &self.spec,
            OsStr::new(configured.unwrap_or(program)),
        )?;
        let arguments = own_arguments.chain(arguments.iter().cloned());
        Ok((path, arguments.collect()))
    }

    /// Runs the agent's login on this terminal, and waits for its end.
    fn log_in(&self) -> Result<ExitStatus, CliError> {
        let login = self.credentials()?.login();
        let (program, arguments) = login.parts().unwrap_or_default();
        let (path, arguments) = self.command(program, arguments)?;
        if let Some(typed) = login.typed() {
            eprintln!("type {typed} in {program}, log in, and quit {program} to return here");
        }
        let for_browser = BROWSER_VARIABLES
            .iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut command = process::Command::new(&path);
        command
            .args(arguments)
            .env_clear()
            .envs(for_browser)
            .envs(&self.environment);
        if let Some(folder) = &self.spec.work_dir {
            command.current_dir(folder);
        }
        // Ctrl-C belongs to the agent, which may ask for confirmation.
        let _interrupts = signal(SignalKind::interrupt())?;
        command.status().map_err(|error| {
            CliError::not_started(anyhow!("failed to start {}: {error}", path.display())).next(
                format!("`trunkline doctor {}` checks the program", self.config.id),
            )
        })
    }

    /// Reports the login: by the agent's own check, and by the variables and the file that it uses.
    async fn read_report(&self) -> Result<LoginReport, CliError> {
        let value = |name: &str| self.variable(name);
        let credentials = self.credentials()?;
        let variables = credentials.found(value);
        let by_variable = variables
            .first()
            .map(|name| format!("{name} from the environment"));
        let sources = credentials.sources(value);
        let (logged_in, by) = match credentials.check() {
            Some(arguments) => match (self.run_check(arguments).await?, by_variable) {
                ((true, report), _) => (Some(true), report),
                ((false, _), Some(variable)) => (Some(true), variable),
                ((false, report), None) => (Some(false), report),
            },
            None => match sources.first() {
                Some(source) => (Some(true), source.clone()),
                None => (None, "the agent does not report its login".to_owned()),
            },
        };
        let next = (logged_in != Some(true)).then(|| credentials.hint(value));
        Ok(LoginReport {
            agent: self.config.id.clone(),
            logged_in,
            by,
            next,
        })
    }

    /// Runs the agent's own program with these arguments.
    async fn run_program(&self, arguments: &[String]) -> Result<QueryOutput, CliError> {
        let wrapped = advice::wrapped_by(&self.config).map_or("", |wrapped| wrapped.program);
        let (path, arguments) = self.command(wrapped, arguments)?;
        let mut spec = self.spec.clone();
        spec.program = path.into();
        spec.args = arguments.into_iter().map(OsString::from).collect();
        spec.config = None;
        spec.sandbox = None;
        let answer = query(spec, CHECK_TIMEOUT).await;
        answer.map_err(|error| CliError::not_started(anyhow!("failed to {error}")))
    }

    /// Runs the agent's own check. Returns its text, and true if it is logged in.
    async fn run_check(&self, arguments: &[String]) -> Result<(bool, String), CliError> {
        let answer = self.run_program(arguments).await?;
        let Some(end) = answer.exit else {
            return Ok((false, no_answer()));
        };
        let stdout = String::from_utf8_lossy(&answer.stdout);
        let (is_denied, report) = words_of_check(&stdout, &answer.stderr);
        Ok((end.success() && !is_denied, report))
    }

    /// Ends the login that the agent stores, by its own command or by its adapter. Returns the
    /// report.
    async fn log_out(&self) -> Result<String, CliError> {
        let id = &self.config.id;
        let command = self.credentials.and_then(Credentials::logout);
        let answer = match command {
            Some(arguments) => self.run_program(arguments).await?,
            // Any other program would treat the flag as a run.
            None if target::built_in(&self.config.profile).is_none() && !self.config.sdk => {
                return Err(CliError::usage(anyhow!(
                    "no logout command is known for the agent {id}"
                ))
                .next("log out by its own command"));
            }
            None => {
                let answer = query(self.spec.clone().arg("--log-out"), CHECK_TIMEOUT).await;
                answer.map_err(|error| CliError::not_started(anyhow!("failed to {error}")))?
            }
        };
        let is_out = answer.exit.is_some_and(|end| end.success());
        if !is_out {
            let stdout = String::from_utf8_lossy(&answer.stdout);
            let words = match answer.exit {
                Some(_) => words_of_check(&stdout, &answer.stderr).1,
                None => no_answer(),
            };
            return Err(CliError::failed(anyhow!("{id} did not log out: {words}"))
                .next("log out by its own command"));
        }
        let found = self
            .credentials
            .map(|it| it.found(|name| self.variable(name)));
        Ok(match found.iter().flatten().next() {
            Some(name) => format!("{id}: logged out; {name} from the environment still logs it in"),
            None => format!("{id}: logged out"),
        })
    }

    /// Writes a login to the agent's own file. Returns the report.
    fn write_auth(&self, auth: &ProvidedLogin, replace: bool) -> Result<String, CliError> {
        let id = &self.config.id;
        let credentials = self.credentials()?;
        let path = credentials.file(|name| self.variable(name));
        let is_json = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
        let Some(path) = path.filter(is_json) else {
            return Err(
                CliError::usage(anyhow!("{id} does not store its login in a JSON file"))
                    .next(credentials.hint(|name| self.variable(name))),
            );
        };
        // Resolves a link, so that it stays a link.
        let path = path.canonicalize().unwrap_or(path);
        let place = path.display();
        let source = &auth.source;
        let failed =
            |error: io::Error| CliError::failed(anyhow!("failed to write {place}: {error}"));
        let present = match std::fs::metadata(&path) {
            Ok(facts) => Some(facts),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        if let Some(facts) = present {
            if std::fs::read(&path).is_ok_and(|present| present == auth.json) {
                return Ok(format!("{place} already has the login of {source}"));
            }
            match auth.modified {
                _ if replace => {}
                Some(modified) if facts.modified().map_err(failed)? <= modified => {}
                Some(_) => {
                    return Ok(format!(
                        "{place} is newer than {source}; --replace overwrites it"
                    ));
                }
                None => {
                    return Err(CliError::failed(anyhow!(
                        "{place} differs from the login of {source}, and may be newer"
                    ))
                    .next("add --replace to overwrite it"));
                }
            }
        }
        write_private(&path, &auth.json).map_err(failed)?;
        Ok(format!("wrote {place} from {source}"))
    }
}

fn no_answer() -> String {
    format!(
        "no answer within {}",
        humantime::format_duration(CHECK_TIMEOUT)
    )
}

/// Login status of an agent.
#[derive(Debug, Serialize)]
struct LoginReport {
    agent: String,
    /// `None` if it is unknown: nothing was found, and the agent has no check.
    logged_in: Option<bool>,
    /// The agent's own text, or the source of the credentials.
    by: String,
    /// The next step if it is not logged in.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl LoginReport {
    fn text(&self) -> String {
        let state = match self.logged_in {
            Some(true) => "logged in",
            Some(false) => "not logged in",
            None => "no login found",
        };
        let line = match self.by.as_str() {
            "" => format!("{}: {state}", self.agent),
            by => format!("{}: {state} ({by})", self.agent),
        };
        match &self.next {
            Some(next) => format!("{line}\n next: {next}"),
            None => line,
        }
    }
}

/// Parses the login status that an agent prints: true if it reports no login, and its text. From
/// JSON, the text is the account and the method.
fn words_of_check(stdout: &str, stderr: &str) -> (bool, String) {
    if let Ok(Value::Object(status)) = serde_json::from_str(stdout) {
        let text = |name: &str| status.get(name).and_then(Value::as_str);
        let account = ["email", "account"].into_iter().find_map(text);
        let words: Vec<_> = account.into_iter().chain(text("authMethod")).collect();
        let is_denied = status.get("loggedIn") == Some(&Value::Bool(false));
        return (is_denied, clean_text(&words.join(", ")));
    }
    let is_own = |line: &&str| !line.trim().is_empty() && !line.starts_with("WARNING");
    let line = stdout.lines().chain(stderr.lines()).find(is_own);
    (false, clean_text(line.unwrap_or_default()))
}

/// Returns an agent's text on one line, with secrets redacted.
fn clean_text(words: &str) -> String {
    let line = one_line(&redact::text(words));
    line.chars().take(MAX_REPORT_CHARS).collect()
}
