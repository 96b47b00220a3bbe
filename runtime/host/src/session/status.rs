//! What a session does, has and takes at a moment.

use std::time::Duration;

use serde::{Serialize, Serializer};
use trunkline_core::{SessionState, TurnNo};
use trunkline_protocol::SessionId;

/// What a session does, has and takes at a moment. Serialised, times are in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionStatus {
    /// Its id.
    pub id: SessionId,
    /// The id of its agent.
    pub agent: String,
    /// What it does.
    pub state: SessionState,
    /// How long it has been open.
    #[serde(serialize_with = "seconds")]
    pub age: Duration,
    /// The turn that runs. `None` if none does.
    pub turn: Option<TurnNo>,
    /// How long that turn has run.
    #[serde(serialize_with = "seconds_of")]
    pub turn_age: Option<Duration>,
    /// How long that turn has been silent. `None` too where its silence does not count: a request
    /// waits for an answer, or the adapter is asked to hold the session back.
    #[serde(serialize_with = "seconds_of")]
    pub silent_for: Option<Duration>,
    /// Inputs that wait to be written.
    pub queued_inputs: usize,
    /// How long the first of them has waited.
    #[serde(serialize_with = "seconds_of")]
    pub queue_age: Option<Duration>,
    /// How long the inputs that were written had waited, added up.
    #[serde(serialize_with = "seconds")]
    pub queue_time: Duration,
    /// Permissions and questions that wait for an answer.
    pub open_requests: usize,
    /// Bytes of the adapter's messages for it.
    pub bytes_in: u64,
    /// Bytes of messages for it that were handed to the adapter's pipe.
    pub bytes_out: u64,
    /// Bytes of its events that wait to be read, in memory and on disk: those of turns that have
    /// not ended, and those outside turns.
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
