//! `trunkline acp`: the daemon's agents for an editor.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow};
use clap::Args;
use tokio::{
    net::UnixStream,
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::{Instant, sleep},
};
use trunkline_acp::{Boxed, Host, Options, Pipe};

use crate::{
    daemon::{Folder, State},
    exit,
    fault::{Done, Fault},
    target::{AGENT, variable},
};

/// How long a daemon that another process starts may need to listen.
const LISTENS: Duration = Duration::from_secs(3);

/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// How much of what a daemon said that did not start is quoted, in bytes.
const QUOTED: usize = 2048;

/// Serves an editor as an agent of the Agent Client Protocol, over stdin and stdout
///
/// Any configured adapter becomes an agent of Zed, JetBrains IDEs, Neovim or Emacs. The sessions are the daemon's: it is
/// started where none runs, stays when the editor closes, and the next editor loads them. `trunkline down` ends it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline acp                        the default agent
  trunkline acp --agent codex          another one
  trunkline acp --root /srv/projects   sessions may work below this folder alone

In Zed's settings:
  \"agent_servers\": { \"trunkline\": { \"command\": \"trunkline\", \"args\": [\"acp\"] } }

docs/acp.md has the lines for other editors, and what becomes of each message.")]
pub(crate) struct Acp {
    #[command(flatten)]
    state: State,

    /// The agent of new sessions [default: $TRUNKLINE_AGENT, else that of the daemon's configuration]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,

    /// Where sessions may work: in this folder and those below it [default: anywhere]
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,

    /// Starts the daemon, and ends at once: an editor that ends all that descends from its agent does not find it.
    #[arg(long, hide = true)]
    start_daemon: bool,
}

impl Acp {
    pub(super) async fn run(self, config: Option<&Path>) -> Done {
        let folder = self.state.folder()?;
        folder.make()?;
        if self.start_daemon {
            up(&folder, config)?;
            return Ok(exit::OK);
        }
        let root = self.root.map(|root| {
            let found = root.canonicalize();
            found.map_err(|error| {
                Fault::usage(anyhow!(error).context(format!("failed to use {}", root.display())))
            })
        });
        let root = root.transpose()?;
        let files = tempfile::Builder::new().prefix("trunkline-acp-").tempdir();
        let files = files.context("failed to make a folder for the files of prompts")?;
        let mut options = Options::new(env!("CARGO_PKG_VERSION"));
        options.agent = self.agent.or_else(|| variable(AGENT));
        options.files = Some(files.path().to_owned());
        if let Some(home) = std::env::current_dir()?.to_str() {
            home.clone_into(&mut options.home);
        }
        options.may_work_in = Box::new(move |path| may_work_in(root.as_deref(), path));
        let config = config.map(std::path::absolute).transpose()?;
        let host = Arc::new(Daemon { folder, config });
        let (mut key, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let stop = async {
            tokio::select! {
                _ = key.recv() => {}
                _ = term.recv() => {}
            }
        };
        let served = trunkline_acp::serve(tokio::io::stdin(), tokio::io::stdout(), host, options, stop).await;
        let ended = served.map_err(|error| {
            Fault::failed(anyhow!(error))
                .next("`trunkline up` starts the daemon, and says more of what is wrong")
        })?;
        tracing::info!(?ended, "the editor has gone");
        Ok(exit::OK)
    }
}

/// Whether a session may work in a folder.
fn may_work_in(root: Option<&Path>, path: &str) -> Result<(), String> {
    let found = Path::new(path).canonicalize().map_err(|error| format!("{path}: {error}"))?;
    if !found.is_dir() {
        return Err(format!("{path} is not a folder"));
    }
    match root {
        Some(root) if !found.starts_with(root) => Err(format!("{path} is outside {}", root.display())),
        _ => Ok(()),
    }
}

/// The daemon of this user, which is started where none runs.
struct Daemon {
    folder: Folder,
    config: Option<PathBuf>,
}

impl Host for Daemon {
    fn connect(&self) -> Boxed<'_, io::Result<Pipe>> {
        Box::pin(async {
            let mut failed: Option<(Instant, io::Error)> = None;
            loop {
                match UnixStream::connect(self.folder.socket()).await {
                    Ok(stream) => {
                        let (input, output) = stream.into_split();
                        let pipe: Pipe = (Box::new(input), Box::new(output));
                        return Ok(pipe);
                    }
                    Err(error)
                        if matches!(
                            error.kind(),
                            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                        ) => {}
                    Err(error) => return Err(error),
                }
                match failed.take() {
                    None => {
                        let (folder, config) = (self.folder.clone(), self.config.clone());
                        let started = spawn_blocking(move || start(&folder, config.as_deref())).await?;
                        failed = started.err().map(|error| (Instant::now() + LISTENS, error));
                    }
                    Some((until, error)) if Instant::now() > until => return Err(error),
                    // Two were started at the same time: the one that has the journal is about to listen.
                    Some(waiting) => {
                        failed = Some(waiting);
                        sleep(LOOK).await;
                    }
                }
            }
        })
    }

    fn remove(&self, session: String) -> Boxed<'static, Result<(), String>> {
        let folder = self.folder.clone();
        Box::pin(async move { folder.remove(&session).await.map_err(|fault| fault.text()) })
    }
}

/// Starts the daemon, which outlives this process, and waits until it is ready. Blocks.
fn start(folder: &Folder, config: Option<&Path>) -> io::Result<()> {
    let log = folder.0.join("start.log");
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    command.args(["acp", "--start-daemon", "--state"]).arg(&folder.0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log)?);
    let mut child = command.spawn()?;
    let mut ready = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut ready)?;
    }
    child.wait()?;
    if !ready.is_empty() {
        return Ok(());
    }
    let said = fs::read(&log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said[..said.len().min(QUOTED)]).trim().to_owned();
    Err(io::Error::other(format!("the daemon did not start: {said}")))
}

/// Starts the daemon, and does not wait for it. A group of its own: what ends the editor's does not end it. What it says
/// until it is ready goes to this process's stdout and stderr; its log is bounded.
fn up(folder: &Folder, config: Option<&Path>) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    command.args(["up", "--json", "--http", "127.0.0.1:0", "--state"]).arg(&folder.0);
    command.arg("--log-file").arg(folder.0.join("daemon.log"));
    command.process_group(0).stdin(Stdio::null()).spawn().map(drop)
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
