//! A host of a cluster, with an agent that echoes.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream},
    time::{sleep, timeout},
};
use trunkline_cluster::{
    fabric::Fabric,
    marks::Marks,
    memory::Memory,
    node::{JoinError, Node, NodeOptions},
    store::Store,
};
use trunkline_gateway::{Peers, SessionLocation, TokenFile};
use trunkline_host::{Host, config::AgentConfig};
use trunkline_journal::Options as JournalOptions;
use trunkline_protocol::{
    HostMessage, RequestId, SessionAttach, SessionHistory, SessionId, SessionStart,
};
use trunkline_sessions::{Listener, Sessions, StreamItem};

/// Duration of a lease in these tests.
pub(crate) const TTL: Duration = Duration::from_secs(1);

const SOON: Duration = Duration::from_secs(60);

/// Waits until something holds, which it does before long.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    let late = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < late, "it does not come");
        sleep(Duration::from_millis(5)).await;
    }
}

/// State of a machine that survives its host.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) folder: TempDir,
    pub(crate) marks: Marks,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            marks: Marks::default(),
        }
    }
}

/// A host of a cluster.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) node: Node,
    pub(crate) sessions: Sessions,
    pub(crate) marks: Marks,
    folder: TempDir,
}

impl Machine {
    pub(crate) async fn start(memory: &Memory, name: &str) -> Self {
        Self::with(memory, name, &[]).await
    }

    pub(crate) async fn with(memory: &Memory, name: &str, storage: &[&str]) -> Self {
        Self::join(memory, name, storage).await.unwrap()
    }

    pub(crate) async fn join(
        memory: &Memory,
        name: &str,
        storage: &[&str],
    ) -> Result<Self, JoinError> {
        let access = Arc::new(memory.access_for(name));
        Self::over(access.clone(), access, name, storage, Known::default()).await
    }

    /// The next run of a host, with what the last one had.
    pub(crate) async fn again(
        memory: &Memory,
        name: &str,
        known: Known,
    ) -> Result<Self, JoinError> {
        let access = Arc::new(memory.access_for(name));
        Self::over(access.clone(), access, name, &[], known).await
    }

    pub(crate) async fn over(
        store: Arc<dyn Store>,
        fabric: Arc<dyn Fabric>,
        name: &str,
        storage: &[&str],
        known: Known,
    ) -> Result<Self, JoinError> {
        let Known { folder, marks } = known;
        let options = NodeOptions {
            host: name.to_owned(),
            labels: BTreeMap::new(),
            storage: storage.iter().map(|&id| id.to_owned()).collect(),
            ttl: TTL,
            agents: vec!["echo".to_owned()],
            digest: "d".to_owned(),
            version: "1".to_owned(),
            marks: marks.clone(),
        };
        let node = Node::join(store, fabric, options, Box::new(|_| {})).await?;
        let connect = || {
            let (says, read) = tokio::io::duplex(64 * 1024);
            let (written, told) = tokio::io::duplex(64 * 1024);
            tokio::spawn(echo(told, says));
            (read, written)
        };
        let host = Host::builder()
            .agent_over(AgentConfig::external("echo", "none"), connect)
            .build()
            .unwrap();
        let journal = folder.path().to_owned();
        let record = node.record();
        let (sessions, _) =
            Sessions::open_recorded(host, &journal, JournalOptions::default(), record).unwrap();
        let door = |stream: DuplexStream, _| -> BoxFuture<'static, ()> {
            let (mut read, mut written) = tokio::io::split(stream);
            Box::pin(async move { drop(tokio::io::copy(&mut read, &mut written).await) })
        };
        node.serve(sessions.clone(), Box::new(door)).await.unwrap();
        Ok(Self {
            node,
            sessions,
            marks,
            folder,
        })
    }

    /// Opens a session here, while no other host would take it.
    pub(crate) async fn open_here(&self, id: &SessionId) {
        assert_eq!(
            self.node.place(id, Some("echo")).await.unwrap(),
            SessionLocation::Here
        );
        self.open(id);
    }

    /// Opens a session whose id this host has taken.
    pub(crate) fn open(&self, id: &SessionId) {
        drop(
            self.sessions
                .start(id, "echo", SessionStart::default(), None, None)
                .unwrap(),
        );
    }

    pub(crate) async fn join_session(&self, id: &SessionId) -> Listener {
        let late = Instant::now() + SOON;
        loop {
            match self.sessions.attach(id, &SessionAttach::default()).await {
                Ok((_, listener)) => return listener,
                Err(error) => assert!(Instant::now() < late, "{id}: {error:?}"),
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sends an input and returns a subscriber to its turn.
    pub(crate) async fn say(&self, id: &SessionId, message: &str, text: &str) -> Listener {
        let listener = self.join_session(id).await;
        let turn = format!("t-{message}");
        let input = json!({"type": "user.input", "session_id": id.as_str(), "turn_id": turn, "message_id": message, "content": text});
        let said = listener
            .sender()
            .send(HostMessage::parse(&input.to_string()).unwrap())
            .await;
        assert!(said);
        listener
    }

    /// Sends an input and reads until an entry of the turn has this type.
    async fn hear(&self, id: &SessionId, message: &str, text: &str, kind: &str) -> String {
        let mut listener = self.say(id, message, text).await;
        let turn = format!("t-{message}");
        let mut lines = Vec::new();
        let mut heard = String::new();
        let heard = timeout(SOON, async {
            loop {
                match listener.next(&mut lines).await.unwrap() {
                    StreamItem::Entries | StreamItem::Reply => {}
                    over => panic!("{over:?}"),
                }
                for line in lines
                    .split(|byte| *byte == b'\n')
                    .filter(|line| !line.is_empty())
                {
                    let entry: Value = serde_json::from_slice(line).unwrap();
                    if entry["turn_id"] == turn && entry["type"] == "output" {
                        heard.push_str(entry["content"].as_str().unwrap());
                    }
                    if entry["turn_id"] == turn && entry["type"] == kind {
                        return heard;
                    }
                }
                lines.clear();
            }
        });
        heard.await.expect("the turn goes on")
    }

    /// Runs a whole turn and returns the agent's output.
    pub(crate) async fn turn(&self, id: &SessionId, message: &str, text: &str) -> String {
        self.hear(id, message, text, "turn.complete").await
    }

    /// Begins a turn, until its input is stored.
    pub(crate) async fn begin(&self, id: &SessionId, message: &str, text: &str) {
        self.hear(id, message, text, "turn.begin").await;
    }

    /// All entries of a session.
    pub(crate) async fn entries(&self, id: &SessionId) -> Vec<Value> {
        let asked = SessionHistory {
            request_id: RequestId::new("h").unwrap(),
            from: None,
            to: None,
        };
        let result = self.sessions.history(id, &asked).await;
        let entries = result.entries.expect("it is served here");
        entries
            .iter()
            .map(|entry| serde_json::from_str(entry.get()).unwrap())
            .collect()
    }

    /// Waits until this host has a session.
    pub(crate) async fn has(&self, id: &SessionId) {
        until(|| self.sessions.owned().iter().any(|owned| owned.id == *id)).await;
        drop(self.join_session(id).await);
    }

    /// Waits until this host sees a session there.
    pub(crate) async fn sees(&self, id: &SessionId, place: &SessionLocation) {
        let late = Instant::now() + SOON;
        loop {
            let seen = self.node.locate(id).await;
            if seen == *place {
                return;
            }
            assert!(Instant::now() < late, "{seen:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Has a session begin anew whose host is gone: where. The one that takes it may learn later
    /// that it is gone.
    pub(crate) async fn begins_anew(&self, id: &SessionId) -> String {
        let late = Instant::now() + SOON;
        loop {
            match self.node.relocate(id).await {
                Ok(host) => return host,
                Err(why) => assert!(
                    why.contains("is waited for") && Instant::now() < late,
                    "{why}"
                ),
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Closes a session and removes it.
    pub(crate) async fn remove(&self, id: &SessionId) {
        let listener = self.join_session(id).await;
        let close = json!({"type": "session.close", "session_id": id.as_str()});
        assert!(
            listener
                .sender()
                .send(HostMessage::parse(&close.to_string()).unwrap())
                .await
        );
        drop(listener);
        let late = Instant::now() + SOON;
        while let Err(error) = self.sessions.remove(id).await {
            assert!(Instant::now() < late, "{error}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The tokens of its daemon.
    pub(crate) fn tokens(&self) -> TokenFile {
        TokenFile::in_folder(self.folder.path())
    }

    /// The names of all files that are kept here of sessions.
    pub(crate) fn kept(&self) -> Vec<String> {
        let files = self.folder.path().join("files");
        let folders = std::fs::read_dir(files).into_iter().flatten().flatten();
        let names = folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten());
        names
            .map(|file| file.file_name().into_string().unwrap())
            .collect()
    }

    /// Ends in order, and gives what the next run has.
    pub(crate) async fn end(self) -> Known {
        self.sessions.finish().await;
        self.node.leave().await;
        self.sessions.close().await;
        Known {
            folder: self.folder,
            marks: self.marks,
        }
    }
}

/// An agent that repeats its input; a turn that waits ends when it is stopped. For a text that
/// begins with `file ` it makes a file and returns it.
async fn echo(told: DuplexStream, mut says: DuplexStream) {
    let mut lines = BufReader::new(told).lines();
    let mut folder = PathBuf::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let id = &message["session_id"];
        let answers = match message["type"].as_str().unwrap() {
            "session.start" => {
                folder = message["exchange_dir"].as_str().unwrap().into();
                vec![
                    json!({"type": "session.ready", "session_id": id, "protocol": 1, "extensions": ["turns", "events"]}),
                ]
            }
            "user.input" if message["content"] != "wait" => {
                let turn = &message["turn_id"];
                let text = message["content"].as_str().unwrap();
                let file = text.strip_prefix("file ").map(|content| {
                    let path = folder.join("given");
                    std::fs::write(&path, content).unwrap();
                    json!({"type": "file.output", "session_id": id, "turn_id": turn, "file_path": path})
                });
                let further = [
                    json!({"type": "output", "session_id": id, "turn_id": turn, "content": message["content"], "final": true}),
                    json!({"type": "turn.complete", "session_id": id, "turn_id": turn}),
                ];
                file.into_iter().chain(further).collect()
            }
            "stop" => {
                let turn = &message["turn_id"];
                let reason = &message["reason"];
                vec![
                    json!({"type": "turn.complete", "session_id": id, "turn_id": turn, "status": "stopped", "stop_reason": reason}),
                ]
            }
            _ => Vec::new(),
        };
        for answer in answers {
            let line = format!("{answer}\n");
            if says.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}
