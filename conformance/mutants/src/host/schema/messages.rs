//! The messages, by direction.

use super::Kind::{Any, Bool, Id, Int, List, Map, Num, OneOf, Str, Uint};
use super::{
    C, CAPABILITIES, CATEGORY, CHOICES, CORE, DIFFS, E, ERROR, EVENT, F, Field, L, NUMBERS, O, Q,
    R, REASON, S, SCOPE, STRINGS, Shape, T, U, USAGE, fields, object, shapes,
};

/// The description of a session in `session.ready` and `session.info`.
const INFO: &[Field] = fields! {
    S { adapter? object! { name! Str, version? Str }, capabilities? CAPABILITIES }
    T { input_modes? STRINGS }
    R { native_session_id? Str, display_id? Str, context? OneOf(&["kept", "lost"]) }
    O {
        options_applied? STRINGS,
        model? Str,
        reasoning_effort? Str,
        mode? Str,
        permission_mode? Str,
        allowed_tools? STRINGS,
        denied_tools? STRINGS,
        models? List(&object! { id! Str, label? Str }),
        modes? List(&object! { id! Str, name? Str }),
        commands? List(&object! { name! Str, description? Str, hint? Str, text? Str }),
    }
};

/// The messages from an adapter to its host.
pub(crate) const UP: &[Shape] = shapes! {
    "output" CORE { content! Str, channel? Str } ..EVENT;
    "turn.complete"
        CORE {}
        T {
            turn_id? Id,
            status? OneOf(&["completed", "stopped", "failed", "refused", "limit"]),
            stop_reason? Str,
            error? ERROR,
            cause? Str,
            delivered? OneOf(&["yes", "no", "unknown"]),
            exit_code? Int,
            signal? Int,
            summary? Str,
            artifacts? Any,
            result? Any,
            duration_ms? Uint,
            num_turns? Uint,
            model? Str,
            provider? Str,
        }
        U { usage? USAGE }
        R { native_session_id? Str, session_params? Any, clear_session? Bool };
    "file.output"
        CORE {}
        T { turn_id? Id }
        CORE { file_name? Str, file_mime_type? Str, file_path! Str }
        L { size? Uint, sha256? Str };
    "permission.request"
        CORE { request_id! Id, tool! Str, description! Str, resource! Str }
        C {
            input? Any,
            title? Str,
            tool_call_id? Id,
            diffs? DIFFS,
            expires_at? Str,
            options? List(&object! {
                id! Str,
                label? Str,
                kind? OneOf(&["allow_once", "allow_always", "reject_once", "reject_always"]),
            }),
        } ..EVENT;
    "session.ready" S { protocol? Uint, extensions? STRINGS, max_line? Uint } ..INFO;
    "session.info" S {} T { turn_id? Id } ..INFO;
    "steer.result" T { turn_id? Id, message_id? Id, delivered! Bool, reason? Str };
    "thinking" E { content! Str } ..EVENT;
    "message" E { role! Str, content! Str, truncated? Bool } L { large? Any } ..EVENT;
    "tool.start" E { tool_call_id! Id, tool! Str, kind? Str, title? Str, input? Any, locations? Any } ..EVENT;
    "tool.update" E { tool_call_id! Id, content? Str, stream? Str, title? Str, input? Any, data? Any } ..EVENT;
    "tool.end" E {
        tool_call_id! Id,
        content? Str,
        is_error? Bool,
        truncated? Bool,
        diffs? DIFFS,
        data? Any,
        duration_ms? Uint,
    } ..EVENT;
    "plan" E {
        entries! List(&object! {
            content! Str,
            status? OneOf(&["pending", "in_progress", "completed"]),
            priority? Str,
        }),
    } ..EVENT;
    "progress" E { message! Str } ..EVENT;
    "log" E { stream? OneOf(&["raw", "stderr", "host", "meta"]), content! Str } ..EVENT;
    "error" E { category? CATEGORY, message! Str, fatal? Bool } ..EVENT;
    "custom" E { name! Str, data? Any } ..EVENT;
    "usage"
        U {}
        T { turn_id? Id }
        U {
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
    "context.usage" U {} T { turn_id? Id } U { used_tokens? Uint, total_tokens? Uint };
    "compaction"
        U {}
        T { turn_id? Id }
        U { trigger? OneOf(&["auto", "manual"]), pre_tokens? Uint, total_tokens? Uint };
    "rate_limit"
        U {}
        T { turn_id? Id }
        U { window? Str, status? Str, utilization? Num, resets_at? Str };
    "input.request"
        Q {}
        T { turn_id? Id }
        CORE { request_id! Id }
        Q {
            prompt! Str,
            fields? List(&object! {
                id! Str,
                label? Str,
                kind? OneOf(&["text", "secret", "boolean", "number", "choice", "choices"]),
                choices? CHOICES,
                required? Bool,
                default? Any,
            }),
            expires_at? Str,
        };
    "pong" C { nonce? Any };
    "working" C {} T { turn_id? Id };
    "session.closed" C {
        reason? OneOf(&[
            "finished", "failed", "refused", "unknown_agent", "limit", "protocol", "shutdown",
        ]),
        error? ERROR,
        cause? Str,
    };
    "permission.cancel" C {} T { turn_id? Id } CORE { request_id! Id } C { reason? REASON };
    "sessions.list.result" S {} CORE { request_id! Id } S { entries? Any, error? Str };
    "agents.list.result" CORE { request_id! Id, agents! Any };
};

/// The messages from a hub to its host, and from a host to its adapter.
pub(crate) const DOWN: &[Shape] = shapes! {
    "session.start"
        CORE { protocol? Uint, extensions? STRINGS }
        R { resume? object! { native_session_id? Str, params? Any, history? Bool } }
        CORE { agent_id? Str }
        O {
            user_id? Str,
            task_id? Str,
            run_id? Str,
            role? Str,
            iteration? Uint,
            variables? Map(&Str),
            cwd? Str,
            add_dirs? STRINGS,
            exchange_dir? Str,
            model? Str,
            reasoning_effort? Str,
            temperature? Num,
            system_prompt? Str,
            system_prompt_mode? OneOf(&["append", "replace"]),
            mode? Str,
            permission_mode? Str,
            allowed_tools? STRINGS,
            denied_tools? STRINGS,
            allowed_domains? STRINGS,
            max_turns? Uint,
            max_cost_usd? Num,
            max_tokens? Uint,
            turn_timeout_ms? Uint,
            inactivity_timeout_ms? Uint,
            mcp_servers? Any,
            skills? Any,
            env? Map(&Str),
            extra_args? STRINGS,
        };
    "user.input"
        CORE {}
        T { turn_id? Id }
        CORE { content! Str }
        T { message_id? Id, mode? OneOf(&["turn", "steer"]) };
    "file.input"
        CORE { file_name? Str, file_mime_type? Str, file_path! Str }
        L { size? Uint, sha256? Str };
    "permission.response"
        CORE { request_id! Id, approved? Any }
        C { option_id? Str, always_allow? Bool, updated_input? Any, message? Str, end_turn? Bool }
        T { reason? REASON };
    "stop" CORE {} T { turn_id? Id, reason? REASON };
    "session.close" CORE {};
    "session.update" O {
        model? Str,
        reasoning_effort? Str,
        mode? Str,
        permission_mode? Str,
        allowed_tools? STRINGS,
        denied_tools? STRINGS,
    };
    "input.response" Q {} CORE { request_id! Id } Q { values? Map(&Any), cancelled? Bool };
    "flow.pause" F {};
    "flow.resume" F {};
    "ping" CORE { nonce? Any };
    "agents.list" CORE { request_id! Id };
    "sessions.list" CORE { request_id! Id };
};
