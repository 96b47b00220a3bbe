//! `trunkline connect`: the agents of this machine for the hub of another system.

mod register;

use std::{
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
use trunkline_connect::{ConnectError, ConnectOptions, Ended, TokenFile, WhenLost};
use trunkline_host::config::SessionMay;
use trunkline_relay::{RelayOptions, RelayReport, serve};

use crate::{
    error::{CliError, CommandResult},
    exit,
    interrupt::stop_signal,
    journal,
    matching_daemon::{self, DaemonChoice},
    reload::Reload,
    target::{Processes, Target},
};

/// How much is on its way between this process and the host in it, in bytes.
const PIPE: usize = 256 * 1024;

/// Serves the sessions of another system's hub with the agents of this machine
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
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
/// The sessions are those of the daemon where it runs with the same configuration, else of a host in this process. A
/// connection that breaks is made anew. SIGTERM and Ctrl-C end it, and every turn has its end. See docs/amurg.md.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline connect amurg --hub wss://hub.example.org --token-file token --init
  trunkline connect amurg --hub wss://hub.example.org --runtime-id box-1 --token-file token
  trunkline connect amurg --hub ws://127.0.0.1:8080 --runtime-id box-1 --token-file token --agents codex

The token file is its user's alone (chmod 600). A new token of the hub takes its place.")]
struct Amurg {
    /// The hub: wss://HOST or wss://HOST:PORT; on this machine ws://, too
    #[arg(long, value_name = "URL")]
    hub: ServerAddress,

    /// The id under which the hub knows this runtime
    #[arg(long, value_name = "ID", value_parser = runtime_id, required_unless_present = "init")]
    runtime_id: Option<String>,

    /// Asks the hub for a token, which an administrator approves by a code, writes the token file and ends
    #[arg(long, conflicts_with_all = ["runtime_id", "agents", "adapter"])]
    init: bool,

    /// The file with the runtime's token
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,

    /// The organisation [default: the hub's]
    #[arg(long, value_name = "ORG")]
    org: Option<String>,

    /// The agents that the hub gets, by their ids, with commas between [default: all]
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    agents: Option<Vec<String>>,

    /// How long a session may rest before it is closed; its next message opens it again
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = humantime::parse_duration)]
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
        if self.hub.is_exposed() && !self.insecure {
            return Err(CliError::usage(anyhow!(
                "{} would show the token to the network",
                self.hub
            ))
            .next("use wss://, or say --insecure"));
        }
        let Some(runtime_id) = self.runtime_id.clone() else {
            return register::register(&self.hub, &TokenFile::new(&self.token_file)).await;
        };
        let stop = stop_signal()?;
        let Host { client, own } = self.host(config).await?;
        let options = ConnectOptions {
            address: self.hub,
            token: TokenFile::new(self.token_file),
            runtime_id,
            org: self.org,
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

    /// The daemon, or a host in this process.
    async fn host(&self, config: Option<&Path>) -> Result<Host, CliError> {
        let target = Target::of_adapter(self.adapter.clone());
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

fn told(error: ConnectError) -> CliError {
    let next = match &error {
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
}
