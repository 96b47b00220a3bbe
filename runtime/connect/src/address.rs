//! Where a hub is.

use std::{fmt, net::IpAddr, str::FromStr};

use tokio_tungstenite::tungstenite::http::Uri;

/// The path of a runtime's WebSocket.
const PATH: &str = "/ws/runtime";

/// Where a hub is: `wss://HOST[:PORT][/PATH]`, or `ws://` without TLS. The path is `/ws/runtime` unless it has another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
    is_secure: bool,
    path: String,
}

/// Why a text is not the address of a hub.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadAddress(String);

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = |why: &str| {
            BadAddress(format!(
                "{why}; it is wss://HOST[:PORT], or ws:// without TLS"
            ))
        };
        let uri: Uri = text.parse().map_err(|_| bad("this is not an address"))?;
        let is_secure = match uri.scheme_str() {
            Some("wss" | "https") => true,
            Some("ws" | "http") => false,
            _ => return Err(bad("its scheme is unknown")),
        };
        let authority = uri.authority().ok_or_else(|| bad("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("it has a user; the token is read from its file"));
        }
        let host = authority.host();
        if host.is_empty() {
            return Err(bad("it has no host"));
        }
        let path = uri.path_and_query().map_or("", |path| path.as_str());
        let path = if matches!(path, "" | "/") { PATH } else { path };
        let port = authority
            .port_u16()
            .unwrap_or(if is_secure { 443 } else { 80 });
        Ok(Self {
            host: host.to_owned(),
            port,
            is_secure,
            path: path.to_owned(),
        })
    }
}

impl Address {
    /// Whether what is sent can be read on the way: without TLS, and to another machine.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let of_this_machine = self
            .bare_host()
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback());
        !self.is_secure && !of_this_machine && self.host != "localhost"
    }

    /// The host and its port, as a request names them.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// The host, for a resolver and for TLS: an IPv6 address without its brackets.
    pub(crate) fn bare_host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "wss" } else { "ws" };
        write!(f, "{scheme}://{}:{}{}", self.host, self.port, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_what_is_none_says_why() {
        for (text, whole, is_open) in [
            (
                "wss://hub.example.org",
                "wss://hub.example.org:443/ws/runtime",
                false,
            ),
            (
                "https://hub.example.org/",
                "wss://hub.example.org:443/ws/runtime",
                false,
            ),
            (
                "ws://127.0.0.1:8080",
                "ws://127.0.0.1:8080/ws/runtime",
                false,
            ),
            ("ws://[::1]:8080/x?y=1", "ws://[::1]:8080/x?y=1", false),
            ("ws://localhost", "ws://localhost:80/ws/runtime", false),
            (
                "ws://hub.example.org",
                "ws://hub.example.org:80/ws/runtime",
                true,
            ),
            ("http://10.0.0.1:1", "ws://10.0.0.1:1/ws/runtime", true),
            (
                "ws://localhost.example.org",
                "ws://localhost.example.org:80/ws/runtime",
                true,
            ),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(
                (address.to_string().as_str(), address.is_open()),
                (whole, is_open),
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
            let why = text.parse::<Address>().unwrap_err().to_string();
            assert!(!why.contains("secret"), "{why}");
        }
    }
}
