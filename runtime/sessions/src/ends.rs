//! Ends that the relay writes for turns, and refusals for sessions that the host did not open.

use trunkline_host::{OpenError, redact};
use trunkline_protocol::{
    AttachRefusal, Category, ClosedReason, Delivered, Failure, SessionClosed, SessionRefused,
    Status, StopReason, TurnComplete,
};

/// Returns the end of a turn that failed.
pub fn failed(delivered: Delivered) -> TurnComplete {
    TurnComplete {
        status: Some(Status::Failed),
        delivered: Some(delivered),
        ..TurnComplete::default()
    }
}

/// Returns the end of an input for which there is no room.
pub fn busy(why: &str) -> TurnComplete {
    undelivered(Failure::new(Category::Busy, why))
}

/// Returns the end of an input that failed before the agent had it.
pub fn undelivered(error: Failure) -> TurnComplete {
    TurnComplete {
        error: Some(error),
        ..failed(Delivered::No)
    }
}

/// Returns the end of an input that its sender may not send.
pub fn forbidden(why: Failure) -> TurnComplete {
    let status = Some(Status::Refused);
    TurnComplete {
        status,
        error: Some(why),
        delivered: Some(Delivered::No),
        ..TurnComplete::default()
    }
}

/// Returns the end of a turn that was stopped.
pub fn stopped(reason: StopReason, delivered: Delivered) -> TurnComplete {
    TurnComplete {
        status: Some(Status::Stopped),
        stop_reason: Some(reason.as_str().to_owned()),
        delivered: Some(delivered),
        ..TurnComplete::default()
    }
}

/// Returns the end of an input that came too late for its session.
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

/// Returns the refusal of the journal to open a session.
pub fn refused(reason: AttachRefusal, why: impl Into<String>) -> SessionRefused {
    SessionRefused {
        reason: Some(reason),
        message: Some(why.into()),
        last_seq: None,
    }
}

/// Returns the reply to a `session.start` whose id the journal has already ([journal.2]).
pub fn exists() -> SessionRefused {
    refused(
        AttachRefusal::Exists,
        "the journal knows this id; attach to it, or choose another id",
    )
}

/// Returns the refusal for a session of which this machine has a copy: this host may have owned it
/// a moment ago ([journal.5]).
pub fn moved() -> SessionRefused {
    refused(
        AttachRefusal::Unavailable,
        "another host has the session; attach to it again",
    )
}

/// Converts an error of the host, which did not open a session, to a message of the protocol.
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
        OpenError::CannotFork { .. }
        | OpenError::NeedsFolder { .. }
        | OpenError::OutputSchema { .. } => (ClosedReason::Refused, Category::Other),
        OpenError::Shutdown => (ClosedReason::Shutdown, Category::Cancelled),
        _ => (ClosedReason::Failed, Category::Other),
    };
    SessionClosed {
        reason: Some(reason),
        error: Some(Failure::new(category, redact::message(&error.to_string()))),
        cause: None,
    }
}
