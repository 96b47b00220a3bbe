//! Journal of a command: its folder, and its host, which may be this process.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, anyhow};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
};
use trunkline_client::{Client, ReconnectPolicy, SocketPath, Streams, connect_unix};
use trunkline_host::{
    Host,
    config::{Config, JournalSync},
};
use trunkline_journal::{Damaged, OpenError, Options, SyncMode};
use trunkline_relay::{RelayOptions, RelayReport, serve_beside_sockets};
use trunkline_sessions::{Archive, Sessions};

use crate::{
    daemon,
    error::CliError,
    interrupt::InterruptSignals,
    matching_daemon::DaemonChoice,
    overrides::AgentOverrides,
    target::{self, AgentTarget},
};

/// Name of the socket in the folder of a journal.
pub(crate) const SOCKET: &str = "host.sock";

/// Size of the pipe between this process and its own host, in bytes.
const PIPE: usize = 256 * 1024;

/// Timeout for a host with the journal's lock to listen.
const LISTENS: Duration = Duration::from_secs(5);

/// Interval of attempts to connect.
const LOOK: Duration = Duration::from_millis(50);

/// Returns the folder named by the command line or the configuration.
///
/// # Errors
/// The configuration is invalid.
pub(crate) fn folder(
    given: Option<&Path>,
    config: Option<&Path>,
) -> Result<Option<PathBuf>, CliError> {
    match given {
        Some(folder) => Ok(Some(folder.to_owned())),
        None => Ok(target::read(config, target::UNCHECKED)?.journal),
    }
}

/// Returns the folder of [`folder`] for an agent that `--adapter` may name; no configuration file
/// applies to such an agent.
///
/// # Errors
/// The configuration is invalid.
pub(crate) fn folder_for_target(
    given: Option<&Path>,
    config: Option<&Path>,
    target: &AgentTarget,
) -> Result<Option<PathBuf>, CliError> {
    match (given, &target.adapter) {
        (None, Some(_)) => Ok(None),
        _ => folder(given, config),
    }
}

/// Returns the journal of a conversation to continue: the folder of [`folder_for_target`], otherwise the
/// daemon's, unless the command line requires a host in this process.
///
/// # Errors
/// There is no journal, or the configuration is invalid.
pub(crate) fn folder_to_continue(
    given: Option<&Path>,
    config: Option<&Path>,
    target: &AgentTarget,
    choice: DaemonChoice,
) -> Result<PathBuf, CliError> {
    let takes_daemon = !choice.no_daemon && target.adapter.is_none();
    folder_for_target(given, config, target)?
        .or_else(|| daemon::journal().filter(|_| takes_daemon))
        .ok_or_else(no_journal_error)
}

/// Returns the error for a session that the journal does not have.
pub(crate) fn no_session(id: &str, folder: &Path) -> CliError {
    CliError::usage(anyhow!("the journal has no session {id:?}")).next(format!(
        "`trunkline sessions --journal {}` lists its sessions",
        folder.display()
    ))
}

/// Returns the journal options of a configuration.
pub(crate) fn options(config: &Config) -> Options {
    let mut options = Options::default();
    options.sync = match config.journal_sync {
        JournalSync::Normal => SyncMode::Normal,
        JournalSync::Full => SyncMode::Full,
    };
    let limits = &config.journal_limits;
    let retention = &mut options.retention;
    (retention.age, retention.bytes, retention.sessions) =
        (limits.max_age, limits.max_bytes, limits.max_sessions);
    options
}

/// Returns the folder of [`folder`], or the daemon's if it exists.
///
/// # Errors
/// The configuration is invalid.
pub(crate) fn folder_or_daemons(
    given: Option<&Path>,
    config: Option<&Path>,
) -> Result<Option<PathBuf>, CliError> {
    Ok(folder(given, config)?.or_else(daemon::journal))
}

/// The error of a command that needs a journal when there is none.
pub(crate) fn no_journal_error() -> CliError {
    CliError::usage(anyhow!("no journal was found: no daemon has run here, and no folder is given"))
        .next("start the daemon by `trunkline up`, or give the folder of `trunkline serve` by --journal FOLDER")
}

/// Opens a journal for reading, even if another process has it.
///
/// # Errors
/// The journal cannot be read.
pub(crate) fn open_archive(folder: &Path) -> Result<Archive, CliError> {
    Archive::open(folder).map_err(|error| refused(error, folder))
}

/// Returns the error for a journal that was not opened, with the next step.
pub(crate) fn refused(error: OpenError, folder: &Path) -> CliError {
    if folder.exists() {
        return CliError::usage(error);
    }
    CliError::usage(anyhow!("{}: no such folder", folder.display()))
        .next("use the folder of `trunkline serve --journal FOLDER`")
}

/// Returns true if a host listens in the folder of a journal.
pub(crate) fn has_host(folder: &Path) -> bool {
    SocketPath::new(&folder.join(SOCKET))
        .and_then(|path| std::os::unix::net::UnixStream::connect(path.as_path()))
        .is_ok()
}

/// Creates a client of the host at the other end of these streams. It ends with them: the end of a
/// host is reported at once.
///
/// # Errors
/// The host is not reached.
pub(crate) async fn connect_streams(
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<Client, CliError> {
    let policy = ReconnectPolicy::default().fail_fast();
    let client = Client::connect_with(Streams::new(input, output), policy).await;
    client.map_err(CliError::failed)
}

/// Connects to the host of a journal. `None` if no host listens there.
///
/// # Errors
/// The host accepts no connection.
pub(crate) async fn connect(folder: &Path) -> Result<Option<Client>, CliError> {
    let socket = folder.join(SOCKET);
    match connect_unix(&socket).await {
        Ok(stream) => {
            let (input, output) = stream.into_split();
            connect_streams(input, output).await.map(Some)
        }
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(CliError::failed(anyhow!(error).context(format!(
            "failed to connect to the host at {}",
            socket.display()
        )))
        .next("connect as the user that runs the host")),
    }
}

/// Opens a journal for a host.
///
/// # Errors
/// The journal was not opened.
pub(crate) async fn open(
    host: Host,
    folder: &Path,
    options: Options,
) -> Result<Result<Sessions, OpenError>, CliError> {
    let folder = folder.to_owned();
    open_blocking(move || Sessions::open(host, &folder, options)).await
}

/// Opens a journal for a host whose sessions are recorded in a cluster.
///
/// # Errors
/// The journal was not opened.
#[cfg(feature = "cluster")]
pub(crate) async fn open_recorded(
    host: Host,
    folder: &Path,
    options: Options,
    record: std::sync::Arc<dyn trunkline_sessions::Record>,
) -> Result<Result<Sessions, OpenError>, CliError> {
    let folder = folder.to_owned();
    open_blocking(move || Sessions::open_recorded(host, &folder, options, record)).await
}

async fn open_blocking(
    open: impl FnOnce() -> Result<(Sessions, Vec<Damaged>), OpenError> + Send + 'static,
) -> Result<Result<Sessions, OpenError>, CliError> {
    let opened = tokio::task::spawn_blocking(open)
        .await
        .context("failed to open the journal")?;
    Ok(opened.map(|(sessions, damaged)| {
        for damage in damaged {
            tracing::warn!("the journal is damaged: {}", damage.damage);
        }
        sessions
    }))
}

/// Host in this process, with or without a journal.
pub(crate) struct HostTask {
    serving: JoinHandle<io::Result<RelayReport>>,
}

/// Connects to the host of a journal, which is this process if there is no other.
///
/// # Errors
/// There is no host.
pub(crate) async fn connect_or_serve(
    folder: &Path,
    host: impl FnOnce() -> Result<(Host, Options), CliError>,
) -> Result<(Client, Option<HostTask>), CliError> {
    if let Some(client) = connect(folder).await? {
        return Ok((client, None));
    }
    let (host, options) = host()?;
    let deadline = tokio::time::Instant::now() + LISTENS;
    loop {
        match open(host.clone(), folder, options.clone()).await? {
            Ok(sessions) => {
                let options = RelayOptions::default()
                    .sessions(sessions)
                    .socket(folder.join(SOCKET));
                let (client, holder) = serve_here(host, options).await?;
                return Ok((client, Some(holder)));
            }
            // The host has started, and does not listen yet.
            Err(OpenError::InUse { .. }) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(LOOK).await;
                if let Some(client) = connect(folder).await? {
                    return Ok((client, None));
                }
            }
            Err(error) => return Err(refused(error, folder)),
        }
    }
}

/// Makes a call to the host of the journal, or to a host in this process that ends with the call.
///
/// # Errors
/// There is no host, or the call failed.
pub(crate) async fn call<T>(
    folder: &Path,
    host: impl FnOnce() -> Result<(Host, Options), CliError>,
    call: impl AsyncFnOnce(Client) -> T,
) -> Result<T, CliError> {
    let (client, holder) = connect_or_serve(folder, host).await?;
    let called = call(client).await;
    if let Some(holder) = holder {
        holder.end(&mut InterruptSignals::watch()?).await?;
    }
    Ok(called)
}

/// Makes a call as [`call`] does; a host in this process has the agents of the target.
///
/// # Errors
/// As for [`call`], or the configuration is invalid.
pub(crate) async fn call_with_agents<T>(
    folder: &Path,
    target: &AgentTarget,
    config: Option<&Path>,
    made: impl AsyncFnOnce(Client) -> T,
) -> Result<T, CliError> {
    let host = || {
        let (chosen, _) = target.host_for(config, &AgentOverrides::default())?;
        Ok((chosen.host, chosen.journal))
    };
    call(folder, host, made).await
}

/// Serves a client in this process. The host ends with the client.
///
/// # Errors
/// The host is not reached.
pub(crate) async fn serve_here(
    host: Host,
    options: RelayOptions,
) -> Result<(Client, HostTask), CliError> {
    let (near, far) = tokio::io::duplex(PIPE);
    let (input, output) = tokio::io::split(far);
    let serving = tokio::spawn(serve_beside_sockets(host, input, output, options));
    let (input, output) = tokio::io::split(near);
    Ok((connect_streams(input, output).await?, HostTask { serving }))
}

impl HostTask {
    /// Ends the host, whose client must be closed or dropped: running turns are stopped, and the
    /// journal is closed. An interrupt skips the wait.
    ///
    /// # Errors
    /// The host failed.
    pub(crate) async fn end(self, interrupts: &mut InterruptSignals) -> Result<(), CliError> {
        tokio::select! {
            served = self.serving => {
                served.context("the host failed")?.context("failed to listen in the journal's folder")?;
            }
            // Remaining processes end with this one.
            _ = interrupts.next() => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use trunkline_journal::Retention;

    use super::*;

    #[test]
    fn a_journal_is_kept_as_the_configuration_says() {
        let given = options(&Config::default());
        assert_eq!(
            (given.sync, given.retention),
            (SyncMode::Normal, Retention::default())
        );
        let mut config = Config::default();
        config.journal_sync = JournalSync::Full;
        config.journal_limits.max_age = None;
        config.journal_limits.max_bytes = Some(5);
        config.journal_limits.max_sessions = Some(7);
        let given = options(&config);
        let mut kept = Retention::default();
        (kept.age, kept.bytes, kept.sessions) = (None, Some(5), Some(7));
        assert_eq!((given.sync, given.retention), (SyncMode::Full, kept));
    }
}
