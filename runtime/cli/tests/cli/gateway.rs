//! The daemon: sessions over HTTP, with tokens; what outlives it, and who may do what.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use super::Home;

mod contract;
mod pipe;

/// How long an answer may take: a test that hangs does not say where.
const SILENT: Duration = Duration::from_secs(120);

/// A daemon.
pub(super) struct Daemon<'a> {
    home: &'a Home,
    child: Child,
    http: String,
}

impl<'a> Daemon<'a> {
    pub(super) fn up(home: &'a Home) -> Self {
        Self::at(home, "127.0.0.1:0")
    }

    fn at(home: &'a Home, address: &str) -> Self {
        Self::of(home, &mut home.command(["up", "--state", "state", "--http", address, "--json"]))
    }

    pub(super) fn of(home: &'a Home, command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("{line:?}: {said}")
        });
        assert_eq!(told["pid"], child.id());
        let http = told["http"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        Self { home, child, http }
    }

    fn token(&self, more: &[&str]) -> Client {
        let made = self.home.run([&["token", "new", "--state", "state", "--scope"], more].concat());
        made.must_end_with(0);
        let token = made.stdout.lines().last().unwrap().to_owned();
        Client { http: self.http.clone(), token: Some(token) }
    }

    fn stranger(&self) -> Client {
        Client { http: self.http.clone(), token: None }
    }

    fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::take(&mut self.http)
    }

    pub(super) fn down(mut self) {
        self.home.run(["down", "--state", "state"]).must_end_with(0);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One who asks.
#[derive(Clone)]
struct Client {
    http: String,
    token: Option<String>,
}

/// What was answered.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    #[track_caller]
    fn must_be(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        if status >= 400 {
            assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
            assert_eq!(self.json()["status"], status);
        }
        self
    }
}

impl Client {
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        stream.set_read_timeout(Some(SILENT)).unwrap();
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.http);
        }
        if let Some(token) = &self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        BufReader::new(stream)
    }

    fn ask_with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = self.send(method, path, headers, body);
        let (status, headers) = head(&mut stream);
        let mut body = String::new();
        stream.read_to_string(&mut body).unwrap();
        let answer = Answer { status, headers, body };
        contract::check(method, path, &answer);
        answer
    }

    fn get(&self, path: &str) -> Answer {
        self.ask_with("GET", path, &[], "")
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask_with("POST", path, &[], &body.to_string())
    }

    fn open(&self) -> String {
        self.post("/v1/sessions", &json!({})).must_be(201).json()["id"].as_str().unwrap().to_owned()
    }

    fn input(&self, id: &str, content: &str) -> Answer {
        self.post(&format!("/v1/sessions/{id}/inputs"), &json!({ "content": content }))
    }

    fn turn(&self, id: &str, content: &str) -> Value {
        self.post(&format!("/v1/sessions/{id}/inputs?wait=end"), &json!({ "content": content }))
            .must_be(200)
            .json()
    }

    fn events(&self, id: &str, after: u64) -> Events {
        let mut stream = self.send("GET", &format!("/v1/sessions/{id}/events?after={after}"), &[], "");
        let (status, headers) = head(&mut stream);
        assert_eq!((status, &*headers["content-type"]), (200, "text/event-stream; charset=utf-8"));
        assert_eq!(headers["x-accel-buffering"], "no");
        Events(stream)
    }
}

fn head(stream: &mut BufReader<TcpStream>) -> (u16, BTreeMap<String, String>) {
    let mut lines = stream.lines().map(Result::unwrap);
    let status = lines.next().unwrap_or_default().split(' ').nth(1).and_then(|status| status.parse().ok());
    let headers = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()))
    });
    (status.unwrap_or(0), headers.collect())
}

/// The events of a stream. Sizes of chunks are lines that are none of theirs.
struct Events(BufReader<TcpStream>);

impl Events {
    /// The next event with a number: that, and its entry as it stands.
    fn next(&mut self) -> Option<(u64, String)> {
        let (mut id, mut beats) = (None, 0);
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            beats += usize::from(line == ":\n");
            assert!(beats < 4, "nothing is heard but heartbeats");
            if let Some(seq) = line.strip_prefix("id: ") {
                id = seq.trim().parse().ok();
            } else if let (Some(seq), Some(entry)) = (id, line.strip_prefix("data: ")) {
                return Some((seq, entry.trim_end().to_owned()));
            }
        }
    }

    fn until(&mut self, kind: &str) -> Vec<(u64, String)> {
        let mut heard = Vec::new();
        loop {
            let event = self.next().expect("there is more");
            let entry: Value = serde_json::from_str(&event.1).unwrap();
            assert_eq!(entry["seq"], event.0);
            heard.push(event);
            if entry["type"] == kind {
                return heard;
            }
        }
    }
}

#[test]
fn a_session_is_opened_spoken_in_streamed_and_removed() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    assert_eq!(client.get("/v1/me").must_be(200).json()["scope"], "control");
    assert_eq!(client.get("/v1/agents").must_be(200).json()["default"], "echo");
    let id = client.open();
    let turn = client.turn(&id, "hello");
    assert_eq!((&turn["text"], &turn["end"]["status"]), (&json!("hello"), &json!("completed")));

    // The same input twice is one turn, and so is one whose answer is waited for.
    let again = |more: &str, key: &str, content: &str| {
        let path = format!("/v1/sessions/{id}/inputs{more}");
        let body = json!({ "content": content }).to_string();
        client.ask_with("POST", &path, &[("Idempotency-Key", key)], &body)
    };
    let first = again("", "k-1", "twice").must_be(202).json();
    let second = again("", "k-1", "twice").must_be(202).json();
    assert_eq!((&first["turn_id"], &second["duplicate"]), (&second["turn_id"], &json!(true)));
    assert_eq!(again("?wait=end", "k-1", "twice").must_be(200).json()["text"], "twice");
    again("", "k-1", "another").must_be(409);

    // Who comes back gets what is missing, each entry once and as it was.
    let mut events = client.events(&id, 0);
    let mut all = events.until("turn.complete");
    all.extend(events.until("turn.complete"));
    assert_eq!(
        all.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(),
        (1..=all.len() as u64).collect::<Vec<_>>()
    );
    let mut later = client.events(&id, 3);
    let rest: Vec<_> = std::iter::from_fn(|| later.next()).take(all.len() - 3).collect();
    assert_eq!(rest, all[3..]);
    let mut stream =
        client.send("GET", &format!("/v1/sessions/{id}/events?after=1"), &[("Last-Event-ID", "3")], "");
    assert_eq!(head(&mut stream).0, 200);
    assert_eq!(Events(stream).next().as_ref(), Some(&all[3]), "what a browser has is what counts");

    let listed = client.get("/v1/sessions?text=hello").must_be(200).json();
    assert_eq!(listed["sessions"][0]["session_id"], *id);
    let shown = client.get(&format!("/v1/sessions/{id}")).must_be(200).json();
    assert_eq!((&shown["id"], &shown["state"]), (&json!(id), &json!("idle")));
    let part = client.get(&format!("/v1/sessions/{id}/history?from=2&limit=2")).must_be(200).json();
    let part: Vec<_> = part["entries"].as_array().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(part, [all[1].1.clone(), all[2].1.clone()]);

    client.ask_with("DELETE", &format!("/v1/sessions/{id}"), &[], "").must_be(204);
    let ended: Vec<_> = std::iter::from_fn(|| events.next()).collect();
    assert!(ended.last().unwrap().1.contains("session.closed"), "the stream ends with its session");
    let behind = ended.last().unwrap().0;
    client.get(&format!("/v1/sessions/{id}/events?after={behind}")).must_be(204);
    client.input(&id, "late").must_be(503);
    client.ask_with("DELETE", &format!("/v1/sessions/{id}?remove=true"), &[], "").must_be(204);
    client.get(&format!("/v1/sessions/{id}")).must_be(404);
    daemon.down();
}

#[test]
fn a_permission_is_answered_once_a_turn_is_stopped_and_files_go_by_handle() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let (client, other) = (daemon.token(&["control"]), daemon.token(&["control", "--all-sessions"]));
    let id = client.open();
    client.input(&id, "/tool ls").must_be(202);
    let mut events = client.events(&id, 0);
    let asked = events.until("permission.request");
    let asked: Value = serde_json::from_str(&asked.last().unwrap().1).unwrap();
    let path = format!("/v1/sessions/{id}/requests/{}", asked["request_id"].as_str().unwrap());
    client.post(&path, &json!({ "approved": "yes" })).must_be(422);
    client.post(&path, &json!({ "approved": true, "updated_input": {} })).must_be(403);
    let decided = client.post(&path, &json!({ "approved": true })).must_be(200).json();
    assert_eq!((&decided["request_id"], &decided["approved"]), (&asked["request_id"], &json!(true)));
    let late = other.post(&path, &json!({ "approved": false })).must_be(409).json();
    assert!(late["detail"].as_str().unwrap().contains(decided["by"].as_str().unwrap()), "{late}");
    events.until("turn.complete");

    let stop = format!("/v1/sessions/{id}/stop");
    client.post(&stop, &json!({})).must_be(409);
    let turn = client.input(&id, "/sleep 600").must_be(202).json();
    events.until("turn.begin");
    other.post(&stop, &json!({ "turn_id": "another" })).must_be(409);
    other.post(&stop, &json!({ "turn_id": turn["turn_id"] })).must_be(202);
    let end = events.until("turn.complete");
    assert!(end.last().unwrap().1.contains("\"stopped\""), "{end:?}");

    client.input(&id, "/file a.txt").must_be(202);
    let told = events.until("file.output");
    let told: Value = serde_json::from_str(&told.last().unwrap().1).unwrap();
    assert!(told.get("file_path").is_none(), "{told}");
    let sha256 = told["sha256"].as_str().unwrap();
    let file = client.get(&format!("/v1/sessions/{id}/files/{sha256}?name=../a%22.txt")).must_be(200);
    assert_eq!(file.body, "a file named a.txt\n");
    assert_eq!(file.headers["content-disposition"], "attachment; filename*=UTF-8''a%22%2Etxt");
    assert!(file.headers["content-security-policy"].ends_with("sandbox"));
    for none in ["..%2F..%2Ftokens.json", &"0".repeat(64), "x"] {
        client.get(&format!("/v1/sessions/{id}/files/{none}")).must_be(404);
    }

    let given = client.ask_with("PUT", &format!("/v1/sessions/{id}/files?name=/etc/n.txt"), &[], "of mine");
    let given = given.must_be(201).json();
    assert_eq!((&given["name"], &given["size"]), (&json!("n.txt"), &json!(7)));
    let with = json!({ "content": "see", "files": [given["sha256"]] });
    client.post(&format!("/v1/sessions/{id}/inputs?wait=end"), &with).must_be(200);
    let delivered = events.until("file.delivered");
    assert!(delivered.last().unwrap().1.contains("\"n.txt\""), "{delivered:?}");
    let unknown = json!({ "content": "see", "files": ["0"] });
    client.post(&format!("/v1/sessions/{id}/inputs"), &unknown).must_be(422);
    daemon.down();
}

#[test]
fn each_scope_may_do_its_own_and_what_is_anothers_is_not_there() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let (owner, other) = (daemon.token(&["control"]), daemon.token(&["control"]));
    let all = daemon.token(&["observe", "--all-sessions"]);
    let admin = daemon.token(&["admin", "--all-sessions"]);
    let of_none = daemon.token(&["control", "--agents", "codex", "--all-sessions"]);
    let stranger = daemon.stranger();
    let id = owner.open();
    let of = |path: &str| format!("/v1/sessions/{id}{path}");
    let input = json!({ "content": "x" });

    // Who asks, for what, and what comes: a stranger, another, an observer, one of another agent.
    let table = [
        ("GET", of(""), json!({}), [401, 404, 200, 404]),
        ("GET", of("/history"), json!({}), [401, 404, 200, 404]),
        ("POST", of("/inputs"), input.clone(), [401, 404, 403, 404]),
        ("POST", of("/stop"), json!({}), [401, 404, 403, 404]),
        ("POST", of("/requests/r"), json!({ "approved": true }), [401, 404, 403, 404]),
        ("POST", of("/settings"), json!({ "options": { "model": "m" } }), [401, 404, 403, 404]),
        ("PUT", of("/files"), json!({}), [401, 404, 403, 404]),
        ("GET", of("/files/00"), json!({}), [401, 404, 404, 404]),
        ("DELETE", of(""), json!({}), [401, 404, 403, 404]),
        ("POST", "/v1/sessions".to_owned(), json!({}), [401, 201, 403, 403]),
        ("GET", "/v1/sessions".to_owned(), json!({}), [401, 200, 200, 200]),
        ("GET", "/v1/tokens".to_owned(), json!({}), [401, 403, 403, 403]),
        ("POST", "/v1/tokens".to_owned(), json!({ "scope": "observe" }), [401, 403, 403, 403]),
        ("POST", "/v1/stop".to_owned(), json!({}), [401, 403, 403, 403]),
        ("POST", "/v1/reload".to_owned(), json!({}), [401, 403, 403, 403]),
        ("POST", "/v1/handover".to_owned(), json!({}), [401, 403, 403, 403]),
        ("GET", "/metrics".to_owned(), json!({}), [401, 403, 200, 403]),
        ("GET", "/v1/usage".to_owned(), json!({}), [401, 403, 200, 200]),
    ];
    for (method, path, body, expected) in table {
        for (who, status) in [&stranger, &other, &all, &of_none].into_iter().zip(expected) {
            who.ask_with(method, &path, &[], &body.to_string()).must_be(status);
        }
    }
    for own in [&owner, &all, &admin] {
        let listed = own.get("/v1/sessions").json();
        let ids: Vec<_> =
            listed["sessions"].as_array().unwrap().iter().map(|one| &one["session_id"]).collect();
        assert!(ids.contains(&&json!(id)), "{listed}");
    }
    assert!(!other.get("/v1/sessions").body.contains(&id) && !of_none.get("/v1/sessions").body.contains(&id));
    assert_eq!(of_none.get("/v1/agents").json()["agents"], json!([]));

    // What a session may not be given over a network is named.
    for (options, status, named) in [
        (json!({ "cwd": "/" }), 403, "cwd"),
        (json!({ "env": {} }), 403, "env"),
        (json!({ "no such": 1 }), 403, "no such"),
        (json!({ "model": 1 }), 422, "model"),
    ] {
        let refused = owner.post("/v1/sessions", &json!({ "options": options })).must_be(status);
        assert!(refused.json()["detail"].as_str().unwrap().contains(named), "{refused:?}");
    }
    let titled = owner.post("/v1/sessions", &json!({ "options": { "title": "A name" } })).must_be(201).json();
    let found = owner.get("/v1/sessions?text=a%20name").must_be(200).json();
    assert_eq!(found["sessions"][0]["session_id"], titled["id"]);
    owner.post("/v1/sessions", &json!({ "agent": "none" })).must_be(422);
    owner.post("/v1/sessions", &json!({ "unknown": 1 })).must_be(400);
    owner.ask_with("POST", "/v1/sessions", &[], "{").must_be(400);
    owner.post(&of("/settings"), &json!({ "options": { "allowed_tools": [] } })).must_be(403);

    // Ids and paths lead nowhere else.
    for path in [
        "/v1/sessions/..%2F..%2Fx",
        "/v1/sessions/%00",
        "/v1/../metrics",
        "/v1",
        "/v1/nothing",
        "/tokens.json",
    ] {
        let status = admin.get(path).status;
        assert!(matches!(status, 400 | 404), "{path}: {status}");
    }
    admin.ask_with("PATCH", "/v1/sessions", &[], "").must_be(405);
    let large = "x".repeat(2 * 1024 * 1024);
    owner.post(&of("/inputs"), &json!({ "content": large })).must_be(413);
    let long = "y".repeat(64 * 1024);
    assert_eq!(owner.ask_with("GET", "/v1/me", &[("X-Long", &long)], "").status, 431);

    // A token gives no more than it has.
    let made = admin.post("/v1/tokens", &json!({ "scope": "observe", "expires": "1h" })).must_be(201).json();
    let by_it = Client { token: Some(made["token"].as_str().unwrap().to_owned()), ..stranger.clone() };
    by_it.get("/v1/me").must_be(200);
    let listed = home.run(["token", "list", "--state", "state", "--json"]);
    let listed: Value = serde_json::from_str(listed.must_end_with(0).stdout.trim()).unwrap();
    assert!(listed.as_array().unwrap().iter().any(|token| token["id"] == made["id"]), "{listed}");
    assert!(!listed.to_string().contains("tlk_") && !listed.to_string().contains("digest"));
    admin.ask_with("DELETE", &format!("/v1/tokens/{}", made["id"].as_str().unwrap()), &[], "").must_be(204);
    daemon.down();
}

#[test]
fn only_this_daemons_name_and_its_own_pages_may_ask() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let own = format!("http://{}", daemon.http);
    let port = daemon.http.rsplit_once(':').unwrap().1;
    let local = format!("localhost:{port}");
    for (headers, status) in [
        (vec![("Host", "evil.example")], 421),
        (vec![("Host", "127.0.0.1")], 421),
        (vec![("Host", &*local)], 200),
        (vec![("Origin", "https://evil.example")], 403),
        (vec![("Origin", "null")], 403),
        (vec![("Origin", &*own)], 200),
        (vec![("Origin", &*own), ("Origin", "https://evil.example")], 403),
        (vec![("Sec-Fetch-Site", "cross-site")], 403),
        (vec![("Sec-Fetch-Site", "same-origin")], 200),
    ] {
        let asked = client.ask_with("GET", "/v1/me", &headers, "");
        assert_eq!(asked.status, status, "{headers:?}: {asked:?}");
    }
    // What needs no token tells nothing, and the page runs no script of another.
    let page = daemon.stranger().get("/").must_be(200);
    assert!(page.headers["content-security-policy"].starts_with("default-src 'none'; script-src 'self'"));
    assert!(!page.body.contains("trunkline-token"));
    assert_eq!(daemon.stranger().get("/healthz").must_be(200).body, "ok\n");
    assert_eq!(daemon.stranger().get("/readyz").must_be(200).body, "ready\n");

    // The page of a code that is good once, and of no other.
    let opened = home.run(["open", "--state", "state", "--print"]);
    let file = std::fs::read_to_string(opened.must_end_with(0).stdout.trim()).unwrap();
    let code = file.split("value=\"").nth(1).unwrap().split('"').next().unwrap();
    let give = |code: &str| {
        let form = [("Content-Type", "application/x-www-form-urlencoded"), ("Origin", "null")];
        daemon.stranger().ask_with("POST", "/open", &form, &format!("code={code}"))
    };
    let page = give(code).must_be(200);
    let token = page.body.split("name=\"trunkline-token\" content=\"").nth(1).unwrap();
    let token = token.split('"').next().unwrap().to_owned();
    let console = Client { token: Some(token), ..client.clone() };
    assert_eq!(console.get("/v1/me").must_be(200).json()["scope"], "admin");
    give(code).must_be(401);
    give("x").must_be(401);
    daemon.down();
}

#[test]
fn a_token_that_is_revoked_ends_its_streams_and_no_others() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let (owner, watcher) = (daemon.token(&["control"]), daemon.token(&["observe", "--all-sessions"]));
    let id = owner.open();
    let (mut own, mut watched) = (owner.events(&id, 0), watcher.events(&id, 0));
    assert!(own.next().is_some() && watched.next().is_some());
    let token = watcher.token.as_ref().unwrap();
    let revoked = token.strip_prefix("tlk_").unwrap().split('_').next().unwrap();
    home.run(["token", "revoke", revoked, "--state", "state"]).must_end_with(0);
    assert!(std::iter::from_fn(|| watched.next()).count() <= 1, "its stream ends");
    watcher.get("/v1/me").must_be(401);
    owner.turn(&id, "on");
    own.until("turn.complete");
    home.run(["token", "revoke", revoked, "--state", "state"]).must_end_with(2).must_say("there is no token");
    daemon.down();
}

#[test]
fn a_daemon_that_is_killed_is_up_again_at_once_with_all_that_it_knew() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    client.turn(&id, "before");
    client.input(&id, "/sleep 600").must_be(202);
    let mut events = client.events(&id, 0);
    let mut heard = events.until("turn.complete");
    heard.extend(events.until("turn.begin"));
    let last = heard.last().unwrap().0;
    let second = home.run(["up", "--state", "state", "--http", "127.0.0.1:0"]);
    second.must_end_with(2).must_say(&daemon.child.id().to_string());
    let address = daemon.kill();

    let daemon = Daemon::at(&home, &address);
    let rest = client.events(&id, last).until("turn.complete");
    assert_eq!(rest[0].0, last + 1);
    assert!(rest.last().unwrap().1.contains("host_restart"), "{rest:?}");
    let again = client.events(&id, 0).until("turn.begin");
    assert_eq!(again, heard[..again.len()], "what was said is what is said");
    assert_eq!(client.turn(&id, "after")["text"], "after");
    daemon.down();
    home.run(["down", "--state", "state"]).must_end_with(1).must_say("no daemon runs");
}

#[test]
fn one_socket_takes_hubs_and_requests_of_this_user() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    client.turn(&id, "over http");
    let socket = home.path().join("state/journal/host.sock");
    let mut hub = UnixStream::connect(&socket).unwrap();
    hub.set_read_timeout(Some(SILENT)).unwrap();
    let attach = json!({"type": "session.attach", "session_id": id, "after": 0, "protocol": 1,
        "extensions": ["turns", "events", "journal"]});
    writeln!(hub, "{attach}").unwrap();
    let lines = BufReader::new(hub).lines().map(|line| line.unwrap());
    let heard: Vec<_> = lines.take_while(|line| !line.contains("turn.complete")).collect();
    assert!(heard.iter().any(|line| line.contains("over http")), "{heard:?}");

    let mut asks = UnixStream::connect(&socket).unwrap();
    asks.write_all(b"GET /v1/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut said = String::new();
    asks.read_to_string(&mut said).unwrap();
    assert!(said.contains("\"scope\":\"admin\""), "{said}");

    // The commands find the daemon's journal by themselves.
    let listed = home.command(["sessions"]).env("TRUNKLINE_STATE", "state").output().unwrap();
    assert!(String::from_utf8(listed.stdout).unwrap().contains(&id));
    daemon.down();
}

#[test]
fn turns_may_end_before_the_daemon_does_and_streams_hold_nothing_up() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let (short, long) = (client.open(), client.open());
    client.input(&long, "/sleep 600").must_be(202);
    let mut events = client.events(&long, 0);
    events.until("turn.begin");
    client.input(&short, "/sleep 1").must_be(202);
    let begun = std::time::Instant::now();
    daemon.down();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(std::iter::from_fn(|| events.next()).count() <= 2, "the stream has ended");

    let daemon = Daemon::up(&home);
    let client = Client { http: daemon.http.clone(), ..client };
    let ends = |id: &str| client.events(id, 0).until("turn.complete").last().unwrap().1.clone();
    assert!(ends(&short).contains("\"completed\""), "{}", ends(&short));
    assert!(ends(&long).contains("\"shutdown\""), "{}", ends(&long));
    daemon.down();
}

/// Answers with how many files it may open.
const LIMITED: &str = r#"
import json, resource, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "user.input":
        soft = str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        for reply in {"type": "output", "content": soft}, {"type": "turn.complete"}:
            print(json.dumps(reply | {"session_id": message["session_id"]}), flush=True)
"#;

#[test]
fn a_daemon_may_open_many_files_and_its_agents_as_many_as_before() {
    let home = Home::new();
    home.file("limited.py", LIMITED);
    let up = ["up", "--state", "state", "--http", "127.0.0.1:0", "--json", "--adapter", "python3 limited.py"];
    let own = home.command(up);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 512 && exec \"$@\"", "sh"]).arg(own.get_program()).args(own.get_args());
    command.current_dir(home.path()).env("HOME", home.path()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let daemon = Daemon::of(&home, &mut command);
    let client = daemon.token(&["control"]);
    let id = client.open();
    assert_eq!(client.turn(&id, "how many?")["text"], "512");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.child.id())).unwrap();
    let limit: Vec<_> =
        limits.lines().find(|line| line.starts_with("Max open files")).unwrap().split_whitespace().collect();
    assert_eq!(limit[3], limit[4], "{limits}");
    daemon.down();
}

/// Passes a listening socket on, as a supervisor does.
const SUPERVISOR: &str = r#"
import os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "NOTIFY_SOCKET": os.getcwd() + "/notify"}
os.execvp(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn a_supervisor_gives_the_daemon_its_port_and_learns_when_it_is_ready() {
    let home = Home::new();
    home.file("supervisor.py", SUPERVISOR);
    let notified = std::os::unix::net::UnixDatagram::bind(home.path().join("notify")).unwrap();
    notified.set_read_timeout(Some(SILENT)).unwrap();
    let heard = || {
        let mut message = [0; 256];
        let length = notified.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    let own = home.command(["up", "--state", "state", "--json"]);
    let mut command = Command::new("python3");
    command.arg("supervisor.py").arg(own.get_program()).args(own.get_args());
    command.current_dir(home.path()).env("HOME", home.path()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let daemon = Daemon::of(&home, &mut command);
    assert_eq!(heard(), "READY=1\n");
    assert!(!daemon.http.ends_with(":7457"), "the port is the supervisor's");
    let client = daemon.token(&["control"]);
    assert_eq!(client.turn(&client.open(), "here")["text"], "here");
    daemon.down();
    assert_eq!(heard(), "STOPPING=1\n");
}

#[test]
fn a_daemon_listens_on_this_machine_alone_and_tells_of_a_port_in_use() {
    let home = Home::new();
    let refused = home.run(["up", "--state", "state", "--http", "0.0.0.0:0"]);
    refused.must_end_with(2).must_say("loopback");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let refused = home.run(["up", "--state", "state", "--http", &at]);
    refused.must_end_with(1).must_say(&at).must_say("--http");
    let mode = std::fs::metadata(home.path().join("state")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o700);
    let none = home.command(["token", "list", "--state", "state"]).stdin(Stdio::null()).output().unwrap();
    assert!(String::from_utf8(none.stdout).unwrap().starts_with("there is no token"));
}
