//! The messages, by direction.

use super::Kind::{Any, Bool, Id, Int, List, Map, Num, Object, OneOf, Str, Uint};
use super::{
    C, CAPABILITIES, CATEGORY, CHOICES, CORE, DIFFS, E, ERROR, EVENT, Exts, Field, L, NUMBERS, O,
    Q, R, REASON, REQUEST, S, SCOPE, STRINGS, Shape, T, TURN, U, USAGE, shape,
};

/// What `session.ready` and `session.info` say of a session.
const INFO: &[Field] = &[
    (
        "adapter",
        Object(&[("name", Str, true), ("version", Str, false)]),
        false,
        S,
    ),
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
    (
        "models",
        List(&Object(&[("id", Str, true), ("label", Str, false)])),
        false,
        O,
    ),
    (
        "modes",
        List(&Object(&[("id", Str, true), ("name", Str, false)])),
        false,
        O,
    ),
    (
        "commands",
        List(&Object(&[
            ("name", Str, true),
            ("description", Str, false),
            ("hint", Str, false),
            ("text", Str, false),
        ])),
        false,
        O,
    ),
];

/// What an adapter says to its host.
pub(crate) const UP: &[Shape] = &[
    shape(
        "output",
        CORE,
        &[("content", Str, true, CORE), ("channel", Str, false, CORE)],
    )
    .and(EVENT),
    shape(
        "turn.complete",
        CORE,
        &[
            TURN,
            (
                "status",
                OneOf(&["completed", "stopped", "failed", "refused", "limit"]),
                false,
                T,
            ),
            ("stop_reason", Str, false, T),
            ("error", ERROR, false, T),
            ("cause", Str, false, T),
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
            ("size", Uint, false, L),
            ("sha256", Str, false, L),
        ],
    ),
    shape(
        "permission.request",
        CORE,
        &[
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
                    (
                        "kind",
                        OneOf(&["allow_once", "allow_always", "reject_once", "reject_always"]),
                        false,
                    ),
                ])),
                false,
                C,
            ),
        ],
    )
    .and(EVENT),
    shape(
        "session.ready",
        S,
        &[
            ("protocol", Uint, false, S),
            ("extensions", STRINGS, false, S),
            ("max_line", Uint, false, S),
        ],
    )
    .and(INFO),
    shape("session.info", S, &[TURN]).and(INFO),
    shape(
        "steer.result",
        T,
        &[
            TURN,
            ("message_id", Id, false, T),
            ("delivered", Bool, true, T),
            ("reason", Str, false, T),
        ],
    ),
    shape("thinking", E, &[("content", Str, true, E)]).and(EVENT),
    shape(
        "message",
        E,
        &[
            ("role", Str, true, E),
            ("content", Str, true, E),
            ("truncated", Bool, false, E),
            ("large", Any, false, L),
        ],
    )
    .and(EVENT),
    shape(
        "tool.start",
        E,
        &[
            ("tool_call_id", Id, true, E),
            ("tool", Str, true, E),
            ("kind", Str, false, E),
            ("title", Str, false, E),
            ("input", Any, false, E),
            ("locations", Any, false, E),
        ],
    )
    .and(EVENT),
    shape(
        "tool.update",
        E,
        &[
            ("tool_call_id", Id, true, E),
            ("content", Str, false, E),
            ("stream", Str, false, E),
            ("title", Str, false, E),
            ("input", Any, false, E),
            ("data", Any, false, E),
        ],
    )
    .and(EVENT),
    shape(
        "tool.end",
        E,
        &[
            ("tool_call_id", Id, true, E),
            ("content", Str, false, E),
            ("is_error", Bool, false, E),
            ("truncated", Bool, false, E),
            ("diffs", DIFFS, false, E),
            ("data", Any, false, E),
            ("duration_ms", Uint, false, E),
        ],
    )
    .and(EVENT),
    shape(
        "plan",
        E,
        &[(
            "entries",
            List(&Object(&[
                ("content", Str, true),
                (
                    "status",
                    OneOf(&["pending", "in_progress", "completed"]),
                    false,
                ),
                ("priority", Str, false),
            ])),
            true,
            E,
        )],
    )
    .and(EVENT),
    shape("progress", E, &[("message", Str, true, E)]).and(EVENT),
    shape(
        "log",
        E,
        &[
            (
                "stream",
                OneOf(&["raw", "stderr", "host", "meta"]),
                false,
                E,
            ),
            ("content", Str, true, E),
        ],
    )
    .and(EVENT),
    shape(
        "error",
        E,
        &[
            ("category", CATEGORY, false, E),
            ("message", Str, true, E),
            ("fatal", Bool, false, E),
        ],
    )
    .and(EVENT),
    shape(
        "custom",
        E,
        &[("name", Str, true, E), ("data", Any, false, E)],
    )
    .and(EVENT),
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
    shape(
        "context.usage",
        U,
        &[
            TURN,
            ("used_tokens", Uint, false, U),
            ("total_tokens", Uint, false, U),
        ],
    ),
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
                    (
                        "kind",
                        OneOf(&["text", "secret", "boolean", "number", "choice", "choices"]),
                        false,
                    ),
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
                OneOf(&[
                    "finished",
                    "failed",
                    "refused",
                    "unknown_agent",
                    "limit",
                    "protocol",
                    "shutdown",
                ]),
                false,
                C,
            ),
            ("error", ERROR, false, C),
            ("cause", Str, false, C),
        ],
    ),
    shape(
        "permission.cancel",
        C,
        &[TURN, REQUEST, ("reason", REASON, false, C)],
    ),
    shape(
        "sessions.list.result",
        S,
        &[
            REQUEST,
            ("entries", Any, false, S),
            ("error", Str, false, S),
        ],
    ),
    shape(
        "agents.list.result",
        CORE,
        &[REQUEST, ("agents", Any, true, CORE)],
    ),
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
            ("role", Str, false, O),
            ("iteration", Uint, false, O),
            ("variables", Map(&Str), false, O),
            ("cwd", Str, false, O),
            ("add_dirs", STRINGS, false, O),
            ("exchange_dir", Str, false, O),
            ("model", Str, false, O),
            ("reasoning_effort", Str, false, O),
            ("temperature", Num, false, O),
            ("system_prompt", Str, false, O),
            (
                "system_prompt_mode",
                OneOf(&["append", "replace"]),
                false,
                O,
            ),
            ("mode", Str, false, O),
            ("permission_mode", Str, false, O),
            ("allowed_tools", STRINGS, false, O),
            ("denied_tools", STRINGS, false, O),
            ("allowed_domains", STRINGS, false, O),
            ("max_turns", Uint, false, O),
            ("max_cost_usd", Num, false, O),
            ("max_tokens", Uint, false, O),
            ("turn_timeout_ms", Uint, false, O),
            ("inactivity_timeout_ms", Uint, false, O),
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
            ("size", Uint, false, L),
            ("sha256", Str, false, L),
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
    shape(
        "input.response",
        Q,
        &[
            REQUEST,
            ("values", Map(&Any), false, Q),
            ("cancelled", Bool, false, Q),
        ],
    ),
    shape("flow.pause", Exts::FLOW, &[]),
    shape("flow.resume", Exts::FLOW, &[]),
    shape("ping", CORE, &[("nonce", Any, false, CORE)]),
    shape("agents.list", CORE, &[REQUEST]),
    shape("sessions.list", CORE, &[REQUEST]),
];
