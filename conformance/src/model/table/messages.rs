//! The types of messages, by direction and extension.

use super::super::extension::Extension::{
    Control, Events, Flow, Options, Questions, Resume, Turns, Usage,
};
use super::ValueType::{
    Any, Bool, Id, Int, List, Map, Number, Object, OneOf, Path, Strings, Text, Time, Uint,
};
use super::{
    CAPABILITIES, CATEGORY, COMMANDS, DIFF, ERROR, Field, Gate, HEALTH, LIMITS, LISTED_SESSIONS,
    MODELS, OF_USAGE, OPEN_SESSIONS, REASON, SESSION_STATE, Table, core, fields, gated, joined,
    pipe,
};
use crate::clauses::Side::{Adapter, Host};

/// Files, in either direction.
const FILE: &[Field] = fields! {
    Open { file_name written Text, file_mime_type written Text, file_path! Path }
    Large { size? Uint, sha256? Text }
};

/// The description of a session in `session.ready` and `session.info`.
const INFO: &[Field] = fields! {
    Open { adapter? Object(fields! { name! Text, version? Text }), capabilities? CAPABILITIES }
    Turns { input_modes? Strings }
    Resume { native_session_id? Text, display_id? Text, context? OneOf(&["kept", "lost"]) }
    Options {
        options_applied? Strings,
        model? Text,
        reasoning_effort? Text,
        mode? Text,
        permission_mode? Text,
        allowed_tools? Strings,
        denied_tools? Strings,
        models? MODELS,
        modes? List(fields! { id! Text, name? Text, description? Text }),
        commands? COMMANDS,
    }
};

const READY: [Field; 3 + INFO.len()] = joined(
    fields! { protocol? Uint, extensions? Strings, max_line? Uint },
    INFO,
);

/// Every type of message.
pub(crate) const TABLES: &[Table] = &[
    // Core, host to adapter (section 4.1), with what extensions add to it.
    core(
        "user.input",
        Host,
        fields! {
            Open { content written Text }
            Turns { turn_id? Id, message_id? Id, mode? OneOf(&["turn", "steer"]) }
            Options { limits? LIMITS }
            Large { large? Any }
        },
    ),
    core(
        "stop",
        Host,
        fields! { Turns { turn_id? Id, reason? REASON } },
    ),
    core(
        "permission.response",
        Host,
        fields! {
            Open { request_id! Id, approved written Bool }
            Turns { reason? REASON }
            Control {
                option_id? Text,
                always_allow? Bool,
                updated_input? Any,
                message? Text,
                end_turn? Bool,
            }
        },
    ),
    core(
        "session.start",
        Host,
        fields! {
            Open { protocol? Uint, extensions? Strings, max_line? Uint }
            Resume {
                resume? Object(fields! {
                    native_session_id? Text,
                    params? Any,
                    history? Bool,
                    fork? Bool,
                }),
            }
            Options {
                agent_id? Text,
                user_id? Text,
                task_id? Text,
                run_id? Text,
                role? Text,
                iteration? Uint,
                variables? Map(&Text),
                cwd? Path,
                add_dirs? Strings,
                exchange_dir? Path,
                model? Text,
                reasoning_effort? Text,
                temperature? Number,
                system_prompt? Text,
                system_prompt_mode? OneOf(&["append", "replace"]),
                mode? Text,
                permission_mode? Text,
                allowed_tools? Strings,
                denied_tools? Strings,
                allowed_domains? Strings,
                max_turns? Uint,
                max_cost_usd? Number,
                max_tokens? Uint,
                turn_timeout_ms? Uint,
                inactivity_timeout_ms? Uint,
                output_schema? Any,
                mcp_servers? Any,
                skills? Any,
                env? Map(&Text),
                extra_args? Strings,
            }
        },
    ),
    core("session.close", Host, &[]),
    core("file.input", Host, FILE),
    // Core, adapter to host (section 4.2).
    core("output", Adapter, fields! { content! Text, channel? Text }),
    core(
        "turn.complete",
        Adapter,
        fields! {
            Turns {
                status? OneOf(&["completed", "stopped", "failed", "refused", "limit"]),
                stop_reason? Text,
                error? ERROR,
                cause? Text,
                delivered? OneOf(&["yes", "no", "unknown"]),
                exit_code? Int,
                signal? Int,
                summary? Text,
                artifacts? Any,
                result? Any,
                truncated? Bool,
            }
            Large { large? Any }
            Turns { duration_ms? Uint, num_turns? Uint, model? Text, provider? Text }
            Usage { usage? Object(OF_USAGE) }
            Resume { native_session_id? Text, session_params? Any, clear_session? Bool }
        },
    ),
    core(
        "permission.request",
        Adapter,
        fields! {
            Open { request_id! Id, tool! Text, description owed Text, resource owed Text }
            Control {
                input? Any,
                title? Text,
                tool_call_id? Id,
                diffs? List(DIFF),
                truncated? Bool,
                expires_at? Time,
                options? List(fields! {
                    id! Text,
                    label? Text,
                    kind? OneOf(&["allow_once", "allow_always", "reject_once", "reject_always"]),
                }),
            }
        },
    ),
    core("file.output", Adapter, FILE),
    // Negotiation (section 10.1). Which sessions may carry it is judged by the model.
    core("session.ready", Adapter, &READY),
    core("session.info", Adapter, INFO),
    // turns.
    gated(
        Turns,
        "steer.result",
        Adapter,
        fields! { message_id written Id, delivered! Bool, reason? Text },
    ),
    // events.
    gated(Events, "thinking", Adapter, fields! { content! Text }),
    gated(
        Events,
        "message",
        Adapter,
        fields! { Open { role! Text, content! Text, truncated? Bool } Large { large? Any } },
    ),
    gated(
        Events,
        "tool.start",
        Adapter,
        fields! {
            Open {
                tool_call_id! Id,
                tool! Text,
                kind? Text,
                title? Text,
                input? Any,
                locations? Any,
                truncated? Bool,
            }
            Large { large? Any }
        },
    ),
    gated(
        Events,
        "tool.update",
        Adapter,
        fields! {
            Open {
                tool_call_id! Id,
                content? Text,
                stream? Text,
                title? Text,
                input? Any,
                locations? Any,
                data? Any,
                truncated? Bool,
            }
            Large { large? Any }
        },
    ),
    gated(
        Events,
        "tool.end",
        Adapter,
        fields! {
            Open { tool_call_id! Id, content? Text, is_error? Bool, truncated? Bool }
            Large { large? Any }
            Open { diffs? List(DIFF), data? Any, duration_ms? Uint }
        },
    ),
    gated(
        Events,
        "plan",
        Adapter,
        fields! {
            entries! List(fields! {
                content! Text,
                status? OneOf(&["pending", "in_progress", "completed"]),
                priority? Text,
            }),
        },
    ),
    gated(Events, "progress", Adapter, fields! { message! Text }),
    gated(
        Events,
        "log",
        Adapter,
        fields! {
            Open {
                stream? OneOf(&["raw", "stderr", "host", "meta"]),
                content! Text,
                truncated? Bool,
            }
            Large { large? Any }
        },
    ),
    gated(
        Events,
        "error",
        Adapter,
        fields! { category? CATEGORY, message! Text, fatal? Bool },
    ),
    gated(
        Events,
        "custom",
        Adapter,
        fields! { Open { name! Text, data? Any, truncated? Bool } Large { large? Any } },
    ),
    // usage.
    gated(Usage, "usage", Adapter, OF_USAGE),
    gated(
        Usage,
        "context.usage",
        Adapter,
        fields! { used_tokens? Uint, total_tokens? Uint },
    ),
    gated(
        Usage,
        "compaction",
        Adapter,
        fields! { trigger? OneOf(&["auto", "manual"]), pre_tokens? Uint, total_tokens? Uint },
    ),
    gated(
        Usage,
        "rate_limit",
        Adapter,
        fields! { window? Text, status? Text, utilization? Number, resets_at? Time },
    ),
    // resume.
    pipe(
        Gate::One(Resume),
        "sessions.list",
        Host,
        fields! {
            request_id! Id,
            cwd? Text,
            limit? Uint,
            // To a relay that keeps a journal (section 13).
            extensions? Strings,
            id? Text,
            agent_id? Text,
            state? SESSION_STATE,
            archived? Bool,
            text? Text,
            cursor? Text,
        },
    ),
    pipe(
        Gate::One(Resume),
        "sessions.list.result",
        Adapter,
        fields! {
            request_id! Id,
            entries? List(fields! {
                native_session_id! Text,
                title? Text,
                cwd? Text,
                message_count? Uint,
                created_at? Time,
                updated_at? Time,
                agent_id? Text,
                session_id? Text,
            }),
            sessions? LISTED_SESSIONS,
            next? Text,
            missing? Strings,
            error? Text,
        },
    ),
    // options.
    gated(
        Options,
        "session.update",
        Host,
        fields! {
            model? Text,
            reasoning_effort? Text,
            mode? Text,
            permission_mode? Text,
            allowed_tools? Strings,
            denied_tools? Strings,
        },
    ),
    // questions.
    gated(
        Questions,
        "input.request",
        Adapter,
        fields! {
            request_id! Id,
            prompt! Text,
            fields? List(fields! {
                id! Text,
                label? Text,
                kind? OneOf(&["text", "secret", "boolean", "number", "choice", "choices"]),
                choices? List(fields! { id! Text, label? Text, description? Text }),
                required? Bool,
                default? Any,
            }),
            expires_at? Time,
        },
    ),
    gated(
        Questions,
        "input.response",
        Host,
        fields! { request_id! Id, values? Map(&Any), cancelled? Bool },
    ),
    // flow.
    gated(Flow, "flow.pause", Host, &[]),
    gated(Flow, "flow.resume", Host, &[]),
    // control.
    pipe(Gate::One(Control), "ping", Host, fields! { nonce? Any }),
    pipe(Gate::One(Control), "pong", Adapter, fields! { nonce? Any }),
    gated(Control, "working", Adapter, &[]),
    gated(
        Control,
        "session.closed",
        Adapter,
        fields! {
            reason? OneOf(&[
                "finished", "failed", "refused", "unknown_agent", "limit", "protocol", "shutdown",
            ]),
            error? ERROR,
            cause? Text,
        },
    ),
    gated(
        Control,
        "permission.cancel",
        Adapter,
        fields! { request_id! Id, reason? REASON },
    ),
    // The relay (section 12).
    pipe(
        Gate::Open,
        "agents.list",
        Host,
        fields! { request_id! Id, health? Bool, sessions? Uint },
    ),
    pipe(
        Gate::Open,
        "agents.list.result",
        Adapter,
        fields! {
            request_id! Id,
            agents! List(fields! {
                id! Text,
                name? Text,
                profile? Text,
                description? Text,
                capabilities? CAPABILITIES,
                models? MODELS,
                state? OneOf(&["idle", "running", "failed"]),
                health? HEALTH,
            }),
            sessions? OPEN_SESSIONS,
        },
    ),
];
