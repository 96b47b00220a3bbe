//! The messages of both directions: their fields, the types of these, and the extension each belongs to.

mod messages;

use serde_json::Value;

use FieldType::{Any, Bool, Id, Int, List, Map, Num, Object, OneOf, Str, Uint};

pub use self::messages::{DOWN, INFO, UP};
use crate::host::{Mutant::*, broken};

/// A set of extensions ([ext.5]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExtensionSet(u16);

impl ExtensionSet {
    /// No extension.
    pub const CORE: Self = Self(0);
    /// `turns`.
    pub const TURNS: Self = Self(1);
    /// `events`.
    pub const EVENTS: Self = Self(2);
    /// `usage`.
    pub const USAGE: Self = Self(4);
    /// `resume`.
    pub const RESUME: Self = Self(8);
    /// `options`.
    pub const OPTIONS: Self = Self(16);
    /// `questions`.
    pub const QUESTIONS: Self = Self(32);
    /// `flow`.
    pub const FLOW: Self = Self(64);
    /// `control`.
    pub const CONTROL: Self = Self(128);
    /// `large`.
    pub const LARGE: Self = Self(256);
    /// Any extension: for `session.ready`, `session.info`, `_meta`.
    pub const SOME: Self = Self(1 << 15);
    /// Every extension.
    pub const ALL: Self = Self(511 | 1 << 15);

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

    /// The extensions with these names; unknown names count for nothing.
    pub fn named(names: &[String]) -> Self {
        let known = names
            .iter()
            .filter_map(|name| Self::NAMES.iter().position(|known| known == name));
        Self(known.fold(0, |set, at| set | 1 << at | Self::SOME.0))
    }

    /// The names, in the order of [ext.5].
    pub fn names(self) -> Vec<&'static str> {
        (0..9)
            .filter(|at| self.0 & 1 << at != 0)
            .map(|at| Self::NAMES[at])
            .collect()
    }

    /// Returns true if every extension of `other` is in this set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub enum FieldType {
    /// A string.
    Str,
    /// An identifier ([msg.6]).
    Id,
    /// A whole number from 0.
    Uint,
    /// A whole number.
    Int,
    /// A number.
    Num,
    /// `true` or `false`.
    Bool,
    /// Any value.
    Any,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// An array of this type.
    List(&'static Self),
    /// An object whose members are of this type.
    Map(&'static Self),
    /// An object with these members.
    Object(&'static [Field]),
}

/// A field of a message, or a member of a nested object: its name, its type, whether it must be there,
/// and its extension.
pub type Field = (&'static str, FieldType, bool, ExtensionSet);

/// A type of message, with the extension that it belongs to.
#[derive(Debug)]
pub struct Shape {
    /// The type, as it is on the wire.
    pub kind: &'static str,
    /// The extension that both sides must have agreed on.
    pub needs: ExtensionSet,
    fields: &'static [Field],
    /// The fields that it has in common with others.
    shared: &'static [Field],
}

impl Shape {
    /// Every field, own and shared.
    pub fn fields(&self) -> impl Iterator<Item = &'static Field> {
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

/// The type of an object with these members, each written `name! FieldType` or `name? FieldType`.
macro_rules! object {
    ($($name:ident $mark:tt $kind:expr),* $(,)?) => {
        $crate::schema::FieldType::Object($crate::schema::fields!(CORE { $($name $mark $kind),* }))
    };
}

/// Fields in blocks, one for each run of fields of the same extension.
macro_rules! fields {
    ($($ext:ident { $($name:ident $mark:tt $kind:expr),* $(,)? })*) => {
        &[$($((stringify!($name), $kind, $crate::schema::is_required!($mark), $crate::schema::ExtensionSet::$ext),)*)*]
    };
}

/// Messages: the type, its fields in blocks, and the fields it shares with others. A message belongs
/// to the extension of its first block.
macro_rules! shapes {
    ($($type:literal $($ext:ident $block:tt)+ $(..$shared:ident)?;)*) => {
        &[$(Shape {
            kind: $type,
            needs: [$($crate::schema::ExtensionSet::$ext),+][0],
            fields: $crate::schema::fields!($($ext $block)+),
            shared: &[],
        }$(.and($shared))?),*]
    };
}

use {fields, is_required, object, shapes};

const REASON: FieldType = OneOf(&["user", "timeout", "policy", "stopped", "shutdown"]);
const CATEGORY: FieldType = OneOf(&[
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
const ERROR: FieldType = object! {
    category? CATEGORY,
    message? Str,
    code? Str,
    retry_at? Str,
    stderr? STRINGS,
};
const STRINGS: FieldType = List(&Str);
const DIFFS: FieldType = List(&object! {
    path! Str,
    old_text? Str,
    new_text? Str,
    patch? Str,
});
const NUMBERS: FieldType = object! {
    input_tokens? Uint,
    output_tokens? Uint,
    total_tokens? Uint,
    cache_read_tokens? Uint,
    cache_write_tokens? Uint,
    reasoning_tokens? Uint,
    cost_usd? Num,
    provider? Str,
};
const SCOPE: FieldType = OneOf(&["turn", "session"]);
/// The numbers of `usage` and of the member of that name.
const USAGE: &[Field] = fields! {
    USAGE {
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
    }
};
const CAPABILITIES: FieldType = object! {
    native_session_ids? Bool,
    turn_completion? Bool,
    resume_attach? Bool,
    lists_sessions? Bool,
    lists_choices? Bool,
    forks_sessions? Bool,
    exec_model? Str,
    updated_input? Bool,
    max_sessions? Uint,
};
const CHOICES: FieldType = List(&object! {
    id! Str,
    label? Str,
    description? Str,
});

/// The fields that every event may carry.
const EVENT: &[Field] = fields! {
    TURNS { turn_id? Id }
    EVENTS { message_id? Id, parent_tool_call_id? Id, history? Bool }
};

/// The types that belong to the pipe ([msg.1]).
pub fn of_the_pipe(kind: &str) -> bool {
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
pub fn typed(kind: FieldType, raw: &str) -> Option<String> {
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

fn number(kind: FieldType, raw: &str) -> bool {
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

/// Returns a nested value without unknown members; `None` if an element or a required member is of
/// the wrong type ([msg.5], [ext.4]).
fn nested(kind: FieldType, value: Value) -> Option<Value> {
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
            for (name, kind, required, _) in parts {
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
