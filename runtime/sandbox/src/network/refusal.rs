//! Responses of the proxy to requests that it refuses or cannot serve.

use std::io;
use std::net::IpAddr;

use super::address::SpecialBlock;
use super::allow_list::entry_for;
use super::head::HeadProblem;
use super::host::{HostProblem, NetworkTarget, TargetHost};

/// Header of every refusal. Its value is the code of the reason.
const DENIED_HEADER: &str = "X-Trunkline-Denied";

/// A fatal alert "access denied" (RFC 8446, section 6), which a client accepts in place of a
/// ServerHello.
pub(crate) const TLS_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// Error that ends a connection early.
#[derive(Debug)]
pub(crate) enum ConnectionError {
    /// The request is not allowed.
    Denied(RequestDenial),
    /// The request is allowed, but failed.
    Failed(ConnectionFailure),
}

impl From<ConnectionFailure> for ConnectionError {
    fn from(failure: ConnectionFailure) -> Self {
        Self::Failed(failure)
    }
}

/// A request that is not allowed.
#[derive(Debug)]
pub(crate) struct RequestDenial {
    pub(crate) reason: DenialReason,
    /// Target of the request, if it could be parsed.
    pub(crate) target: Option<NetworkTarget>,
}

/// Reason why a request is not allowed.
#[derive(Debug)]
pub(crate) enum DenialReason {
    /// The target is not on the allow-list.
    NotListed,
    /// The name resolves to special-purpose addresses only, and none of them is on the allow-list.
    SpecialAddress(IpAddr, &'static SpecialBlock),
    /// The address belongs to this machine.
    OwnAddress(IpAddr),
    /// The daemon listens on that port of this machine.
    OwnPort(IpAddr),
    /// TLS names another server than CONNECT did.
    ServerName,
    /// TLS names no server.
    NoServerName,
    /// TLS hides the server's name.
    EncryptedServerName,
    /// The tunnel carries neither TLS nor plain HTTP.
    NotTls,
    /// The tunnel begins like TLS, but breaks its rules.
    MalformedTls,
    /// The head of the request is rejected.
    Head(HeadProblem),
    /// The chunked body of the request is malformed.
    Body,
}

/// Failure of an allowed request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionFailure {
    #[error("the client closed the connection early")]
    ClientGone,
    #[error("the request took too long")]
    Slow,
    #[error("{0} has no address")]
    NoAddress(NetworkTarget),
    #[error("{0} could not be looked up: {1}")]
    Lookup(NetworkTarget, io::Error),
    #[error("{0} takes no connection: {1}")]
    Connect(NetworkTarget, io::Error),
    #[error("{0} did not answer in time")]
    Late(NetworkTarget),
    #[error("the connection to {0} broke: {1}")]
    Broken(NetworkTarget, io::Error),
    #[error("the response of {0} is invalid: {1}")]
    BadResponse(NetworkTarget, HeadProblem),
    #[error("the connection to {0} was idle for too long")]
    Idle(NetworkTarget),
}

impl DenialReason {
    /// Returns the stable name of the reason, for the log and the response header.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::NotListed => "not-listed",
            Self::SpecialAddress(..) => "special-address",
            Self::OwnAddress(_) => "own-address",
            Self::OwnPort(_) => "own-port",
            Self::ServerName => "server-name",
            Self::NoServerName => "no-server-name",
            Self::EncryptedServerName => "encrypted-server-name",
            Self::NotTls => "not-tls",
            Self::MalformedTls => "malformed-tls",
            Self::Head(HeadProblem::TooLarge) => "head-too-large",
            Self::Head(HeadProblem::Host) => "host-mismatch",
            Self::Head(HeadProblem::Framing) | Self::Body => "ambiguous-body",
            Self::Head(HeadProblem::Upgrade | HeadProblem::Switched) => "upgrade",
            Self::Head(HeadProblem::NoTarget) => "no-target",
            Self::Head(HeadProblem::Target(_)) => "bad-target",
            Self::Head(
                HeadProblem::NotHttp
                | HeadProblem::Header
                | HeadProblem::Folded
                | HeadProblem::ControlCharacter
                | HeadProblem::Path,
            ) => "malformed-head",
        }
    }

    fn status(&self) -> &'static str {
        match self {
            Self::Head(HeadProblem::TooLarge) => "431 Request Header Fields Too Large",
            Self::Head(
                HeadProblem::NotHttp
                | HeadProblem::Header
                | HeadProblem::NoTarget
                | HeadProblem::Path
                | HeadProblem::Target(HostProblem::NoPort | HostProblem::Port),
            ) => "400 Bad Request",
            _ => "403 Forbidden",
        }
    }

    fn explanation(&self, target: Option<&NetworkTarget>) -> String {
        let entry = target
            .map(|target| entry_for(target, false))
            .unwrap_or_default();
        let port = target.map_or(0, |target| target.port);
        let entry_of = |address: &IpAddr, with_port| {
            let host = TargetHost::Address(*address);
            entry_for(&NetworkTarget { host, port }, with_port)
        };
        match self {
            Self::NotListed => {
                format!("it is not on the network list. To allow it, add \"{entry}\" to `network.allow` of the agent's sandbox.")
            }
            Self::SpecialAddress(address, block) => {
                format!(
                    "the name leads to {address}, {}. To allow it, add \"{}\" to `network.allow` of the agent's sandbox as well.",
                    block.description,
                    entry_of(address, false)
                )
            }
            Self::OwnAddress(address) => format!(
                "{address} is an address of this machine. To allow it, add \"{}\" to `network.allow` of the agent's sandbox.",
                entry_of(address, false)
            ),
            Self::OwnPort(address) => format!(
                "trunkline's daemon listens on port {port} of this machine. To allow it, add \"{}\" to `network.allow` of the agent's sandbox.",
                entry_of(address, true)
            ),
            Self::ServerName => "TLS names another server than CONNECT did. Both must be the same.".into(),
            Self::NoServerName => {
                "TLS names no server. Use a client that sends the name (SNI), or CONNECT to an address on the list.".into()
            }
            Self::EncryptedServerName => {
                "TLS hides the server's name. Turn Encrypted Client Hello off, or CONNECT to an address on the list.".into()
            }
            Self::NotTls => {
                "a tunnel to a name carries TLS or plain HTTP only. For anything else, CONNECT to an address on the list.".into()
            }
            Self::MalformedTls => "the TLS ClientHello is malformed.".into(),
            Self::Head(problem) => format!("{problem}."),
            Self::Body => "the chunked body is malformed.".into(),
        }
    }
}

impl RequestDenial {
    /// Returns the response to the client: the blocked target, the reason and the remedy.
    pub(crate) fn response(&self) -> Vec<u8> {
        let what = self
            .target
            .as_ref()
            .map_or("this request".to_owned(), NetworkTarget::to_string);
        let body = format!(
            "trunkline: blocked {what}: {}\n",
            self.reason.explanation(self.target.as_ref())
        );
        let header = format!("{DENIED_HEADER}: {}\r\n", self.reason.code());
        format_response(self.reason.status(), &header, &body)
    }
}

impl ConnectionFailure {
    /// Returns the response to the client, or `None` if the client has gone.
    pub(crate) fn response(&self) -> Option<Vec<u8>> {
        let status = match self {
            Self::ClientGone => return None,
            Self::Slow => "408 Request Timeout",
            Self::Late(_) | Self::Idle(_) => "504 Gateway Timeout",
            Self::NoAddress(_)
            | Self::Lookup(..)
            | Self::Connect(..)
            | Self::Broken(..)
            | Self::BadResponse(..) => "502 Bad Gateway",
        };
        Some(format_response(
            status,
            "",
            &format!("trunkline: {self}.\n"),
        ))
    }
}

/// Returns the response to a connection over the limit.
pub(crate) fn over_limit_response() -> Vec<u8> {
    format_response(
        "503 Service Unavailable",
        "",
        "trunkline: too many connections at once; close some first.\n",
    )
}

fn format_response(status: &str, header: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{header}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}
