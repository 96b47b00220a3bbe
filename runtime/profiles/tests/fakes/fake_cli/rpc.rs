//! pi's RPC mode, which no recording is of: it repeats its input, or waits for an abort, or fails.

use std::sync::mpsc::Receiver;

use serde_json::{Value, json};

use super::{
    events::Event,
    player::{die, say},
    recording::option,
};

/// Prefix of every session's id.
const SESSIONS: &str = "00000000-0000-4000-8000-";

/// Texts that make a prompt last until it is aborted, and that make it fail.
const LASTS: &str = "FAKE:slow";
const FAILS: &str = "FAKE:err:";

/// The exit code for an unknown session.
const UNKNOWN: i32 = 1;

/// Serves until stdin ends.
pub(crate) fn serve(words: &[String], events: &Receiver<Event>) -> i32 {
    let session = match option(words, &["--session"]) {
        Some(id) if id.starts_with(SESSIONS) => id.to_owned(),
        Some(id) => {
            eprintln!("No session found matching '{id}'");
            return UNKNOWN;
        }
        None => format!("{SESSIONS}{:012}", std::process::id()),
    };
    let mut runs = false;
    loop {
        match events.recv().unwrap_or(Event::Eof) {
            Event::Line(live) => take(&live, &session, &mut runs),
            Event::Noise => say(json!({
                "type": "response", "command": "parse", "success": false, "error": "Failed to parse command",
            })),
            Event::Eof => return 0,
            Event::Signal(signal) => return die(signal),
        }
    }
}

/// Takes one command.
fn take(live: &Value, session: &str, runs: &mut bool) {
    let command = live.get("type").and_then(Value::as_str).unwrap_or_default();
    match command {
        "get_state" => {
            let state = json!({
                "model": {"id": "fake-model", "provider": "fake"}, "thinkingLevel": "off", "isStreaming": *runs,
                "steeringMode": "one-at-a-time", "sessionId": session, "messageCount": 0,
                "pendingMessageCount": 0,
            });
            respond(live, command, Ok(Some(state)));
        }
        "prompt" if *runs => respond(live, command, Err("Agent is already processing.")),
        "prompt" => {
            respond(live, command, Ok(None));
            *runs = begin(
                live.get("message")
                    .and_then(Value::as_str)
                    .unwrap_or_default(),
            );
        }
        "abort" => {
            if std::mem::take(runs) {
                end("", "aborted", None);
            }
            respond(live, command, Ok(None));
        }
        "steer" => respond(live, command, Ok(None)),
        "get_session_stats" => {
            let context = json!({"tokens": 15, "contextWindow": 1000, "percent": 1.5});
            respond(
                live,
                command,
                Ok(Some(json!({"sessionId": session, "contextUsage": context}))),
            );
        }
        _ => respond(live, command, Err("Unknown command")),
    }
}

/// Begins a turn, and returns true if it lasts.
fn begin(prompt: &str) -> bool {
    say(json!({"type": "agent_start"}));
    say(json!({"type": "turn_start"}));
    let user = json!({"role": "user", "content": [{"type": "text", "text": prompt}]});
    say(json!({"type": "message_start", "message": user}));
    say(json!({"type": "message_end", "message": user}));
    say(json!({"type": "message_start", "message": {"role": "assistant", "content": []}}));
    if prompt.contains(FAILS) {
        end("", "error", Some("400 told to fail"));
        return false;
    }
    let said = json!({"type": "text_delta", "contentIndex": 0, "delta": prompt});
    say(json!({"type": "message_update", "assistantMessageEvent": said}));
    let lasts = prompt.contains(LASTS);
    if !lasts {
        end(prompt, "stop", None);
    }
    lasts
}

/// Ends the turn.
fn end(text: &str, reason: &str, error: Option<&str>) {
    let message = json!({
        "role": "assistant", "content": [{"type": "text", "text": text}], "provider": "fake",
        "model": "fake-model", "stopReason": reason, "errorMessage": error,
        "usage": {
            "input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15,
            "cost": {"total": 0.001},
        },
    });
    say(json!({"type": "message_end", "message": message}));
    say(json!({"type": "turn_end", "message": message, "toolResults": []}));
    say(json!({"type": "agent_end", "messages": []}));
}

/// Answers a command.
fn respond(live: &Value, command: &str, result: Result<Option<Value>, &str>) {
    let mut response = json!({"type": "response", "command": command, "success": result.is_ok()});
    if let Some(id) = live.get("id") {
        response["id"] = id.clone();
    }
    match result {
        Ok(Some(data)) => response["data"] = data,
        Ok(None) => {}
        Err(why) => response["error"] = why.into(),
    }
    say(response);
}
