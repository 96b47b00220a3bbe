//! `trunkline up`: the daemon. One host, its journal, a socket for this user, and HTTP.

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
use trunkline_gateway::{DaemonOperator, DailyUsage, Gateway, HostName, Listener, Options};
use trunkline_host::{
    config::{SessionMay, SessionOption},
    process::Deadline,
};
use trunkline_process::raise_open_files;
use trunkline_relay::PrivateSocket;
use trunkline_sessions::Sessions;

use self::{
    cluster::{Cluster, Joined},
    listen::Listen,
};
use super::usage;
use crate::{
    daemon::{
        Folder, Running, State,
        launch::{DaemonEnd, DaemonLaunch, own_arguments},
    },
    error::{CliError, CommandResult},
    exit,
    interrupt::stop_signal,
    journal,
    reload::Reload,
    target::{Processes, Target, is_set},
    traces,
};

/// The port, where none is named.
const PORT: u16 = 7457;

/// How long turns may take to end when the daemon does.
const DRAINS: Duration = Duration::from_secs(5);

/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_millis(50);

/// Starts the daemon: sessions that outlive every client, over HTTP, a socket and a page in the browser
///
/// HTTP listens on this machine alone, unless --listen names a further address, and every request needs a token
/// (`trunkline token new`). The socket, host.sock
/// in the journal's folder, is this user's alone and needs none. When it is ready it prints one line. SIGTERM and Ctrl-C
/// end it within 10 s: turns may end first. SIGHUP, and `trunkline reload`, read the configuration again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline up                                 every configured agent
  trunkline up --adapter 'python3 adapter.py'  that adapter alone
  trunkline up --listen 0.0.0.0:7458 --tls-cert host.pem --tls-key host.key
  trunkline up --http 127.0.0.1:0 --json       any free port; one line of JSON says which
  trunkline open                               then: the page, in a browser
  trunkline token new --scope control          a token for curl")]
pub(crate) struct Up {
    #[command(flatten)]
    state: State,

    #[command(flatten)]
    target: Target,

    /// Where HTTP listens: an address of this machine's loopback, and a port
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::option_value::parse_address, default_value_t = SocketAddr::from(([127, 0, 0, 1], PORT)))]
    http: SocketAddr,

    #[command(flatten)]
    listen: Listen,

    #[command(flatten)]
    cluster: Cluster,

    /// A further origin whose pages may ask, such as http://localhost:5173; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,

    /// Something else starts this daemon again when it ends: `trunkline acp` waits for that, and starts none
    ///
    /// systemd is recognised without it.
    #[arg(long)]
    supervised: bool,

    /// Prints the line as JSON: {"http", "socket", "pid"}, and "listen" with --listen
    #[arg(long)]
    json: bool,
}

impl Up {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        // Before anything is opened that could take its number.
        let passed = passed_on()?;
        let is_supervised = self.supervised || passed.is_some() || has_supervisor();
        let at = passed
            .as_ref()
            .map_or(Ok(self.http), StdListener::local_addr)?;
        if !at.ip().is_loopback() {
            return Err(CliError::usage(anyhow!(
                "{} is no address of this machine's loopback",
                at.ip()
            ))
            .next("let other machines in by --listen and TLS, or through a tunnel"));
        }
        // Before agents are started: what is wrong with it is said at once.
        let (further, listen) = self.listen.open().await?.unzip();
        let folder = self.state.folder()?;
        folder.make()?;
        // Each connection is a descriptor.
        if let Err(error) = raise_open_files() {
            tracing::warn!("the limit of open files stays as it is: {error}");
        }
        // From now on it does not end the program.
        let hangups = signal(SignalKind::hangup())?;
        // No network names any of these; who connects to the socket is the user, who works where they are, with their tools.
        let may = SessionMay::listed([
            SessionOption::Cwd,
            SessionOption::AddDirs,
            SessionOption::McpServers,
        ]);
        let wanted = self.cluster.wanted()?;
        // Nothing starts before this host has its lease.
        let deadline = wanted.is_some().then(Deadline::default);
        let (chosen, reload) = Reload::begin(
            &self.target,
            config,
            &[],
            may,
            Processes::PerFolder,
            deadline.clone(),
        )?;
        chosen.any_may_run()?;
        let webhooks = reload.webhooks()?;
        let host = chosen.host;
        // Its tokens, too: who could add one would be a client.
        host.hide(&folder.0);
        self.listen.key().into_iter().for_each(|key| host.hide(key));
        let joined = match wanted.zip(deadline) {
            Some((wanted, deadline)) => {
                Some(Joined::join(wanted, &host, &reload, deadline, &folder.0).await?)
            }
            None => None,
        };
        // The journal's lock is the daemon's: a second one ends here, and says who has it.
        let opened = match &joined {
            Some(joined) => {
                joined
                    .open(host.clone(), &folder.journal(), chosen.journal)
                    .await?
            }
            None => journal::open(host.clone(), &folder.journal(), chosen.journal).await?,
        };
        let sessions = opened.map_err(|error| {
            match folder.running().ok().filter(|_| matches!(error, trunkline_journal::OpenError::InUse { .. })) {
                Some(up) => CliError::usage(anyhow!("trunkline is up already: {} (process {})", up.http, up.pid)),
                None => CliError::usage(error),
            }
            .next("`trunkline open` opens its page, `trunkline down` ends it; --state FOLDER is for another")
        })?;
        let network = match passed {
            Some(listener) => TcpListener::from_std(listener)?,
            None => bind(at, &folder).await.map_err(|error| {
                CliError::failed(anyhow!(error).context(format!("failed to listen on {at}")))
                    .next("name another port by --http 127.0.0.1:PORT, or 0 for any that is free")
            })?,
        };
        let socket =
            PrivateSocket::open(&folder.socket()).context("failed to take the daemon's socket")?;
        let at = network.local_addr()?;
        let running = Running {
            http: format!("http://{at}"),
            socket: folder.socket(),
            pid: std::process::id(),
            configuration: None,
            folder: std::env::current_dir()?,
        };

        let (asked, mut stops) = mpsc::channel(1);
        let operator = Arc::new(Operator {
            reload: reload.clone(),
            config: config.map(Path::to_owned),
            asked,
        });
        let options = Options {
            state: folder.0.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            origins: self.allow_origin.clone(),
            traced: traces::adopt(),
            peers: joined.as_ref().map(Joined::peers),
            webhooks,
        };
        if let Some(joined) = &joined {
            // Before the first is judged: one may have been revoked while this daemon was down.
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
            .for_each(|tls| reload.also_tls(tls));
        note_launch(&folder, &reload, at, is_supervised)?;
        reload.note(folder.clone(), running.clone())?;
        host.stand_by();
        self.tell(&running, listen.as_deref())?;
        supervisor(NotifyState::Ready);

        let stop = async {
            let ended = tokio::select! {
                () = stopped => DaemonEnd::Signal,
                _ = stops.recv() => DaemonEnd::Down,
                never = reload.at_each(hangups) => match never {},
            };
            tracing::info!("the daemon ends");
            // Before a client can notice: `trunkline acp` starts a daemon again that just died.
            if let Err(error) = DaemonLaunch::note_end(&folder, ended) {
                tracing::warn!("an open `trunkline acp` may start the daemon again: {error}");
            }
            supervisor(NotifyState::Stopping);
            gateway.drain();
            match &joined {
                Some(joined) => joined.drain(DRAINS).await,
                None => drain(&sessions).await,
            }
        };
        let own = Listener {
            listener: network,
            names: names(at),
            tls: None,
        };
        gateway
            .serve([own].into_iter().chain(further).collect(), socket, stop)
            .await;
        trunkline_relay::end(&host, Some(sessions), std::future::ready(())).await;
        if let Some(joined) = joined {
            joined.leave().await;
        }
        folder.forget();
        Ok(exit::OK)
    }

    /// Says that it is ready, and where.
    fn tell(&self, running: &Running, listen: Option<&str>) -> Result<(), CliError> {
        let Running {
            http, socket, pid, ..
        } = running;
        let mut out = anstream::stdout();
        match self.json {
            true => {
                let mut told = json!({ "http": http, "socket": socket, "pid": pid });
                if let Some(listen) = listen {
                    told["listen"] = json!(listen);
                }
                writeln!(out, "{told}")?;
            }
            false => {
                let further = listen
                    .map(|listen| format!(" and {listen}"))
                    .unwrap_or_default();
                writeln!(
                    out,
                    "trunkline is up at {http}{further}; `trunkline open` shows it, `trunkline down` ends it"
                )?;
            }
        }
        out.flush()?;
        Ok(())
    }
}

/// A listener for HTTP that a supervisor has opened and passed on, as systemd does for a socket unit.
fn passed_on() -> Result<Option<StdListener>, CliError> {
    let listener = ListenFd::from_env().take_tcp_listener(0).map_err(|error| {
        CliError::usage(anyhow!(error).context("failed to take the socket of LISTEN_FDS"))
    })?;
    if let Some(listener) = &listener {
        listener.set_nonblocking(true)?;
        // No agent gets it.
        fcntl_setfd(listener, FdFlags::CLOEXEC).map_err(io::Error::from)?;
    }
    Ok(listener)
}

/// Binds the listener of HTTP: for any free port the one of the daemon that died in this folder, if it is free.
async fn bind(at: SocketAddr, folder: &Folder) -> io::Result<TcpListener> {
    let before = DaemonLaunch::read(folder).ok().flatten();
    let before = before.filter(|it| at.port() == 0 && !it.is_down() && it.http.ip() == at.ip());
    if let Some(before) = before
        && let Ok(listener) = TcpListener::bind(before.http).await
    {
        return Ok(listener);
    }
    TcpListener::bind(at).await
}

/// Notes how this daemon was started.
fn note_launch(
    folder: &Folder,
    reload: &Reload,
    http: SocketAddr,
    is_supervised: bool,
) -> io::Result<()> {
    let arguments = own_arguments().map_err(|argument| {
        io::Error::other(format!("the argument {} is not UTF-8", argument.display()))
    })?;
    let launch = DaemonLaunch {
        arguments,
        folder: std::env::current_dir()?,
        configuration: reload.configuration_to_name(),
        agent: reload.named_agent(),
        http,
        variables: reload.used_variables(),
        is_supervised,
        ended: None,
    };
    launch.write(folder)
}

/// Whether systemd started this process, or a supervisor waits for its notification.
fn has_supervisor() -> bool {
    let own = std::process::id().to_string();
    is_set("NOTIFY_SOCKET") || std::env::var("SYSTEMD_EXEC_PID").is_ok_and(|pid| pid == own)
}

/// Tells a supervisor that asks for it, as systemd does for a unit of `Type=notify`.
fn supervisor(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("the supervisor at NOTIFY_SOCKET was not told: {error}");
    }
}

/// What a request may name as its host.
fn names(at: SocketAddr) -> Vec<HostName> {
    let port = at.port();
    let usual = ["localhost", "127.0.0.1", "[::1]"].map(|name| format!("{name}:{port}"));
    [at.to_string()]
        .into_iter()
        .chain(usual)
        .map(HostName::WithPort)
        .collect()
}

/// Waits until no turn is open, for a while.
async fn drain(sessions: &Sessions) {
    let until = Instant::now() + DRAINS;
    while sessions.busy() > 0 && Instant::now() < until {
        sleep(LOOK).await;
    }
}

/// What may be asked of the daemon itself.
#[derive(Debug)]
struct Operator {
    reload: Arc<Reload>,
    config: Option<PathBuf>,
    asked: mpsc::Sender<()>,
}

impl DaemonOperator for Operator {
    fn reload(&self) -> Result<String, String> {
        self.reload.once().map_err(|fault| fault.text())
    }

    fn usage(&self, since: SystemTime) -> Result<Vec<DailyUsage>, String> {
        usage::by_day(self.config.as_deref(), since).map_err(|fault| fault.text())
    }

    fn stop(&self) {
        // One is enough.
        let _ = self.asked.try_send(());
    }
}
