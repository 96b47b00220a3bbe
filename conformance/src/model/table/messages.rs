//! The types of messages, by direction and extension.

use super::super::extension::Extension::{
    Control, Events, Flow, Large, Options, Questions, Resume, Turns, Usage,
};
use super::Kind::{
    Any, Bool, Id, Int, List, Map, Number, Object, OneOf, Path, Strings, Text, Time, Uint,
};
use super::{
    CAPABILITIES, CATEGORY, COMMANDS, DIFF, ERROR, Field, Gate, HEALTH, LIMITS, LISTED_SESSIONS,
    MODELS, OF_USAGE, OPEN_SESSIONS, REASON, SESSION_STATE, Table, core, joined, of, optional,
    owed, pipe, required, with, written,
};
use crate::clauses::Side::{Adapter, Host};

/// Files, in either direction.
const FILE: &[Field] = &[
    written("file_name", Text),
    written("file_mime_type", Text),
    required("file_path", Path),
    with(Large, "size", Uint),
    with(Large, "sha256", Text),
];

/// What `session.ready` and `session.info` say of a session.
const INFO: &[Field] = &[
    optional(
        "adapter",
        Object(&[required("name", Text), optional("version", Text)]),
    ),
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
    with(
        Options,
        "modes",
        List(&[required("id", Text), optional("name", Text)]),
    ),
    with(Options, "commands", COMMANDS),
];

const READY: [Field; 3 + INFO.len()] = joined(
    &[
        optional("protocol", Uint),
        optional("extensions", Strings),
        optional("max_line", Uint),
    ],
    INFO,
);

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
            with(Options, "limits", LIMITS),
            with(Large, "large", Any),
        ],
    ),
    core(
        "stop",
        Host,
        &[with(Turns, "turn_id", Id), with(Turns, "reason", REASON)],
    ),
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
            optional("max_line", Uint),
            with(
                Resume,
                "resume",
                Object(&[
                    optional("native_session_id", Text),
                    optional("params", Any),
                    optional("history", Bool),
                    optional("fork", Bool),
                ]),
            ),
            with(Options, "agent_id", Text),
            with(Options, "user_id", Text),
            with(Options, "task_id", Text),
            with(Options, "run_id", Text),
            with(Options, "role", Text),
            with(Options, "iteration", Uint),
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
            with(Options, "max_tokens", Uint),
            with(Options, "turn_timeout_ms", Uint),
            with(Options, "inactivity_timeout_ms", Uint),
            with(Options, "mcp_servers", Any),
            with(Options, "skills", Any),
            with(Options, "env", Map(&Text)),
            with(Options, "extra_args", Strings),
        ],
    ),
    core("session.close", Host, &[]),
    core("file.input", Host, FILE),
    // Core, adapter to host (section 4.2).
    core(
        "output",
        Adapter,
        &[required("content", Text), optional("channel", Text)],
    ),
    core(
        "turn.complete",
        Adapter,
        &[
            with(
                Turns,
                "status",
                OneOf(&["completed", "stopped", "failed", "refused", "limit"]),
            ),
            with(Turns, "stop_reason", Text),
            with(Turns, "error", ERROR),
            with(Turns, "cause", Text),
            with(Turns, "delivered", OneOf(&["yes", "no", "unknown"])),
            with(Turns, "exit_code", Int),
            with(Turns, "signal", Int),
            with(Turns, "summary", Text),
            with(Turns, "artifacts", Any),
            with(Turns, "result", Any),
            with(Turns, "truncated", Bool),
            with(Large, "large", Any),
            with(Turns, "duration_ms", Uint),
            with(Turns, "num_turns", Uint),
            with(Turns, "model", Text),
            with(Turns, "provider", Text),
            with(Usage, "usage", Object(OF_USAGE)),
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
            owed("description", Text),
            owed("resource", Text),
            with(Control, "input", Any),
            with(Control, "title", Text),
            with(Control, "tool_call_id", Id),
            with(Control, "diffs", List(DIFF)),
            with(Control, "truncated", Bool),
            with(Control, "expires_at", Time),
            with(
                Control,
                "options",
                List(&[
                    required("id", Text),
                    optional("label", Text),
                    optional(
                        "kind",
                        OneOf(&["allow_once", "allow_always", "reject_once", "reject_always"]),
                    ),
                ]),
            ),
        ],
    ),
    core("file.output", Adapter, FILE),
    // Negotiation (section 10.1). Which sessions may carry it is judged by the model.
    core("session.ready", Adapter, &READY),
    core("session.info", Adapter, INFO),
    // turns.
    of(
        Turns,
        "steer.result",
        Adapter,
        &[
            written("message_id", Id),
            required("delivered", Bool),
            optional("reason", Text),
        ],
    ),
    // events.
    of(Events, "thinking", Adapter, &[required("content", Text)]),
    of(
        Events,
        "message",
        Adapter,
        &[
            required("role", Text),
            required("content", Text),
            optional("truncated", Bool),
            with(Large, "large", Any),
        ],
    ),
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
            optional("truncated", Bool),
            with(Large, "large", Any),
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
            optional("truncated", Bool),
            with(Large, "large", Any),
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
            with(Large, "large", Any),
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
        &[
            optional("stream", OneOf(&["raw", "stderr", "host", "meta"])),
            required("content", Text),
            optional("truncated", Bool),
            with(Large, "large", Any),
        ],
    ),
    of(
        Events,
        "error",
        Adapter,
        &[
            optional("category", CATEGORY),
            required("message", Text),
            optional("fatal", Bool),
        ],
    ),
    of(
        Events,
        "custom",
        Adapter,
        &[
            required("name", Text),
            optional("data", Any),
            optional("truncated", Bool),
            with(Large, "large", Any),
        ],
    ),
    // usage.
    of(Usage, "usage", Adapter, OF_USAGE),
    of(
        Usage,
        "context.usage",
        Adapter,
        &[
            optional("used_tokens", Uint),
            optional("total_tokens", Uint),
        ],
    ),
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
        &[
            required("request_id", Id),
            optional("cwd", Text),
            optional("limit", Uint),
            // To a relay that keeps a journal (section 13).
            optional("extensions", Strings),
            optional("id", Text),
            optional("agent_id", Text),
            optional("state", SESSION_STATE),
            optional("archived", Bool),
            optional("text", Text),
            optional("cursor", Text),
        ],
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
                    optional("agent_id", Text),
                    optional("session_id", Text),
                ]),
            ),
            optional("sessions", LISTED_SESSIONS),
            optional("next", Text),
            optional("missing", Strings),
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
                    optional(
                        "kind",
                        OneOf(&["text", "secret", "boolean", "number", "choice", "choices"]),
                    ),
                    optional(
                        "choices",
                        List(&[
                            required("id", Text),
                            optional("label", Text),
                            optional("description", Text),
                        ]),
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
        &[
            required("request_id", Id),
            optional("values", Map(&Any)),
            optional("cancelled", Bool),
        ],
    ),
    // flow.
    of(Flow, "flow.pause", Host, &[]),
    of(Flow, "flow.resume", Host, &[]),
    // control.
    pipe(Gate::One(Control), "ping", Host, &[optional("nonce", Any)]),
    pipe(
        Gate::One(Control),
        "pong",
        Adapter,
        &[optional("nonce", Any)],
    ),
    of(Control, "working", Adapter, &[]),
    of(
        Control,
        "session.closed",
        Adapter,
        &[
            optional(
                "reason",
                OneOf(&[
                    "finished",
                    "failed",
                    "refused",
                    "unknown_agent",
                    "limit",
                    "protocol",
                    "shutdown",
                ]),
            ),
            optional("error", ERROR),
            optional("cause", Text),
        ],
    ),
    of(
        Control,
        "permission.cancel",
        Adapter,
        &[required("request_id", Id), optional("reason", REASON)],
    ),
    // The relay (section 12).
    pipe(
        Gate::Open,
        "agents.list",
        Host,
        &[
            required("request_id", Id),
            optional("health", Bool),
            optional("sessions", Uint),
        ],
    ),
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
                    optional("health", HEALTH),
                ]),
            ),
            optional("sessions", OPEN_SESSIONS),
        ],
    ),
];
