//! The messages, by direction.

use super::FieldType::{Any, Bool, Id, Int, List, Map, Num, Object, OneOf, Str, Uint};
use super::{
    CAPABILITIES, CATEGORY, CHOICES, DIFFS, ERROR, EVENT, Field, REASON, STRINGS, Shape, USAGE,
    fields, object, shapes,
};

/// The description of a session in `session.ready` and `session.info`.
pub const INFO: &[Field] = fields! {
    SOME { adapter? object! { name! Str, version? Str }, capabilities? CAPABILITIES }
    TURNS { input_modes? STRINGS }
    RESUME { native_session_id? Str, display_id? Str, context? OneOf(&["kept", "lost"]) }
    OPTIONS {
        options_applied? STRINGS,
        model? Str,
        reasoning_effort? Str,
        mode? Str,
        permission_mode? Str,
        allowed_tools? STRINGS,
        denied_tools? STRINGS,
        models? List(&object! { id! Str, label? Str, description? Str }),
        modes? List(&object! { id! Str, name? Str, description? Str }),
        commands? List(&object! { name! Str, description? Str, hint? Str, text? Str }),
    }
};

/// The messages from an adapter to its host.
pub const UP: &[Shape] = shapes! {
    "output" CORE { content! Str, channel? Str } ..EVENT;
    "turn.complete"
        CORE {}
        TURNS {
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
        USAGE { usage? Object(USAGE) }
        RESUME { native_session_id? Str, session_params? Any, clear_session? Bool };
    "file.output"
        CORE {}
        TURNS { turn_id? Id }
        CORE { file_name? Str, file_mime_type? Str, file_path! Str }
        LARGE { size? Uint, sha256? Str };
    "permission.request"
        CORE { request_id! Id, tool! Str, description! Str, resource! Str }
        CONTROL {
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
    "session.ready" SOME { protocol? Uint, extensions? STRINGS, max_line? Uint } ..INFO;
    "session.info" SOME {} TURNS { turn_id? Id } ..INFO;
    "steer.result" TURNS { turn_id? Id, message_id? Id, delivered! Bool, reason? Str };
    "thinking" EVENTS { content! Str } ..EVENT;
    "message" EVENTS { role! Str, content! Str, truncated? Bool } LARGE { large? Any } ..EVENT;
    "tool.start" EVENTS { tool_call_id! Id, tool! Str, kind? Str, title? Str, input? Any, locations? Any } ..EVENT;
    "tool.update" EVENTS { tool_call_id! Id, content? Str, stream? Str, title? Str, input? Any, locations? Any, data? Any } ..EVENT;
    "tool.end" EVENTS {
        tool_call_id! Id,
        content? Str,
        is_error? Bool,
        truncated? Bool,
        diffs? DIFFS,
        data? Any,
        duration_ms? Uint,
    } ..EVENT;
    "plan" EVENTS {
        entries! List(&object! {
            content! Str,
            status? OneOf(&["pending", "in_progress", "completed"]),
            priority? Str,
        }),
    } ..EVENT;
    "progress" EVENTS { message! Str } ..EVENT;
    "log" EVENTS { stream? OneOf(&["raw", "stderr", "host", "meta"]), content! Str } ..EVENT;
    "error" EVENTS { category? CATEGORY, message! Str, fatal? Bool } ..EVENT;
    "custom" EVENTS { name! Str, data? Any } ..EVENT;
    "usage" USAGE {} TURNS { turn_id? Id } ..USAGE;
    "context.usage" USAGE {} TURNS { turn_id? Id } USAGE { used_tokens? Uint, total_tokens? Uint };
    "compaction"
        USAGE {}
        TURNS { turn_id? Id }
        USAGE { trigger? OneOf(&["auto", "manual"]), pre_tokens? Uint, total_tokens? Uint };
    "rate_limit"
        USAGE {}
        TURNS { turn_id? Id }
        USAGE { window? Str, status? Str, utilization? Num, resets_at? Str };
    "input.request"
        QUESTIONS {}
        TURNS { turn_id? Id }
        CORE { request_id! Id }
        QUESTIONS {
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
    "pong" CONTROL { nonce? Any };
    "working" CONTROL {} TURNS { turn_id? Id };
    "session.closed" CONTROL {
        reason? OneOf(&[
            "finished", "failed", "refused", "unknown_agent", "limit", "protocol", "shutdown",
        ]),
        error? ERROR,
        cause? Str,
    };
    "permission.cancel" CONTROL {} TURNS { turn_id? Id } CORE { request_id! Id } CONTROL { reason? REASON };
    "sessions.list.result" SOME {} CORE { request_id! Id } SOME { entries? Any, error? Str };
    "agents.list.result" CORE { request_id! Id, agents! Any };
};

/// The messages from a hub to its host, and from a host to its adapter.
pub const DOWN: &[Shape] = shapes! {
    "session.start"
        CORE { protocol? Uint, extensions? STRINGS }
        RESUME { resume? object! { native_session_id? Str, params? Any, history? Bool } }
        CORE { agent_id? Str }
        OPTIONS {
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
            output_schema? Any,
            mcp_servers? Any,
            skills? Any,
            env? Map(&Str),
            extra_args? STRINGS,
        };
    "user.input"
        CORE {}
        TURNS { turn_id? Id }
        CORE { content! Str }
        TURNS { message_id? Id, mode? OneOf(&["turn", "steer"]) };
    "file.input"
        CORE { file_name? Str, file_mime_type? Str, file_path! Str }
        LARGE { size? Uint, sha256? Str };
    "permission.response"
        CORE { request_id! Id, approved? Any }
        CONTROL { option_id? Str, always_allow? Bool, updated_input? Any, message? Str, end_turn? Bool }
        TURNS { reason? REASON };
    "stop" CORE {} TURNS { turn_id? Id, reason? REASON };
    "session.close" CORE {};
    "session.update" OPTIONS {
        model? Str,
        reasoning_effort? Str,
        mode? Str,
        permission_mode? Str,
        allowed_tools? STRINGS,
        denied_tools? STRINGS,
    };
    "input.response" QUESTIONS {} CORE { request_id! Id } QUESTIONS { values? Map(&Any), cancelled? Bool };
    "flow.pause" FLOW {};
    "flow.resume" FLOW {};
    "ping" CORE { nonce? Any };
    "agents.list" CORE { request_id! Id };
    "sessions.list" CORE { request_id! Id };
};
