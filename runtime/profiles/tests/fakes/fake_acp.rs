//! A small agent of the Agent Client Protocol that is controlled by its prompts, for tests of the
//! profile `acp`.
//!
//! A prompt is a list of steps in JSON: `{"say": TEXT}`, `{"update": {…}}`, `{"ask": [[METHOD,
//! {…}], …]}` (all at once; each answer is output; an `elicitation/complete` among them is sent
//! once those before it are answered), `{"last": true}` (outputs the last answer), `{"line":
//! TEXT}`, `{"complain": TEXT}` (on stderr), `{"flood": COUNT}`, `{"after": "flood"}`, `{"wait":
//! "cancel"}`, `{"again": [MESSAGE, …]}` (the same text in these messages in turn, until it is
//! cancelled), `{"image": CHARACTERS}` (of base64), `{"client": CAPABILITY}` (outputs it),
//! `{"given": VARIABLE}` (outputs its arguments, and the variable), `{"forget": true}` (the
//! session, until it is loaded), `{"hang": true}`, `{"exit": CODE}`, `{"fail": {…}}`, `{"end":
//! {…}}`. Any other prompt is answered by its own text.
//!
//! Arguments: `--name NAME`, `--auth VARIABLE` (a login by that variable is needed), `--no-load`,
//! `--late` (history follows the answer), `--known ID`, `--keeps` (every session is known),
//! `--stays` (the end of input does not end it), `--options` (of its own), `--commands after` (the
//! session's id), `--commands late` (with the first prompt).

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for tests"
)]

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

#[derive(Default)]
struct State {
    answers: HashMap<u64, SyncSender<Value>>,
    cancels: HashMap<String, SyncSender<()>>,
    sessions: u64,
    next: u64,
    logged_in: bool,
    /// Sessions that are known again once they are loaded.
    forgotten: HashSet<String>,
    /// Capabilities that the client declares.
    client: Value,
    flooded: bool,
    /// Values of options that were set.
    options: HashMap<String, Value>,
    /// The last answer to a request.
    last: Value,
}

type Shared = Arc<Mutex<State>>;

fn send(message: &Value) {
    let mut stdout = std::io::stdout().lock();
    // A client that is gone reads nothing.
    let _ = writeln!(stdout, "{message}").and_then(|()| stdout.flush());
}

fn answer(id: &Value, result: &Value) {
    send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn fail(id: &Value, code: i64, message: &str) {
    send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }));
}

fn update(session: &str, update: &Value) {
    send(
        &json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": update } }),
    );
}

fn say(session: &str, text: &str) {
    say_chunk(
        session,
        &json!({ "content": { "type": "text", "text": text } }),
    );
}

fn say_chunk(session: &str, chunk: &Value) {
    let mut chunk = chunk.clone();
    chunk["sessionUpdate"] = "agent_message_chunk".into();
    update(session, &chunk);
}

fn lock(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    if has("--version") {
        return println!("fake-acp 1.2.3");
    }
    let state = Shared::default();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let message: Value = serde_json::from_str(&line).unwrap();
        let id = &message["id"];
        let params = &message["params"];
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let needs_login = value("--auth").is_some() && !lock(&state).logged_in;
        match message["method"].as_str() {
            None => {
                let waiting = id.as_u64().and_then(|id| lock(&state).answers.remove(&id));
                if let Some(waiting) = waiting {
                    // Who asked may have given up.
                    let _ = waiting.send(message);
                }
            }
            Some("initialize") => {
                lock(&state).client = params["clientCapabilities"].clone();
                let logins = value("--auth").map(|name| json!({ "id": "key", "name": "Key", "type": "env_var", "vars": [{ "name": name }] }));
                answer(
                    id,
                    &json!({
                        "protocolVersion": 1,
                        "agentInfo": { "name": value("--name").unwrap_or_else(|| "fake-acp".to_owned()), "version": "1.2.3" },
                        "agentCapabilities": {
                            "loadSession": !has("--no-load"),
                            "promptCapabilities": { "image": true, "embeddedContext": true },
                            "sessionCapabilities": { "list": {} },
                        },
                        "authMethods": logins.into_iter().collect::<Vec<_>>(),
                    }),
                );
            }
            Some("authenticate") => {
                lock(&state).logged_in = true;
                answer(id, &json!({}));
            }
            Some("session/new" | "session/load") if needs_login => {
                fail(id, -32000, "Authentication required")
            }
            Some("session/new") => {
                let number = {
                    let mut state = lock(&state);
                    state.sessions += 1;
                    state.sessions
                };
                let session = format!("native-{}-{number}", std::process::id());
                if value("--commands").is_none() {
                    // Before the id is known.
                    update(&session, &commands());
                }
                let mut opened = json!({ "sessionId": session, "modes": modes() });
                if has("--options") {
                    opened["configOptions"] = options(&lock(&state).options);
                }
                answer(id, &opened);
                if value("--commands").as_deref() == Some("after") {
                    update(&session, &commands());
                }
            }
            Some("session/load")
                if has("--busy") && lock(&state).cancels.contains_key(&session) =>
            {
                fail(id, -32603, "A turn is running")
            }
            Some("session/load") if lock(&state).forgotten.remove(&session) => {
                answer(id, &json!({ "modes": modes() }));
            }
            Some("session/prompt") if lock(&state).forgotten.contains(&session) => {
                fail(id, -32002, "Resource not found");
            }
            Some("session/load") if Some(&session) == value("--known").as_ref() => {
                let history = || {
                    update(
                        &session,
                        &json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": "before?" } }),
                    );
                    say(&session, "before!");
                };
                if !has("--late") {
                    history();
                }
                answer(id, &json!({ "modes": modes() }));
                if has("--late") {
                    history();
                }
            }
            Some("session/load") if has("--options") => {
                answer(
                    id,
                    &json!({ "configOptions": options(&lock(&state).options) }),
                );
            }
            Some("session/load") if has("--keeps") => answer(id, &json!({ "modes": modes() })),
            Some("session/load") => fail(id, -32002, "Resource not found"),
            Some("session/list") => {
                answer(
                    id,
                    &json!({ "sessions": [{ "sessionId": "one", "cwd": params["cwd"], "title": "One" }, { "no": "id" }] }),
                );
            }
            Some("session/set_config_option") if params["value"] == "broken" => {
                fail(id, -32603, "It is broken");
            }
            Some("session/set_config_option") => {
                let name = params["configId"].as_str().unwrap().to_owned();
                lock(&state).options.insert(name, params["value"].clone());
                answer(
                    id,
                    &json!({ "configOptions": options(&lock(&state).options) }),
                );
            }
            Some("session/set_mode") => {
                update(
                    &session,
                    &json!({ "sessionUpdate": "current_mode_update", "currentModeId": params["modeId"] }),
                );
                answer(id, &json!({}));
            }
            Some("session/prompt") => {
                if value("--commands").as_deref() == Some("late") {
                    update(&session, &commands());
                }
                let (sender, cancelled) = sync_channel(8);
                lock(&state).cancels.insert(session.clone(), sender);
                let state = state.clone();
                let id = id.clone();
                let prompt = params["prompt"].clone();
                thread::spawn(move || turn(&state, &session, &id, &prompt, &cancelled));
            }
            Some("session/cancel") => {
                if let Some(turn) = lock(&state).cancels.get(&session) {
                    // A turn that does not wait needs no word.
                    let _ = turn.send(());
                }
            }
            Some(_) if id.is_null() => {}
            Some(_) => fail(id, -32601, "Method not found"),
        }
    }
    while has("--stays") {
        thread::park();
    }
}

/// Returns a name that distinguishes this process from others, which may have its id in namespaces
/// of their own.
fn own_name() -> String {
    static NAME: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let time = || {
        std::time::SystemTime::now()
            .duration_since(std::time::SystemTime::UNIX_EPOCH)
            .unwrap()
    };
    NAME.get_or_init(|| format!("{:x}", time().as_nanos()))
        .clone()
}

fn commands() -> Value {
    let plan = json!({ "name": "plan", "description": "Plans", "input": { "hint": "what" } });
    json!({ "sessionUpdate": "available_commands_update", "availableCommands": [plan] })
}

/// The options, with what was set of them.
fn options(set: &HashMap<String, Value>) -> Value {
    let value = |name: &str, default: Value| set.get(name).cloned().unwrap_or(default);
    let values = |names: &[&str]| {
        let values = names
            .iter()
            .map(|name| json!({ "value": name, "name": name }));
        json!(values.collect::<Vec<_>>())
    };
    json!([
        { "id": "effort", "name": "Effort", "category": "thought_level", "type": "select", "currentValue": value("effort", json!("low")), "options": values(&["low", "high"]) },
        { "id": "speed", "name": "Speed", "category": "model_config", "type": "select", "currentValue": value("speed", json!("fast")), "options": values(&["fast", "slow", "broken"]) },
        { "id": "auto_approve", "name": "Approve", "type": "boolean", "currentValue": value("auto_approve", json!(false)) },
        { "id": "web", "name": "Web", "type": "boolean", "currentValue": value("web", json!(false)) },
    ])
}

fn modes() -> Value {
    json!({ "availableModes": [{ "id": "ask", "name": "Ask" }, { "id": "plan", "name": "Plan" }, { "id": "auto", "name": "Auto" }, { "id": "yolo", "name": "YOLO" }], "currentModeId": "ask" })
}

fn turn(state: &Shared, session: &str, id: &Value, prompt: &Value, cancelled: &Receiver<()>) {
    let text = prompt[0]["text"].as_str().unwrap_or_default();
    let Ok(Value::Array(steps)) = serde_json::from_str::<Value>(text) else {
        say(session, text);
        let more: Vec<&str> = prompt
            .as_array()
            .unwrap()
            .iter()
            .skip(1)
            .filter_map(|block| block["type"].as_str())
            .collect();
        if !more.is_empty() {
            say(session, &format!(" + {}", more.join(" ")));
        }
        return answer(id, &json!({ "stopReason": "end_turn" }));
    };
    for step in &steps {
        let Some((verb, what)) = step.as_object().and_then(|step| step.iter().next()) else {
            continue;
        };
        match verb.as_str() {
            "say" => say(session, what.as_str().unwrap_or_default()),
            "variable" => say(
                session,
                &std::env::var(what.as_str().unwrap()).unwrap_or_default(),
            ),
            "forget" => {
                lock(state).forgotten.insert(session.to_owned());
            }
            "self" => say(session, &own_name()),
            "given" => {
                let mut given: Vec<_> = std::env::args().skip(1).collect();
                let name = what.as_str().unwrap();
                given.extend(std::env::var(name).map(|value| format!("{name}={value}")));
                say(session, &given.join(" "));
            }
            "client" => say(
                session,
                &lock(state).client[what.as_str().unwrap()].to_string(),
            ),
            "update" => update(session, what),
            "ask" => ask(state, session, what),
            "last" => say(session, &lock(state).last.to_string()),
            "complain" => eprintln!("{}", what.as_str().unwrap_or_default()),
            "line" => {
                println!("{}", what.as_str().unwrap_or_default());
            }
            "flood" => {
                for number in 0..what.as_u64().unwrap() {
                    say(session, &format!("{number} {}", "x".repeat(64 * 1024)));
                }
                lock(state).flooded = true;
            }
            "after" => {
                while !lock(state).flooded {
                    thread::sleep(std::time::Duration::from_millis(1));
                }
            }
            "wait" => {
                let _ = cancelled.recv();
                return answer(id, &json!({ "stopReason": "cancelled" }));
            }
            "image" => {
                let data = "A".repeat(usize::try_from(what.as_u64().unwrap()).unwrap());
                say_chunk(
                    session,
                    &json!({ "content": { "type": "image", "mimeType": "image/png", "data": data } }),
                );
            }
            "again" => {
                for name in what.as_array().unwrap().iter().cycle() {
                    say_chunk(
                        session,
                        &json!({ "messageId": name, "content": { "type": "text", "text": "partial " } }),
                    );
                    if cancelled
                        .recv_timeout(std::time::Duration::from_millis(5))
                        .is_ok()
                    {
                        return answer(id, &json!({ "stopReason": "cancelled" }));
                    }
                }
            }
            "hang" => loop {
                thread::park();
            },
            "exit" => {
                eprintln!("it falls");
                std::process::exit(i32::try_from(what.as_i64().unwrap()).unwrap());
            }
            "fail" => {
                return fail(
                    id,
                    what["code"].as_i64().unwrap(),
                    what["message"].as_str().unwrap(),
                );
            }
            "end" => return answer(id, what),
            _ => {}
        }
    }
    answer(id, &json!({ "stopReason": "end_turn" }));
}

/// Sends all requests at once, and outputs the answers in their order.
fn ask(state: &Shared, session: &str, requests: &Value) {
    let mut waiting = Vec::new();
    for request in requests.as_array().unwrap() {
        if request[0] == "elicitation/complete" {
            waiting.push(Err(request));
            continue;
        }
        let (sender, answered) = sync_channel(8);
        let number = {
            let mut state = lock(state);
            state.next += 1;
            let number = state.next;
            state.answers.insert(number, sender);
            number
        };
        let mut params = request[1].clone();
        params["sessionId"] = json!(session);
        send(&json!({ "jsonrpc": "2.0", "id": number, "method": request[0], "params": params }));
        waiting.push(Ok(answered));
    }
    for answered in waiting {
        let answered = match answered {
            Ok(answered) => answered,
            Err(request) => {
                send(&json!({ "jsonrpc": "2.0", "method": request[0], "params": request[1] }));
                continue;
            }
        };
        let Ok(answered) = answered.recv() else {
            return;
        };
        lock(state).last = answered["result"].clone();
        let said = if answered["error"].is_null() {
            &answered["result"]
        } else {
            &answered["error"]["code"]
        };
        say(session, &format!("{said}\n"));
    }
}
