//! `trunkline daemon connect`: serves the agents of this machine to the hub of another system.

mod register;

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use trunkline_client::{Client, ServerAddress};
use trunkline_connect::{
    ConnectError, ConnectOptions, ConnectorEnd, RuntimeToken, TokenError, TokenFile, ToolDenial,
    WhenLost,
};
use trunkline_host::config::{AmurgHub, SessionMay};
use trunkline_profiles::PROFILES;
use trunkline_relay::RelayOptions;

use crate::{
    error::{CliError, CommandResult},
    exit,
    interrupt::{InterruptSignals, stop_signal},
    journal::{self, HostTask},
    matching_daemon::{self, DaemonChoice},
    reload::ConfigReload,
    target::{AgentTarget, HostUse, UNCHECKED, print_notices, read},
};

/// Serves the agents of this machine to another system's hub
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  trunkline daemon connect amurg --config amurg-runtime.json
  trunkline daemon connect amurg --hub wss://hub.example.org --runtime-id box-1 --token-file token

See docs/amurg.md for the first steps, and for the mapping of messages.")]
pub(crate) enum HubSystem {
    Amurg(Box<AmurgArgs>),
}

/// Connects to an Amurg hub as a runtime, so that its users can use the agents of this machine
///
/// With --config FILE of Amurg's own runtime, it replaces that runtime: it uses the file's hub,
/// token and id, and the hub finds the agents under their ids in the file. The daemon runs the
/// sessions if it has the same configuration, otherwise a host in this process. A lost connection
/// is restored. SIGTERM and Ctrl-C end the command after its turns have ended. See docs/amurg.md.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline daemon connect amurg --config amurg-runtime.json
  trunkline daemon connect amurg --hub wss://hub.example.org --token-file token --init
  trunkline daemon connect amurg --hub wss://hub.example.org --runtime-id box-1 --token-file token
  trunkline daemon connect amurg --hub ws://127.0.0.1:8080 --runtime-id box-1 --token-file token --agents codex

The token file must be private (chmod 600). A new token of the hub replaces it.")]
pub(crate) struct AmurgArgs {
    /// Address of the hub: wss://HOST or wss://HOST:PORT; also ws:// on this machine [default:
    /// `hub.url` of --config FILE]
    #[arg(long, value_name = "URL")]
    hub: Option<ServerAddress>,

    /// Id of this runtime in the hub [default: `runtime.id` of --config FILE]
    #[arg(long, value_name = "ID", value_parser = runtime_id)]
    runtime_id: Option<String>,

    /// Requests a token from the hub, waits until an administrator approves the shown code, writes
    /// the token file and ends
    #[arg(long, conflicts_with_all = ["runtime_id", "agents", "adapter"])]
    init: bool,

    /// File with the runtime's token [default: `hub.token` of --config FILE]
    #[arg(long, value_name = "FILE", required_if_eq("init", "true"))]
    token_file: Option<PathBuf>,

    /// Organisation [default: `runtime.org_id` of --config FILE, otherwise the hub's]
    #[arg(long, value_name = "ORG")]
    org: Option<String>,

    /// Ids of the agents to serve, separated by commas [default: all]
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    agents: Option<Vec<String>>,

    /// Idle time after which a session is closed; its next message reopens it
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = crate::option_value::parse_time)]
    idle: Duration,

    /// Handling of pending permission requests when the connection is lost
    #[arg(long, value_enum, default_value_t = LostConnectionPolicy::Deny)]
    when_lost: LostConnectionPolicy,

    /// Allows an unencrypted connection to a hub on another machine, including the token
    #[arg(long)]
    insecure: bool,

    /// Command line of an adapter to serve instead of the configured agents, run without a shell
    #[arg(long, value_name = "'CMD ARGS'")]
    adapter: Option<String>,

    #[command(flatten)]
    daemon: DaemonChoice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LostConnectionPolicy {
    /// Deny them
    Deny,
    /// Keep them pending and ask again
    Wait,
}

fn runtime_id(text: &str) -> Result<String, String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=64).contains(&text.len()) && text.chars().all(is_good) {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 64 letters, digits, `-`, `_` and `.`".to_owned())
    }
}

impl AmurgArgs {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        let file = amurg_hub(config)?;
        let hub = self.hub_address(&file)?;
        if hub.is_exposed() && !self.insecure {
            return Err(CliError::usage(anyhow!(
                "the connection to {hub} would expose the token to the network"
            ))
            .next("use wss://, or add --insecure"));
        }
        if self.init
            && let Some(token_file) = &self.token_file
        {
            return register::register_runtime(&hub, &TokenFile::new(token_file)).await;
        }
        let runtime_id = self.runtime_id(&file)?;
        let token = self.runtime_token(&file)?;
        // Only for the agents of the file in its own runtime: another runtime may have agents with
        // the same ids in the same hub.
        let bare_ids = file.runtime_id.as_ref() == Some(&runtime_id) && self.adapter.is_none();
        if self.token_file.is_none()
            && let Some(config) = config
        {
            warn_if_readable_by_others(config);
        }
        print_notices(&file.notices);
        let stop = stop_signal()?;
        let (client, own) = self.host(config).await?;
        let options = ConnectOptions {
            address: hub,
            token,
            runtime_id,
            org: self.org.or(file.org),
            bare_ids,
            tool_denial,
            agents: self.agents,
            idle: self.idle,
            lost: if self.when_lost == LostConnectionPolicy::Wait {
                WhenLost::Wait
            } else {
                WhenLost::Deny
            },
        };
        let ended = trunkline_connect::connect(options, client, stop).await;
        if let Some(own) = own {
            // Its only client is closed, so it ends within 4 s.
            own.end(&mut InterruptSignals::watch()?).await?;
        }
        match ended.map_err(to_cli_error)? {
            ConnectorEnd::Stopped => Ok(exit::OK),
            ConnectorEnd::HostEnded => Err(CliError::failed(anyhow!(
                "the host of the sessions has ended"
            ))
            .next("run the command again; without a daemon it starts its own host")),
        }
    }

    /// Returns the address of the hub.
    fn hub_address(&self, file: &AmurgHub) -> Result<ServerAddress, CliError> {
        let url = match (&self.hub, &file.url) {
            (Some(hub), _) => return Ok(hub.clone()),
            (None, Some(url)) => url,
            (None, None) => return Err(missing_option("hub", "--hub", "hub.url")),
        };
        url.parse()
            .map_err(|error| invalid_value("hub.url", "--hub", &format!("{error}")))
    }

    /// Returns the id of the runtime.
    fn runtime_id(&self, file: &AmurgHub) -> Result<String, CliError> {
        match (&self.runtime_id, &file.runtime_id) {
            (Some(id), _) => Ok(id.clone()),
            (None, Some(id)) => {
                runtime_id(id).map_err(|why| invalid_value("runtime.id", "--runtime-id", &why))
            }
            (None, None) => Err(missing_option(
                "id of the runtime",
                "--runtime-id",
                "runtime.id",
            )),
        }
    }

    fn runtime_token(&self, file: &AmurgHub) -> Result<RuntimeToken, CliError> {
        match (&self.token_file, &file.token) {
            (Some(path), _) => Ok(RuntimeToken::File(TokenFile::new(path))),
            (None, Some(token)) => Ok(RuntimeToken::Value(token.clone())),
            (None, None) => Err(missing_option("token", "--token-file", "hub.token")),
        }
    }

    /// Connects to the daemon, or to a host in this process, which is returned.
    async fn host(&self, config: Option<&Path>) -> Result<(Client, Option<HostTask>), CliError> {
        let mut target = AgentTarget::of_adapter(self.adapter.clone());
        target.serves_hub = true;
        if let Some(stream) = matching_daemon::connect_stream(self.daemon, &target, config).await {
            let (input, output) = stream.into_split();
            return Ok((journal::connect_streams(input, output).await?, None));
        }
        // From here on, SIGHUP does not end the program.
        let hangups = signal(SignalKind::hangup())?;
        let (chosen, reload) = ConfigReload::begin(
            &target,
            config,
            &[],
            SessionMay::default(),
            HostUse::Pipe,
            None,
        )?;
        chosen.any_may_run()?;
        let mut options = RelayOptions::default();
        if let Some(folder) = journal::folder_for_target(None, config, &target)? {
            let opened = journal::open(chosen.host.clone(), &folder, chosen.journal).await?;
            options = options.sessions(opened.map_err(CliError::usage)?);
        }
        tokio::spawn(reload.reload_at_signals(hangups));
        let (client, own) = journal::serve_here(chosen.host, options).await?;
        Ok((client, Some(own)))
    }
}

/// Reads the hub of the file that the command line names.
fn amurg_hub(config: Option<&Path>) -> Result<AmurgHub, CliError> {
    let Some(config) = config else {
        return Ok(AmurgHub::default());
    };
    let config = read(Some(config), UNCHECKED)?;
    Ok(config.amurg_hub.unwrap_or_default())
}

fn missing_option(what: &str, option: &str, key: &str) -> CliError {
    CliError::usage(anyhow!("the {what} is missing")).next(format!(
        "set {option}, or `{key}` in a file of Amurg's runtime given by --config"
    ))
}

fn invalid_value(key: &str, option: &str, why: &str) -> CliError {
    CliError::usage(anyhow!("`{key}` of the configuration: {why}"))
        .next(format!("correct the file, or set {option}"))
}

/// Warns if others can read the file with the token.
fn warn_if_readable_by_others(config: &Path) {
    let mode = std::fs::metadata(config).map_or(0, |found| found.permissions().mode());
    if mode & 0o077 != 0 {
        print_notices(&[format!(
            "other users can read {}, which contains the runtime's token: run `chmod 600` on it",
            config.display()
        )]);
    }
}

/// Returns the way in which a profile's tools can be denied: `echo` asks about every call.
fn tool_denial(profile: &str) -> Option<ToolDenial> {
    if profile == "echo" {
        return Some(ToolDenial::Permission);
    }
    let profile = PROFILES.iter().find(|known| known.name == profile)?;
    profile.denies_tools().then_some(ToolDenial::Adapter)
}

fn to_cli_error(error: ConnectError) -> CliError {
    let next = match &error {
        ConnectError::Token(TokenError::Value) => "correct `hub.token` in the configuration",
        ConnectError::Token(_) => {
            "write the runtime's token to a private file, and set --token-file to it"
        }
        ConnectError::NoAgent(_) => "`trunkline agents` lists the agents",
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
