//! How agents and their processes are, and what their sessions do ([relay.4]).

use std::collections::BTreeMap;

use super::{names, objects};

objects! {
    /// How an agent and its process are ([relay.4]). Times are in milliseconds, rates are of the last seconds.
    #[derive(Default)]
    pub struct HealthEntry {
        /// What is wrong and what to do, as one sentence.
        pub verdict: Option<String>,
        /// How bad it is.
        pub severity: Option<Severity>,
        /// What is known of the process's life.
        pub liveness: Option<Liveness>,
        /// The number of its process.
        pub pid: Option<u64>,
        /// How long that has run.
        pub age_ms: Option<u64>,
        /// How long it has said nothing.
        pub silent_ms: Option<u64>,
        /// When its process may be started again, where it waits for that.
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
        /// What was counted of it, by name.
        pub counters: Option<BTreeMap<String, u64>>,
        /// The end of its standard error, without secrets.
        pub stderr: Option<String>,
    }

    /// What an open session does and takes ([relay.4]). Times are in milliseconds.
    #[derive(Default)]
    pub struct OpenSession {
        /// The session.
        pub id: String,
        /// Its agent.
        pub agent_id: String,
        /// What it does.
        pub state: Option<SessionActivity>,
        /// How long it has been open.
        pub age_ms: Option<u64>,
        /// How long its turn has run.
        pub turn_ms: Option<u64>,
        /// How long its turn has been silent, where that counts.
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
    /// How bad it is.
    #[derive(PartialOrd, Ord)]
    pub enum Severity {
        /// Nothing is wrong.
        Ok = "ok",
        /// Something happened that a person may want to know.
        Note = "note",
        /// Something is wrong, and work goes on.
        Warning = "warning",
        /// Work does not go on.
        Error = "error",
    }

    /// What is known of a process's life.
    pub enum Liveness {
        /// None runs.
        Down = "down",
        /// It has been started and has said nothing yet.
        Starting = "starting",
        /// It runs; whether it still reads is not known.
        Alive = "alive",
        /// It has said something lately, or answered a `ping`.
        Answering = "answering",
        /// It has lately said something of a turn that runs.
        Progressing = "progressing",
        /// It has not answered a `ping`.
        Suspected = "suspected",
    }

    /// What an open session does.
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
