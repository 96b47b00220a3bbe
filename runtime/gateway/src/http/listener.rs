//! Network listeners: address, accepted host names, TLS.

use std::net::SocketAddr;

use serde::Serialize;
use tokio::net::TcpListener;

use crate::http::tls::Tls;

/// Network listener of the daemon.
#[derive(Debug)]
pub struct Listener {
    /// The bound socket.
    pub listener: TcpListener,
    /// Accepted values of `Host`, besides the names in the certificate.
    pub names: Vec<HostName>,
    /// Certificate and key; `None` serves plain HTTP.
    pub tls: Option<Tls>,
}

/// Address of a listener, for clients.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ListenerSummary {
    #[cfg_attr(test, schemars(with = "String"))]
    address: SocketAddr,
    tls: bool,
    /// Origin of the console there, for browsers; null if no host name is known.
    pub(crate) origin: Option<String>,
}

impl Listener {
    /// Returns the bound address; `None` if the system does not report it.
    pub(crate) fn summary(&self) -> Option<ListenerSummary> {
        let address = self.listener.local_addr().ok()?;
        Some(ListenerSummary {
            address,
            tls: self.tls.is_some(),
            origin: self.origin(address),
        })
    }

    /// Returns the origin of the console: with a name of the configuration or of the certificate.
    fn origin(&self, address: SocketAddr) -> Option<String> {
        let (scheme, usual_port) = if self.tls.is_some() {
            ("https", 443)
        } else {
            ("http", 80)
        };
        let any_port = self.names.iter().filter_map(|name| match name {
            HostName::AnyPort(name) => Some(name.clone()),
            HostName::WithPort(_) => None,
        });
        let is_certified = |name: &String| self.tls.as_ref().is_some_and(|tls| tls.is_for(name));
        let system = rustix::system::uname();
        let own_name = system.nodename().to_str().ok().map(str::to_owned);
        let mut names = any_port.clone().chain(own_name).filter(is_certified);
        let name = names.next().or_else(|| any_port.clone().next());
        let host = match (name, address.port()) {
            (Some(name), port) if port == usual_port => name,
            (Some(name), port) => format!("{name}:{port}"),
            (None, _) if address.ip().is_unspecified() => return None,
            (None, _) => address.to_string(),
        };
        Some(format!("{scheme}://{host}"))
    }
}

/// Accepted value of the `Host` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostName {
    /// With its port: `localhost:7457`.
    WithPort(String),
    /// With any port or none, as behind a proxy: `agents.example`, `192.0.2.1`, `[2001:db8::1]`.
    AnyPort(String),
}

/// Names and certificate of the listener that accepted a connection.
#[derive(Debug)]
pub(crate) struct ListenerIdentity {
    pub(crate) names: Vec<HostName>,
    pub(crate) tls: Option<Tls>,
}

impl ListenerIdentity {
    /// Returns `true` if `Host` names this daemon.
    pub(crate) fn is_to(&self, host: &str) -> bool {
        let bare = without_port(host);
        let is_named = |name: &HostName| match name {
            HostName::WithPort(name) => name.eq_ignore_ascii_case(host),
            HostName::AnyPort(name) => name.eq_ignore_ascii_case(bare),
        };
        self.names.iter().any(is_named) || self.tls.as_ref().is_some_and(|tls| tls.is_for(bare))
    }

    /// Returns `true` if the origin is the daemon's own page.
    pub(crate) fn is_origin(&self, origin: &str) -> bool {
        let scheme = if self.tls.is_some() {
            "https://"
        } else {
            "http://"
        };
        origin
            .strip_prefix(scheme)
            .is_some_and(|host| self.is_to(host))
    }
}

/// Removes the port; an IPv6 address keeps its brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if !name.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            // A colon within brackets belongs to the address.
            if name.starts_with('[') && !name.ends_with(']') {
                host
            } else {
                name
            }
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_origin_of_a_listener_has_a_name_that_its_certificate_has() {
        let folder = tempfile::tempdir().unwrap();
        let certified = "agents.example";
        let name = |name: &str| HostName::AnyPort(name.to_owned());
        let local = HostName::WithPort("localhost:7457".to_owned());
        for (at, names, has_tls, expected) in [
            (
                "127.0.0.1:0",
                vec![local],
                false,
                Some("http://127.0.0.1:PORT"),
            ),
            (
                "0.0.0.0:0",
                vec![name("box")],
                false,
                Some("http://box:PORT"),
            ),
            (
                "127.0.0.1:0",
                vec![name("192.0.2.1"), name(certified)],
                true,
                Some("https://agents.example:PORT"),
            ),
            (
                "127.0.0.1:0",
                vec![name("192.0.2.1")],
                true,
                Some("https://192.0.2.1:PORT"),
            ),
            ("0.0.0.0:0", vec![], true, None),
        ] {
            let tls =
                has_tls.then(|| crate::http::tls::tests::self_signed(folder.path(), certified));
            let listener = TcpListener::bind(at).await.unwrap();
            let port = listener.local_addr().unwrap().port().to_string();
            let listener = Listener {
                listener,
                names,
                tls,
            };
            let origin = listener.summary().unwrap().origin;
            let expected = expected.map(|origin: &str| origin.replace("PORT", &port));
            assert_eq!(origin, expected);
        }
    }

    #[test]
    fn a_host_is_named_with_its_port_or_with_any() {
        let names = ["Agents.example", "192.0.2.1", "[2001:db8::1]"]
            .map(|name| HostName::AnyPort(name.to_owned()));
        let with_port = HostName::WithPort("localhost:7457".to_owned());
        let identity = ListenerIdentity {
            names: names.into_iter().chain([with_port]).collect(),
            tls: None,
        };
        for (host, is) in [
            ("agents.example", true),
            ("AGENTS.example:7458", true),
            ("192.0.2.1:80", true),
            ("[2001:db8::1]", true),
            ("[2001:db8::1]:7458", true),
            ("[2001:db8::2]:7458", false),
            ("localhost:7457", true),
            ("localhost:7458", false),
            ("localhost", false),
            ("agents.example.evil", false),
            ("agents.example:x", false),
            ("evil:agents.example", false),
            ("", false),
            (":7457", false),
        ] {
            assert_eq!(identity.is_to(host), is, "{host}");
        }
        assert!(
            identity.is_origin("http://agents.example:1")
                && !identity.is_origin("https://agents.example")
        );
    }
}
