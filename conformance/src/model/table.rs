//! Every message of SPEC.md sections 4, 10, 11 and 12: its writer, its scope, its fields.

use crate::clauses::Side;

mod messages;

pub(crate) use self::messages::TABLES;
use super::extension::Extension;
use ValueType::{Any, Bool, Id, List, Map, Number, Object, OneOf, Strings, Text, Time, Uint};

/// The type of a value, as section 1 names it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueType {
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

/// Presence of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Its absence makes the message bad.
    Required,
    /// Required of writers, optional for readers ([permission.6]).
    Owed,
    /// A reader bears its absence; "writers always write it".
    Written,
    /// It may be left out.
    Optional,
}

/// Condition for the use of a type or field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// The core, or negotiation itself.
    Open,
    /// This extension.
    One(Extension),
    /// Any extension at all.
    AnyOf,
}

/// A field of a message or of an object within one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: ValueType,
    pub(crate) presence: Presence,
    pub(crate) gate: Gate,
}

/// Scope of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Session,
    Pipe,
}

/// A type of message.
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

/// Fields, each written `name mark ValueType`: the mark is `!` for [`Presence::Required`], `?` for
/// [`Presence::Optional`], or the word `owed` or `written`. Fields of an extension, and the open ones
/// beside them, are in blocks, each under the name of its gate.
macro_rules! fields {
    ($($gate:ident { $($name:ident $mark:tt $kind:expr),* $(,)? })+) => {
        &[$($($crate::model::table::Field {
            name: stringify!($name),
            kind: $kind,
            presence: $crate::model::table::presence!($mark),
            gate: $crate::model::table::gate!($gate),
        },)*)+]
    };
    ($($rows:tt)+) => {
        $crate::model::table::fields! { Open { $($rows)+ } }
    };
}

/// The presence that a mark gives a field.
macro_rules! presence {
    (!) => {
        $crate::model::table::Presence::Required
    };
    (?) => {
        $crate::model::table::Presence::Optional
    };
    (owed) => {
        $crate::model::table::Presence::Owed
    };
    (written) => {
        $crate::model::table::Presence::Written
    };
}

/// The gate of that name.
macro_rules! gate {
    (Open) => {
        $crate::model::table::Gate::Open
    };
    (AnyOf) => {
        $crate::model::table::Gate::AnyOf
    };
    ($extension:ident) => {
        $crate::model::table::Gate::One($crate::model::extension::Extension::$extension)
    };
}

use {fields, gate, presence};

pub(super) const fn core(name: &'static str, from: Side, fields: &'static [Field]) -> Table {
    Table {
        name,
        from,
        scope: Scope::Session,
        gate: Gate::Open,
        fields,
    }
}

pub(super) const fn gated(
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
        "both lists have this length"
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
pub(crate) const CATEGORY: ValueType = OneOf(&[
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

pub(super) const REASON: ValueType = OneOf(&["user", "timeout", "policy", "stopped", "shutdown"]);

pub(super) const ERROR: ValueType = Object(fields! {
    category? CATEGORY,
    message? Text,
    code? Text,
    retry_at? Time,
    stderr? Strings,
});

pub(super) const DIFF: &[Field] = fields! {
    path! Text,
    old_text? Text,
    new_text? Text,
    patch? Text,
};

pub(super) const CAPABILITIES: ValueType = Object(fields! {
    native_session_ids? Bool,
    turn_completion? Bool,
    resume_attach? Bool,
    lists_sessions? Bool,
    lists_choices? Bool,
    forks_sessions? Bool,
    exec_model? Text,
    updated_input? Bool,
    max_sessions? Uint,
});

pub(super) const MODELS: ValueType = List(fields! { id! Text, label? Text, description? Text });

/// The numbers of a turn, as `usage` and `turn.complete` carry them.
pub(super) const OF_USAGE: &[Field] = fields! {
    input_tokens? Uint,
    output_tokens? Uint,
    total_tokens? Uint,
    cache_read_tokens? Uint,
    cache_write_tokens? Uint,
    reasoning_tokens? Uint,
    cost_usd? Number,
    model? Text,
    provider? Text,
    models? PER_MODEL,
    scope? OneOf(&["turn", "session"]),
    estimated? Bool,
};

/// Health of an agent, in the answer to `agents.list`.
pub(super) const HEALTH: ValueType = Object(fields! {
    verdict? Text,
    severity? OneOf(&["ok", "note", "warning", "error"]),
    liveness? OneOf(&["down", "starting", "alive", "answering", "progressing", "suspected"]),
    pid? Uint,
    age_ms? Uint,
    silent_ms? Uint,
    restart_in_ms? Uint,
    last_end? Text,
    sessions? Uint,
    turns? Uint,
    requests? Uint,
    queued_bytes? Uint,
    lines_rate? Uint,
    bytes_in_rate? Uint,
    bytes_out_rate? Uint,
    counters? Map(&Uint),
    stderr? Text,
});

/// The open sessions, there.
pub(super) const OPEN_SESSIONS: ValueType = List(fields! {
    id! Text,
    agent_id! Text,
    state? OneOf(&["unstarted", "idle", "running", "stopping"]),
    age_ms? Uint,
    turn_ms? Uint,
    silent_ms? Uint,
    queued_inputs? Uint,
    requests? Uint,
    unread_bytes? Uint,
    bytes_in? Uint,
    bytes_out? Uint,
});

/// State of a session of a journal (section 13).
pub(super) const SESSION_STATE: ValueType = OneOf(&["idle", "running", "detached", "closed"]);

/// The limits of a turn, as an input has them.
pub(super) const LIMITS: ValueType = Object(fields! {
    max_tokens? Uint,
    turn_timeout_ms? Uint,
    inactivity_timeout_ms? Uint,
});

/// The sessions of a journal, there.
pub(super) const LISTED_SESSIONS: ValueType = List(fields! {
    session_id! Text,
    agent_id! Text,
    title? Text,
    state? SESSION_STATE,
    cwd? Text,
    created? Time,
    active? Time,
    entries? Uint,
    bytes? Uint,
    open_turns? Uint,
    open_requests? Uint,
    host? Text,
    archived? Bool,
});

pub(super) const PER_MODEL: ValueType = Map(&Object(fields! {
    input_tokens? Uint,
    output_tokens? Uint,
    total_tokens? Uint,
    cache_read_tokens? Uint,
    cache_write_tokens? Uint,
    reasoning_tokens? Uint,
    cost_usd? Number,
    provider? Text,
}));

/// The fields that every message may carry.
pub(crate) const META: &[Field] = fields! { AnyOf { _meta? Map(&Any) } };

/// `turn_id` on all of a turn from the adapter (section 11.1).
pub(crate) const TURN_ID: &[Field] = fields! { Turns { turn_id? Id } };

/// The fields of section 11.2 that any event, `output` and `permission.request` may carry.
pub(crate) const OF_EVENTS: &[Field] = fields! {
    Events { message_id? Id, parent_tool_call_id? Id, history? Bool }
};

pub(super) const COMMANDS: ValueType = List(fields! {
    name! Text,
    description? Text,
    hint? Text,
    text? Text,
});
