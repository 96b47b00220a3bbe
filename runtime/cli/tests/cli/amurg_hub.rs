//! `trunkline daemon connect amurg` below a real hub, whose program `TRUNKLINE_AMURG_HUB` names.

#![allow(
    clippy::needless_pass_by_value,
    reason = "frames are made where they are said"
)]

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use super::Home;

/// How long anything may take.
const SILENT: Duration = Duration::from_secs(60);

/// A process that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A person who uses the hub.
struct Person {
    address: String,
    token: String,
    socket: Option<WebSocket<TcpStream>>,
}

/// Asks until there is an answer of this kind: a program that starts has no other sign for all to see.
fn until<T>(what: &str, mut asked: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = asked() {
            return answer;
        }
        assert!(began.elapsed() < SILENT, "{what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

impl Person {
    /// Sends an HTTP request. `None` if no process listens.
    fn ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(SILENT)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: hub\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.token,
            body.len()
        );
        stream.write_all((head + body).as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, serde_json::from_str(body).unwrap_or_default()))
    }

    fn log_in(&mut self) {
        let body = json!({ "username": "admin", "password": "a-long-password" }).to_string();
        self.token = until("the hub does not start", || {
            let (_, answer) = self.ask("POST", "/api/auth/login", &body)?;
            answer["token"].as_str().map(str::to_owned)
        });
    }

    fn connect(&mut self) {
        let url = format!("ws://{}/ws/client?token={}", self.address, self.token);
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(SILENT)).unwrap();
        self.socket = Some(tungstenite::client(url, stream).unwrap().0);
    }

    fn say(&mut self, kind: &str, payload: Value) {
        let session = payload["session_id"].clone();
        let frame = json!({ "type": kind, "session_id": session, "payload": payload }).to_string();
        self.socket
            .as_mut()
            .unwrap()
            .send(Message::text(frame))
            .unwrap();
    }

    fn hears(&mut self, kind: &str) -> Value {
        loop {
            let Message::Text(text) = self.socket.as_mut().unwrap().read().unwrap() else {
                continue;
            };
            let frame: Value = serde_json::from_str(&text).unwrap();
            if frame["type"] == kind {
                return frame["payload"].clone();
            }
        }
    }

    /// Sends a message once the hub accepts it: the hub reports a turn's end before it has recorded it.
    fn message(&mut self, session: &str, id: &str, content: &str) {
        self.rests(session);
        self.say(
            "user.message",
            json!({ "session_id": session, "message_id": id, "content": content }),
        );
    }

    /// Waits until no turn runs in a session.
    fn rests(&self, session: &str) {
        until("the turn does not end", || {
            let (_, answer) = self.ask("GET", &format!("/api/sessions/{session}"), "")?;
            (answer["state"] == "active").then_some(())
        });
    }
}

#[test]
#[ignore = "wants a hub's program: TRUNKLINE_AMURG_HUB names it"]
fn people_of_a_real_hub_talk_to_the_agents_of_this_machine() {
    let program =
        std::env::var("TRUNKLINE_AMURG_HUB").expect("TRUNKLINE_AMURG_HUB names a hub's program");
    let home = Home::new();
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let path = |name: &str| home.path().join(name);
    let hub = json!({
        "server": { "addr": address, "file_storage_path": path("files") },
        "auth": {
            "jwt_secret": "0123456789abcdef0123456789abcdef0123",
            "runtime_tokens": [{ "runtime_id": "box", "token": "a-runtime-token" }],
            "initial_admin": { "username": "admin", "password": "a-long-password" },
        },
        "storage": { "driver": "sqlite", "dsn": path("hub.db") },
        "session": { "max_per_user": 100, "turn_based": true },
        "rate_limit": { "requests_per_second": 1000, "burst": 1000 },
    });
    let config = home.file("hub.json", &hub.to_string());
    let begin = || {
        let mut command = Command::new(&program);
        command
            .arg("run")
            .arg(&config)
            .current_dir(home.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Running(command.spawn().unwrap())
    };
    let running = begin();
    let mut person = Person {
        address: address.clone(),
        token: String::new(),
        socket: None,
    };
    person.log_in();

    home.file(
        "trunkline.json",
        r#"{"agents": [{"id": "echo", "profile": "echo"}]}"#,
    );
    let token = home.file("token", "a-runtime-token\n");
    std::fs::set_permissions(token, PermissionsExt::from_mode(0o600)).unwrap();
    let url = format!("ws://{address}");
    let mut command = home.command([
        "daemon",
        "connect",
        "amurg",
        "--hub",
        &url,
        "--runtime-id",
        "box",
        "--token-file",
        "token",
    ]);
    let _connector = Running(command.spawn().unwrap());

    let session = until("the runtime does not come", || {
        let (status, answer) = person.ask("POST", "/api/sessions", r#"{"agent_id":"box.echo"}"#)?;
        (status == 201).then(|| answer["id"].as_str().unwrap().to_owned())
    });
    person.connect();
    person.say(
        "client.subscribe",
        json!({ "session_id": session, "after_seq": 0 }),
    );
    person.message(&session, "00000000-0000-4000-8000-000000000001", "hello");
    assert_eq!(person.hears("agent.output")["content"], "hello");
    assert_eq!(person.hears("turn.completed")["exit_code"], 0);

    person.message(&session, "00000000-0000-4000-8000-000000000002", "/tool ls");
    let request = person.hears("permission.request");
    let decision =
        json!({ "session_id": session, "request_id": request["request_id"], "approved": true });
    person.say("permission.response", decision);
    assert_eq!(person.hears("agent.output")["channel"], "tool");
    person.hears("turn.completed");

    person.message(
        &session,
        "00000000-0000-4000-8000-000000000003",
        "/file a.txt",
    );
    let output = std::iter::repeat_with(|| person.hears("agent.output"))
        .find(|output| output["channel"] == "file");
    assert!(output.is_some());
    person.hears("turn.completed");

    person.message(
        &session,
        "00000000-0000-4000-8000-000000000004",
        "/sleep 3600",
    );
    person.hears("turn.started");
    person.say("stop.request", json!({ "session_id": session }));
    person.hears("stop.ack");
    person.hears("turn.completed");

    let limits = json!({ "limits": { "max_sessions": 5, "idle_timeout": "10m" } }).to_string();
    let (status, answer) = person
        .ask("PUT", "/api/admin/agents/box.echo/config", &limits)
        .unwrap();
    assert_eq!(status, 200, "{answer}");
    let widens = json!({ "security": { "permission_mode": "skip" } }).to_string();
    assert_eq!(
        person
            .ask("PUT", "/api/admin/agents/box.echo/config", &widens)
            .unwrap()
            .0,
        409
    );

    // The hub ends in a turn, and comes back.
    person.message(&session, "00000000-0000-4000-8000-000000000005", "/sleep 5");
    person.hears("turn.started");
    drop(running);
    let _running = begin();
    person.log_in();
    person.connect();
    // It has the end of the turn, which continued, and accepts the next message.
    person.rests(&session);
    person.say(
        "client.subscribe",
        json!({ "session_id": session, "after_seq": 1_000_000 }),
    );
    person.message(&session, "00000000-0000-4000-8000-000000000006", "again");
    let output = std::iter::repeat_with(|| person.hears("agent.output"))
        .find(|output| output["content"] == "again");
    assert!(output.is_some());
    assert_eq!(person.hears("turn.completed")["exit_code"], 0);
}
