//! `trunkline serve`: the relay on stdin and stdout.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use tokio::signal::unix::{SignalKind, signal};
use trunkline_host::config::SessionMay;
use trunkline_journal::SyncMode;
use trunkline_relay::{RelayOptions, ToolsAsOutput};

use crate::{
    error::{CliError, CommandResult},
    exit,
    journal::{self, SOCKET},
    reload::ConfigReload,
    target::{AgentTarget, HostUse},
};

/// Serves the configured agents over stdin and stdout to a hub in any language
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline serve                                 every configured agent
  trunkline serve --agent claude-code             this agent, unless a session names another
  trunkline serve --adapter 'python3 adapter.py'  only that adapter
  trunkline serve --adapter 'python3 a.py' --also b='node b.js'
                                                  two adapters; a session selects the second by agent_id b
  trunkline serve --session-may env,mcp_servers   also lets sessions set these options

By hand; the pause keeps stdin open until the answer arrives:
  (printf '%s\\n' '{\"type\":\"session.start\",\"session_id\":\"a\"}' \\
    '{\"type\":\"user.input\",\"session_id\":\"a\",\"content\":\"hi\"}'; sleep 1) | trunkline serve

A session selects its agent by `session.start.agent_id`. The end of stdin, SIGTERM \
and a broken stdout end the command and its adapters within 4 s. SIGHUP reloads the \
configuration; open sessions keep their agents.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    target: AgentTarget,

    /// Further adapter besides --adapter, with the id by which sessions name it; may be repeated
    #[arg(long, value_name = "ID='CMD ARGS'", requires = "adapter")]
    also: Vec<String>,

    /// Options that sessions may set beyond harmless ones: names separated by commas, or `all`
    ///
    /// For every agent, in addition to `session_may` in its entry: cwd, add_dirs, mode,
    /// permission_mode, allowed_tools, allowed_domains, mcp_servers, skills, env, extra_args. Each
    /// of them lets the hub run programs of its choice, so use them only with a hub that you trust
    /// like yourself.
    #[arg(
        long,
        value_name = "OPTIONS",
        default_value = "",
        hide_default_value = true
    )]
    session_may: String,

    /// Sends tool calls and results to a hub without the extension `events`, as JSON on channel
    /// `tool`
    #[arg(long)]
    tools_as_output: bool,

    /// Stores sessions in the journal of this folder, so that they survive the hub, this process
    /// and their adapters [default: `runtime.journal` of the configuration]
    ///
    /// A hub with the extension `journal` receives each entry of a session once, even if it
    /// reconnects to another process on the same folder. See docs/sessions.md.
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,

    /// Durability of journal entries: `normal` survives the end of the host; `full` also a power
    /// cut, but is slower [default: `runtime.journal_sync` of the configuration, otherwise
    /// `normal`]
    #[arg(long, value_name = "SYNC", value_parser = parse_sync())]
    journal_sync: Option<SyncMode>,

    /// Accepts further hubs on a socket, and keeps running after the end of stdin until SIGTERM
    ///
    /// The socket is private to this user, and processes of agents cannot connect to it.
    #[arg(long, value_name = "unix:PATH", value_parser = parse_socket)]
    listen: Option<PathBuf>,
}

fn parse_sync() -> impl TypedValueParser<Value = SyncMode> {
    PossibleValuesParser::new(["normal", "full"]).map(|word| {
        if word == "full" {
            SyncMode::Full
        } else {
            SyncMode::Normal
        }
    })
}

fn parse_socket(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("unix:").filter(|path| !path.is_empty());
    path.map(PathBuf::from)
        .ok_or_else(|| "expected `unix:PATH`".to_owned())
}

impl ServeArgs {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        // From here on, SIGHUP does not end the program.
        let hangups = signal(SignalKind::hangup())?;
        let names = self
            .session_may
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let may = SessionMay::from_names(names)
            .map_err(|error| CliError::usage(error).next("correct --session-may"))?;
        let (chosen, reload) =
            ConfigReload::begin(&self.target, config, &self.also, may, HostUse::Pipe, None)?;
        chosen.any_may_run()?;
        let tools = if self.tools_as_output {
            ToolsAsOutput::Yes
        } else {
            ToolsAsOutput::No
        };
        let mut options = RelayOptions::default().tools_as_output(tools);
        let folder = journal::folder_for_target(self.journal.as_deref(), config, &self.target)?;
        if let Some(folder) = folder {
            let mut of_journal = chosen.journal;
            of_journal.sync = self.journal_sync.unwrap_or(of_journal.sync);
            let opened = journal::open(chosen.host.clone(), &folder, of_journal).await?;
            options = options
                .sessions(opened.map_err(CliError::usage)?)
                .socket(folder.join(SOCKET));
        } else if self.journal_sync.is_some() {
            return Err(
                CliError::usage(anyhow!("--journal-sync has no effect without a journal"))
                    .next("add --journal FOLDER, or `journal` to `runtime` of the configuration"),
            );
        }
        if let Some(socket) = self.listen {
            options = options.socket(socket).stays();
        }
        let report = tokio::select! {
            report = trunkline_relay::serve_stdio(chosen.host, options) => report,
            never = reload.reload_at_signals(hangups) => match never {},
        };
        let report = report.context("failed to set up stdin, stdout and the sockets")?;
        tracing::info!(?report, "the relay has ended");
        Ok(exit::OK)
    }
}
