//! The messages of both directions: their fields, the types of these, and the extension each belongs to.

use serde_json::Value;

use Kind::{Any, Bool, Id, Int, List, Map, Num, Object, OneOf, Str, Uint};

use crate::switches::{Mutant as M, broken};

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
    /// What needs some extension, whichever: `session.ready`, `session.info`, `_meta`.
    pub(crate) const SOME: Self = Self(1 << 15);
    pub(crate) const ALL: Self = Self(255 | 1 << 15);

    const NAMES: [&'static str; 8] =
        ["turns", "events", "usage", "resume", "options", "questions", "flow", "control"];

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
        (0..8).filter(|at| self.0 & 1 << at != 0).map(|at| Self::NAMES[at]).collect()
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
    pub(crate) fields: &'static [Field],
}

const T: Exts = Exts::TURNS;
const E: Exts = Exts::EVENTS;
const U: Exts = Exts::USAGE;
const R: Exts = Exts::RESUME;
const O: Exts = Exts::OPTIONS;
const Q: Exts = Exts::QUESTIONS;
const C: Exts = Exts::CONTROL;
const S: Exts = Exts::SOME;
const CORE: Exts = Exts::NONE;

const REASON: Kind = OneOf(&["user", "timeout", "policy", "stopped", "shutdown"]);
const CATEGORY: Kind = OneOf(&[
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
const ERROR: Kind = Object(&[
    ("category", CATEGORY, false),
    ("message", Str, false),
    ("code", Str, false),
    ("retry_at", Str, false),
]);
const STRINGS: Kind = List(&Str);
const DIFFS: Kind = List(&Object(&[
    ("path", Str, true),
    ("old_text", Str, false),
    ("new_text", Str, false),
    ("patch", Str, false),
]));
const NUMBERS: Kind = Object(&[
    ("input_tokens", Uint, false),
    ("output_tokens", Uint, false),
    ("total_tokens", Uint, false),
    ("cache_read_tokens", Uint, false),
    ("cache_write_tokens", Uint, false),
    ("reasoning_tokens", Uint, false),
    ("cost_usd", Num, false),
    ("provider", Str, false),
]);
const SCOPE: Kind = OneOf(&["turn", "session"]);
const USAGE: Kind = Object(&[
    ("input_tokens", Uint, false),
    ("output_tokens", Uint, false),
    ("total_tokens", Uint, false),
    ("cache_read_tokens", Uint, false),
    ("cache_write_tokens", Uint, false),
    ("reasoning_tokens", Uint, false),
    ("cost_usd", Num, false),
    ("model", Str, false),
    ("provider", Str, false),
    ("models", Map(&NUMBERS), false),
    ("scope", SCOPE, false),
    ("estimated", Bool, false),
]);
const CAPABILITIES: Kind = Object(&[
    ("native_session_ids", Bool, false),
    ("turn_completion", Bool, false),
    ("resume_attach", Bool, false),
    ("exec_model", Str, false),
    ("max_sessions", Uint, false),
]);
const CHOICES: Kind = List(&Object(&[("id", Str, true), ("label", Str, false), ("description", Str, false)]));

const TURN: Field = ("turn_id", Id, false, T);
const MESSAGE: Field = ("message_id", Id, false, E);
const PARENT: Field = ("parent_tool_call_id", Id, false, E);
const HISTORY: Field = ("history", Bool, false, E);
const REQUEST: Field = ("request_id", Id, true, CORE);

macro_rules! info {
    ($($first:expr,)*) => { &[
        $($first,)*
        ("adapter", Object(&[("name", Str, true), ("version", Str, false)]), false, S),
        ("capabilities", CAPABILITIES, false, S),
        ("input_modes", STRINGS, false, T),
        ("native_session_id", Str, false, R),
        ("display_id", Str, false, R),
        ("context", OneOf(&["kept", "lost"]), false, R),
        ("options_applied", STRINGS, false, O),
        ("model", Str, false, O),
        ("reasoning_effort", Str, false, O),
        ("mode", Str, false, O),
        ("permission_mode", Str, false, O),
        ("allowed_tools", STRINGS, false, O),
        ("denied_tools", STRINGS, false, O),
        ("models", List(&Object(&[("id", Str, true), ("label", Str, false)])), false, O),
        ("modes", List(&Object(&[("id", Str, true), ("name", Str, false)])), false, O),
        ("commands", List(&Object(&[
            ("name", Str, true), ("description", Str, false), ("hint", Str, false), ("text", Str, false),
        ])), false, O),
    ] };
}

/// What an adapter says to its host.
pub(crate) const UP: &[Shape] = &[
    shape(
        "output",
        CORE,
        &[TURN, ("content", Str, true, CORE), ("channel", Str, false, CORE), MESSAGE, PARENT, HISTORY],
    ),
    shape(
        "turn.complete",
        CORE,
        &[
            TURN,
            ("status", OneOf(&["completed", "stopped", "failed", "refused", "limit"]), false, T),
            ("stop_reason", Str, false, T),
            ("error", ERROR, false, T),
            ("delivered", OneOf(&["yes", "no", "unknown"]), false, T),
            ("exit_code", Int, false, T),
            ("signal", Int, false, T),
            ("summary", Str, false, T),
            ("artifacts", Any, false, T),
            ("result", Any, false, T),
            ("duration_ms", Uint, false, T),
            ("num_turns", Uint, false, T),
            ("model", Str, false, T),
            ("provider", Str, false, T),
            ("usage", USAGE, false, U),
            ("native_session_id", Str, false, R),
            ("session_params", Any, false, R),
            ("clear_session", Bool, false, R),
        ],
    ),
    shape(
        "file.output",
        CORE,
        &[
            TURN,
            ("file_name", Str, false, CORE),
            ("file_mime_type", Str, false, CORE),
            ("file_path", Str, true, CORE),
        ],
    ),
    shape(
        "permission.request",
        CORE,
        &[
            TURN,
            REQUEST,
            ("tool", Str, true, CORE),
            ("description", Str, true, CORE),
            ("resource", Str, true, CORE),
            ("input", Any, false, C),
            ("title", Str, false, C),
            ("tool_call_id", Id, false, C),
            ("diffs", DIFFS, false, C),
            ("expires_at", Str, false, C),
            (
                "options",
                List(&Object(&[
                    ("id", Str, true),
                    ("label", Str, false),
                    ("kind", OneOf(&["allow_once", "allow_always", "reject_once", "reject_always"]), false),
                ])),
                false,
                C,
            ),
            MESSAGE,
            PARENT,
            HISTORY,
        ],
    ),
    shape("session.ready", S, info![("protocol", Uint, false, S), ("extensions", STRINGS, false, S),]),
    shape("session.info", S, info![TURN,]),
    shape(
        "steer.result",
        T,
        &[TURN, ("message_id", Id, false, T), ("delivered", Bool, true, T), ("reason", Str, false, T)],
    ),
    shape("thinking", E, &[TURN, ("content", Str, true, E), MESSAGE, PARENT, HISTORY]),
    shape("message", E, &[TURN, ("role", Str, true, E), ("content", Str, true, E), MESSAGE, PARENT, HISTORY]),
    shape(
        "tool.start",
        E,
        &[
            TURN,
            ("tool_call_id", Id, true, E),
            ("tool", Str, true, E),
            ("kind", Str, false, E),
            ("title", Str, false, E),
            ("input", Any, false, E),
            ("locations", Any, false, E),
            MESSAGE,
            PARENT,
            HISTORY,
        ],
    ),
    shape(
        "tool.update",
        E,
        &[
            TURN,
            ("tool_call_id", Id, true, E),
            ("content", Str, false, E),
            ("stream", Str, false, E),
            ("title", Str, false, E),
            ("input", Any, false, E),
            ("data", Any, false, E),
            MESSAGE,
            PARENT,
            HISTORY,
        ],
    ),
    shape(
        "tool.end",
        E,
        &[
            TURN,
            ("tool_call_id", Id, true, E),
            ("content", Str, false, E),
            ("is_error", Bool, false, E),
            ("truncated", Bool, false, E),
            ("diffs", DIFFS, false, E),
            ("data", Any, false, E),
            ("duration_ms", Uint, false, E),
            MESSAGE,
            PARENT,
            HISTORY,
        ],
    ),
    shape(
        "plan",
        E,
        &[
            TURN,
            (
                "entries",
                List(&Object(&[
                    ("content", Str, true),
                    ("status", OneOf(&["pending", "in_progress", "completed"]), false),
                    ("priority", Str, false),
                ])),
                true,
                E,
            ),
            MESSAGE,
            PARENT,
            HISTORY,
        ],
    ),
    shape("progress", E, &[TURN, ("message", Str, true, E), MESSAGE, PARENT, HISTORY]),
    shape(
        "log",
        E,
        &[
            TURN,
            ("stream", OneOf(&["raw", "stderr", "host", "meta"]), false, E),
            ("content", Str, true, E),
            MESSAGE,
            PARENT,
            HISTORY,
        ],
    ),
    shape(
        "error",
        E,
        &[
            TURN,
            ("category", CATEGORY, false, E),
            ("message", Str, true, E),
            ("fatal", Bool, false, E),
            MESSAGE,
            PARENT,
            HISTORY,
        ],
    ),
    shape("custom", E, &[TURN, ("name", Str, true, E), ("data", Any, false, E), MESSAGE, PARENT, HISTORY]),
    shape(
        "usage",
        U,
        &[
            TURN,
            ("input_tokens", Uint, false, U),
            ("output_tokens", Uint, false, U),
            ("total_tokens", Uint, false, U),
            ("cache_read_tokens", Uint, false, U),
            ("cache_write_tokens", Uint, false, U),
            ("reasoning_tokens", Uint, false, U),
            ("cost_usd", Num, false, U),
            ("model", Str, false, U),
            ("provider", Str, false, U),
            ("models", Map(&NUMBERS), false, U),
            ("scope", SCOPE, false, U),
            ("estimated", Bool, false, U),
        ],
    ),
    shape("context.usage", U, &[TURN, ("used_tokens", Uint, false, U), ("total_tokens", Uint, false, U)]),
    shape(
        "compaction",
        U,
        &[
            TURN,
            ("trigger", OneOf(&["auto", "manual"]), false, U),
            ("pre_tokens", Uint, false, U),
            ("total_tokens", Uint, false, U),
        ],
    ),
    shape(
        "rate_limit",
        U,
        &[
            TURN,
            ("window", Str, false, U),
            ("status", Str, false, U),
            ("utilization", Num, false, U),
            ("resets_at", Str, false, U),
        ],
    ),
    shape(
        "input.request",
        Q,
        &[
            TURN,
            REQUEST,
            ("prompt", Str, true, Q),
            (
                "fields",
                List(&Object(&[
                    ("id", Str, true),
                    ("label", Str, false),
                    ("kind", OneOf(&["text", "secret", "boolean", "number", "choice", "choices"]), false),
                    ("choices", CHOICES, false),
                    ("required", Bool, false),
                    ("default", Any, false),
                ])),
                false,
                Q,
            ),
            ("expires_at", Str, false, Q),
        ],
    ),
    shape("pong", C, &[("nonce", Any, false, C)]),
    shape("working", C, &[TURN]),
    shape(
        "session.closed",
        C,
        &[
            (
                "reason",
                OneOf(&["finished", "failed", "refused", "unknown_agent", "limit", "protocol", "shutdown"]),
                false,
                C,
            ),
            ("error", ERROR, false, C),
        ],
    ),
    shape("permission.cancel", C, &[TURN, REQUEST, ("reason", REASON, false, C)]),
    shape("sessions.list.result", S, &[REQUEST, ("entries", Any, false, S), ("error", Str, false, S)]),
    shape("agents.list.result", CORE, &[REQUEST, ("agents", Any, true, CORE)]),
];

/// What a hub says to its host, and a host to its adapter.
pub(crate) const DOWN: &[Shape] = &[
    shape(
        "session.start",
        CORE,
        &[
            ("protocol", Uint, false, CORE),
            ("extensions", STRINGS, false, CORE),
            (
                "resume",
                Object(&[
                    ("native_session_id", Str, false),
                    ("params", Any, false),
                    ("history", Bool, false),
                ]),
                false,
                R,
            ),
            ("agent_id", Str, false, CORE),
            ("user_id", Str, false, O),
            ("task_id", Str, false, O),
            ("run_id", Str, false, O),
            ("variables", Map(&Str), false, O),
            ("cwd", Str, false, O),
            ("add_dirs", STRINGS, false, O),
            ("exchange_dir", Str, false, O),
            ("model", Str, false, O),
            ("reasoning_effort", Str, false, O),
            ("temperature", Num, false, O),
            ("system_prompt", Str, false, O),
            ("system_prompt_mode", OneOf(&["append", "replace"]), false, O),
            ("mode", Str, false, O),
            ("permission_mode", Str, false, O),
            ("allowed_tools", STRINGS, false, O),
            ("denied_tools", STRINGS, false, O),
            ("allowed_domains", STRINGS, false, O),
            ("max_turns", Uint, false, O),
            ("max_cost_usd", Num, false, O),
            ("mcp_servers", Any, false, O),
            ("skills", Any, false, O),
            ("env", Map(&Str), false, O),
            ("extra_args", STRINGS, false, O),
        ],
    ),
    shape(
        "user.input",
        CORE,
        &[
            TURN,
            ("content", Str, true, CORE),
            ("message_id", Id, false, T),
            ("mode", OneOf(&["turn", "steer"]), false, T),
        ],
    ),
    shape(
        "file.input",
        CORE,
        &[
            ("file_name", Str, false, CORE),
            ("file_mime_type", Str, false, CORE),
            ("file_path", Str, true, CORE),
        ],
    ),
    shape(
        "permission.response",
        CORE,
        &[
            REQUEST,
            ("approved", Any, false, CORE),
            ("option_id", Str, false, C),
            ("always_allow", Bool, false, C),
            ("updated_input", Any, false, C),
            ("message", Str, false, C),
            ("end_turn", Bool, false, C),
            ("reason", REASON, false, T),
        ],
    ),
    shape("stop", CORE, &[TURN, ("reason", REASON, false, T)]),
    shape("session.close", CORE, &[]),
    shape(
        "session.update",
        O,
        &[
            ("model", Str, false, O),
            ("reasoning_effort", Str, false, O),
            ("mode", Str, false, O),
            ("permission_mode", Str, false, O),
            ("allowed_tools", STRINGS, false, O),
            ("denied_tools", STRINGS, false, O),
        ],
    ),
    shape("input.response", Q, &[REQUEST, ("values", Map(&Any), false, Q), ("cancelled", Bool, false, Q)]),
    shape("flow.pause", Exts::FLOW, &[]),
    shape("flow.resume", Exts::FLOW, &[]),
    shape("ping", CORE, &[("nonce", Any, false, CORE)]),
    shape("agents.list", CORE, &[REQUEST]),
    shape("sessions.list", CORE, &[REQUEST]),
];

const fn shape(kind: &'static str, needs: Exts, fields: &'static [Field]) -> Shape {
    Shape { kind, needs, fields }
}

/// The types that belong to the pipe ([msg.1]).
pub(crate) fn of_the_pipe(kind: &str) -> bool {
    matches!(
        kind,
        "ping" | "pong" | "sessions.list" | "sessions.list.result" | "agents.list" | "agents.list.result"
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
            let any = broken(M::CategoryUnchecked) && names.contains(&"rate_limit");
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
        Int => whole && raw.parse::<f64>().is_ok_and(|n| n.abs() <= f64::from(i32::MAX) + 1.0),
        _ => raw.parse::<f64>().is_ok_and(f64::is_finite),
    }
}

/// A nested value without the members that no one knows; nothing where an element or a required member is
/// of the wrong type ([msg.5], [ext.4]).
fn nested(kind: Kind, value: Value) -> Option<Value> {
    match (kind, value) {
        (List(of), Value::Array(items)) => {
            items.into_iter().map(|item| nested(*of, item)).collect::<Option<Vec<_>>>().map(Value::Array)
        }
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
