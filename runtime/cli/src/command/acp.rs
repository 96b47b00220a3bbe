//! `trunkline acp`: serves the daemon's agents to an editor.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{self, Stdio},
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use tokio::{
    net::UnixStream,
    task::spawn_blocking,
    time::{Instant, sleep},
};
use trunkline_acp::{Host, Options};
use trunkline_client::{Connect, ConnectError, Method, Pipe, connect_unix};
use trunkline_host::config::Command;
use trunkline_protocol::{SessionId, Sha256};

use crate::{
    daemon::{DaemonFolder, DaemonSelection, launch::DaemonLaunch},
    error::{CliError, CommandResult},
    exit,
    interrupt::stop_signal,
    target::{self, AGENT, parse_adapter_line, variable},
};

/// Timeout for a daemon that another `trunkline acp` starts at the same time to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout for a supervisor to start its daemon, when an editor opens. When its daemon died under
/// an editor, the attempts to reconnect have a timeout of their own.
const SUPERVISOR_TIMEOUT: Duration = Duration::from_secs(20);

/// Interval of attempts to connect.
const CONNECT_INTERVAL: Duration = Duration::from_millis(50);

/// Limit of quoted stderr of a daemon that did not start, in bytes.
const MAX_QUOTE_BYTES: usize = 2048;

/// Serves an editor over stdin and stdout by the Agent Client Protocol (ACP)
///
/// Any configured adapter becomes an agent of Zed, JetBrains IDEs, Neovim or Emacs. The daemon runs
/// the sessions: it is started if none is running, keeps running when the editor closes, and the
/// next editor can load its sessions. `trunkline down` ends it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline acp                        the default agent
  trunkline acp --agent codex          another agent
  trunkline acp --root /srv/projects   sessions may work only below this folder
  trunkline acp --adapter 'python3 /srv/adapter.py'
                                       an adapter without a configuration

In Zed's settings:
  \"agent_servers\": { \"trunkline\": { \"command\": \"trunkline\", \"args\": [\"acp\"] } }

See docs/acp.md for other editors, and for the mapping of messages.")]
pub(crate) struct AcpArgs {
    #[command(flatten)]
    state: DaemonSelection,

    /// Agent of new sessions [default: $TRUNKLINE_AGENT, otherwise the daemon's default agent]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,

    /// Adapter to use instead: a command line, split by shell quoting rules and run without a shell
    ///
    /// It has its own daemon and journal, below the daemon's folder, shared by editors with the
    /// same command line. It runs in the folder of each session, so use absolute paths in the
    /// command line.
    #[arg(long, value_name = "'CMD ARGS'", conflicts_with = "agent")]
    adapter: Option<String>,

    /// Restricts sessions to this folder and the folders below it [default: anywhere]
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,

    /// Offers unstable ACP methods, `session/status` and `session/fork`, and
    /// `_trunkline/session/edit` for titles and the archive
    #[arg(long)]
    unstable: bool,

    /// Starts the daemon, and ends at once, so that an editor that ends all descendants of its
    /// agent does not end the daemon.
    #[arg(long, hide = true)]
    start_daemon: bool,
}

impl AcpArgs {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        let mut folder = self.state.folder()?;
        folder.create_folder()?;
        if self.start_daemon {
            spawn_daemon(&EditorDaemon {
                folder,
                config: config.map(Path::to_owned),
                adapter: self.adapter,
                agent: None,
            })?;
            return Ok(exit::OK);
        }
        let adapter = self
            .adapter
            .as_deref()
            .map(with_absolute_program)
            .transpose()?;
        if let Some(line) = &adapter {
            folder = folder.of_adapter(line);
            folder.create_folder()?;
        }
        let root = self.root.map(|root| {
            root.canonicalize()
                .with_context(|| format!("failed to use {}", root.display()))
                .map_err(|error| CliError::usage(error).next("set --root to an existing folder"))
        });
        let root = root.transpose()?;
        let files = tempfile::Builder::new().prefix("trunkline-acp-").tempdir();
        let files = files.context("failed to make a folder for the files of prompts")?;
        let mut options = Options::new(env!("CARGO_PKG_VERSION"));
        options.agent = self
            .agent
            .or_else(|| variable(AGENT).filter(|_| adapter.is_none()));
        options.files = Some(files.path().to_owned());
        options.offers_unstable = self.unstable;
        options.may_work_in = Box::new(move |path| may_work_in(root.as_deref(), path));
        let config = config.map(std::path::absolute).transpose()?;
        let host = EditorDaemon {
            folder,
            agent: options.agent.clone(),
            config,
            adapter,
        };
        options.logs_out = host.may_log_out();
        let stop = stop_signal()?;
        let served = async {
            // The first start of the daemon has no timeout. Later attempts have one.
            let opened = host.open_stream(ConnectAttempt::First).await;
            opened.map_err(io::Error::other)?;
            trunkline_acp::serve(tokio::io::stdin(), tokio::io::stdout(), host, options, stop).await
        };
        let ended = served.await.map_err(|error| {
            CliError::failed(error).next("start the daemon by `trunkline up` to see the full error")
        })?;
        tracing::info!(?ended, "the editor has closed the connection");
        Ok(exit::OK)
    }
}

/// Checks that a session may work in a folder.
fn may_work_in(root: Option<&Path>, path: &str) -> Result<(), String> {
    let found = Path::new(path)
        .canonicalize()
        .map_err(|error| format!("{path}: {error}"))?;
    if !found.is_dir() {
        return Err(format!("{path} is not a folder"));
    }
    match root {
        Some(root) if !found.starts_with(root) => {
            Err(format!("{path} is outside {}", root.display()))
        }
        _ => Ok(()),
    }
}

/// Returns the command line of an adapter, with a program that is independent of the working
/// directory.
fn with_absolute_program(line: &str) -> Result<String, CliError> {
    let Command {
        mut command, args, ..
    } = parse_adapter_line(line)?.command;
    if command.contains('/') {
        command = std::path::absolute(&command)?
            .to_string_lossy()
            .into_owned();
    }
    Ok(shell_words::join([command].iter().chain(&args)))
}

/// The daemon of this user, which is started if none is running.
#[derive(Clone)]
struct EditorDaemon {
    folder: DaemonFolder,
    config: Option<PathBuf>,
    adapter: Option<String>,
    /// Agent of new sessions, if the editor selected one.
    agent: Option<String>,
}

impl EditorDaemon {
    /// Returns true if the editor's agent may offer a logout.
    fn may_log_out(&self) -> bool {
        let Some(id) = self.agent.as_deref().filter(|_| self.adapter.is_none()) else {
            return false;
        };
        let Ok(mut config) = target::config(self.config.as_deref()) else {
            return false;
        };
        target::add_built_in(&mut config, id);
        let profile = config
            .agent(id)
            .and_then(|agent| target::built_in(&agent.profile));
        profile.is_some_and(|profile| profile.may_log_out())
    }

    /// Returns a command of this program with the options that select the daemon.
    fn command(&self, arguments: &[&str]) -> io::Result<process::Command> {
        let mut command = process::Command::new(std::env::current_exe()?);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        command.args(arguments).arg("--state").arg(&self.folder.0);
        if let Some(line) = &self.adapter {
            command.arg("--adapter").arg(line);
        }
        Ok(command)
    }

    /// Connects to the daemon. If none is running, waits for its supervisor or starts it, with the
    /// options of the daemon that died, if one did.
    async fn open_stream(&self, attempt: ConnectAttempt) -> Result<UnixStream, ConnectError> {
        let mut waits: Option<(Instant, ConnectError)> = None;
        loop {
            match connect_unix(&self.folder.socket()).await {
                Ok(stream) => return Ok(stream),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                    ) => {}
                Err(error) => return Err(ConnectError::transient(error.to_string())),
            }
            if let Some((until, error)) = &waits {
                if Instant::now() > *until {
                    return Err(error.clone());
                }
                sleep(CONNECT_INTERVAL).await;
                continue;
            }
            let launch = self.read_launch(attempt).map_err(ConnectError::permanent)?;
            if launch.is_some_and(|launch| launch.is_supervised) {
                let error = self.supervisor_error();
                tracing::info!("waiting for the supervisor of the daemon");
                if attempt == ConnectAttempt::Again {
                    return Err(error);
                }
                waits = Some((Instant::now() + SUPERVISOR_TIMEOUT, error));
                continue;
            }
            let daemon = self.clone();
            let started = spawn_blocking(move || start_daemon(&daemon)).await;
            // If two daemons were started at the same time, the one with the journal's lock will
            // listen soon.
            waits = started
                .unwrap_or_else(|panic| Err(panic.into()))
                .err()
                .map(|error| {
                    let error = ConnectError::transient(error.to_string());
                    (Instant::now() + LISTEN_TIMEOUT, error)
                });
        }
    }

    /// Returns the start of the daemon that died. `None` if there was none, or a user ended it.
    ///
    /// # Errors
    /// The daemon must not be started, or not with this environment.
    fn read_launch(&self, attempt: ConnectAttempt) -> Result<Option<DaemonLaunch>, String> {
        let state = self.folder.0.display();
        let Some(launch) = DaemonLaunch::read(&self.folder).map_err(|error| error.to_string())?
        else {
            return Ok(None);
        };
        if attempt == ConnectAttempt::Again && launch.is_down() {
            return Err(format!(
                "`trunkline down` ended the daemon in {state}; restart the agent in the editor to start a daemon"
            ));
        }
        if launch.is_down() {
            return Ok(None);
        }
        if launch.is_supervised {
            return Ok(Some(launch));
        }
        if attempt == ConnectAttempt::Again && launch.ended.is_some() {
            return Err(format!(
                "a signal ended the daemon in {state}; restart the agent in the editor to start the same daemon"
            ));
        }
        if let Some(name) = launch.missing_variable() {
            return Err(format!(
                "the daemon in {state} died, and its variable {name} is not set here; set it for the editor, or start the \
                 daemon by `trunkline up` where it is set; `trunkline down` forgets that daemon"
            ));
        }
        Ok(Some(launch))
    }

    fn supervisor_error(&self) -> ConnectError {
        ConnectError::transient(format!(
            "the supervisor of the daemon in {} has not started it again; start it, for systemd by \
             `systemctl --user start trunkline`; `trunkline down` forgets that daemon",
            self.folder.0.display()
        ))
    }
}

/// An attempt to connect to the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectAttempt {
    /// The editor opens.
    First,
    /// A connection was lost.
    Again,
}

impl Connect for EditorDaemon {
    async fn connect(&mut self) -> Result<Pipe, ConnectError> {
        let stream = self.open_stream(ConnectAttempt::Again).await?;
        let (input, output) = stream.into_split();
        Ok(Pipe::new(input, output))
    }
}

impl Host for EditorDaemon {
    async fn remove(self, session: String) -> Result<(), String> {
        let session = SessionId::new(session).map_err(|error| error.to_string())?;
        let removed = self.folder.remove_session(&session).await;
        removed.map_err(|error| error.text())
    }

    async fn keep_file(self, session: SessionId, file: PathBuf, _: Sha256) -> Result<(), String> {
        let bytes = tokio::fs::read(file)
            .await
            .map_err(|error| error.to_string())?;
        let kept = self.folder.keep_file(&session, bytes).await;
        kept.map_err(|error| error.text())
    }

    async fn read_file(
        self,
        session: SessionId,
        sha256: Sha256,
    ) -> Result<Option<Vec<u8>>, String> {
        let read = self.folder.read_file(&session, &sha256).await;
        read.map_err(|error| error.text())
    }

    async fn work_dirs(self) -> Result<BTreeMap<String, String>, String> {
        let agents = self.folder.request(Method::GET, "/v1/agents", None).await;
        let mut agents = agents.map_err(|error| error.text())?;
        serde_json::from_value(agents["work_dirs"].take()).map_err(|error| error.to_string())
    }

    async fn log_out(self) -> Result<(), String> {
        let agent = self.agent.as_deref().unwrap_or_default();
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = tokio::process::Command::new(program);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        command
            .args(["agents", "login", agent, "--logout"])
            .stdin(Stdio::null());
        let ended = command.output().await.map_err(|error| error.to_string())?;
        if ended.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&ended.stderr).trim().to_owned())
    }
}

/// Starts the daemon, which outlives this process, and waits until it is ready. Blocks.
fn start_daemon(daemon: &EditorDaemon) -> io::Result<()> {
    let log = daemon.folder.0.join("start.log");
    let mut command = daemon.command(&["acp", "--start-daemon"])?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&log)?);
    let mut child = command.spawn()?;
    let mut ready = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut ready)?;
    }
    child.wait()?;
    if !ready.is_empty() {
        return Ok(());
    }
    let output = fs::read(&log).unwrap_or_default();
    let output = String::from_utf8_lossy(&output[..output.len().min(MAX_QUOTE_BYTES)]);
    Err(io::Error::other(format!(
        "the daemon did not start: {}",
        output.trim()
    )))
}

/// Starts the daemon that died, or otherwise a new one, without waiting for it. The daemon has its
/// own process group, so that the end of the editor's group does not end it. Until it is ready, it
/// inherits stdout and stderr of this process; its log is bounded.
fn spawn_daemon(daemon: &EditorDaemon) -> io::Result<()> {
    let log = daemon.folder.0.join("daemon.log");
    let died = DaemonLaunch::read(&daemon.folder)?.filter(|launch| !launch.is_down());
    let mut command = match died {
        Some(launch) => launch.command(&daemon.folder, &log)?,
        None => {
            let mut command = daemon.command(&["up", "--json", "--http", "127.0.0.1:0"])?;
            command.arg("--log-file").arg(&log);
            command
        }
    };
    command
        // The editor's supervisor is not the daemon's.
        .env_remove("NOTIFY_SOCKET")
        .process_group(0)
        .stdin(Stdio::null())
        .spawn()
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_works_below_the_root_however_its_folder_is_written() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        for folder in ["in/deep", "out"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("in/file"), "").unwrap();
        std::os::unix::fs::symlink(root.join("out"), root.join("in/link")).unwrap();
        let inner = root.join("in");
        for (path, may) in [
            ("in", true),
            ("in/deep", true),
            ("in/deep/..", true),
            ("out", false),
            ("in/link", false),
            ("in/../out", false),
            ("in/file", false),
            ("in/gone", false),
        ] {
            let path = root.join(path);
            let path = path.to_str().unwrap();
            assert_eq!(may_work_in(Some(&inner), path).is_ok(), may, "{path}");
        }
        assert!(may_work_in(None, root.join("out").to_str().unwrap()).is_ok());
    }
}
