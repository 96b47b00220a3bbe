//! A host at the other end of streams that exist once.

use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connect, Pipe};
use crate::ConnectError;

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
