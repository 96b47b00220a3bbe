//! `trunkline daemon connect amurg` below a hub of a few lines: with a daemon, and as a host itself.

#![allow(
    clippy::needless_pass_by_value,
    reason = "frames are made where they are said"
)]

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use super::{Home, gateway::Daemon};

/// Timeout for an answer: a test that hangs does not show the place.
const SILENT: Duration = Duration::from_secs(120);

const CONFIG: &str =
    r#"{"agents": [{"id": "echo", "profile": "echo"}, {"id": "hidden", "profile": "echo"}]}"#;

/// A token, and what no log may hold of it.
const TOKEN: &str = "r:1795323824:1d3ac24517acd0ff";

/// The hub's end of a runtime's connection.
struct Hub {
    socket: WebSocket<TcpStream>,
}

impl Hub {
    /// Takes the next runtime. Gives its hello, too.
    fn take(listener: &TcpListener) -> (Self, Value) {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(SILENT)).unwrap();
        let mut hub = Self {
            socket: tungstenite::accept(stream).unwrap(),
        };
        let hello = hub.until("runtime.hello");
        hub.say("hello.ack", json!({ "ok": true }));
        (hub, hello)
    }

    fn say(&mut self, kind: &str, payload: Value) {
        self.socket
            .send(Message::text(
                json!({ "type": kind, "payload": payload }).to_string(),
            ))
            .unwrap();
    }

    fn next(&mut self) -> (String, Value) {
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else {
                continue;
            };
            let frame: Value = serde_json::from_str(&text).unwrap();
            return (
                frame["type"].as_str().unwrap().to_owned(),
                frame["payload"].clone(),
            );
        }
    }

    fn until(&mut self, kind: &str) -> Value {
        std::iter::repeat_with(|| self.next())
            .find(|(heard, _)| heard == kind)
            .unwrap()
            .1
    }

    fn message(&mut self, id: &str, content: &str) {
        let payload = json!({ "session_id": "s", "message_id": id, "content": content, "agent_id": "r.echo",
            "user_id": "u", "prompt_profile": "standard" });
        self.say("user.message", payload);
    }

    /// Runs a turn. Returns its texts, each with its channel.
    fn turn(&mut self, id: &str, content: &str) -> Vec<(String, String)> {
        self.message(id, content);
        self.end(id)
    }

    fn end(&mut self, id: &str) -> Vec<(String, String)> {
        let mut said = Vec::new();
        loop {
            let (kind, payload) = self.next();
            let text = |name: &str| payload[name].as_str().unwrap_or_default().to_owned();
            match kind.as_str() {
                "agent.output" => said.push((text("channel"), text("content"))),
                "file.available" => said.push(("file".to_owned(), text("data"))),
                "permission.request" => {
                    let session_id = &payload["session_id"];
                    let request_id = &payload["request_id"];
                    let approved = !text("resource").contains("rm") && !text("tool").contains("rm");
                    let decision = json!({ "session_id": session_id, "request_id": request_id, "approved": approved });
                    self.say("permission.response", decision);
                }
                "turn.completed" => {
                    assert_eq!(payload["in_response_to"], id);
                    return said;
                }
                _ => {}
            }
        }
    }
}

/// The program, and the file of what it logs.
struct Connector(Child, PathBuf);

impl Connector {
    fn begin(home: &Home, listener: &TcpListener, more: &[&str]) -> Self {
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let arguments = [
            "-vvv",
            "daemon",
            "connect",
            "amurg",
            "--hub",
            &url,
            "--runtime-id",
            "r",
            "--token-file",
            "token",
        ];
        Self::begin_with(home, &[&arguments, more].concat())
    }

    fn begin_with(home: &Home, arguments: &[&str]) -> Self {
        let mut command = home.command(arguments);
        command
            .env("TRUNKLINE_STATE", home.path().join("state"))
            .env("RUST_LOG", "trace");
        let log = home.path().join("log");
        Self(
            command.stderr(File::create(&log).unwrap()).spawn().unwrap(),
            log,
        )
    }

    /// Ends it, and gives what it logged.
    fn end(mut self) -> String {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        let code = self.0.wait().unwrap().code();
        let log = fs::read_to_string(&self.1).unwrap();
        assert_eq!(code, Some(0), "{log}");
        log
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn home() -> (Home, TcpListener) {
    let home = Home::new();
    home.file("trunkline.json", CONFIG);
    let token = home.file("token", &format!("{TOKEN}\n"));
    fs::set_permissions(token, PermissionsExt::from_mode(0o600)).unwrap();
    (home, TcpListener::bind("127.0.0.1:0").unwrap())
}

/// What a person does in the hub's page.
fn goes_through(hub: &mut Hub) {
    hub.say(
        "session.create",
        json!({ "session_id": "s", "agent_id": "r.echo", "user_id": "u" }),
    );
    let created = hub.until("session.created");
    assert_eq!(
        (&created["session_id"], &created["ok"]),
        (&json!("s"), &json!(true)),
        "{created}"
    );
    let stdout = |text: &str| ("stdout".to_owned(), text.to_owned());
    assert_eq!(hub.turn("m-1", "hello"), [stdout("hello")]);
    let tools = hub.turn("m-2", "/tool ls");
    let kinds: Vec<_> = tools
        .iter()
        .filter(|(channel, _)| channel == "tool")
        .map(|(_, text)| &text[..20])
        .collect();
    assert_eq!(kinds.len(), 2, "{tools:?}");
    let denied = hub.turn("m-3", "/tool rm");
    assert!(
        !denied
            .iter()
            .any(|(channel, text)| channel == "tool" && text.contains("\"is_error\":false")),
        "{denied:?}"
    );
    let file = hub.turn("m-4", "/file a.txt");
    assert!(
        file.iter()
            .any(|(channel, data)| channel == "file" && data == "YSBmaWxlIG5hbWVkIGEudHh0Cg=="),
        "{file:?}"
    );
    let failed = hub.turn("m-5", "/fail no luck");
    assert_eq!(
        failed.last().unwrap(),
        &("system".to_owned(), "the turn failed: no luck".to_owned())
    );
    // A turn that runs until it is stopped.
    hub.message("m-6", "/sleep 3600");
    hub.until("turn.started");
    hub.say("stop.request", json!({ "session_id": "s" }));
    assert_eq!(hub.until("stop.ack")["ok"], true);
    assert_eq!(hub.until("turn.completed")["exit_code"], 0);
    // What a person gives.
    let metadata = json!({ "file_id": "f", "name": "b.txt", "mime_type": "text/plain", "size": 3 });
    hub.say(
        "file.upload",
        json!({ "session_id": "s", "metadata": metadata, "data": "YWJj" }),
    );
    let with_file = hub.turn("m-7", "with a file");
    assert!(
        with_file.iter().all(|(channel, _)| channel == "stdout"),
        "{with_file:?}"
    );
}

#[test]
fn a_hub_uses_the_agents_of_a_host_in_the_same_process() {
    let (home, listener) = home();
    let connector = Connector::begin(&home, &listener, &["--agents", "echo"]);
    let (mut hub, hello) = Hub::take(&listener);
    assert_eq!(
        (&hello["token"], &hello["agents"][0]["id"]),
        (&json!(TOKEN), &json!("r.echo"))
    );
    assert_eq!(
        hello["agents"].as_array().unwrap().len(),
        1,
        "the other one is not the hub's"
    );
    goes_through(&mut hub);
    hub.say(
        "runtime.token_refresh",
        json!({ "token": "r:1795323999:secretsecret" }),
    );
    // Behind the next answer it is kept.
    hub.turn("m-8", "hello");
    assert_eq!(
        fs::read_to_string(home.path().join("token")).unwrap(),
        "r:1795323999:secretsecret\n"
    );
    // A turn that runs has its end.
    hub.message("m-9", "/sleep 3600");
    hub.until("turn.started");
    let log = std::thread::spawn(|| connector.end());
    assert_eq!(
        hub.end("m-9"),
        [("system".to_owned(), "the runtime ends".to_owned())]
    );
    let log = log.join().unwrap();
    for secret in ["1d3ac24517acd0ff", "secretsecret"] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn a_hub_uses_the_daemon_whose_journal_has_its_sessions() {
    let (home, listener) = home();
    let daemon = Daemon::up(&home);
    let connector = Connector::begin(&home, &listener, &[]);
    let (mut hub, hello) = Hub::take(&listener);
    assert_eq!(hello["agents"].as_array().unwrap().len(), 2);
    goes_through(&mut hub);
    let list = home.run(["sessions", "--journal", "state/journal", "list", "--json"]);
    let list: Value = serde_json::from_str(&list.must_end_with(0).stdout).unwrap();
    let sessions = list["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1);
    assert!(
        sessions[0]["session_id"]
            .as_str()
            .unwrap()
            .starts_with("r."),
        "{list}"
    );
    let log = connector.end();
    assert!(log.contains("the daemon runs the sessions"), "{log}");
    assert!(!log.contains("1d3ac24517acd0ff"), "{log}");
    daemon.down();
}

/// A session of the hub, with one turn.
fn answers(hub: &mut Hub, session: &str, agent: &Value) {
    hub.say(
        "session.create",
        json!({ "session_id": session, "agent_id": agent, "user_id": "u" }),
    );
    assert_eq!(hub.until("session.created")["ok"], true);
    hub.say(
        "user.message",
        json!({ "session_id": session, "message_id": session, "content": session, "agent_id": agent, "user_id": "u" }),
    );
    let said = hub.end(session);
    assert_eq!(said, [("stdout".to_owned(), session.to_owned())]);
}

#[test]
fn a_file_of_amurgs_runtime_is_enough_and_its_agents_keep_their_ids() {
    let (home, listener) = home();
    let file = json!({
        "Hub": {
            "url": format!("ws://{}/ws/runtime", listener.local_addr().unwrap()),
            "token": TOKEN,
            "reconnect_interval": "2s",
        },
        "runtime": { "ID": "box", "org_id": "o", "max_sessions": 1 },
        "agents": [{ "id": "echo", "profile": "echo" }],
    });
    let path = home.file("amurg.json", &file.to_string());
    let command = [
        "-vvv",
        "daemon",
        "connect",
        "amurg",
        "--no-daemon",
        "--config",
        "amurg.json",
    ];
    for (more, mode, runtime, agent) in [
        (&[][..], 0o600, "box", "echo"),
        (&["--runtime-id", "other"], 0o644, "other", "other.echo"),
    ] {
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let connector = Connector::begin_with(&home, &[&command, more].concat());
        let (mut hub, hello) = Hub::take(&listener);
        assert_eq!(
            (&hello["runtime_id"], &hello["token"], &hello["org_id"]),
            (&json!(runtime), &json!(TOKEN), &json!("o"))
        );
        assert_eq!(hello["agents"][0]["id"], agent);
        // The host's limit is one session.
        for session in ["s-1", "s-2", "s-1"] {
            answers(&mut hub, session, &json!(agent));
        }
        let log = connector.end();
        for unused in [
            "`hub` has no effect",
            "`runtime.id` has",
            "`runtime.org_id` has",
        ] {
            assert!(!log.contains(unused), "{log}");
        }
        assert!(
            log.contains("`hub.reconnect_interval` has no effect"),
            "{log}"
        );
        assert_eq!(
            log.contains("other users can read amurg.json"),
            mode == 0o644,
            "{log}"
        );
        assert!(!log.contains("1d3ac24517acd0ff"), "{log}");
    }
}

#[test]
fn what_no_option_and_no_file_has_is_named() {
    let (home, _) = home();
    let hub = json!({ "url": "ws://127.0.0.1:9" });
    let agents = json!([{ "id": "echo", "profile": "echo" }]);
    for (hub, runtime, says) in [
        (json!({}), json!({}), "the hub is missing"),
        (hub.clone(), json!({}), "the id of the runtime is missing"),
        (hub.clone(), json!({ "id": "b" }), "the token is missing"),
        (
            hub,
            json!({ "id": "a b" }),
            "`runtime.id` of the configuration",
        ),
        (
            json!({ "url": "x" }),
            json!({}),
            "`hub.url` of the configuration",
        ),
        (
            json!({ "url": "ws://10.0.0.1/ws/runtime" }),
            json!({}),
            "--insecure",
        ),
    ] {
        let file = json!({ "hub": hub, "runtime": runtime, "agents": agents });
        home.file("amurg.json", &file.to_string());
        let ran = home.run(["daemon", "connect", "amurg", "--config", "amurg.json"]);
        ran.must_end_with(2).must_say(says);
    }
    // A file that the command line does not name is no reason to connect.
    let file = json!({ "hub": { "url": "ws://127.0.0.1:9", "token": "t" }, "runtime": { "id": "b" }, "agents": agents });
    home.file("trunkline.json", &file.to_string());
    home.run(["daemon", "connect", "amurg"])
        .must_end_with(2)
        .must_say("the hub is missing");
    home.run([
        "daemon",
        "connect",
        "amurg",
        "--hub",
        "ws://127.0.0.1:9",
        "--init",
    ])
    .must_end_with(2)
    .must_say("--token-file");
}

#[test]
fn what_would_show_the_token_is_refused_before_it_is_read() {
    let (home, _) = home();
    let run = |more: &[&str]| {
        home.run(
            [
                &[
                    "daemon",
                    "connect",
                    "amurg",
                    "--runtime-id",
                    "r",
                    "--token-file",
                    "token",
                ],
                more,
            ]
            .concat(),
        )
    };
    run(&["--hub", "ws://hub.example.org"])
        .must_end_with(2)
        .must_say("--insecure");
    run(&["--hub", "http://10.0.0.1:80"])
        .must_end_with(2)
        .must_say("would expose the token to the network");
    fs::set_permissions(home.path().join("token"), PermissionsExt::from_mode(0o644)).unwrap();
    run(&["--hub", "ws://127.0.0.1:9"])
        .must_end_with(2)
        .must_say("; run chmod 600 ");
    fs::remove_file(home.path().join("token")).unwrap();
    run(&["--hub", "ws://127.0.0.1:9"])
        .must_end_with(2)
        .must_say("cannot be read");
}

#[test]
fn a_token_is_asked_for_by_a_code_that_an_administrator_approves() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answers = [
        json!({ "user_code": "ABCD-EFGH", "verification_url": "http://hub/\u{1b}[31mx", "polling_token": "p",
            "expires_in": 300, "interval": 0 }),
        json!({ "status": "pending" }),
        json!({ "status": "approved", "token": "rt_secret", "runtime_id": "box-1", "org_id": "o" }),
    ];
    let hub = std::thread::spawn(move || {
        answers.map(|answer| {
            let (mut stream, _) = listener.accept().unwrap();
            let asked = request(&mut stream);
            let body = answer.to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all((head + &body).as_bytes()).unwrap();
            asked
        })
    });
    let ran = home.run([
        "daemon",
        "connect",
        "amurg",
        "--hub",
        &url,
        "--token-file",
        "token",
        "--init",
    ]);
    ran.must_end_with(0)
        .must_say("approve the code ABCD-EFGH")
        .must_say("--runtime-id box-1");
    assert!(
        !ran.stderr.contains('\u{1b}') && !ran.stderr.contains("rt_secret"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        fs::read_to_string(home.path().join("token")).unwrap(),
        "rt_secret\n"
    );
    let asked = hub.join().unwrap();
    assert!(
        asked[0].starts_with("POST /api/runtime/register HTTP/1.1"),
        "{asked:?}"
    );
    assert!(
        asked[2].starts_with("POST /api/runtime/register/poll ")
            && asked[2].ends_with(r#"{"polling_token":"p"}"#)
    );
}

/// A request of HTTP, whole.
fn request(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    let length = loop {
        stream.read_exact(&mut byte).unwrap();
        text.push(byte[0]);
        if text.ends_with(b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&text).to_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
            break length.unwrap_or(0);
        }
    };
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    text.extend(body);
    String::from_utf8(text).unwrap()
}

/// The lines of Amurg's own runtime to a program of its profile `external`, and the answers that it
/// understands.
#[test]
fn amurgs_own_runtime_gets_what_it_knows_from_a_built_in_adapter_and_from_a_host() {
    let (home, _) = home();
    let known = [
        "type",
        "session_id",
        "content",
        "channel",
        "file_name",
        "file_mime_type",
        "file_path",
    ];
    for arguments in [&["adapter", "echo"][..], &["serve", "--agent", "echo"]] {
        let mut child = home
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut stdin = child.stdin.take().unwrap();
        for content in ["hello", "/file a.txt", "/fail no luck", "/plan a; b"] {
            if content == "hello" {
                writeln!(stdin, r#"{{"type":"session.start","session_id":"s"}}"#).unwrap();
            }
            writeln!(
                stdin,
                "{}",
                json!({ "type": "user.input", "session_id": "s", "content": content })
            )
            .unwrap();
            let mut kinds = Vec::new();
            while kinds.last().is_none_or(|kind| kind != "turn.complete") {
                let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
                let unknown = line
                    .as_object()
                    .unwrap()
                    .keys()
                    .find(|key| !known.contains(&key.as_str()));
                assert_eq!(unknown, None, "{arguments:?}: {line}");
                kinds.push(line["type"].as_str().unwrap().to_owned());
            }
            let expected = if content.starts_with("/file") {
                "file.output"
            } else {
                "output"
            };
            assert!(
                kinds.iter().any(|kind| kind == expected),
                "{arguments:?}: {kinds:?}"
            );
        }
        writeln!(stdin, r#"{{"type":"session.close","session_id":"s"}}"#).unwrap();
        drop(stdin);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{arguments:?}");
    }
}
