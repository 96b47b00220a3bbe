//! Ends that the relay gives to turns, and what it says of sessions that the host did not open.

use trunkline_host::{OpenError, SendError, redact};
use trunkline_protocol::{
    AttachRefusal, Category, ClosedReason, Delivered, Failure, SessionClosed, SessionRefused,
    Status, StopReason, TurnComplete,
};

/// The end of a turn that failed.
pub fn failed(delivered: Delivered) -> TurnComplete {
    TurnComplete {
        status: Some(Status::Failed),
        delivered: Some(delivered),
        ..TurnComplete::default()
    }
}

/// The end of an input that there is no room for.
pub fn busy(why: &str) -> TurnComplete {
    TurnComplete {
        error: Some(Failure::new(Category::Busy, why)),
        ..failed(Delivered::No)
    }
}

/// The end of an input that the host did not accept.
pub fn unsent(error: SendError) -> TurnComplete {
    match error {
        SendError::Unenforced(_) => TurnComplete {
            status: Some(Status::Refused),
            error: Some(Failure::new(Category::Protocol, error.to_string())),
            delivered: Some(Delivered::No),
            ..TurnComplete::default()
        },
        _ => busy(&error.to_string()),
    }
}

/// The end of an input that its sender may not send.
pub fn forbidden(why: Failure) -> TurnComplete {
    let status = Some(Status::Refused);
    TurnComplete {
        status,
        error: Some(why),
        delivered: Some(Delivered::No),
        ..TurnComplete::default()
    }
}

/// The end of a turn that was stopped.
pub fn stopped(reason: StopReason, delivered: Delivered) -> TurnComplete {
    TurnComplete {
        status: Some(Status::Stopped),
        stop_reason: Some(reason.as_str().to_owned()),
        delivered: Some(delivered),
        ..TurnComplete::default()
    }
}

/// The end of an input that came too late for its session.
pub fn never_sent(closed: &SessionClosed) -> TurnComplete {
    let status = match closed.reason {
        Some(ClosedReason::Refused | ClosedReason::UnknownAgent) => Status::Refused,
        Some(ClosedReason::Limit) => Status::Limit,
        Some(ClosedReason::Shutdown) => Status::Stopped,
        Some(ClosedReason::Finished | ClosedReason::Failed | ClosedReason::Protocol) | None => {
            Status::Failed
        }
    };
    let error = closed.error.clone();
    TurnComplete {
        status: Some(status),
        error: Some(
            error.unwrap_or_else(|| Failure::new(Category::Other, "the session has ended")),
        ),
        delivered: Some(Delivered::No),
        ..TurnComplete::default()
    }
}

/// Why the journal does not open a session.
pub fn refused(reason: AttachRefusal, why: impl Into<String>) -> SessionRefused {
    SessionRefused {
        reason: Some(reason),
        message: Some(why.into()),
        last_seq: None,
    }
}

/// What a `session.start` is answered whose id the journal knows ([journal.2]).
pub fn exists() -> SessionRefused {
    refused(
        AttachRefusal::Exists,
        "the journal knows this id; attach to it, or choose another id",
    )
}

/// What a hub hears of a session of which this machine has a copy: it may have been this host's a
/// moment ago ([journal.5]).
pub fn moved() -> SessionRefused {
    refused(
        AttachRefusal::Unavailable,
        "another host has the session; attach to it again",
    )
}

/// Why the host did not open a session, in the protocol's words.
pub fn refusal(error: &OpenError) -> SessionClosed {
    let (reason, category) = match error {
        OpenError::UnknownAgent { .. } => (ClosedReason::UnknownAgent, Category::Other),
        OpenError::TooManySessions { .. }
        | OpenError::AdapterFull { .. }
        | OpenError::TooManyFolders { .. }
        | OpenError::TooManySecrets { .. } => (ClosedReason::Limit, Category::Busy),
        OpenError::WouldWiden { .. } | OpenError::Refused { .. } => {
            (ClosedReason::Refused, Category::PermissionDenied)
        }
        OpenError::CannotFork { .. } => (ClosedReason::Refused, Category::Other),
        OpenError::Shutdown => (ClosedReason::Shutdown, Category::Cancelled),
        _ => (ClosedReason::Failed, Category::Other),
    };
    SessionClosed {
        reason: Some(reason),
        error: Some(Failure::new(category, redact::text(&error.to_string()))),
        cause: None,
    }
}
