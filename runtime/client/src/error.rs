//! Errors of calls, and the causes with which sessions and turns end.

use std::time::Duration;

use trunkline_protocol::{AttachRefusal, ClosedReason, Failure, RequestId, SessionId};

/// The cause of a failed call, or of the end of a session. Texts are sentences.
///
/// Every call on an ended session fails with the cause of its end.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The first connection was not made.
    #[error("the host cannot be reached: {0}")]
    Unreachable(ConnectError),
    /// The connection broke, and was not made again within
    /// [`ReconnectPolicy::give_up_after`](crate::ReconnectPolicy::give_up_after), or cannot be.
    #[error("the connection to the host is lost: {0}")]
    ConnectionLost(ConnectError),
    /// This client was closed.
    #[error("the client is closed")]
    ClientClosed,
    /// This client left the session, which continues at its host.
    #[error("the session was detached by this client")]
    Detached,
    /// The session has ended ([session.8]).
    #[error("the session is closed{}", closed_details(*reason, failure.as_deref()))]
    SessionClosed {
        /// The reason of the `session.closed`, if there was one.
        reason: Option<ClosedReason>,
        /// The failure.
        failure: Option<Box<Failure>>,
    },
    /// The host does not open or attach the session ([journal.5]).
    #[error("the session {session} is refused ({}): {message}", refusal_name(*reason))]
    SessionRefused {
        /// The session.
        session: SessionId,
        /// The reason.
        reason: Option<AttachRefusal>,
        /// The text for a person.
        message: String,
        /// For [`AttachRefusal::Ahead`] the last entry of the journal, for
        /// [`AttachRefusal::Forked`] the last that both sides have.
        last_seq: Option<u64>,
    },
    /// No host served the session for
    /// [`ReconnectPolicy::give_up_after`](crate::ReconnectPolicy::give_up_after).
    #[error("the session {session} was not served for too long: {message}")]
    SessionUnserved {
        /// The session.
        session: SessionId,
        /// The last refusal's text.
        message: String,
    },
    /// The client has the session open.
    #[error("the session {0} is open in this client")]
    AlreadyOpen(SessionId),
    /// The session was attached with [`Role::Observe`](trunkline_protocol::Role::Observe).
    #[error("this client only observes the session; attach with the role `control` to use it")]
    ObserveOnly,
    /// A bound was reached; the text names it. The call had no effect, and can be repeated later.
    #[error("too many {0} wait; try again when one is done")]
    Busy(&'static str),
    /// A message does not fit into a line of the host's ([frame.11]). It was not written.
    #[error("the message has {bytes} bytes, and the host reads lines of {limit} bytes; shorten it")]
    LineTooLong {
        /// The length of its line in bytes, without the LF.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// No permission request or question of this id waits for an answer.
    #[error("the request {0} does not wait for an answer")]
    NotPending(RequestId),
    /// A file cannot be read, or is not the announced one.
    #[error("the file {path} cannot be used: {message}")]
    File {
        /// The path or name.
        path: String,
        /// The problem.
        message: String,
    },
    /// The connection does not offer this.
    #[error("this connection has no {0}")]
    Unsupported(&'static str),
    /// The host answered a request with an error, such as a list that it does not have, or an
    /// update that it refuses.
    #[error("the host refuses the request: {0}")]
    RequestFailed(String),
    /// The daemon answered a request of HTTP with a status other than 2xx.
    #[error("the daemon refuses the request ({status}): {message}")]
    HttpRefused {
        /// The status.
        status: u16,
        /// The text for a person.
        message: String,
        /// The time before which the daemon refuses the request again.
        retry_after: Option<Duration>,
    },
}

impl ClientError {
    /// Returns true if the same call cannot succeed later.
    ///
    /// False for a host that may come back, and for a bound that may clear.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        match self {
            Self::Unreachable(error) | Self::ConnectionLost(error) => error.is_permanent,
            Self::SessionUnserved { .. } | Self::Busy(_) => false,
            Self::HttpRefused { status, .. } => *status < 500 && !matches!(status, 408 | 425 | 429),
            Self::SessionRefused { reason, .. } => !matches!(
                reason,
                Some(AttachRefusal::ReadOnly | AttachRefusal::Unavailable)
            ),
            _ => true,
        }
    }

    /// Returns true for an orderly end, after which the events of a session end without an error.
    pub(crate) const fn is_orderly(&self) -> bool {
        matches!(
            self,
            Self::SessionClosed { .. } | Self::Detached | Self::ClientClosed
        )
    }
}

/// The reason why a transport has no connection. Texts are sentences.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConnectError {
    message: String,
    is_permanent: bool,
}

impl ConnectError {
    /// A failure after which a later try may succeed.
    #[must_use]
    pub fn transient(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_permanent: false,
        }
    }

    /// A failure that no later try can mend: the client gives up at once.
    #[must_use]
    pub fn permanent(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_permanent: true,
        }
    }

    /// Returns true if no later try can succeed.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        self.is_permanent
    }
}

fn closed_details(reason: Option<ClosedReason>, failure: Option<&Failure>) -> String {
    let reason = reason.map_or(String::new(), |reason| format!(" ({reason})"));
    let message = failure.and_then(|failure| failure.message.as_deref());
    message.map_or(reason.clone(), |message| format!("{reason}: {message}"))
}

fn refusal_name(reason: Option<AttachRefusal>) -> &'static str {
    reason.map_or("unknown reason", AttachRefusal::as_str)
}
