//! The operator's own proxy, through which the sandbox's proxy connects.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::allow_list::{AllowList, LOCALHOST};
use super::host::{NetworkTarget, TargetHost};
use super::refusal::ConnectionFailure;

/// Limit of the head of the upstream proxy's response, in bytes.
const MAX_RESPONSE_HEAD: usize = 8 * 1024;

/// Port of a proxy whose URL has none.
const DEFAULT_PORT: u16 = 80;

/// HTTP proxy for outgoing connections from the environment, and the targets that are reached
/// without it.
///
/// The proxy receives names unresolved. It looks them up itself, so the check for special-purpose
/// addresses is up to it.
#[derive(Debug, Clone)]
pub struct UpstreamProxy {
    target: NetworkTarget,
    /// The value of `Proxy-Authorization`.
    authorization: Option<String>,
    direct: Vec<DirectEntry>,
}

/// An entry of `NO_PROXY`.
#[derive(Debug, Clone)]
enum DirectEntry {
    All,
    /// A domain and all names below it.
    Domain(String),
    Addresses(AllowList),
}

impl UpstreamProxy {
    /// Returns the proxy that `HTTPS_PROXY` or `ALL_PROXY` names, in upper or lower case, with the
    /// exceptions of `NO_PROXY`. Returns `None` if neither is set.
    ///
    /// # Errors
    ///
    /// The URL does not name an HTTP proxy. The text names the variable and never the value, which
    /// may contain a password.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        let set = |name: &'static str| {
            [name.to_owned(), name.to_ascii_lowercase()]
                .iter()
                .find_map(|name| variable(name))
                .filter(|value| !value.is_empty())
        };
        let Some((name, url)) = ["HTTPS_PROXY", "ALL_PROXY"]
            .into_iter()
            .find_map(|name| Some((name, set(name)?)))
        else {
            return Ok(None);
        };
        let direct = set("NO_PROXY").unwrap_or_default();
        let direct = direct.split(',').map(str::trim);
        let direct = direct
            .filter(|entry| !entry.is_empty())
            .map(DirectEntry::new);
        let (target, authorization) = parse_url(&url).ok_or_else(|| {
            format!("{name} is no URL of an HTTP proxy, such as http://proxy.example:3128")
        })?;
        Ok(Some(Self {
            target,
            authorization,
            direct: direct.collect(),
        }))
    }

    /// Returns true if a target is reached through this proxy.
    pub(super) fn is_used_for(&self, target: &NetworkTarget) -> bool {
        let is_local = match &target.host {
            TargetHost::Name(name) => name == LOCALHOST,
            TargetHost::Address(address) => address.is_loopback(),
        };
        !is_local && !self.direct.iter().any(|entry| entry.matches(target))
    }

    /// Opens a tunnel to a target.
    pub(super) async fn connect(
        &self,
        target: &NetworkTarget,
        limit: Duration,
    ) -> Result<TcpStream, ConnectionFailure> {
        let opened = timeout(limit, self.open_tunnel(target)).await;
        let opened = opened.map_err(|_| ConnectionFailure::Late(target.clone()))?;
        opened.map_err(|error| {
            let text = format!("the proxy {}: {error}", self.target);
            ConnectionFailure::Connect(target.clone(), io::Error::new(error.kind(), text))
        })
    }

    async fn open_tunnel(&self, target: &NetworkTarget) -> io::Result<TcpStream> {
        let port = self.target.port;
        let mut stream = match &self.target.host {
            TargetHost::Name(name) => TcpStream::connect((name.as_str(), port)).await?,
            TargetHost::Address(address) => TcpStream::connect((*address, port)).await?,
        };
        stream.set_nodelay(true)?;
        let authorization = self
            .authorization
            .as_ref()
            .map_or_else(String::new, |value| {
                format!("Proxy-Authorization: {value}\r\n")
            });
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n");
        stream.write_all(request.as_bytes()).await?;
        // One byte at a time: the bytes after the head belong to the target.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() == MAX_RESPONSE_HEAD {
                return Err(io::Error::other("the head of its response is too long"));
            }
            head.push(stream.read_u8().await?);
        }
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        match line.split(' ').nth(1) {
            Some("200") => Ok(stream),
            status => Err(io::Error::other(format!(
                "it answers {}",
                status.unwrap_or("no status")
            ))),
        }
    }
}

impl DirectEntry {
    fn new(entry: &str) -> Self {
        if entry == "*" {
            return Self::All;
        }
        let is_address = entry.parse::<IpAddr>().is_ok() || entry.contains('/');
        if is_address && let Ok(addresses) = AllowList::parse([entry]) {
            return Self::Addresses(addresses);
        }
        let domain = entry.trim_start_matches("*.").trim_start_matches('.');
        Self::Domain(domain.to_ascii_lowercase())
    }

    fn matches(&self, target: &NetworkTarget) -> bool {
        match (self, &target.host) {
            (Self::All, _) => true,
            (Self::Domain(domain), TargetHost::Name(name)) => name
                .strip_suffix(domain.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
            (Self::Addresses(addresses), TargetHost::Address(address)) => {
                addresses.grants(*address, target.port)
            }
            (Self::Domain(_), TargetHost::Address(_))
            | (Self::Addresses(_), TargetHost::Name(_)) => false,
        }
    }
}

/// Splits `http://user:password@host:port/` into its target and the value of `Proxy-Authorization`.
fn parse_url(url: &str) -> Option<(NetworkTarget, Option<String>)> {
    let rest = match url.split_once("://") {
        Some(("http", rest)) => rest,
        Some(_) => return None,
        None => url,
    };
    let authority = rest.trim_end_matches('/');
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let target = NetworkTarget::parse(host, Some(DEFAULT_PORT)).ok()?;
    let authorization = user.map(|user| {
        let user = percent_encoding::percent_decode_str(user).collect::<Vec<u8>>();
        format!("Basic {}", BASE64_STANDARD.encode(&user))
    });
    Some((target, authorization))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(variables: &[(&str, &str)]) -> Result<Option<UpstreamProxy>, String> {
        UpstreamProxy::from_environment(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_names_a_proxy_and_what_is_reached_without_it() {
        assert!(proxy(&[]).unwrap().is_none());
        assert!(proxy(&[("HTTPS_PROXY", "")]).unwrap().is_none());
        let found = proxy(&[
            ("https_proxy", "http://me:p%40ss@proxy.corp:3128/"),
            ("NO_PROXY", "intern.corp, .lab.corp,10.0.0.0/8, 192.168.1.1"),
        ]);
        let found = found.unwrap().unwrap();
        assert_eq!(found.target.to_string(), "proxy.corp:3128");
        assert_eq!(found.authorization.as_deref(), Some("Basic bWU6cEBzcw=="));
        for (target, through) in [
            ("a.org:443", true),
            ("intern.corp:443", false),
            ("b.intern.corp:443", false),
            ("notintern.corp:443", true),
            ("x.lab.corp:80", false),
            ("10.1.2.3:443", false),
            ("11.1.2.3:443", true),
            ("192.168.1.1:80", false),
            ("localhost:80", false),
            ("127.0.0.1:80", false),
            ("[::1]:80", false),
        ] {
            let parsed = NetworkTarget::parse(target, None).unwrap();
            assert_eq!(found.is_used_for(&parsed), through, "{target}");
        }
        let all = proxy(&[("ALL_PROXY", "proxy.corp"), ("no_proxy", "*")]);
        let all = all.unwrap().unwrap();
        assert_eq!(all.target.to_string(), "proxy.corp:80");
        assert!(!all.is_used_for(&NetworkTarget::parse("a.org:443", None).unwrap()));
    }

    #[test]
    fn a_url_that_is_none_of_an_http_proxy_is_named_without_its_value() {
        for url in [
            "socks5://u:secret@h:1",
            "https://u:secret@h:1",
            "http://",
            "http://u:secret@h:x",
        ] {
            let error = proxy(&[("HTTPS_PROXY", url)]).unwrap_err();
            assert!(
                error.contains("HTTPS_PROXY") && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
