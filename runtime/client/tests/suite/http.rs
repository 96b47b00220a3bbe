//! HTTP against a daemon that tests script, over TCP on this machine.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use trunkline_client::{
    ChangeKind, Client, ClientError, Connect, ConnectError, HttpClient, Input, Method, Pipe,
    ReconnectPolicy, SearchQuery, SessionChanges, Streams, WebSocket,
    protocol::{FileInput, SessionAttach, Sha256},
};

use super::script::{Scripts, entry, session};

const TOKEN: &str = "tl_0123456789";

/// Time after which a step of a test has failed.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);

/// A daemon that answers as a test wants.
struct Daemon {
    listener: TcpListener,
}

/// A request, and the connection for its answer.
struct Exchange {
    head: String,
    body: Vec<u8>,
    stream: TcpStream,
}

impl Daemon {
    async fn start() -> (Self, HttpClient) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/base", listener.local_addr().unwrap());
        let http = HttpClient::from(WebSocket::new(address, TOKEN));
        (Self { listener }, http)
    }

    async fn next(&self) -> Exchange {
        let accepted = timeout(STEP_TIMEOUT, self.listener.accept());
        let (mut stream, _) = accepted.await.expect("the client connects").unwrap();
        let mut read = Vec::new();
        let end = loop {
            let bytes = stream.read_buf(&mut read).await.unwrap();
            let end = read.windows(4).position(|four| four == b"\r\n\r\n");
            if end.is_some() || bytes == 0 {
                break end.expect("a whole head") + 4;
            }
        };
        let head = String::from_utf8(read[..end].to_vec()).unwrap();
        let length = header(&head, "content-length").unwrap_or("0");
        let length = end + length.parse::<usize>().unwrap();
        while read.len() < length {
            assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0);
        }
        let body = read[end..].to_vec();
        Exchange { head, body, stream }
    }

    /// Answers the next request, and returns it.
    async fn answer(&self, status: &str, body: impl AsRef<[u8]>) -> Exchange {
        let mut exchange = self.next().await;
        exchange.answer(status, body.as_ref()).await;
        exchange
    }
}

impl Exchange {
    fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }

    async fn write(&mut self, bytes: &[u8]) {
        // The client may leave early.
        let _ = self.stream.write_all(bytes).await;
    }

    async fn answer(&mut self, status: &str, body: &[u8]) {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
        self.write(head.as_bytes()).await;
        self.write(body).await;
    }

    /// Begins a stream of events.
    async fn stream(&mut self, events: &str) {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        self.write(head.as_bytes()).await;
        self.write(events.as_bytes()).await;
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
}

async fn next_kind(changes: &mut SessionChanges) -> ChangeKind {
    let next = timeout(STEP_TIMEOUT, changes.next()).await;
    next.expect("an event").unwrap().kind
}

#[tokio::test]
async fn a_request_has_the_token_as_a_header_and_its_repetition_the_same_key() {
    let (daemon, http) = Daemon::start().await;
    let answers = async {
        let lost = daemon.next().await;
        drop(lost.stream);
        let first = daemon.answer("503 Service Unavailable", "").await;
        let second = daemon.answer("200 OK", r#"{"a": 1}"#).await;
        let key = header(&lost.head, "idempotency-key").unwrap();
        for exchange in [&first, &second] {
            assert_eq!(exchange.line(), "POST /base/v1/x?y=z HTTP/1.1");
            assert_eq!(header(&exchange.head, "idempotency-key"), Some(key));
            assert_eq!(exchange.body, br#"{"b":2}"#);
            let bearer = format!("Bearer {TOKEN}");
            assert_eq!(header(&exchange.head, "authorization"), Some(&*bearer));
        }
    };
    let body = json!({"b": 2});
    let request = http.request(Method::POST, "/v1/x?y=z", Some(&body));
    let (answer, ()) = tokio::join!(request, answers);
    assert_eq!(answer.unwrap(), json!({"a": 1}));
    assert!(!format!("{http:?}").contains(TOKEN));
}

#[tokio::test]
async fn a_refusal_has_its_status_and_no_token_and_only_a_temporary_one_is_repeated() {
    let (daemon, http) = Daemon::start().await;
    let detail = format!(r#"{{"detail": "no entry for {TOKEN}"}}"#);
    for status in [
        "403 Forbidden",
        "307 Temporary Redirect\r\nLocation: http://127.0.0.1:9/",
    ] {
        let request = http.request(Method::GET, "/v1/me", None);
        let (answer, exchange) = tokio::join!(request, daemon.answer(status, &detail));
        let error = answer.unwrap_err();
        assert!(
            error.is_permanent() && !error.to_string().contains(TOKEN),
            "{error}"
        );
        assert!(error.to_string().contains("no entry for"), "{error}");
        assert_eq!(header(&exchange.head, "idempotency-key"), None);
    }
    let limited = "429 Too Many Requests\r\nRetry-After: 1";
    let begun = std::time::Instant::now();
    let (answer, ..) = tokio::join!(http.request(Method::GET, "/v1/me", None), async {
        daemon.answer(limited, "").await;
        daemon.answer("204 No Content", "").await;
    });
    assert_eq!(answer.unwrap(), json!(null));
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let once = http.with_policy(ReconnectPolicy::default().give_up_after(Duration::ZERO));
    let request = once.request(Method::GET, "/v1/me", None);
    let (answer, _) = tokio::join!(request, daemon.answer("500 Internal Server Error", ""));
    let error = answer.unwrap_err();
    assert!(matches!(
        error,
        ClientError::HttpRefused { status: 500, .. }
    ));
    assert!(!error.is_permanent());
}

#[tokio::test]
async fn an_address_with_a_secret_or_without_tls_is_refused_unsent() {
    for (address, is_printed) in [
        ("http://user:secret@127.0.0.1:1", false),
        ("http://127.0.0.1:1/?token=secret", false),
        ("http://hub.example.org", true),
    ] {
        let http = HttpClient::from(WebSocket::new(address, TOKEN));
        let error = http.request(Method::GET, "/v1/me", None).await.unwrap_err();
        let text = error.to_string();
        assert!(error.is_permanent() && !text.contains("secret"), "{text}");
        assert_eq!(
            text.contains("could be read on the way"),
            is_printed,
            "{text}"
        );
    }
}

#[tokio::test]
async fn the_search_and_the_removal_are_paths_and_a_lost_removal_is_one() {
    let (daemon, http) = Daemon::start().await;
    let query = SearchQuery {
        text: "a b&c".to_owned(),
        after: Some("n/1".to_owned()),
        ..SearchQuery::default()
    };
    let page = json!({"hits": [{"id": "s", "agent": "a", "title": null, "archived": false,
        "seq": 3, "turn": "t", "time": "now", "kind": "input", "snippet": "a b&c"}],
        "next": "n/2", "complete": false});
    let (found, exchange) = tokio::join!(
        http.search(&query),
        daemon.answer("200 OK", page.to_string())
    );
    let found = found.unwrap();
    assert_eq!(
        (found.hits[0].seq, &*found.hits[0].snippet),
        (Some(3), "a b&c")
    );
    assert_eq!(found.next.as_deref(), Some("n/2"));
    assert_eq!(
        exchange.line(),
        "GET /base/v1/search?q=a%20b%26c&after=n%2F1 HTTP/1.1"
    );

    let answers = async {
        let lost = daemon.next().await;
        assert_eq!(
            lost.line(),
            "DELETE /base/v1/sessions/a%2Fb?remove=true HTTP/1.1"
        );
        drop(lost.stream);
        daemon.answer("404 Not Found", "").await;
    };
    let id = session("a/b");
    let (removed, ()) = tokio::join!(http.remove_session(&id), answers);
    removed.unwrap();
    let (removed, _) = tokio::join!(http.remove_session(&id), daemon.answer("404 Not Found", ""));
    assert!(matches!(
        removed,
        Err(ClientError::HttpRefused { status: 404, .. })
    ));
}

#[tokio::test]
async fn files_are_compared_with_their_digest_and_bounded() {
    let (daemon, http) = Daemon::start().await;
    let id = session("s");
    let sha256 = Sha256::digest(b"data");
    let stored = json!({"sha256": sha256.to_string(), "size": 4}).to_string();
    let (put, exchange) = tokio::join!(
        http.put_file(&id, "a b", "data"),
        daemon.answer("201 Created", stored)
    );
    assert_eq!(put.unwrap(), sha256);
    assert_eq!(
        exchange.line(),
        "PUT /base/v1/sessions/s/files?name=a%20b HTTP/1.1"
    );
    assert_eq!(exchange.body, b"data");
    let other = json!({"sha256": Sha256::digest(b"other").to_string()}).to_string();
    let (put, _) = tokio::join!(
        http.put_file(&id, "a", "data"),
        daemon.answer("201 Created", other)
    );
    assert!(matches!(put, Err(ClientError::File { .. })));
    let large = vec![0; (64 << 20) + 1];
    let error = http.put_file(&id, "a", large).await.unwrap_err();
    assert!(error.to_string().contains("MAX_FILE_BYTES"), "{error}");

    let cut = async {
        let mut cut = daemon.next().await;
        cut.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nda")
            .await;
        drop(cut.stream);
        daemon.answer("200 OK", "data").await;
    };
    let (got, ()) = tokio::join!(http.get_file(&id, &sha256), cut);
    assert_eq!(got.unwrap(), b"data");
    let (got, _) = tokio::join!(http.get_file(&id, &sha256), daemon.answer("200 OK", "date"));
    assert!(matches!(got, Err(ClientError::File { .. })));

    let endless = async {
        let mut endless = daemon.next().await;
        endless.write(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let part = vec![b'a'; 1 << 20];
        let mut parts = 0;
        while endless.stream.write_all(&part).await.is_ok() {
            parts += 1;
        }
        parts
    };
    let (got, parts) = tokio::join!(http.request(Method::GET, "/v1/agents", None), endless);
    let error = got.unwrap_err();
    assert!(
        error.is_permanent() && error.to_string().contains("MAX_RESPONSE_BYTES") && parts < 64,
        "{error}"
    );
}

#[tokio::test]
async fn changes_continue_behind_the_last_one_and_a_cut_snapshot_is_void() {
    let (daemon, http) = Daemon::start().await;
    let mut changes = http.changes(None);
    let mut first = daemon.next().await;
    assert_eq!(first.line(), "GET /base/v1/events HTTP/1.1");
    first
        .stream("retry: 1\n\nid: \ndata: {\"type\":\"snapshot\",\"sessions\":[]}\n\n")
        .await;
    assert_eq!(next_kind(&mut changes).await, ChangeKind::Snapshot);
    assert_eq!(changes.position(), None);
    drop(first);
    assert_eq!(next_kind(&mut changes).await, ChangeKind::Reset);
    let mut second = daemon.next().await;
    assert_eq!(second.line(), "GET /base/v1/events HTTP/1.1");
    second
        .stream("id: p/1\ndata: {\"type\":\"snapshot\",\"complete\":true}\n\nid: p/2\ndata: {\"type\":\"turn\"}\n\n\
            data: no JSON\n\n:\nid: p/3\n\ndata: {\"type\":\"requ")
        .await;
    assert_eq!(next_kind(&mut changes).await, ChangeKind::Snapshot);
    assert_eq!(changes.position(), Some("p/1"));
    // A cancelled call loses no event.
    for _ in 0..10_000 {
        sleep(Duration::from_millis(1)).await;
        if let Ok(next) = timeout(Duration::ZERO, changes.next()).await {
            assert_eq!(next.unwrap().kind, ChangeKind::Turn);
            break;
        }
    }
    assert_eq!(changes.position(), Some("p/2"));
    drop(second);
    // The heartbeat had a position. The event that was cut comes again, and is not read twice.
    let mut third = daemon.next().await;
    assert_eq!(third.line(), "GET /base/v1/events?after=p%2F3 HTTP/1.1");
    third
        .stream("data: {\"type\":\"request\"}\n\nid: p/5\ndata: {\"type\":\"of tomorrow\"}\n\n")
        .await;
    assert_eq!(next_kind(&mut changes).await, ChangeKind::Request);
    assert_eq!(next_kind(&mut changes).await, ChangeKind::Other);
    third
        .write(b"id: \ndata: {\"type\":\"snapshot\"}\n\n")
        .await;
    assert_eq!(next_kind(&mut changes).await, ChangeKind::Snapshot);
    drop(third);
    assert_eq!(next_kind(&mut changes).await, ChangeKind::Reset);
    let fourth = daemon.next().await;
    assert_eq!(fourth.line(), "GET /base/v1/events HTTP/1.1");
    drop(fourth);
    daemon.answer("403 Forbidden", "").await;
    for _ in 0..2 {
        let end = timeout(STEP_TIMEOUT, changes.next()).await.unwrap();
        assert!(matches!(
            end,
            Err(ClientError::HttpRefused { status: 403, .. })
        ));
    }
}

#[tokio::test]
async fn dropped_changes_close_their_stream_and_a_daemon_that_is_gone_ends_them() {
    let (daemon, http) = Daemon::start().await;
    let changes = http.changes(Some("p".to_owned()));
    assert_eq!(changes.position(), Some("p"));
    let mut stream = daemon.next().await;
    assert_eq!(stream.line(), "GET /base/v1/events?after=p HTTP/1.1");
    stream.stream(":\n\n").await;
    drop(changes);
    let mut rest = Vec::new();
    let ended = timeout(STEP_TIMEOUT, stream.stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the stream stays open");

    drop(daemon);
    let policy = ReconnectPolicy::default().give_up_after(Duration::from_millis(200));
    let error = timeout(STEP_TIMEOUT, http.with_policy(policy).changes(None).next()).await;
    let error = error.unwrap().unwrap_err();
    assert!(
        matches!(error, ClientError::Unreachable(_)) && !error.is_permanent(),
        "{error}"
    );
}

/// Scripted pipes of a daemon over the network, and its HTTP.
struct Network(Scripts, HttpClient);

impl Connect for Network {
    async fn connect(&mut self) -> Result<Pipe, ConnectError> {
        self.0.connect().await
    }

    fn http(&self) -> Option<HttpClient> {
        Some(self.1.clone())
    }
}

#[tokio::test]
async fn an_input_with_files_is_posted_behind_the_earlier_ones_and_a_refused_one_is_no_turn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("note.txt");
    std::fs::write(&path, "a note").unwrap();
    let file = FileInput {
        file_path: path.to_str().unwrap().to_owned(),
        ..FileInput::default()
    };
    let input = || Input::text("read").with_file(file.clone());
    let sha256 = Sha256::digest(b"a note").to_string();
    let stored = json!({"sha256": sha256, "size": 6}).to_string();

    let (daemon, http) = Daemon::start().await;
    let (scripts, mut hosts) = Scripts::new();
    let network = Network(scripts.over_network(), http);
    let client = Client::connect(network).await.unwrap();
    let mut host = hosts.recv().await.unwrap();
    let attaching = client.attach(session("s"), SessionAttach::default());
    let none = json!({});
    let (attached, _) = tokio::join!(attaching, host.attached(0, &none));
    let (session, _events) = attached.unwrap();

    let mut first = session.send("first").await.unwrap();
    let sent = host.expect("user.input").await;
    let begin = |seq, turn: &str, message_id: &Value| {
        let members = json!({"turn_id": turn, "message_id": message_id, "content": "x"});
        entry("s", seq, "turn.begin", &members)
    };
    let answers = async {
        let put = daemon.answer("201 Created", &stored).await;
        assert_eq!(
            put.line(),
            "PUT /base/v1/sessions/s/files?name=note%2Etxt HTTP/1.1"
        );
        let early = timeout(Duration::from_millis(100), daemon.next()).await;
        assert!(early.is_err(), "the input overtakes the one before");
        host.write(&begin(1, "t-1", &sent["message_id"])).await;
        let mut post = daemon.next().await;
        // On another connection it is not sent again.
        let (next, _) = tokio::join!(hosts.recv(), async { drop(host) });
        let mut host = next.unwrap();
        host.attached(1, &none).await;
        let taken = json!({"turn_id": "t-2", "seq": 2, "duplicate": false}).to_string();
        post.answer("202 Accepted", taken.as_bytes()).await;
        (post, host)
    };
    let (turn, (post, mut host)) = tokio::join!(session.send(input()), answers);
    let mut turn = turn.unwrap();
    assert_eq!(first.accepted().await.unwrap().turn_id.as_str(), "t-1");
    assert_eq!(post.line(), "POST /base/v1/sessions/s/inputs HTTP/1.1");
    let key = header(&post.head, "idempotency-key");
    assert_eq!(key, Some(turn.message_id().as_str()));
    let body: Value = serde_json::from_slice(&post.body).unwrap();
    let named = json!([{"sha256": sha256, "name": "note.txt"}]);
    assert_eq!((&body["content"], &body["files"]), (&json!("read"), &named));
    assert_eq!(turn.accepted().await.unwrap().seq, Some(2));
    host.write(&begin(2, "t-2", &json!(turn.message_id().as_str())))
        .await;
    let end = json!({"turn_id": "t-2", "status": "completed"});
    host.write(&entry("s", 3, "turn.complete", &end)).await;
    assert!(turn.end().await.is_ok());

    let answers = async {
        daemon.answer("201 Created", &stored).await;
        daemon.answer("422 Unprocessable Content", "").await;
    };
    let (refused, ()) = tokio::join!(session.send(input()), answers);
    assert!(
        matches!(refused, Err(ClientError::HttpRefused { status: 422, .. })),
        "{refused:?}"
    );
    // The refused input is not sent over a pipe, and does not keep the session.
    drop((session, turn, first, _events));
    host.expect("session.detach").await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_socket_without_http_and_streams_have_none() {
    use tokio::net::UnixListener;
    use trunkline_client::UnixSocket;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"{\"type\":\"pong\"}\n").await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    };
    let http = HttpClient::from(UnixSocket::new(&path));
    let (refused, ()) = tokio::join!(http.request(Method::GET, "/v1/me", None), serve);
    assert!(
        matches!(refused, Err(ClientError::Unsupported(_))),
        "{refused:?}"
    );

    let (near, _far) = tokio::io::duplex(64);
    let (input, output) = tokio::io::split(near);
    let client = Client::connect(Streams::new(input, output)).await.unwrap();
    assert!(matches!(client.http(), Err(ClientError::Unsupported(_))));
}
