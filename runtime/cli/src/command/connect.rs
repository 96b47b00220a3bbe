//! `trunkline connect`: the agents of this machine for the hub of another system.

mod register;

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueEnum};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};
use trunkline_client::{Client, ServerAddress};
use trunkline_connect::{
    ConnectError, ConnectOptions, Ended, RuntimeToken, TokenError, TokenFile, ToolDenial, WhenLost,
};
use trunkline_host::config::{AmurgHub, SessionMay};
use trunkline_profiles::PROFILES;
use trunkline_relay::{RelayOptions, RelayReport, serve};

use crate::{
    error::{CliError, CommandResult},
    exit,
    interrupt::stop_signal,
    journal,
    matching_daemon::{self, DaemonChoice},
    reload::Reload,
    target::{Processes, Target, UNCHECKED, read, tell},
};

/// How much is on its way between this process and the host in it, in bytes.
const PIPE: usize = 256 * 1024;

/// Serves the sessions of another system's hub with the agents of this machine
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline connect amurg --config amurg-runtime.json
  trunkline connect amurg --hub wss://hub.example.org --runtime-id box-1 --token-file token

docs/amurg.md has the first steps, and what becomes of each message.")]
pub(crate) struct Connect {
    #[command(subcommand)]
    system: System,
}

#[derive(Debug, Subcommand)]
enum System {
    Amurg(Box<Amurg>),
}

/// Is a runtime of an Amurg hub: people use the agents of this machine in its page
///
/// With --config FILE of Amurg's own runtime it takes that runtime's place: hub, token and id are
/// those of the file, and the hub knows the agents by their ids there. The sessions are those of
/// the daemon if it runs with the same configuration, otherwise of a host in this process. A
/// connection that breaks is made again. SIGTERM and Ctrl-C end it, and every turn has its end. See
/// docs/amurg.md.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline connect amurg --config amurg-runtime.json
  trunkline connect amurg --hub wss://hub.example.org --token-file token --init
  trunkline connect amurg --hub wss://hub.example.org --runtime-id box-1 --token-file token
  trunkline connect amurg --hub ws://127.0.0.1:8080 --runtime-id box-1 --token-file token --agents codex

The token file is its user's alone (chmod 600). A new token of the hub takes its place.")]
struct Amurg {
    /// The hub: wss://HOST or wss://HOST:PORT; on this machine ws://, too [default: `hub.url` of
    /// --config FILE]
    #[arg(long, value_name = "URL")]
    hub: Option<ServerAddress>,

    /// The id under which the hub knows this runtime [default: `runtime.id` of --config FILE]
    #[arg(long, value_name = "ID", value_parser = runtime_id)]
    runtime_id: Option<String>,

    /// Asks the hub for a token, which an administrator approves by a code, writes the token file and ends
    #[arg(long, conflicts_with_all = ["runtime_id", "agents", "adapter"])]
    init: bool,

    /// The file with the runtime's token [default: `hub.token` of --config FILE]
    #[arg(long, value_name = "FILE", required_if_eq("init", "true"))]
    token_file: Option<PathBuf>,

    /// The organisation [default: `runtime.org_id` of --config FILE, else the hub's]
    #[arg(long, value_name = "ORG")]
    org: Option<String>,

    /// The agents that the hub gets, by their ids, with commas between [default: all]
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    agents: Option<Vec<String>>,

    /// How long a session may rest before it is closed; its next message opens it again
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = crate::option_value::parse_time)]
    idle: Duration,

    /// What becomes of permissions that wait when the connection breaks
    #[arg(long, value_enum, default_value_t = Lost::Deny)]
    when_lost: Lost,

    /// Sends the token and all that is said without TLS to a hub on another machine
    #[arg(long)]
    insecure: bool,

    /// An adapter to serve instead of the configured agents: a command line, run without a shell
    #[arg(long, value_name = "'CMD ARGS'")]
    adapter: Option<String>,

    #[command(flatten)]
    daemon: DaemonChoice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lost {
    /// They are denied
    Deny,
    /// They wait, and are asked again
    Wait,
}

fn runtime_id(text: &str) -> Result<String, String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match (1..=64).contains(&text.len()) && text.chars().all(is_good) {
        true => Ok(text.to_owned()),
        false => Err("it has 1 to 64 letters, digits, `-`, `_` and `.`".to_owned()),
    }
}

/// The host whose sessions the hub gets.
struct Host {
    client: Client,
    /// The host in this process.
    own: Option<JoinHandle<RelayReport>>,
}

impl Connect {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        let System::Amurg(amurg) = self.system;
        amurg.run(config).await
    }
}

impl Amurg {
    async fn run(self, config: Option<&Path>) -> CommandResult {
        let file = amurg_hub(config)?;
        let hub = self.hub(&file)?;
        if hub.is_exposed() && !self.insecure {
            return Err(
                CliError::usage(anyhow!("{hub} would show the token to the network"))
                    .next("use wss://, or say --insecure"),
            );
        }
        if self.init
            && let Some(token_file) = &self.token_file
        {
            return register::register(&hub, &TokenFile::new(token_file)).await;
        }
        let runtime_id = self.runtime_id(&file)?;
        let token = self.token(&file)?;
        // The agents of the file only, and only for its own runtime: another one may have agents of
        // the same ids in the same hub.
        let bare_ids = file.runtime_id.as_ref() == Some(&runtime_id) && self.adapter.is_none();
        if self.token_file.is_none()
            && let Some(config) = config
        {
            tell_open(config);
        }
        tell(&file.notices);
        let stop = stop_signal()?;
        let Host { client, own } = self.host(config).await?;
        let options = ConnectOptions {
            address: hub,
            token,
            runtime_id,
            org: self.org.or(file.org),
            bare_ids,
            tool_denial,
            agents: self.agents,
            idle: self.idle,
            lost: if self.when_lost == Lost::Wait {
                WhenLost::Wait
            } else {
                WhenLost::Deny
            },
        };
        let ended = trunkline_connect::connect(options, client, stop).await;
        if let Some(own) = own {
            // Its hub has gone: it ends within 4 s.
            own.await
                .map_err(|error| CliError::failed(anyhow!(error).context("the host failed")))?;
        }
        match ended.map_err(told)? {
            Ended::Stopped => Ok(exit::OK),
            Ended::HostEnded => Err(CliError::failed(anyhow!(
                "the host of the sessions has ended"
            ))
            .next("start this again; without a daemon it is a host itself")),
        }
    }

    /// The address of the hub.
    fn hub(&self, file: &AmurgHub) -> Result<ServerAddress, CliError> {
        let url = match (&self.hub, &file.url) {
            (Some(hub), _) => return Ok(hub.clone()),
            (None, Some(url)) => url,
            (None, None) => return Err(missing("hub", "--hub", "hub.url")),
        };
        url.parse()
            .map_err(|error| wrong("hub.url", "--hub", &format!("{error}")))
    }

    /// The id of the runtime.
    fn runtime_id(&self, file: &AmurgHub) -> Result<String, CliError> {
        match (&self.runtime_id, &file.runtime_id) {
            (Some(id), _) => Ok(id.clone()),
            (None, Some(id)) => {
                runtime_id(id).map_err(|why| wrong("runtime.id", "--runtime-id", &why))
            }
            (None, None) => Err(missing("id of the runtime", "--runtime-id", "runtime.id")),
        }
    }

    fn token(&self, file: &AmurgHub) -> Result<RuntimeToken, CliError> {
        match (&self.token_file, &file.token) {
            (Some(path), _) => Ok(RuntimeToken::File(TokenFile::new(path))),
            (None, Some(token)) => Ok(RuntimeToken::Value(token.clone())),
            (None, None) => Err(missing("token", "--token-file", "hub.token")),
        }
    }

    /// The daemon, or a host in this process.
    async fn host(&self, config: Option<&Path>) -> Result<Host, CliError> {
        let mut target = Target::of_adapter(self.adapter.clone());
        target.serves_hub = true;
        if let Some(stream) = matching_daemon::stream(self.daemon, &target, config).await {
            let (input, output) = stream.into_split();
            return Ok(Host {
                client: journal::client(input, output).await?,
                own: None,
            });
        }
        // From now on it does not end the program.
        let hangups = signal(SignalKind::hangup())?;
        let (chosen, reload) = Reload::begin(
            &target,
            config,
            &[],
            SessionMay::default(),
            Processes::One,
            None,
        )?;
        chosen.any_may_run()?;
        let mut options = RelayOptions::default();
        let folder = if self.adapter.is_some() {
            None
        } else {
            journal::folder(None, config)?
        };
        if let Some(folder) = folder {
            let opened = journal::open(chosen.host.clone(), &folder, chosen.journal).await?;
            options = options.sessions(opened.map_err(CliError::usage)?);
        }
        let (near, far) = tokio::io::duplex(PIPE);
        let (input, output) = tokio::io::split(far);
        let own = tokio::spawn(async move {
            tokio::select! {
                report = serve(chosen.host, input, output, options) => report,
                never = reload.at_each(hangups) => match never {},
            }
        });
        let (input, output) = tokio::io::split(near);
        Ok(Host {
            client: journal::client(input, output).await?,
            own: Some(own),
        })
    }
}

/// The hub of the file that the command line names.
fn amurg_hub(config: Option<&Path>) -> Result<AmurgHub, CliError> {
    let Some(config) = config else {
        return Ok(AmurgHub::default());
    };
    let config = read(Some(config), UNCHECKED)?;
    Ok(config.amurg_hub.unwrap_or_default())
}

fn missing(what: &str, option: &str, key: &str) -> CliError {
    CliError::usage(anyhow!("there is no {what}")).next(format!(
        "name it by {option}, or by --config a file of Amurg's runtime, which has it in `{key}`"
    ))
}

fn wrong(key: &str, option: &str, why: &str) -> CliError {
    CliError::usage(anyhow!("`{key}` of the configuration: {why}"))
        .next(format!("correct the file, or name another one by {option}"))
}

/// Warns that others can read the file with the token.
fn tell_open(config: &Path) {
    let mode = std::fs::metadata(config).map_or(0, |found| found.permissions().mode());
    if mode & 0o077 != 0 {
        tell(&[format!(
            "others may read {path}, which has the token of the runtime; run chmod 600 {path}",
            path = config.display()
        )]);
    }
}

/// The way in which tools of an agent of a profile are denied: `echo` asks about every call.
fn tool_denial(profile: &str) -> Option<ToolDenial> {
    if profile == "echo" {
        return Some(ToolDenial::Permission);
    }
    let profile = PROFILES.iter().find(|known| known.name == profile)?;
    profile.denies_tools().then_some(ToolDenial::Adapter)
}

fn told(error: ConnectError) -> CliError {
    let next = match &error {
        ConnectError::Token(TokenError::Value) => "correct `hub.token` in the configuration",
        ConnectError::Token(_) => {
            "write the runtime's token to a file that is yours alone, and name it by --token-file"
        }
        ConnectError::NoAgent(_) => "`trunkline agents` lists those that there are",
        ConnectError::Refused(_) => "have the hub's administrator check --runtime-id and the token",
        ConnectError::Io { .. } => return CliError::failed(error),
    };
    CliError::usage(error).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtimes_id_has_nothing_that_means_something_elsewhere() {
        for good in ["a", "box-1", "A_b.9", &"x".repeat(64)] {
            assert_eq!(runtime_id(good).as_deref(), Ok(good));
        }
        for bad in ["", "a:b", "a b", "ä", "a/b", &"x".repeat(65)] {
            assert!(runtime_id(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tools_are_denied_where_the_adapter_enforces_it_or_asks_about_every_call() {
        for (profile, expected) in [
            ("claude-code", Some(ToolDenial::Adapter)),
            ("github-copilot", Some(ToolDenial::Adapter)),
            ("echo", Some(ToolDenial::Permission)),
            ("codex", None),
            ("generic-cli", None),
            ("external", None),
        ] {
            assert_eq!(tool_denial(profile), expected, "{profile}");
        }
    }
}
