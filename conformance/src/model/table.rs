//! Every message of SPEC.md sections 4, 10, 11 and 12: who writes it, where it belongs, what it carries.

use crate::clauses::Side;

use super::extension::Extension;
use Extension::{Control, Events, Flow, Options, Questions, Resume, Turns, Usage};
use Kind::{Any, Bool, Id, Int, List, Map, Number, Object, OneOf, Path, Strings, Text, Time, Uint};
use Side::{Adapter, Host};

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

const fn required(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, presence: Presence::Required, gate: Gate::Open }
}

const fn written(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, presence: Presence::Written, gate: Gate::Open }
}

const fn optional(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, presence: Presence::Optional, gate: Gate::Open }
}

const fn with(extension: Extension, name: &'static str, kind: Kind) -> Field {
    Field { name, kind, presence: Presence::Optional, gate: Gate::One(extension) }
}

const fn core(name: &'static str, from: Side, fields: &'static [Field]) -> Table {
    Table { name, from, scope: Scope::Session, gate: Gate::Open, fields }
}

const fn of(extension: Extension, name: &'static str, from: Side, fields: &'static [Field]) -> Table {
    Table { name, from, scope: Scope::Session, gate: Gate::One(extension), fields }
}

const fn pipe(gate: Gate, name: &'static str, from: Side, fields: &'static [Field]) -> Table {
    Table { name, from, scope: Scope::Pipe, gate, fields }
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

const REASON: Kind = OneOf(&["user", "timeout", "policy", "stopped", "shutdown"]);

const ERROR: Kind = Object(&[
    optional("category", CATEGORY),
    optional("message", Text),
    optional("code", Text),
    optional("retry_at", Time),
]);

const DIFF: &[Field] = &[
    required("path", Text),
    optional("old_text", Text),
    optional("new_text", Text),
    optional("patch", Text),
];

const CAPABILITIES: Kind = Object(&[
    optional("native_session_ids", Bool),
    optional("turn_completion", Bool),
    optional("resume_attach", Bool),
    optional("exec_model", Text),
    optional("max_sessions", Uint),
]);

const MODELS: Kind = List(&[required("id", Text), optional("label", Text)]);

const USAGE: Kind = Object(&[
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
]);

const PER_MODEL: Kind = Map(&Object(&[
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
pub(crate) const META: Field =
    Field { name: "_meta", kind: Map(&Any), presence: Presence::Optional, gate: Gate::AnyOf };

/// `turn_id` on all of a turn from the adapter (section 11.1).
pub(crate) const TURN_ID: Field = with(Turns, "turn_id", Id);

/// The fields of section 11.2 that any event, `output` and `permission.request` may carry.
pub(crate) const OF_EVENTS: [Field; 3] =
    [with(Events, "message_id", Id), with(Events, "parent_tool_call_id", Id), with(Events, "history", Bool)];

/// Every type of message.
pub(crate) const TABLES: &[Table] = &[
    // Core, host to adapter (section 4.1), with what extensions add to it.
    core(
        "user.input",
        Host,
        &[
            written("content", Text),
            with(Turns, "turn_id", Id),
            with(Turns, "message_id", Id),
            with(Turns, "mode", OneOf(&["turn", "steer"])),
        ],
    ),
    core("stop", Host, &[with(Turns, "turn_id", Id), with(Turns, "reason", REASON)]),
    core(
        "permission.response",
        Host,
        &[
            required("request_id", Id),
            written("approved", Bool),
            with(Turns, "reason", REASON),
            with(Control, "option_id", Text),
            with(Control, "always_allow", Bool),
            with(Control, "updated_input", Any),
            with(Control, "message", Text),
            with(Control, "end_turn", Bool),
        ],
    ),
    core(
        "session.start",
        Host,
        &[
            optional("protocol", Uint),
            optional("extensions", Strings),
            with(
                Resume,
                "resume",
                Object(&[
                    optional("native_session_id", Text),
                    optional("params", Any),
                    optional("history", Bool),
                ]),
            ),
            with(Options, "agent_id", Text),
            with(Options, "user_id", Text),
            with(Options, "task_id", Text),
            with(Options, "run_id", Text),
            with(Options, "variables", Map(&Text)),
            with(Options, "cwd", Path),
            with(Options, "add_dirs", Strings),
            with(Options, "exchange_dir", Path),
            with(Options, "model", Text),
            with(Options, "reasoning_effort", Text),
            with(Options, "temperature", Number),
            with(Options, "system_prompt", Text),
            with(Options, "system_prompt_mode", OneOf(&["append", "replace"])),
            with(Options, "mode", Text),
            with(Options, "permission_mode", Text),
            with(Options, "allowed_tools", Strings),
            with(Options, "denied_tools", Strings),
            with(Options, "allowed_domains", Strings),
            with(Options, "max_turns", Uint),
            with(Options, "max_cost_usd", Number),
            with(Options, "mcp_servers", Any),
            with(Options, "skills", Any),
            with(Options, "env", Map(&Text)),
            with(Options, "extra_args", Strings),
        ],
    ),
    core("session.close", Host, &[]),
    core(
        "file.input",
        Host,
        &[written("file_name", Text), written("file_mime_type", Text), required("file_path", Path)],
    ),
    // Core, adapter to host (section 4.2).
    core("output", Adapter, &[required("content", Text), optional("channel", Text)]),
    core(
        "turn.complete",
        Adapter,
        &[
            with(Turns, "status", OneOf(&["completed", "stopped", "failed", "refused", "limit"])),
            with(Turns, "stop_reason", Text),
            with(Turns, "error", ERROR),
            with(Turns, "delivered", OneOf(&["yes", "no", "unknown"])),
            with(Turns, "exit_code", Int),
            with(Turns, "signal", Int),
            with(Turns, "summary", Text),
            with(Turns, "artifacts", Any),
            with(Turns, "result", Any),
            with(Turns, "duration_ms", Uint),
            with(Turns, "num_turns", Uint),
            with(Turns, "model", Text),
            with(Turns, "provider", Text),
            with(Usage, "usage", USAGE),
            with(Resume, "native_session_id", Text),
            with(Resume, "session_params", Any),
            with(Resume, "clear_session", Bool),
        ],
    ),
    core(
        "permission.request",
        Adapter,
        &[
            required("request_id", Id),
            required("tool", Text),
            required("description", Text),
            required("resource", Text),
            with(Control, "input", Any),
            with(Control, "title", Text),
            with(Control, "tool_call_id", Id),
            with(Control, "diffs", List(DIFF)),
            with(Control, "expires_at", Time),
            with(
                Control,
                "options",
                List(&[
                    required("id", Text),
                    optional("label", Text),
                    optional("kind", OneOf(&["allow_once", "allow_always", "reject_once", "reject_always"])),
                ]),
            ),
        ],
    ),
    core(
        "file.output",
        Adapter,
        &[written("file_name", Text), written("file_mime_type", Text), required("file_path", Path)],
    ),
    // Negotiation (section 10.1). Which sessions may carry it is judged by the model.
    core(
        "session.ready",
        Adapter,
        &[
            optional("protocol", Uint),
            optional("extensions", Strings),
            optional("adapter", Object(&[required("name", Text), optional("version", Text)])),
            optional("capabilities", CAPABILITIES),
            with(Turns, "input_modes", Strings),
            with(Resume, "native_session_id", Text),
            with(Resume, "display_id", Text),
            with(Resume, "context", OneOf(&["kept", "lost"])),
            with(Options, "options_applied", Strings),
            with(Options, "model", Text),
            with(Options, "reasoning_effort", Text),
            with(Options, "mode", Text),
            with(Options, "permission_mode", Text),
            with(Options, "allowed_tools", Strings),
            with(Options, "denied_tools", Strings),
            with(Options, "models", MODELS),
            with(Options, "modes", List(&[required("id", Text), optional("name", Text)])),
            with(Options, "commands", COMMANDS),
        ],
    ),
    core(
        "session.info",
        Adapter,
        &[
            optional("adapter", Object(&[required("name", Text), optional("version", Text)])),
            optional("capabilities", CAPABILITIES),
            with(Turns, "input_modes", Strings),
            with(Resume, "native_session_id", Text),
            with(Resume, "display_id", Text),
            with(Resume, "context", OneOf(&["kept", "lost"])),
            with(Options, "options_applied", Strings),
            with(Options, "model", Text),
            with(Options, "reasoning_effort", Text),
            with(Options, "mode", Text),
            with(Options, "permission_mode", Text),
            with(Options, "allowed_tools", Strings),
            with(Options, "denied_tools", Strings),
            with(Options, "models", MODELS),
            with(Options, "modes", List(&[required("id", Text), optional("name", Text)])),
            with(Options, "commands", COMMANDS),
        ],
    ),
    // turns.
    of(
        Turns,
        "steer.result",
        Adapter,
        &[written("message_id", Id), required("delivered", Bool), optional("reason", Text)],
    ),
    // events.
    of(Events, "thinking", Adapter, &[required("content", Text)]),
    of(Events, "message", Adapter, &[required("role", Text), required("content", Text)]),
    of(
        Events,
        "tool.start",
        Adapter,
        &[
            required("tool_call_id", Id),
            required("tool", Text),
            optional("kind", Text),
            optional("title", Text),
            optional("input", Any),
            optional("locations", Any),
        ],
    ),
    of(
        Events,
        "tool.update",
        Adapter,
        &[
            required("tool_call_id", Id),
            optional("content", Text),
            optional("stream", Text),
            optional("title", Text),
            optional("input", Any),
            optional("data", Any),
        ],
    ),
    of(
        Events,
        "tool.end",
        Adapter,
        &[
            required("tool_call_id", Id),
            optional("content", Text),
            optional("is_error", Bool),
            optional("truncated", Bool),
            optional("diffs", List(DIFF)),
            optional("data", Any),
            optional("duration_ms", Uint),
        ],
    ),
    of(
        Events,
        "plan",
        Adapter,
        &[required(
            "entries",
            List(&[
                required("content", Text),
                optional("status", OneOf(&["pending", "in_progress", "completed"])),
                optional("priority", Text),
            ]),
        )],
    ),
    of(Events, "progress", Adapter, &[required("message", Text)]),
    of(
        Events,
        "log",
        Adapter,
        &[optional("stream", OneOf(&["raw", "stderr", "host", "meta"])), required("content", Text)],
    ),
    of(
        Events,
        "error",
        Adapter,
        &[optional("category", CATEGORY), required("message", Text), optional("fatal", Bool)],
    ),
    of(Events, "custom", Adapter, &[required("name", Text), optional("data", Any)]),
    // usage.
    of(
        Usage,
        "usage",
        Adapter,
        &[
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
        ],
    ),
    of(Usage, "context.usage", Adapter, &[optional("used_tokens", Uint), optional("total_tokens", Uint)]),
    of(
        Usage,
        "compaction",
        Adapter,
        &[
            optional("trigger", OneOf(&["auto", "manual"])),
            optional("pre_tokens", Uint),
            optional("total_tokens", Uint),
        ],
    ),
    of(
        Usage,
        "rate_limit",
        Adapter,
        &[
            optional("window", Text),
            optional("status", Text),
            optional("utilization", Number),
            optional("resets_at", Time),
        ],
    ),
    // resume.
    pipe(
        Gate::One(Resume),
        "sessions.list",
        Host,
        &[required("request_id", Id), optional("cwd", Text), optional("limit", Uint)],
    ),
    pipe(
        Gate::One(Resume),
        "sessions.list.result",
        Adapter,
        &[
            required("request_id", Id),
            optional(
                "entries",
                List(&[
                    required("native_session_id", Text),
                    optional("title", Text),
                    optional("cwd", Text),
                    optional("message_count", Uint),
                    optional("created_at", Time),
                    optional("updated_at", Time),
                ]),
            ),
            optional("error", Text),
        ],
    ),
    // options.
    of(
        Options,
        "session.update",
        Host,
        &[
            optional("model", Text),
            optional("reasoning_effort", Text),
            optional("mode", Text),
            optional("permission_mode", Text),
            optional("allowed_tools", Strings),
            optional("denied_tools", Strings),
        ],
    ),
    // questions.
    of(
        Questions,
        "input.request",
        Adapter,
        &[
            required("request_id", Id),
            required("prompt", Text),
            optional(
                "fields",
                List(&[
                    required("id", Text),
                    optional("label", Text),
                    optional("kind", OneOf(&["text", "secret", "boolean", "number", "choice", "choices"])),
                    optional(
                        "choices",
                        List(&[required("id", Text), optional("label", Text), optional("description", Text)]),
                    ),
                    optional("required", Bool),
                    optional("default", Any),
                ]),
            ),
            optional("expires_at", Time),
        ],
    ),
    of(
        Questions,
        "input.response",
        Host,
        &[required("request_id", Id), optional("values", Map(&Any)), optional("cancelled", Bool)],
    ),
    // flow.
    of(Flow, "flow.pause", Host, &[]),
    of(Flow, "flow.resume", Host, &[]),
    // control.
    pipe(Gate::One(Control), "ping", Host, &[optional("nonce", Any)]),
    pipe(Gate::One(Control), "pong", Adapter, &[optional("nonce", Any)]),
    of(Control, "working", Adapter, &[]),
    of(
        Control,
        "session.closed",
        Adapter,
        &[
            optional(
                "reason",
                OneOf(&["finished", "failed", "refused", "unknown_agent", "limit", "protocol", "shutdown"]),
            ),
            optional("error", ERROR),
        ],
    ),
    of(Control, "permission.cancel", Adapter, &[required("request_id", Id), optional("reason", REASON)]),
    // The relay (section 12).
    pipe(Gate::Open, "agents.list", Host, &[required("request_id", Id)]),
    pipe(
        Gate::Open,
        "agents.list.result",
        Adapter,
        &[
            required("request_id", Id),
            required(
                "agents",
                List(&[
                    required("id", Text),
                    optional("name", Text),
                    optional("profile", Text),
                    optional("description", Text),
                    optional("capabilities", CAPABILITIES),
                    optional("models", MODELS),
                    optional("state", OneOf(&["idle", "running", "failed"])),
                ]),
            ),
        ],
    ),
];

const COMMANDS: Kind = List(&[
    required("name", Text),
    optional("description", Text),
    optional("hint", Text),
    optional("text", Text),
]);
