//! Every message of SPEC.md sections 4, 10, 11 and 12: who writes it, where it belongs, what it carries.

use crate::clauses::Side;

mod messages;

pub(crate) use self::messages::TABLES;
use super::extension::Extension;
use Extension::{Events, Turns};
use Kind::{Any, Bool, Id, List, Map, Number, Object, OneOf, Strings, Text, Time, Uint};

/// The type of a value, as section 1 names it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    Id,
    Path,
    Bool,
    Uint,
    Int,
    Number,
    Time,
    Any,
    /// `[string]`.
    Strings,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// An object with these members, of which others are ignored.
    Object(&'static [Field]),
    /// An array of such objects.
    List(&'static [Field]),
    /// An object whose members are all so.
    Map(&'static Self),
}

/// Whether a field must stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Its absence makes the message bad.
    Required,
    /// It must be written, and a reader makes do without ([permission.6]).
    Owed,
    /// A reader bears its absence; "writers always write it".
    Written,
    /// It may be left out.
    Optional,
}

/// What lets a type or field be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// The core, or negotiation itself.
    Open,
    /// This extension.
    One(Extension),
    /// Any extension at all.
    AnyOf,
}

/// One field of a message or of an object within one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) presence: Presence,
    pub(crate) gate: Gate,
}

/// What a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Session,
    Pipe,
}

/// One type of message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) from: Side,
    pub(crate) scope: Scope,
    pub(crate) gate: Gate,
    pub(crate) fields: &'static [Field],
}

/// The table of that type, whichever side writes it.
pub(crate) fn find(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}

pub(super) const fn required(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        presence: Presence::Required,
        gate: Gate::Open,
    }
}

pub(super) const fn owed(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        presence: Presence::Owed,
        gate: Gate::Open,
    }
}

pub(super) const fn written(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        presence: Presence::Written,
        gate: Gate::Open,
    }
}

pub(super) const fn optional(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        presence: Presence::Optional,
        gate: Gate::Open,
    }
}

pub(super) const fn with(extension: Extension, name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        presence: Presence::Optional,
        gate: Gate::One(extension),
    }
}

pub(super) const fn core(name: &'static str, from: Side, fields: &'static [Field]) -> Table {
    Table {
        name,
        from,
        scope: Scope::Session,
        gate: Gate::Open,
        fields,
    }
}

pub(super) const fn of(
    extension: Extension,
    name: &'static str,
    from: Side,
    fields: &'static [Field],
) -> Table {
    Table {
        name,
        from,
        scope: Scope::Session,
        gate: Gate::One(extension),
        fields,
    }
}

pub(super) const fn pipe(
    gate: Gate,
    name: &'static str,
    from: Side,
    fields: &'static [Field],
) -> Table {
    Table {
        name,
        from,
        scope: Scope::Pipe,
        gate,
        fields,
    }
}

/// The fields of both lists, in their order; `N` is how many these are.
pub(super) const fn joined<const N: usize>(first: &[Field], second: &[Field]) -> [Field; N] {
    assert!(
        first.len() + second.len() == N,
        "the length is that of both lists"
    );
    let mut all = [first[0]; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < first.len() {
            first[at]
        } else {
            second[at - first.len()]
        };
        at += 1;
    }
    all
}

/// The categories of [ext.6].
pub(crate) const CATEGORY: Kind = OneOf(&[
    "timeout",
    "cancelled",
    "context_exhausted",
    "max_turns",
    "rate_limit",
    "usage_limit",
    "auth",
    "billing",
    "overloaded",
    "model_not_found",
    "session_not_found",
    "permission_denied",
    "tool_loop",
    "not_installed",
    "protocol",
    "process_exit",
    "file_refused",
    "oversize",
    "busy",
    "stop_unanswered",
    "other",
]);

pub(super) const REASON: Kind = OneOf(&["user", "timeout", "policy", "stopped", "shutdown"]);

pub(super) const ERROR: Kind = Object(&[
    optional("category", CATEGORY),
    optional("message", Text),
    optional("code", Text),
    optional("retry_at", Time),
    optional("stderr", Strings),
]);

pub(super) const DIFF: &[Field] = &[
    required("path", Text),
    optional("old_text", Text),
    optional("new_text", Text),
    optional("patch", Text),
];

pub(super) const CAPABILITIES: Kind = Object(&[
    optional("native_session_ids", Bool),
    optional("turn_completion", Bool),
    optional("resume_attach", Bool),
    optional("lists_sessions", Bool),
    optional("forks_sessions", Bool),
    optional("exec_model", Text),
    optional("updated_input", Bool),
    optional("max_sessions", Uint),
]);

pub(super) const MODELS: Kind = List(&[required("id", Text), optional("label", Text)]);

/// The numbers of a turn, as `usage` and `turn.complete` carry them.
pub(super) const OF_USAGE: &[Field] = &[
    optional("input_tokens", Uint),
    optional("output_tokens", Uint),
    optional("total_tokens", Uint),
    optional("cache_read_tokens", Uint),
    optional("cache_write_tokens", Uint),
    optional("reasoning_tokens", Uint),
    optional("cost_usd", Number),
    optional("model", Text),
    optional("provider", Text),
    optional("models", PER_MODEL),
    optional("scope", OneOf(&["turn", "session"])),
    optional("estimated", Bool),
];

/// How an agent is, in the answer to `agents.list`.
pub(super) const HEALTH: Kind = Object(&[
    optional("verdict", Text),
    optional("severity", OneOf(&["ok", "note", "warning", "error"])),
    optional(
        "liveness",
        OneOf(&[
            "down",
            "starting",
            "alive",
            "answering",
            "progressing",
            "suspected",
        ]),
    ),
    optional("pid", Uint),
    optional("age_ms", Uint),
    optional("silent_ms", Uint),
    optional("restart_in_ms", Uint),
    optional("last_end", Text),
    optional("sessions", Uint),
    optional("turns", Uint),
    optional("requests", Uint),
    optional("queued_bytes", Uint),
    optional("lines_rate", Uint),
    optional("bytes_in_rate", Uint),
    optional("bytes_out_rate", Uint),
    optional("counters", Map(&Uint)),
    optional("stderr", Text),
]);

/// The open sessions, there.
pub(super) const OPEN_SESSIONS: Kind = List(&[
    required("id", Text),
    required("agent_id", Text),
    optional(
        "state",
        OneOf(&["unstarted", "idle", "running", "stopping"]),
    ),
    optional("age_ms", Uint),
    optional("turn_ms", Uint),
    optional("silent_ms", Uint),
    optional("queued_inputs", Uint),
    optional("requests", Uint),
    optional("unread_bytes", Uint),
    optional("bytes_in", Uint),
    optional("bytes_out", Uint),
]);

/// What a session of a journal does (section 13).
pub(super) const SESSION_STATE: Kind = OneOf(&["idle", "running", "detached", "closed"]);

/// The limits of a turn, as an input has them.
pub(super) const LIMITS: Kind = Object(&[
    optional("max_tokens", Uint),
    optional("turn_timeout_ms", Uint),
    optional("inactivity_timeout_ms", Uint),
]);

/// The sessions of a journal, there.
pub(super) const LISTED_SESSIONS: Kind = List(&[
    required("session_id", Text),
    required("agent_id", Text),
    optional("title", Text),
    optional("state", SESSION_STATE),
    optional("cwd", Text),
    optional("created", Time),
    optional("active", Time),
    optional("entries", Uint),
    optional("bytes", Uint),
    optional("open_turns", Uint),
    optional("open_requests", Uint),
    optional("host", Text),
    optional("archived", Bool),
]);

pub(super) const PER_MODEL: Kind = Map(&Object(&[
    optional("input_tokens", Uint),
    optional("output_tokens", Uint),
    optional("total_tokens", Uint),
    optional("cache_read_tokens", Uint),
    optional("cache_write_tokens", Uint),
    optional("reasoning_tokens", Uint),
    optional("cost_usd", Number),
    optional("provider", Text),
]));

/// What [`Table::fields`] leaves out because every message of its kind may carry it.
pub(crate) const META: Field = Field {
    name: "_meta",
    kind: Map(&Any),
    presence: Presence::Optional,
    gate: Gate::AnyOf,
};

/// `turn_id` on all of a turn from the adapter (section 11.1).
pub(crate) const TURN_ID: Field = with(Turns, "turn_id", Id);

/// The fields of section 11.2 that any event, `output` and `permission.request` may carry.
pub(crate) const OF_EVENTS: [Field; 3] = [
    with(Events, "message_id", Id),
    with(Events, "parent_tool_call_id", Id),
    with(Events, "history", Bool),
];

pub(super) const COMMANDS: Kind = List(&[
    required("name", Text),
    optional("description", Text),
    optional("hint", Text),
    optional("text", Text),
]);
