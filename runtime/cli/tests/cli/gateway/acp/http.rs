//! The Agent Client Protocol by requests and streams.

use std::{
    io::{BufRead, BufReader},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::{
    super::{super::acp, Answer, Client, SILENT, head},
    Editor, Place,
};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const EVENTS: (&str, &str) = ("Accept", "text/event-stream");

/// A connection over HTTP.
struct Web<'a> {
    client: &'a Client,
    id: String,
    said: u64,
}

/// One of its streams.
struct Stream(BufReader<TcpStream>);

impl Stream {
    /// The next message; `None` at the end.
    fn next(&mut self) -> Option<Value> {
        let mut beats = 0;
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            beats += usize::from(line == ":\n");
            assert!(beats < 4, "nothing is heard but heartbeats");
            if let Some(message) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(message).unwrap());
            }
        }
    }

    fn until(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        std::iter::from_fn(|| self.next())
            .find(is)
            .expect("there is more to come")
    }

    fn answer(&mut self, id: u64) -> Value {
        self.until(|heard| heard["method"].is_null() && heard["id"] == id)
    }
}

impl<'a> Web<'a> {
    fn initialize(client: &'a Client) -> Self {
        let begun = begin(client).must_be(200);
        assert_eq!(begun.json()["result"]["protocolVersion"], 1);
        Self {
            client,
            id: begun.headers["acp-connection-id"].clone(),
            said: 1,
        }
    }

    fn headers<'h>(
        &'h self,
        session: Option<&'h str>,
        more: &[(&'h str, &'h str)],
    ) -> Vec<(&'h str, &'h str)> {
        let session = session.map(|session| ("Acp-Session-Id", session));
        [("Acp-Connection-Id", &*self.id)]
            .into_iter()
            .chain(session)
            .chain(more.iter().copied())
            .collect()
    }

    fn posts(&self, session: Option<&str>, message: &Value) -> Answer {
        self.client.ask_with(
            "POST",
            "/acp",
            &self.headers(session, &[JSON]),
            &message.to_string(),
        )
    }

    /// Says a request, which is taken.
    fn begins(&mut self, session: Option<&str>, method: &str, params: &Value) -> u64 {
        self.said += 1;
        let message =
            json!({"jsonrpc": "2.0", "id": self.said, "method": method, "params": params});
        assert_eq!(self.posts(session, &message).must_be(202).body, "");
        self.said
    }

    fn refused(&self, session: Option<&str>) -> u16 {
        self.client
            .ask_with("GET", "/acp", &self.headers(session, &[EVENTS]), "")
            .status
    }

    fn listens(&self, session: Option<&str>) -> Stream {
        let mut stream = self
            .client
            .send("GET", "/acp", &self.headers(session, &[EVENTS]), "");
        let (status, headers) = head(&mut stream);
        assert_eq!(
            (status, &*headers["content-type"]),
            (200, "text/event-stream; charset=utf-8")
        );
        Stream(stream)
    }

    fn deletes(&self) -> Answer {
        self.client
            .ask_with("DELETE", "/acp", &self.headers(None, &[]), "")
    }
}

fn begin(client: &Client) -> Answer {
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}});
    client.ask_with("POST", "/acp", &[JSON], &initialize.to_string())
}

fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

/// A session that has begun, with its stream and the connection's.
fn opened<'a>(place: &Place, client: &'a Client) -> (Web<'a>, Stream, String, Stream) {
    let mut web = Web::initialize(client);
    let mut all = web.listens(None);
    let new = web.begins(
        None,
        "session/new",
        &json!({"cwd": place.folder("in"), "mcpServers": []}),
    );
    let session = all.answer(new)["result"]["sessionId"]
        .as_str()
        .unwrap()
        .to_owned();
    let stream = web.listens(Some(&session));
    (web, all, session, stream)
}

/// A request's headers decide its answer, and a connection belongs only to its token.
#[test]
fn requests_of_acp_that_are_wrong_have_their_own_answers() {
    let place = Place::new();
    let daemon = place.up(&["--allow-origin", "https://editor.example"]);
    let client = daemon.token(&["control"]);
    let other = daemon.token(&["control", "--all-sessions"]);
    let web = Web::initialize(&client);
    let id = ("Acp-Connection-Id", &*web.id);
    let list =
        json!({"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}}).to_string();
    let initialize =
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}).to_string();
    let without_id = json!({"jsonrpc": "2.0", "method": "initialize"}).to_string();
    let asks = |method: &str| {
        json!({"jsonrpc": "2.0", "id": 9, "method": method, "params": {"sessionId": "s"}})
            .to_string()
    };
    let load = asks("session/load");
    let say = asks("session/prompt");
    let unknown = ("Acp-Connection-Id", "unknown");
    let named = ("Acp-Session-Id", "t");
    for (method, headers, body, status) in [
        ("POST", vec![JSON, id], &*list, 202),
        (
            "POST",
            vec![("Content-Type", "Application/JSON; charset=utf-8"), id],
            &list,
            202,
        ),
        ("POST", vec![("Content-Type", "text/plain"), id], &list, 415),
        ("POST", vec![id], &list, 415),
        ("POST", vec![JSON, id], "{", 400),
        ("POST", vec![JSON, id], "[]", 400),
        ("POST", vec![JSON, id], "1", 400),
        ("POST", vec![JSON], &list, 400),
        ("POST", vec![JSON, unknown], &list, 404),
        ("POST", vec![JSON, id], &initialize, 400),
        ("POST", vec![JSON], &without_id, 400),
        ("POST", vec![JSON, id], &say, 400),
        ("POST", vec![JSON, id, named], &say, 400),
        ("POST", vec![JSON, id], &load, 202),
        (
            "POST",
            vec![JSON, id, ("Origin", "https://evil.example")],
            &list,
            403,
        ),
        ("POST", vec![JSON, id, ("Host", "evil.example")], &list, 421),
        ("GET", vec![id], "", 406),
        ("GET", vec![id, ("Accept", "application/json")], "", 406),
        ("GET", vec![EVENTS], "", 400),
        ("GET", vec![EVENTS, unknown], "", 404),
        ("GET", vec![EVENTS, id, named], "", 404),
        ("DELETE", vec![], "", 400),
        ("DELETE", vec![unknown], "", 404),
        ("PUT", vec![id], "", 405),
    ] {
        let answer = client.ask_with(method, "/acp", &headers, body);
        assert_eq!(
            answer.status,
            status,
            "{method} {headers:?} {}: {answer:?}",
            &body[..body.len().min(80)]
        );
        if status < 405 && status != 400 && method != "GET" {
            // Another's connection counts as unknown; without a token the answer reveals nothing.
            let by_other = other.ask_with(method, "/acp", &headers, body).status;
            assert!(
                matches!(by_other, 403 | 404),
                "{method} {headers:?}: {by_other}"
            );
        }
        let stranger = daemon
            .stranger()
            .ask_with(method, "/acp", &headers, body)
            .status;
        assert!(
            matches!(stranger, 401 | 403 | 405 | 421),
            "{method} {headers:?}: {stranger}"
        );
    }

    let long = "x".repeat(4 * 1024 * 1024 + 1);
    client
        .ask_with("POST", "/acp", &[JSON, id], &long)
        .must_be(413);

    // A page that may ask reads which connection it has.
    let page = ("Origin", "https://editor.example");
    let first = client
        .ask_with(
            "OPTIONS",
            "/acp",
            &[page, ("Access-Control-Request-Method", "POST")],
            "",
        )
        .must_be(204);
    for header in ["acp-connection-id", "acp-session-id"] {
        assert!(
            first.headers["access-control-allow-headers"].contains(header),
            "{first:?}"
        );
    }
    let read = client
        .ask_with("POST", "/acp", &[JSON, page], &initialize)
        .must_be(200);
    assert!(
        read.headers["access-control-expose-headers"].contains("acp-connection-id"),
        "{read:?}"
    );

    // A stream has one reader, and the next when that is gone.
    let all = web.listens(None);
    assert_eq!(web.refused(None), 409);
    drop(all);
    until(|| web.refused_or_open());
    web.deletes().must_be(202);
    web.deletes().must_be(404);
    daemon.down();
}

impl Web<'_> {
    /// Returns true if a stream opens again: the daemon notices the end of a reader later.
    fn refused_or_open(&self) -> bool {
        let mut stream = self
            .client
            .send("GET", "/acp", &self.headers(None, &[EVENTS]), "");
        head(&mut stream).0 == 200
    }
}

fn until(is: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is() {
        assert!(begun.elapsed() < SILENT);
    }
}

/// Updates of a session come by its stream. What is not its token's has no stream, open or not.
#[test]
fn a_session_speaks_by_its_stream_and_goes_on_when_its_connection_ends() {
    let place = Place::new();
    let daemon = place.up(&[]);
    let client = daemon.token(&["control", "--approve"]);
    let (mut web, all, session, mut stream) = opened(&place, &client);
    let id = web.begins(Some(&session), "session/prompt", &prompt(&session, "where"));
    let said = stream.until(|heard| heard["method"] == "session/update");
    assert_eq!(
        said["params"]["update"]["content"]["text"],
        place.folder("in").to_str().unwrap()
    );
    assert_eq!(stream.answer(id)["result"]["stopReason"], "end_turn");

    let other = daemon.token(&["control"]);
    let observer = daemon.token(&["observe", "--all-sessions"]);
    assert_eq!(Web::initialize(&other).refused(Some(&session)), 404);
    assert_eq!(Web::initialize(&client).refused(Some("never")), 404);
    drop(Web::initialize(&observer).listens(Some(&session)));

    // It is asked, and the connection ends: who comes next is asked again, and its answer counts.
    let id = web.begins(Some(&session), "session/prompt", &prompt(&session, "ask"));
    let asked = stream.until(|heard| heard["method"] == "session/request_permission");
    let answer = |request: &Value, option: &str| json!({"jsonrpc": "2.0", "id": request["id"], "result": {"outcome": {"outcome": "selected", "optionId": option}}});
    web.posts(Some("another"), &answer(&asked, "allow"))
        .must_be(400);
    web.deletes().must_be(202);
    assert!(
        std::iter::from_fn(|| stream.next()).all(|heard| heard["id"] != id),
        "the turn has not ended"
    );
    drop(all);
    let mut next = Web::initialize(&client);
    let mut all = next.listens(None);
    let mut stream = next.listens(Some(&session));
    let load = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
    let id = next.begins(Some(&session), "session/load", &load);
    let mut heard = Vec::new();
    loop {
        heard.push(stream.next().unwrap());
        if heard.last().unwrap()["id"] == id {
            break;
        }
    }
    assert!(
        heard
            .iter()
            .any(|update| update["params"]["update"]["sessionUpdate"] == "user_message_chunk"),
        "{heard:?}"
    );
    let asked = stream.until(|heard| heard["method"] == "session/request_permission");
    next.posts(None, &answer(&asked, "allow")).must_be(202);
    stream.until(|heard| heard["params"]["update"]["content"]["text"] == "True");

    // A client that names no stream gets everything by the connection's stream.
    let mut third = Web::initialize(&client);
    let mut own = third.listens(None);
    let id = third.begins(None, "session/resume", &load);
    own.answer(id);
    let mut aside = third.listens(Some(&session));
    let id = third.begins(Some(&session), "session/prompt", &prompt(&session, "where"));
    own.until(|heard| heard["method"] == "session/update");
    assert_eq!(own.answer(id)["result"]["stopReason"], "end_turn");
    // The second gets the third's turn by its session's stream.
    stream.until(|heard| heard["params"]["update"]["content"]["text"] == "where");
    let unknown = next.begins(
        None,
        "session/load",
        &json!({"sessionId": "never", "cwd": "/", "mcpServers": []}),
    );
    assert_eq!(all.answer(unknown)["error"]["code"], -32002);
    third.deletes().must_be(202);
    assert_eq!(aside.next(), None);
    daemon.down();
}

/// A cancel that was taken before the end of its connection counts.
#[test]
fn what_was_taken_before_the_end_of_a_connection_is_said() {
    let place = Place::new();
    let daemon = place.up(&[]);
    let client = daemon.token(&["control", "--approve"]);
    let (mut web, _all, session, mut stream) = opened(&place, &client);
    web.begins(Some(&session), "session/prompt", &prompt(&session, "ask"));
    stream.until(|heard| heard["method"] == "session/request_permission");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
    web.posts(Some(&session), &cancel).must_be(202);
    web.deletes().must_be(202);
    let mut next = client.events(&session, 0);
    let end = next.until("turn.complete").pop().unwrap().1;
    assert!(end.contains("stopped"), "{end}");
    daemon.down();
}

#[test]
fn connections_of_a_token_are_bounded_and_end_with_it() {
    let place = Place::new();
    let daemon = place.up(&[]);
    let client = daemon.token(&["control"]);
    let other = daemon.token(&["control"]);
    let mut all: Vec<_> = (0..64).map(|_| Web::initialize(&client)).collect();
    begin(&client).must_be(429);
    Web::initialize(&other);
    all.pop().unwrap().deletes().must_be(202);
    until(|| begin(&client).status == 200);
    let web = all.pop().unwrap();
    let mut stream = web.listens(None);
    daemon.revoke(&client);
    assert_eq!(stream.next(), None);
    daemon.down();
}

/// Two remote editors and a local one: each gets the others' turns.
#[test]
fn editors_here_and_elsewhere_share_a_session() {
    let place = Place::new();
    let daemon = place.up(&[]);
    let client = daemon.token(&["control"]);
    let (mut web, _all, session, mut stream) = opened(&place, &client);
    let mut socket = Editor::initialize(&client);
    socket.loads(&session).unwrap();
    let mut here = acp::Editor::new(&place.0, &[]);
    let load = json!({"sessionId": session, "cwd": place.folder("in"), "mcpServers": []});
    here.asks("session/load", &load).unwrap();
    assert_eq!(
        here.prompts(&session, "one").unwrap(),
        place.folder("in").to_str().unwrap()
    );
    // It has not read the other's turn before.
    assert_eq!(
        socket.prompts(&session, "two").unwrap(),
        format!("{0}{0}", place.folder("in").display())
    );
    let id = web.begins(Some(&session), "session/prompt", &prompt(&session, "three"));
    let mut heard = Vec::new();
    loop {
        let next = stream.next().unwrap();
        if next["id"] == id {
            break;
        }
        if next["params"]["update"]["sessionUpdate"] == "user_message_chunk" {
            heard.push(
                next["params"]["update"]["content"]["text"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            );
        }
    }
    assert_eq!(heard, ["one", "two"]);
    here.ends();
    daemon.down();
}
