//! Transports: how a client connects, and connects again.

#[cfg(feature = "websocket")]
mod address;
mod child;
mod streams;
#[cfg(unix)]
mod unix;
#[cfg(feature = "websocket")]
mod websocket;

use std::{future::Future, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    process::Child,
    time::timeout,
};

#[cfg(feature = "websocket")]
pub use self::address::{AddressError, ByteStream, ServerAddress, tls_config};
pub use self::child::ChildProcess;
pub use self::streams::Streams;
#[cfg(unix)]
pub use self::unix::UnixSocket;
#[cfg(feature = "websocket")]
pub use self::websocket::WebSocket;
use crate::ConnectError;

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
