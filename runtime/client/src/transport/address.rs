//! Addresses of servers over the network, and connections to them.

use std::{fmt, io, net::IpAddr, str::FromStr, sync::Arc};

use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::http::Uri;

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
        let host = self.bare_host();
        let tcp = TcpStream::connect((host, self.port)).await?;
        tcp.set_nodelay(true)?;
        if !self.is_secure {
            return Ok(Box::new(tcp));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(tls_config()?);
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
/// There are none.
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
