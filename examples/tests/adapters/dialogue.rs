//! One side of a dialogue with an adapter over its pipes, message by message, without a host.

use std::{
    collections::{BTreeMap, VecDeque},
    io::Write,
    process::Command,
    sync::mpsc::{SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{dialect::Dialect, program::Program};

/// Timeout of an answer, including the start of an interpreter on a busy machine.
const ANSWER: Duration = Duration::from_secs(30);
/// Timeout of an adapter's exit ([process.1]).
const EXIT: Duration = Duration::from_secs(5);

/// A running adapter and what came from it but was not asked for yet, by session.
pub(crate) struct Dialogue {
    program: Program,
    /// Dropping it closes the adapter's stdin once all is written.
    input: Option<SyncSender<Vec<u8>>>,
    kept: BTreeMap<String, VecDeque<Value>>,
    dialect: Dialect,
    fences: u32,
}

impl Dialogue {
    pub(crate) fn with(command: &mut Command, dialect: Dialect) -> Self {
        let mut program = Program::start(command)
            .expect("it starts; `cargo build --examples` builds those in Rust");
        let mut stdin = program.child.stdin.take().expect("not taken yet");
        let (input, lines) = sync_channel::<Vec<u8>>(256);
        // An adapter that does not read holds up this thread, and no wait of a case.
        thread::spawn(move || lines.iter().all(|line| stdin.write_all(&line).is_ok()));
        Self {
            program,
            input: Some(input),
            kept: BTreeMap::new(),
            dialect,
            fences: 0,
        }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Sends bytes as they are.
    pub(crate) fn write(&self, bytes: impl Into<Vec<u8>>) {
        let input = self.input.as_ref().expect("its stdin is open");
        input.try_send(bytes.into()).expect("the adapter reads");
    }

    pub(crate) fn send(&self, message: &Value) {
        self.write(format!("{message}\n"));
    }

    /// Sends a message that has nothing but its type and its session.
    pub(crate) fn tell(&self, kind: &str, session: &str) {
        self.send(&json!({"type": kind, "session_id": session}));
    }

    pub(crate) fn input(&self, session: &str, content: &str) {
        self.send(&json!({"type": "user.input", "session_id": session, "content": content}));
    }

    pub(crate) fn respond(&self, session: &str, request: &str, approved: impl Into<Value>) {
        let approved = approved.into();
        self.send(&json!({"type": "permission.response", "session_id": session, "request_id": request, "approved": approved}));
    }

    /// Opens a session and reads its greeting.
    pub(crate) fn start(&mut self, session: &str) {
        self.tell("session.start", session);
        if let Some(greeting) = self.dialect.greeting() {
            let message = self.next(session);
            assert_eq!(
                (&message["type"], &message["content"]),
                (&json!("output"), &json!(greeting))
            );
        }
    }

    /// The session's next message.
    pub(crate) fn next(&mut self, session: &str) -> Value {
        let deadline = Instant::now() + ANSWER;
        loop {
            if let Some(message) = self.kept.get_mut(session).and_then(VecDeque::pop_front) {
                return message;
            }
            let line = self.program.line(deadline).expect("its stdout stays open");
            self.keep(&line);
        }
    }

    /// The outputs of the session's running turn, up to its end.
    pub(crate) fn turn_end(&mut self, session: &str) -> String {
        let mut said = String::new();
        loop {
            let message = self.next(session);
            match message["type"].as_str() {
                Some("output") => said += message["content"].as_str().expect("content is a string"),
                Some("turn.complete") => return said,
                _ => panic!("not of a turn: {message}"),
            }
        }
    }

    /// Hears the answer to a text, and the end of its turn.
    pub(crate) fn answered(&mut self, session: &str, text: &str) {
        assert_same(&self.turn_end(session), &self.dialect.answer(text));
    }

    /// A whole turn.
    pub(crate) fn turn(&mut self, session: &str, text: &str) {
        self.input(session, text);
        self.answered(session, text);
    }

    /// Begins a turn that asks, and reads the request; returns its id.
    pub(crate) fn ask(&mut self, session: &str) -> String {
        self.input(session, self.dialect.question().input);
        let request = self.next(session);
        assert_eq!(request["type"], "permission.request");
        for field in ["request_id", "tool", "description", "resource"] {
            assert!(
                request[field].as_str().is_some_and(|text| !text.is_empty()),
                "{field} in {request}"
            );
        }
        request["request_id"].as_str().expect("a string").to_owned()
    }

    /// Begins a turn that lasts as long.
    pub(crate) fn begin(&mut self, session: &str, seconds: u32) {
        let mut inputs = self.dialect.lasting(seconds);
        let last = inputs.pop().expect("at least one");
        for text in inputs {
            self.input(session, &text);
            self.turn_end(session);
        }
        self.input(session, &last);
    }

    /// Holds a turn in a fresh session: all that was sent before has been read when it ends.
    pub(crate) fn fence(&mut self) {
        self.fences += 1;
        let session = format!("fence-{}", self.fences);
        self.start(&session);
        self.turn(&session, "fence");
        self.tell("session.close", &session);
    }

    /// Proves by a fence that the session sends nothing.
    pub(crate) fn assert_silent(&mut self, session: &str) {
        self.fence();
        let said = self.kept.get(session).filter(|said| !said.is_empty());
        assert!(said.is_none(), "{session} is not silent: {said:?}");
    }

    /// Proves by a fence that no turn of the session has ended; a long turn may send output.
    pub(crate) fn assert_unended(&mut self, session: &str) {
        self.fence();
        assert_eq!(self.ends(session), 0);
    }

    /// Returns the number of ended turns of the session without an input.
    pub(crate) fn ends(&self, session: &str) -> usize {
        let ended = |message: &&Value| message["type"] == "turn.complete";
        self.kept
            .get(session)
            .map_or(0, |said| said.iter().filter(ended).count())
    }

    /// Closes the adapter's stdin and awaits its exit.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
        self.exit();
    }

    /// Sends SIGTERM, with stdin left open, and awaits the exit.
    pub(crate) fn terminate(&mut self) {
        kill_process(Pid::from_child(&self.program.child), Signal::TERM).expect("it runs");
        self.exit();
    }

    /// Closes the adapter's stdin and proves that all of its output was expected.
    pub(crate) fn finish(mut self) {
        self.close_input();
        self.kept.retain(|_, said| !said.is_empty());
        assert!(
            self.kept.is_empty(),
            "more than was asked for: {:?}",
            self.kept
        );
    }

    fn exit(&mut self) {
        let (rest, status) = self.program.end(Instant::now() + EXIT);
        for line in rest {
            self.keep(&line);
        }
        assert_eq!(status.code(), Some(0), "{status}");
    }

    fn keep(&mut self, line: &[u8]) {
        let text = std::str::from_utf8(line).expect("a line is UTF-8 [frame.1]");
        assert!(
            !text.contains(['\r', '\u{2028}', '\u{2029}']),
            "raw in a line [frame.2]: {text:.300}"
        );
        let message: Value = serde_json::from_str(text).expect("a line is JSON [frame.9]");
        let session = message["session_id"]
            .as_str()
            .expect("each has its session [msg.1]")
            .to_owned();
        self.kept.entry(session).or_default().push_back(message);
    }
}

fn assert_same(is: &str, should: &str) {
    let brief = |text: &str| format!("{} bytes: {text:.200}", text.len());
    assert!(is == should, "heard {}\n, not {}", brief(is), brief(should));
}
