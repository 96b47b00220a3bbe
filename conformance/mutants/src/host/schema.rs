//! The messages of both directions: their fields, the types of these, and the extension each belongs to.

mod messages;

use serde_json::Value;

use Kind::{Any, Bool, Id, Int, List, Map, Num, Object, OneOf, Str, Uint};

pub(crate) use self::messages::{DOWN, UP};
use crate::switches::{Mutant::*, broken};

/// A set of extensions ([ext.5]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Exts(u16);

impl Exts {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const TURNS: Self = Self(1);
    pub(crate) const EVENTS: Self = Self(2);
    pub(crate) const USAGE: Self = Self(4);
    pub(crate) const RESUME: Self = Self(8);
    pub(crate) const OPTIONS: Self = Self(16);
    pub(crate) const QUESTIONS: Self = Self(32);
    pub(crate) const FLOW: Self = Self(64);
    pub(crate) const CONTROL: Self = Self(128);
    pub(crate) const LARGE: Self = Self(256);
    /// What needs some extension, whichever: `session.ready`, `session.info`, `_meta`.
    pub(crate) const SOME: Self = Self(1 << 15);
    pub(crate) const ALL: Self = Self(511 | 1 << 15);

    const NAMES: [&'static str; 9] = [
        "turns",
        "events",
        "usage",
        "resume",
        "options",
        "questions",
        "flow",
        "control",
        "large",
    ];

    pub(crate) fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut set = Self::NONE;
        for name in names {
            if let Some(at) = Self::NAMES.iter().position(|known| *known == name) {
                set.0 |= 1 << at | Self::SOME.0;
            }
        }
        set
    }

    pub(crate) fn names(self) -> Vec<&'static str> {
        (0..9)
            .filter(|at| self.0 & 1 << at != 0)
            .map(|at| Self::NAMES[at])
            .collect()
    }

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Str,
    Id,
    Uint,
    Int,
    Num,
    Bool,
    Any,
    OneOf(&'static [&'static str]),
    List(&'static Self),
    Map(&'static Self),
    Object(&'static [Part]),
}

/// A member of a nested object: its name, its type, and whether it must be there.
pub(crate) type Part = (&'static str, Kind, bool);

/// A field of a message: its name, its type, whether it must be there, and its extension.
pub(crate) type Field = (&'static str, Kind, bool, Exts);

/// A type of message, with the extension that it belongs to.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) kind: &'static str,
    pub(crate) needs: Exts,
    fields: &'static [Field],
    /// The fields that it has in common with others.
    shared: &'static [Field],
}

impl Shape {
    pub(crate) fn fields(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().chain(self.shared)
    }

    const fn and(self, shared: &'static [Field]) -> Self {
        Self { shared, ..self }
    }
}

/// True for the mark `!`, which makes a field or member required; false for `?`.
macro_rules! is_required {
    (!) => {
        true
    };
    (?) => {
        false
    };
}

/// The type of an object with these members, each written `name! Kind` or `name? Kind`.
macro_rules! object {
    ($($name:ident $mark:tt $kind:expr),* $(,)?) => {
        $crate::schema::Kind::Object(&[
            $((stringify!($name), $kind, $crate::schema::is_required!($mark))),*
        ])
    };
}

/// Fields in blocks, one for each run of fields of the same extension.
macro_rules! fields {
    ($($ext:ident { $($name:ident $mark:tt $kind:expr),* $(,)? })*) => {
        &[$($((stringify!($name), $kind, $crate::schema::is_required!($mark), $ext),)*)*]
    };
}

/// Messages: the type, its fields in blocks, and the fields it shares with others. A message belongs
/// to the extension of its first block.
macro_rules! shapes {
    ($($type:literal $($ext:ident $block:tt)+ $(..$shared:ident)?;)*) => {
        &[$(Shape {
            kind: $type,
            needs: [$($ext),+][0],
            fields: $crate::schema::fields!($($ext $block)+),
            shared: &[],
        }$(.and($shared))?),*]
    };
}

use {fields, is_required, object, shapes};

pub(super) const T: Exts = Exts::TURNS;
pub(super) const E: Exts = Exts::EVENTS;
pub(super) const U: Exts = Exts::USAGE;
pub(super) const R: Exts = Exts::RESUME;
pub(super) const O: Exts = Exts::OPTIONS;
pub(super) const Q: Exts = Exts::QUESTIONS;
pub(super) const F: Exts = Exts::FLOW;
pub(super) const C: Exts = Exts::CONTROL;
pub(super) const L: Exts = Exts::LARGE;
pub(super) const S: Exts = Exts::SOME;
pub(super) const CORE: Exts = Exts::NONE;

pub(super) const REASON: Kind = OneOf(&["user", "timeout", "policy", "stopped", "shutdown"]);
pub(super) const CATEGORY: Kind = OneOf(&[
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
pub(super) const ERROR: Kind = object! {
    category? CATEGORY,
    message? Str,
    code? Str,
    retry_at? Str,
    stderr? STRINGS,
};
pub(super) const STRINGS: Kind = List(&Str);
pub(super) const DIFFS: Kind = List(&object! {
    path! Str,
    old_text? Str,
    new_text? Str,
    patch? Str,
});
pub(super) const NUMBERS: Kind = object! {
    input_tokens? Uint,
    output_tokens? Uint,
    total_tokens? Uint,
    cache_read_tokens? Uint,
    cache_write_tokens? Uint,
    reasoning_tokens? Uint,
    cost_usd? Num,
    provider? Str,
};
pub(super) const SCOPE: Kind = OneOf(&["turn", "session"]);
pub(super) const USAGE: Kind = object! {
    input_tokens? Uint,
    output_tokens? Uint,
    total_tokens? Uint,
    cache_read_tokens? Uint,
    cache_write_tokens? Uint,
    reasoning_tokens? Uint,
    cost_usd? Num,
    model? Str,
    provider? Str,
    models? Map(&NUMBERS),
    scope? SCOPE,
    estimated? Bool,
};
pub(super) const CAPABILITIES: Kind = object! {
    native_session_ids? Bool,
    turn_completion? Bool,
    resume_attach? Bool,
    lists_sessions? Bool,
    forks_sessions? Bool,
    exec_model? Str,
    updated_input? Bool,
    max_sessions? Uint,
};
pub(super) const CHOICES: Kind = List(&object! {
    id! Str,
    label? Str,
    description? Str,
});

/// The fields that every event may carry.
pub(super) const EVENT: &[Field] = fields! {
    T { turn_id? Id }
    E { message_id? Id, parent_tool_call_id? Id, history? Bool }
};

/// The types that belong to the pipe ([msg.1]).
pub(crate) fn of_the_pipe(kind: &str) -> bool {
    matches!(
        kind,
        "ping"
            | "pong"
            | "sessions.list"
            | "sessions.list.result"
            | "agents.list"
            | "agents.list.result"
    )
}

/// The text of a value as far as it has this type; nothing where it has another one ([msg.5]).
pub(crate) fn typed(kind: Kind, raw: &str) -> Option<String> {
    match kind {
        Any => Some(raw.to_owned()),
        Str | Id if raw.starts_with('"') => Some(raw.to_owned()),
        Bool if raw == "true" || raw == "false" => Some(raw.to_owned()),
        Uint | Int | Num if raw.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
            number(kind, raw).then(|| raw.to_owned())
        }
        OneOf(names) => {
            let name: String = serde_json::from_str(raw).ok()?;
            let any = broken(CategoryUnchecked) && names.contains(&"rate_limit");
            (any || names.contains(&name.as_str())).then(|| raw.to_owned())
        }
        List(_) | Map(_) | Object(_) => {
            let value = serde_json::from_str(raw).ok()?;
            Some(nested(kind, value)?.to_string())
        }
        _ => None,
    }
}

fn number(kind: Kind, raw: &str) -> bool {
    let whole = raw.parse::<f64>().is_ok_and(|number| number.fract() == 0.0);
    match kind {
        Uint => {
            raw.parse::<u64>().is_ok()
                || whole && raw.parse::<f64>().is_ok_and(|n| (0.0..1.8e19).contains(&n))
        }
        Int => {
            whole
                && raw
                    .parse::<f64>()
                    .is_ok_and(|n| n.abs() <= f64::from(i32::MAX) + 1.0)
        }
        _ => raw.parse::<f64>().is_ok_and(f64::is_finite),
    }
}

/// A nested value without the members that no one knows; nothing where an element or a required member is
/// of the wrong type ([msg.5], [ext.4]).
fn nested(kind: Kind, value: Value) -> Option<Value> {
    match (kind, value) {
        (List(of), Value::Array(items)) => items
            .into_iter()
            .map(|item| nested(*of, item))
            .collect::<Option<Vec<_>>>()
            .map(Value::Array),
        (Map(of), Value::Object(members)) => members
            .into_iter()
            .map(|(key, value)| Some((key, nested(*of, value)?)))
            .collect::<Option<serde_json::Map<_, _>>>()
            .map(Value::Object),
        (Object(parts), Value::Object(mut members)) => {
            let mut kept = serde_json::Map::new();
            for (name, kind, required) in parts {
                match members
                    .remove(*name)
                    .filter(|value| !value.is_null())
                    .and_then(|value| nested(*kind, value))
                {
                    Some(value) => drop(kept.insert((*name).to_owned(), value)),
                    None if *required => return None,
                    None => {}
                }
            }
            Some(Value::Object(kept))
        }
        (List(_) | Map(_) | Object(_), _) => None,
        (kind, value) => typed(kind, &value.to_string()).map(|_| value),
    }
}
