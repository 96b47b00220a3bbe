//! The protocol itself over a WebSocket.

use std::net::TcpStream;

use serde_json::{Value, json};
use tungstenite::{Error, Message, WebSocket};

use super::{super::Home, Client, Daemon};

/// A hub at the other end of a WebSocket.
pub(super) struct Hub {
    socket: WebSocket<TcpStream>,
    /// Lines that came with others in one message.
    lines: Vec<String>,
}

impl Hub {
    pub(super) fn connect(client: &Client) -> Self {
        Self {
            socket: client.websocket("/v1/pipe").0,
            lines: Vec::new(),
        }
    }

    pub(super) fn say(&mut self, text: impl Into<String>) {
        self.socket.send(Message::text(text.into())).unwrap();
    }

    /// The next line; `None` when the pipe has ended.
    pub(super) fn hear(&mut self) -> Option<Value> {
        while self.lines.is_empty() {
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    assert!(text.ends_with('\n'), "a message holds whole lines");
                    self.lines = text.lines().rev().map(str::to_owned).collect();
                }
                Ok(Message::Close(_))
                | Err(Error::ConnectionClosed | Error::AlreadyClosed | Error::Protocol(_)) => {
                    return None;
                }
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
        self.lines
            .pop()
            .map(|line| serde_json::from_str(&line).unwrap())
    }

    pub(super) fn until(&mut self, kind: &str) -> Value {
        std::iter::from_fn(|| self.hear())
            .find(|message| message["type"] == kind)
            .expect("it has more to say")
    }
}

pub(super) fn start(id: &str, more: &Value) -> String {
    let mut start = json!({"type": "session.start", "session_id": id, "protocol": 1,
        "extensions": ["turns", "events", "control", "journal"]});
    start
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    start.to_string()
}

pub(super) fn attach(id: &str) -> String {
    json!({"type": "session.attach", "session_id": id, "after": 0, "protocol": 1, "role": "control",
        "extensions": ["turns", "events", "questions", "control", "journal"]})
    .to_string()
}

#[test]
fn a_hub_speaks_the_protocol_over_a_websocket_and_no_more_than_its_token_may() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let observer = daemon.token(&["observe", "--all-sessions"]);
    let mut hub = Hub::connect(&client);
    // Several lines in one message, and one without its end.
    hub.say(format!(
        "{}\n{}",
        start("mine", &json!({})),
        json!({"type": "user.input", "session_id": "mine", "turn_id": "t-1", "content": "over a socket"})
    ));
    assert_eq!(hub.until("output")["content"], "over a socket");
    assert_eq!(hub.until("turn.complete")["turn_id"], "t-1");
    hub.say(
        json!({"type": "user.input", "session_id": "mine", "content": "/file a.txt"}).to_string(),
    );
    let file = hub.until("file.output");
    assert!(
        file.get("file_path").is_none() && file["sha256"].is_string(),
        "{file}"
    );

    // A network is not this machine.
    hub.say(start("other", &json!({"cwd": "/"})));
    let closed = hub.until("session.closed");
    assert_eq!(
        (&closed["session_id"], &closed["reason"]),
        (&json!("other"), &json!("refused"))
    );
    hub.say(
        json!({"type": "file.input", "session_id": "mine", "file_path": "/etc/passwd"}).to_string(),
    );
    assert_eq!(hub.until("error")["category"], "permission_denied");
    let listed =
        json!({"type": "agents.list", "session_id": "", "request_id": "r", "sessions": 10});
    hub.say(listed.to_string());
    assert!(
        hub.until("agents.list.result").get("sessions").is_none(),
        "other hubs are not its business"
    );

    // The same session over the paths; a hub that goes ends nothing.
    assert_eq!(
        client.get("/v1/sessions/mine").must_be(200).json()["agent_id"],
        "echo"
    );
    let mut watching = Hub::connect(&observer);
    watching.say(attach("mine"));
    assert_eq!(watching.until("session.attached")["role"], "observe");
    watching.say(json!({"type": "stop", "session_id": "mine"}).to_string());
    assert_eq!(watching.until("error")["category"], "permission_denied");
    drop(hub);
    client.turn("mine", "still here");
    let heard =
        std::iter::from_fn(|| watching.hear()).any(|message| message["content"] == "still here");
    assert!(heard);

    // One of another token is not there.
    let mut stranger = Hub::connect(&daemon.token(&["control"]));
    stranger.say(attach("mine"));
    assert_eq!(stranger.until("session.refused")["reason"], "unknown");
    daemon.down();
}

#[test]
fn a_pipe_wants_a_good_token_and_ends_with_it() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    // A browser sends no header: its first message has the token.
    let mut browser = Hub::connect(&daemon.stranger());
    browser.say(json!({"type": "auth", "token": client.token}).to_string());
    browser.say(json!({"type": "ping", "session_id": "", "nonce": "n"}).to_string());
    assert_eq!(browser.until("pong")["nonce"], "n");
    for wrong in [
        json!({"type": "auth", "token": "tlk_x"}).to_string(),
        start("s", &json!({})),
        "x".to_owned(),
    ] {
        let mut stranger = Hub::connect(&daemon.stranger());
        stranger.say(wrong);
        assert_eq!(stranger.hear(), None, "it hears nothing");
    }
    daemon.revoke(&client);
    assert_eq!(browser.hear(), None, "the pipe ends with its token");
    daemon.down();
}
