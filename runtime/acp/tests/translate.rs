//! The translation between a scripted editor and a scripted relay. Lines for the editor are parsed
//! with the official types.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_client_protocol_schema::v1::{
    InitializeResponse, ListSessionsResponse, LoadSessionResponse, LogoutResponse,
    NewSessionResponse, PromptResponse, RequestPermissionRequest, SessionNotification,
    SetSessionConfigOptionResponse,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    sync::mpsc,
    task::JoinHandle,
};
use trunkline_acp::{Ended, Host, Options, serve};
use trunkline_client::{Connect, ConnectError, Pipe};
use trunkline_protocol::{SessionId, Sha256};

/// Bytes in flight.
const ROOM: usize = 1 << 20;

/// A relay whose part the test plays.
#[derive(Clone)]
struct Played {
    pipes: mpsc::Sender<DuplexStream>,
    removed: Arc<Mutex<Vec<String>>>,
    files: StoredFiles,
}

/// Files of sessions, by session and digest.
type StoredFiles = Arc<Mutex<BTreeMap<(String, String), Vec<u8>>>>;

impl Connect for Played {
    async fn connect(&mut self) -> Result<Pipe, ConnectError> {
        let (near, far) = tokio::io::duplex(ROOM);
        let ended = |_| ConnectError::permanent("the test has ended");
        self.pipes.send(far).await.map_err(ended)?;
        let (input, output) = tokio::io::split(near);
        Ok(Pipe::new(input, output))
    }
}

impl Host for Played {
    async fn remove(self, session: String) -> Result<(), String> {
        self.removed.lock().unwrap().push(session);
        Ok(())
    }

    async fn keep_file(
        self,
        session: SessionId,
        file: PathBuf,
        sha256: Sha256,
    ) -> Result<(), String> {
        let bytes = std::fs::read(file).unwrap();
        let key = (session.to_string(), sha256.to_string());
        self.files.lock().unwrap().insert(key, bytes);
        Ok(())
    }

    async fn read_file(
        self,
        session: SessionId,
        sha256: Sha256,
    ) -> Result<Option<Vec<u8>>, String> {
        let key = (session.to_string(), sha256.to_string());
        Ok(self.files.lock().unwrap().get(&key).cloned())
    }

    async fn work_dirs(self) -> Result<BTreeMap<String, String>, String> {
        Ok([("a".to_owned(), "/work".to_owned())].into())
    }

    async fn log_out(self) -> Result<(), String> {
        let mut removed = self.removed.lock().unwrap();
        if removed.is_empty() {
            removed.push("login".to_owned());
            return Ok(());
        }
        Err("nothing to end".to_owned())
    }
}

/// A side of a pipe, by lines of JSON.
struct Side {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: Option<WriteHalf<DuplexStream>>,
}

impl Side {
    fn new(stream: DuplexStream) -> Self {
        let (input, output) = tokio::io::split(stream);
        Self {
            lines: BufReader::new(input).lines(),
            output: Some(output),
        }
    }

    async fn says(&mut self, message: Value) {
        self.writes(&format!("{message}\n")).await;
    }

    async fn writes(&mut self, text: &str) {
        self.output
            .as_mut()
            .unwrap()
            .write_all(text.as_bytes())
            .await
            .unwrap();
    }

    async fn hears(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().expect("another line");
        serde_json::from_str(&line).unwrap()
    }
}

struct Stage {
    client: Side,
    relay: Side,
    pipes: mpsc::Receiver<DuplexStream>,
    removed: Arc<Mutex<Vec<String>>>,
    files: StoredFiles,
    folder: tempfile::TempDir,
    serving: JoinHandle<std::io::Result<Ended>>,
    asked: u64,
}

impl Stage {
    async fn new() -> Self {
        Self::with_unstable(false).await
    }

    async fn with_unstable(offers_unstable: bool) -> Self {
        let (near, far) = tokio::io::duplex(ROOM);
        let (made, mut pipes) = mpsc::channel(4);
        let removed = Arc::new(Mutex::default());
        let files = StoredFiles::default();
        let host = Played {
            pipes: made,
            removed: removed.clone(),
            files: files.clone(),
        };
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::new("1");
        options.files = Some(folder.path().to_owned());
        options.max_line = 100 * 1024 * 1024;
        options.offers_unstable = offers_unstable;
        options.logs_out = true;
        let (input, output) = tokio::io::split(far);
        let serving = tokio::spawn(serve(input, output, host, options, std::future::pending()));
        let relay = Side::new(pipes.recv().await.unwrap());
        Self {
            client: Side::new(near),
            relay,
            pipes,
            removed,
            files,
            folder,
            serving,
            asked: 0,
        }
    }

    async fn asks(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        let id = self.asked;
        self.client
            .says(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    /// The client's next line, which answers a request.
    async fn answer<T: serde::de::DeserializeOwned>(&mut self, id: u64) -> T {
        let line = self.client.hears().await;
        assert_eq!(line["id"], id, "{line}");
        serde_json::from_value(line["result"].clone())
            .unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    async fn error(&mut self, id: u64) -> (i64, String) {
        let line = self.client.hears().await;
        assert_eq!(line["id"], id, "{line}");
        (
            line["error"]["code"].as_i64().unwrap(),
            line["error"]["message"].as_str().unwrap().to_owned(),
        )
    }

    async fn update(&mut self) -> Value {
        let line = self.client.hears().await;
        assert_eq!(line["method"], "session/update", "{line}");
        let read: SessionNotification = serde_json::from_value(line["params"].clone()).unwrap();
        drop(read);
        line["params"]["update"].clone()
    }

    /// Initializes the editor with these capabilities. Returns the answer.
    async fn initializes(&mut self, capabilities: Value) -> Value {
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let id = self.asks("initialize", params).await;
        let told: Value = self.answer(id).await;
        let read: InitializeResponse = serde_json::from_value(told.clone()).unwrap();
        drop(read);
        told
    }

    /// An open session of an editor with these capabilities.
    async fn with_capabilities(capabilities: Value) -> (Self, String) {
        let mut stage = Self::new().await;
        stage.initializes(capabilities).await;
        let session = stage.opens_session().await;
        (stage, session)
    }

    async fn initialized() -> Self {
        let mut stage = Self::new().await;
        let id = stage
            .asks("initialize", json!({"protocolVersion": 9}))
            .await;
        let told: InitializeResponse = stage.answer(id).await;
        assert!(told.agent_capabilities.auth.logout.is_some());
        assert_eq!(
            told.protocol_version,
            agent_client_protocol_schema::ProtocolVersion::V1
        );
        stage
    }

    /// An open session whose agent has modes and models.
    async fn with_session() -> (Self, String) {
        let mut stage = Self::initialized().await;
        let session = stage.opens_session().await;
        (stage, session)
    }

    /// Opens a session whose agent has modes and models.
    async fn opens_session(&mut self) -> String {
        let id = self
            .asks("session/new", json!({"cwd": "/srv", "mcpServers": []}))
            .await;
        let start = self.relay.hears().await;
        assert_eq!(
            (&start["type"], &start["cwd"]),
            (&json!("session.start"), &json!("/srv"))
        );
        assert_eq!(start.get("mcp_servers"), None);
        let session = start["session_id"].as_str().unwrap().to_owned();
        self.makes_ready(&session).await;
        self.entry(&session, 1, json!({"type": "host.fact", "fact": "opened"}))
            .await;
        let info = json!({
            "type": "session.info", "model": "a", "models": [{"id": "a"}, {"id": "b", "label": "B"}],
            "mode": "ask", "modes": [{"id": "ask"}, {"id": "code", "name": "Code"}], "options_applied": ["cwd"],
        });
        self.entry(&session, 2, info).await;
        let told: NewSessionResponse = self.answer(id).await;
        assert_eq!(told.config_options.unwrap().len(), 2);
        assert_eq!(told.modes.unwrap().available_modes.len(), 2);
        session
    }

    /// Answers the request for the agent's own conversations, which it does not list.
    async fn lists_no_conversations(&mut self) {
        let list = self.relay.hears().await;
        assert_eq!(list.get("extensions"), None, "{list}");
        let result = json!({"type": "sessions.list.result", "request_id": list["request_id"],
            "error": "agent \"a\" does not list its conversations"});
        self.entry("", 0, result).await;
    }

    /// Begins a session. Returns the request, and the session's id.
    async fn asks_session(&mut self) -> (u64, String) {
        let params = json!({"cwd": "/srv", "mcpServers": []});
        let id = self.asks("session/new", params).await;
        let start = self.relay.hears().await;
        (id, start["session_id"].as_str().unwrap().to_owned())
    }

    async fn asks_mode(&mut self, session: &str, mode: &str) -> u64 {
        let params = json!({"sessionId": session, "modeId": mode});
        self.asks("session/set_mode", params).await
    }

    /// Sends a `session.info` with these members.
    async fn informs(&mut self, session: &str, seq: u64, mut members: Value) {
        members["type"] = json!("session.info");
        self.entry(session, seq, members).await;
    }

    async fn hears_attach(&mut self, after: u64) {
        let attach = self.relay.hears().await;
        assert_eq!(
            (&attach["type"], &attach["after"]),
            (&json!("session.attach"), &json!(after)),
            "{attach}"
        );
    }

    /// Allows what a request of the client's asks for.
    async fn allows(&mut self, request: &Value) {
        let outcome = json!({"outcome": "selected", "optionId": "allow"});
        let answer = json!({"jsonrpc": "2.0", "id": request, "result": {"outcome": outcome}});
        self.client.says(answer).await;
    }

    async fn hears_decision(&mut self, request: &str, approved: bool) {
        let said = self.relay.hears().await;
        assert_eq!(
            (&said["request_id"], &said["approved"]),
            (&json!(request), &json!(approved)),
            "{said}"
        );
    }

    /// Answers a request for sessions with these.
    async fn lists(&mut self, sessions: Value) {
        let list = self.relay.hears().await;
        let result = json!({"type": "sessions.list.result", "request_id": list["request_id"],
            "sessions": sessions});
        self.entry("", 0, result).await;
    }

    /// The relay's answer to a `session.start`.
    async fn makes_ready(&mut self, session: &str) {
        let ready =
            json!({"type": "session.ready", "protocol": 1, "extensions": ["turns", "journal"]});
        self.entry(session, 0, ready).await;
    }

    async fn entry(&mut self, session: &str, seq: u64, mut message: Value) {
        message["session_id"] = json!(session);
        if seq > 0 {
            message["seq"] = json!(seq);
            message["epoch"] = json!(1);
        }
        self.relay.says(message).await;
    }

    /// Begins a turn. Returns the request, and the input that the relay reads.
    async fn prompts(&mut self, session: &str, text: &str) -> (u64, Value) {
        let prompt = json!([{"type": "text", "text": text}]);
        let id = self
            .asks(
                "session/prompt",
                json!({"sessionId": session, "prompt": prompt}),
            )
            .await;
        let input = self.relay.hears().await;
        assert_eq!(
            (&input["type"], &input["content"]),
            (&json!("user.input"), &json!(text)),
            "{input}"
        );
        (id, input)
    }

    async fn asks_permission(&mut self, session: &str, seq: u64, request: &str) -> Value {
        let message = json!({
            "type": "permission.request", "request_id": request, "tool": "Bash", "description": "List files",
            "resource": "ls", "diffs": [{"path": "/srv/a", "new_text": "x"}, {"path": "/srv/b", "patch": "+x"}],
        });
        self.entry(session, seq, message).await;
        let line = self.client.hears().await;
        assert_eq!(line["method"], "session/request_permission", "{line}");
        let read: RequestPermissionRequest =
            serde_json::from_value(line["params"].clone()).unwrap();
        assert_eq!(read.options.len(), 2);
        let places = &line["params"]["toolCall"]["locations"];
        assert_eq!(*places, json!([{"path": "/srv/a"}, {"path": "/srv/b"}]));
        line["id"].clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_comes_whole_and_in_order() {
    let (mut stage, session) = Stage::with_session().await;
    let (id, input) = stage.prompts(&session, "go").await;
    let turn = input["turn_id"].clone();
    let begin = json!({"type": "turn.begin", "turn_id": turn, "message_id": input["message_id"], "content": "go"});
    stage.entry(&session, 3, begin).await;
    for (seq, message) in [
        json!({"type": "thinking", "content": "hm"}),
        json!({"type": "output", "content": "Hi"}),
        json!({"type": "tool.start", "tool_call_id": "c", "tool": "Edit", "input": {"path": "/srv/a"},
            "locations": [{"path": "/srv/a", "line": 3}, {"no": "path"}]}),
        json!({"type": "tool.update", "tool_call_id": "c", "content": "one "}),
        json!({"type": "tool.update", "tool_call_id": "c", "content": "two", "data": [1], "locations": ["/srv/b", 7]}),
        json!({"type": "tool.end", "tool_call_id": "c", "data": [{"n": 2}], "diffs": [{"path": "/srv/a", "old_text": "a", "new_text": "b"}]}),
        json!({"type": "plan", "entries": [{"content": "x", "status": "in_progress", "priority": "urgent"}]}),
        json!({"type": "context.usage", "used_tokens": 5, "total_tokens": 9}),
        json!({"type": "custom", "name": "x", "data": {}}),
        json!({"type": "turn.complete", "turn_id": turn, "status": "completed", "usage": {"cost_usd": 0.5}}),
    ]
    .into_iter()
    .enumerate()
    {
        stage.entry(&session, seq as u64 + 4, message).await;
    }
    let mut places = Vec::new();
    let mut outputs = Vec::new();
    let mut kinds = Vec::new();
    for _ in 0..9 {
        let update = stage.update().await;
        places.extend(update.get("locations").cloned());
        outputs.extend(update.get("rawOutput").cloned());
        kinds.push(update["sessionUpdate"].as_str().unwrap().to_owned());
        if update["status"] == "completed" {
            let text = &update["content"][1]["content"]["text"];
            assert_eq!(
                (&update["content"][0]["type"], text),
                (&json!("diff"), &json!("one two"))
            );
        }
    }
    assert_eq!(
        kinds,
        [
            "agent_thought_chunk",
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "tool_call_update",
            "tool_call_update",
            "plan",
            "usage_update",
            "usage_update"
        ]
    );
    let begun = json!([{"path": "/srv/a", "line": 3}]);
    assert_eq!(places, [begun, json!([{"path": "/srv/b"}])]);
    assert_eq!(outputs, [json!([1]), json!([{"n": 2}])]);
    let ended: PromptResponse = stage.answer(id).await;
    assert_eq!(json!(ended.stop_reason), "end_turn");
}

/// A tool has its name, news of its input, and an end that failed.
#[tokio::test(start_paused = true)]
async fn each_status_of_a_tool_is_sent() {
    let (mut stage, session) = Stage::with_session().await;
    for (seq, (message, member, value)) in (3..).zip([
        (
            json!({"type": "tool.start", "tool": "Bash", "title": "List"}),
            "name",
            json!("Bash"),
        ),
        (
            json!({"type": "tool.update", "input": {"command": "ls"}}),
            "rawInput",
            json!({"command": "ls"}),
        ),
        (
            json!({"type": "tool.end", "is_error": true}),
            "status",
            json!("failed"),
        ),
        (json!({"type": "tool.end"}), "status", json!("completed")),
    ]) {
        let mut message = message;
        message["tool_call_id"] = json!("c");
        stage.entry(&session, seq, message).await;
        assert_eq!(stage.update().await[member], value);
    }
}

/// An editor that knows notices gets errors that end nothing as such.
#[tokio::test(start_paused = true)]
async fn a_compaction_is_sent_where_the_editor_knows_it() {
    for knows in [true, false] {
        let capabilities = if knows {
            json!({"session": {"compaction": {}}})
        } else {
            json!({"session": {}})
        };
        let (mut stage, session) = Stage::with_capabilities(capabilities).await;
        for (seq, message) in [
            json!({"type": "compaction", "trigger": "auto", "id": "k", "summary": "All."}),
            json!({"type": "compaction"}),
            json!({"type": "thinking", "content": "hm"}),
        ]
        .into_iter()
        .enumerate()
        {
            stage.entry(&session, seq as u64 + 3, message).await;
        }
        if knows {
            let update = stage.update().await;
            assert_eq!(
                update,
                json!({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "completed",
                    "summary": [{"type": "text", "text": "All."}]})
            );
            assert_eq!(stage.update().await["compactionId"], "compaction-4");
        }
        assert_eq!(stage.update().await["sessionUpdate"], "agent_thought_chunk");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_ends_nothing_is_a_notice() {
    let capabilities = json!({"session": {"notices": {}}});
    let (mut stage, session) = Stage::with_capabilities(capabilities).await;
    for (seq, (fatal, severity)) in (3..).zip([(false, "warning"), (true, "error")]) {
        let error = json!({"type": "error", "message": "why", "fatal": fatal});
        stage.entry(&session, seq, error).await;
        let update = stage.update().await;
        let notice = json!({"sessionUpdate": "notice", "severity": severity, "title": "why"});
        assert_eq!(update, notice);
    }
}

/// A permission is granted only by a choice, and denied by cancelling, an error and leaving.
#[tokio::test(start_paused = true)]
async fn a_permission_that_is_lost_or_cancelled_is_denied() {
    let (mut stage, session) = Stage::with_session().await;
    stage.prompts(&session, "go").await;
    let id = stage.asks_permission(&session, 3, "r-1").await;
    stage.allows(&id).await;
    stage.hears_decision("r-1", true).await;
    // The same answer again decides nothing more.
    stage.allows(&id).await;

    let id = stage.asks_permission(&session, 4, "r-2").await;
    stage
        .client
        .says(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32800, "message": "no"}}))
        .await;
    stage.hears_decision("r-2", false).await;

    stage.asks_permission(&session, 5, "r-3").await;
    stage
        .client
        .says(
            json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}),
        )
        .await;
    assert_eq!(stage.relay.hears().await["type"], "stop");
    stage.hears_decision("r-3", false).await;
    assert_eq!(stage.client.hears().await["method"], "$/cancel_request");

    // Decided elsewhere: the client need not answer.
    let id = stage.asks_permission(&session, 6, "r-4").await;
    stage
        .entry(
            &session,
            7,
            json!({"type": "request.decided", "request_id": "r-4", "approved": true}),
        )
        .await;
    let withdrawn = stage.client.hears().await;
    assert_eq!(
        (&withdrawn["method"], &withdrawn["params"]["requestId"]),
        (&json!("$/cancel_request"), &id)
    );

    stage.asks_permission(&session, 8, "r-5").await;
    stage
        .client
        .output
        .take()
        .unwrap()
        .shutdown()
        .await
        .unwrap();
    stage.hears_decision("r-5", false).await;
    drop(stage.relay);
    assert_eq!(stage.serving.await.unwrap().unwrap(), Ended::Client);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_loaded_with_its_history_and_resumed_without() {
    for (method, shown) in [("session/load", true), ("session/resume", false)] {
        let mut stage = Stage::initialized().await;
        let id = stage
            .asks(
                method,
                json!({"sessionId": "s", "cwd": "/srv", "mcpServers": []}),
            )
            .await;
        stage.hears_attach(0).await;
        let attached = json!({"type": "session.attached", "agent_id": "a", "first_seq": 1, "last_seq": 6, "epoch": 1,
            "requests": ["open"]});
        stage.entry("s", 0, attached).await;
        for (seq, message) in [
            json!({"type": "host.fact", "fact": "opened"}),
            json!({"type": "turn.begin", "turn_id": "t", "content": "go"}),
            json!({"type": "permission.request", "turn_id": "t", "request_id": "old", "tool": "x", "description": "d",
                "resource": "r"}),
            json!({"type": "request.decided", "request_id": "old", "approved": true}),
            json!({"type": "output", "turn_id": "t", "content": "done"}),
            json!({"type": "permission.request", "turn_id": "t", "request_id": "open", "tool": "x", "description": "d",
                "resource": "r"}),
        ]
        .into_iter()
        .enumerate()
        {
            stage.entry("s", seq as u64 + 1, message).await;
        }
        if shown {
            assert_eq!(stage.update().await["sessionUpdate"], "user_message_chunk");
            assert_eq!(stage.update().await["content"]["text"], "done");
        }
        let _: LoadSessionResponse = stage.answer(id).await;
        // What still waits is asked, once the session is open.
        assert_eq!(
            stage.client.hears().await["method"],
            "session/request_permission"
        );
        stage
            .entry("s", 7, json!({"type": "output", "content": "new"}))
            .await;
        assert_eq!(stage.update().await["content"]["text"], "new");
    }
}

/// Pictures of the user are in the history with their bytes; other files are named.
#[tokio::test(start_paused = true)]
async fn a_history_has_the_files_of_the_user() {
    let mut stage = Stage::initialized().await;
    let picture = b"picture".to_vec();
    let digest = Sha256::digest(&picture).to_string();
    let key = ("s".to_owned(), digest.clone());
    stage.files.lock().unwrap().insert(key, picture);
    let load = json!({"sessionId": "s", "cwd": "/srv", "mcpServers": []});
    let id = stage.asks("session/load", load).await;
    stage.relay.hears().await;
    let delivered = |name: &str, mime: &str, size: u64, sha256: &str| {
        json!({"type": "file.delivered", "turn_id": "t", "file_name": name, "file_mime_type": mime,
            "size": size, "sha256": sha256})
    };
    let entries = [
        json!({"type": "turn.begin", "turn_id": "t", "content": "look", "files": [digest]}),
        delivered("a.png", "image/png", 7, &digest),
        delivered("b.png", "image/png", 5 << 20, &digest),
        delivered("c.png", "image/png", 7, &"0".repeat(64)),
        delivered("d.pdf", "application/pdf", 7, &digest),
        json!({"type": "file.delivered", "turn_id": "t"}),
    ];
    let attached = json!({"type": "session.attached", "agent_id": "a", "first_seq": 1,
        "last_seq": entries.len(), "epoch": 1});
    stage.entry("s", 0, attached).await;
    for (seq, entry) in (1..).zip(entries) {
        stage.entry("s", seq, entry).await;
    }
    assert_eq!(stage.update().await["content"]["text"], "look");
    let shown = json!({"type": "image", "mimeType": "image/png", "data": "cGljdHVyZQ=="});
    let text = |text: &str| json!({"type": "text", "text": text});
    for content in [
        shown,
        text("[file b.png]"),
        text("[file c.png]"),
        text("[file d.pdf]"),
        text("[file file]"),
    ] {
        let update = stage.update().await;
        assert_eq!(update["sessionUpdate"], "user_message_chunk");
        assert_eq!(update["content"], content);
    }
    let _: LoadSessionResponse = stage.answer(id).await;
}

/// A picture is announced with its digest and stored for the history; its editor is not shown it.
#[tokio::test(start_paused = true)]
async fn a_picture_of_a_prompt_is_stored_with_its_session() {
    let (mut stage, session) = Stage::with_session().await;
    let picture = json!({"type": "image", "mimeType": "image/png", "data": "cGljdHVyZQ=="});
    let params = json!({"sessionId": session, "prompt": [picture]});
    let id = stage.asks("session/prompt", params).await;
    let file = stage.relay.hears().await;
    let digest = Sha256::digest(b"picture").to_string();
    assert_eq!(file["type"], "file.input");
    assert_eq!(file["file_mime_type"], "image/png");
    let path = PathBuf::from(file["file_path"].as_str().unwrap());
    assert!(path.starts_with(stage.folder.path()) && path.exists());
    let key = (session.clone(), digest.clone());
    assert_eq!(stage.files.lock().unwrap()[&key], b"picture");
    let input = stage.relay.hears().await;
    let delivered = json!({"type": "file.delivered", "file_name": "image-1.png",
        "file_mime_type": "image/png", "size": 7, "sha256": digest});
    stage.entry(&session, 3, delivered.clone()).await;
    let end = json!({"type": "turn.complete", "turn_id": input["turn_id"], "status": "completed"});
    stage.entry(&session, 4, end).await;
    let _: PromptResponse = stage.answer(id).await;
    assert!(!path.exists(), "the host has its own copy");
    // The same picture again, by another hub.
    stage.entry(&session, 5, delivered).await;
    assert_eq!(stage.update().await["content"]["type"], "image");
}

/// A prompt is refused whole if its files and the files of open prompts exceed the bound.
#[tokio::test(start_paused = true)]
async fn the_files_of_open_prompts_are_bounded() {
    let (mut stage, session) = Stage::with_session().await;
    let data = "AAAA".repeat(11 << 20);
    let picture = json!({"type": "image", "mimeType": "image/png", "data": data});
    let params = json!({"sessionId": session, "prompt": [picture]});
    stage.asks("session/prompt", params.clone()).await;
    for kind in ["file.input", "user.input"] {
        assert_eq!(stage.relay.hears().await["type"], kind);
    }
    let id = stage.asks("session/prompt", params).await;
    let (code, message) = stage.error(id).await;
    assert_eq!(code, -32602);
    assert!(message.contains("wait for the end of a turn"), "{message}");
    let written = std::fs::read_dir(stage.folder.path()).unwrap().count();
    assert_eq!(written, 1);
}

/// A copy, a title and the archive have methods only if unstable methods are offered.
#[tokio::test(start_paused = true)]
async fn a_session_is_copied_and_edited_by_unstable_methods() {
    for offers_unstable in [false, true] {
        let mut stage = Stage::with_unstable(offers_unstable).await;
        let told = stage.initializes(json!({})).await;
        let offered = &told["agentCapabilities"]["sessionCapabilities"]["fork"];
        assert_eq!(offered.is_object(), offers_unstable);
        let fork = json!({"sessionId": "s", "cwd": "/srv", "mcpServers": []});
        let id = stage.asks("session/fork", fork).await;
        if !offers_unstable {
            assert_eq!(stage.error(id).await.0, -32601);
            continue;
        }
        let fork = stage.relay.hears().await;
        assert_eq!(
            (&fork["type"], &fork["source"]),
            (&json!("session.fork"), &json!("s"))
        );
        let copy = fork["session_id"].as_str().unwrap().to_owned();
        let attached = json!({"type": "session.attached", "agent_id": "a", "first_seq": 1,
            "last_seq": 2, "epoch": 1, "copied": "transcript"});
        stage.entry(&copy, 0, attached).await;
        let said = json!({"type": "turn.begin", "turn_id": "t", "content": "go"});
        stage.entry(&copy, 1, said).await;
        let fact = json!({"type": "host.fact", "fact": "forked_from", "source": "s"});
        stage.entry(&copy, 2, fact).await;
        let told: Value = stage.answer(id).await;
        assert_eq!(told["sessionId"], copy);

        let edit = json!({"sessionId": "s", "title": "Logs", "archived": true});
        let id = stage.asks("_trunkline/session/edit", edit).await;
        let edit = stage.relay.hears().await;
        assert_eq!(
            (&edit["type"], &edit["title"], &edit["archived"]),
            (&json!("session.edit"), &json!("Logs"), &json!(true))
        );
        let result = json!({"type": "session.edit.result", "request_id": edit["request_id"]});
        stage.entry("s", 0, result).await;
        let told: Value = stage.answer(id).await;
        assert_eq!(told, json!({}));
    }
}

/// The host ends the agent's login, and the editor gets the reason why it does not.
#[tokio::test(start_paused = true)]
async fn a_logout_is_passed_on_to_the_host() {
    let mut stage = Stage::initialized().await;
    let id = stage.asks("logout", json!({})).await;
    let _: LogoutResponse = stage.answer(id).await;
    assert_eq!(*stage.removed.lock().unwrap(), ["login"]);
    let id = stage.asks("logout", json!({})).await;
    assert_eq!(stage.error(id).await, (-32603, "nothing to end".to_owned()));
}

/// The answer to a prompt has the tokens of its turn only if unstable methods are offered.
#[tokio::test(start_paused = true)]
async fn the_tokens_of_a_turn_are_unstable() {
    for offers_unstable in [false, true] {
        let mut stage = Stage::with_unstable(offers_unstable).await;
        stage.initializes(json!({})).await;
        let session = stage.opens_session().await;
        for (seq, (usage, expected)) in (3..).zip([
            (
                json!({"input_tokens": 3, "output_tokens": 4, "reasoning_tokens": 1}),
                json!({"inputTokens": 3, "outputTokens": 4, "totalTokens": 7, "thoughtTokens": 1}),
            ),
            (json!({"input_tokens": 3}), Value::Null),
        ]) {
            let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
            let id = stage.asks("session/prompt", params).await;
            let input = stage.relay.hears().await;
            let end = json!({"type": "turn.complete", "turn_id": input["turn_id"], "usage": usage});
            stage.entry(&session, seq, end).await;
            let told: Value = stage.answer(id).await;
            let expected = if offers_unstable {
                expected
            } else {
                Value::Null
            };
            assert_eq!(told["usage"], expected);
        }
    }
}

/// The status of a session is a method of its own only if unstable methods are offered.
#[tokio::test(start_paused = true)]
async fn the_status_of_a_session_is_unstable() {
    for offers_unstable in [false, true] {
        let mut stage = Stage::with_unstable(offers_unstable).await;
        let told = stage.initializes(json!({})).await;
        let offered = told["agentCapabilities"]["sessionCapabilities"]["status"].is_object();
        assert_eq!(offered, offers_unstable);
        for (state, status) in [
            ("idle", "open"),
            ("running", "open"),
            ("detached", "saved"),
            ("closed", "saved"),
        ] {
            let id = stage
                .asks("session/status", json!({"sessionId": "s"}))
                .await;
            if !offers_unstable {
                assert_eq!(stage.error(id).await.0, -32601);
                continue;
            }
            let list = stage.relay.hears().await;
            assert_eq!(list["id"], "s");
            let found = json!([{"session_id": "s", "agent_id": "a", "state": state}]);
            let result = json!({"type": "sessions.list.result", "request_id": list["request_id"], "sessions": found});
            stage.entry("", 0, result).await;
            let told: Value = stage.answer(id).await;
            assert_eq!(told, json!({"status": status}), "{state}");
        }
        if offers_unstable {
            let id = stage
                .asks("session/status", json!({"sessionId": "none"}))
                .await;
            stage.lists(json!([])).await;
            let line = stage.client.hears().await;
            assert_eq!(
                (&line["id"], &line["error"]["code"]),
                (&json!(id), &json!(-32002))
            );
            assert_eq!(line["error"]["data"]["sessionId"], "none");
        }
    }
}

/// The list has the conversations that the agent itself keeps. One that is loaded or resumed becomes
/// a session of the journal with the id that the list has.
#[tokio::test(start_paused = true)]
async fn the_agents_own_conversations_are_listed_and_continued() {
    let mut stage = Stage::initialized().await;
    let id = stage.asks("session/list", json!({"cwd": "/srv"})).await;
    let list = stage.relay.hears().await;
    let own = json!([{"session_id": "s-1", "agent_id": "a", "cwd": "/srv"}]);
    let result = json!({"type": "sessions.list.result", "request_id": list["request_id"],
        "sessions": own, "next": "n"});
    stage.entry("", 0, result).await;
    let list = stage.relay.hears().await;
    assert_eq!((&list["cwd"], &list["limit"]), (&json!("/srv"), &json!(50)));
    let entries = json!([
        {"native_session_id": "n:1", "agent_id": "a", "title": "Oak", "cwd": "/srv",
            "updated_at": "2026-01-02T03:04:05Z"},
        // A session of the journal continues it.
        {"native_session_id": "n-2", "agent_id": "a", "session_id": "s-1"},
        // No id of a session would name it.
        {"native_session_id": "n-3", "agent_id": "a:b"},
    ]);
    let result = json!({"type": "sessions.list.result", "request_id": list["request_id"],
        "entries": entries});
    stage.entry("", 0, result).await;
    let told: ListSessionsResponse = stage.answer(id).await;
    let session = "native:a:n:1";
    let listed: Vec<_> = told
        .sessions
        .iter()
        .map(|it| it.session_id.to_string())
        .collect();
    assert_eq!(listed, ["s-1", session]);
    assert_eq!(
        json!(told.sessions[1]),
        json!({"sessionId": session, "cwd": "/srv", "title": "Oak",
            "updatedAt": "2026-01-02T03:04:05Z"})
    );

    // Conversations are on the first page only.
    let id = stage.asks("session/list", json!({"cursor": "n"})).await;
    stage.lists(json!([])).await;
    let _: ListSessionsResponse = stage.answer(id).await;

    // An agent whose list does not come has none.
    let id = stage.asks("session/list", json!({})).await;
    stage.lists(own).await;
    stage.relay.hears().await;
    let told: ListSessionsResponse = stage.answer(id).await;
    assert_eq!(told.sessions.len(), 1);

    for (method, shown) in [("session/load", true), ("session/resume", false)] {
        let mut stage = Stage::initialized().await;
        let params = json!({"sessionId": session, "cwd": "/srv", "mcpServers": []});
        let id = stage.asks(method, params).await;
        assert_eq!(stage.relay.hears().await["type"], "session.attach");
        let refused = json!({"type": "session.refused", "reason": "unknown", "message": "none"});
        stage.entry(session, 0, refused).await;
        let start = stage.relay.hears().await;
        let mut resume = json!({"native_session_id": "n:1"});
        if shown {
            resume["history"] = json!(true);
        }
        assert_eq!(
            (&start["type"], &start["session_id"], &start["agent_id"]),
            (&json!("session.start"), &json!(session), &json!("a"))
        );
        assert_eq!((&start["cwd"], &start["resume"]), (&json!("/srv"), &resume));
        stage.makes_ready(session).await;
        let opened = json!({"type": "host.fact", "fact": "opened"});
        stage.entry(session, 1, opened).await;
        let mut seq = 2;
        if shown {
            let said = json!({"type": "output", "content": "before", "history": true});
            stage.entry(session, seq, said).await;
            seq += 1;
            assert_eq!(stage.update().await["content"]["text"], "before");
        }
        let line = stage.client.hears().await;
        assert_eq!((&line["id"], &line["result"]), (&json!(id), &json!({})));
        let said = json!({"type": "output", "content": "new"});
        stage.entry(session, seq, said).await;
        assert_eq!(stage.update().await["content"]["text"], "new");
    }

    // What refuses a session of the journal for another reason opens none.
    let params = json!({"sessionId": session, "cwd": "/srv", "mcpServers": []});
    let id = stage.asks("session/load", params).await;
    stage.relay.hears().await;
    let refused = json!({"type": "session.refused", "reason": "forbidden", "message": "no"});
    stage.entry(session, 0, refused).await;
    stage.error(id).await;
}

/// Sessions without a folder of their own work in the folder of their agent, and are found there.
#[tokio::test(start_paused = true)]
async fn each_session_is_listed_with_the_folder_that_it_works_in() {
    let mut stage = Stage::initialized().await;
    let sessions = json!([
        {"session_id": "own", "agent_id": "a", "cwd": "/srv"},
        {"session_id": "agents", "agent_id": "a"},
        {"session_id": "unknown", "agent_id": "b"},
    ]);
    let result = |list: &Value, sessions: &Value, next: Option<&str>| {
        json!({"type": "sessions.list.result", "request_id": list["request_id"],
            "sessions": sessions, "next": next})
    };
    let found = |told: ListSessionsResponse| -> Vec<(String, String)> {
        let found = told.sessions.into_iter();
        found
            .map(|session| {
                (
                    session.session_id.to_string(),
                    session.cwd.to_str().unwrap().to_owned(),
                )
            })
            .collect()
    };
    let pair = |id: &str, cwd: &str| (id.to_owned(), cwd.to_owned());

    let id = stage.asks("session/list", json!({})).await;
    let list = stage.relay.hears().await;
    stage.entry("", 0, result(&list, &sessions, None)).await;
    stage.lists_no_conversations().await;
    let told = found(stage.answer(id).await);
    let all = [
        pair("own", "/srv"),
        pair("agents", "/work"),
        pair("unknown", "/"),
    ];
    assert_eq!(told, all);

    // The host cannot filter by the folder of an agent: the next page is searched, too.
    let id = stage.asks("session/list", json!({"cwd": "/work"})).await;
    let list = stage.relay.hears().await;
    assert_eq!(list.get("cwd"), None);
    let others = json!([{"session_id": "own", "agent_id": "a", "cwd": "/srv"}]);
    stage.entry("", 0, result(&list, &others, Some("n"))).await;
    let list = stage.relay.hears().await;
    assert_eq!(list["cursor"], "n");
    stage
        .entry("", 0, result(&list, &sessions, Some("m")))
        .await;
    stage.lists_no_conversations().await;
    let told: ListSessionsResponse = stage.answer(id).await;
    assert_eq!(told.next_cursor.as_deref(), Some("m"));
    assert_eq!(found(told), [pair("agents", "/work")]);

    // A search ends, and the editor may continue it.
    let id = stage.asks("session/list", json!({"cwd": "/work"})).await;
    for _ in 0..20 {
        let list = stage.relay.hears().await;
        stage.entry("", 0, result(&list, &others, Some("n"))).await;
    }
    stage.lists_no_conversations().await;
    let told: ListSessionsResponse = stage.answer(id).await;
    assert_eq!(
        (told.sessions.len(), told.next_cursor.as_deref()),
        (0, Some("n"))
    );
}

#[tokio::test(start_paused = true)]
async fn an_option_is_set_when_the_agent_says_so() {
    let (mut stage, session) = Stage::with_session().await;
    let set = |value: &str| json!({"sessionId": session, "configId": "model", "value": value});
    let id = stage.asks("session/set_config_option", set("b")).await;
    assert_eq!(stage.relay.hears().await["model"], "b");
    stage.informs(&session, 3, json!({"model": "b"})).await;
    assert_eq!(
        stage.update().await["sessionUpdate"],
        "config_option_update"
    );
    let told: SetSessionConfigOptionResponse = stage.answer(id).await;
    assert_eq!(json!(told.config_options)[1]["currentValue"], "b");

    let refused =
        json!({"type": "error", "category": "permission_denied", "message": "mode may not be set"});
    let id = stage.asks_mode(&session, "code").await;
    assert_eq!(stage.relay.hears().await["mode"], "code");
    stage.entry(&session, 0, refused.clone()).await;
    stage.informs(&session, 0, json!({"mode": "ask"})).await;
    assert_eq!(
        stage.error(id).await,
        (-32602, "mode may not be set".to_owned())
    );

    // The host refuses for the agent: its own answer has no values.
    let id = stage.asks_mode(&session, "code").await;
    let same = stage.asks("session/set_config_option", set("b")).await;
    stage.relay.hears().await;
    stage.relay.hears().await;
    stage.entry(&session, 0, refused.clone()).await;
    let unchanged = json!({"display_id": "of no change"});
    stage.informs(&session, 0, unchanged).await;
    assert_eq!(stage.update().await["sessionUpdate"], "session_info_update");
    stage.informs(&session, 0, json!({})).await;
    assert_eq!(
        stage.error(id).await,
        (-32602, "mode may not be set".to_owned())
    );
    stage.informs(&session, 0, json!({})).await;
    let told: SetSessionConfigOptionResponse = stage.answer(same).await;
    assert_eq!(
        json!(told.config_options)[1]["currentValue"],
        "b",
        "it was in force"
    );

    // An agent that stays with its value has the reason in an error before it.
    let id = stage.asks("session/set_config_option", set("a")).await;
    stage.relay.hears().await;
    let error = json!({"type": "error", "message": "the model is broken", "fatal": false});
    stage.entry(&session, 4, error).await;
    stage.informs(&session, 5, json!({"model": "b"})).await;
    assert_eq!(
        stage.error(id).await,
        (-32602, "the model is broken".to_owned())
    );

    let id = stage.asks_mode(&session, "none").await;
    assert_eq!(stage.error(id).await.0, -32602);
    let id = stage.asks("session/set_config_option", set("none")).await;
    assert_eq!(stage.error(id).await.0, -32602);
}

/// The effort is an option that any agent with one has; its values are judged by the agent.
#[tokio::test(start_paused = true)]
async fn the_effort_of_an_agent_is_an_option() {
    let (mut stage, session) = Stage::with_session().await;
    let info = json!({"type": "session.info", "reasoning_effort": "xhigh"});
    stage.entry(&session, 3, info).await;
    let update = stage.update().await;
    let option = &update["configOptions"][2];
    assert_eq!(option["category"], "thought_level");
    assert_eq!(option["currentValue"], "xhigh");
    assert_eq!(option["options"].as_array().unwrap().len(), 4, "{option}");
    let set =
        |value: &str| json!({"sessionId": session, "configId": "thought_level", "value": value});
    let id = stage.asks("session/set_config_option", set("low")).await;
    assert_eq!(stage.relay.hears().await["reasoning_effort"], "low");
    let info = json!({"type": "session.info", "reasoning_effort": "low"});
    stage.entry(&session, 4, info).await;
    assert_eq!(
        stage.update().await["sessionUpdate"],
        "config_option_update"
    );
    let told: SetSessionConfigOptionResponse = stage.answer(id).await;
    assert_eq!(json!(told.config_options)[2]["currentValue"], "low");
    let id = stage.asks("session/set_config_option", set("none")).await;
    assert_eq!(stage.error(id).await.0, -32602);
}

/// An agent's own options are set by its names. An effort that it lists is set as such, and a
/// boolean is for editors that know it.
#[tokio::test(start_paused = true)]
async fn options_of_the_agents_own_are_offered_and_set() {
    for knows in [true, false] {
        let capabilities = if knows {
            json!({"session": {"configOptions": {"boolean": {}}}})
        } else {
            json!({})
        };
        let (mut stage, session) = Stage::with_capabilities(capabilities).await;
        let speed = |value: &str| {
            json!({"id": "speed", "label": "Speed", "description": "d", "category": "model_config", "kind": "select",
            "value": value, "choices": [{"id": "fast", "label": "Fast", "description": "f"}, {"id": "slow"}]})
        };
        let web = |value: bool| json!({"id": "web", "kind": "boolean", "value": value});
        let effort = json!({"id": "e", "category": "thought_level", "kind": "select", "value": "low", "choices": [{"id": "low"}, {"id": "max"}]});
        let options = json!([effort, speed("fast"), web(false), {"id": "mode", "kind": "boolean", "value": true}, {"id": "odd"}]);
        let info = json!({"type": "session.info", "reasoning_effort": "low", "options": options});
        stage.entry(&session, 3, info).await;
        let update = stage.update().await;
        let shown = update["configOptions"].as_array().unwrap();
        let ids: Vec<_> = shown.iter().map(|option| &option["id"]).collect();
        if !knows {
            assert_eq!(ids, ["mode", "model", "e", "speed"]);
            continue;
        }
        assert_eq!(ids, ["mode", "model", "e", "speed", "web"]);
        assert_eq!(
            shown[3],
            json!({"id": "speed", "name": "Speed", "description": "d", "category": "model_config", "type": "select", "currentValue": "fast",
                "options": [{"value": "fast", "name": "Fast", "description": "f"}, {"value": "slow", "name": "slow"}]})
        );
        assert_eq!(
            shown[4],
            json!({"id": "web", "name": "web", "type": "boolean", "currentValue": false})
        );
        let set = |option: &str, value: Value| json!({"sessionId": session, "configId": option, "type": "boolean", "value": value});
        let id = stage
            .asks("session/set_config_option", set("web", json!(true)))
            .await;
        assert_eq!(stage.relay.hears().await["options"], json!({"web": true}));
        let info = json!({"type": "session.info", "options": [speed("fast"), web(true)]});
        stage.entry(&session, 4, info).await;
        stage.update().await;
        let told: SetSessionConfigOptionResponse = stage.answer(id).await;
        let told = json!(told.config_options);
        assert_eq!(
            told.as_array().unwrap().last().unwrap()["currentValue"],
            true
        );

        // An option that stays as it is has the reason in an error before it.
        let id = stage
            .asks("session/set_config_option", set("speed", json!("slow")))
            .await;
        assert_eq!(
            stage.relay.hears().await["options"],
            json!({"speed": "slow"})
        );
        let error = json!({"type": "error", "message": "it is busy", "fatal": false});
        stage.entry(&session, 5, error).await;
        let info = json!({"type": "session.info", "options": [effort, speed("fast"), web(true)]});
        stage.entry(&session, 6, info).await;
        stage.update().await;
        assert_eq!(stage.error(id).await, (-32602, "it is busy".to_owned()));

        let _ = stage
            .asks("session/set_config_option", set("e", json!("max")))
            .await;
        let update = stage.relay.hears().await;
        assert_eq!(
            (&update["reasoning_effort"], update.get("options")),
            (&json!("max"), None)
        );
        for (option, value) in [
            ("speed", json!("other")),
            ("speed", json!(true)),
            ("web", json!("true")),
            ("odd", json!("x")),
            ("none", json!("x")),
        ] {
            let id = stage
                .asks("session/set_config_option", set(option, value))
                .await;
            assert_eq!(stage.error(id).await.0, -32602, "{option}");
        }
    }
}

/// The cost is sent although the agent reports no context, and the title with the time of its change.
#[tokio::test(start_paused = true)]
async fn the_cost_and_the_title_of_a_session_are_sent() {
    let (mut stage, session) = Stage::with_session().await;
    let (id, input) = stage.prompts(&session, "go").await;
    let end =
        json!({"type": "turn.complete", "turn_id": input["turn_id"], "usage": {"cost_usd": 0.5}});
    stage.entry(&session, 3, end).await;
    let update = stage.update().await;
    assert_eq!(update["cost"], json!({"amount": 0.5, "currency": "USD"}));
    assert_eq!((&update["used"], &update["size"]), (&json!(0), &json!(0)));
    let _: PromptResponse = stage.answer(id).await;

    let times = [
        "2026-01-01T00:00:00Z",
        "2026-01-02T00:00:00Z",
        "2026-01-03T00:00:00Z",
    ];
    let edited = |title: &str| json!({"type": "session.edited", "title": title});
    let info = json!({"type": "session.info", "display_id": "agent's"});
    for ((seq, mut entry), (time, title)) in (4..)
        .zip([info, edited("user's"), edited("")])
        .zip(times.into_iter().zip(["agent's", "user's", "agent's"]))
    {
        entry["time"] = json!(time);
        stage.entry(&session, seq, entry).await;
        let update = stage.update().await;
        assert_eq!(update["sessionUpdate"], "session_info_update");
        assert_eq!(
            (&update["title"], &update["updatedAt"]),
            (&json!(title), &json!(time))
        );
    }
}

/// The host dies in a turn: the next one gets the input that may not be stored, under the same id.
#[tokio::test(start_paused = true)]
async fn another_relay_goes_on_behind_the_last_entry() {
    let (mut stage, session) = Stage::with_session().await;
    let (stored, first) = stage.prompts(&session, "one").await;
    let result = json!({"type": "input.result", "message_id": first["message_id"], "turn_id": first["turn_id"], "seq": 3});
    stage.entry(&session, 0, result).await;
    stage
        .entry(
            &session,
            3,
            json!({"type": "output", "turn_id": first["turn_id"], "content": "x"}),
        )
        .await;
    stage.update().await;
    let (lost, second) = stage.prompts(&session, "two").await;
    stage.relay = Side::new({
        drop(std::mem::replace(
            &mut stage.relay,
            Side::new(tokio::io::duplex(1).0),
        ));
        stage.pipes.recv().await.unwrap()
    });
    let attach = stage.relay.hears().await;
    assert_eq!(
        (&attach["type"], &attach["after"], &attach["epoch"]),
        (&json!("session.attach"), &json!(3), &json!(1))
    );
    let attached = json!({"type": "session.attached", "agent_id": "x", "first_seq": 1, "last_seq": 3, "epoch": 1});
    stage.entry(&session, 0, attached).await;
    let again = stage.relay.hears().await;
    assert_eq!(again, second, "not the first, which the journal has");
    for (seq, turn) in [(4, &first), (5, &second)] {
        let end =
            json!({"type": "turn.complete", "turn_id": turn["turn_id"], "status": "completed"});
        stage.entry(&session, seq, end).await;
    }
    let _: PromptResponse = stage.answer(stored).await;
    let _: PromptResponse = stage.answer(lost).await;
}

#[tokio::test(start_paused = true)]
async fn a_hostile_client_is_answered_and_costs_no_one_else() {
    let mut stage = Stage::new().await;
    let early = stage.asks("session/new", json!({"cwd": "/"})).await;
    assert_eq!(stage.error(early).await.0, -32600);
    let (mut stage, session) = {
        drop(stage);
        Stage::with_session().await
    };
    for (line, code) in [
        ("garbage", -32700),
        ("{\"jsonrpc\":", -32700),
        (
            "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}]",
            -32600,
        ),
        ("{}", -32600),
    ] {
        stage.client.writes(&format!("{line}\n")).await;
        let answer = stage.client.hears().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&Value::Null, &json!(code)),
            "{line}"
        );
    }
    // Longer than any line: it is skipped as it comes.
    let mut output = stage.client.output.take().unwrap();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..101 {
        output.write_all(&piece).await.unwrap();
    }
    output.write_all(b"\n").await.unwrap();
    stage.client.output = Some(output);
    assert_eq!(stage.client.hears().await["error"]["code"], -32600);

    for (method, params, code) in [
        ("no/method", json!({}), -32601),
        ("authenticate", json!({"methodId": "x"}), -32602),
        ("session/new", json!({"cwd": "relative"}), -32602),
        ("session/new", json!(7), -32602),
        ("session/new", json!({"cwd": "/", "mcpServers": {}}), -32602),
        ("session/prompt", json!({"sessionId": session}), -32602),
        (
            "session/prompt",
            json!({"sessionId": "other", "prompt": []}),
            -32002,
        ),
        ("session/close", json!({"sessionId": ""}), -32602),
    ] {
        let id = stage.asks(method, params).await;
        assert_eq!(stage.error(id).await.0, code, "{method}");
    }
    // A second request of an open id is refused, and the refusal has no id.
    let (id, input) = stage.prompts(&session, "go").await;
    let again = json!({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}});
    stage.client.says(again).await;
    assert_eq!(stage.client.hears().await["id"], Value::Null);
    let end = json!({"type": "turn.complete", "turn_id": input["turn_id"]});
    stage.entry(&session, 3, end).await;
    let _: PromptResponse = stage.answer(id).await;
}

#[tokio::test(start_paused = true)]
async fn requests_and_sessions_of_a_client_are_bounded() {
    let mut stage = Stage::initialized().await;
    for _ in 0..256 {
        stage.asks("session/list", json!({})).await;
        stage.relay.hears().await;
    }
    let id = stage.asks("session/list", json!({})).await;
    assert_eq!(
        stage.error(id).await,
        (-32600, "too many requests are open".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn sessions_are_listed_closed_and_removed() {
    let (mut stage, session) = Stage::with_session().await;
    let id = stage.asks("session/list", json!({"cwd": "/srv"})).await;
    let list = stage.relay.hears().await;
    assert_eq!(
        (&list["type"], &list["cwd"]),
        (&json!("sessions.list"), &json!("/srv"))
    );
    let found = json!([{"session_id": session, "agent_id": "a", "title": "T"}]);
    let result = json!({"type": "sessions.list.result", "request_id": list["request_id"], "sessions": found, "next": "n"});
    stage.entry("", 0, result).await;
    stage.lists_no_conversations().await;
    let told: ListSessionsResponse = stage.answer(id).await;
    assert_eq!(
        (told.sessions.len(), told.next_cursor.as_deref()),
        (1, Some("n"))
    );

    // What runs there is stopped, and the session stays with the host.
    let (prompt, _) = stage.prompts(&session, "go").await;
    let id = stage
        .asks("session/close", json!({"sessionId": session}))
        .await;
    assert_eq!(stage.relay.hears().await["type"], "stop");
    assert_eq!(stage.relay.hears().await["type"], "session.detach");
    assert_eq!(stage.error(prompt).await.0, -32800);
    let _: Value = stage.answer(id).await;

    let id = stage
        .asks("session/delete", json!({"sessionId": session}))
        .await;
    let _: Value = stage.answer(id).await;
    assert_eq!(*stage.removed.lock().unwrap(), [session]);
}

/// An agent as it reports a new session: after so many milliseconds, these members.
type Reports = Vec<(u64, Value)>;

/// The answer to `session/new` has the modes and models of agents that start slowly. It is at most
/// two seconds late, and twenty if an agent has to start.
#[tokio::test(start_paused = true)]
async fn a_new_session_is_answered_when_its_modes_and_models_are_known() {
    let first = |native: bool| json!({"options_applied": ["cwd"], "capabilities": {"native_session_ids": native}});
    let modes = json!({"mode": "ask", "modes": [{"id": "ask"}]});
    let models = json!({"model": "a", "models": [{"id": "a"}]});
    let both =
        json!({"mode": "ask", "modes": [{"id": "ask"}], "model": "a", "models": [{"id": "a"}]});
    let with = |value: &Value, name: &str, member: Value| {
        let mut value = value.clone();
        value[name] = member;
        value
    };
    let interactive = json!({
        "options_applied": [],
        "capabilities": {"native_session_ids": true, "exec_model": "interactive"},
    });
    let mut listing = interactive.clone();
    listing["capabilities"]["lists_choices"] = json!(true);
    let agents: [(&str, Reports, u64, [bool; 2]); 15] = [
        (
            "all at once",
            vec![(0, with(&both, "options_applied", json!([])))],
            0,
            [true; 2],
        ),
        (
            "an agent of ACP",
            vec![
                (0, first(true)),
                (900, with(&both, "native_session_id", json!("n"))),
            ],
            900,
            [true; 2],
        ),
        (
            "in parts",
            vec![
                (0, first(true)),
                (300, models.clone()),
                (300, modes.clone()),
            ],
            600,
            [true; 2],
        ),
        (
            "the value follows",
            vec![
                (0, first(true)),
                (
                    100,
                    json!({"native_session_id": "n", "modes": [{"id": "ask"}]}),
                ),
                (100, json!({"mode": "ask"})),
            ],
            200,
            [true, false],
        ),
        (
            "the list follows",
            vec![
                (0, first(true)),
                (100, json!({"native_session_id": "n", "model": "a"})),
                (50, models.clone()),
            ],
            150,
            [false, true],
        ),
        (
            "modes only",
            vec![
                (0, first(true)),
                (100, with(&modes, "native_session_id", json!("n"))),
            ],
            100,
            [true, false],
        ),
        (
            "nothing to choose",
            vec![(0, first(true)), (100, json!({"native_session_id": "n"}))],
            100,
            [false; 2],
        ),
        ("no agent behind it", vec![(0, first(false))], 0, [false; 2]),
        (
            "models in the first report",
            vec![(0, with(&models, "options_applied", json!([])))],
            0,
            [false, true],
        ),
        (
            "no capabilities, later",
            vec![(0, json!({"options_applied": []})), (700, both.clone())],
            700,
            [true; 2],
        ),
        (
            "too late",
            vec![(0, first(true)), (2500, both.clone())],
            2000,
            [false; 2],
        ),
        (
            "an agent with sessions of its own, from which no choices are to come",
            vec![(0, interactive), (2500, both.clone())],
            2000,
            [false; 2],
        ),
        (
            "an agent that takes long to start",
            vec![
                (0, listing.clone()),
                (19_000, with(&both, "native_session_id", json!("n"))),
            ],
            19_000,
            [true; 2],
        ),
        (
            "an agent that does not start",
            vec![(0, listing.clone())],
            20_000,
            [false; 2],
        ),
        (
            "an agent that fails to start",
            vec![
                (0, listing),
                (
                    300,
                    json!({"type": "error", "message": "no", "category": "auth"}),
                ),
            ],
            300,
            [false; 2],
        ),
    ];
    for (name, reports, late, [has_modes, has_models]) in agents {
        let mut stage = Stage::initialized().await;
        let (id, session) = stage.asks_session().await;
        stage.makes_ready(&session).await;
        let opened = json!({"type": "host.fact", "fact": "opened"});
        stage.entry(&session, 1, opened).await;
        let begun = tokio::time::Instant::now();
        let mut relay = stage.relay;
        let reporting = tokio::spawn(async move {
            for (seq, (pause, mut report)) in (2..).zip(reports) {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                if report.get("type").is_none() {
                    report["type"] = json!("session.info");
                }
                for (member, value) in [
                    ("session_id", json!(session)),
                    ("seq", json!(seq)),
                    ("epoch", json!(1)),
                ] {
                    report[member] = value;
                }
                relay.says(report).await;
            }
            relay
        });
        let told: NewSessionResponse = {
            let line = stage.client.hears().await;
            assert_eq!(line["id"], id, "{name}: {line}");
            serde_json::from_value(line["result"].clone()).unwrap()
        };
        let waited = u64::try_from(begun.elapsed().as_millis()).unwrap();
        assert!((late..=late + 5).contains(&waited), "{name}: {waited} ms");
        let options = told.config_options.map_or(0, |options| options.len());
        assert_eq!(told.modes.is_some(), has_modes, "{name}");
        assert_eq!(
            options,
            usize::from(has_modes) + usize::from(has_models),
            "{name}"
        );
        drop(reporting.await.unwrap());
    }
}

/// A session opens although its agent declares nothing, and one that the host does not open is an error.
#[tokio::test(start_paused = true)]
async fn a_session_opens_without_a_word_of_its_agent() {
    let mut stage = Stage::initialized().await;
    let id = stage
        .asks(
            "session/new",
            json!({"cwd": "/srv", "mcpServers": [{"name": "m"}]}),
        )
        .await;
    let start = stage.relay.hears().await;
    assert_eq!(start["mcp_servers"], json!([{"name": "m"}]));
    let session = start["session_id"].as_str().unwrap().to_owned();
    stage.makes_ready(&session).await;
    stage
        .entry(&session, 1, json!({"type": "host.fact", "fact": "opened"}))
        .await;
    let told: NewSessionResponse = stage.answer(id).await;
    assert!(told.modes.is_none() && told.config_options.is_none());

    let (id, session) = stage.asks_session().await;
    let closed = json!({"type": "session.closed", "reason": "unknown_agent", "error": {"message": "no agent x"}});
    stage.entry(&session, 0, closed).await;
    assert_eq!(stage.error(id).await, (-32602, "no agent x".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_moves_is_attached_again_and_what_it_did_not_take_is_said_again() {
    let (mut stage, session) = Stage::with_session().await;
    let (id, input) = stage.prompts(&session, "go").await;
    let moved = json!({"type": "session.refused", "reason": "unavailable", "message": "another host has it"});
    for _ in 0..3 {
        stage.entry(&session, 0, moved.clone()).await;
        stage.hears_attach(2).await;
    }
    let attached = json!({"type": "session.attached", "agent_id": "x", "first_seq": 1, "last_seq": 3, "epoch": 2});
    stage.entry(&session, 0, attached).await;
    stage
        .entry(
            &session,
            3,
            json!({"type": "host.fact", "fact": "moved", "message": "b"}),
        )
        .await;
    assert_eq!(stage.relay.hears().await, input);
    let turn = input["turn_id"].clone();
    let begin = json!({"type": "turn.begin", "turn_id": turn, "message_id": input["message_id"], "content": "go"});
    stage.entry(&session, 4, begin).await;
    stage
        .entry(
            &session,
            5,
            json!({"type": "turn.complete", "turn_id": turn, "status": "completed"}),
        )
        .await;
    let _: PromptResponse = stage.answer(id).await;

    // A session that no host serves for a minute is given up.
    let (id, _) = stage.prompts(&session, "on").await;
    let mut attaches = 0;
    stage.entry(&session, 0, moved.clone()).await;
    let (code, why) = loop {
        tokio::select! {
            biased;
            told = stage.relay.hears() => if told["type"] == "session.attach" {
                attaches += 1;
                stage.entry(&session, 0, moved.clone()).await;
            },
            line = stage.client.hears() => {
                assert_eq!(line["id"], id, "{line}");
                break (line["error"]["code"].clone(), line["error"]["message"].clone());
            }
        }
    };
    assert_eq!(code, json!(-32603));
    let why = why.as_str().unwrap();
    assert!(
        why.ends_with("was not served for too long: another host has it"),
        "{why}"
    );
    assert!((30..80).contains(&attaches), "{attaches}");
}

/// The session is attached again, and the prompt of before is answered.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_open_is_loaded_again_with_its_prompts() {
    let (mut stage, session) = Stage::with_session().await;
    let prompt = json!([{"type": "text", "text": "go"}]);
    let params = json!({"sessionId": session, "prompt": prompt, "_meta": {"trace": 7}});
    let running = stage.asks("session/prompt", params).await;
    let input = stage.relay.hears().await;
    assert_eq!(input["_meta"]["trace"], 7, "{input}");
    let question = stage.asks_permission(&session, 3, "r").await;

    let load = json!({"sessionId": session, "cwd": "/srv", "mcpServers": []});
    let id = stage.asks("session/load", load.clone()).await;
    let twice = stage.asks("session/load", load).await;
    assert_eq!(stage.error(twice).await.1, "the session is being opened");
    let turn = input["turn_id"].clone();
    let output = json!({"type": "output", "turn_id": turn, "content": "x"});
    stage.entry(&session, 4, output.clone()).await;
    // An input that the journal may not have is not left.
    let early = tokio::time::timeout(Duration::from_secs(9), stage.relay.hears()).await;
    assert!(early.is_err(), "{early:?}");
    let result = json!({"type": "input.result", "message_id": input["message_id"], "turn_id": turn, "seq": 4});
    stage.entry(&session, 0, result).await;
    assert_eq!(stage.relay.hears().await["type"], "session.detach");
    stage.hears_attach(0).await;
    let attached = json!({"type": "session.attached", "agent_id": "a", "first_seq": 1, "last_seq": 4, "epoch": 1,
        "turn_id": turn, "requests": ["r"]});
    stage.entry(&session, 0, attached).await;
    for (seq, message) in [
        json!({"type": "host.fact", "fact": "opened"}),
        json!({"type": "session.info", "options_applied": ["cwd"]}),
        json!({"type": "permission.request", "request_id": "r", "tool": "x", "description": "d", "resource": "r"}),
        output,
    ]
    .into_iter()
    .enumerate()
    {
        stage.entry(&session, seq as u64 + 1, message).await;
    }
    // Only once: the event from before is not shown.
    assert_eq!(stage.update().await["content"]["text"], "x");
    let _: LoadSessionResponse = stage.answer(id).await;
    // The question of before is still open: its answer counts.
    stage.allows(&question).await;
    assert_eq!(stage.relay.hears().await["request_id"], "r");
    let end = json!({"type": "turn.complete", "turn_id": turn, "status": "completed"});
    stage.entry(&session, 5, end).await;
    let _: PromptResponse = stage.answer(running).await;
}

#[tokio::test(start_paused = true)]
async fn an_option_is_changed_before_the_prompt_behind_it() {
    let (mut stage, session) = Stage::with_session().await;
    let prompt = json!([{"type": "text", "text": "go"}]);
    let lines = [
        json!({"jsonrpc": "2.0", "id": 7, "method": "session/set_mode",
            "params": {"sessionId": session, "modeId": "code"}}),
        json!({"jsonrpc": "2.0", "id": 8, "method": "session/prompt",
            "params": {"sessionId": session, "prompt": prompt}}),
    ];
    stage
        .client
        .writes(&lines.map(|line| format!("{line}\n")).concat())
        .await;
    assert_eq!(stage.relay.hears().await["type"], "session.update");
    assert_eq!(stage.relay.hears().await["type"], "user.input");
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_opening_is_cancelled_is_closed_or_left() {
    let mut stage = Stage::initialized().await;
    let cancel = |id: u64| json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}});
    let (id, session) = stage.asks_session().await;
    stage.client.says(cancel(id)).await;
    assert_eq!(stage.error(id).await.0, -32800);
    stage.makes_ready(&session).await;
    assert_eq!(stage.relay.hears().await["type"], "session.close");
    // Its end is an entry, for which the client attaches.
    assert_eq!(stage.relay.hears().await["type"], "session.attach");

    let load = json!({"sessionId": "s", "cwd": "/srv", "mcpServers": []});
    let id = stage.asks("session/load", load).await;
    assert_eq!(stage.relay.hears().await["type"], "session.attach");
    stage.client.says(cancel(id)).await;
    assert_eq!(stage.error(id).await.0, -32800);
    let attached = json!({"type": "session.attached", "agent_id": "a", "first_seq": 1, "last_seq": 6, "epoch": 1});
    stage.entry("s", 0, attached).await;
    assert_eq!(stage.relay.hears().await["type"], "session.detach");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_the_host_cannot_read_is_answered_and_a_lost_host_ends_the_service() {
    let (mut stage, session) = Stage::with_session().await;
    let prompt = json!([{"type": "text", "text": "x".repeat(2 << 20)}]);
    let params = json!({"sessionId": session, "prompt": prompt});
    let id = stage.asks("session/prompt", params).await;
    let (code, message) = stage.error(id).await;
    assert_eq!(code, -32602);
    assert!(message.contains("shorten it"), "{message}");

    stage.prompts(&session, "go").await;
    drop(stage.pipes);
    drop(stage.relay);
    let error = stage.serving.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("the test has ended"), "{error}");
}
