//! Health of agents and their processes, and activity of their sessions ([relay.4]).

use std::collections::BTreeMap;

use super::{names, objects};

objects! {
    /// Health of an agent and its process ([relay.4]). Times are in milliseconds; rates cover the
    /// last seconds.
    #[derive(Default)]
    pub struct HealthEntry {
        /// Problem and next step, as one sentence.
        pub verdict: Option<String>,
        /// Severity of the problem.
        pub severity: Option<Severity>,
        /// Liveness of the process.
        pub liveness: Option<Liveness>,
        /// The number of its process.
        pub pid: Option<u64>,
        /// Running time of the process.
        pub age_ms: Option<u64>,
        /// Time since its last output.
        pub silent_ms: Option<u64>,
        /// Time until its process may be started again, if it waits for that.
        pub restart_in_ms: Option<u64>,
        /// The end of the process before.
        pub last_end: Option<String>,
        /// Open sessions.
        pub sessions: Option<u64>,
        /// Turns that run.
        pub turns: Option<u64>,
        /// Permissions and questions that wait for an answer.
        pub requests: Option<u64>,
        /// Bytes that wait to be written to it.
        pub queued_bytes: Option<u64>,
        /// Lines a second that it wrote.
        pub lines_rate: Option<u64>,
        /// Bytes a second that it wrote.
        pub bytes_in_rate: Option<u64>,
        /// Bytes a second that were written to it.
        pub bytes_out_rate: Option<u64>,
        /// Counters, by name.
        pub counters: Option<BTreeMap<String, u64>>,
        /// The end of its standard error, without secrets.
        pub stderr: Option<String>,
    }

    /// Activity and use of an open session ([relay.4]). Times are in milliseconds.
    #[derive(Default)]
    pub struct OpenSession {
        /// The session.
        pub id: String,
        /// Agent of the session.
        pub agent_id: String,
        /// Activity.
        pub state: Option<SessionActivity>,
        /// Time since it was opened.
        pub age_ms: Option<u64>,
        /// Running time of its turn.
        pub turn_ms: Option<u64>,
        /// Silence of its turn, if it counts.
        pub silent_ms: Option<u64>,
        /// Inputs that wait.
        pub queued_inputs: Option<u64>,
        /// Permissions and questions that wait for an answer.
        pub requests: Option<u64>,
        /// Bytes of its events that wait to be read.
        pub unread_bytes: Option<u64>,
        /// Bytes of the agent's messages for it.
        pub bytes_in: Option<u64>,
        /// Bytes of the messages for it that were written to the agent.
        pub bytes_out: Option<u64>,
    }
}

names! {
    /// Severity of a problem.
    #[derive(PartialOrd, Ord)]
    pub enum Severity {
        /// Nothing is wrong.
        Ok = "ok",
        /// Something happened that a person may want to know.
        Note = "note",
        /// There is a problem, and work continues.
        Warning = "warning",
        /// Work does not continue.
        Error = "error",
    }

    /// Liveness of a process.
    pub enum Liveness {
        /// None runs.
        Down = "down",
        /// Started, without output yet.
        Starting = "starting",
        /// Running; unknown whether it still reads.
        Alive = "alive",
        /// Recently sent output, or answered a `ping`.
        Answering = "answering",
        /// Recently sent output for a running turn.
        Progressing = "progressing",
        /// Has not answered a `ping`.
        Suspected = "suspected",
    }

    /// Activity of an open session.
    pub enum SessionActivity {
        /// The agent does not know it: its process does not run, or has ended since.
        Unstarted = "unstarted",
        /// No turn runs.
        Idle = "idle",
        /// A turn runs.
        Running = "running",
        /// A turn was asked to stop and has not ended.
        Stopping = "stopping",
    }
}
