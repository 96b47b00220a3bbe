//! A host that listens on a Unix socket.

use std::path::PathBuf;

use tokio::net::UnixStream;

use super::{Connect, Pipe};
use crate::ConnectError;

/// The socket of a daemon (`journal/host.sock` in its folder), or of `trunkline serve --listen
/// unix:PATH`.
#[derive(Debug, Clone)]
pub struct UnixSocket {
    path: PathBuf,
}

impl UnixSocket {
    /// The socket at a path.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

impl Connect for UnixSocket {
    async fn connect(&mut self) -> Result<Pipe, ConnectError> {
        let connected = UnixStream::connect(&self.path).await;
        let stream = connected.map_err(|error| {
            let message = format!("the socket {}: {error}", self.path.display());
            match error.kind() {
                std::io::ErrorKind::PermissionDenied => ConnectError::permanent(message),
                _ => ConnectError::transient(message),
            }
        })?;
        let (input, output) = stream.into_split();
        Ok(Pipe::new(input, output))
    }
}
