//! Drives a profile as a host would, over real pipes, and notes what comes back.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use super::expected::{Answer, Expected, Session, Turn};

/// Timeout of a turn.
const TURN: Duration = Duration::from_secs(25);

/// Time for text that was printed before a stop to arrive.
const ON_ITS_WAY: Duration = Duration::from_secs(3);

/// Time for an adapter to end.
const END: Duration = Duration::from_secs(10);

/// Limit of the driver's waiting events.
const WAITING: usize = 4096;

const EXTENSIONS: [&str; 8] = [
    "turns",
    "events",
    "usage",
    "resume",
    "options",
    "questions",
    "flow",
    "control",
];

/// Start of a profile.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) profile: &'static str,
    pub(crate) config: Value,
    pub(crate) recording: PathBuf,
}

/// Result of playing a recording.
#[derive(Debug, Default, Clone)]
pub(crate) struct Observed {
    pub(crate) sessions: Vec<SeenSession>,
    /// The command lines of the CLI.
    pub(crate) starts: Vec<Vec<String>>,
    /// Input of the CLI.
    pub(crate) told: Vec<Value>,
    /// The working directory.
    pub(crate) cwd: String,
    /// The adapter's stderr.
    pub(crate) stderr: String,
}

/// A session as it was seen.
#[derive(Debug, Default, Clone)]
pub(crate) struct SeenSession {
    pub(crate) native_id: Option<String>,
    pub(crate) context: Option<String>,
    pub(crate) closed: Option<Value>,
    pub(crate) turns: Vec<SeenTurn>,
    /// Everything outside turns.
    pub(crate) outside: Vec<Value>,
}

/// A turn as it was seen.
#[derive(Debug, Default, Clone)]
pub(crate) struct SeenTurn {
    pub(crate) messages: Vec<Value>,
    pub(crate) text: String,
    pub(crate) permissions: Vec<Value>,
    pub(crate) complete: Option<Value>,
}

impl SeenTurn {
    /// Returns true if everything recorded before a stop has been reported.
    fn told(&self, turn: &Turn) -> bool {
        let started = self
            .messages
            .iter()
            .filter(|message| message["type"] == "tool.start")
            .count();
        let certain = turn.tools.iter().filter(|tool| !tool.optional).count();
        self.text.len() >= turn.certain()
            && self.permissions.len() >= turn.permissions.len()
            && started >= certain
            && turn.warned.iter().all(|warning| {
                self.messages
                    .iter()
                    .any(|message| message.to_string().contains(warning))
            })
    }
}

enum Event {
    Message(Value),
    Garbage(String),
    Gone,
    Report(Value),
    /// A CLI has begun to report.
    Opened,
    /// It has ended.
    Closed,
}

/// Plays a recording through a profile, and returns what came out.
pub(crate) fn play(setup: &Setup, script: &Expected) -> Result<Observed, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut driver = Driver::start(setup, folder.path())?;
    let played = driver.run(script);
    let ended = driver.end();
    let observed = std::mem::take(&mut driver.observed);
    let clean = is_clean(&folder.path().join("proj"), &observed);
    played.and(ended).and(clean).map_err(|error| {
        let last: Vec<_> = observed
            .sessions
            .iter()
            .flat_map(|session| &session.turns)
            .collect();
        format!(
            "{error}\n  CLI started as {:?}\n  it was told {}\n  adapter's stderr: {}\n  turns: {}",
            observed.starts,
            short(&Value::from(observed.told.clone()), 3000),
            observed.stderr,
            short(
                &Value::from(
                    last.iter()
                        .flat_map(|turn| turn.messages.clone())
                        .collect::<Vec<_>>()
                ),
                3000
            )
        )
    })?;
    Ok(observed)
}

/// A session leaves nothing in its working directory but what its prompts have the agent write.
fn is_clean(cwd: &Path, observed: &Observed) -> Result<(), String> {
    let left = std::fs::read_dir(cwd).map_err(|error| error.to_string())?;
    let is_asked = |name: &String| {
        let asked = format!("/{name};;");
        observed
            .told
            .iter()
            .any(|line| line.to_string().contains(&asked))
    };
    let left = left
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let left: Vec<_> = left.filter(|name| !is_asked(name)).collect();
    if left.is_empty() {
        Ok(())
    } else {
        Err(format!("the working directory was written to: {left:?}"))
    }
}

/// Asks a profile for its report on itself.
pub(crate) fn diagnose(setup: &Setup) -> Result<Value, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut child = command(setup, folder.path())?
        .arg("--diagnose")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let (sender, receiver) = sync_channel(1);
    let mut stdout = child.stdout.take().ok_or("no stdout")?;
    let reader = thread::spawn(move || {
        let mut text = String::new();
        drop(stdout.read_to_string(&mut text));
        drop(sender.send(text));
    });
    let text = receiver.recv_timeout(TURN);
    drop(child.kill());
    drop(child.wait());
    drop(reader.join());
    let text = text.map_err(|_| "no report in time".to_owned())?;
    serde_json::from_str(text.trim())
        .map_err(|error| format!("the report is not JSON ({error}): {text}"))
}

fn command(setup: &Setup, folder: &Path) -> Result<Command, String> {
    let cwd = folder.join("proj");
    std::fs::create_dir_all(&cwd).map_err(|error| error.to_string())?;
    for part in ["home", "tmp"] {
        std::fs::create_dir_all(folder.join(part)).map_err(|error| error.to_string())?;
    }
    let socket = folder.join("report");
    let mut config = setup.config.clone();
    config["env"] = json!({"FAKE_CLI_RECORDING": setup.recording, "FAKE_CLI_REPORT": socket});
    let file = folder.join("config.json");
    std::fs::write(&file, config.to_string()).map_err(|error| error.to_string())?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_trunkline-adapter"));
    command
        .arg(setup.profile)
        .current_dir(&cwd)
        .env("ADAPTER_CONFIG", file)
        .env("HOME", folder.join("home"))
        .env("TMPDIR", folder.join("tmp"));
    Ok(command)
}

struct Driver {
    child: Child,
    socket: PathBuf,
    /// Number of CLIs that have reported, and of those that still run.
    reported: (usize, usize),
    stdin: Option<ChildStdin>,
    events: Receiver<Event>,
    cwd: PathBuf,
    sessions: usize,
    turns: usize,
    /// Event that the CLI waits for, as last reported.
    want: Option<String>,
    wanted_since: Instant,
    /// True if the running turn's prompt has reached the CLI.
    prompted: bool,
    observed: Observed,
    stderr: Option<thread::JoinHandle<String>>,
}

impl Driver {
    fn start(setup: &Setup, folder: &Path) -> Result<Self, String> {
        let mut command = command(setup, folder)?;
        let socket = folder.join("report");
        let listener = UnixListener::bind(&socket).map_err(|error| error.to_string())?;
        let (sender, events) = sync_channel(WAITING);
        let of_reports = sender.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = of_reports.clone();
                if sender.send(Event::Opened).is_err() {
                    return;
                }
                thread::spawn(move || {
                    lines(stream, &sender, Event::Report);
                    drop(sender.send(Event::Closed));
                });
            }
        });
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        thread::spawn(move || {
            lines(stdout, &sender, Event::Message);
            drop(sender.send(Event::Gone));
        });
        let mut stderr = child.stderr.take().ok_or("no stderr")?;
        let stderr = thread::spawn(move || {
            let mut bytes = Vec::new();
            drop(stderr.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let cwd = folder.join("proj");
        let observed = Observed {
            cwd: cwd.to_string_lossy().into_owned(),
            ..Observed::default()
        };
        Ok(Self {
            stdin: child.stdin.take(),
            child,
            socket,
            reported: (0, 0),
            events,
            cwd,
            sessions: 0,
            turns: 0,
            want: None,
            wanted_since: Instant::now(),
            prompted: false,
            observed,
            stderr: Some(stderr),
        })
    }

    fn run(&mut self, script: &Expected) -> Result<(), String> {
        for session in &script.sessions {
            self.run_session(session)?;
        }
        Ok(())
    }

    fn run_session(&mut self, session: &Session) -> Result<(), String> {
        self.sessions += 1;
        let id = format!("session-{}", self.sessions);
        self.observed.sessions.push(SeenSession::default());
        let mut start = Map::new();
        start.insert("protocol".into(), json!(1));
        start.insert("extensions".into(), json!(EXTENSIONS));
        start.insert("cwd".into(), json!(self.cwd));
        let options = [("model", &session.model), ("mode", &session.mode)];
        for (name, value) in options {
            if let Some(value) = value {
                start.insert(name.into(), json!(value));
            }
        }
        if let Some(native) = &session.resume {
            start.insert("resume".into(), json!({"native_session_id": native}));
        }
        self.send(&id, "session.start", Value::Object(start))?;
        self.wait(&id, "session.ready", |driver| {
            driver
                .seen()
                .outside
                .iter()
                .any(|message| message["type"] == "session.ready")
        })?;
        for turn in &session.turns {
            if self.seen().closed.is_some() {
                break;
            }
            self.run_turn(&id, turn)?;
        }
        if session.turns.is_empty() {
            self.wait(&id, "what became of the session", |driver| {
                driver.seen().context.is_some() || driver.seen().closed.is_some()
            })?;
        }
        self.send(&id, "session.close", json!({}))
    }

    fn run_turn(&mut self, id: &str, turn: &Turn) -> Result<(), String> {
        self.turns += 1;
        let turn_id = format!("turn-{}", self.turns);
        self.seen().turns.push(SeenTurn::default());
        self.want = None;
        self.prompted = false;
        self.send(
            id,
            "user.input",
            json!({"content": turn.prompt, "turn_id": turn_id}),
        )?;
        let until = Instant::now() + TURN;
        let mut answered = 0;
        let mut stopped = false;
        let mut steers = turn.steers.iter();
        loop {
            let seen = self.turn();
            if seen.complete.is_some() || self.seen().closed.is_some() {
                return Ok(());
            }
            let seen = self.turn();
            if let Some(request) = seen.permissions.get(answered).cloned() {
                let answer = turn
                    .permissions
                    .get(answered)
                    .and_then(|permission| permission.answer.clone());
                answered += 1;
                if let Some(answer) = answer {
                    self.send(id, "permission.response", response(&request, &answer))?;
                }
            }
            let told = self.turn().told(turn);
            let late = self.wanted_since.elapsed() > ON_ITS_WAY;
            match self.want.as_deref() {
                Some("stop") if !stopped && (told || late) => {
                    stopped = true;
                    self.send(id, "stop", json!({"turn_id": turn_id, "reason": "user"}))?;
                }
                Some("turn/start" | "turn/steer" | "session/prompt") if self.prompted => {
                    if let Some(steer) = steers.next() {
                        self.want = None;
                        let input = json!({"content": steer, "mode": "steer", "message_id": format!("steer-{turn_id}")});
                        self.send(id, "user.input", input)?;
                    }
                }
                _ => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!(
                    "{turn_id} ({:?}) did not end; the CLI wants {:?}",
                    turn.prompt, self.want
                ));
            }
            self.step(left.min(Duration::from_millis(200)))?;
        }
    }

    fn wait(
        &mut self,
        id: &str,
        what: &str,
        done: impl Fn(&mut Self) -> bool,
    ) -> Result<(), String> {
        let until = Instant::now() + TURN;
        while !done(self) && self.seen().closed.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("{id}: {what} did not come"));
            }
            self.step(left)?;
        }
        Ok(())
    }

    /// Takes what happens next, for so long.
    fn step(&mut self, time: Duration) -> Result<(), String> {
        match self.events.recv_timeout(time) {
            Ok(Event::Message(message)) => self.note(message),
            Ok(Event::Report(report)) => {
                self.reported(&report);
                Ok(())
            }
            Ok(Event::Garbage(line)) => Err(format!("not a message: {line}")),
            Ok(Event::Gone) => Err("the adapter has ended".to_owned()),
            Ok(event @ (Event::Opened | Event::Closed)) => {
                self.count(&event);
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err("no one is left".to_owned()),
        }
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::Opened => self.reported = (self.reported.0 + 1, self.reported.1 + 1),
            Event::Closed => self.reported.1 -= 1,
            Event::Message(_) | Event::Garbage(_) | Event::Gone | Event::Report(_) => {}
        }
    }

    fn reported(&mut self, report: &Value) {
        if let Some(want) = report["want"].as_str() {
            self.want = Some(want.to_owned());
            self.wanted_since = Instant::now();
        }
        if let Value::Array(words) = &report["start"] {
            let words = words
                .iter()
                .filter_map(|word| word.as_str().map(str::to_owned));
            self.observed.starts.push(words.collect());
        }
        if let Value::Object(_) = &report["live"] {
            self.want = None;
            self.prompted |= ["turn/start", "session/prompt"]
                .iter()
                .any(|method| report["live"]["method"] == *method);
            self.observed.told.push(report["live"].clone());
        }
    }

    fn note(&mut self, message: Value) -> Result<(), String> {
        let kind = message["type"].as_str().unwrap_or_default().to_owned();
        let number = message["session_id"]
            .as_str()
            .and_then(|id| id.strip_prefix("session-")?.parse::<usize>().ok());
        let Some(number) = number else {
            return Err(format!("of no session: {message}"));
        };
        if number != self.sessions {
            // A closed session is silent, save for what was in the pipe.
            return Ok(());
        }
        let current = self.turns;
        let seen = self.seen();
        for (member, place) in [
            ("native_session_id", &mut seen.native_id),
            ("context", &mut seen.context),
        ] {
            if let Some(value) = message[member].as_str() {
                *place = Some(value.to_owned());
            }
        }
        if kind == "session.closed" {
            seen.closed = Some(message.clone());
        }
        let Some(turn) = message["turn_id"].as_str() else {
            seen.outside.push(message);
            return Ok(());
        };
        if turn != format!("turn-{current}") {
            seen.outside.push(message);
            return Ok(());
        }
        let Some(turn) = seen.turns.last_mut() else {
            return Err(format!("of no turn: {message}"));
        };
        if turn.complete.is_some() {
            return Err(format!("after its end: {message}"));
        }
        match kind.as_str() {
            "output" if matches!(message["channel"].as_str(), None | Some("" | "stdout")) => {
                turn.text
                    .push_str(message["content"].as_str().unwrap_or_default());
            }
            "permission.request" => turn.permissions.push(message.clone()),
            "turn.complete" => turn.complete = Some(message.clone()),
            _ => {}
        }
        turn.messages.push(message);
        Ok(())
    }

    fn seen(&mut self) -> &mut SeenSession {
        if self.observed.sessions.is_empty() {
            self.observed.sessions.push(SeenSession::default());
        }
        let last = self.observed.sessions.len() - 1;
        &mut self.observed.sessions[last]
    }

    fn turn(&mut self) -> &mut SeenTurn {
        let turns = &mut self.seen().turns;
        if turns.is_empty() {
            turns.push(SeenTurn::default());
        }
        let last = turns.len() - 1;
        &mut turns[last]
    }

    fn send(&mut self, session: &str, kind: &str, mut body: Value) -> Result<(), String> {
        body["type"] = json!(kind);
        body["session_id"] = json!(session);
        let Some(stdin) = &mut self.stdin else {
            return Err("stdin is closed".to_owned());
        };
        stdin
            .write_all(format!("{body}\n").as_bytes())
            .map_err(|error| format!("write {kind}: {error}"))
    }

    /// Takes what comes until it is done, in time.
    fn drain(
        &mut self,
        otherwise: &str,
        done: impl Fn(&Self, &Event) -> bool,
    ) -> Result<(), String> {
        let until = Instant::now() + END;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(event) = self.events.recv_timeout(left) else {
                return Err(format!("{otherwise} within {END:?}"));
            };
            self.count(&event);
            if let Event::Report(report) = &event {
                self.reported(report);
            }
            if done(self, &event) {
                return Ok(());
            }
        }
    }

    /// Closes stdin: the adapter must end, well and in time.
    fn end(&mut self) -> Result<(), String> {
        self.stdin = None;
        let mut ended = self.drain("the adapter did not end", |_, event| {
            matches!(event, Event::Gone)
        });
        if ended.is_ok() {
            // Earlier connections are handled first; and no CLI may outlive its adapter.
            let before = self.reported.0;
            drop(UnixStream::connect(&self.socket));
            let all =
                |driver: &Self, _: &Event| driver.reported.0 > before && driver.reported.1 == 0;
            ended = self.drain("a CLI outlives its adapter", all);
        }
        if ended.is_err() {
            drop(self.child.kill());
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if let Some(stderr) = self.stderr.take().filter(|_| ended.is_ok()) {
            self.observed.stderr = stderr.join().unwrap_or_default();
        }
        if ended.is_ok() && !status.success() {
            return Err(format!("the adapter ended with {status}"));
        }
        ended
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the recorded user's response to a request of the profile.
fn response(request: &Value, answer: &Answer) -> Value {
    let mut response =
        json!({"request_id": request["request_id"], "approved": answer.approved, "reason": "user"});
    let options = request["options"].as_array().cloned().unwrap_or_default();
    if let Some(wanted) = &answer.option
        && let Some(option) = options.iter().find(|option| option["id"] == json!(wanted))
    {
        response["option_id"] = option["id"].clone();
        // The kind of an option determines whether it approves.
        let approves = option["kind"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("allow"));
        response["approved"] = json!(approves);
    }
    if answer.end_turn {
        response["end_turn"] = json!(true);
    }
    if let Some(input) = &answer.updated_input {
        response["updated_input"] = input.clone();
    }
    if let Some(message) = &answer.message {
        response["message"] = json!(message);
    }
    response
}

fn lines(stream: impl Read, sender: &SyncSender<Event>, event: impl Fn(Value) -> Event) {
    for line in BufReader::new(stream).split(b'\n') {
        let Ok(line) = line else { return };
        let event = match serde_json::from_slice(&line) {
            Ok(value) => event(value),
            Err(_) => Event::Garbage(String::from_utf8_lossy(&line).into_owned()),
        };
        if sender.send(event).is_err() {
            return;
        }
    }
}

/// A value as text, cut in the middle.
pub(crate) fn short(value: &Value, most: usize) -> String {
    let text: Vec<char> = value.to_string().chars().collect();
    if text.len() <= most {
        return text.into_iter().collect();
    }
    let begin = &text[..most / 2];
    let end = &text[text.len() - most / 2..];
    format!(
        "{} … {}",
        begin.iter().collect::<String>(),
        end.iter().collect::<String>()
    )
}
