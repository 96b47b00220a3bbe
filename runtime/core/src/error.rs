//! Errors that a session returns to its user.

use thiserror::Error;

/// Reason why a steer did not reach the running turn; the texts are sentences. Nothing has
/// happened; it may be sent as a turn ([turn.10]).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SteerError {
    /// No turn is running.
    #[error("no turn is running; send the input as a turn")]
    NoTurn,
    /// The agent takes no input while a turn runs.
    #[error(
        "the agent takes no input while a turn runs; send it as a turn, which waits for the end of this one"
    )]
    Unsupported,
    /// Too many (`queued_inputs`) wait for an answer already, or too many bytes (`outbox`) for the adapter.
    #[error("too much is waiting for the adapter already; try again when some of it was answered")]
    Busy,
    /// The adapter reports that it was not delivered.
    #[error("the agent did not take the input: {0}")]
    NotDelivered(String),
    /// The session has ended.
    #[error("the session has ended; open another")]
    Closed,
}

/// Reason why the adapter did not change options; the texts are sentences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UpdateError {
    /// The adapter does not know `options`.
    #[error("the adapter cannot change options of a live session; open another session with them")]
    Unsupported,
    /// The session has ended.
    #[error("the session has ended; open another")]
    Closed,
}

/// Reason that an approval with another input for the tool, or with a lasting rule, does not count;
/// the texts are sentences. The request stays open.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EditRejected {
    /// This pattern of the deny list matches the edited input, or could match it: the input does
    /// not show on what the tool acts, or a path in it cannot be resolved.
    #[error(
        "the deny pattern `{0}` rejects the edited input: it matches, or what the tool would act on is not clear"
    )]
    ByPattern(String),
    /// The adapter does not know `control`, or has not listed `updated_input` among what it can.
    #[error("the adapter takes no edited calls; answer without `updated_input`")]
    Unsupported,
    /// The lasting rule does not allow the request that it came with.
    #[error(
        "the rule `{0}` does not allow this request: it does not match it, a deny pattern rejects it, a link in its path leads elsewhere, or what the tool would act on is not clear"
    )]
    ByRule(String),
    /// The session has ended.
    #[error("the session has ended")]
    Closed,
}
