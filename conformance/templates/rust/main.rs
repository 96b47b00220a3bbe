//! An adapter on the standard library and `serde_json`. Your agent goes into `answer`.

use std::{
    collections::HashMap,
    io::{self, BufRead, Write},
    sync::{mpsc, Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use serde_json::{json, Map, Value};
use signal_hook::{consts::SIGTERM, iterator::Signals};

/// One turn. Say as much as you like; the end of this function ends the turn, and an error is shown to the user.
///
/// `turn.say` writes output; `turn.may` asks for permission: act only on `true`. Ask `turn.is_over` while you work:
/// `stop` and the end of the session set it, and what is said after that is dropped.
fn answer(turn: &Turn, text: &str) -> Result<(), String> {
    turn.say(&format!("You said: {text}"));
    Ok(())
}

// What follows is the protocol. Nothing below here needs to change.

struct Turn {
    session: Arc<Session>,
    number: u64,
}

struct Session {
    id: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    inputs: Vec<String>,
    /// The running turn; what belongs to another number is late.
    running: Option<u64>,
    turns: u64,
    asks: u64,
    /// The open requests, and their answers.
    asked: HashMap<String, Option<bool>>,
    closed: bool,
}

impl Turn {
    fn say(&self, text: &str) {
        self.session.output(self.number, text, "stdout");
    }

    #[allow(dead_code, reason = "for the agent to use")]
    fn is_over(&self) -> bool {
        self.session.lock().running != Some(self.number)
    }

    /// Asks for permission and waits for the answer; the end of the turn denies.
    #[allow(dead_code, reason = "for the agent to use")]
    fn may(&self, tool: &str, description: &str, resource: &str) -> bool {
        let mut state = self.session.lock();
        if state.running != Some(self.number) {
            return false;
        }
        state.asks += 1;
        let ask = format!("ask-{}", state.asks);
        state.asked.insert(ask.clone(), None);
        let fields = json!({"request_id": ask, "tool": tool, "description": description, "resource": resource});
        self.session.send("permission.request", fields);
        loop {
            match state.asked.get(&ask) {
                Some(None) => {}
                Some(Some(approved)) => return *approved,
                None => return false,
            }
            state = self.session.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Session {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a message as one line in one write. The caller holds the state, so that nothing follows an end.
    fn send(&self, kind: &str, mut fields: Value) {
        fields["type"] = kind.into();
        fields["session_id"] = self.id.as_str().into();
        let line = fields.to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029") + "\n";
        let mut stdout = io::stdout().lock();
        if stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).is_err() {
            std::process::exit(0); // no one reads any more
        }
    }

    fn output(&self, number: u64, text: &str, channel: &str) {
        let state = self.lock();
        if state.running == Some(number) {
            self.send("output", json!({"content": text, "channel": channel}));
        }
    }

    /// Ends a turn, once: one `turn.complete` for each input, none after the session was closed.
    fn end(self: &Arc<Self>, number: u64) {
        let mut state = self.lock();
        if state.running != Some(number) {
            return;
        }
        state.running = None;
        state.asked.clear();
        self.changed.notify_all();
        if !state.closed {
            self.send("turn.complete", json!({}));
            self.begin(&mut state);
        }
    }

    /// Takes the next input, if no turn runs.
    fn begin(self: &Arc<Self>, state: &mut State) {
        if state.running.is_some() || state.inputs.is_empty() {
            return;
        }
        let text = state.inputs.remove(0);
        state.turns += 1;
        state.running = Some(state.turns);
        let turn = Turn { session: Arc::clone(self), number: state.turns };
        thread::spawn(move || {
            // A failure ends its turn like any other end.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| answer(&turn, &text)));
            let failed = done.unwrap_or_else(|_| Err("the adapter failed".to_owned()));
            if let Err(error) = failed {
                turn.session.output(turn.number, &error, "stderr");
            }
            turn.session.end(turn.number);
        });
    }

    fn handle(self: &Arc<Self>, message: &Map<String, Value>) {
        let text = |member: &str| message.get(member).and_then(Value::as_str);
        let mut state = self.lock();
        match text("type").unwrap_or_default() {
            "user.input" => {
                let content = message.get("content").unwrap_or(&Value::Null);
                if content.is_string() || content.is_null() {
                    state.inputs.push(content.as_str().unwrap_or_default().to_owned());
                    self.begin(&mut state);
                }
            }
            "permission.response" => {
                if let Some(open @ None) = text("request_id").and_then(|ask| state.asked.get_mut(ask)) {
                    *open = Some(message.get("approved") == Some(&Value::Bool(true)));
                    self.changed.notify_all();
                }
            }
            kind @ ("stop" | "session.close") => {
                if kind == "session.close" {
                    state.closed = true;
                    state.inputs.clear();
                }
                if let Some(number) = state.running {
                    drop(state);
                    self.end(number);
                }
            }
            _ => {} // unknown types are ignored
        }
    }
}

/// Reads a line; `None` is noise.
fn parse(line: &[u8]) -> Option<Map<String, Value>> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    match serde_json::from_slice(&mended(line)) {
        Ok(Value::Object(message)) => Some(message),
        _ => None,
    }
}

/// The line with U+FFFD for each escape that is half a surrogate pair: JSON can spell it, UTF-8 cannot.
fn mended(line: &[u8]) -> Vec<u8> {
    let unit = |at: usize| {
        let digits = line.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut mended, mut at) = (Vec::with_capacity(line.len()), 0);
    while let Some(byte) = line.get(at) {
        let (take, whole) = match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, true),
            (Some(0xd800..=0xdfff), _) => (6, false),
            _ if *byte == b'\\' => (2, true), // an escape, so that the next byte begins none
            _ => (1, true),
        };
        let taken = &line[at..line.len().min(at + take)];
        mended.extend_from_slice(if whole { taken } else { b"\\ufffd" });
        at += take;
    }
    mended
}

fn main() {
    let sessions: Arc<Mutex<HashMap<String, Arc<Session>>>> = Arc::default();
    let (ended, end) = mpsc::sync_channel(2);
    if let Ok(mut signals) = Signals::new([SIGTERM]) {
        let ended = ended.clone();
        thread::spawn(move || signals.forever().next().map(|_| ended.send(()))); // like the end of stdin
    }
    let open = Arc::clone(&sessions);
    thread::spawn(move || {
        let (mut stdin, mut line) = (io::stdin().lock(), Vec::new());
        // LF alone ends a line, and a line is decoded when it is whole.
        while stdin.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if let Some(message) = parse(&line) {
                let id = message.get("session_id").and_then(Value::as_str).unwrap_or_default().to_owned();
                let kind = message.get("type").and_then(Value::as_str).unwrap_or_default();
                let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
                match (open.get(&id).cloned(), kind) {
                    (None, "session.start") if (1..=256).contains(&id.len()) => {
                        let session = Session { id: id.clone(), state: Mutex::default(), changed: Condvar::new() };
                        open.insert(id, Arc::new(session));
                    }
                    (None, _) => {} // unknown or closed
                    (Some(session), kind) => {
                        if kind == "session.close" {
                            open.remove(&id);
                        }
                        drop(open);
                        session.handle(&message);
                    }
                }
            }
            line.clear();
        }
        let _ = ended.send(());
    });
    let _ = end.recv();
    thread::sleep(Duration::from_millis(50)); // running turns get a moment
    let sessions: Vec<Arc<Session>> =
        sessions.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
    for session in sessions {
        while let Some(number) = { session.lock().running } {
            session.end(number);
        }
    }
}
