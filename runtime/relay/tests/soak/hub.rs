//! The hub above: counts the end of each input.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::unix::pipe::{Receiver, Sender},
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
};

use crate::rng::Rng;

/// Capacity for lines that wait while the relay reads nothing.
const WRITES: usize = 1 << 14;

/// A session as its hub counts it.
pub struct Session {
    pub turns: bool,
    /// Turns that the hub waits for: by id; without `turns`, they are only counted.
    pub open: HashMap<String, &'static str>,
    pub unnamed: u64,
    /// Set when the hub has closed the session, or has received its end.
    pub closed: bool,
    pub paused: bool,
    count: u64,
}

impl Session {
    pub fn waits(&self) -> bool {
        !self.closed && (self.unnamed > 0 || !self.open.is_empty())
    }
}

#[derive(Default)]
pub struct State {
    pub sessions: HashMap<String, Session>,
    pub inputs: u64,
    pub ends: u64,
    /// Number of ends of refused inputs.
    pub refused: u64,
    pub failures: Vec<String>,
}

impl State {
    pub fn waits(&self) -> bool {
        self.sessions.values().any(Session::waits)
    }

    pub fn open(&self) -> usize {
        self.sessions
            .values()
            .map(|session| session.open.len() + session.unnamed as usize)
            .sum()
    }

    fn take(&mut self, message: &Value) {
        let id = message["session_id"].as_str().unwrap_or_default();
        let kind = message["type"].as_str().unwrap_or_default();
        if id.is_empty() {
            return;
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return self
                .failures
                .push(format!("a message of an unknown session: {message}"));
        };
        match kind {
            "turn.complete" => {
                self.refused += u64::from(message["error"]["category"] == "busy");
                self.ends += 1;
                let counted = match message["turn_id"].as_str() {
                    Some(turn) => session.open.remove(turn).is_some(),
                    None if !session.turns && session.unnamed > 0 => {
                        session.unnamed -= 1;
                        true
                    }
                    None => false,
                };
                if !counted && !session.closed {
                    self.failures
                        .push(format!("an end that no input waits for: {message}"));
                }
            }
            "session.closed" => {
                session.closed = true;
                if !session.open.is_empty() {
                    // Sent before the hub could know: the hub ends them itself ([session.8]).
                    session.open.clear();
                }
            }
            _ => {}
        }
    }
}

/// A hub's side of one relay.
pub struct Hub {
    pub state: Arc<Mutex<State>>,
    /// Notified when something has ended or a reply came.
    pub moved: Arc<Notify>,
    stall: watch::Sender<bool>,
    lines: Option<mpsc::Sender<String>>,
    pub reading: JoinHandle<()>,
    pub writing: JoinHandle<()>,
}

impl Hub {
    pub fn new(output: Receiver, input: Sender, rng: Rng) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let moved = Arc::<Notify>::default();
        let (stall, stalled) = watch::channel(false);
        let (lines, writes) = mpsc::channel(WRITES);
        let reading = tokio::spawn(read(
            output,
            stalled,
            state.clone(),
            moved.clone(),
            lines.downgrade(),
            rng,
        ));
        let writing = tokio::spawn(write(input, writes));
        Self {
            state,
            moved,
            stall,
            lines: Some(lines),
            reading,
            writing,
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Stops or continues reading.
    pub fn stall(&self, stalled: bool) {
        self.stall.send_replace(stalled);
    }

    pub async fn say(&self, message: Value) {
        let Some(lines) = &self.lines else { return };
        if let Err(mpsc::error::TrySendError::Full(line)) = lines.try_send(message.to_string()) {
            // The relay stops reading from a hub that does not read.
            self.stall(false);
            let _ = lines.send(line).await;
        }
    }

    pub async fn start(&self, id: &str, agent: &str, extensions: &[&str]) {
        let session = Session {
            turns: extensions.contains(&"turns"),
            open: HashMap::new(),
            unnamed: 0,
            closed: false,
            paused: false,
            count: 0,
        };
        self.state().sessions.insert(id.to_owned(), session);
        let mut start = json!({"type": "session.start", "session_id": id, "agent_id": agent});
        if !extensions.is_empty() {
            start["protocol"] = json!(1);
            start["extensions"] = json!(extensions);
        }
        self.say(start).await;
    }

    pub async fn input(&self, id: &str, word: &'static str) {
        let mut input = json!({"type": "user.input", "session_id": id, "content": word});
        {
            let mut state = self.state();
            let Some(session) = state.sessions.get_mut(id).filter(|session| !session.closed) else {
                return;
            };
            if session.turns {
                session.count += 1;
                let turn = format!("t{}", session.count);
                input["turn_id"] = json!(turn);
                session.open.insert(turn, word);
            } else {
                session.unnamed += 1;
            }
            state.inputs += 1;
        }
        self.say(input).await;
    }

    /// Adds to the running turn; without `turns`, sends an ordinary input.
    pub async fn steer(&self, id: &str) {
        {
            let mut state = self.state();
            let Some(session) = state.sessions.get_mut(id) else {
                return;
            };
            if !session.turns && !session.closed {
                session.unnamed += 1;
                state.inputs += 1;
            }
        }
        self.say(
            json!({"type": "user.input", "session_id": id, "mode": "steer", "message_id": "m",
            "turn_id": "steer", "content": "say"}),
        )
        .await;
    }

    /// Stops the running turn, or an open one.
    pub async fn stop(&self, id: &str, named: bool) {
        let turn = self
            .state()
            .sessions
            .get(id)
            .and_then(|session| session.open.keys().next().cloned());
        let mut stop = json!({"type": "stop", "session_id": id});
        if let Some(turn) = turn.filter(|_| named) {
            stop["turn_id"] = json!(turn);
        }
        self.say(stop).await;
    }

    pub async fn close(&self, id: &str) {
        let open = {
            let mut state = self.state();
            state.sessions.get_mut(id).is_some_and(|session| {
                session.open.clear();
                session.unnamed = 0;
                !std::mem::replace(&mut session.closed, true)
            })
        };
        if open {
            self.say(json!({"type": "session.close", "session_id": id}))
                .await;
        }
    }

    /// Closes the relay's input and reads its output to the end.
    pub async fn hang_up(&mut self) {
        self.stall(false);
        self.lines = None;
        let _ = (&mut self.writing).await;
        let _ = (&mut self.reading).await;
    }

    /// Cuts both pipes.
    pub async fn cut(&mut self) {
        self.lines = None;
        self.reading.abort();
        self.writing.abort();
        let _ = (&mut self.writing).await;
        let _ = (&mut self.reading).await;
    }
}

async fn write(mut input: Sender, mut lines: mpsc::Receiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if input.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(
    output: Receiver,
    mut stalled: watch::Receiver<bool>,
    state: Arc<Mutex<State>>,
    moved: Arc<Notify>,
    lines: mpsc::WeakSender<String>,
    mut rng: Rng,
) {
    let mut output = BufReader::new(output);
    let mut line = String::new();
    loop {
        let _ = stalled.wait_for(|stalled| !stalled).await;
        line.clear();
        if output.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            // The last line of a relay that was cut off.
            continue;
        };
        if message["type"] == "permission.request" && rng.below(10) < 6 {
            let answer = json!({"type": "permission.response", "session_id": message["session_id"],
                "request_id": message["request_id"], "approved": rng.below(2) == 0});
            if let Some(lines) = lines.upgrade() {
                // Not answered if too much waits: the turn is stopped later.
                let _ = lines.try_send(answer.to_string());
            }
        }
        state.lock().unwrap().take(&message);
        moved.notify_one();
    }
}
