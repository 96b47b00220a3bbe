//! The daemon as the host of a command, if one runs that does what a host in this process would do.

use std::{io, path::Path, time::Duration};

use clap::Args;
use tokio::{net::UnixStream, time::timeout};
use trunkline_client::connect_unix;
use trunkline_host::{config::AgentConfig, protocol::SessionStart};

use crate::{
    daemon::{self, Folder, Running},
    journal,
    overrides::Overrides,
    session_backend::SessionBackend,
    target::{Target, tell},
};

/// Timeout for the daemon to open a session. A command does not wait for one that is stopped.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The options that choose between the daemon and a host in this process.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct DaemonChoice {
    /// Runs the agent in this process, though a daemon runs with the same configuration
    #[arg(long)]
    pub(crate) no_daemon: bool,
}

/// A daemon that has the same configuration.
pub(crate) struct MatchingDaemon {
    folder: Folder,
    running: Running,
    agent: AgentConfig,
    /// The folder that its session names.
    cwd: Option<String>,
    notices: Vec<String>,
}

/// A session of the daemon.
pub(crate) struct DaemonSession {
    pub(crate) session: SessionBackend,
    /// Its agent, as configured there and here.
    pub(crate) agent: AgentConfig,
    /// The options of the session.
    pub(crate) start: SessionStart,
}

/// Finds the daemon that does what a host in this process would do. `None` if there is none: the
/// log has the reason why a running one does not.
pub(crate) fn find(
    choice: DaemonChoice,
    target: &Target,
    overrides: &Overrides,
    config: Option<&Path>,
) -> Option<MatchingDaemon> {
    let (folder, running) = if choice.no_daemon { None } else { noted() }?;
    log_refusal(fitting(folder, running, target, overrides, config))
}

/// Logs the reason why this process is the host.
fn log_refusal<T>(found: Result<T, String>) -> Option<T> {
    found
        .inspect_err(|why| tracing::info!("this process is the host, not the daemon: {why}"))
        .ok()
}

/// The daemon that has noted itself, running or not.
fn noted() -> Option<(Folder, Running)> {
    let folder = daemon::folder()?;
    let running = folder.running().ok()?;
    Some((folder, running))
}

fn fitting(
    folder: Folder,
    running: Running,
    target: &Target,
    overrides: &Overrides,
    config: Option<&Path>,
) -> Result<MatchingDaemon, String> {
    if let Some(option) = overrides.of_own_host() {
        return Err(of_own_host(option));
    }
    let (agent, notices) = same(&running, target, config)?;
    let cwd = folder_to_name(overrides, &agent, &running)?;
    Ok(MatchingDaemon {
        folder,
        running,
        agent,
        cwd,
        notices,
    })
}

fn of_own_host(option: &str) -> String {
    format!("{option} is for a host of this command's own")
}

/// Returns the agent that is meant, and notices, if the daemon has the same configuration.
fn same(
    running: &Running,
    target: &Target,
    config: Option<&Path>,
) -> Result<(AgentConfig, Vec<String>), String> {
    if let Some(option) = target.of_own_host() {
        return Err(of_own_host(option));
    }
    let effective = target.effective(config);
    let (agent, effective, notices) =
        effective.ok_or("what is wrong with the configuration is said here")?;
    match running.configuration.as_ref() == Some(&effective) {
        true => Ok((agent, notices)),
        false => Err(
            "its configuration is another; `trunkline reload` has it read its file again"
                .to_owned(),
        ),
    }
}

/// Connects to the daemon that does what a host in this process would do, for a hub that opens
/// sessions itself. `None` if there is none: the log has the reason why a running one does not.
pub(crate) async fn stream(
    choice: DaemonChoice,
    target: &Target,
    config: Option<&Path>,
) -> Option<UnixStream> {
    let (_, running) = if choice.no_daemon { None } else { noted() }?;
    let same = log_refusal(same(&running, target, config));
    let (_, notices) = same?;
    let stream = log_refusal(connect(&running).await.map_err(|error| error.to_string()))?;
    tell(&notices);
    tracing::info!("the daemon is the host of the sessions");
    Some(stream)
}

/// The folder that a session names, if its agent works in another one otherwise.
fn folder_to_name(
    overrides: &Overrides,
    agent: &AgentConfig,
    running: &Running,
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
        _ if agent.sandbox.is_some() => Err("its agent's sandbox has another folder".to_owned()),
        // It could be silent about it, and would be waited for.
        _ if !agent.sdk => Err(
            "its agent works in another folder, and does not say whether it can work here"
                .to_owned(),
        ),
        Ok(here) => Ok(Some(here)),
        Err(_) => Err("the name of this folder is not UTF-8".to_owned()),
    }
}

impl MatchingDaemon {
    /// Opens a session, with an id that begins with `prefix`. `None` if the daemon has ended, refuses
    /// it or does not answer within 10 s: a host in this process opens it.
    ///
    /// # Cancel safety
    /// Cancelling may leave an open session.
    pub(crate) async fn open(self, prefix: &str) -> Option<DaemonSession> {
        log_refusal(self.try_open(prefix).await)
    }

    async fn try_open(self, prefix: &str) -> Result<DaemonSession, String> {
        let Self {
            folder,
            running,
            agent,
            cwd,
            notices,
        } = self;
        let stream = connect(&running).await.map_err(|error| error.to_string())?;
        let (input, output) = stream.into_split();
        let start = SessionStart {
            cwd,
            ..SessionStart::default()
        };
        let opened = async {
            let client = journal::client(input, output).await?;
            SessionBackend::open(client, prefix, Some(agent.id.clone()), start.clone()).await
        };
        let opened = timeout(OPEN_TIMEOUT, opened)
            .await
            .map_err(|_| "it does not answer")?;
        let mut session = opened.map_err(|fault| fault.text())?;
        if start.cwd.is_some() && !session.works_there().await {
            let id = session.id().clone();
            session.close().await;
            // An empty session, which may stay.
            let _ = folder.remove(id.as_str()).await;
            return Err("its agent works where the daemon was started alone".to_owned());
        }
        tell(&notices);
        tracing::info!("the daemon is the host of the session {}", session.id());
        Ok(DaemonSession {
            session,
            agent,
            start,
        })
    }
}

/// Connects to the daemon itself: another host may listen in its journal's folder.
async fn connect(running: &Running) -> io::Result<UnixStream> {
    let stream = connect_unix(&running.socket).await?;
    let pid = stream
        .peer_cred()?
        .pid()
        .and_then(|pid| u32::try_from(pid).ok());
    match pid == Some(running.pid) {
        true => Ok(stream),
        false => Err(io::Error::other("another process listens there")),
    }
}
