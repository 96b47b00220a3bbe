//! Transports: how a client connects, and connects again.

#[cfg(feature = "websocket")]
mod websocket;

use std::{ffi::OsStr, future::Future, process::Stdio, time::Duration};
#[cfg(unix)]
use std::{
    io,
    path::{Path, PathBuf},
};

#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    process::{Child, Command},
    time::timeout,
};
#[cfg(unix)]
use trunkline_pipe::SocketPath;

#[cfg(feature = "websocket")]
pub(crate) use self::websocket::DaemonAddresses;
#[cfg(feature = "websocket")]
pub use self::websocket::{AddressError, ByteStream, ServerAddress, WebSocket, tls_config};
use crate::ConnectError;
#[cfg(feature = "websocket")]
use crate::HttpClient;

/// Timeout for the exit of a command whose streams have ended, and of one that is closed. Then it
/// is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The exit status of a command with a wrong configuration ([process.7]).
const WRONG_CONFIGURATION: i32 = 2;

/// A way to connect to a host, which a client uses again when the connection breaks.
///
/// The host is a relay ([relay.8]): `trunkline serve`, a daemon, or another program that speaks the
/// protocol upwards.
pub trait Connect: Send + 'static {
    /// Makes a connection. The caller limits the time.
    fn connect(&mut self) -> impl Future<Output = Result<Pipe, ConnectError>> + Send;

    /// Returns HTTP of the same host. `None` by default: not every host has it.
    #[cfg(feature = "websocket")]
    fn http(&self) -> Option<HttpClient> {
        None
    }
}

/// The two ends of a connection to a host.
pub struct Pipe {
    input: Box<dyn AsyncRead + Send + Unpin>,
    output: Box<dyn AsyncWrite + Send + Unpin>,
    child: Option<Child>,
    is_remote: bool,
}

impl Pipe {
    /// A connection whose host writes to `input` and reads from `output`, on this machine.
    #[must_use]
    pub fn new(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            input: Box::new(input),
            output: Box::new(output),
            child: None,
            is_remote: false,
        }
    }

    /// Marks a connection to another machine: the host is pinged, and no path of this machine is
    /// announced.
    #[must_use]
    pub fn over_network(mut self) -> Self {
        self.is_remote = true;
        self
    }

    fn of_child(mut self, child: Child) -> Self {
        self.child = Some(child);
        self
    }

    pub(crate) fn is_remote(&self) -> bool {
        self.is_remote
    }

    pub(crate) fn ends(
        &mut self,
    ) -> (
        &mut (dyn AsyncRead + Send + Unpin),
        &mut (dyn AsyncWrite + Send + Unpin),
    ) {
        (&mut *self.input, &mut *self.output)
    }

    /// Ends a broken connection. Returns the reason: for a command, the way in which it ended.
    pub(crate) async fn lost(self, reason: String) -> ConnectError {
        let Self {
            input,
            output,
            child,
            ..
        } = self;
        drop((input, output));
        let Some(mut child) = child else {
            return ConnectError::transient(reason);
        };
        match end_child(&mut child).await {
            Some(status) if status.code() == Some(WRONG_CONFIGURATION) => ConnectError::permanent(
                "the command ended with status 2: its configuration is wrong; its stderr names the key",
            ),
            Some(status) => ConnectError::transient(format!("the command ended with {status}")),
            None => ConnectError::transient(format!("{reason}; the command was killed")),
        }
    }

    /// Ends a connection that is closed in order.
    pub(crate) async fn finish(self) {
        let Self {
            input,
            output,
            child,
            ..
        } = self;
        drop((input, output));
        if let Some(mut child) = child {
            end_child(&mut child).await;
        }
    }
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipe")
            .field("child", &self.child)
            .field("is_remote", &self.is_remote)
            .finish_non_exhaustive()
    }
}

/// Waits for the exit of a command; kills it when it takes too long.
async fn end_child(child: &mut Child) -> Option<std::process::ExitStatus> {
    if let Ok(Ok(status)) = timeout(EXIT_TIMEOUT, child.wait()).await {
        return Some(status);
    }
    // It may have ended just now.
    let _ = child.kill().await;
    None
}

/// A command such as `trunkline serve --journal FOLDER`, which is started, and started again when
/// it ends.
///
/// Its stderr is this program's, unless the command redirects it. It ends with the client. Exit
/// status 2, a wrong configuration, is permanent, and so is a program that cannot be started.
#[derive(Debug)]
pub struct ChildProcess {
    command: Command,
}

impl ChildProcess {
    /// A program with arguments.
    #[must_use]
    pub fn new<S: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut command = Command::new(program);
        command.args(arguments);
        Self::from_command(command)
    }

    /// A command with an environment, a folder or a stderr of its own. Its stdin and stdout are the
    /// connection.
    #[must_use]
    pub fn from_command(command: impl Into<Command>) -> Self {
        let mut command = command.into();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        Self { command }
    }
}

impl Connect for ChildProcess {
    async fn connect(&mut self) -> Result<Pipe, ConnectError> {
        let program = self.command.as_std().get_program().display().to_string();
        let mut child = self.command.spawn().map_err(|error| {
            ConnectError::permanent(format!("the command {program} was not started: {error}"))
        })?;
        let (Some(input), Some(output)) = (child.stdout.take(), child.stdin.take()) else {
            return Err(ConnectError::permanent(format!(
                "the command {program} has no pipes"
            )));
        };
        Ok(Pipe::new(input, output).of_child(child))
    }
}

/// Two streams to a host, such as the halves of a [`tokio::io::duplex`] to a relay in this process.
/// When they end, the client gives up.
#[derive(Debug)]
pub struct Streams {
    pipe: Option<Pipe>,
}

impl Streams {
    /// The stream that the host writes to, and the stream that it reads from.
    #[must_use]
    pub fn new(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            pipe: Some(Pipe::new(input, output)),
        }
    }
}

impl Connect for Streams {
    async fn connect(&mut self) -> Result<Pipe, ConnectError> {
        let ended = || ConnectError::permanent("the streams to the host have ended");
        self.pipe.take().ok_or_else(ended)
    }
}

/// The socket of a daemon (`journal/host.sock` in its folder), or of `trunkline serve --listen
/// unix:PATH`.
#[cfg(unix)]
#[derive(Debug, Clone)]
pub struct UnixSocket {
    path: PathBuf,
}

/// Connects to the Unix socket at a path of any length.
///
/// # Errors
/// No one listens there, or this user may not connect.
///
/// # Panics
/// Outside a tokio runtime with I/O.
#[cfg(unix)]
pub async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let path = SocketPath::new(path)?;
    UnixStream::connect(path.as_path()).await
}

#[cfg(unix)]
impl UnixSocket {
    /// The socket at a path.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub(crate) async fn open(&self) -> Result<UnixStream, ConnectError> {
        connect_unix(&self.path).await.map_err(|error| {
            let message = format!("the socket {}: {error}", self.path.display());
            match error.kind() {
                io::ErrorKind::PermissionDenied => ConnectError::permanent(message),
                _ => ConnectError::transient(message),
            }
        })
    }
}

#[cfg(unix)]
impl Connect for UnixSocket {
    async fn connect(&mut self) -> Result<Pipe, ConnectError> {
        let (input, output) = self.open().await?.into_split();
        Ok(Pipe::new(input, output))
    }

    #[cfg(feature = "websocket")]
    fn http(&self) -> Option<HttpClient> {
        Some(self.clone().into())
    }
}
