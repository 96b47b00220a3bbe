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
    reload::Reload,
    target::{Processes, Target},
};

/// Serves every configured agent over stdin and stdout, to a hub in any language
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline serve                                 every configured agent
  trunkline serve --agent claude-code             that one, unless a session names another
  trunkline serve --adapter 'python3 adapter.py'  that adapter alone
  trunkline serve --adapter 'python3 a.py' --also b='node b.js'
                                                  two; a session asks for the second by agent_id b
  trunkline serve --session-may env,mcp_servers   lets sessions set these, too

By hand; the pause keeps stdin open until the answer is there:
  (printf '%s\\n' '{\"type\":\"session.start\",\"session_id\":\"a\"}' \\
    '{\"type\":\"user.input\",\"session_id\":\"a\",\"content\":\"hi\"}'; sleep 1) | trunkline serve

A session picks its agent by `session.start.agent_id`. The end of stdin, SIGTERM
and a broken stdout end it, and its adapters, within 4 s. SIGHUP reads the
configuration again: open sessions keep the agents that they have.")]
pub(crate) struct Serve {
    #[command(flatten)]
    target: Target,

    /// One more adapter beside --adapter, with the id that sessions name it by; may be repeated
    #[arg(long, value_name = "ID='CMD ARGS'", requires = "adapter")]
    also: Vec<String>,

    /// What sessions may set beyond what is harmless: names of options, with commas between, or `all`
    ///
    /// For every agent, on top of `session_may` in its entry: cwd, add_dirs, mode, permission_mode, allowed_tools,
    /// allowed_domains, mcp_servers, skills, env, extra_args. With any of them the hub can run programs of its choice:
    /// name them where it is trusted as you are.
    #[arg(
        long,
        value_name = "OPTIONS",
        default_value = "",
        hide_default_value = true
    )]
    session_may: String,

    /// Shows a hub without the extension `events` the calls of tools and their results, as JSON on channel `tool`
    #[arg(long)]
    tools_as_output: bool,

    /// Keeps a journal in this folder: sessions survive the hub, this process and their adapters [default: `journal` in
    /// `runtime` of the configuration]
    ///
    /// A hub that knows the extension `journal` gets each entry of a session once, even when it comes back to another
    /// process on the same folder. See docs/sessions.md.
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,

    /// What an entry of the journal survives: `normal`, the end of the host; `full`, a power cut too, and slower [default:
    /// `journal_sync` in `runtime` of the configuration, else `normal`]
    #[arg(long, value_name = "SYNC", value_parser = sync())]
    journal_sync: Option<SyncMode>,

    /// Takes further hubs on a socket, and stays when stdin ends, until SIGTERM
    ///
    /// The socket is this user's alone, and no process that an agent started may connect to it.
    #[arg(long, value_name = "unix:PATH", value_parser = socket)]
    listen: Option<PathBuf>,
}

fn sync() -> impl TypedValueParser<Value = SyncMode> {
    PossibleValuesParser::new(["normal", "full"]).map(|word| {
        if word == "full" {
            SyncMode::Full
        } else {
            SyncMode::Normal
        }
    })
}

fn socket(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("unix:").filter(|path| !path.is_empty());
    path.map(PathBuf::from)
        .ok_or_else(|| "only `unix:PATH` is known".to_owned())
}

impl Serve {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        // From now on it does not end the program.
        let hangups = signal(SignalKind::hangup())?;
        let names = self
            .session_may
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let may = SessionMay::from_names(names)
            .map_err(|error| CliError::usage(error).next("correct --session-may"))?;
        let (chosen, reload) =
            Reload::begin(&self.target, config, &self.also, may, Processes::One, None)?;
        chosen.any_may_run()?;
        let tools = if self.tools_as_output {
            ToolsAsOutput::Yes
        } else {
            ToolsAsOutput::No
        };
        let mut options = RelayOptions::default().tools_as_output(tools);
        let folder = match (&self.journal, &self.target.adapter) {
            // What an adapter of the command line gets is in no file.
            (None, Some(_)) => None,
            (given, _) => journal::folder(given.as_deref(), config)?,
        };
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
            never = reload.at_each(hangups) => match never {},
        };
        let report =
            report.context("failed to take stdin, stdout and its sockets for the protocol")?;
        tracing::info!(?report, "the relay has ended");
        Ok(exit::OK)
    }
}
