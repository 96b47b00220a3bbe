//! Servers over the network: their addresses, TLS, and the protocol over a WebSocket with a token.

use std::{
    fmt, io,
    net::IpAddr,
    pin::Pin,
    str::FromStr,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::{Sink, Stream};
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        Bytes, Error, Message,
        client::IntoClientRequest,
        http::{HeaderValue, StatusCode, Uri, header::AUTHORIZATION},
        protocol::WebSocketConfig,
    },
};
use trunkline_protocol::MAX_LINE;

use super::{Connect, Pipe};
use crate::{ConnectError, HttpClient};

/// The longest message, in bytes: a line, and what the relay adds to it.
const MAX_MESSAGE: usize = MAX_LINE + (256 << 10);

/// The path of the protocol's WebSocket.
const PATH: &str = "/v1/pipe";

/// The WebSocket of a daemon, `ws://HOST:PORT` or `wss://HOST[:PORT]`, which a token opens.
///
/// With `wss` the daemon's certificate is verified by the authorities of this machine, or of the
/// file that `SSL_CERT_FILE` names. Without TLS only this machine is reached, unless
/// [`WebSocket::allow_insecure`] is used. A token that the daemon refuses (401, 403) is permanent.
/// Several addresses are daemons of one cluster, and are tried in turn.
#[derive(Debug, Clone)]
pub struct WebSocket {
    daemons: DaemonAddresses,
    next: usize,
}

/// The addresses of the daemons of one cluster, and the token that opens them.
#[derive(Clone)]
pub(crate) struct DaemonAddresses {
    addresses: Vec<String>,
    token: String,
    is_insecure: bool,
}

impl DaemonAddresses {
    /// Connects to the daemon of this number, modulo their count. Returns its address, the
    /// connection, and the header with the token.
    pub(crate) async fn connect(
        &self,
        number: usize,
    ) -> Result<(ServerAddress, Box<dyn ByteStream>, HeaderValue), ConnectError> {
        let wrong = |reason: &dyn fmt::Display| {
            ConnectError::permanent(format!("the address of the daemon is wrong: {reason}"))
        };
        let address = &self.addresses[number % self.addresses.len()];
        let server: ServerAddress = address.parse().map_err(|error| wrong(&error))?;
        if server.path().contains('?') {
            return Err(wrong(&"it has a query"));
        }
        if server.is_exposed() && !self.is_insecure {
            return Err(wrong(&"without TLS the token could be read on the way"));
        }
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", self.token))
            .map_err(|_| ConnectError::permanent("the token has characters that no token has"))?;
        bearer.set_sensitive(true);
        let stream = server.connect().await.map_err(|error| match error.kind() {
            // This machine has no certificates.
            io::ErrorKind::NotFound => ConnectError::permanent(error.to_string()),
            _ => ConnectError::transient(format!("the daemon at {server}: {error}")),
        })?;
        Ok((server, stream, bearer))
    }

    /// Removes the token from a text of the daemon.
    pub(crate) fn without_token(&self, text: &str) -> String {
        match &*self.token {
            "" => text.to_owned(),
            token => text.replace(token, "[token]"),
        }
    }
}

impl WebSocket {
    /// The daemon at an address.
    #[must_use]
    pub fn new(address: impl Into<String>, token: impl Into<String>) -> Self {
        Self {
            daemons: DaemonAddresses {
                addresses: vec![address.into()],
                token: token.into(),
                is_insecure: false,
            },
            next: 0,
        }
    }

    /// Adds the address of another daemon of the same cluster.
    #[must_use]
    pub fn or(mut self, address: impl Into<String>) -> Self {
        self.daemons.addresses.push(address.into());
        self
    }

    /// Allows other machines without TLS: everyone on the way can read all, the token too.
    #[must_use]
    pub fn allow_insecure(mut self) -> Self {
        self.daemons.is_insecure = true;
        self
    }

    pub(crate) fn into_addresses(self) -> DaemonAddresses {
        self.daemons
    }

    async fn open(&self, number: usize) -> Result<Pipe, ConnectError> {
        let (server, stream, bearer) = self.daemons.connect(number).await?;
        let target = format!("{server}{PATH}");
        let mut request = target
            .into_client_request()
            .map_err(|error| ConnectError::permanent(format!("the address {server}: {error}")))?;
        request.headers_mut().insert(AUTHORIZATION, bearer);
        let failed = |error: &dyn fmt::Display| {
            ConnectError::transient(format!("the daemon at {server}: {error}"))
        };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        match client_async_with_config(request, stream, Some(config)).await {
            Ok((socket, _)) => {
                let lines = LineStream::new(socket);
                let (input, output) = tokio::io::split(lines);
                Ok(Pipe::new(input, output).over_network())
            }
            Err(Error::Http(response)) => {
                let status = response.status();
                Err(match status {
                    StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                        ConnectError::permanent(format!(
                            "the daemon at {server} refuses the token ({status}); make one with `trunkline token new --scope control`"
                        ))
                    }
                    _ if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS => {
                        ConnectError::permanent(format!("the daemon at {server} answers {status}"))
                    }
                    _ => failed(&status),
                })
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

impl Connect for WebSocket {
    async fn connect(&mut self) -> Result<Pipe, ConnectError> {
        let mut first = None;
        for _ in 0..self.daemons.addresses.len() {
            let number = self.next;
            self.next += 1;
            match self.open(number).await {
                Ok(pipe) => return Ok(pipe),
                Err(error) if error.is_permanent() => return Err(error),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| ConnectError::permanent("no address was given")))
    }

    fn http(&self) -> Option<HttpClient> {
        Some(self.clone().into())
    }
}

impl fmt::Debug for DaemonAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaemonAddresses")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// A WebSocket as a stream of lines: each message holds whole lines.
struct LineStream {
    socket: WebSocketStream<Box<dyn ByteStream>>,
    /// The part of the last message that is not read, and whether an LF follows it.
    unread: Bytes,
    needs_lf: bool,
    /// The beginning of a line whose end was not written.
    begun: Vec<u8>,
}

impl LineStream {
    fn new(socket: WebSocketStream<Box<dyn ByteStream>>) -> Self {
        Self {
            socket,
            unread: Bytes::new(),
            needs_lf: false,
            begun: Vec::new(),
        }
    }
}

impl AsyncRead for LineStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if !self.unread.is_empty() {
                let bytes = self.unread.len().min(buffer.remaining());
                buffer.put_slice(&self.unread.split_to(bytes));
                return Poll::Ready(Ok(()));
            }
            if std::mem::take(&mut self.needs_lf) {
                self.unread = Bytes::from_static(b"\n");
                continue;
            }
            let contents: Bytes = match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                None | Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed)) => {
                    return Poll::Ready(Ok(()));
                }
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                Some(Ok(Message::Text(text))) => text.into(),
                Some(Ok(Message::Binary(bytes))) => bytes,
                Some(Ok(_)) => continue,
            };
            self.needs_lf = contents.last().is_some_and(|byte| *byte != b'\n');
            self.unread = contents;
        }
    }
}

impl AsyncWrite for LineStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(end) = memchr::memrchr(b'\n', bytes) else {
            self.begun.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        };
        ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(io::Error::other)?;
        // Lines go one by one: several could be longer than a message may be.
        let end = memchr::memchr(b'\n', bytes).unwrap_or(end);
        let mut line = std::mem::take(&mut self.begun);
        line.extend_from_slice(&bytes[..=end]);
        let text = String::from_utf8(line).map_err(io::Error::other)?;
        let message = Message::text(text);
        Pin::new(&mut self.socket)
            .start_send(message)
            .map_err(io::Error::other)?;
        Poll::Ready(Ok(end + 1))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket)
            .poll_flush(cx)
            .map_err(io::Error::other)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket)
            .poll_close(cx)
            .map_err(io::Error::other)
    }
}

/// The bytes of a connection, with or without TLS.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// The address of a server: `wss://HOST[:PORT][/PATH]`, or `ws://` without TLS. `https` and `http`
/// mean the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    host: String,
    port: u16,
    is_secure: bool,
    /// Empty, or from a `/` on.
    path: String,
}

/// The reason why a text is not the address of a server. It contains nothing of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}; write wss://HOST[:PORT], or ws://HOST[:PORT] without TLS")]
pub struct AddressError(&'static str);

impl FromStr for ServerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let uri: Uri = text.parse().map_err(|_| AddressError("it is not a URL"))?;
        let is_secure = match uri.scheme_str() {
            Some("wss" | "https") => true,
            Some("ws" | "http") => false,
            _ => return Err(AddressError("its scheme is unknown")),
        };
        let authority = uri.authority().filter(|it| !it.host().is_empty());
        let authority = authority.ok_or(AddressError("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(AddressError("it has a user, but a token is used"));
        }
        let path = uri.path_and_query().map_or("", |path| path.as_str());
        let default_port = if is_secure { 443 } else { 80 };
        Ok(Self {
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(default_port),
            is_secure,
            path: path.trim_end_matches('/').to_owned(),
        })
    }
}

impl ServerAddress {
    /// Returns true if everyone on the way can read what is sent: without TLS, to another machine.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        let address = self.bare_host().parse::<IpAddr>();
        let is_local = address.is_ok_and(|address| address.is_loopback());
        !self.is_secure && !is_local && self.host != "localhost"
    }

    /// Returns true if connections use TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// The host and its port, for the `Host` of a request.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The path and the query; empty without one.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Connects, with TLS by [`tls_config`] if the address has it.
    ///
    /// # Errors
    /// The cause of the failure.
    ///
    /// # Cancel safety
    /// Cancelling closes the connection.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O.
    pub async fn connect(&self) -> io::Result<Box<dyn ByteStream>> {
        self.connect_with(self.is_secure.then(tls_config).transpose()?)
            .await
    }

    /// Connects, with this TLS if the address has it.
    ///
    /// # Errors
    /// The cause of the failure; without TLS for an address that has it
    /// [`InvalidInput`](io::ErrorKind::InvalidInput).
    ///
    /// # Cancel safety
    /// Cancelling closes the connection.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O.
    pub async fn connect_with(
        &self,
        tls: Option<Arc<ClientConfig>>,
    ) -> io::Result<Box<dyn ByteStream>> {
        let host = self.bare_host();
        let tcp = TcpStream::connect((host, self.port)).await?;
        tcp.set_nodelay(true)?;
        if !self.is_secure {
            return Ok(Box::new(tcp));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(tls.ok_or(io::ErrorKind::InvalidInput)?);
        Ok(Box::new(connector.connect(name, tcp).await?))
    }

    /// The host for a resolver and for TLS: an IPv6 address without its brackets.
    fn bare_host(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "wss" } else { "ws" };
        write!(f, "{scheme}://{}:{}{}", self.host, self.port, self.path)
    }
}

/// TLS that verifies servers by the authorities of this machine, or of the file that
/// `SSL_CERT_FILE` names.
///
/// # Errors
/// This machine has no authorities.
pub fn tls_config() -> io::Result<Arc<ClientConfig>> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let message = "this machine has no certificates; SSL_CERT_FILE can name a file of them";
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(Arc::new(
        config.with_root_certificates(roots).with_no_client_auth(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_a_wrong_one_has_the_reason() {
        for (text, whole, is_exposed) in [
            ("wss://hub.example.org", "wss://hub.example.org:443", false),
            (
                "https://hub.example.org/",
                "wss://hub.example.org:443",
                false,
            ),
            ("ws://127.0.0.1:8080", "ws://127.0.0.1:8080", false),
            ("ws://[::1]:8080/x?y=1", "ws://[::1]:8080/x?y=1", false),
            ("ws://localhost", "ws://localhost:80", false),
            ("ws://hub.example.org", "ws://hub.example.org:80", true),
            ("http://10.0.0.1:1", "ws://10.0.0.1:1", true),
            (
                "ws://localhost.example.org",
                "ws://localhost.example.org:80",
                true,
            ),
        ] {
            let address: ServerAddress = text.parse().unwrap();
            assert_eq!(
                (address.to_string().as_str(), address.is_exposed()),
                (whole, is_exposed),
                "{text}"
            );
        }
        for text in [
            "",
            "hub.example.org",
            "ftp://a",
            "ws://",
            "wss://user:secret@hub",
            "wss://a b",
        ] {
            let why = text.parse::<ServerAddress>().unwrap_err().to_string();
            assert!(!why.contains("secret"), "{why}");
        }
    }
}
