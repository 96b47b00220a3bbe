//! A scripted adapter below the relay: the test sends each message by hand.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream},
    sync::mpsc,
    time::timeout,
};

use crate::hub::{ALL, SOON};

/// A run of an adapter.
pub struct Adapter {
    input: BufReader<DuplexStream>,
    output: DuplexStream,
}

/// The receiver of an adapter's runs.
pub struct Adapters(mpsc::Receiver<Adapter>);

/// Two pipes, each used one way, so that each can end by itself.
type Pipes = (DuplexStream, DuplexStream);

impl Adapters {
    /// Returns the runs, and the function that makes one for the host.
    pub fn new() -> (Self, impl FnMut() -> Pipes + Send + 'static) {
        let (runs, arrived) = mpsc::channel(16);
        let connect = move || {
            let (output, read) = tokio::io::duplex(64 * 1024);
            let (written, input) = tokio::io::duplex(64 * 1024);
            runs.try_send(Adapter {
                input: BufReader::new(input),
                output,
            })
            .expect("few runs");
            (read, written)
        };
        (Self(arrived), connect)
    }

    /// Waits for the next run.
    pub async fn next(&mut self) -> Adapter {
        timeout(SOON, self.0.recv())
            .await
            .expect("the host starts its adapter")
            .expect("the host is there")
    }
}

impl Adapter {
    pub async fn hear_or_end(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = timeout(SOON, self.input.read_line(&mut line))
            .await
            .expect("the host writes soon")
            .ok()?;
        (read > 0).then(|| serde_json::from_str(&line).expect("a line is JSON"))
    }

    pub async fn hear(&mut self) -> Value {
        self.hear_or_end().await.expect("the host has more to say")
    }

    /// Returns the next message, which must have this type.
    pub async fn expect(&mut self, kind: &str) -> Value {
        let message = self.hear().await;
        assert_eq!(message["type"], kind, "{message}");
        message
    }

    pub async fn hears_nothing(&mut self) {
        let mut line = String::new();
        if timeout(Duration::from_secs(2), self.input.read_line(&mut line))
            .await
            .is_ok()
        {
            panic!("nothing was to come, but: {line}");
        }
    }

    pub async fn write(&mut self, line: &str) {
        self.output.write_all(line.as_bytes()).await.unwrap();
        self.output.write_all(b"\n").await.unwrap();
    }

    pub async fn say(&mut self, message: Value) {
        self.write(&message.to_string()).await;
    }

    /// Receives a `session.start` and answers it with all extensions. Returns the wire's session
    /// id.
    pub async fn ready(&mut self) -> String {
        let start = self.expect("session.start").await;
        let id = start["session_id"].as_str().unwrap().to_owned();
        self.say(
            json!({"type": "session.ready", "session_id": id, "protocol": 1, "extensions": ALL}),
        )
        .await;
        id
    }

    /// Receives a `user.input` and returns its turn's id.
    pub async fn turn(&mut self) -> String {
        let input = self.expect("user.input").await;
        input["turn_id"]
            .as_str()
            .expect("the host mints a turn's id")
            .to_owned()
    }

    pub async fn output(&mut self, id: &str, turn: &str, content: &str) {
        self.say(json!({"type": "output", "session_id": id, "turn_id": turn, "content": content}))
            .await;
    }

    pub async fn complete(&mut self, id: &str, turn: &str) {
        self.say(json!({"type": "turn.complete", "session_id": id, "turn_id": turn}))
            .await;
    }
}
