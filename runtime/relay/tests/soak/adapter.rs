//! The adapter below: obeys the first word of each input.

use std::{
    collections::HashMap,
    io::{BufRead, Write},
    process::ExitCode,
};

use serde_json::{Value, json};

/// Adapters with the extensions and without.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Full,
    Core,
}

/// A turn that waits: for a stop, or for the answer to its request.
struct Waiting {
    turn: Value,
    request: Option<String>,
    /// Set if the turn does not end at a stop.
    deaf: bool,
}

struct Adapter {
    kind: Kind,
    out: std::io::BufWriter<std::io::Stdout>,
    waiting: HashMap<String, Waiting>,
    exchange: HashMap<String, String>,
    requests: u64,
}

pub fn serve(kind: Kind) -> ExitCode {
    let out = std::io::BufWriter::new(std::io::stdout());
    let mut adapter = Adapter {
        kind,
        out,
        waiting: HashMap::new(),
        exchange: HashMap::new(),
        requests: 0,
    };
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        adapter.take(&message);
        if adapter.out.flush().is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

impl Adapter {
    fn take(&mut self, message: &Value) {
        let id = message["session_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        match message["type"].as_str().unwrap_or_default() {
            "session.start" => {
                if let Some(folder) = message["exchange_dir"].as_str() {
                    self.exchange.insert(id.clone(), folder.to_owned());
                }
                if self.kind == Kind::Full {
                    self.say(
                        &json!({"type": "session.ready", "session_id": id, "protocol": 1,
                        "extensions": message["extensions"], "input_modes": ["steer"]}),
                    );
                }
            }
            "user.input" if message["mode"] == "steer" => {
                let steered = json!({"type": "steer.result", "session_id": id,
                    "message_id": message["message_id"], "delivered": true});
                self.say(&steered);
            }
            "user.input" => self.turn(&id, message),
            "session.update" => self
                .say(&json!({"type": "session.info", "session_id": id, "model": message["model"]})),
            "stop" => {
                if let Some(waiting) = self.waiting.get(&id).filter(|waiting| !waiting.deaf) {
                    let turn = waiting.turn.clone();
                    self.waiting.remove(&id);
                    self.complete(&id, &turn);
                }
            }
            "permission.response" => {
                let answered = |waiting: &&Waiting| {
                    waiting.request.as_deref() == message["request_id"].as_str()
                };
                if let Some(waiting) = self.waiting.get(&id).filter(answered) {
                    let turn = waiting.turn.clone();
                    self.waiting.remove(&id);
                    self.output(&id, &turn, "answered");
                    self.complete(&id, &turn);
                }
            }
            "session.close" => {
                self.waiting.remove(&id);
                self.exchange.remove(&id);
            }
            _ => {}
        }
    }

    fn turn(&mut self, id: &str, message: &Value) {
        let turn = match self.kind {
            Kind::Full => message["turn_id"].clone(),
            Kind::Core => Value::Null,
        };
        let word = message["content"].as_str().unwrap_or_default();
        self.requests += 1;
        let request = format!("r{}", self.requests);
        match word {
            "big" => self.output(id, &turn, &"x".repeat(300_000)),
            "flood" => {
                for _ in 0..150 {
                    self.output(id, &turn, &"x".repeat(2000));
                }
            }
            "ask" => {
                self.ask(id, &turn, &request);
                self.wait(id, turn, Some(request), false);
                return;
            }
            "ask-cancel" => {
                self.ask(id, &turn, &request);
                self.say(
                    &json!({"type": "permission.cancel", "session_id": id, "request_id": request}),
                );
            }
            "ask-end" => self.ask(id, &turn, &request),
            "hang" => return self.wait(id, turn, None, false),
            "deaf" => return self.wait(id, turn, None, true),
            "late" => {
                self.complete(id, &turn);
                return self.output(id, &turn, "late");
            }
            "twice" if self.kind == Kind::Full => self.complete(id, &turn),
            "crash" => std::process::abort(),
            "exit" => std::process::exit(3),
            "mute" => {
                // Its output ends; the process continues until its input ends.
                let _ = rustix::stdio::dup2_stdout(std::io::stderr());
                return;
            }
            "over" if self.kind == Kind::Full => {
                return self.say(
                    &json!({"type": "session.closed", "session_id": id, "reason": "finished"}),
                );
            }
            "file" => {
                let path = self
                    .exchange
                    .get(id)
                    .map(|folder| format!("{folder}/{request}.txt"));
                if let Some(path) = path.filter(|path| std::fs::write(path, "content").is_ok()) {
                    self.say(
                        &json!({"type": "file.output", "session_id": id, "turn_id": turn,
                        "file_name": "f.txt", "file_mime_type": "text/plain", "file_path": path}),
                    );
                }
            }
            _ => self.output(id, &turn, word),
        }
        self.complete(id, &turn);
    }

    fn wait(&mut self, id: &str, turn: Value, request: Option<String>, deaf: bool) {
        self.waiting.insert(
            id.to_owned(),
            Waiting {
                turn,
                request,
                deaf,
            },
        );
    }

    fn ask(&mut self, id: &str, turn: &Value, request: &str) {
        self.say(
            &json!({"type": "permission.request", "session_id": id, "turn_id": turn, "request_id": request,
            "tool": "T", "description": "d", "resource": "r"}),
        );
    }

    fn output(&mut self, id: &str, turn: &Value, content: &str) {
        self.say(&json!({"type": "output", "session_id": id, "turn_id": turn, "content": content}));
    }

    fn complete(&mut self, id: &str, turn: &Value) {
        self.say(&json!({"type": "turn.complete", "session_id": id, "turn_id": turn}));
    }

    fn say(&mut self, message: &Value) {
        let _ = writeln!(self.out, "{message}");
    }
}
