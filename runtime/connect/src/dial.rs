//! The WebSocket of a hub.

use std::{
    io,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use tokio::time::timeout;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{Error, Message, client::IntoClientRequest, protocol::WebSocketConfig},
};
use trunkline_client::{ByteStream, ServerAddress};

/// The path of a runtime's WebSocket, unless the address has another.
const PATH: &str = "/ws/runtime";

/// Timeout for a connection.
const DIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest frame of the hub, in bytes: a file of 10 MiB in Base64, with room.
const MAX_FRAME: usize = 20 << 20;

/// The size of the write buffer, in bytes.
const WRITE_BUFFER: usize = 64 * 1024;

/// The connection to a hub.
pub(crate) type HubSocket = WebSocketStream<Box<dyn ByteStream>>;

/// Connects to a hub.
///
/// # Errors
/// The cause of the failure. It does not contain the token.
pub(crate) async fn dial(address: &ServerAddress) -> io::Result<HubSocket> {
    timeout(DIAL_TIMEOUT, open_socket(address))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn open_socket(address: &ServerAddress) -> io::Result<HubSocket> {
    let stream = address.connect().await?;
    let path = if address.path().is_empty() { PATH } else { "" };
    let request = format!("{address}{path}").into_client_request();
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_FRAME))
        .max_frame_size(Some(MAX_FRAME))
        .write_buffer_size(WRITE_BUFFER);
    let request = request.map_err(io::Error::other)?;
    let opened = client_async_with_config(request, stream, Some(config)).await;
    opened.map(|(socket, _)| socket).map_err(io::Error::other)
}

/// The result of [`poll`].
pub(crate) enum SocketEvent {
    Read(Option<Result<Message, Error>>),
    Written(Result<(), Error>),
}

/// Operations of a socket: read a message, accept the next frame, or flush.
#[derive(Clone, Copy)]
pub(crate) struct SocketInterest {
    pub(crate) read: bool,
    pub(crate) next: bool,
    pub(crate) flush: bool,
    /// True if writing comes first this time.
    pub(crate) writes_first: bool,
}

/// Does the first of these operations that is possible.
pub(crate) fn poll(
    socket: &mut HubSocket,
    wants: SocketInterest,
    cx: &mut Context<'_>,
) -> Poll<SocketEvent> {
    for writes in [wants.writes_first, !wants.writes_first] {
        let woke = match writes {
            false if wants.read => socket.poll_next_unpin(cx).map(SocketEvent::Read),
            true if wants.next => socket.poll_ready_unpin(cx).map(SocketEvent::Written),
            true if wants.flush => socket.poll_flush_unpin(cx).map(SocketEvent::Written),
            _ => Poll::Pending,
        };
        if woke.is_ready() {
            return woke;
        }
    }
    Poll::Pending
}
