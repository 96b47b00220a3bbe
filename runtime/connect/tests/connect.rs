//! A connector between a hub on a real WebSocket, which holds to what is known of Amurg's, and a
//! host of a few lines.

#![allow(
    clippy::needless_pass_by_value,
    reason = "frames are made where they are said"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod hub;

use std::{path::PathBuf, time::Duration};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    net::TcpListener,
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};
use tokio_tungstenite::tungstenite::Message;
use trunkline_client::{Client, ReconnectPolicy, Streams};
use trunkline_connect::{
    ConnectError, ConnectOptions, ConnectorEnd, RuntimeToken, TokenFile, WhenLost, connect,
};

use hub::Hub;

/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(30);

type Outcome = Result<ConnectorEnd, ConnectError>;

/// A connector that runs, with its host.
struct Connector {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
    stop: Option<oneshot::Sender<()>>,
    done: JoinHandle<Outcome>,
    token: PathBuf,
    _folder: tempfile::TempDir,
}

impl Connector {
    /// Connects to the address, with the token `t-1`. The host has the agent `a`.
    async fn to(address: &str, lost: WhenLost) -> Self {
        let mut connector = Self::begin(address, lost, None).await;
        connector.name_agents().await;
        connector
    }

    async fn begin(address: &str, lost: WhenLost, agents: Option<Vec<String>>) -> Self {
        Self::begin_with(address, |options| {
            options.lost = lost;
            options.agents = agents;
        })
        .await
    }

    async fn begin_with(address: &str, change: impl FnOnce(&mut ConnectOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        TokenFile::new(&token).replace("t-1").unwrap();
        let mut options = ConnectOptions {
            address: address.parse().unwrap(),
            token: RuntimeToken::File(TokenFile::new(&token)),
            runtime_id: "r".to_owned(),
            org: Some("o".to_owned()),
            bare_ids: false,
            tool_denial: |_| None,
            agents: None,
            idle: Duration::from_secs(1800),
            lost: WhenLost::Deny,
        };
        change(&mut options);
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(far);
        let (stop, stopped) = oneshot::channel();
        let policy = ReconnectPolicy::default().fail_fast();
        let client = Client::connect_with(Streams::new(input, output), policy);
        let client = client.await.unwrap();
        let done = tokio::spawn(connect(options, client, async move {
            let _ = stopped.await;
        }));
        let (lines, output) = tokio::io::split(near);
        let lines = BufReader::new(lines).lines();
        Self {
            lines,
            output,
            stop: Some(stop),
            done,
            token,
            _folder: folder,
        }
    }

    /// Returns the next line for the host.
    async fn line(&mut self) -> Value {
        let line = timeout(SOON, self.lines.next_line())
            .await
            .expect("a line in time")
            .unwrap()
            .expect("a line");
        serde_json::from_str(&line).unwrap()
    }

    async fn say(&mut self, line: Value) {
        self.output
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn name_agents(&mut self) {
        let list = self.line().await;
        assert_eq!(list["type"], "agents.list");
        let agents = json!([{ "id": "a", "profile": "codex", "name": "A" }]);
        let answer = json!({
            "type": "agents.list.result", "session_id": "", "request_id": list["request_id"], "agents": agents,
        });
        self.say(answer).await;
    }

    /// Takes a session that the hub opens. Gives its id at the host.
    async fn opened(&mut self) -> Value {
        let start = self.line().await;
        assert_eq!(
            (&start["type"], &start["agent_id"]),
            (&json!("session.start"), &json!("a"))
        );
        let wire = start["session_id"].clone();
        self.say(
            json!({ "type": "session.ready", "session_id": wire, "protocol": 1, "extensions": ["turns"] }),
        )
        .await;
        wire
    }

    async fn ended(mut self) -> Outcome {
        drop(self.stop.take());
        await_end(self.done).await
    }
}

/// Waits for the end of a connector.
async fn await_end(done: JoinHandle<Outcome>) -> Outcome {
    timeout(SOON, done).await.expect("an end in time").unwrap()
}

/// Connects a hub with a host.
async fn connect_to_hub() -> (Hub, Connector) {
    let mut hub = Hub::new().await;
    let connector = Connector::to(&hub.address(), WhenLost::Deny).await;
    hub.accept().await;
    (hub, connector)
}

/// A hub and its connector, in a turn; the session's id at the host, and the turn's.
async fn in_a_turn() -> (Hub, Connector, Value, Value) {
    let (mut hub, mut connector) = connect_to_hub().await;
    hub.say("user.message", message("m-1", "hello")).await;
    let wire = connector.opened().await;
    let turn = connector.line().await["turn_id"].clone();
    hub.hears("turn.started").await;
    (hub, connector, wire, turn)
}

fn message(id: &str, content: &str) -> Value {
    json!({ "session_id": "s", "message_id": id, "content": content, "agent_id": "r.a", "user_id": "u" })
}

#[tokio::test]
async fn a_turn_goes_from_the_hub_to_the_host_and_back() {
    let mut hub = Hub::new().await;
    let mut connector = Connector::to(&hub.address(), WhenLost::Deny).await;
    let hello = hub.accept().await;
    assert_eq!(
        (&hello["runtime_id"], &hello["token"], &hello["org_id"]),
        (&json!("r"), &json!("t-1"), &json!("o"))
    );
    let agent = &hello["agents"][0];
    assert_eq!(
        (&agent["id"], &agent["profile"], &agent["name"]),
        (&json!("r.a"), &json!("codex"), &json!("A"))
    );
    hub.say(
        "session.create",
        json!({ "session_id": "s", "agent_id": "r.a", "user_id": "u" }),
    )
    .await;
    let wire = connector.opened().await;
    assert_eq!(hub.hears("session.created").await["ok"], true);
    hub.say("user.message", message("m-1", "hello")).await;
    let input = connector.line().await;
    assert_eq!(
        (&input["type"], &input["content"]),
        (&json!("user.input"), &json!("hello"))
    );
    let turn = &input["turn_id"];
    connector
        .say(json!({ "type": "output", "session_id": wire, "turn_id": turn, "content": "Hello!" }))
        .await;
    connector
        .say(json!({ "type": "turn.complete", "session_id": wire, "turn_id": turn }))
        .await;
    assert_eq!(hub.hears("turn.started").await["in_response_to"], "m-1");
    assert_eq!(hub.hears("agent.output").await["content"], "Hello!");
    assert_eq!(hub.hears("turn.completed").await["exit_code"], 0);
    hub.say("ping", json!({})).await;
    hub.hears("pong").await;
    // A message that still runs at the end has one.
    hub.say("user.message", message("m-2", "more")).await;
    connector.line().await;
    hub.hears("turn.started").await;
    drop(connector.stop.take());
    hub.hears("agent.output").await;
    assert_eq!(hub.hears("turn.completed").await["exit_code"], 1);
    assert_eq!(connector.line().await["type"], "session.close");
    connector.output.shutdown().await.unwrap();
    assert_eq!(
        await_end(connector.done).await.unwrap(),
        ConnectorEnd::Stopped
    );
}

/// An agent's id is a key of the whole hub: one that two runtimes register is taken over.
#[tokio::test]
async fn two_runtimes_with_an_agent_of_one_name_do_not_meet() {
    let mut registered = Vec::new();
    let mut ends = Vec::new();
    for (runtime, bare_ids, session) in [("one", true, "s-1"), ("two", false, "s-2")] {
        let mut hub = Hub::new().await;
        let mut connector = Connector::begin_with(&hub.address(), |options| {
            options.runtime_id = runtime.to_owned();
            options.bare_ids = bare_ids;
        })
        .await;
        connector.name_agents().await;
        let hello = hub.accept().await;
        let agent = hello["agents"][0]["id"].clone();
        hub.say(
            "session.create",
            json!({ "session_id": session, "agent_id": agent, "user_id": "u" }),
        )
        .await;
        registered.push(agent);
        ends.push((hub, connector));
    }
    assert_eq!(registered, ["a", "two.a"]);
    for (hub, connector) in &mut ends {
        connector.opened().await;
        assert_eq!(hub.hears("session.created").await["ok"], true);
    }
    for (_, connector) in ends {
        assert_eq!(connector.ended().await.unwrap(), ConnectorEnd::Stopped);
    }
}

/// A token of the configuration has no file in which a new one could be kept.
#[tokio::test]
async fn a_token_of_the_configuration_is_replaced_in_memory() {
    let mut hub = Hub::new().await;
    let mut connector = Connector::begin_with(&hub.address(), |options| {
        options.token = RuntimeToken::Value("t-of-file".to_owned());
    })
    .await;
    connector.name_agents().await;
    assert_eq!(hub.accept().await["token"], "t-of-file");
    hub.say("runtime.token_refresh", json!({ "token": "r:1:ab" }))
        .await;
    // Behind the next answer it has been taken.
    hub.say("ping", json!({})).await;
    hub.hears("pong").await;
    assert_eq!(TokenFile::new(&connector.token).read().unwrap(), "t-1");
    hub.drop_connection();
    connector.name_agents().await;
    assert_eq!(hub.accept().await["token"], "r:1:ab");
    assert_eq!(connector.ended().await.unwrap(), ConnectorEnd::Stopped);
    for token in ["", "a b", "ä", "a\nb"] {
        let value = RuntimeToken::Value(token.to_owned());
        assert!(value.read().is_err(), "{token:?}");
        assert!(!format!("{value:?}").contains("a b"));
    }
}

#[tokio::test]
async fn a_connection_that_breaks_in_a_turn_is_made_anew_and_the_end_comes() {
    let (mut hub, mut connector, wire, turn) = in_a_turn().await;
    connector
        .say(json!({ "type": "permission.request", "session_id": wire, "request_id": "q", "tool": "Bash",
        "description": "d", "resource": "r" }))
        .await;
    hub.hears("permission.request").await;
    connector
        .say(json!({ "type": "tool.start", "session_id": wire, "tool_call_id": "c", "tool": "T" }))
        .await;
    hub.hears("agent.output").await;
    hub.drop_connection();
    let denied = connector.line().await;
    assert_eq!(
        (&denied["request_id"], &denied["approved"]),
        (&json!("q"), &json!(false))
    );
    // What happens meanwhile waits.
    connector
        .say(json!({ "type": "output", "session_id": wire, "turn_id": turn, "content": "Done." }))
        .await;
    connector
        .say(json!({ "type": "turn.complete", "session_id": wire, "turn_id": turn }))
        .await;
    connector.name_agents().await;
    hub.accept().await;
    let mut words: Vec<String> = Vec::new();
    while words
        .last()
        .is_none_or(|word| !word.starts_with("turn.completed"))
    {
        let (kind, payload) = hub.next().await;
        words.push(format!(
            "{kind} {}",
            payload["content"].as_str().unwrap_or_default()
        ));
    }
    assert!(
        words[0].starts_with("agent.output The connection to the hub broke."),
        "{words:?}"
    );
    assert!(
        words.iter().any(|word| word == "agent.output Done."),
        "{words:?}"
    );
    let outputs = words
        .iter()
        .filter(|word| word.contains("tool_use"))
        .count();
    assert_eq!(outputs, 0, "the hub would show it twice: {words:?}");
    connector.output.shutdown().await.unwrap();
    assert_eq!(
        await_end(connector.done).await.unwrap(),
        ConnectorEnd::HostEnded
    );
}

#[tokio::test]
async fn a_new_token_is_kept_and_shown_by_the_next_connection() {
    let (mut hub, mut connector) = connect_to_hub().await;
    hub.say("runtime.token_refresh", json!({ "token": "r:1:ab" }))
        .await;
    // Behind the next answer it has been taken.
    hub.say("ping", json!({})).await;
    hub.hears("pong").await;
    assert_eq!(TokenFile::new(&connector.token).read().unwrap(), "r:1:ab");
    hub.drop_connection();
    connector.name_agents().await;
    assert_eq!(hub.accept().await["token"], "r:1:ab");
    assert_eq!(connector.ended().await.unwrap(), ConnectorEnd::Stopped);
}

#[tokio::test]
async fn a_hub_that_refuses_ends_a_connector_that_it_never_took() {
    let mut hub = Hub::new().await;
    let connector = Connector::to(&hub.address(), WhenLost::Deny).await;
    hub.refuse("invalid runtime credentials").await;
    let error = await_end(connector.done).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the hub refuses the runtime: invalid runtime credentials"
    );
    assert!(!error.contains("t-1"));
}

#[tokio::test]
async fn an_agent_that_the_host_has_not_is_an_error_before_anything_is_dialled() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("ws://{}", listener.local_addr().unwrap());
    let mut connector = Connector::begin(
        &address,
        WhenLost::Deny,
        Some(vec!["a".to_owned(), "none".to_owned()]),
    )
    .await;
    connector.name_agents().await;
    let error = await_end(connector.done).await.unwrap_err();
    assert!(matches!(error, ConnectError::NoAgent(agent) if agent == "none"));
    assert!(timeout(Duration::ZERO, listener.accept()).await.is_err());
}

#[tokio::test]
async fn garbage_costs_itself_and_a_giant_frame_the_connection() {
    let (mut hub, mut connector) = connect_to_hub().await;
    for text in [
        "garbage",
        "{}",
        "[1]",
        r#"{"type":"stop.request","payload":{"session_id":7}}"#,
    ] {
        hub.send(Message::text(text)).await;
    }
    hub.send(Message::binary(vec![0; 4096])).await;
    hub.say(
        "permission.response",
        json!({ "session_id": "x", "request_id": "y", "approved": true }),
    )
    .await;
    hub.say("stop.request", json!({ "session_id": "unknown" }))
        .await;
    assert_eq!(hub.hears("stop.ack").await["ok"], false);
    let giant = json!({ "type": "user.message", "payload": message("m", &"x".repeat(21 << 20)) });
    // It is let go before it is whole.
    let _ = hub.try_send(Message::text(giant.to_string())).await;
    hub.drop_connection();
    connector.name_agents().await;
    hub.accept().await;
    hub.say("user.message", message("m-1", "hello")).await;
    connector.opened().await;
    assert_eq!(
        connector.line().await["content"],
        "hello",
        "it goes on, and nothing of before was taken"
    );
    assert_eq!(connector.ended().await.unwrap(), ConnectorEnd::Stopped);
}

#[tokio::test]
async fn a_flood_of_a_hub_that_reads_nothing_stays_bounded_and_harms_no_one() {
    let (mut hub, mut connector) = connect_to_hub().await;
    for number in 0..20_000 {
        hub.say(
            "stop.request",
            json!({ "session_id": format!("unknown-{number}") }),
        )
        .await;
    }
    hub.say("user.message", message("m-1", "hello")).await;
    // It begins to read: each has its answer, in order.
    for number in 0..20_000 {
        let ack = hub.hears("stop.ack").await;
        assert_eq!(ack["session_id"], format!("unknown-{number}"));
    }
    connector.opened().await;
    assert_eq!(connector.line().await["content"], "hello");
    assert_eq!(connector.ended().await.unwrap(), ConnectorEnd::Stopped);
}

#[tokio::test]
async fn an_agent_that_says_more_than_the_hub_reads_waits_and_nothing_is_lost() {
    let (mut hub, connector, wire, turn) = in_a_turn().await;
    const LINES: usize = 400;
    let mut output = connector.output;
    let wire = wire.to_string();
    let turn = turn.to_string();
    let writes = tokio::spawn(async move {
        let text = "x".repeat(50_000);
        for number in 0..LINES {
            let line = format!(
                "{{\"type\":\"output\",\"session_id\":{wire},\"turn_id\":{turn},\"content\":\"{number}:{text}\",\"channel\":\"tool\"}}\n"
            );
            output.write_all(line.as_bytes()).await.unwrap();
        }
        output
    });
    for number in 0..LINES {
        let content = hub.hears("agent.output").await["content"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(content.starts_with(&format!("{number}:")) && content.len() > 50_000);
    }
    writes.await.unwrap().shutdown().await.unwrap();
    assert_eq!(
        await_end(connector.done).await.unwrap(),
        ConnectorEnd::HostEnded
    );
}

#[tokio::test]
async fn a_hub_comes_back_while_more_waits_than_is_kept_here() {
    let (mut hub, mut connector, wire, turn) = in_a_turn().await;
    hub.drop_connection();
    assert_eq!(connector.line().await["type"], "agents.list");
    let text = "x".repeat(100_000);
    let line = json!({ "type": "output", "session_id": wire, "turn_id": turn, "content": text, "channel": "tool" });
    let mut output = connector.output;
    for _ in 0..80 {
        let line = format!("{line}\n");
        output.write_all(line.as_bytes()).await.unwrap();
    }
    // The host ends without an answer: the hub gets the agents of before, and all events.
    output.shutdown().await.unwrap();
    hub.accept().await;
    let mut outputs = 0;
    while outputs < 80 {
        let (kind, payload) = hub.next().await;
        outputs += usize::from(kind == "agent.output" && payload["channel"] == "tool");
    }
    assert_eq!(
        await_end(connector.done).await.unwrap(),
        ConnectorEnd::HostEnded
    );
}

#[tokio::test]
async fn a_hub_is_verified_before_the_token_is_shown() {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let server = rustls::ServerConfig::builder_with_provider(
        rustls::crypto::ring::default_provider().into(),
    )
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(
        vec![key.cert.der().clone()],
        rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()).into(),
    )
    .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("wss://localhost:{}", listener.local_addr().unwrap().port());
    let _connector = Connector::to(&address, WhenLost::Deny).await;
    let (stream, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(server));
    // No one has signed it, so the handshake ends before a byte of ours.
    let refused = timeout(SOON, acceptor.accept(stream)).await.unwrap();
    assert!(
        refused.is_err(),
        "a certificate that no one has signed was taken"
    );
}

/// Without sleeping: time is paused, and does not advance while a socket has work.
#[tokio::test(start_paused = true)]
async fn a_hub_that_is_silent_is_left_after_more_than_a_minute() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("ws://{}", listener.local_addr().unwrap());
    let mut connector = Connector::to(&address, WhenLost::Deny).await;
    let (stream, _) = listener.accept().await.unwrap();
    let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
    socket.next().await.unwrap().unwrap();
    socket
        .send(Message::text(
            r#"{"type":"hello.ack","payload":{"ok":true}}"#,
        ))
        .await
        .unwrap();
    let since = tokio::time::Instant::now();
    // It reads no more, so it answers no ping. The next connection asks for the agents first.
    let line = connector.lines.next_line().await.unwrap().unwrap();
    assert!(line.contains("agents.list"), "{line}");
    let waited = since.elapsed();
    assert!(
        waited >= Duration::from_secs(60) && waited < Duration::from_secs(150),
        "{waited:?}"
    );
}
