//! Rules that hold for all paths: statuses by the state of a session, and repeated requests.

use std::io::{BufRead, BufReader, Read};

use flate2::read::GzDecoder;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    super::Home,
    Answer, Client, Daemon, contract, head,
    pipe::{Hub, start},
};

/// A request to a session, and the status that it has when the session is closed.
struct SessionRequest {
    method: &'static str,
    path: &'static str,
    body: &'static str,
    if_closed: u16,
    /// True if a token of scope `observe` may send it.
    is_read: bool,
}

const SHA256: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const REQUESTS: [(&str, &str, &str, u16, bool); 14] = [
    ("GET", "", "", 200, true),
    ("GET", "/history", "", 200, true),
    ("GET", "/events?after=100000", "", 409, true),
    ("GET", "/files/SHA256", "", 404, true),
    ("POST", "/inputs", r#"{"content":"late"}"#, 409, false),
    (
        "POST",
        "/inputs?wait=end",
        r#"{"content":"late"}"#,
        409,
        false,
    ),
    (
        "POST",
        "/inputs",
        r#"{"content":"late","steer":"t"}"#,
        409,
        false,
    ),
    ("POST", "/stop", "{}", 409, false),
    ("POST", "/requests/r-1", r#"{"approved":false}"#, 409, false),
    ("POST", "/requests/r-1", r#"{"cancelled":true}"#, 409, false),
    (
        "POST",
        "/settings",
        r#"{"options":{"model":"m"}}"#,
        409,
        false,
    ),
    ("PUT", "/files?name=a", "a", 409, false),
    ("POST", "/fork", "{}", 201, false),
    ("PATCH", "", r#"{"title":"t"}"#, 204, false),
];

impl SessionRequest {
    fn all() -> impl Iterator<Item = Self> {
        REQUESTS
            .into_iter()
            .map(|(method, path, body, if_closed, is_read)| Self {
                method,
                path,
                body,
                if_closed,
                is_read,
            })
    }

    fn send(&self, client: &Client, id: &str) -> Answer {
        let path = format!("/v1/sessions/{id}{}", self.path.replace("SHA256", SHA256));
        client.ask_with(self.method, &path, &[], self.body)
    }

    #[track_caller]
    fn check(&self, client: &Client, id: &str, status: u16) {
        let answer = self.send(client, id);
        let name = format!("{} {} {}", self.method, self.path, self.body);
        assert_eq!(answer.status, status, "{name}: {answer:?}");
    }
}

#[test]
fn each_path_has_one_status_for_each_state_of_a_session() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control", "--approve"]);
    let reader = daemon.token(&["observe", "--all-sessions"]);
    let other = daemon.token(&["control", "--approve"]);
    let delete = |id: &str, query: &str| {
        client.ask_with("DELETE", &format!("/v1/sessions/{id}{query}"), &[], "")
    };
    let closed = client.open();
    let removed = client.open();
    delete(&closed, "").must_be(204);
    delete(&removed, "?remove=true").must_be(204);
    for request in SessionRequest::all() {
        request.check(&client, &closed, request.if_closed);
        let for_reader = if request.is_read {
            request.if_closed
        } else {
            403
        };
        request.check(&reader, &closed, for_reader);
        for id in [&*removed, "never", &"i".repeat(200)] {
            request.check(&client, id, 404);
        }
        // The session of another token is one that never was.
        request.check(&other, &closed, 404);
    }
    // A session is closed once, and removed once.
    delete(&closed, "").must_be(204);
    delete(&closed, "?remove=true").must_be(204);
    delete(&closed, "").must_be(404);
    delete("never", "").must_be(404);

    // Without a configuration, whether an agent is installed is not for a token.
    let unknown = json!({ "agent": "never" });
    client.post("/v1/sessions", &unknown).must_be(403);
    let narrow = daemon.token(&["control", "--agents", "another"]);
    narrow
        .post("/v1/sessions", &json!({ "agent": "echo" }))
        .must_be(403);
    for agent in ["never", "echo"] {
        let path = format!("/v1/agents/{agent}/conversations");
        narrow.get(&path).must_be(404);
    }

    // A daemon that ends takes no further work, and shows what it has.
    let id = client.open();
    client.input(&id, "/sleep 600").must_be(202);
    client.events(&id, 0).until("turn.begin");
    daemon.signal(Signal::TERM);
    while client.get("/readyz").status == 200 {}
    for (path, body) in [
        ("/v1/sessions", json!({})),
        (
            &format!("/v1/sessions/{id}/inputs"),
            json!({ "content": "late" }),
        ),
        (&format!("/v1/sessions/{id}/fork"), json!({})),
    ] {
        let refused = client.post(path, &body).must_be(503);
        assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    }
    client.get(&format!("/v1/sessions/{id}")).must_be(200);
}

/// Each scope is tried against each operation of the contract, whose declaration the router enforces.
#[test]
fn each_operation_needs_the_scope_of_its_declaration() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let scopes = ["observe", "control", "admin"];
    let clients = scopes.map(|scope| daemon.token(&[scope]));
    let mut counts = [0; 3];
    for (path, item) in contract::CONTRACT["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let description = operation["description"].as_str().unwrap_or_default();
            let needs = |scope: &str| description.contains(&format!("Needs the scope `{scope}`."));
            let Some(needed) = scopes.iter().position(|scope| needs(scope)) else {
                assert!(operation["security"].is_array(), "{method} {path}");
                continue;
            };
            counts[needed] += 1;
            let path = path.replace(['{', '}'], "");
            let method = method.to_uppercase();
            for client in &clients[..needed] {
                let refused = client.ask_with(&method, &path, &[], "{}").must_be(403);
                assert!(refused.body.contains("the token has scope"), "{refused:?}");
            }
            let stranger = daemon.stranger();
            stranger.ask_with(&method, &path, &[], "{}").must_be(401);
        }
    }
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
    // None of them had an effect.
    clients[2].get("/readyz").must_be(200);
    daemon.down();
}

/// A session of another token, a removed one and none have the same answers.
#[test]
fn a_token_learns_nothing_of_the_sessions_of_another_one() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let owner = daemon.token(&["control", "--approve"]);
    let outsider = daemon.token(&["control", "--approve"]);
    let open = owner.open();
    let removed = owner.open();
    owner.turn(&open, "hello");
    let remove = format!("/v1/sessions/{removed}?remove=true");
    owner.ask_with("DELETE", &remove, &[], "").must_be(204);
    let never = "0".repeat(32);
    let delete = |query| ("DELETE", query, "", 404, false);
    let requests = REQUESTS
        .into_iter()
        .chain([delete(""), delete("?remove=true")]);
    for (method, path, body, ..) in requests {
        let answers = [&open, &removed, &never].map(|id| {
            let path = format!("/v1/sessions/{id}{}", path.replace("SHA256", SHA256));
            let mut answer = outsider.ask_with(method, &path, &[], body);
            answer.headers.remove("date");
            (
                answer.status,
                answer.headers,
                answer.body.replace(&**id, "ID"),
            )
        });
        assert_eq!(answers[0], answers[2], "{method} {path}");
        assert_eq!(answers[1], answers[2], "{method} {path}");
    }
    let mut hub = Hub::connect(&outsider);
    for message in [
        json!({ "type": "session.attach", "after": 0 }),
        json!({ "type": "session.history", "request_id": "r" }),
        json!({ "type": "session.edit", "request_id": "r", "title": "t" }),
    ] {
        let answers = [&open, &removed, &never].map(|id| {
            let mut message = message.clone();
            message["session_id"] = json!(id);
            hub.say(format!("{message}\n"));
            hub.hear().unwrap().to_string().replace(&**id, "ID")
        });
        assert_eq!(answers[0], answers[2], "{message}");
        assert_eq!(answers[1], answers[2], "{message}");
    }
    let forks = [&open, &removed, &never].map(|id| {
        hub.say(format!(r#"{{"type":"session.fork","session_id":"copy","source":"{id}"}}"#) + "\n");
        hub.hear().unwrap().to_string().replace(&**id, "ID")
    });
    assert!(forks.iter().all(|fork| *fork == forks[2]), "{forks:?}");
    // A start cannot hide that an id is used, but an open and a removed session look the same.
    let starts = [&open, &removed].map(|id| {
        hub.say(start(id, &json!({})));
        hub.hear().unwrap().to_string().replace(&**id, "ID")
    });
    assert_eq!(starts[0], starts[1]);
    assert!(starts[0].contains(r#""reason":"exists""#), "{starts:?}");
    // The id of a session that a key opens cannot be taken.
    hub.say(start(&format!("key-{never}"), &json!({})));
    let refused = hub.hear().unwrap();
    assert_eq!(refused["reason"], "refused", "{refused}");
    assert_eq!(refused["error"]["category"], "permission_denied");
    daemon.down();
}

/// Sends a request with a key.
fn with_key(client: &Client, path: &str, key: &str, body: &Value) -> Answer {
    let headers = [("Idempotency-Key", key)];
    client.ask_with("POST", path, &headers, &body.to_string())
}

#[test]
fn a_repeated_request_has_one_effect_and_one_answer() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["admin", "--approve"]);
    let other = daemon.token(&["control"]);
    let id = client.open();
    client.input(&id, "/tool ls").must_be(202);
    let asked = client.events(&id, 0).until("permission.request");
    let asked: Value = serde_json::from_str(&asked.last().unwrap().1).unwrap();
    let request = format!("/requests/{}", asked["request_id"].as_str().unwrap());
    let of_session = |path: &str| format!("/v1/sessions/{id}{path}");
    for (path, body, another, status) in [
        (
            "/v1/sessions".to_owned(),
            json!({ "agent": "echo", "options": { "title": "one" } }),
            json!({ "agent": "echo", "options": { "title": "two" } }),
            201,
        ),
        (
            of_session(&request),
            json!({ "approved": true }),
            json!({ "approved": false }),
            200,
        ),
        (of_session("/fork"), json!({}), json!({ "seq": 1 }), 201),
        (
            of_session("/settings"),
            json!({ "options": { "model": "a" } }),
            json!({ "options": { "model": "b" } }),
            202,
        ),
        (
            "/v1/tokens".to_owned(),
            json!({ "scope": "observe" }),
            json!({ "scope": "control" }),
            201,
        ),
    ] {
        let key = format!("key of {path}");
        // One that is refused takes no key.
        with_key(&client, &path, &key, &json!({ "unknown": 1 }));
        let first = with_key(&client, &path, &key, &body).must_be(status);
        assert!(!first.headers.contains_key("idempotency-replayed"));
        let again = with_key(&client, &path, &key, &body).must_be(status);
        assert_eq!(again.headers["idempotency-replayed"], "true", "{path}");
        assert_eq!(again.body, first.body, "{path}");
        assert_eq!(again.headers.get("location"), first.headers.get("location"));
        let refused = with_key(&client, &path, &key, &another).must_be(422);
        assert!(refused.body.contains("Idempotency-Key"), "{refused:?}");
        let refused = with_key(&client, "/v1/sessions", &key, &json!({ "options": {} }));
        refused.must_be(422);
    }
    let content = json!({ "content": "hello" });
    for (path, status) in [("/inputs", 202), ("/inputs?wait=end", 200)] {
        let path = of_session(path);
        let key = format!("key of {path}");
        let first = with_key(&client, &path, &key, &content).must_be(status);
        assert!(!first.headers.contains_key("idempotency-replayed"));
        assert_eq!(first.json()["duplicate"], false, "{first:?}");
        let again = with_key(&client, &path, &key, &content).must_be(status);
        assert_eq!(again.headers["idempotency-replayed"], "true", "{path}");
        assert_eq!(again.json()["duplicate"], true, "{again:?}");
        assert_eq!(again.json()["turn_id"], first.json()["turn_id"]);
    }
    let not_ascii = with_key(&client, &of_session("/inputs"), "é", &content).must_be(422);
    assert!(not_ascii.body.contains("ASCII"), "{not_ascii:?}");
    let tokens = client.get("/v1/tokens").json()["tokens"].clone();
    assert_eq!(tokens.as_array().unwrap().len(), 3, "{tokens}");
    let sessions = client.get("/v1/sessions").json()["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 3, "{sessions}");
    // A key is of one token.
    let body = json!({ "agent": "echo", "options": { "title": "one" } });
    let own = with_key(&other, "/v1/sessions", "key of /v1/sessions", &body).must_be(201);
    assert!(!own.headers.contains_key("idempotency-replayed"));
    with_key(&client, "/v1/sessions", &"k".repeat(1000), &body).must_be(422);
    daemon.down();
}

#[test]
fn a_session_and_a_fork_are_found_by_their_keys_after_a_restart() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let mut client = daemon.token(&["control"]);
    let open = json!({ "agent": "echo" });
    let id = with_key(&client, "/v1/sessions", "k", &open)
        .must_be(201)
        .json()["id"]
        .clone();
    let fork = format!("/v1/sessions/{}/fork", id.as_str().unwrap());
    client.turn(id.as_str().unwrap(), "hello");
    let copy = with_key(&client, &fork, "k-2", &json!({}))
        .must_be(201)
        .json();
    daemon.kill();
    let daemon = Daemon::up(&home);
    client.http = daemon.http.clone();
    let again = with_key(&client, "/v1/sessions", "k", &open).must_be(201);
    assert_eq!(again.json()["id"], id);
    assert_eq!(
        again.headers["location"],
        format!("/v1/sessions/{}", id.as_str().unwrap())
    );
    let again = with_key(&client, &fork, "k-2", &json!({})).must_be(201);
    assert_eq!(again.json(), copy);
    let sessions = client.get("/v1/sessions").json()["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 2, "{sessions}");
    daemon.down();
}

/// Reads the bytes of a body that is sent in chunks.
struct ChunkedBody<R> {
    stream: R,
    left: usize,
}

impl<R: BufRead> Read for ChunkedBody<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.left == 0 {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            match usize::from_str_radix(line.trim(), 16) {
                Ok(0) => return Ok(0),
                Ok(size) => self.left = size,
                // The end of the chunk before.
                Err(_) => assert_eq!(line, "\r\n"),
            }
        }
        let most = buffer.len().min(self.left);
        let read = self.stream.read(&mut buffer[..most])?;
        self.left -= read;
        Ok(read)
    }
}

const GZIP: (&str, &str) = ("Accept-Encoding", "br, gzip");

#[test]
fn an_event_of_a_compressed_stream_arrives_while_the_stream_is_open() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    let mut stream = client.send("GET", &format!("/v1/sessions/{id}/events"), &[GZIP], "");
    let (status, headers) = head(&mut stream);
    assert_eq!((status, &*headers["content-encoding"]), (200, "gzip"));
    assert_eq!(headers["vary"], "accept-encoding");
    let mut lines = BufReader::new(GzDecoder::new(ChunkedBody { stream, left: 0 })).lines();
    for text in ["one", "two"] {
        client.turn(&id, text);
        let is_end = |line: &String| line == "event: turn.complete";
        let mut before = lines
            .by_ref()
            .map(Result::unwrap)
            .take_while(|line| !is_end(line));
        assert!(before.any(|line| line.contains(text)), "{text}");
        before.for_each(drop);
    }
    // Without the header events are sent as they are.
    let plain = client.events(&id, 0).until("turn.complete");
    assert!(plain.len() > 2, "{plain:?}");
    // The end of the daemon ends the stream, with the last bytes that gzip needs.
    daemon.down();
    assert!(lines.all(|line| line.is_ok()));
}

/// Sends a GET whose answer may be compressed. Returns its headers and its body as it was sent.
fn get_bytes(client: &Client, path: &str, headers: &[(&str, &str)]) -> (Answer, Vec<u8>) {
    let mut stream = client.send("GET", path, headers, "");
    let (status, headers) = head(&mut stream);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let body = String::new();
    (
        Answer {
            status,
            headers,
            body,
        },
        bytes,
    )
}

#[test]
fn answers_are_compressed_and_have_tags_unless_they_have_a_secret() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["admin"]);
    let id = client.open();
    client.turn(&id, &"long ".repeat(1000));
    let history = format!("/v1/sessions/{id}/history");
    for (path, is_weak) in [
        ("/", false),
        ("/app.js", false),
        ("/app.css", false),
        ("/icon.svg", false),
        ("/manifest.webmanifest", false),
        ("/worker.js", false),
        ("/openapi.json", true),
        (&history, true),
    ] {
        let (plain, text) = get_bytes(&client, path, &[]);
        assert!(!plain.headers.contains_key("content-encoding"), "{plain:?}");
        let (packed, bytes) = get_bytes(&client, path, &[GZIP]);
        assert_eq!(packed.headers["content-encoding"], "gzip", "{path}");
        assert!(packed.headers["vary"].contains("accept-encoding"));
        assert!(bytes.len() < text.len(), "{path}");
        let mut unpacked = Vec::new();
        GzDecoder::new(&*bytes).read_to_end(&mut unpacked).unwrap();
        assert!(unpacked == text, "{path}");
        for (answer, more) in [(&plain, None), (&packed, Some(GZIP))] {
            let tag = &*answer.headers["etag"];
            assert_eq!(tag.starts_with("W/"), is_weak, "{path}");
            let headers = [Some(("If-None-Match", tag)), more];
            let headers: Vec<_> = headers.into_iter().flatten().collect();
            let (same, bytes) = get_bytes(&client, path, &headers);
            assert_eq!((same.status, bytes.len()), (304, 0), "{path}");
            assert_eq!(same.headers["etag"], tag);
        }
        // Equal strong tags have equal bytes, and the two forms differ in their tags.
        let is_same = plain.headers["etag"] == packed.headers["etag"];
        assert_eq!(is_same, is_weak, "{path}");
        let cache = if is_weak { "no-store" } else { "no-cache" };
        assert_eq!(plain.headers["cache-control"], cache);
    }
    let tag = get_bytes(&client, &history, &[]).0.headers["etag"].clone();
    client.turn(&id, "more");
    let changed = get_bytes(&client, &history, &[("If-None-Match", &tag)]).0;
    assert_eq!(changed.status, 200);

    for _ in 0..8 {
        client
            .post("/v1/tokens", &json!({ "scope": "observe" }))
            .must_be(201);
    }
    let (tokens, _) = get_bytes(&client, "/v1/tokens", &[GZIP]);
    assert!(
        !tokens.headers.contains_key("content-encoding"),
        "{tokens:?}"
    );
    daemon.down();
}

#[test]
fn an_input_has_limits_of_its_own() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    let path = format!("/v1/sessions/{id}/inputs?wait=end");
    for name in ["turn_timeout_ms", "inactivity_timeout_ms"] {
        let limits = json!({ name: 200 });
        let body = json!({ "content": "/sleep 600", "limits": limits });
        let end = client.post(&path, &body).must_be(200).json()["end"].clone();
        assert_eq!(end["error"]["category"], "timeout", "{end}");
    }
    for (name, limits) in [
        ("turn_timeout_ms", json!({ "turn_timeout_ms": "1 s" })),
        ("max_token", json!({ "max_token": 1 })),
    ] {
        let body = json!({ "content": "never", "limits": limits });
        let refused = client.post(&path, &body).must_be(422);
        assert!(refused.body.contains(name), "{refused:?}");
    }
    let steer = json!({ "content": "x", "steer": "t", "limits": {} });
    client.post(&path, &steer).must_be(422);
    assert_eq!(client.turn(&id, "hello")["text"], "hello");
    daemon.down();
}
