//! The sockets of a relay: further hubs of the same user, and no one else.
//!
//! A socket is a file of mode 0600, and each who connects is looked at: another user is refused, and so is whatever
//! descends from this process. An agent must not answer its own permission.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::UnixStream as Probe,
    },
    path::{Path, PathBuf},
};

use tokio::{
    net::{UnixListener, UnixStream},
    sync::watch,
    task::JoinSet,
    time::{Duration, sleep},
};
use trunkline_host::{Host, process::descends_from_this};

use crate::{RelayOptions, serve::serve_hub};

/// How many hubs there are at a time on one socket. A further one waits until one has gone.
const HUBS: usize = 256;

/// How long it waits after a connection could not be taken: there may be no descriptor.
const AGAIN: Duration = Duration::from_millis(100);

/// All sockets of a relay. Dropping them ends what they serve at once.
#[derive(Debug)]
pub(crate) struct Doors {
    doors: JoinSet<()>,
    stopping: watch::Sender<bool>,
}

impl Doors {
    /// Opens those that the options name.
    ///
    /// # Errors
    /// Which cannot be opened, and why.
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

    /// Takes no further hubs, and lets those that there are hear the last.
    pub(crate) async fn close(&mut self) {
        // Without a door no one hears it.
        let _ = self.stopping.send(true);
        while self.doors.join_next().await.is_some() {}
    }
}

/// A socket of this user: a file of mode 0600, which takes no connection of another user, and none of a process that
/// this process has started, or one of those. Dropping it removes its file.
#[derive(Debug)]
pub struct PrivateSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl PrivateSocket {
    /// Listens at a path. What a process has left there that has ended is replaced. [`Host::hide`] keeps it from adapters
    /// in a sandbox, which could not be taken as hubs either.
    ///
    /// # Errors
    /// The path, and why not: another process listens there, say.
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
            if Probe::connect(path).is_ok() {
                return Err(named(io::Error::other(
                    "another process listens there; name another path",
                )));
            }
            // Left by a process that has ended.
            fs::remove_file(path).map_err(named)?;
        }
        // Made under another name, so that no one connects before its mode is set.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let new = path.with_file_name(format!(".{name}.{}", std::process::id()));
        let _ = fs::remove_file(&new);
        let listener = UnixListener::bind(&new).map_err(named)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&new, path))
            .map_err(named)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// Waits for the next one who may connect. Others are refused, and the log says so.
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
        // Another's, if it is not there any more.
        let _ = fs::remove_file(&self.path);
    }
}

/// Takes the hubs that connect to a socket.
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
            // Gone is stopped.
            _ = stopped.changed() => break,
            Some(_) = hubs.join_next() => continue,
            stream = socket.accept(), if hubs.len() < HUBS => stream,
        };
        let (input, output) = stream.into_split();
        let mut stopped = stopped.clone();
        let stop = async move {
            // Gone is stopped.
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

/// Whether one who connects may be a hub.
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
    match descends_from_this(pid) {
        Some(false) => Ok(()),
        Some(true) => Err(format!(
            "the process {pid} was started by an agent of this relay"
        )),
        None => Err(format!(
            "the process {pid} has ended, or is in another PID namespace"
        )),
    }
}
