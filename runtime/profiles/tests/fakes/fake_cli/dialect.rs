//! Matches live lines with recorded ones, and supplies lines that were not recorded.

use serde_json::{Value, json};

use super::mode::Mode;

/// The id by which an answer names its request, if this line is an answer.
pub(crate) fn answers(mode: Mode, line: &Value) -> Option<&Value> {
    match mode {
        Mode::StreamJson => line
            .pointer("/response/request_id")
            .filter(|_| is(line, "control_response")),
        Mode::AppServer | Mode::Acp => line.get("id").filter(|_| line.get("method").is_none()),
        Mode::OneShot | Mode::Query => None,
    }
}

/// The id of a request that wants an answer.
pub(crate) fn asks(mode: Mode, line: &Value) -> Option<&Value> {
    match mode {
        Mode::StreamJson => line
            .get("request_id")
            .filter(|_| is(line, "control_request")),
        Mode::AppServer | Mode::Acp => line.get("id").filter(|_| line.get("method").is_some()),
        Mode::OneShot | Mode::Query => None,
    }
}

/// Puts another id into an answer.
pub(crate) fn set_answered(mode: Mode, line: &mut Value, id: Value) {
    let place = match mode {
        Mode::StreamJson => line.pointer_mut("/response/request_id"),
        _ => line.get_mut("id"),
    };
    if let Some(place) = place {
        *place = id;
    }
}

/// Returns true if a live line equals a recorded line.
pub(crate) fn same(mode: Mode, recorded: &Value, live: &Value) -> bool {
    if recorded.is_string() {
        return false;
    }
    match (answers(mode, recorded), answers(mode, live)) {
        (Some(recorded), Some(live)) => return recorded == live,
        (None, None) => {}
        _ => return false,
    }
    kind(mode, recorded) == kind(mode, live) && same_session(recorded, live)
}

/// Returns true if a live line can replace a recorded one of another kind: another way to the same
/// end.
pub(crate) fn alike(recorded: &Value, live: &Value) -> bool {
    const WAYS: [[&str; 2]; 4] = [
        ["session/load", "session/resume"],
        ["turn/start", "turn/steer"],
        ["session/set_mode", "session/set_config_option"],
        ["session/set_model", "session/set_config_option"],
    ];
    let (Some(recorded_method), Some(live_method)) = (method(recorded), method(live)) else {
        return false;
    };
    let pair = [recorded_method, live_method];
    let swapped = [live_method, recorded_method];
    WAYS.iter().any(|way| *way == pair || *way == swapped) && same_session(recorded, live)
}

/// Returns true if the line ends a turn early.
pub(crate) fn stops(mode: Mode, line: &Value) -> bool {
    [
        "control_request/interrupt",
        "session/cancel",
        "turn/interrupt",
    ]
    .contains(&kind(mode, line).as_str())
}

/// Returns true if the line is a request that may arrive at any time in a dialogue.
pub(crate) fn is_aside(mode: Mode, line: &Value) -> bool {
    mode == Mode::AppServer && kind(mode, line) == "model/list"
}

/// Returns true if the line begins a turn.
pub(crate) fn prompts(mode: Mode, line: &Value) -> bool {
    ["user", "session/prompt", "turn/start"].contains(&kind(mode, line).as_str())
}

/// Returns true if the line, from the CLI, ends a turn; `asked` is the id of the prompt.
pub(crate) fn ends_turn(mode: Mode, line: &Value, asked: Option<&Value>) -> bool {
    match mode {
        Mode::StreamJson => is(line, "result"),
        Mode::AppServer => {
            method(line) == Some("turn/completed")
                || (line.get("error").is_some() && answers(mode, line) == asked && asked.is_some())
        }
        _ => asked.is_some() && answers(mode, line) == asked,
    }
}

/// Returns the kind of a line.
pub(crate) fn kind(mode: Mode, line: &Value) -> String {
    match mode {
        Mode::StreamJson => {
            let subtype = line.pointer("/request/subtype").and_then(Value::as_str);
            let kind = line.get("type").and_then(Value::as_str).unwrap_or_default();
            subtype.map_or_else(|| kind.to_owned(), |subtype| format!("{kind}/{subtype}"))
        }
        _ => method(line).unwrap_or("answer").to_owned(),
    }
}

/// Returns the CLI's answer to a request without a recorded answer.
pub(crate) fn improvised(mode: Mode, live: &Value, count: usize) -> Vec<Value> {
    let Some(id) = asks(mode, live) else {
        return if prompts(mode, live) {
            vec![empty_result()]
        } else {
            Vec::new()
        };
    };
    if mode == Mode::StreamJson {
        let response = match kind(mode, live).as_str() {
            "control_request/interrupt" => json!({"still_queued": []}),
            "control_request/initialize" => json!({"commands": [], "models": [], "agents": []}),
            "control_request/mcp_status" => json!({"mcpServers": []}),
            _ => json!({}),
        };
        let response = json!({"subtype": "success", "request_id": id, "response": response});
        return vec![json!({"type": "control_response", "response": response})];
    }
    let session = session(live).cloned().unwrap_or_default();
    let turn = |status: &str| json!({"id": format!("improvised-turn-{count}"), "status": status, "items": [], "error": null});
    let mut after = Vec::new();
    let result = match (mode, method(live).unwrap_or_default()) {
        (Mode::AppServer, "initialize") => {
            json!({"userAgent": "fake/0.0.0", "codexHome": "/nonexistent"})
        }
        (Mode::AppServer, "thread/start" | "thread/resume") => {
            let id = if session.is_null() {
                json!(format!("improvised-thread-{count}"))
            } else {
                session
            };
            json!({"thread": {"id": id, "turns": []}, "model": "fake-model", "cwd": "/", "approvalPolicy": "on-request"})
        }
        (Mode::AppServer, "turn/start") => {
            let note = |method: &str, status| json!({"method": method, "params": {"threadId": session, "turn": turn(status)}});
            after = vec![
                note("turn/started", "inProgress"),
                note("turn/completed", "completed"),
            ];
            json!({"turn": turn("inProgress")})
        }
        (Mode::AppServer, "turn/steer") => json!({"turnId": params(live, "expectedTurnId")}),
        (Mode::AppServer, "model/list" | "thread/list") => json!({"data": [], "nextCursor": null}),
        (Mode::AppServer, "account/read") => json!({"account": null, "requiresOpenaiAuth": false}),
        (Mode::AppServer, _) => json!({}),
        (_, "initialize") => {
            json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []})
        }
        (_, "session/new") => json!({"sessionId": format!("improvised-session-{count}")}),
        (_, "session/prompt") => json!({"stopReason": "end_turn"}),
        (_, "session/list") => json!({"sessions": []}),
        (_, method) if method.starts_with("session/") || method == "authenticate" => json!({}),
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return vec![answer(mode, id, "error", &error)];
        }
    };
    std::iter::once(answer(mode, id, "result", &result))
        .chain(after)
        .collect()
}

/// The session that a line names.
pub(crate) fn session(line: &Value) -> Option<&Value> {
    params(line, "threadId").or_else(|| params(line, "sessionId"))
}

/// The end of a turn that is stopped; `aborted` is claude's reason.
pub(crate) fn stopped(mode: Mode, prompt: &Value, turn: &str, aborted: &str) -> Value {
    match mode {
        Mode::StreamJson => {
            json!({"type": "result", "subtype": "error_during_execution", "is_error": true,
                "terminal_reason": aborted, "errors": ["stopped"]})
        }
        Mode::AppServer => {
            let turn = json!({"id": turn, "status": "interrupted", "items": [], "error": null});
            let params = json!({"threadId": params(prompt, "threadId"), "turn": turn});
            json!({"method": "turn/completed", "params": params})
        }
        _ => {
            json!({"jsonrpc": "2.0", "id": prompt.get("id"), "result": {"stopReason": "cancelled"}})
        }
    }
}

fn answer(mode: Mode, id: &Value, member: &str, value: &Value) -> Value {
    if mode == Mode::AppServer {
        json!({"id": id, member: value})
    } else {
        json!({"jsonrpc": "2.0", "id": id, member: value})
    }
}

fn empty_result() -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": "", "session_id": ""})
}

fn is(line: &Value, kind: &str) -> bool {
    line.get("type").and_then(Value::as_str) == Some(kind)
}

fn method(line: &Value) -> Option<&str> {
    line.get("method").and_then(Value::as_str)
}

fn params<'a>(line: &'a Value, name: &str) -> Option<&'a Value> {
    line.get("params")?.get(name)
}

/// Returns true if both lines name the same session, if both name one.
fn same_session(recorded: &Value, live: &Value) -> bool {
    ["sessionId", "threadId"].iter().all(|name| {
        match (params(recorded, name), params(live, name)) {
            (Some(recorded), Some(live)) => recorded == live,
            _ => true,
        }
    })
}
