//! Messages between a hub and a relay that keeps a journal, besides the messages of an adapter
//! ([journal.1]).

use std::collections::BTreeMap;

use super::{Context, StopReason, names, objects};
use crate::{Json, MessageId, RequestId, TurnId};

/// The longest title of a session, in bytes ([journal.13]).
pub const MAX_TITLE: usize = 200;

objects! {
    /// Opens a session of the journal on this pipe: the entries that there are come again, then new
    /// ones ([journal.5]).
    #[derive(Default)]
    pub struct SessionAttach {
        /// The last entry that the hub has; 0 for none.
        pub after: u64,
        /// The epoch of that entry.
        pub epoch: Option<u64>,
        /// Rights of the hub; absent: `control`.
        pub role: Option<Role>,
        /// Behavior when the hub reads more slowly than the session writes; absent: `wait`.
        pub on_slow: Option<OnSlow>,
        /// As in `session.start`; not stored.
        pub env: Option<BTreeMap<String, String>>,
        /// As in `session.start`; not stored.
        pub mcp_servers: Option<Json>,
        /// The version that the hub speaks.
        pub protocol: Option<u32>,
        /// The extensions that it understands.
        pub extensions: Option<Vec<String>>,
    }

    /// Leaves the session on this pipe; the session continues ([journal.6]).
    #[derive(Default)]
    pub struct SessionDetach {
        /// True to close the session at its agent when nothing is open in it and no hub is
        /// attached; the next input opens it again ([journal.6]).
        pub release: Option<bool>,
    }

    /// Asks for entries of a session that need not be attached ([journal.8]).
    pub struct SessionHistory {
        /// Copied into the answer.
        pub request_id: RequestId,
        /// The first entry; absent: the first there is.
        pub from: Option<u64>,
        /// The last entry; absent: the last there is.
        pub to: Option<u64>,
    }

    /// Changes the title of a session, or archives it ([journal.13]). The session need not be attached.
    pub struct SessionEdit {
        /// Copied into the answer.
        pub request_id: RequestId,
        /// The title, of at most 200 bytes; the empty text removes it. Absent: it stays.
        pub title: Option<String>,
        /// True to archive the session, false to undo that. Absent: it stays.
        pub archived: Option<bool>,
    }

    /// Opens a session of the journal as a copy of another, and attaches to it ([journal.14]). The
    /// message's own id is the id of the new session.
    #[derive(Default)]
    pub struct SessionFork {
        /// The session that is copied.
        pub source: String,
        /// The last entry of the copy; absent: all of them.
        pub seq: Option<u64>,
        /// The last entry that the hub has, as in `session.attach`; absent: 0.
        pub after: Option<u64>,
        /// As in `session.start`; not stored.
        pub env: Option<BTreeMap<String, String>>,
        /// As in `session.start`; not stored.
        pub mcp_servers: Option<Json>,
        /// The version that the hub speaks.
        pub protocol: Option<u32>,
        /// The extensions that it understands.
        pub extensions: Option<Vec<String>>,
    }

    /// The answer to `session.attach` or `session.fork`; the entries follow.
    #[derive(Default)]
    pub struct SessionAttached {
        /// The agent.
        pub agent_id: String,
        /// State of the session.
        pub state: Option<SessionState>,
        /// Rights of this hub.
        pub role: Option<Role>,
        /// Name of this listener in `by`.
        pub listener: Option<String>,
        /// The running turn.
        pub turn_id: Option<TurnId>,
        /// The turns whose inputs wait.
        pub queued: Option<Vec<TurnId>>,
        /// The permissions and questions that wait for an answer.
        pub requests: Option<Vec<RequestId>>,
        /// The first entry that the journal still has.
        pub first_seq: u64,
        /// The last one; 0 before the first.
        pub last_seq: u64,
        /// The epoch in which the relay writes now.
        pub epoch: u64,
        /// A headline.
        pub title: Option<String>,
        /// Working directory.
        pub cwd: Option<String>,
        /// True if it is archived ([journal.13]).
        pub archived: Option<bool>,
        /// The way in which the agent of a copy gets the conversation ([journal.14]). Absent: it is
        /// no copy, or its agent has begun its own conversation.
        pub copied: Option<CopiedContext>,
    }

    /// The session was not attached, opened or forked.
    #[derive(Default)]
    pub struct SessionRefused {
        /// Reason.
        pub reason: Option<AttachRefusal>,
        /// The text for a person.
        pub message: Option<String>,
        /// The last entry that both have, for `forked`; the last that the journal has, for `ahead`.
        pub last_seq: Option<u64>,
    }

    /// The answer to `session.edit`: only to this hub, and not an entry.
    pub struct SessionEditResult {
        /// Id of the `session.edit`.
        pub request_id: RequestId,
        /// Reason why nothing was changed; absent on success.
        pub error: Option<String>,
    }

    /// The answer to an input of a hub with `journal`: only to this hub, and not an entry.
    #[derive(Default)]
    pub struct InputResult {
        /// Id of the input.
        pub message_id: Option<MessageId>,
        /// The number of its `turn.begin`, or of its `input.steered`.
        pub seq: u64,
        /// True if the journal had the input already, and nothing new happens.
        pub duplicate: Option<bool>,
    }

    /// The answer to `session.history`: at most 1 MiB, or one entry.
    pub struct SessionHistoryResult {
        /// Id of the `session.history`.
        pub request_id: RequestId,
        /// The entries.
        pub entries: Option<Vec<Json>>,
        /// The entries among them that the journal has lost.
        pub lost: Option<Vec<LostEntries>>,
        /// Sequence number of the next entry, if there are more.
        pub next: Option<u64>,
        /// Reason why there are none.
        pub error: Option<String>,
    }

    /// Consecutive entries that the journal has lost ([journal.9]).
    #[derive(Default)]
    pub struct LostEntries {
        /// The first of them.
        pub from: u64,
        /// The last of them.
        pub to: u64,
    }

    /// A session in the answer to `sessions.list` ([journal.12]). Times are RFC 3339.
    #[derive(Default)]
    pub struct ListedSession {
        /// Session id.
        pub session_id: String,
        /// Agent of the session.
        pub agent_id: String,
        /// A headline: its first input, or what the agent calls it.
        pub title: Option<String>,
        /// State of the session.
        pub state: Option<SessionState>,
        /// Working directory, if the hub chose one.
        pub cwd: Option<String>,
        /// When it was opened.
        pub created: Option<String>,
        /// When something last happened in it.
        pub active: Option<String>,
        /// Number of entries.
        pub entries: Option<u64>,
        /// Size in the journal, in bytes.
        pub bytes: Option<u64>,
        /// Number of its turns without an end.
        pub open_turns: Option<u64>,
        /// Number of its requests that wait for an answer: permissions and questions.
        pub open_requests: Option<u64>,
        /// Host of the session, if there are several hosts.
        pub host: Option<String>,
        /// True if it is archived ([journal.13]).
        pub archived: Option<bool>,
    }

    /// Entries that this hub does not get ([journal.7]). No entry itself.
    #[derive(Default)]
    pub struct Lag {
        /// The first of them.
        pub from: u64,
        /// The last of them.
        pub to: u64,
    }

    /// Entry: an event of the session that no adapter reports.
    #[derive(Default)]
    pub struct HostFact {
        /// The event.
        pub fact: Option<Fact>,
        /// The text for a person.
        pub message: Option<String>,
        /// State of the conversation's context in the agent.
        pub context: Option<Context>,
        /// The exit code of the process.
        pub exit_code: Option<i32>,
        /// The signal that ended it.
        pub signal: Option<i32>,
        /// The session that was copied, for `forked_from`.
        pub source: Option<String>,
        /// The time for which nothing has come, in milliseconds, for `stalled`.
        pub silent_ms: Option<u64>,
        /// The time to the first deadline that ends the turn, in milliseconds, for `stalled`.
        /// Absent: it has none.
        pub deadline_ms: Option<u64>,
    }

    /// Entry: the title was changed, or the session was archived ([journal.13]).
    #[derive(Default)]
    pub struct SessionEdited {
        /// The title; the empty text: it was removed. Absent: it stays.
        pub title: Option<String>,
        /// True if the session is archived from now on. Absent: it stays.
        pub archived: Option<bool>,
        /// The listener that changed it.
        pub by: Option<String>,
    }

    /// Entry: an input was accepted, and begins a turn or waits for one.
    #[derive(Default)]
    pub struct TurnBegin {
        /// The input's own id.
        pub message_id: Option<MessageId>,
        /// Text of the user.
        pub content: String,
        /// The SHA-256, in hexadecimal, of each file that the input brings ([journal.7]).
        pub files: Option<Vec<String>>,
        /// True if another turn runs.
        pub queued: Option<bool>,
        /// Listener that sent it.
        pub by: Option<String>,
    }

    /// Entry: an input was accepted for the running turn.
    #[derive(Default)]
    pub struct InputSteered {
        /// The input's own id.
        pub message_id: Option<MessageId>,
        /// Text of the user.
        pub content: String,
        /// The SHA-256, in hexadecimal, of each file that the input brings ([journal.7]).
        pub files: Option<Vec<String>>,
        /// Listener that sent it.
        pub by: Option<String>,
    }

    /// Entry: a file was handed to the agent.
    #[derive(Default)]
    pub struct FileDelivered {
        /// Name of the file.
        pub file_name: Option<String>,
        /// Media type.
        pub file_mime_type: Option<String>,
        /// Size in bytes.
        pub size: Option<u64>,
        /// SHA-256, in hexadecimal.
        pub sha256: Option<String>,
        /// The listener that gave it.
        pub by: Option<String>,
    }

    /// Entry: a permission or a question is settled.
    pub struct RequestDecided {
        /// Id of the request.
        pub request_id: RequestId,
        /// True if a permission was given.
        pub approved: Option<bool>,
        /// The option that was chosen.
        pub option_id: Option<String>,
        /// The tool's input as the user changed it, if the permission was given for that.
        pub updated_input: Option<Json>,
        /// The answers to a question; one that is secret is `{"redacted": true}`.
        pub values: Option<BTreeMap<String, Json>>,
        /// True if a question has no answer.
        pub cancelled: Option<bool>,
        /// Reason why it was settled; absent if it was answered.
        pub reason: Option<StopReason>,
        /// The pattern that approves such requests from now on.
        pub always: Option<String>,
        /// The listener that answered.
        pub by: Option<String>,
        /// A name of the person who answered, as the listener gave it. No rights follow from it.
        pub name: Option<String>,
    }

    /// Entry: a stop of the running turn, or of the one named, was requested.
    #[derive(Default)]
    pub struct StopRequested {
        /// Reason.
        pub reason: Option<StopReason>,
        /// The listener that asked for it.
        pub by: Option<String>,
    }
}

names! {
    /// Rights of a hub in a session.
    pub enum Role {
        /// Anything.
        Control = "control",
        /// Read.
        Observe = "observe",
    }

    /// Behavior when a hub reads more slowly than the session writes.
    pub enum OnSlow {
        /// The hub gets every entry, later.
        Wait = "wait",
        /// The hub gets one `lag`, followed by the new entries.
        Skip = "skip",
    }

    /// State of a session of the journal.
    pub enum SessionState {
        /// Waits for an input.
        Idle = "idle",
        /// A turn runs.
        Running = "running",
        /// No process serves it; its next input starts one.
        Detached = "detached",
        /// Closed, but readable.
        Closed = "closed",
    }

    /// The way in which the agent of a copied session gets the conversation ([journal.14]).
    pub enum CopiedContext {
        /// Copies its own conversation, by `resume.fork`.
        Agent = "agent",
        /// Begins anew, with a transcript of the entries in its instructions.
        Transcript = "transcript",
    }

    /// Reason why a session was not attached, opened or forked.
    pub enum AttachRefusal {
        /// The journal has no session of this id.
        Unknown = "unknown",
        /// The session was removed.
        Gone = "gone",
        /// This hub may not.
        Forbidden = "forbidden",
        /// The hub claims more entries than there are.
        Ahead = "ahead",
        /// The hub's last entry is not the journal's.
        Forked = "forked",
        /// `session.start` of an id that the journal knows: attach is the way in.
        Exists = "exists",
        /// The journal cannot be written.
        ReadOnly = "read_only",
        /// No host serves it now, or another one does: attach again in a while.
        Unavailable = "unavailable",
        /// This relay does not do what was asked for, such as fork a session.
        Unsupported = "unsupported",
    }

    /// Event of a session.
    pub enum Fact {
        /// Opened: the first entry.
        Opened = "opened",
        /// The process that served it has ended.
        ProcessEnded = "process_ended",
        /// A process serves it again.
        Resumed = "resumed",
        /// The host that served it has ended, and another one has its journal.
        HostRestarted = "host_restarted",
        /// A host of a cluster has it from now on; `message` is the host's name. The first entry of
        /// its epoch.
        Moved = "moved",
        /// Began as a copy of another session, whose entries precede this one ([journal.14]).
        ForkedFrom = "forked_from",
        /// The running turn is silent; nothing is stopped. Not an entry: it has no number.
        Stalled = "stalled",
    }
}
