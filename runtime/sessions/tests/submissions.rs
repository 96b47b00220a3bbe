//! Inputs with files, requests and queues: the agent's view of the messages of several clients.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    sync::mpsc,
    time::timeout,
};
use trunkline_host::{Host, config::AgentConfig};
use trunkline_journal::Options;
use trunkline_protocol::{
    AdapterBody, FileInput, HostMessage, MessageId, RelayBody, SessionId, SessionStart, Sha256,
    UserInput,
};
use trunkline_sessions::{
    EntryBody, EntryContent, EntryItem, EntryListener, Reply, Sessions, Submission,
};

/// Timeout for events that should happen soon, on a busy machine too.
const SOON: Duration = Duration::from_secs(60);

/// An agent that is played by a test.
struct Agent {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Agent {
    /// Reads the next message, which must have this type.
    async fn read(&mut self, kind: &str) -> Value {
        let line = timeout(SOON, self.lines.next_line()).await.unwrap();
        let message: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
        assert_eq!(message["type"], kind, "{message}");
        message
    }

    async fn write(&mut self, mut message: Value) {
        message["session_id"] = json!("s");
        let line = format!("{message}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    /// Reads the start of the session and answers it.
    async fn start(&mut self) {
        self.read("session.start").await;
        self.write(json!({
            "type": "session.ready", "protocol": 1,
            "extensions": ["turns", "events", "control", "questions", "options"],
        }))
        .await;
    }

    /// Reads an input with this text and ends its turn.
    async fn end_turn(&mut self, content: &str) {
        let input = self.read("user.input").await;
        assert_eq!(input["content"], content);
        self.write(json!({"type": "turn.complete", "turn_id": input["turn_id"]}))
            .await;
    }
}

/// A session with an agent that is played by the test.
struct World {
    folder: TempDir,
    host: Host,
    sessions: Sessions,
    agents: mpsc::Receiver<DuplexStream>,
    id: SessionId,
}

impl World {
    async fn open(folder: TempDir) -> Self {
        let (arrived, agents) = mpsc::channel(4);
        let streams = move || {
            let (host, agent) = tokio::io::duplex(1024 * 1024);
            arrived.try_send(agent).unwrap();
            tokio::io::split(host)
        };
        let host = Host::builder()
            .agent_over(AgentConfig::external("played", "none"), streams)
            .build()
            .unwrap();
        let opened = host.clone();
        let path = folder.path().join("journal");
        let open = move || Sessions::open(opened, &path, Options::default());
        let (sessions, _) = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
        Self {
            folder,
            host,
            sessions,
            agents,
            id: SessionId::new("s").unwrap(),
        }
    }

    async fn new() -> (Self, Client) {
        let world = Self::open(tempfile::tempdir().unwrap()).await;
        let started = world
            .sessions
            .start(&world.id, "played", SessionStart::default(), None, None)
            .unwrap();
        let client = Client {
            entries: started.into_entries(),
        };
        (world, client)
    }

    async fn join(&self) -> Client {
        let (_, listener) = self.sessions.join(&self.id).await.unwrap();
        Client {
            entries: listener.into_entries(),
        }
    }

    async fn agent(&mut self) -> Agent {
        let stream = timeout(SOON, self.agents.recv()).await.unwrap().unwrap();
        let (reader, writer) = tokio::io::split(stream);
        let mut agent = Agent {
            lines: BufReader::new(reader).lines(),
            writer,
        };
        agent.start().await;
        agent
    }

    /// Ends in order and opens the same journal again.
    async fn restart(self) -> Self {
        self.sessions.finish().await;
        self.host.shutdown().await;
        self.sessions.close().await;
        Self::open(self.folder).await
    }

    fn file(&self, name: &str, content: &str) -> FileInput {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        announce(&path, content)
    }
}

fn announce(path: &Path, content: &str) -> FileInput {
    let digest = hmac_sha256::Hash::hash(content.as_bytes());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    FileInput {
        file_name: path.file_name().map(|name| name.to_string_lossy().into()),
        file_mime_type: None,
        file_path: path.to_string_lossy().into_owned(),
        size: Some(content.len() as u64),
        sha256: Sha256::parse(&digest),
    }
}

struct Client {
    entries: EntryListener,
}

impl Client {
    async fn submit(&self, id: &str, content: &str, files: Vec<FileInput>) {
        let input = UserInput {
            message_id: MessageId::new(id).ok(),
            ..UserInput::text(content)
        };
        let submission = Submission {
            input,
            files,
            ..Submission::default()
        };
        assert!(self.entries.listener().sender().submit(submission).await);
    }

    async fn send(&self, mut message: Value) {
        message["session_id"] = json!("s");
        let message = HostMessage::parse(&message.to_string()).unwrap();
        assert!(self.entries.listener().sender().send(message).await);
    }

    async fn next(&mut self) -> EntryItem {
        timeout(SOON, self.entries.next()).await.unwrap().unwrap()
    }

    /// Waits for an entry for which `find` returns something.
    async fn entry<T>(&mut self, find: impl Fn(&EntryContent) -> Option<T>) -> T {
        loop {
            if let EntryItem::Entry(entry) = self.next().await
                && let Some(found) = entry.content().and_then(|content| find(&content))
            {
                return found;
            }
        }
    }

    async fn reply(&mut self) -> Reply {
        loop {
            if let EntryItem::Reply(reply) = self.next().await {
                return reply;
            }
        }
    }

    /// Waits for the result of an input. Returns `true` for a repeated one.
    async fn result(&mut self) -> bool {
        match self.reply().await.body {
            EntryBody::Relay(RelayBody::InputResult(result)) => result.duplicate == Some(true),
            other => panic!("{other:?}"),
        }
    }

    /// Waits for the agent's request, and returns its id.
    async fn request(&mut self) -> String {
        let id = |content: &EntryContent| match &content.body {
            EntryBody::Adapter(AdapterBody::PermissionRequest(request)) => {
                Some(request.request_id.to_string())
            }
            _ => None,
        };
        self.entry(id).await
    }
}

fn file_message(file: &FileInput) -> Value {
    let mut message = serde_json::to_value(file).unwrap();
    message["type"] = json!("file.input");
    message
}

fn end(content: &EntryContent) -> Option<Value> {
    match &content.body {
        EntryBody::Adapter(AdapterBody::TurnComplete(end)) => serde_json::to_value(end).ok(),
        _ => None,
    }
}

#[tokio::test]
async fn a_repeated_or_refused_input_delivers_no_file() {
    let (mut world, mut client) = World::new().await;
    let one = world.file("one", "1");
    let two = world.file("two", "2");
    client.submit("m-1", "first", vec![one.clone()]).await;
    let mut agent = world.agent().await;
    let file = agent.read("file.input").await;
    assert_eq!(file["file_name"], "one");
    agent.end_turn("first").await;
    assert!(!client.result().await);
    client.entry(end).await;

    client.submit("m-1", "first", vec![one.clone()]).await;
    assert!(client.result().await, "it is a repeated one");
    for (content, file) in [("first", two), ("other", one)] {
        client.submit("m-1", content, vec![file]).await;
        match client.reply().await.body {
            EntryBody::Adapter(AdapterBody::TurnComplete(end)) => {
                let error = serde_json::to_value(end.error).unwrap();
                assert_eq!(error["category"], "protocol", "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    // The agent gets no file before the next input.
    client.submit("m-2", "second", Vec::new()).await;
    agent.end_turn("second").await;
    client.entry(end).await;

    let mut world = world.restart().await;
    let mut client = world.join().await;
    let again = world.file("one", "1");
    client.submit("m-1", "first", vec![again]).await;
    assert!(client.result().await, "it is a repeated one");
    client.submit("m-3", "third", Vec::new()).await;
    let mut agent = world.agent().await;
    agent.end_turn("third").await;
    client.entry(end).await;
}

#[tokio::test]
async fn a_file_goes_with_the_next_turn_of_the_client_that_sent_it() {
    let (mut world, one) = World::new().await;
    let mut two = world.join().await;
    let message = file_message(&world.file("mine", "1"));
    one.send(message.clone()).await;
    // The file is entered at once.
    let delivered = |content: &EntryContent| {
        matches!(content.body, EntryBody::Relay(RelayBody::FileDelivered(_))).then_some(())
    };
    two.entry(delivered).await;
    two.submit("m-1", "of two", Vec::new()).await;
    let mut agent = world.agent().await;
    agent.end_turn("of two").await;
    one.submit("m-2", "of one", Vec::new()).await;
    assert_eq!(agent.read("file.input").await["file_name"], "mine");
    agent.end_turn("of one").await;

    // The file of a client that has left goes with the next turn.
    one.send(message).await;
    two.entry(delivered).await;
    drop(one);
    two.submit("m-3", "again", Vec::new()).await;
    assert_eq!(agent.read("file.input").await["file_name"], "mine");
    agent.end_turn("again").await;
}

/// The copy of a file may be ready before the input ahead of it is stored.
#[tokio::test]
async fn a_file_behind_an_input_goes_with_the_next_one() {
    let (mut world, client) = World::new().await;
    let message = file_message(&world.file("later", "1"));
    let mut agent = None;
    for round in 0..20 {
        let first = format!("first {round}");
        let second = format!("second {round}");
        client.submit(&first, &first, Vec::new()).await;
        client.send(message.clone()).await;
        client.submit(&second, &second, Vec::new()).await;
        let agent = match &mut agent {
            Some(agent) => agent,
            none => none.insert(world.agent().await),
        };
        agent.end_turn(&first).await;
        assert_eq!(agent.read("file.input").await["file_name"], "later");
        agent.end_turn(&second).await;
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_copied_ends_its_input() {
    let (mut world, mut client) = World::new().await;
    let missing = PathBuf::from("/nowhere/at/all");
    client
        .submit("m-1", "with a file", vec![announce(&missing, "1")])
        .await;
    let ended = client.entry(end).await;
    assert_eq!(
        (&ended["error"]["category"], &ended["delivered"]),
        (&json!("file_refused"), &json!("no")),
        "{ended}"
    );
    client.submit("m-2", "without", Vec::new()).await;
    world.agent().await.end_turn("without").await;
    client.entry(end).await;
}

#[tokio::test]
async fn a_file_that_no_turn_announced_is_reported_at_the_close() {
    let (world, mut client) = World::new().await;
    let file = world.file("left", "1");
    client
        .send(json!({"type": "file.input", "file_path": file.file_path}))
        .await;
    client
        .entry(|content| {
            matches!(content.body, EntryBody::Relay(RelayBody::FileDelivered(_))).then_some(())
        })
        .await;
    client.send(json!({"type": "session.close"})).await;
    let message = |content: &EntryContent| match &content.body {
        EntryBody::Adapter(AdapterBody::Error(error)) => Some(error.message.clone()),
        _ => None,
    };
    let message = client.entry(message).await;
    assert!(
        message.contains("left") && message.contains("closed"),
        "{message}"
    );
}

#[tokio::test]
async fn a_request_whose_id_was_used_gets_another_and_a_late_answer_settles_nothing() {
    let (mut world, mut client) = World::new().await;
    let request = json!({
        "type": "permission.request", "request_id": "r", "tool": "Bash", "description": "d",
        "resource": "ls",
    });
    client.submit("m-1", "first", Vec::new()).await;
    let mut agent = world.agent().await;
    let turn = agent.read("user.input").await["turn_id"].clone();
    let mut first = request.clone();
    first["turn_id"] = turn.clone();
    agent.write(first.clone()).await;
    assert_eq!(client.request().await, "r");
    let answer = |id: &str, approved: bool| json!({"type": "permission.response", "request_id": id, "approved": approved});
    client.send(answer("r", true)).await;
    assert_eq!(agent.read("permission.response").await["approved"], true);

    // Another listener answers the first request late, while the second waits.
    agent.write(first).await;
    let second = client.request().await;
    assert_ne!(second, "r");
    let late = world.join().await;
    late.send(answer("r", false)).await;
    late.send(answer(&second, true)).await;
    let answered = agent.read("permission.response").await;
    assert_eq!(
        (&answered["request_id"], &answered["approved"]),
        (&json!("r"), &json!(true))
    );
    agent
        .write(json!({"type": "turn.complete", "turn_id": turn}))
        .await;
    client.entry(end).await;
    drop((client, late));

    let mut world = world.restart().await;
    let mut client = world.join().await;
    client.submit("m-2", "second", Vec::new()).await;
    let mut agent = world.agent().await;
    let turn = agent.read("user.input").await["turn_id"].clone();
    let mut third = request;
    third["turn_id"] = turn;
    agent.write(third).await;
    let third = client.request().await;
    assert!(third != "r" && third != second, "{third}");
    client.send(answer("r", false)).await;
    client.send(answer(&third, true)).await;
    assert_eq!(agent.read("permission.response").await["approved"], true);
}

/// The end of a turn that comes while the host ends is stored as it is.
#[tokio::test]
async fn a_turn_that_ends_while_the_host_ends_has_the_end_of_the_agent() {
    let (mut world, mut client) = World::new().await;
    client.submit("m-1", "last", Vec::new()).await;
    let mut agent = world.agent().await;
    let turn = agent.read("user.input").await["turn_id"].clone();
    let sessions = world.sessions.clone();
    let finished = tokio::spawn(async move { sessions.finish().await });
    // On this one thread the session takes the end before the agent writes.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    agent
        .write(json!({"type": "turn.complete", "turn_id": turn, "summary": "done"}))
        .await;
    let ended = client.entry(end).await;
    assert_eq!(ended["summary"], "done", "{ended}");
    finished.await.unwrap();
}
