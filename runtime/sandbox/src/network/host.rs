//! Host and port of a connection in canonical form.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Limit of a name in bytes, without the final dot (RFC 1035).
const MAX_NAME: usize = 253;

/// Limit of a label of a name, in bytes.
const MAX_LABEL: usize = 63;

/// A host in canonical form: a name in lower case without a final dot, or an address that is not
/// IPv4-mapped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TargetHost {
    Name(String),
    Address(IpAddr),
}

/// The target of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetworkTarget {
    pub(crate) host: TargetHost,
    pub(crate) port: u16,
}

/// Problem of a host, a port or a range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HostProblem {
    #[error("the host is empty")]
    Empty,
    #[error("the name is longer than 253 bytes")]
    Long,
    #[error("a label of the name is empty or longer than 63 bytes")]
    Label,
    #[error("a label of the name begins or ends with a hyphen")]
    Hyphen,
    #[error("the name has letters beyond ASCII; write it in its `xn--` form")]
    NotAscii,
    #[error("the name has a character that no host name has")]
    Character,
    #[error("it looks like an address, but is not in the form `192.0.2.1`")]
    Numeric,
    #[error("it is not an IPv4 or IPv6 address")]
    Address,
    #[error("the length of an address range is a number from 0 to 32, or 128 for IPv6")]
    PrefixLength,
    #[error("the address has bits beyond the length of its range; clear them, as in `10.0.0.0/8`")]
    BitsBeyondPrefix,
    #[error("an IPv6 address with a port is written `[::1]:443`")]
    Brackets,
    #[error("the port is not a number from 1 to 65535")]
    Port,
    #[error("a port is missing")]
    NoPort,
    #[error("a user name or password has no place before a host")]
    UserInfo,
}

impl TargetHost {
    /// Parses a name or an address without brackets.
    ///
    /// Names consist of letters, digits, hyphens and underscores. They are compared in lower case,
    /// without one final dot. A name in another script must be in its `xn--` form, which is
    /// compared unchanged. Text that a browser or a C library would parse as an IPv4 address
    /// (`2130706433`, `0x7f.1`, `0177.0.0.1`, `127.1`) must be four plain decimal numbers.
    pub(crate) fn parse(text: &str) -> Result<Self, HostProblem> {
        if text.contains(':') {
            let address: Ipv6Addr = text.parse().map_err(|_| HostProblem::Address)?;
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() {
            return Err(HostProblem::Empty);
        }
        if !name.is_ascii() {
            return Err(HostProblem::NotAscii);
        }
        if name.len() > MAX_NAME {
            return Err(HostProblem::Long);
        }
        for label in name.split('.') {
            if label.is_empty() || label.len() > MAX_LABEL {
                return Err(HostProblem::Label);
            }
            if !label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            {
                return Err(HostProblem::Character);
            }
            if label.starts_with('-') || label.ends_with('-') {
                return Err(HostProblem::Hyphen);
            }
        }
        if ends_in_a_number(name) {
            let address: Ipv4Addr = name.parse().map_err(|_| HostProblem::Numeric)?;
            return Ok(Self::Address(address.into()));
        }
        Ok(Self::Name(name.to_ascii_lowercase()))
    }
}

/// Returns true if a URL parser takes this host for an IPv4 address (WHATWG URL, "ends in a
/// number").
fn ends_in_a_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hexadecimal = last
        .get(..2)
        .is_some_and(|start| start.eq_ignore_ascii_case("0x"));
    last.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal && last.bytes().skip(2).all(|byte| byte.is_ascii_hexdigit())
}

impl NetworkTarget {
    /// Parses `host:port` or `[v6]:port`. The port may be missing if there is a `default`.
    pub(crate) fn parse(authority: &str, default: Option<u16>) -> Result<Self, HostProblem> {
        if authority.contains('@') {
            return Err(HostProblem::UserInfo);
        }
        let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
            let (address, rest) = rest.split_once(']').ok_or(HostProblem::Brackets)?;
            if !address.contains(':') {
                return Err(HostProblem::Address);
            }
            let port = match rest {
                "" => None,
                rest => Some(rest.strip_prefix(':').ok_or(HostProblem::Port)?),
            };
            (address, port)
        } else {
            match authority.split_once(':') {
                Some((_, port)) if port.contains(':') => return Err(HostProblem::Brackets),
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            }
        };
        let port = match port {
            Some(port) => parse_port(port)?,
            None => default.ok_or(HostProblem::NoPort)?,
        };
        Ok(Self {
            host: TargetHost::parse(host)?,
            port,
        })
    }
}

/// Parses a port: decimal digits without a leading zero.
pub(crate) fn parse_port(text: &str) -> Result<u16, HostProblem> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if plain {
        text.parse().map_err(|_| HostProblem::Port)
    } else {
        Err(HostProblem::Port)
    }
}

impl fmt::Display for TargetHost {
    /// Writes IPv6 addresses in brackets, as in a URL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for NetworkTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_has_one_spelling() {
        for (text, host) in [
            ("Example.COM", "example.com"),
            ("example.com.", "example.com"),
            ("XN--MNCHEN-3YA.de", "xn--mnchen-3ya.de"),
            ("a_b.example", "a_b.example"),
            ("1.example", "1.example"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("::FFFF:127.0.0.1", "127.0.0.1"),
            ("0:0:0:0:0:0:0:1", "[::1]"),
        ] {
            assert_eq!(TargetHost::parse(text).unwrap().to_string(), host, "{text}");
        }
    }

    #[test]
    fn odd_spellings_are_refused() {
        use HostProblem as P;
        let long_label = "a".repeat(64);
        let long_name = "a.".repeat(128);
        for (text, problem) in [
            ("", P::Empty),
            (".", P::Empty),
            ("a..", P::Label),
            ("a..b", P::Label),
            (".a", P::Label),
            (&long_label, P::Label),
            (&long_name, P::Long),
            ("-a.b", P::Hyphen),
            ("a-.b", P::Hyphen),
            ("m\u{fc}nchen.de", P::NotAscii),
            ("example\u{3002}com", P::NotAscii),
            ("ex%61mple.com", P::Character),
            ("a b", P::Character),
            ("a\0b", P::Character),
            ("*.example.com", P::Character),
            ("2130706433", P::Numeric),
            ("0x7f000001", P::Numeric),
            ("0x7f.1", P::Numeric),
            ("0177.0.0.1", P::Numeric),
            ("127.1", P::Numeric),
            ("127.0.0.0x1", P::Numeric),
            ("256.1.1.1", P::Numeric),
            ("a.0x", P::Numeric),
            ("1.2.3.4.5", P::Numeric),
            ("fe80::1%eth0", P::Address),
            ("::1::", P::Address),
        ] {
            assert_eq!(TargetHost::parse(text), Err(problem), "{text}");
        }
    }

    #[test]
    fn an_authority_is_a_host_and_a_port() {
        use HostProblem as P;
        for (text, target) in [
            ("a.b:1", "a.b:1"),
            ("A.b.", "a.b:80"),
            ("[::1]", "[::1]:80"),
            ("[::1]:65535", "[::1]:65535"),
            ("[::ffff:1.2.3.4]:5", "1.2.3.4:5"),
        ] {
            assert_eq!(
                NetworkTarget::parse(text, Some(80)).unwrap().to_string(),
                target,
                "{text}"
            );
        }
        for (text, problem) in [
            ("a:", P::Port),
            ("a:0", P::Port),
            ("a:080", P::Port),
            ("a:+80", P::Port),
            ("a:65536", P::Port),
            ("a: 80", P::Port),
            ("::1:80", P::Brackets),
            ("[::1", P::Brackets),
            ("[::1]80", P::Port),
            ("[1.2.3.4]:80", P::Address),
            ("[v1.a]:80", P::Address),
            ("[fe80::1%25eth0]:80", P::Address),
            ("allowed@evil", P::UserInfo),
            ("allowed:80@evil:80", P::UserInfo),
            (":80", P::Empty),
            ("a\\@b", P::UserInfo),
            ("a\\b", P::Character),
        ] {
            assert_eq!(NetworkTarget::parse(text, Some(80)), Err(problem), "{text}");
        }
        assert_eq!(NetworkTarget::parse("a", None), Err(P::NoPort));
    }
}
