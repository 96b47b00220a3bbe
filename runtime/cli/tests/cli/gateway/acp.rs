//! Editors elsewhere: the Agent Client Protocol over a WebSocket and over HTTP.

mod http;

use std::{net::TcpStream, path::PathBuf};

use serde_json::{Value, json};
use tungstenite::{Error, Message, WebSocket, http::StatusCode};

use super::{
    super::{
        Home,
        acp::{ADAPTER, picture_prompt},
    },
    Client, Daemon, UP,
};

/// A home whose daemon has an agent that may work in the folder `in` and nowhere else.
struct Place(Home);

impl Place {
    fn new() -> Self {
        let home = Home::new();
        home.file("adapter.py", ADAPTER);
        let place = Self(home);
        for folder in ["in/deep", "out", "work"] {
            std::fs::create_dir_all(place.folder(folder)).unwrap();
        }
        let command = json!({"command": "python3", "args": [place.folder("adapter.py")],
            "work_dir": place.folder("work")});
        let agent =
            json!({"id": "where", "external": command, "allowed_dirs": [place.folder("in")]});
        let echo = json!({"id": "echo", "profile": "echo"});
        place.0.file(
            "trunkline.json",
            &json!({ "agents": [agent, echo] }).to_string(),
        );
        place
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn up(&self, more: &[&str]) -> Daemon<'_> {
        let mut command = self.0.command(["--config", "trunkline.json"]);
        Daemon::spawn(&self.0, command.args(UP).args(more))
    }
}

/// How an answer is: its result, or the text of its error.
type Answered = Result<Value, String>;

/// An editor at the other end of a WebSocket.
struct Editor {
    socket: WebSocket<TcpStream>,
    asked: u64,
    /// What the agent asked and was not answered yet.
    requests: Vec<Value>,
    /// The texts of all sessions.
    text: String,
    /// Pieces of the user's messages.
    user: Vec<Value>,
}

impl Editor {
    fn connected(client: &Client, path: &str) -> Self {
        let (socket, response) = client.websocket(path);
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert!(response.headers().contains_key("acp-connection-id"));
        Self {
            socket,
            asked: 0,
            requests: Vec::new(),
            text: String::new(),
            user: Vec::new(),
        }
    }

    fn initialize(client: &Client) -> Self {
        let mut editor = Self::connected(client, "/acp");
        let told = editor
            .asks("initialize", &json!({"protocolVersion": 1}))
            .unwrap();
        assert_eq!(told["protocolVersion"], 1);
        assert_eq!(
            told["agentCapabilities"]["mcpCapabilities"],
            json!({"http": false, "sse": false})
        );
        editor
    }

    fn says(&mut self, message: &Value) {
        self.socket
            .send(Message::text(message.to_string()))
            .unwrap();
    }

    /// The next message; `None` when the connection has ended.
    fn hears(&mut self) -> Option<Value> {
        let mut beats = 0;
        loop {
            match self.socket.read() {
                // One message of JSON-RPC, and nothing else.
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_))
                | Err(Error::ConnectionClosed | Error::AlreadyClosed | Error::Protocol(_)) => {
                    return None;
                }
                Ok(_) => {
                    beats += 1;
                    assert!(beats < 4, "nothing is heard but heartbeats");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn begins(&mut self, method: &str, params: &Value) -> u64 {
        self.asked += 1;
        let id = self.asked;
        self.says(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Hears until a message is what is waited for.
    fn until<T>(&mut self, is: impl Fn(&Value) -> Option<T>) -> T {
        loop {
            let heard = self.hears().expect("there is more to come");
            if heard["method"] == "session/update" {
                let update = &heard["params"]["update"];
                if update["sessionUpdate"] == "agent_message_chunk" {
                    self.text
                        .push_str(update["content"]["text"].as_str().unwrap());
                }
                if update["sessionUpdate"] == "user_message_chunk" {
                    self.user.push(update["content"].clone());
                }
            }
            if heard["method"] == "session/request_permission" {
                self.requests.push(heard.clone());
            }
            if let Some(found) = is(&heard) {
                return found;
            }
        }
    }

    fn ends(&mut self, id: u64) -> Answered {
        self.until(|heard| {
            (heard["method"].is_null() && heard["id"] == id).then(|| {
                let error = heard["error"]["message"].as_str().map(str::to_owned);
                error.map_or_else(|| Ok(heard["result"].clone()), Err)
            })
        })
    }

    fn asks(&mut self, method: &str, params: &Value) -> Answered {
        let id = self.begins(method, params);
        self.ends(id)
    }

    fn opens(&mut self, folder: &std::path::Path) -> Result<String, String> {
        let opened = self.asks("session/new", &json!({"cwd": folder, "mcpServers": []}))?;
        Ok(opened["sessionId"].as_str().unwrap().to_owned())
    }

    fn loads(&mut self, session: &str) -> Answered {
        self.asks(
            "session/load",
            &json!({"sessionId": session, "cwd": "/", "mcpServers": []}),
        )
    }

    fn begins_prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.begins(
            "session/prompt",
            &json!({"sessionId": session, "prompt": prompt}),
        )
    }

    /// What the agent answers in a session.
    fn prompts(&mut self, session: &str, text: &str) -> Result<String, String> {
        self.text.clear();
        let id = self.begins_prompt(session, text);
        self.ends(id)?;
        Ok(std::mem::take(&mut self.text))
    }

    /// Hears until the agent asks.
    fn is_asked(&mut self) -> Value {
        if self.requests.is_empty() {
            self.until(|heard| (heard["method"] == "session/request_permission").then_some(()));
        }
        self.requests.pop().unwrap()
    }

    fn allows(&mut self, request: &Value) {
        let outcome = json!({"outcome": "selected", "optionId": "allow"});
        self.says(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {"outcome": outcome}}));
    }
}

/// A session works where its agent's configuration allows it and nowhere else, and a client names
/// no program and no address that the daemon would use.
#[test]
fn a_client_elsewhere_works_where_the_configuration_allows_it() {
    let place = Place::new();
    let daemon = place.up(&[]);
    let mut editor = Editor::initialize(&daemon.token(&["control"]));
    for name in ["in", "in/deep", "work"] {
        let folder = place.folder(name);
        let session = editor.opens(&folder).unwrap();
        assert_eq!(
            editor.prompts(&session, "where").unwrap(),
            folder.to_str().unwrap()
        );
    }
    for name in ["out", "", "in/../out", "in/gone"] {
        let refused = editor.opens(&place.folder(name)).unwrap_err();
        assert!(refused.contains("allowed_dirs"), "{refused}");
    }
    let folder = place.folder("in");
    let with = |name: &str, value: Value| {
        let mut params = json!({"cwd": folder, "mcpServers": []});
        params[name] = value;
        params
    };
    let add = with("additionalDirectories", json!([place.folder("out")]));
    assert!(
        editor
            .asks("session/new", &add)
            .unwrap_err()
            .contains("allowed_dirs")
    );
    let server = json!([{"name": "n", "command": "/bin/true", "args": [], "env": []}]);
    let with_server = with("mcpServers", server.clone());
    assert!(
        editor
            .asks("session/new", &with_server)
            .unwrap_err()
            .contains("mcp_servers")
    );
    let session = editor.opens(&folder).unwrap();
    for method in ["session/load", "session/resume"] {
        let params = json!({"sessionId": session, "cwd": folder, "mcpServers": server});
        assert!(
            editor
                .asks(method, &params)
                .unwrap_err()
                .contains("mcp_servers")
        );
    }
    // The other agent, by the address.
    let mut other = Editor::connected(&daemon.token(&["control"]), "/acp?agent=echo");
    other
        .asks("initialize", &json!({"protocolVersion": 1}))
        .unwrap();
    let session = other.opens(place.0.path()).unwrap();
    assert_eq!(other.prompts(&session, "hello").unwrap(), "hello");
    daemon.down();
}

/// A picture reaches the agent, and is in the history of who may see the session; a session without
/// a folder of its own is listed with the folder of its agent.
#[test]
fn a_client_elsewhere_sends_and_loads_pictures_and_sees_the_folders_of_sessions() {
    let place = Place::new();
    let daemon = place.up(&[]);
    let token = daemon.token(&["control"]);
    let [prompt, picture] = picture_prompt();
    let mut editor = Editor::initialize(&token);
    let session = editor.opens(&place.folder("in")).unwrap();
    let params = json!({"sessionId": session, "prompt": prompt});
    editor.asks("session/prompt", &params).unwrap();
    assert_eq!((&*editor.text, editor.user.len()), ("picture", 0));
    let mut next = Editor::initialize(&token);
    next.loads(&session).unwrap();
    assert!(next.user.contains(&picture), "{:?}", next.user);

    // A file of a page, whose session works where its agent does.
    let opened = token.open();
    let files = format!("/v1/sessions/{opened}/files");
    let path = format!("{files}?name=a.png&keep=true");
    let sent = token.ask_with("PUT", &path, &[], "picture");
    let digest = sent.must_be(201).json()["sha256"].clone();
    let path = format!("{files}/{}", digest.as_str().unwrap());
    assert_eq!(token.get(&path).must_be(200).body, "picture");
    let listed = next
        .asks("session/list", &json!({"cwd": place.folder("work")}))
        .unwrap();
    assert_eq!(listed["sessions"][0]["sessionId"], opened);
    assert_eq!(
        listed["sessions"][0]["cwd"],
        place.folder("work").to_str().unwrap()
    );
    let listed = next
        .asks("session/list", &json!({"cwd": place.folder("in")}))
        .unwrap();
    assert_eq!(listed["sessions"][0]["sessionId"], session);
    daemon.down();
}

/// Another's session, one that never was and one that is removed look the same, and an observer
/// changes nothing.
#[test]
fn a_client_elsewhere_has_its_own_sessions_and_what_its_token_allows() {
    let place = Place::new();
    let daemon = place.up(&[]);
    let own = daemon.token(&["control", "--approve"]);
    let observer = daemon.token(&["observe", "--all-sessions"]);
    let mut editor = Editor::initialize(&own);
    let session = editor.opens(&place.folder("in")).unwrap();
    let removed = editor.opens(&place.folder("in")).unwrap();
    editor.prompts(&removed, "x").unwrap();
    editor.prompts(&session, "x").unwrap();
    editor
        .asks("session/delete", &json!({"sessionId": removed}))
        .unwrap();

    let mut other = Editor::initialize(&daemon.token(&["control"]));
    let refused: Vec<_> = [&*session, &removed, "never"]
        .map(|id| other.loads(id).unwrap_err().replace(id, "ID"))
        .to_vec();
    assert!(refused.iter().all(|why| *why == refused[0]), "{refused:?}");
    other
        .asks("session/delete", &json!({"sessionId": session}))
        .unwrap_err();
    assert_eq!(
        other.asks("session/list", &json!({})).unwrap()["sessions"],
        json!([])
    );

    let mut observer = Editor::initialize(&observer);
    observer.loads(&session).unwrap();
    assert!(observer.text.contains("/in"), "{}", observer.text);
    assert!(
        observer
            .prompts(&session, "x")
            .unwrap_err()
            .contains("observe")
    );
    assert!(
        observer
            .opens(&place.folder("in"))
            .unwrap_err()
            .contains("observe")
    );
    assert!(
        observer
            .asks("session/delete", &json!({"sessionId": session}))
            .unwrap_err()
            .contains("observe")
    );
    // It is not asked, and decides nothing.
    observer.loads(&session).unwrap();
    let turn = editor.begins_prompt(&session, "ask");
    let request = editor.is_asked();
    observer.allows(&request);
    observer.asks("session/list", &json!({})).unwrap();
    assert_eq!(observer.requests, [] as [Value; 0]);
    let outcome = json!({"outcome": "selected", "optionId": "reject"});
    editor.text.clear();
    editor.says(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {"outcome": outcome}}));
    editor.ends(turn).unwrap();
    assert_eq!(editor.text, "False");
    daemon.down();
}

/// It is asked no permission, an answer by a guessed number decides nothing, and the request waits
/// for a client that may answer.
#[test]
fn a_client_elsewhere_that_may_not_approve_is_not_asked() {
    let place = Place::new();
    let daemon = place.up(&[]);
    let admin = daemon.token(&["admin", "--all-sessions"]);
    let mut editor = Editor::initialize(&admin);
    let session = editor.opens(&place.folder("in")).unwrap();
    let turn = editor.begins_prompt(&session, "ask");
    let asked = admin.events(&session, 0).until("permission.request");
    let asked: Value = serde_json::from_str(&asked.last().unwrap().1).unwrap();
    for id in [json!(1), json!(2), asked["request_id"].clone()] {
        editor.allows(&json!({ "id": id }));
    }
    // One that joins while it waits is not asked either.
    let mut next = Editor::initialize(&admin);
    next.loads(&session).unwrap();
    editor.asks("session/list", &json!({})).unwrap();
    assert_eq!(
        (&editor.requests, &next.requests),
        (&Vec::new(), &Vec::new())
    );
    let shown = admin.get(&format!("/v1/sessions/{session}")).json();
    assert_eq!(shown["requests"], json!([asked["request_id"]]));
    let mut approver =
        Editor::initialize(&daemon.token(&["control", "--approve", "--all-sessions"]));
    approver.loads(&session).unwrap();
    let request = approver.is_asked();
    approver.allows(&request);
    editor.ends(turn).unwrap();
    assert_eq!(editor.text, "True");
    daemon.down();
}

/// A request waits for the next client, while the end of an editor on stdio denies it.
#[test]
fn a_client_that_goes_leaves_its_turn_and_what_it_was_asked() {
    let place = Place::new();
    let daemon = place.up(&[]);
    let token = daemon.token(&["control", "--approve"]);
    let mut gone = Editor::initialize(&token);
    let session = gone.opens(&place.folder("in")).unwrap();
    gone.begins_prompt(&session, "ask");
    gone.is_asked();
    drop(gone);
    let mut next = Editor::initialize(&token);
    next.loads(&session).unwrap();
    let request = next.is_asked();
    next.allows(&request);
    next.until(|heard| {
        heard["params"]["update"]["content"]["text"]
            .as_str()
            .filter(|text| *text == "True")
            .map(drop)
    });

    // A token that is revoked ends its connections.
    daemon.revoke(&token);
    assert!(
        std::iter::from_fn(|| next.hears()).count() < 8,
        "the connection ends with its token"
    );
    daemon.down();
}

#[test]
fn a_websocket_of_acp_takes_one_message_at_a_time_from_those_who_may_ask() {
    let place = Place::new();
    let daemon = place.up(&[]);
    let client = daemon.token(&["control"]);
    let mut editor = Editor::connected(&client, "/acp");
    assert!(
        editor
            .asks("session/list", &json!({}))
            .unwrap_err()
            .contains("initialize")
    );
    // Not only as a program writes it.
    editor
        .socket
        .send(Message::binary(
            &b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x\"}"[..],
        ))
        .unwrap();
    editor.says(&json!([]));
    assert_eq!(
        editor.hears().unwrap()["error"]["code"],
        -32600,
        "a binary message is ignored, a batch refused"
    );
    editor
        .socket
        .send(Message::text(
            "{\"jsonrpc\": \"2.0\",\r\n \"id\": 8,\n\"method\": \"initialize\", \"params\": {}}\n",
        ))
        .unwrap();
    editor.ends(8).unwrap();

    editor.says(&json!("x".repeat(4 * 1024 * 1024)));
    assert!(
        editor.hears().unwrap()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("read at most")
    );

    // A browser's first message.
    let mut browser = Editor::connected(&daemon.stranger(), "/acp");
    browser.says(&json!({"type": "auth", "token": client.token}));
    browser
        .asks("initialize", &json!({"protocolVersion": 1}))
        .unwrap();
    let mut stranger = Editor::connected(&daemon.stranger(), "/acp");
    stranger.begins("initialize", &json!({"protocolVersion": 1}));
    assert_eq!(stranger.hears(), None);

    let upgrade = [
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "eA=="),
    ];
    for (more, status) in [
        (("Origin", "https://evil.example"), 403),
        (("Host", "evil.example"), 421),
    ] {
        client
            .ask_with("GET", "/acp", &[&upgrade[..], &[more]].concat(), "")
            .must_be(status);
    }
    daemon.down();
}
