//! A hub of one runtime, as a script: its test supplies the next frame.

#![allow(
    clippy::needless_pass_by_value,
    reason = "frames are made where they are said"
)]

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Error, Message},
};

/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(30);

/// The longest frame that Amurg's hub reads unless it is configured otherwise.
const MAX_FRAME: usize = 14_684_160;

pub(crate) struct Hub {
    listener: TcpListener,
    socket: Option<WebSocketStream<TcpStream>>,
}

impl Hub {
    pub(crate) async fn new() -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            socket: None,
        }
    }

    pub(crate) fn address(&self) -> String {
        format!("ws://{}", self.listener.local_addr().unwrap())
    }

    /// Waits for a runtime, and gives its hello.
    async fn hello(&mut self) -> Value {
        let (stream, _) = timeout(SOON, self.listener.accept())
            .await
            .expect("a connection")
            .unwrap();
        self.socket = Some(tokio_tungstenite::accept_async(stream).await.unwrap());
        self.hears("runtime.hello").await
    }

    /// Waits for a runtime, takes it, and gives its hello.
    pub(crate) async fn accept(&mut self) -> Value {
        let hello = self.hello().await;
        self.say("hello.ack", json!({ "ok": true })).await;
        hello
    }

    /// Waits for a runtime and refuses it.
    pub(crate) async fn refuse(&mut self, why: &str) {
        self.hello().await;
        self.say("hello.ack", json!({ "ok": false, "error": why }))
            .await;
        self.drop_connection();
    }

    /// Without a close, as a network does it.
    pub(crate) fn drop_connection(&mut self) {
        self.socket = None;
    }

    pub(crate) async fn send(&mut self, message: Message) {
        self.try_send(message).await.unwrap();
    }

    pub(crate) async fn try_send(&mut self, message: Message) -> Result<(), Error> {
        self.socket
            .as_mut()
            .expect("a connection")
            .send(message)
            .await
    }

    pub(crate) async fn say(&mut self, kind: &str, payload: Value) {
        // A time as Go writes it, and what is not known of the frame.
        let frame = json!({ "type": kind, "ts": "2026-11-22T05:03:29.183503929Z", "payload": payload, "new": [1] });
        self.send(Message::text(frame.to_string())).await;
    }

    /// The next frame, as type and payload.
    pub(crate) async fn next(&mut self) -> (String, Value) {
        let socket = self.socket.as_mut().expect("a connection");
        loop {
            let message = timeout(SOON, socket.next())
                .await
                .expect("a frame in time")
                .expect("a frame")
                .unwrap();
            let Message::Text(text) = message else {
                continue;
            };
            assert!(
                text.len() <= MAX_FRAME,
                "Amurg's hub would reset the connection"
            );
            let frame: Value = serde_json::from_str(&text).unwrap();
            return (
                frame["type"].as_str().unwrap().to_owned(),
                frame["payload"].clone(),
            );
        }
    }

    /// The next frame's payload, which must be of this type.
    pub(crate) async fn hears(&mut self, kind: &str) -> Value {
        let (heard, payload) = self.next().await;
        assert_eq!(heard, kind, "{payload}");
        payload
    }
}
