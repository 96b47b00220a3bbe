//! A connection to the hub: TCP, TLS that verifies, WebSocket.

use std::{
    io,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{Error, Message, client::IntoClientRequest, protocol::WebSocketConfig},
};

use crate::address::Address;

/// How long a connection may take.
const DIALS: Duration = Duration::from_secs(20);

/// The longest frame of the hub's, in bytes: a file of 10 MiB in Base64, with room.
const MAX_FRAME: usize = 20 << 20;

/// What is written before the socket takes it, in bytes.
const WRITTEN: usize = 64 * 1024;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub(crate) type Socket = WebSocketStream<Box<dyn Stream>>;

/// The certificates that a hub's is verified by: those of this machine, or of the file that `SSL_CERT_FILE` names.
///
/// # Errors
/// When there are none.
pub(crate) fn tls() -> io::Result<Arc<ClientConfig>> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(io::Error::other(
            "this machine has no certificates; SSL_CERT_FILE can name a file of them",
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(Arc::new(
        config.with_root_certificates(roots).with_no_client_auth(),
    ))
}

/// Connects to a hub.
///
/// # Errors
/// Why there is no connection. The text holds no token.
pub(crate) async fn dial(address: &Address, tls: Option<&Arc<ClientConfig>>) -> io::Result<Socket> {
    timeout(DIALS, open(address, tls))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// Connects to a hub's host and port, with TLS that is verified where its address says so. For what is asked over HTTP.
///
/// # Errors
/// Why there is no connection.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn stream(
    address: &Address,
) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>> {
    let tls = if address.is_secure() {
        Some(tls()?)
    } else {
        None
    };
    timeout(DIALS, plain(address, tls.as_ref()))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn plain(address: &Address, tls: Option<&Arc<ClientConfig>>) -> io::Result<Box<dyn Stream>> {
    let tcp = TcpStream::connect((address.bare_host(), address.port())).await?;
    tcp.set_nodelay(true)?;
    let Some(tls) = tls else {
        return Ok(Box::new(tcp));
    };
    let name = ServerName::try_from(address.bare_host().to_owned()).map_err(io::Error::other)?;
    Ok(Box::new(
        TlsConnector::from(tls.clone()).connect(name, tcp).await?,
    ))
}

async fn open(address: &Address, tls: Option<&Arc<ClientConfig>>) -> io::Result<Socket> {
    let stream = plain(address, tls).await?;
    let request = address
        .to_string()
        .into_client_request()
        .map_err(io::Error::other)?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_FRAME))
        .max_frame_size(Some(MAX_FRAME))
        .write_buffer_size(WRITTEN);
    let (socket, _) = client_async_with_config(request, stream, Some(config))
        .await
        .map_err(io::Error::other)?;
    Ok(socket)
}

/// What a socket did.
pub(crate) enum Woke {
    Read(Option<Result<Message, Error>>),
    Written(Result<(), Error>),
}

/// What a socket is to do: read, take the next frame, or write out what it has.
#[derive(Clone, Copy)]
pub(crate) struct Wants {
    pub(crate) read: bool,
    pub(crate) next: bool,
    pub(crate) flush: bool,
    /// Whether writing comes first this time.
    pub(crate) writes_first: bool,
}

/// Does one of these things, as soon as one can be done.
pub(crate) fn poll(socket: &mut Socket, wants: Wants, cx: &mut Context<'_>) -> Poll<Woke> {
    for writes in [wants.writes_first, !wants.writes_first] {
        let woke = match writes {
            false if wants.read => socket.poll_next_unpin(cx).map(Woke::Read),
            true if wants.next => socket.poll_ready_unpin(cx).map(Woke::Written),
            true if wants.flush => socket.poll_flush_unpin(cx).map(Woke::Written),
            _ => Poll::Pending,
        };
        if woke.is_ready() {
            return woke;
        }
    }
    Poll::Pending
}
