//! The sockets of a relay, for further hubs of the same user only.
//!
//! A socket is a file of mode 0600, and each connection is checked: other users are refused, and so
//! is every process below a host, this one or another. An agent must answer neither its own
//! permissions nor those of another agent.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::UnixStream as Probe,
    },
    path::{Path, PathBuf},
};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy, sink},
    net::{UnixListener, UnixStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Duration, sleep, timeout},
};
use trunkline_host::{Host, process::is_below_host};
use trunkline_pipe::SocketPath;
use trunkline_protocol::{
    AdapterBody, AdapterMessage, AttachRefusal, Head, HostBody, HostMessage, RelayMessage,
    SessionId, SessionsListResult,
};
use trunkline_sessions::ends;

use crate::{RelayOptions, serve::serve_hub};

/// Maximum number of connected hubs per socket. A further hub waits until another has left.
const HUBS: usize = 256;

/// Delay after a connection could not be accepted: the process may be out of descriptors.
const AGAIN: Duration = Duration::from_millis(100);

/// Limit for the connections that get the reason of their refusal at a time. Further ones are closed
/// without it.
static REFUSALS: Semaphore = Semaphore::const_new(64);

/// Time that a refused connection has to read the reason.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Limit for what is read of it, in bytes.
const MAX_REFUSED_BYTES: u64 = 1024 * 1024;

/// All sockets of a relay. Dropping them ends what they serve at once.
#[derive(Debug)]
pub(crate) struct SocketListeners {
    doors: JoinSet<()>,
    stopping: watch::Sender<bool>,
}

impl SocketListeners {
    /// Opens the sockets that the options name.
    ///
    /// # Errors
    /// Returned for the first socket that cannot be opened, with the reason.
    pub(crate) fn open(host: &Host, options: &RelayOptions) -> io::Result<Self> {
        let (stopping, stopped) = watch::channel(false);
        let mut doors = JoinSet::new();
        for path in &options.sockets {
            let socket = PrivateSocket::open(path)?;
            host.hide(path);
            let inner = RelayOptions {
                sockets: Vec::new(),
                ..options.clone()
            }
            .of_user();
            doors.spawn(serve(socket, host.clone(), inner, stopped.clone()));
        }
        Ok(Self { doors, stopping })
    }

    /// Stops accepting hubs, and waits until the connected ones have received their last messages.
    pub(crate) async fn close(&mut self) {
        // Fails only if no socket is served.
        let _ = self.stopping.send(true);
        while self.doors.join_next().await.is_some() {}
    }
}

/// A socket of this user: a file of mode 0600. Connections of other users are refused, and so are
/// processes that an agent of this host or of another has started. Dropping the socket removes its
/// file.
#[derive(Debug)]
pub struct PrivateSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl PrivateSocket {
    /// Listens at a path, and replaces a socket left there by a process that has ended.
    /// [`Host::hide`] hides it from adapters in a sandbox, which could not be accepted as hubs
    /// either.
    ///
    /// # Errors
    /// Names the path and the reason, for example that another process listens there.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O.
    pub fn open(path: &Path) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                return Err(named(io::Error::other(
                    "there is a file that is no socket; name another path",
                )));
            }
            if SocketPath::new(path)
                .and_then(|path| Probe::connect(path.as_path()))
                .is_ok()
            {
                return Err(named(io::Error::other(
                    "another process listens there; name another path",
                )));
            }
            // Left by a process that has ended.
            fs::remove_file(path).map_err(named)?;
        }
        // Bound under another name first, so that nothing connects before the mode is set.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let new = path.with_file_name(format!(".{name}.{}", std::process::id()));
        let _ = fs::remove_file(&new);
        let listener = SocketPath::new(&new)
            .and_then(|new| UnixListener::bind(new.as_path()))
            .map_err(named)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&new, path))
            .map_err(named)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// Waits for the next permitted connection. Other connections are refused and logged.
    ///
    /// # Cancel safety
    /// Loses no connection.
    pub async fn accept(&self) -> UnixStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => match may_enter(&stream) {
                    Ok(()) => return stream,
                    Err(why) => {
                        tracing::warn!(socket = %self.path.display(), "a connection is refused: {why}");
                        if let Ok(place) = REFUSALS.try_acquire() {
                            tokio::spawn(async move {
                                // A client that does not read it leaves without it.
                                let _ = timeout(REFUSAL_TIMEOUT, send_refusal(stream, &why)).await;
                                drop(place);
                            });
                        }
                    }
                },
                Err(error) => {
                    tracing::warn!(socket = %self.path.display(), "a connection was not taken: {error}");
                    sleep(AGAIN).await;
                }
            }
        }
    }
}

impl Drop for PrivateSocket {
    fn drop(&mut self) {
        // If the file is missing, another process has removed it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Serves the hubs that connect to a socket.
async fn serve(
    socket: PrivateSocket,
    host: Host,
    options: RelayOptions,
    mut stopped: watch::Receiver<bool>,
) {
    let mut hubs = JoinSet::new();
    loop {
        let stream = tokio::select! {
            biased;
            // A dropped sender means stop.
            _ = stopped.changed() => break,
            Some(_) = hubs.join_next() => continue,
            stream = socket.accept(), if hubs.len() < HUBS => stream,
        };
        let (input, output) = stream.into_split();
        let mut stopped = stopped.clone();
        let stop = async move {
            // A dropped sender means stop.
            let _ = stopped.changed().await;
        };
        hubs.spawn(serve_hub(
            host.clone(),
            options.clone(),
            input,
            output,
            stop,
        ));
    }
    while hubs.join_next().await.is_some() {}
}

/// Answers the first request of a refused connection with the reason: HTTP, or a line of the protocol.
async fn send_refusal(stream: UnixStream, why: &str) -> io::Result<()> {
    let why = format!("the daemon refuses this connection: {why}");
    let mut input = BufReader::new(stream).take(MAX_REFUSED_BYTES);
    let mut line = String::new();
    input.read_line(&mut line).await?;
    let line = line.trim_end();
    let answer = match (Head::read(line), HostMessage::parse(line).map(|it| it.body)) {
        (Err(_), _) => {
            let detail = json!(why);
            let problem = format!(
                r#"{{"type":"about:blank","title":"Forbidden","status":403,"detail":{detail},"category":"permission_denied"}}"#
            );
            let head = "HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\nConnection: close";
            let length = problem.len();
            format!("{head}\r\nContent-Length: {length}\r\n\r\n{problem}").into_bytes()
        }
        (Ok(_), Ok(HostBody::SessionsList(list))) => {
            let result = SessionsListResult {
                error: Some(why),
                ..SessionsListResult::to(list.request_id)
            };
            AdapterMessage::new(SessionId::none(), AdapterBody::from(result)).to_line()
        }
        (Ok(head), _) => {
            let id = SessionId::new(&*head.session_id).map_err(io::Error::other)?;
            RelayMessage::new(id, ends::refused(AttachRefusal::Forbidden, why)).to_line()
        }
    };
    let stream = input.get_mut();
    stream.write_all(&answer).await?;
    stream.shutdown().await?;
    // A close with unread bytes would discard the answer.
    copy(&mut input, &mut sink()).await?;
    Ok(())
}

/// Checks that the peer of a connection may be a hub.
fn may_enter(stream: &UnixStream) -> Result<(), String> {
    let peer = stream.peer_cred().map_err(|error| error.to_string())?;
    let own = rustix::process::geteuid().as_raw();
    if peer.uid() != own {
        return Err(format!(
            "it is of the user {}, and this relay is of {own}",
            peer.uid()
        ));
    }
    let Some(pid) = peer.pid().and_then(|pid| u32::try_from(pid).ok()) else {
        return Err("its process is not known".to_owned());
    };
    match is_below_host(pid) {
        Some(false) => Ok(()),
        Some(true) => Err(format!(
            "the process {pid} was started by an agent, or is one"
        )),
        None => Err(format!(
            "the process {pid} has ended, or is in another PID namespace"
        )),
    }
}
