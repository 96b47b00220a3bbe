//! The hub's side of a relay, by hand: lines in, lines out.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    time::timeout,
};

/// Timeout for messages that must come.
pub const SOON: Duration = Duration::from_secs(20);

/// A hub at the other end of a relay's pipes.
pub struct Hub {
    input: Option<Lines>,
    output: BufReader<ReadHalf<DuplexStream>>,
}

/// The relay's input.
pub struct Lines(WriteHalf<DuplexStream>);

impl Lines {
    /// Writes a line as it is.
    pub async fn write(&mut self, line: &str) {
        self.0.write_all(line.as_bytes()).await.unwrap();
        self.0.write_all(b"\n").await.unwrap();
    }
}

/// All extensions.
pub const ALL: [&str; 9] = [
    "turns",
    "events",
    "usage",
    "resume",
    "options",
    "questions",
    "flow",
    "control",
    "large",
];

impl Hub {
    pub fn new(pipe: DuplexStream) -> Self {
        let (output, input) = tokio::io::split(pipe);
        Self {
            input: Some(Lines(input)),
            output: BufReader::new(output),
        }
    }

    /// Writes a line as it is.
    pub async fn write(&mut self, line: &str) {
        self.input
            .as_mut()
            .expect("the hub has not closed its side")
            .write(line)
            .await;
    }

    /// Lends the relay's input to a task that writes while the test does not.
    pub fn lend_input(&mut self) -> Lines {
        self.input.take().expect("the hub has not closed its side")
    }

    pub fn return_input(&mut self, input: Lines) {
        self.input = Some(input);
    }

    pub async fn say(&mut self, message: Value) {
        self.write(&message.to_string()).await;
    }

    /// Opens a session with all extensions and receives the `session.ready`.
    pub async fn start(&mut self, id: &str) -> Value {
        self.start_with(id, &ALL, json!({})).await
    }

    pub async fn start_with(&mut self, id: &str, extensions: &[&str], more: Value) -> Value {
        let mut start = json!({"type": "session.start", "session_id": id, "protocol": 1, "extensions": extensions});
        start
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.say(start).await;
        let ready = self.hear().await;
        assert_eq!(ready["type"], "session.ready", "{ready}");
        assert_eq!(ready["session_id"], id);
        ready
    }

    /// Opens a session as a hub that knows only the core.
    pub async fn start_core(&mut self, id: &str) {
        self.say(json!({"type": "session.start", "session_id": id}))
            .await;
    }

    pub async fn input(&mut self, id: &str, turn: &str, content: &str) {
        self.say(
            json!({"type": "user.input", "session_id": id, "turn_id": turn, "content": content}),
        )
        .await;
    }

    pub async fn input_core(&mut self, id: &str, content: &str) {
        self.say(json!({"type": "user.input", "session_id": id, "content": content}))
            .await;
    }

    /// Returns the next message.
    pub async fn hear(&mut self) -> Value {
        self.hear_or_end().await.expect("the relay has more to say")
    }

    /// Returns the next message, or `None` at the end of the relay's output.
    pub async fn hear_or_end(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = timeout(SOON, self.output.read_line(&mut line))
            .await
            .expect("a message comes soon")
            .unwrap();
        (read > 0).then(|| serde_json::from_str(&line).expect("a line is JSON"))
    }

    /// Returns the next message, which must have this type.
    pub async fn expect(&mut self, kind: &str) -> Value {
        let message = self.hear().await;
        assert_eq!(message["type"], kind, "{message}");
        message
    }

    /// Skips messages until one of this type comes.
    pub async fn until(&mut self, kind: &str) -> Value {
        loop {
            let message = self.hear().await;
            if message["type"] == kind {
                return message;
            }
        }
    }

    /// Returns all messages up to the end of the relay's output.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(message) = self.hear_or_end().await {
            all.push(message);
        }
        all
    }

    /// Asserts that nothing comes for a while of (virtual) time.
    pub async fn hears_nothing(&mut self) {
        let mut line = String::new();
        if timeout(Duration::from_secs(2), self.output.read_line(&mut line))
            .await
            .is_ok()
        {
            panic!("nothing was to come, but: {line}");
        }
    }

    /// Ends the relay's input.
    pub async fn hang_up(&mut self) {
        self.input.take().expect("once").0.shutdown().await.unwrap();
    }
}
