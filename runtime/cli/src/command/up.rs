//! `trunkline up`: the daemon. One host with its journal, a socket for this user, and HTTP.

mod cluster;
mod listen;

use std::{
    io::{self, Write},
    net::{SocketAddr, TcpListener as StdListener},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context, anyhow};
use clap::Args;
use listenfd::ListenFd;
use rustix::io::{FdFlags, fcntl_setfd};
use sd_notify::NotifyState;
use serde_json::json;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{Instant, sleep},
};
use trunkline_gateway::{
    DaemonOperator, DailyUsage, Gateway, HostName, Listener, Options, TokenFile,
};
use trunkline_host::{
    Host,
    config::{SessionMay, SessionOption, Source},
    process::Deadline,
};
use trunkline_process::raise_open_files;
use trunkline_relay::PrivateSocket;
use trunkline_sessions::Sessions;

use self::{
    cluster::{ClusterArgs, ClusterMember},
    listen::ListenArgs,
};
use super::usage;
use crate::{
    daemon::{
        DaemonFolder, DaemonSelection, RunningDaemon,
        launch::{DaemonEnd, DaemonLaunch, own_arguments},
    },
    error::{CliError, CommandResult},
    exit,
    interrupt::stop_signal,
    journal,
    reload::ConfigReload,
    target::{AgentTarget, HostUse, is_set},
    traces,
};

/// Default port of HTTP.
const DEFAULT_HTTP_PORT: u16 = 7457;

/// Timeout for running turns when the daemon ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of the checks for running turns.
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Starts the daemon, whose sessions outlive their clients: HTTP, a socket and a browser page
///
/// HTTP listens only on this machine unless --listen adds an address, and every request needs a
/// token (`trunkline token new`). The socket, host.sock in the journal's folder, is only for this
/// user and needs no token. Without a configuration, it offers every installed agent to this user
/// and the page, but to a token only if its --agents name them. A ready daemon prints its address
/// and its agents. SIGTERM and Ctrl-C end it within 10 s, which running turns may use to end.
/// SIGHUP and `trunkline daemon reload` reload the configuration, and find agents installed since.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline up                                 every configured agent, or every installed one
  trunkline up --adapter 'python3 adapter.py'  only that adapter
  trunkline up --listen 0.0.0.0:7458 --tls-cert host.pem --tls-key host.key
  trunkline up --http 127.0.0.1:0 --json       any free port, reported as JSON
  trunkline open                               open the page in a browser
  trunkline token new --scope control          a token for curl")]
pub(crate) struct UpArgs {
    #[command(flatten)]
    state: DaemonSelection,

    #[command(flatten)]
    target: AgentTarget,

    /// Address and port of HTTP; the address must be a loopback address
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::option_value::parse_address, default_value_t = SocketAddr::from(([127, 0, 0, 1], DEFAULT_HTTP_PORT)))]
    http: SocketAddr,

    #[command(flatten)]
    listen: ListenArgs,

    /// Further origin whose pages may send requests, such as http://localhost:5173; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,

    /// A supervisor restarts this daemon: `trunkline acp` waits for it and starts no daemon itself
    ///
    /// systemd is detected without this option.
    #[arg(long)]
    supervised: bool,

    /// Prints the address as JSON: {"http", "socket", "pid"}, and "listen" with --listen
    #[arg(long)]
    json: bool,

    // Last, since its heading applies to all options that follow.
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl UpArgs {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        // First, because any opened file could take the number of the passed descriptor.
        let passed = passed_on()?;
        let is_supervised = self.supervised || passed.is_some() || has_supervisor();
        let at = passed
            .as_ref()
            .map_or(Ok(self.http), StdListener::local_addr)?;
        if !at.ip().is_loopback() {
            return Err(
                CliError::usage(anyhow!("{} is not a loopback address", at.ip()))
                    .next("use --listen with TLS for other machines, or a tunnel"),
            );
        }
        // Before the agents start, to report a wrong value at once.
        let (further, listen) = self.listen.open().await?.unzip();
        let folder = self.state.folder()?;
        folder.create_folder()?;
        // A daemon that knows no token would refuse every client.
        let tokens = TokenFile::in_folder(&folder.0).read();
        tokens.context("failed to start the daemon")?;
        // Each connection needs a file descriptor.
        if let Err(error) = raise_open_files() {
            tracing::warn!("failed to raise the limit of open files: {error}");
        }
        // From here on, SIGHUP does not end the program.
        let hangups = signal(SignalKind::hangup())?;
        // Not for the network. A client of the socket is the user, who works in any folder and with
        // any tools.
        let may = SessionMay::listed([
            SessionOption::Cwd,
            SessionOption::AddDirs,
            SessionOption::McpServers,
        ]);
        // No process starts before this host has its lease.
        let deadline = self.cluster.is_wanted()?.then(Deadline::default);
        let (chosen, reload) = ConfigReload::begin(
            &self.target,
            config,
            &[],
            may,
            HostUse::Daemon,
            deadline.clone(),
        )?;
        chosen.any_may_run()?;
        let webhooks = reload.webhooks()?;
        let host = chosen.host;
        // The folder has the tokens: an agent that could add one would be a client.
        host.hide(&folder.0);
        self.listen.key().into_iter().for_each(|key| host.hide(key));
        let joined = match deadline {
            Some(deadline) => {
                Some(ClusterMember::join(&self.cluster, &host, &reload, deadline, &folder.0).await?)
            }
            None => None,
        };
        // Only one daemon can lock the journal: a second one ends here, and its error names the
        // first.
        let opened = match &joined {
            Some(joined) => {
                joined
                    .open(host.clone(), &folder.journal(), chosen.journal)
                    .await?
            }
            None => journal::open(host.clone(), &folder.journal(), chosen.journal).await?,
        };
        let sessions = opened.map_err(|error| {
            let is_in_use = matches!(error, trunkline_journal::OpenError::InUse { .. });
            match folder.running().ok().filter(|_| is_in_use) {
                Some(up) => CliError::usage(anyhow!("the daemon is already running: {} (process {})", up.http, up.pid))
                    .next("`trunkline open` opens its page, `trunkline down` ends it; --state FOLDER runs another one"),
                None if is_in_use => CliError::usage(error),
                None => CliError::usage(error)
                    .next("correct that, or run a daemon in another folder by --state FOLDER"),
            }
        })?;
        let network = match passed {
            Some(listener) => TcpListener::from_std(listener)?,
            None => bind_http(at, &folder).await.map_err(|error| {
                CliError::failed(anyhow!(error).context(format!("failed to listen on {at}")))
                    .next("use another port: --http 127.0.0.1:PORT, or port 0 for any free one")
            })?,
        };
        let socket =
            PrivateSocket::open(&folder.socket()).context("failed to open the daemon's socket")?;
        let at = network.local_addr()?;
        host.hide_port(at.port());
        if let Some(entrance) = &further {
            host.hide_port(entrance.listener.local_addr()?.port());
        }
        let running = RunningDaemon {
            http: format!("http://{at}"),
            socket: folder.socket(),
            pid: std::process::id(),
            effective: None,
            folder: std::env::current_dir()?,
        };

        let (asked, mut stops) = mpsc::channel(1);
        let operator = Arc::new(LocalOperator {
            reload: reload.clone(),
            config: config.map(Path::to_owned),
            asked,
        });
        let options = Options {
            state: folder.0.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            origins: self.allow_origin.clone(),
            traced: traces::adopt(),
            peers: joined.as_ref().map(ClusterMember::peers),
            webhooks,
            token_agents: reload.named_agents().cloned(),
        };
        if let Some(joined) = &joined {
            // Before the first request is authorized: a token may have been revoked while this
            // daemon was down.
            joined.share_tokens(&folder.0).await?;
        }
        let gateway = Gateway::new(host.clone(), sessions.clone(), operator, options)
            .context("failed to use the daemon's folder")?;
        let gateway = Arc::new(gateway);
        if let Some(joined) = &joined {
            joined.serve(sessions.clone(), gateway.clone()).await?;
        }
        let stopped = stop_signal()?;
        further
            .iter()
            .filter_map(|entrance| entrance.tls.clone())
            .for_each(|tls| reload.add_tls(tls));
        note_launch(&folder, &reload, at, is_supervised)?;
        reload.note(folder.clone(), running.clone())?;
        host.stand_by();
        self.print_ready(&running, listen.as_deref(), &host, &reload)?;
        notify_supervisor(NotifyState::Ready);

        let stop = async {
            let ended = tokio::select! {
                () = stopped => DaemonEnd::Signal,
                _ = stops.recv() => DaemonEnd::Down,
                never = reload.reload_at_signals(hangups) => match never {},
            };
            tracing::info!("the daemon is ending");
            // Before a client can notice: `trunkline acp` restarts a daemon that died.
            if let Err(error) = DaemonLaunch::note_end(&folder, ended) {
                tracing::warn!("an open `trunkline acp` may start the daemon again: {error}");
            }
            notify_supervisor(NotifyState::Stopping);
            gateway.drain();
            match &joined {
                Some(joined) => joined.drain(DRAIN_TIMEOUT).await,
                None => drain_turns(&sessions).await,
            }
        };
        let own = Listener {
            listener: network,
            names: host_names(at),
            tls: None,
        };
        gateway
            .serve([own].into_iter().chain(further).collect(), socket, stop)
            .await;
        trunkline_relay::end(&host, Some(sessions), std::future::ready(())).await;
        if let Some(joined) = joined {
            joined.leave().await;
        }
        folder.remove_record();
        Ok(exit::OK)
    }

    /// Prints the address, the agents and the configuration.
    fn print_ready(
        &self,
        running: &RunningDaemon,
        listen: Option<&str>,
        host: &Host,
        reload: &ConfigReload,
    ) -> Result<(), CliError> {
        let RunningDaemon {
            http, socket, pid, ..
        } = running;
        let mut out = anstream::stdout();
        if self.json {
            let mut ready = json!({ "http": http, "socket": socket, "pid": pid });
            if let Some(listen) = listen {
                ready["listen"] = json!(listen);
            }
            writeln!(out, "{ready}")?;
        } else {
            let further = listen
                .map(|listen| format!(" and {listen}"))
                .unwrap_or_default();
            let agents = host.agents().into_iter().map(|agent| agent.config.id);
            let named = reload.named_agents();
            let is_named = |id: &String| named.is_none_or(|named| named.contains(id));
            let (named, installed): (Vec<_>, Vec<_>) = agents.partition(is_named);
            let named = named.join(", ");
            let source = match (reload.source(), installed.join(", ")) {
                (Source::BuiltIn, none) if none.is_empty() => {
                    "no other is installed, see `trunkline doctor --all`".to_owned()
                }
                (Source::BuiltIn, installed) => {
                    format!("installed: {installed} · no configuration")
                }
                (source, _) => format!("configuration: {source}"),
            };
            // One write, because a reader of the first line may close its end then.
            let ready = format!(
                "trunkline is up at {http}{further}; `trunkline open` opens its page, `trunkline down` ends it\n\
                 agents: {named} · {source}\n"
            );
            out.write_all(ready.as_bytes())?;
        }
        out.flush()?;
        Ok(())
    }
}

/// Returns the HTTP listener that a supervisor opened, as systemd does for a socket unit.
fn passed_on() -> Result<Option<StdListener>, CliError> {
    let listener = ListenFd::from_env()
        .take_tcp_listener(0)
        .context("failed to take the socket of LISTEN_FDS")
        .map_err(CliError::usage)?;
    if let Some(listener) = &listener {
        listener.set_nonblocking(true)?;
        // Agents must not inherit the socket.
        fcntl_setfd(listener, FdFlags::CLOEXEC).map_err(io::Error::from)?;
    }
    Ok(listener)
}

/// Binds the HTTP listener. For port 0, the port of the daemon that died in this folder is
/// preferred.
async fn bind_http(at: SocketAddr, folder: &DaemonFolder) -> io::Result<TcpListener> {
    let before = DaemonLaunch::read(folder).ok().flatten();
    let before = before.filter(|it| at.port() == 0 && !it.is_down() && it.http.ip() == at.ip());
    if let Some(before) = before
        && let Ok(listener) = TcpListener::bind(before.http).await
    {
        return Ok(listener);
    }
    TcpListener::bind(at).await
}

/// Records the start of this daemon.
fn note_launch(
    folder: &DaemonFolder,
    reload: &ConfigReload,
    http: SocketAddr,
    is_supervised: bool,
) -> io::Result<()> {
    let arguments = own_arguments().map_err(|argument| {
        io::Error::other(format!("the argument {} is not UTF-8", argument.display()))
    })?;
    let launch = DaemonLaunch {
        arguments,
        folder: std::env::current_dir()?,
        configuration: reload.unnamed_config_file(),
        agent: reload.named_agent(),
        http,
        variables: reload.used_variables(),
        is_supervised,
        ended: None,
    };
    launch.write(folder)
}

/// Returns true if systemd started this process, or a supervisor waits for its notification.
fn has_supervisor() -> bool {
    let own = std::process::id().to_string();
    is_set("NOTIFY_SOCKET") || std::env::var("SYSTEMD_EXEC_PID").is_ok_and(|pid| pid == own)
}

/// Notifies the supervisor if it asks for it, as systemd does for a unit of `Type=notify`.
fn notify_supervisor(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("failed to notify the supervisor at NOTIFY_SOCKET: {error}");
    }
}

/// Returns the accepted host names of requests.
fn host_names(at: SocketAddr) -> Vec<HostName> {
    let port = at.port();
    let usual = ["localhost", "127.0.0.1", "[::1]"].map(|name| format!("{name}:{port}"));
    [at.to_string()]
        .into_iter()
        .chain(usual)
        .map(HostName::WithPort)
        .collect()
}

/// Waits until no turn is running, or the timeout expires.
async fn drain_turns(sessions: &Sessions) {
    let until = Instant::now() + DRAIN_TIMEOUT;
    while sessions.busy() > 0 && Instant::now() < until {
        sleep(DRAIN_CHECK_INTERVAL).await;
    }
}

/// Handler of the requests about the daemon itself.
#[derive(Debug)]
struct LocalOperator {
    reload: Arc<ConfigReload>,
    config: Option<PathBuf>,
    asked: mpsc::Sender<()>,
}

impl DaemonOperator for LocalOperator {
    fn reload(&self) -> Result<String, String> {
        self.reload.reload_config().map_err(|fault| fault.text())
    }

    fn usage(&self, since: SystemTime) -> Result<Vec<DailyUsage>, String> {
        usage::by_day(self.config.as_deref(), since).map_err(|fault| fault.text())
    }

    fn stop(&self) {
        // One request is enough.
        let _ = self.asked.try_send(());
    }
}
