//! Clients that are slow, greedy or hostile.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{super::Home, Client, Daemon, SILENT, UP, head};

impl Client {
    /// Sends bytes as they are, and gives the connection.
    fn raw(&self, bytes: &[u8]) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        stream.set_read_timeout(Some(SILENT)).unwrap();
        // What is refused in the middle is closed in the middle.
        let _ = stream.write_all(bytes);
        BufReader::new(stream)
    }

    /// A head that names the host and the token.
    fn head(&self, line: &str) -> String {
        let token = self.token.as_deref().unwrap_or_default();
        format!(
            "{line}\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n",
            self.http
        )
    }
}

/// Each way to be refused has a problem document, leads nowhere else, and repeats no token.
#[test]
fn each_refusal_is_a_problem_that_leads_nowhere_and_tells_no_token() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["admin", "--all-sessions"]);
    let token = client.token.clone().unwrap();
    let id = client.open();
    let of = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let long = "x".repeat(300);
    let table = [
        ("GET", of("/events?after=x"), "", 400),
        ("GET", of("/history?limit=-1"), "", 400),
        ("GET", of("?no=such"), "", 200),
        ("GET", "/v1/sessions?limit=x".to_owned(), "", 400),
        ("GET", "/v1/sessions?no=such".to_owned(), "", 400),
        ("GET", "/v1/sessions?state=x".to_owned(), "", 422),
        ("POST", "/v1/sessions".to_owned(), "[", 400),
        ("POST", "/v1/sessions".to_owned(), "\u{0}", 400),
        ("POST", of("/inputs"), "{}", 400),
        ("POST", of("/inputs?wait=start"), "{\"content\":\"x\"}", 422),
        ("POST", of("/stop"), "{}", 409),
        ("PUT", "/v1/sessions".to_owned(), "", 405),
        ("OPTIONS", "/v1/sessions".to_owned(), "", 405),
        ("POST", "/".to_owned(), "", 405),
        ("GET", "/v1/pipe".to_owned(), "", 400),
        ("GET", "/v1/sessions/".to_owned(), "", 404),
        ("GET", "/v1/sessions//events".to_owned(), "", 404),
        ("GET", format!("/v1/sessions/{long}"), "", 404),
        ("GET", of("/files/%2e%2e"), "", 404),
        ("GET", of("/files/%2Fetc%2Fpasswd"), "", 404),
        ("GET", of("/../../tokens"), "", 404),
        ("GET", "/v1/sessions/%ff".to_owned(), "", 404),
        ("GET", "/v1/sessions/%0d%0aX:%20y".to_owned(), "", 404),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd".to_owned(), "", 404),
        ("GET", "//v1/me".to_owned(), "", 404),
        ("GET", "/v1/me/".to_owned(), "", 404),
        ("DELETE", "/v1/tokens/none".to_owned(), "", 404),
    ];
    for (method, path, body, status) in table {
        let answer = client.ask_with(method, &path, &[], body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert!(!answer.headers.contains_key("location"), "{answer:?}");
        assert!(!format!("{answer:?}").contains(&token), "{answer:?}");
        if status >= 400 {
            let problem = answer.must_be(status).json();
            assert!(!problem["detail"].as_str().unwrap().is_empty(), "{problem}");
        }
    }
    client
        .ask_with("GET", &of("/events"), &[("Last-Event-ID", "x")], "")
        .must_be(422);
    client
        .ask_with(
            "POST",
            &of("/inputs"),
            &[("Idempotency-Key", &long)],
            "{\"content\":\"x\"}",
        )
        .must_be(422);
    daemon
        .stranger()
        .ask_with("GET", "/v1/me", &[("Authorization", "Basic eDp5")], "")
        .must_be(401);

    // Heads that cannot be, and bodies that are cut. All but the last are no request at all.
    let half =
        client.head("POST /v1/sessions HTTP/1.1") + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a\"";
    for (bytes, statuses) in [
        (
            client.head(&format!("GET /v1/sessions/{} HTTP/1.1", "y".repeat(10_000))) + "\r\n",
            [431, 414],
        ),
        (
            client.head("GET /v1/sessions/\u{0} HTTP/1.1") + "\r\n",
            [400, 400],
        ),
        (
            client.head("GET /v1/me HTTP/1.1") + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
            [400, 400],
        ),
        (
            client.head("GET /v1/me HTTP/1.1") + &"X: y\r\n".repeat(200) + "\r\n",
            [431, 431],
        ),
        (client.head("GET /v1/me HTTP/9.9") + "\r\n", [400, 400]),
        (half, [400, 400]),
    ] {
        let mut answered = client.raw(bytes.as_bytes());
        // It may have been closed already.
        let _ = answered.get_ref().shutdown(std::net::Shutdown::Write);
        let status = head(&mut answered).0;
        // A head without its end need not be answered.
        assert!(
            statuses.contains(&status),
            "{status}: {:?}",
            &bytes[..bytes.len().min(60)]
        );
    }
    client.get("/v1/me").must_be(200);
    daemon.down();
}

/// Each request names the cause of its refusal, also before its body is sent.
#[test]
fn bodies_that_are_no_plain_object_are_refused_by_their_cause() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    let inputs = format!("/v1/sessions/{id}/inputs");
    let object = r#"{"content": "x"}"#;
    for (path, headers, body, status, cause) in [
        (
            "/v1/sessions",
            &[][..],
            r#"["my", null, {}]"#,
            400,
            "object",
        ),
        (&inputs, &[], r#"["x"]"#, 400, "object"),
        (&inputs, &[], "\"x\"", 400, "object"),
        (
            &inputs,
            &[("Content-Encoding", "gzip")],
            object,
            415,
            "Content-Encoding",
        ),
        (
            &inputs,
            &[("Content-Encoding", "identity")],
            object,
            202,
            "",
        ),
    ] {
        let answer = client.ask_with("POST", path, headers, body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert!(answer.body.contains(cause), "{body}: {answer:?}");
    }
    for (more, body, status) in [
        (
            "Transfer-Encoding: gzip, chunked",
            "10\r\n{\"content\": \"x\"}\r\n0\r\n\r\n",
            501,
        ),
        (
            "Transfer-Encoding: chunked",
            "10\r\n{\"content\": \"x\"}\r\n0\r\n\r\n",
            202,
        ),
        // The client gets no `100 Continue`.
        (
            "Expect: 100-continue\r\nContent-Length: 99999999999",
            "",
            413,
        ),
    ] {
        let request = client.head(&format!("POST {inputs} HTTP/1.1")) + more + "\r\n\r\n" + body;
        assert_eq!(
            head(&mut client.raw(request.as_bytes())).0,
            status,
            "{more}"
        );
    }
    // Names of files, and a schema, which any agent might get.
    let files = format!("/v1/sessions/{id}/files?name=");
    for name in ["%E2%80%AE.txt", "a%0Ab", "%1b"] {
        client
            .ask_with("PUT", &format!("{files}{name}"), &[], "x")
            .must_be(422);
    }
    let uploaded = client.ask_with("PUT", &format!("{files}a.txt"), &[], "x");
    let sha256 = &uploaded.must_be(201).json()["sha256"];
    let file = json!({ "sha256": sha256, "name": "\u{202e}.txt" });
    let input = json!({ "content": "x", "files": [file] });
    client.post(&inputs, &input).must_be(422);
    let long = json!({ "description": "x".repeat(64 * 1024) });
    for schema in [json!("x"), json!(5), json!([1]), json!(true), long] {
        let options = json!({ "options": { "output_schema": schema } });
        let refused = client.post("/v1/sessions", &options).must_be(422);
        assert!(refused.body.contains("output_schema"), "{refused:?}");
    }
    let options = json!({ "options": { "output_schema": { "type": "object" } } });
    client.post("/v1/sessions", &options).must_be(201);
    daemon.down();
}

/// Many clients read only after they have sent the whole body.
#[test]
fn a_client_that_sends_all_before_it_reads_gets_the_refusal_of_its_upload() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let stranger = daemon.stranger();
    let id = client.open();
    // More than the buffers of a connection hold.
    let body = vec![b'x'; 24 << 20];
    let inputs = format!("POST /v1/sessions/{id}/inputs HTTP/1.1");
    let files = "PUT /v1/sessions/none/files HTTP/1.1".to_owned();
    let length = format!("Content-Length: {}\r\n\r\n", body.len());
    for (client, line, expected) in [
        (&client, &inputs, "413"),
        (&client, &files, "404"),
        (&stranger, &files, "401"),
    ] {
        let request = [(client.head(line) + &length).as_bytes(), &body].concat();
        let mut network = TcpStream::connect(&client.http).unwrap();
        network.set_read_timeout(Some(SILENT)).unwrap();
        network.write_all(&request).unwrap();
        let mut answers = vec![String::new()];
        network.read_to_string(&mut answers[0]).unwrap();
        if expected != "401" {
            let socket = home.path().join("state/journal/host.sock");
            let mut socket = UnixStream::connect(socket).unwrap();
            socket.set_read_timeout(Some(SILENT)).unwrap();
            socket.write_all(&request).unwrap();
            answers.push(String::new());
            socket.read_to_string(&mut answers[1]).unwrap();
        }
        for answer in answers {
            let is_expected = answer.starts_with(&format!("HTTP/1.1 {expected} "));
            assert!(is_expected, "{line}: {answer}");
            assert!(answer.contains("application/problem+json"), "{answer}");
        }
    }
    daemon.down();
}

#[test]
fn the_token_is_in_no_log() {
    let home = Home::new();
    let mut up = home.command(UP);
    up.args(["--log-file", "log"]).env("TRUNKLINE_LOG", "trace");
    let daemon = Daemon::spawn(&home, &mut up);
    let client = daemon.token(&["admin", "--all-sessions"]);
    let id = client.open();
    client.turn(&id, "hello");
    assert!(client.events(&id, 0).next().is_some());
    let made = client
        .post("/v1/tokens", &json!({ "scope": "observe" }))
        .must_be(201)
        .json();
    let wrong = format!("{}0", client.token.as_ref().unwrap());
    Client {
        token: Some(wrong.clone()),
        ..client.clone()
    }
    .get("/v1/me")
    .must_be(401);
    // A byte at a wrong place.
    client.get(&format!("/v1/sessions/{wrong}")).must_be(404);
    client
        .ask_with("GET", "/v1/me", &[("Host", &wrong)], "")
        .must_be(421);
    let ws = client.head("GET /v1/pipe HTTP/1.1")
        + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    assert_eq!(head(&mut client.raw(ws.as_bytes())).0, 101);
    let secrets = [
        client.token.clone().unwrap(),
        made["token"].as_str().unwrap().to_owned(),
    ];
    daemon.down();
    let log = std::fs::read_to_string(home.path().join("log")).unwrap();
    assert!(log.contains(&id), "it tells what happens");
    for secret in secrets {
        let (_, last) = secret.rsplit_once('_').unwrap();
        assert!(!log.contains(last), "{log}");
    }
}

#[test]
fn who_reads_no_events_holds_nothing_up_and_loses_nothing() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    // It reads nothing for now: the output fits into no socket's buffer.
    let mut slow = client.events(&id, 0);
    let mut quick = client.events(&id, 0);
    let content = "z".repeat(256 * 1024);
    for number in 0..60 {
        assert_eq!(
            client.turn(&id, &format!("{number} {content}"))["end"]["status"],
            "completed"
        );
    }
    let last = client.get(&format!("/v1/sessions/{id}")).json()["last_seq"]
        .as_u64()
        .unwrap();
    for reader in [&mut quick, &mut slow] {
        let numbers: Vec<_> = std::iter::from_fn(|| reader.next())
            .map(|(seq, _)| seq)
            .take(last as usize)
            .collect();
        assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
    }
    daemon.down();
}

/// What a process has of something in /proc.
fn descriptors(daemon: &Daemon<'_>) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", daemon.child.id()))
        .unwrap()
        .count()
}

fn resident(daemon: &Daemon<'_>) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_stream_that_waits_holds_one_descriptor() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    client.turn(&id, "before");
    let before = descriptors(&daemon);
    let mut streams: Vec<_> = (0..64).map(|_| client.events(&id, 0)).collect();
    for stream in &mut streams {
        stream.until("turn.complete");
    }
    // Each has sent everything, and waits: its reader is closed. New entries still arrive.
    client.turn(&id, "now");
    for stream in &mut streams {
        stream.until("turn.complete");
    }
    assert!(
        descriptors(&daemon) <= before + streams.len() + 8,
        "{before} {}",
        descriptors(&daemon)
    );
    daemon.down();
}

#[test]
fn a_message_of_100_mb_is_refused_before_it_is_there() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let ws = client.head("GET /v1/pipe HTTP/1.1")
        + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let upgraded = || {
        let mut stream = client.raw(ws.as_bytes());
        assert_eq!(head(&mut stream).0, 101);
        stream
    };
    let before = resident(&daemon);
    let size = 100_000_000u64;
    let mask = [0; 4];
    // In one frame, and in many continued ones.
    let mut one = upgraded();
    let mut frame = vec![0x81, 0xff];
    frame.extend(size.to_be_bytes());
    frame.extend(mask);
    one.get_mut().write_all(&frame).unwrap();
    let mut many = upgraded();
    for number in 0..100 {
        let mut frame = vec![u8::from(number == 0), 0xff];
        frame.extend((size / 100).to_be_bytes());
        frame.extend(mask);
        frame.resize(frame.len() + 1_000_000, b' ');
        if many.get_mut().write_all(&frame).is_err() {
            break;
        }
    }
    for mut stream in [one, many] {
        let mut rest = Vec::new();
        // Closed, or broken where something of it was not read.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 4096, "{}", rest.len());
    }
    let more = resident(&daemon).saturating_sub(before);
    assert!(more < 64 * 1024, "{more} kB more");
    client.turn(&client.open(), "still here");
    daemon.down();
}

/// Clients without a token, each with a message of 15 MiB of which a part has come.
fn strangers(daemon: &Daemon<'_>, count: usize) -> Vec<BufReader<TcpStream>> {
    let head = format!(
        "GET /v1/pipe HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        daemon.stranger().http
    );
    let mut frame = vec![0x81, 0xff];
    frame.extend((15u64 << 20).to_be_bytes());
    frame.resize(128 * 1024, b' ');
    let opened = |_| {
        let stream = daemon.stranger().raw(head.as_bytes());
        stream.get_ref().set_nonblocking(true).unwrap();
        let _ = stream.get_ref().write_all(&frame);
        stream
    };
    (0..count).map(opened).collect()
}

/// The figures of docs/bounds.md, which `--nocapture` prints.
#[test]
fn each_kind_of_client_costs_a_bounded_amount_of_memory() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    client.turn(&id, "before");
    let half = client.head("GET /v1/me HTTP/1.1");
    let events = |headers: &[(&str, &str)]| {
        let path = format!("/v1/sessions/{id}/events");
        let mut stream = client.send("GET", &path, headers, "");
        assert_eq!(head(&mut stream).0, 200);
        stream
    };
    let mut open = Vec::new();
    let mut measure = |name: &str, count: u64, most: u64, connect: &dyn Fn() -> _| {
        let before = resident(&daemon);
        open.extend((0..count).map(|_| connect()));
        client.turn(&id, "beside them");
        let each = resident(&daemon).saturating_sub(before) / count;
        println!("{name}: {each} KiB");
        assert!(each < most, "{name}: {each} KiB each");
    };
    let gzip = [("Accept-Encoding", "gzip")];
    measure("event stream", 100, 64, &|| events(&[]));
    measure("compressed event stream", 64, 512, &|| events(&gzip));
    measure("event stream past the limit", 50, 64, &|| events(&gzip));
    measure("half a head", 200, 32, &|| client.raw(half.as_bytes()));
    let pipe = || strangers(&daemon, 1).pop().unwrap();
    measure("pipe without a token", 200, 80, &pipe);
    drop(open);
    daemon.down();
}

#[test]
fn a_thousand_clients_without_a_token_cost_little_and_keep_none_out() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    client.turn(&id, "before");
    let before = resident(&daemon);
    let some = strangers(&daemon, 1000);
    let mut most = 0;
    for _ in 0..20 {
        client.turn(&id, "among them");
        most = most.max(resident(&daemon));
    }
    let more = most.saturating_sub(before);
    assert!(
        more < 64 * 1024,
        "{more} kB more for {} strangers",
        some.len()
    );
    // Past the limit the oldest make room, and a client with a token is none of them.
    let waiting = client.events(&id, 0);
    let others = strangers(&daemon, 300);
    let mut waiting = waiting;
    waiting.until("turn.complete");
    client.turn(&id, "still here");
    drop((some, others));
    daemon.down();
}

#[test]
fn connections_of_the_network_leave_room_for_this_user() {
    let home = Home::new();
    let limit = ["-c", "ulimit -n 128 && exec \"$@\"", "sh"];
    let daemon = Daemon::below(&home, "sh", &limit, &home.command(UP));
    let client = daemon.token(&["control"]);
    // As many as there may be, each with an answer: three quarters of the descriptors.
    let request = client.head("GET /v1/me HTTP/1.1") + "\r\n";
    let mut open: Vec<_> = (0..96).map(|_| client.raw(request.as_bytes())).collect();
    for stream in &mut open {
        assert_eq!(head(stream).0, 200);
    }
    // One more waits. This user does not.
    let mut waits = client.raw(request.as_bytes());
    let mut user = UnixStream::connect(home.path().join("state/journal/host.sock")).unwrap();
    user.set_read_timeout(Some(SILENT)).unwrap();
    user.write_all(b"GET /v1/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut said = String::new();
    user.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    waits.get_ref().set_nonblocking(true).unwrap();
    assert!(waits.fill_buf().is_err(), "it has no answer yet");
    waits.get_ref().set_nonblocking(false).unwrap();
    drop(open);
    assert_eq!(head(&mut waits).0, 200);
    drop(waits);
    daemon.down();
}

#[test]
fn silent_connections_keep_no_other_of_this_user_out() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let connect = || UnixStream::connect(home.path().join("state/journal/host.sock"));
    // More than there may be on the socket.
    let silent: Vec<_> = (0..1100).map(|_| connect().unwrap()).collect();
    let mut user = connect().unwrap();
    user.set_read_timeout(Some(SILENT)).unwrap();
    user.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let begun = Instant::now();
    let mut answer = String::new();
    user.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Without the shorter time it would be a minute.
    assert!(begun.elapsed() < Duration::from_secs(40));
    drop(silent);
    daemon.down();
}

/// The socket is this user: a path of this machine is its own.
#[test]
fn the_pipe_hides_paths_from_the_network_and_not_from_this_user() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let stream = UnixStream::connect(home.path().join("state/journal/host.sock")).unwrap();
    stream.set_read_timeout(Some(SILENT)).unwrap();
    let (mut hub, _) = tungstenite::client("ws://localhost/v1/pipe", stream).unwrap();
    let lines = [
        json!({"type": "session.start", "session_id": "s", "protocol": 1, "extensions": ["turns", "events"]}),
        json!({"type": "user.input", "session_id": "s", "content": "/file a.txt"}),
    ];
    hub.send(tungstenite::Message::text(format!(
        "{}\n{}\n",
        lines[0], lines[1]
    )))
    .unwrap();
    let told = loop {
        let message = hub.read().unwrap().into_text().unwrap();
        let told = message
            .lines()
            .find(|line| line.contains("\"file.output\""))
            .map(str::to_owned);
        if let Some(told) = told {
            break serde_json::from_str::<Value>(&told).unwrap();
        }
    };
    let path = told["file_path"].as_str().unwrap();
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        "a file named a.txt\n"
    );
    daemon.down();
}
