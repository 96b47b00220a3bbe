//! Ways in over the network: where it listens, how it is called there, and whether by TLS.

use tokio::net::TcpListener;

use crate::tls::Tls;

/// A way in over the network.
#[derive(Debug)]
pub struct Entrance {
    /// Where it listens.
    pub listener: TcpListener,
    /// How requests that come in here are to name their host, beside the names that a certificate has.
    pub names: Vec<Name>,
    /// How it is encrypted. `None`: not at all.
    pub tls: Option<Tls>,
}

/// What a request may name as its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// With its port: `localhost:7457`.
    WithPort(String),
    /// With any port or none, as behind another that passes connections on: `agents.example`,
    /// `192.0.2.1`, `[2001:db8::1]`.
    AnyPort(String),
}

/// What is known of an entrance by those who came in.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) names: Vec<Name>,
    pub(crate) tls: Option<Tls>,
}

impl Way {
    /// Whether a request that names this host is meant for this daemon.
    pub(crate) fn is_to(&self, host: &str) -> bool {
        let bare = without_port(host);
        let is_named = |name: &Name| match name {
            Name::WithPort(name) => name.eq_ignore_ascii_case(host),
            Name::AnyPort(name) => name.eq_ignore_ascii_case(bare),
        };
        self.names.iter().any(is_named) || self.tls.as_ref().is_some_and(|tls| tls.is_for(bare))
    }

    /// Whether a page of this origin is the daemon's own.
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

/// A host's name, or its address, which keeps its brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if !name.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            // A colon within brackets is the address's own.
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

    #[test]
    fn a_host_is_named_with_its_port_or_with_any() {
        let names = ["Agents.example", "192.0.2.1", "[2001:db8::1]"]
            .map(|name| Name::AnyPort(name.to_owned()));
        let with_port = Name::WithPort("localhost:7457".to_owned());
        let way = Way {
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
            assert_eq!(way.is_to(host), is, "{host}");
        }
        assert!(
            way.is_origin("http://agents.example:1") && !way.is_origin("https://agents.example")
        );
    }
}
