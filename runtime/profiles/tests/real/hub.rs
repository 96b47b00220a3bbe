//! The upper side of the protocol: starts a peer, which is a relay or one adapter, and has
//! conversations with it.
#![allow(dead_code, reason = "each test uses a part")]

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt::Display,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// Result of a step, or the expectation and the observation.
pub(crate) type Step<T = ()> = Result<T, String>;

/// Extensions that the hub knows.
const EXTENSIONS: [&str; 7] = [
    "turns",
    "events",
    "usage",
    "resume",
    "options",
    "questions",
    "control",
];

/// The longest line that is read whole, in bytes; a longer one is a broken peer.
const MAX_LINE: u64 = 64 * 1024 * 1024;

/// Kept end of the peer's stderr, in bytes.
const STDERR_KEPT: usize = 16 * 1024;

/// Time for a peer to end after the end of its input, and then after SIGTERM.
const END: Duration = Duration::from_secs(20);

/// Shown length of a text in a failure.
const SHOWN: usize = 600;

/// A step fails unless `holds`.
pub(crate) fn expect(holds: bool, expected: impl Display, came: impl Display) -> Step {
    if holds {
        Ok(())
    } else {
        Err(format!(
            "expected {expected}; came {}",
            cut(&came.to_string())
        ))
    }
}

/// A text for people: its two ends where it is long.
pub(crate) fn cut(text: &str) -> String {
    if text.len() <= 2 * SHOWN {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(SHOWN);
    let tail = text.ceil_char_boundary(text.len() - SHOWN);
    format!(
        "{} […{} bytes…] {}",
        &text[..head],
        tail - head,
        &text[tail..]
    )
}

/// A conversation partner on two pipes.
#[derive(Debug)]
pub(crate) struct Hub {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<Value>,
    queues: HashMap<String, VecDeque<Value>>,
    ended: HashSet<String>,
    stderr: Arc<Mutex<Vec<u8>>>,
    turns: usize,
    /// When every wait gives up.
    pub(crate) deadline: Instant,
}

/// A turn that has ended.
#[derive(Debug)]
pub(crate) struct Turn {
    /// Output on `stdout`.
    pub(crate) text: String,
    /// Everything of the turn but its `turn.complete`.
    pub(crate) messages: Vec<Value>,
    /// The `turn.complete`.
    pub(crate) end: Value,
}

impl Turn {
    pub(crate) fn status(&self) -> &str {
        self.end["status"].as_str().unwrap_or("completed")
    }

    pub(crate) fn category(&self) -> &str {
        self.end["error"]["category"].as_str().unwrap_or("none")
    }

    /// The messages of a type.
    pub(crate) fn messages_of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.messages
            .iter()
            .filter(move |message| message["type"] == kind)
    }

    /// Returns its end, for people.
    pub(crate) fn told(&self) -> String {
        let kinds: Vec<_> = self
            .messages
            .iter()
            .filter_map(|message| message["type"].as_str())
            .collect();
        let warnings: Vec<_> = self
            .messages_of_kind("error")
            .filter_map(|error| error["message"].as_str())
            .collect();
        format!(
            "status {}, error {}, warnings {warnings:?}, text {:?}, messages {}",
            self.status(),
            self.end["error"],
            cut(&self.text),
            cut(&kinds.join(" "))
        )
    }

    /// Fails unless the turn ended with this status.
    pub(crate) fn is(&self, status: &str) -> Step {
        expect(
            self.status() == status,
            format_args!("a turn that is {status}"),
            self.told(),
        )
    }

    /// Fails unless the turn was completed with exactly this output.
    pub(crate) fn says(&self, text: &str) -> Step {
        self.is("completed")?;
        expect(
            self.text == text,
            format_args!("the text {text:?}"),
            self.told(),
        )
    }

    /// Fails unless the turn failed with one of these categories.
    pub(crate) fn failed(&self, categories: &[&str]) -> Step {
        self.is("failed")?;
        let expected = format!("the category {}", categories.join(" or "));
        expect(categories.contains(&self.category()), expected, self.told())
    }
}

impl Hub {
    /// Starts a peer that speaks the protocol on its stdin and stdout.
    pub(crate) fn start(command: &mut Command, deadline: Instant) -> Step<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("failed to start {command:?}: {error}"))?;
        let (sender, lines) = mpsc::sync_channel(1024);
        let stdout = child.stdout.take().ok_or("no stdout")?;
        thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            while matches!(reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line), Ok(read) if read > 0)
            {
                if let Ok(message) = serde_json::from_slice(&line)
                    && sender.send(message).is_err()
                {
                    return;
                }
                line.clear();
            }
        });
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let mut pipe = child.stderr.take().ok_or("no stderr")?;
        let kept = Arc::clone(&stderr);
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = pipe.read(&mut chunk) {
                let mut kept = kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                kept.extend_from_slice(&chunk[..read]);
                let over = kept.len().saturating_sub(STDERR_KEPT);
                kept.drain(..over);
            }
        });
        let input = child.stdin.take();
        let queues = HashMap::new();
        let ended = HashSet::new();
        Ok(Self {
            child,
            input,
            lines,
            queues,
            ended,
            stderr,
            turns: 0,
            deadline,
        })
    }

    /// Returns the peer's last output on stderr.
    pub(crate) fn stderr(&self) -> String {
        let kept = self
            .stderr
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        String::from_utf8_lossy(&kept).trim().to_owned()
    }

    /// The number of the peer's process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, message: &Value) -> Step {
        let input = self.input.as_mut().ok_or("the peer's input is closed")?;
        writeln!(input, "{message}")
            .and_then(|()| input.flush())
            .map_err(|error| {
                format!(
                    "expected a peer that reads; came {error}; stderr: {}",
                    cut(&self.stderr())
                )
            })
    }

    /// Opens a session; `options` are further members of its `session.start`.
    pub(crate) fn open(&mut self, session: &str, options: &Value) -> Step {
        let mut start = json!({
            "type": "session.start", "session_id": session, "protocol": 1, "extensions": EXTENSIONS,
        });
        if let (Some(start), Some(options)) = (start.as_object_mut(), options.as_object()) {
            start.extend(options.clone());
        }
        self.send(&start)
    }

    /// Sends an input, and gives its turn's id.
    pub(crate) fn input(&mut self, session: &str, content: &str) -> Step<String> {
        self.turns += 1;
        let turn = format!("turn-{}", self.turns);
        let kind = "user.input";
        let id = &turn;
        self.send(
            &json!({"type": kind, "session_id": session, "turn_id": id, "content": content}),
        )?;
        Ok(turn)
    }

    /// The next message of a session.
    pub(crate) fn next(&mut self, session: &str) -> Step<Value> {
        loop {
            if let Some(message) = self.queues.get_mut(session).and_then(VecDeque::pop_front) {
                return Ok(message);
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(message) => {
                    let of = message["session_id"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned();
                    self.queues.entry(of).or_default().push_back(message);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(format!(
                        "expected a message of {session} in time; came none; stderr: {}",
                        cut(&self.stderr())
                    ));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(format!(
                        "expected a peer that goes on; came its end; stderr: {}",
                        cut(&self.stderr())
                    ));
                }
            }
        }
    }

    /// Returns true if a message of a type waits to be taken.
    pub(crate) fn holds(&self, session: &str, kind: &str) -> bool {
        self.queues
            .get(session)
            .is_some_and(|queue| queue.iter().any(|message| message["type"] == kind))
    }

    /// The next message of a session that is of a type, and those on the way to it.
    pub(crate) fn until(&mut self, session: &str, kind: &str) -> Step<(Value, Vec<Value>)> {
        let mut passed = Vec::new();
        loop {
            let message = self.next(session).map_err(|error| {
                let kinds: Vec<_> = passed
                    .iter()
                    .filter_map(|message: &Value| message["type"].as_str())
                    .collect();
                format!("expected {kind}, after {}; {error}", cut(&kinds.join(" ")))
            })?;
            if message["type"] == kind {
                return Ok((message, passed));
            }
            if message["type"] == "session.closed" {
                return Err(format!("expected {kind}; came {message}"));
            }
            passed.push(message);
        }
    }

    /// Follows a turn to its end; `decide` approves permissions, by their request.
    pub(crate) fn follow(
        &mut self,
        session: &str,
        turn: &str,
        mut decide: impl FnMut(&Value) -> bool,
    ) -> Step<Turn> {
        self.follow_with(
            session,
            turn,
            |request| json!({"approved": decide(request)}),
        )
    }

    /// Follows a turn to its end; `answer` gives the members that answer a permission, by its request.
    pub(crate) fn follow_with(
        &mut self,
        session: &str,
        turn: &str,
        mut answer: impl FnMut(&Value) -> Value,
    ) -> Step<Turn> {
        let mut text = String::new();
        let mut messages = Vec::new();
        loop {
            let message = self.next(session).map_err(|error| {
                let kinds: Vec<_> = messages
                    .iter()
                    .filter_map(|message: &Value| message["type"].as_str())
                    .collect();
                format!(
                    "{error}; the turn so far: text {:?}, messages {}",
                    cut(&text),
                    cut(&kinds.join(" "))
                )
            })?;
            match message["type"].as_str().unwrap_or_default() {
                "turn.complete" => {
                    let id = message["turn_id"].as_str().unwrap_or_default();
                    expect(id == turn, format_args!("the end of {turn}"), &message)?;
                    let once = self.ended.insert(turn.to_owned());
                    expect(once, format_args!("one end of {turn}"), "a second one")?;
                    return Ok(Turn {
                        text,
                        messages,
                        end: message,
                    });
                }
                "session.closed" => {
                    return Err(format!("expected the end of {turn}; came {message}"));
                }
                "permission.request" => {
                    let mut response = answer(&message);
                    response["type"] = "permission.response".into();
                    response["session_id"] = session.into();
                    response["request_id"] = message["request_id"].clone();
                    self.send(&response)?;
                }
                "output" => {
                    let own = message["turn_id"] == turn;
                    expect(
                        own || message["history"] == true,
                        "output of the running turn",
                        &message,
                    )?;
                    let spoken = message["channel"]
                        .as_str()
                        .is_none_or(|name| name.is_empty() || name == "stdout");
                    if own && spoken {
                        text.push_str(message["content"].as_str().unwrap_or_default());
                    }
                }
                _ => {}
            }
            messages.push(message);
        }
    }

    /// Approves what a session asks for until something is so; its other messages stay.
    pub(crate) fn run_until(&mut self, session: &str, is_so: impl Fn() -> bool) -> Step {
        let mut passed = VecDeque::new();
        while !is_so() {
            if Instant::now() > self.deadline {
                return Err(format!(
                    "expected something in time; came {}",
                    cut(&format!("{passed:?}"))
                ));
            }
            if let Ok(message) = self.lines.recv_timeout(Duration::from_millis(50)) {
                let of = message["session_id"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                self.queues.entry(of).or_default().push_back(message);
            }
            while let Some(message) = self.queues.get_mut(session).and_then(VecDeque::pop_front) {
                match message["type"].as_str().unwrap_or_default() {
                    "permission.request" => self.send(&json!({
                        "type": "permission.response", "session_id": session,
                        "request_id": message["request_id"], "approved": true,
                    }))?,
                    "turn.complete" => {
                        return Err(format!("expected a turn that runs; came {message}"));
                    }
                    _ => {}
                }
                passed.push_back(message);
            }
        }
        passed.extend(self.queues.remove(session).unwrap_or_default());
        passed.retain(|message| message["type"] != "permission.request");
        self.queues.insert(session.to_owned(), passed);
        Ok(())
    }

    /// Runs a whole turn, in which every permission is denied.
    pub(crate) fn turn(&mut self, session: &str, content: &str) -> Step<Turn> {
        let turn = self.input(session, content)?;
        self.follow(session, &turn, |_| false)
    }

    /// Takes what is in the pipe, so that a peer that writes still ends, and lets a little time pass.
    fn drain(&self) {
        while self.lines.try_recv().is_ok() {}
        thread::sleep(Duration::from_millis(10));
    }

    /// Closes the peer's input and waits for its end.
    pub(crate) fn end(mut self) -> Step<ExitStatus> {
        self.input = None;
        let begun = Instant::now();
        loop {
            self.drain();
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if begun.elapsed() < END => {}
                Ok(None) => {
                    let stderr = cut(&self.stderr());
                    return Err(format!(
                        "expected an end within {END:?}; came none; stderr: {stderr}"
                    ));
                }
                Err(error) => return Err(format!("failed to wait for the peer: {error}")),
            }
        }
    }
}

impl Drop for Hub {
    /// Ends the peer as the end of its input does; by force where that does not end it.
    fn drop(&mut self) {
        self.input = None;
        let begun = Instant::now();
        while begun.elapsed() < END {
            self.drain();
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
