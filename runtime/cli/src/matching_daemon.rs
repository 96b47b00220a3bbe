//! The daemon as the host of a command, if it would do the same as a host in this process.

use std::{io, path::Path, time::Duration};

use clap::Args;
use tokio::{net::UnixStream, time::timeout};
use trunkline_client::connect_unix;
use trunkline_host::{
    config::{AgentConfig, defaults},
    protocol::SessionStart,
};

use crate::{
    daemon::{self, DaemonFolder, RunningDaemon},
    journal,
    open_session::OpenSession,
    overrides::AgentOverrides,
    session_backend::SessionBackend,
    target::{AgentTarget, EffectiveConfig, RESTART, is_no_work_dir, print_notices},
};

/// Timeout for the daemon to open a session, in case it hangs.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Options that choose between the daemon and a host in this process.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct DaemonChoice {
    /// Runs the agent in this process, even if a daemon runs with the same configuration
    #[arg(long)]
    pub(crate) no_daemon: bool,
}

/// Reason why this process is the host, although a daemon is recorded.
struct DaemonBypass {
    why: String,
    /// Next step. `None` if the user has chosen this, or no daemon is running.
    next: Option<String>,
}

impl DaemonBypass {
    /// The user must know: nothing else shows that the daemon does not have the session.
    fn noted(why: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            next: Some(next.into()),
        }
    }

    fn expected(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            next: None,
        }
    }

    fn check_own_host_option(option: Option<&str>) -> Result<(), Self> {
        option.map_or(Ok(()), |option| {
            Err(Self::expected(format!(
                "{option} requires a host in this process"
            )))
        })
    }

    /// Reports the reason: as a note if the user must know, otherwise in the log.
    fn report(&self, consequence: &str) {
        let why = format!(
            "this process runs the session, not the daemon: {}",
            self.why
        );
        match &self.next {
            None => tracing::info!("{why}"),
            Some(next) => print_notices(&[format!(
                "{why}; {consequence}{next}, or add --no-daemon to omit this note"
            )]),
        }
    }
}

/// Opens a session whose id starts with `prefix` in the daemon that would do the same as a host in
/// this process. `None` if there is none, or if it refuses or does not answer within 10 s. A note
/// has the reason if a daemon is running, unless the user has chosen a host in this process.
///
/// # Cancel safety
/// Cancelling may leave an open session.
pub(crate) async fn open(
    prefix: &str,
    choice: DaemonChoice,
    target: &AgentTarget,
    overrides: &AgentOverrides,
    config: Option<&Path>,
) -> Option<OpenSession> {
    let (folder, running) = recorded_daemon(choice)?;
    let opened = try_open(prefix, folder, running, target, overrides, config).await;
    opened
        .inspect_err(|bypass| bypass.report("the session is not stored; "))
        .ok()
}

/// Returns the recorded daemon, running or not.
fn recorded_daemon(choice: DaemonChoice) -> Option<(DaemonFolder, RunningDaemon)> {
    let folder = daemon::folder().filter(|_| !choice.no_daemon)?;
    let running = folder.running().ok()?;
    Some((folder, running))
}

/// Connects to the daemon, and returns the selected agent, its configuration and notices, if the
/// daemon runs the agent as this process would.
async fn connect_matching(
    running: &RunningDaemon,
    target: &AgentTarget,
    config: Option<&Path>,
) -> Result<(UnixStream, AgentConfig, EffectiveConfig, Vec<String>), DaemonBypass> {
    DaemonBypass::check_own_host_option(target.own_host_option())?;
    let stream = connect(running).await?;
    let (agent, own, notices) = target
        .effective(config)
        // The host in this process reports the error.
        .ok_or_else(|| DaemonBypass::expected("the configuration is invalid"))?;
    let of_daemon = running.effective.as_ref().ok_or_else(|| {
        let why = "it runs an adapter of its command line, or is another version of trunkline";
        DaemonBypass::noted(why, RESTART)
    })?;
    of_daemon
        .check_agent(&agent.id, &own)
        .map_err(|(why, next)| DaemonBypass::noted(why, next))?;
    Ok((stream, agent, own, notices))
}

/// Connects to the daemon that would do the same as a host in this process, for a hub that opens
/// sessions itself. `None` if there is none; a note has the reason if one is running.
pub(crate) async fn connect_stream(
    choice: DaemonChoice,
    target: &AgentTarget,
    config: Option<&Path>,
) -> Option<UnixStream> {
    let (_, running) = recorded_daemon(choice)?;
    let matching = connect_matching(&running, target, config).await;
    let (stream, _, _, notices) = matching.inspect_err(|bypass| bypass.report("")).ok()?;
    print_notices(&notices);
    tracing::info!("the daemon runs the sessions");
    Some(stream)
}

/// Returns the folder that a session must name, if its agent would otherwise work in another one.
/// An installed agent that no configuration names works in the home folder only if it is named.
fn folder_to_name(
    overrides: &AgentOverrides,
    agent: &AgentConfig,
    is_configured: bool,
    running: &RunningDaemon,
) -> Result<Option<String>, String> {
    let of_agent = &agent.command.work_dir;
    let needs_name = !is_configured && is_no_work_dir(&running.folder);
    let own = std::env::current_dir().map_err(|error| error.to_string())?;
    let here = overrides
        .cwd()
        .map_or_else(|| own.join(of_agent), |chosen| own.join(chosen));
    let here = here
        .canonicalize()
        .map_err(|error| format!("{}: {error}", here.display()))?;
    let there = running.folder.join(of_agent).canonicalize();
    if !needs_name && there.is_ok_and(|there| there == here) {
        return Ok(None);
    }
    match here.into_os_string().into_string() {
        _ if agent.sandbox.is_some() => Err("its agent's sandbox uses another folder".to_owned()),
        // The agent could ignore the folder silently.
        _ if !agent.sdk => Err(
            "its agent works in another folder, and does not report whether it can work here"
                .to_owned(),
        ),
        Ok(here) => Ok(Some(here)),
        Err(_) => Err("the name of this folder is not UTF-8".to_owned()),
    }
}

async fn try_open(
    prefix: &str,
    folder: DaemonFolder,
    running: RunningDaemon,
    target: &AgentTarget,
    overrides: &AgentOverrides,
    config: Option<&Path>,
) -> Result<OpenSession, DaemonBypass> {
    DaemonBypass::check_own_host_option(overrides.own_host_option())?;
    let (stream, agent, own, notices) = connect_matching(&running, target, config).await?;
    let in_its_folder = || format!("run the command in {}", running.folder.display());
    let is_configured = own.file.is_some() || agent.id == defaults::BUILT_IN_AGENT;
    let cwd = folder_to_name(overrides, &agent, is_configured, &running)
        .map_err(|why| DaemonBypass::noted(why, in_its_folder()))?;
    let start = SessionStart {
        cwd,
        ..SessionStart::default()
    };
    let (input, output) = stream.into_split();
    let opened = async {
        let client = journal::connect_streams(input, output).await?;
        SessionBackend::open(client, prefix, Some(agent.id.clone()), start.clone()).await
    };
    let opened = timeout(OPEN_TIMEOUT, opened).await.map_err(|_| {
        let limit = OPEN_TIMEOUT.as_secs();
        DaemonBypass::noted(
            format!("it did not open the session within {limit} s"),
            "see `trunkline daemon status`",
        )
    })?;
    let mut session = opened
        .map_err(|error| DaemonBypass::noted(error.text(), "see `trunkline daemon status`"))?;
    if start.cwd.is_some() && !session.works_there().await {
        let id = session.id().clone();
        session.close().await;
        // Ignored: an empty session may remain.
        let _ = folder.remove_session(&id).await;
        let why = "its agent works only in the folder of the daemon";
        return Err(DaemonBypass::noted(why, in_its_folder()));
    }
    print_notices(&notices);
    tracing::info!("the daemon runs the session {}", session.id());
    Ok(OpenSession::in_daemon(session, agent, start))
}

/// Connects to the daemon itself: another host may listen in its journal's folder.
async fn connect(running: &RunningDaemon) -> Result<UnixStream, DaemonBypass> {
    let stream = connect_unix(&running.socket).await.map_err(|error| {
        let why = error.to_string();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                DaemonBypass::expected(why)
            }
            _ => DaemonBypass::noted(why, "see `trunkline daemon status`"),
        }
    })?;
    let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
    if peer.and_then(|pid| u32::try_from(pid).ok()) == Some(running.pid) {
        Ok(stream)
    } else {
        Err(DaemonBypass::expected("another process listens there"))
    }
}
