//! An adapter as its host runs it.

use std::{
    collections::{HashMap, VecDeque},
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// Timeout of everything here, on a busy machine too.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A running adapter; killed if a test fails.
pub(crate) struct Adapter {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    came: HashMap<String, VecDeque<Value>>,
    turns: u32,
    folder: tempfile::TempDir,
}

/// Result of a turn.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) messages: Vec<Value>,
    pub(crate) end: Value,
}

impl Turn {
    /// Returns its output on a channel.
    pub(crate) fn on(&self, channel: &str) -> String {
        let outputs = self
            .messages
            .iter()
            .filter(|message| message["type"] == "output");
        let of =
            outputs.filter(|message| message["channel"].as_str().unwrap_or("stdout") == channel);
        of.filter_map(|message| message["content"].as_str())
            .collect()
    }

    pub(crate) fn text(&self) -> String {
        self.on("stdout")
    }

    pub(crate) fn status(&self) -> &str {
        self.end["status"].as_str().unwrap_or("completed")
    }

    pub(crate) fn category(&self) -> &str {
        self.end["error"]["category"].as_str().unwrap_or_default()
    }

    pub(crate) fn error(&self) -> &str {
        self.end["error"]["message"].as_str().unwrap_or_default()
    }

    /// The texts of its log on a stream, without the start of the agent.
    pub(crate) fn logs(&self, stream: &str) -> Vec<&str> {
        let logs = self
            .messages
            .iter()
            .filter(|message| message["type"] == "log" && message["stream"] == stream);
        logs.filter_map(|log| log["content"].as_str())
            .filter(|text| !text.starts_with("{\"started\":"))
            .collect()
    }

    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.messages
            .iter()
            .filter_map(|message| message["type"].as_str())
            .collect()
    }
}

pub(crate) fn program(profile: &str, config: &Value) -> (Command, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_trunkline-adapter"));
    command
        .arg(profile)
        .env("ADAPTER_CONFIG", file)
        .env("TMPDIR", folder.path())
        .env_remove("CONFORM_PROBE");
    (command, folder)
}

/// Returns the output of a program until it ends, and its exit code.
pub(crate) fn printed(mut command: Command) -> (String, Option<i32>) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = if output.stdout.is_empty() {
        output.stderr
    } else {
        output.stdout
    };
    (String::from_utf8(text).unwrap(), output.status.code())
}

impl Adapter {
    pub(crate) fn start(profile: &str, config: &Value) -> Self {
        let (command, folder) = program(profile, config);
        Self::run(command, folder)
    }

    pub(crate) fn run(mut command: Command, folder: tempfile::TempDir) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = sync_channel(100_000);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Self {
            child,
            input,
            lines,
            came: HashMap::new(),
            turns: 0,
            folder,
        }
    }

    pub(crate) fn say(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Opens a session with every extension, and gives its `session.ready`.
    pub(crate) fn open(&mut self, session: &str) -> Value {
        self.open_with(session, json!({}))
    }

    pub(crate) fn open_with(&mut self, session: &str, options: Value) -> Value {
        let mut start = json!({
            "type": "session.start", "session_id": session, "protocol": 1,
            "extensions": ["turns", "events", "usage", "resume", "options", "questions", "flow", "control"],
        });
        let Value::Object(options) = options else {
            panic!("options are an object")
        };
        start.as_object_mut().unwrap().extend(options);
        self.say(&start);
        let ready = self.next(session);
        assert_eq!(ready["type"], "session.ready", "{ready}");
        ready
    }

    pub(crate) fn begin(&mut self, session: &str, content: &str) {
        self.turns += 1;
        let turn = format!("t{}", self.turns);
        self.say(
            &json!({ "type": "user.input", "session_id": session, "turn_id": turn, "content": content }),
        );
    }

    /// Says something and waits for the turn's end.
    pub(crate) fn send(&mut self, session: &str, content: &str) -> Turn {
        self.begin(session, content);
        self.finish(session)
    }

    /// Waits for the running turn's end.
    pub(crate) fn finish(&mut self, session: &str) -> Turn {
        let mut messages = Vec::new();
        let until = Instant::now() + LIMIT;
        loop {
            let message = self.next_until(session, until);
            if message["type"] == "turn.complete" {
                return Turn {
                    messages,
                    end: message,
                };
            }
            messages.push(message);
        }
    }

    pub(crate) fn stop(&mut self, session: &str) {
        self.say(&json!({ "type": "stop", "session_id": session }));
    }

    /// The session's next message; what is of others waits.
    pub(crate) fn next(&mut self, session: &str) -> Value {
        self.next_until(session, Instant::now() + LIMIT)
    }

    fn next_until(&mut self, session: &str, until: Instant) -> Value {
        loop {
            assert!(Instant::now() < until, "what is waited for comes soon");
            if let Some(message) = self.came.get_mut(session).and_then(VecDeque::pop_front) {
                return message;
            }
            match self
                .lines
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(message) => {
                    let of = message["session_id"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned();
                    self.came.entry(of).or_default().push_back(message);
                }
                Err(RecvTimeoutError::Timeout) => panic!("nothing more came for {session}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the adapter has ended"),
            }
        }
    }

    /// Waits for a message of a type; those before it are dropped.
    pub(crate) fn wait_for(&mut self, session: &str, kind: &str) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            let message = self.next_until(session, until);
            if message["type"] == kind {
                return message;
            }
        }
    }

    /// Ends its input and waits for its end, after which nothing of it is left.
    pub(crate) fn end(mut self) {
        self.input = None;
        let until = Instant::now() + LIMIT;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "the adapter ends with its input");
            std::thread::yield_now();
        }
        let files = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|file| file.unwrap().file_name());
        let left: Vec<_> = files.filter(|name| name != "config.json").collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

impl Adapter {
    /// Waits for the process's end, which it brings about itself.
    pub(crate) fn exit_code(mut self) -> Option<i32> {
        let until = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "the adapter ends");
            std::thread::yield_now();
        }
    }
}

impl Adapter {
    /// Suspends the process for this time; its agents run on.
    pub(crate) fn stand_still(&self, time: Duration) {
        let pid = self.child.id().to_string();
        let signal = |name: &str| {
            let sent = Command::new("kill")
                .args([name, pid.as_str()])
                .status()
                .unwrap();
            assert!(sent.success(), "{name}");
        };
        signal("-STOP");
        let until = Instant::now() + LIMIT;
        let stat = format!("/proc/{pid}/stat");
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            assert!(Instant::now() < until, "it is suspended");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(time);
        signal("-CONT");
    }
}

impl Adapter {
    /// Waits until every process that it has started has ended so far that it sees so itself: the
    /// files of one that ends are closed before that.
    pub(crate) fn sees_no_agent(&self) {
        let until = Instant::now() + LIMIT;
        while self.has_agent() {
            assert!(Instant::now() < until, "its agents end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn has_agent(&self) -> bool {
        let own = self.child.id().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let states = processes
            .filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
        states.into_iter().any(|state| {
            // The name may hold anything; after its parenthesis come the state and the parent.
            let mut words = state
                .rsplit(')')
                .next()
                .unwrap_or_default()
                .split_whitespace();
            words.next() != Some("Z") && words.next() == Some(own.as_str())
        })
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        // Both fail where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
