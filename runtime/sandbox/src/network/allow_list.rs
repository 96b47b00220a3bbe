//! List of the names and addresses that a sandboxed program may reach.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use super::address::AddressRange;
use super::host::{HostProblem, NetworkTarget, TargetHost, parse_port};

/// Ports of an entry without a port: plain HTTP and HTTPS.
const WEB_PORTS: [u16; 2] = [80, 443];

/// Name of the machine itself, which is never looked up (RFC 6761).
pub(crate) const LOCALHOST: &str = "localhost";

/// The names and addresses that a program may reach, and nothing else.
///
/// | entry | allows |
/// |---|---|
/// | `example.com` | that name, on ports 80 and 443 |
/// | `example.com:8443` | that name, on that port only |
/// | `*.example.com` | every name below it, at any depth, but not `example.com` itself |
/// | `192.0.2.7`, `[2001:db8::7]:8080` | that address, without the checks that need a name |
/// | `10.0.0.0/8`, `10.0.0.0/8:5432`, `[fd00::/8]:80` | every address of that range |
/// | `localhost:3000` | the name `localhost`, on the host's own loopback |
///
/// A name may resolve to public addresses only. A private, loopback or other special-purpose
/// address is allowed if that address, with that port, is on the list as well; `localhost` does not
/// need this. A range includes special-purpose addresses only if it is wholly within one block of
/// them: `0.0.0.0/0` allows no private network.
///
/// Two lists are equal if they have the same entries. The order does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowList {
    entries: BTreeSet<Entry>,
}

/// Invalid entry of an [`AllowList`]. The text reads after "failed to".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read the network entry {entry:?}: {problem}")]
pub struct AllowListError {
    entry: String,
    problem: EntryProblem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum EntryProblem {
    #[error("{0}")]
    Host(#[from] HostProblem),
    #[error("it is a URL; write only the host, as in `example.com` or `example.com:8443`")]
    Url,
    #[error(
        "`*` matches the first labels of a name, as in `*.example.com`; to allow everything, choose the network `all`"
    )]
    Wildcard,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    pattern: Pattern,
    ports: Ports,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Pattern {
    Name(String),
    /// Every name that ends with a dot and this suffix.
    Below(String),
    Range(AddressRange),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ports {
    Web,
    One(u16),
}

impl AllowList {
    /// Parses the entries of a configuration.
    ///
    /// # Errors
    ///
    /// Returns the first invalid entry and its problem.
    pub fn parse<I>(entries: I) -> Result<Self, AllowListError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let read = |entry: I::Item| {
            let entry = entry.as_ref();
            Entry::parse(entry).map_err(|problem| AllowListError {
                entry: entry.to_owned(),
                problem,
            })
        };
        Ok(Self {
            entries: entries.into_iter().map(read).collect::<Result<_, _>>()?,
        })
    }

    /// Returns true if `host`, a name or an address, is allowed on `port`. Returns false for an
    /// invalid host.
    ///
    /// The addresses of a name are checked after the lookup, not here.
    pub fn contains(&self, host: &str, port: u16) -> bool {
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let host = match bare {
            Some(address) if address.contains(':') => TargetHost::parse(address),
            Some(_) => return false,
            None => TargetHost::parse(host),
        };
        host.is_ok_and(|host| self.allows(&NetworkTarget { host, port }))
    }

    /// Returns the list of the targets that both lists allow, such as an agent's list and an
    /// organisation's policy.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let pairs = self
            .entries
            .iter()
            .flat_map(|a| other.entries.iter().map(move |b| (a, b)));
        Self {
            entries: pairs.filter_map(|(a, b)| a.intersect(b)).collect(),
        }
    }

    /// Returns true if the list allows nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns every entry in its canonical form, for display.
    pub fn entries(&self) -> impl Iterator<Item = String> + '_ {
        self.entries.iter().map(Entry::to_string)
    }

    pub(crate) fn allows(&self, target: &NetworkTarget) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.ports.contain(target.port) && entry.pattern.matches(&target.host))
    }

    /// Returns true if an entry names this address of the machine, as an address or as `localhost`.
    /// A range does not count. `with_port` requires an entry that also names the port.
    pub(crate) fn names(&self, address: IpAddr, port: u16, with_port: bool) -> bool {
        let range = AddressRange::from_address(address);
        self.entries.iter().any(|entry| {
            let names_address = match &entry.pattern {
                Pattern::Range(named) => *named == range,
                Pattern::Name(name) => name == LOCALHOST && address.is_loopback(),
                Pattern::Below(_) => false,
            };
            let names_port = match entry.ports {
                Ports::Web => !with_port && entry.ports.contain(port),
                Ports::One(named) => named == port,
            };
            names_address && names_port
        })
    }

    /// Returns true if an entry allows this address itself, special-purpose or not.
    pub(crate) fn grants(&self, address: IpAddr, port: u16) -> bool {
        self.allows(&NetworkTarget {
            host: TargetHost::Address(address.to_canonical()),
            port,
        })
    }
}

impl Entry {
    fn parse(text: &str) -> Result<Self, EntryProblem> {
        if text.contains("://") {
            return Err(EntryProblem::Url);
        }
        if let Some(suffix) = text.strip_prefix("*.") {
            let (suffix, ports) = split_port(suffix)?;
            return match TargetHost::parse(suffix)? {
                TargetHost::Name(suffix) => Ok(Self {
                    pattern: Pattern::Below(suffix),
                    ports,
                }),
                TargetHost::Address(_) => Err(EntryProblem::Wildcard),
            };
        }
        if text.contains('*') {
            return Err(EntryProblem::Wildcard);
        }
        if let Some(rest) = text.strip_prefix('[') {
            // Two forms are common: `[fd00::/8]:80` and `[fd00::]/8`.
            let (inner, rest) = rest.split_once(']').ok_or(HostProblem::Brackets)?;
            let (length, rest) = match rest.strip_prefix('/') {
                Some(rest) => (
                    rest.split(':').next().unwrap_or(rest),
                    rest.trim_start_matches(|c: char| c != ':'),
                ),
                None => ("", rest),
            };
            let ports = match rest {
                "" => Ports::Web,
                rest => Ports::One(parse_port(
                    rest.strip_prefix(':').ok_or(HostProblem::Port)?,
                )?),
            };
            if !inner.contains(':') {
                return Err(HostProblem::Address.into());
            }
            let range = if length.is_empty() {
                inner.to_owned()
            } else {
                format!("{inner}/{length}")
            };
            return Ok(Self {
                pattern: Pattern::Range(AddressRange::parse(&range)?),
                ports,
            });
        }
        if text.bytes().filter(|byte| *byte == b':').count() > 1 {
            return Ok(Self {
                pattern: Pattern::Range(AddressRange::parse(text)?),
                ports: Ports::Web,
            });
        }
        let (host, ports) = split_port(text)?;
        if host.contains('/') {
            let is_range = host.starts_with(|c: char| c.is_ascii_digit());
            let range = if is_range {
                AddressRange::parse(host)
            } else {
                return Err(EntryProblem::Url);
            };
            return Ok(Self {
                pattern: Pattern::Range(range?),
                ports,
            });
        }
        let pattern = match TargetHost::parse(host)? {
            TargetHost::Name(name) => Pattern::Name(name),
            TargetHost::Address(address) => Pattern::Range(AddressRange::from_address(address)),
        };
        Ok(Self { pattern, ports })
    }

    fn intersect(&self, other: &Self) -> Option<Self> {
        let pattern = self.pattern.intersect(&other.pattern)?;
        Some(Self {
            pattern,
            ports: self.ports.intersect(other.ports)?,
        })
    }
}

fn split_port(text: &str) -> Result<(&str, Ports), HostProblem> {
    match text.split_once(':') {
        Some((host, port)) => Ok((host, Ports::One(parse_port(port)?))),
        None => Ok((text, Ports::Web)),
    }
}

impl Pattern {
    fn matches(&self, host: &TargetHost) -> bool {
        match (self, host) {
            (Self::Name(allowed), TargetHost::Name(name)) => allowed == name,
            (Self::Below(suffix), TargetHost::Name(name)) => is_below(name, suffix),
            (Self::Range(range), TargetHost::Address(address)) => range.grants(*address),
            (Self::Name(_) | Self::Below(_), TargetHost::Address(_))
            | (Self::Range(_), TargetHost::Name(_)) => false,
        }
    }

    fn intersect(&self, other: &Self) -> Option<Self> {
        let narrower = match (self, other) {
            (Self::Name(a), Self::Name(b)) => (a == b).then_some(self),
            (Self::Name(name), Self::Below(suffix)) => is_below(name, suffix).then_some(self),
            (Self::Below(suffix), Self::Name(name)) => is_below(name, suffix).then_some(other),
            (Self::Below(a), Self::Below(b)) if a == b || is_below(a, b) => Some(self),
            (Self::Below(a), Self::Below(b)) => is_below(b, a).then_some(other),
            (Self::Range(a), Self::Range(b)) => return a.intersect(*b).map(Self::Range),
            (Self::Range(_), Self::Name(_) | Self::Below(_))
            | (Self::Name(_) | Self::Below(_), Self::Range(_)) => None,
        };
        narrower.cloned()
    }
}

fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix)
        .is_some_and(|labels| labels.ends_with('.'))
}

impl Ports {
    fn contain(self, port: u16) -> bool {
        match self {
            Self::Web => WEB_PORTS.contains(&port),
            Self::One(one) => one == port,
        }
    }

    fn intersect(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Web, Self::Web) => Some(Self::Web),
            (one @ Self::One(port), ports) | (ports, one @ Self::One(port)) => {
                ports.contain(port).then_some(one)
            }
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pattern, self.ports) {
            (Pattern::Range(range), Ports::One(_)) if range.is_ipv6() => write!(f, "[{range}]")?,
            (Pattern::Range(range), _) => write!(f, "{range}")?,
            (Pattern::Name(name), _) => f.write_str(name)?,
            (Pattern::Below(suffix), _) => write!(f, "*.{suffix}")?,
        }
        match self.ports {
            Ports::Web => Ok(()),
            Ports::One(port) => write!(f, ":{port}"),
        }
    }
}

/// Returns the entry that allows `target`. The port is included if `with_port` is set or it is not
/// one of [`WEB_PORTS`].
pub(crate) fn entry_for(target: &NetworkTarget, with_port: bool) -> String {
    let pattern = match &target.host {
        TargetHost::Name(name) => Pattern::Name(name.clone()),
        TargetHost::Address(address) => Pattern::Range(AddressRange::from_address(*address)),
    };
    let ports = if !with_port && WEB_PORTS.contains(&target.port) {
        Ports::Web
    } else {
        Ports::One(target.port)
    };
    Entry { pattern, ports }.to_string()
}

#[cfg(test)]
mod tests;
