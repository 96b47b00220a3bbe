//! Errors of a turn, a start or an update.

use std::fmt;

use trunkline_protocol::{Category, ClosedReason, Failure, Status, TurnComplete};

use crate::session::ended;

/// Ends a turn as failed, refused or limited, and perhaps its session with it.
///
/// Every [`std::error::Error`] becomes one by `?`: a failed turn of category `other`. The user sees
/// it, so its text must hold no secret.
#[derive(Debug)]
pub struct Error {
    status: Status,
    failure: Failure,
    closes: Option<ClosedReason>,
}

impl Error {
    /// A failed turn.
    #[must_use]
    pub fn new(category: Category, message: impl Into<String>) -> Self {
        Self {
            status: Status::Failed,
            failure: Failure::new(category, message),
            closes: None,
        }
    }

    /// A failed turn of category `other`.
    #[must_use]
    pub fn other(message: impl Into<String>) -> Self {
        Self::new(Category::Other, message)
    }

    /// The agent declined.
    #[must_use]
    pub fn refused(message: impl Into<String>) -> Self {
        Self {
            status: Status::Refused,
            ..Self::other(message)
        }
    }

    /// Turns, tokens or budget are used up.
    #[must_use]
    pub fn limit(category: Category, message: impl Into<String>) -> Self {
        Self {
            status: Status::Limit,
            ..Self::new(category, message)
        }
    }

    /// The turn was stopped, as far as the handler knows.
    #[must_use]
    pub fn stopped() -> Self {
        Self {
            status: Status::Stopped,
            failure: Failure::default(),
            closes: None,
        }
    }

    /// Adds the agent's own code.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.failure.code = Some(code.into());
        self
    }

    /// Sets the time from which trying again makes sense, in RFC 3339.
    #[must_use]
    pub fn retry_at(mut self, time: impl Into<String>) -> Self {
        self.failure.retry_at = Some(time.into());
        self
    }

    /// Ends the session too, after the turn ([session.8]).
    #[must_use]
    pub fn closes_session(mut self, reason: ClosedReason) -> Self {
        self.closes = Some(reason);
        self
    }

    /// The failure, as it is written on the wire.
    #[must_use]
    pub fn failure(&self) -> &Failure {
        &self.failure
    }

    /// The status with which the turn ends.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    pub(crate) fn closes(&self) -> Option<ClosedReason> {
        self.closes
    }

    pub(crate) fn into_end(self) -> TurnComplete {
        let error = (self.failure != Failure::default()).then_some(self.failure);
        ended(self.status, error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            self.failure
                .message
                .as_deref()
                .unwrap_or(self.status.as_str()),
        )
    }
}

/// Not itself a [`std::error::Error`], so that every one of those converts.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::other(message)
    }
}
