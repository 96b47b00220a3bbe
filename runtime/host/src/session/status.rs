//! Status of a session at a moment.

use std::time::Duration;

use serde::{Serialize, Serializer};
use trunkline_core::{SessionState, TurnNo};
use trunkline_protocol::SessionId;

/// Status of a session at a moment. Serialised, times are in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionStatus {
    /// Session id.
    pub id: SessionId,
    /// The id of its agent.
    pub agent: String,
    /// Activity.
    pub state: SessionState,
    /// Time since it was opened.
    #[serde(serialize_with = "seconds")]
    pub age: Duration,
    /// The turn that runs. `None` if none does.
    pub turn: Option<TurnNo>,
    /// Running time of that turn.
    #[serde(serialize_with = "seconds_of")]
    pub turn_age: Option<Duration>,
    /// Silence of that turn. `None` also if it does not count: a request waits for an answer, or
    /// the adapter is asked to hold the session back.
    #[serde(serialize_with = "seconds_of")]
    pub silent_for: Option<Duration>,
    /// Inputs that wait to be written.
    pub queued_inputs: usize,
    /// Waiting time of the first of them.
    #[serde(serialize_with = "seconds_of")]
    pub queue_age: Option<Duration>,
    /// Sum of the waiting times of written inputs.
    #[serde(serialize_with = "seconds")]
    pub queue_time: Duration,
    /// Permissions and questions that wait for an answer.
    pub open_requests: usize,
    /// Bytes of the adapter's messages for it.
    pub bytes_in: u64,
    /// Bytes of messages for it that were handed to the adapter's pipe.
    pub bytes_out: u64,
    /// Unread bytes of its events, in memory and on disk: of turns that have not ended, and outside
    /// turns.
    pub unread_bytes: u64,
    /// True while the adapter is asked to hold its messages back ([flow.1]).
    pub held_back: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[allow(clippy::ref_option, reason = "serde's form")]
fn seconds_of<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(serializer)
}
