//! The daemon as the host of a command, if it would do the same as a host in this process.

use std::{io, path::Path, time::Duration};

use clap::Args;
use tokio::{net::UnixStream, time::timeout};
use trunkline_client::connect_unix;
use trunkline_host::{config::AgentConfig, protocol::SessionStart};

use crate::{
    daemon::{self, DaemonFolder, RunningDaemon},
    journal,
    open_session::OpenSession,
    overrides::AgentOverrides,
    session_backend::SessionBackend,
    target::{AgentTarget, print_notices},
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

/// Opens a session whose id starts with `prefix` in the daemon that would do the same as a host in
/// this process. `None` if there is none, or if it refuses or does not answer within 10 s; the log
/// has the reason if one is running.
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
    let (folder, running) = if choice.no_daemon {
        None
    } else {
        recorded_daemon()
    }?;
    log_refusal(try_open(prefix, folder, running, target, overrides, config).await)
}

/// Logs the reason why this process is the host.
fn log_refusal<T>(found: Result<T, String>) -> Option<T> {
    found
        .inspect_err(|why| tracing::info!("this process runs the session, not the daemon: {why}"))
        .ok()
}

/// Returns the recorded daemon, running or not.
fn recorded_daemon() -> Option<(DaemonFolder, RunningDaemon)> {
    let folder = daemon::folder()?;
    let running = folder.running().ok()?;
    Some((folder, running))
}

fn own_host_option(option: &str) -> String {
    format!("{option} requires a host in this process")
}

/// Returns the selected agent, and notices, if the daemon has the same configuration.
fn matching_agent(
    running: &RunningDaemon,
    target: &AgentTarget,
    config: Option<&Path>,
) -> Result<(AgentConfig, Vec<String>), String> {
    if let Some(option) = target.own_host_option() {
        return Err(own_host_option(option));
    }
    let effective = target.effective(config);
    let (agent, effective, notices) = effective.ok_or("the configuration is invalid")?;
    if running.configuration.as_ref() == Some(&effective) {
        Ok((agent, notices))
    } else {
        Err(
            "its configuration differs; `trunkline daemon reload` makes it reload the file"
                .to_owned(),
        )
    }
}

/// Connects to the daemon that would do the same as a host in this process, for a hub that opens
/// sessions itself. `None` if there is none; the log has the reason if one is running.
pub(crate) async fn connect_stream(
    choice: DaemonChoice,
    target: &AgentTarget,
    config: Option<&Path>,
) -> Option<UnixStream> {
    let (_, running) = if choice.no_daemon {
        None
    } else {
        recorded_daemon()
    }?;
    let same = log_refusal(matching_agent(&running, target, config));
    let (_, notices) = same?;
    let stream = log_refusal(connect(&running).await.map_err(|error| error.to_string()))?;
    print_notices(&notices);
    tracing::info!("the daemon runs the sessions");
    Some(stream)
}

/// Returns the folder that a session must name, if its agent would otherwise work in another one.
fn folder_to_name(
    overrides: &AgentOverrides,
    agent: &AgentConfig,
    running: &RunningDaemon,
) -> Result<Option<String>, String> {
    let of_agent = &agent.command.work_dir;
    let own = std::env::current_dir().map_err(|error| error.to_string())?;
    let here = overrides
        .cwd()
        .map_or_else(|| own.join(of_agent), |chosen| own.join(chosen));
    let here = here
        .canonicalize()
        .map_err(|error| format!("{}: {error}", here.display()))?;
    if running
        .folder
        .join(of_agent)
        .canonicalize()
        .is_ok_and(|there| there == here)
    {
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
) -> Result<OpenSession, String> {
    if let Some(option) = overrides.own_host_option() {
        return Err(own_host_option(option));
    }
    let (agent, notices) = matching_agent(&running, target, config)?;
    let start = SessionStart {
        cwd: folder_to_name(overrides, &agent, &running)?,
        ..SessionStart::default()
    };
    let stream = connect(&running).await.map_err(|error| error.to_string())?;
    let (input, output) = stream.into_split();
    let opened = async {
        let client = journal::connect_streams(input, output).await?;
        SessionBackend::open(client, prefix, Some(agent.id.clone()), start.clone()).await
    };
    let opened = timeout(OPEN_TIMEOUT, opened)
        .await
        .map_err(|_| "it does not answer")?;
    let mut session = opened.map_err(|fault| fault.text())?;
    if start.cwd.is_some() && !session.works_there().await {
        let id = session.id().clone();
        session.close().await;
        // Ignored: an empty session may remain.
        let _ = folder.remove_session(&id).await;
        return Err("its agent works only in the folder of the daemon".to_owned());
    }
    print_notices(&notices);
    tracing::info!("the daemon runs the session {}", session.id());
    Ok(OpenSession::in_daemon(session, agent, start))
}

/// Connects to the daemon itself: another host may listen in its journal's folder.
async fn connect(running: &RunningDaemon) -> io::Result<UnixStream> {
    let stream = connect_unix(&running.socket).await?;
    let pid = stream
        .peer_cred()?
        .pid()
        .and_then(|pid| u32::try_from(pid).ok());
    if pid == Some(running.pid) {
        Ok(stream)
    } else {
        Err(io::Error::other("another process listens there"))
    }
}
