//! The driver of this client for `conformance/clients`: instructions on stdin, replies and events on
//! stdout. An event that awaits an answer counts as a callback.

use std::{
    collections::HashMap,
    io::Write,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use trunkline_client::{
    ChildProcess, Client, ClientError, Event, EventBody, Events, Input, ReconnectPolicy,
    SearchQuery, Session, SessionChanges, Turn, UnixSocket, WebSocket,
    protocol::{
        AdapterBody, FileInput, FileOutput, InputResponse, Json, PermissionResponse, RelayBody,
        RequestId, Role, SessionAttach, SessionId, SessionStart, SessionUpdate, SessionsList,
        Sha256,
    },
};

/// The outcome of an instruction that has no result.
enum Failure {
    Client(ClientError),
    Unsupported(String),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unsupported(what) => {
                Self::Unsupported(format!("this connection has no {what}"))
            }
            error => Self::Client(error),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Unsupported(error.to_string())
    }
}

type Outcome = Result<Value, Failure>;

#[derive(Default)]
struct DriverState {
    client: Option<Client>,
    sessions: HashMap<String, Session>,
    turns: HashMap<String, (Session, Turn)>,
    files: HashMap<(String, u64), FileOutput>,
    /// Requests that await an answer, by session and id; true for a permission.
    asked: HashMap<(String, String), bool>,
    leaves_requests: bool,
}

#[derive(Clone, Default)]
struct Driver(Arc<Mutex<DriverState>>);

fn write(message: &Value) {
    let mut out = std::io::stdout().lock();
    // The judge that does not read has ended.
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}

fn error_of(error: &ClientError) -> Value {
    let class = if error.is_permanent() {
        "permanent"
    } else {
        "temporary"
    };
    let status = match error {
        ClientError::HttpRefused { status, .. } => Some(status),
        _ => None,
    };
    json!({ "class": class, "status": status, "message": error.to_string() })
}

fn text<'a>(message: &'a Value, name: &str) -> &'a str {
    message[name].as_str().unwrap_or_default()
}

fn with(message: &Value, names: &[&str]) -> Value {
    let present = names.iter().filter(|name| !message[**name].is_null());
    present
        .map(|name| ((*name).to_owned(), message[*name].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

impl Driver {
    fn with_state<T>(&self, visit: impl FnOnce(&mut DriverState) -> T) -> T {
        visit(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn client(&self) -> Result<Client, Failure> {
        let client = self.with_state(|state| state.client.clone());
        client.ok_or(Failure::Client(ClientError::ClientClosed))
    }

    fn session(&self, message: &Value) -> Result<Session, Failure> {
        let id = text(message, "session");
        let session = self.with_state(|state| state.sessions.get(id).cloned());
        session.ok_or(Failure::Client(ClientError::Detached))
    }

    fn turn(&self, message: &Value) -> Result<(Session, Turn), Failure> {
        let name = text(message, "turn");
        let turn = self.with_state(|state| state.turns.get(name).cloned());
        turn.ok_or(Failure::Client(ClientError::Detached))
    }

    async fn run(self, message: Value) {
        let id = &message["id"];
        write(&match self.obey(&message).await {
            Ok(ok) => json!({ "id": id, "ok": ok }),
            Err(Failure::Client(error)) => json!({ "id": id, "error": error_of(&error) }),
            Err(Failure::Unsupported(reason)) => json!({ "id": id, "unsupported": reason }),
        });
    }

    async fn obey(&self, message: &Value) -> Outcome {
        match text(message, "do") {
            "connect" => return self.connect(message).await,
            "open" => {
                let (session, events) = self.client()?.open(start_of(message)).await?;
                return Ok(self.follow(session, events));
            }
            "attach" => {
                let attach = SessionAttach {
                    after: message["after"].as_u64().unwrap_or_default(),
                    epoch: message["epoch"].as_u64(),
                    role: (message["role"] == "observe").then_some(Role::Observe),
                    ..SessionAttach::default()
                };
                let id = session_id(message)?;
                let (session, events) = self.client()?.attach(id, attach).await?;
                return Ok(self.follow(session, events));
            }
            "fork" => {
                let id = session_id(message)?;
                let (session, events) = self.client()?.fork(&id, message["seq"].as_u64()).await?;
                return Ok(self.follow(session, events));
            }
            "send" => self.send(message).await?,
            "steer" => {
                let (session, turn) = self.turn(message)?;
                let result = session.steer(turn.id(), text(message, "text")).await?;
                return Ok(json!({ "delivered": result.delivered }));
            }
            "stop" | "withdraw" => self.turn(message)?.1.stop().await?,
            "decide" | "answer" => self.answer(message).await?,
            "history" => return self.history(message).await,
            "sessions" => return self.sessions(message).await,
            "agents" => return Ok(json!({ "agents": self.client()?.agents(false).await? })),
            "get_file" => return self.file(message).await,
            "settings" => {
                let update = SessionUpdate {
                    model: message["options"]["model"].as_str().map(str::to_owned),
                    ..SessionUpdate::default()
                };
                self.session(message)?.update(update).await?;
            }
            "edit" => {
                let id = session_id(message)?;
                let title = message["title"].as_str().map(str::to_owned);
                let archived = message["archived"].as_bool();
                self.client()?.edit(&id, title, archived).await?;
            }
            "close" => self.session(message)?.close().await?,
            "leave" => self.client()?.close().await,
            "changes" => {
                let changes = self.client()?.http()?.changes(None);
                tokio::spawn(report_changes(changes));
            }
            "search" => return self.search(message).await,
            "remove" => {
                let id = session_id(message)?;
                self.client()?.remove_session(&id).await?;
            }
            "put_file" => return self.put_file(message).await,
            other => return unsupported(&format!("there is no `{other}`")),
        }
        Ok(json!({}))
    }

    async fn connect(&self, message: &Value) -> Outcome {
        let mut policy = ReconnectPolicy::default();
        let retry = message["limits"]["retry"].as_u64();
        if let Some(retry) = retry {
            policy = policy.give_up_after(Duration::from_millis(retry));
        }
        let client = match text(message, "transport") {
            "socket" => Client::connect_with(UnixSocket::new(text(message, "path")), policy).await,
            "command" => {
                let words: Vec<String> = serde_json::from_value(message["command"].clone())?;
                let [program, arguments @ ..] = words.as_slice() else {
                    return unsupported("a command has a program");
                };
                Client::connect_with(ChildProcess::new(program, arguments), policy).await
            }
            "websocket" => {
                let urls = match &message["urls"] {
                    Value::Null => vec![text(message, "url").to_owned()],
                    urls => serde_json::from_value(urls.clone())?,
                };
                let mut urls = urls.iter().map(|url| url.replacen("http", "ws", 1));
                let first = urls.next().unwrap_or_default();
                let first = WebSocket::new(first, text(message, "token"));
                Client::connect_with(urls.fold(first, WebSocket::or), policy).await
            }
            _ => return unsupported("use its WebSocket: this client has no Server-Sent Events"),
        };
        let client = client?;
        self.with_state(|state| {
            state.client = Some(client);
            state.leaves_requests = text(message, "requests") == "leave";
        });
        let limits: &[&str] = if retry.is_some() { &["retry"] } else { &[] };
        Ok(json!({ "limits": limits }))
    }

    /// Reports the events of a session until it ends.
    fn follow(&self, session: Session, mut events: Events) -> Value {
        let id = session.id().to_string();
        let reply = json!({ "session": id });
        self.with_state(|state| state.sessions.insert(id.clone(), session));
        let driver = self.clone();
        tokio::spawn(async move {
            let error = loop {
                match events.next().await {
                    Ok(Some(event)) => driver.report(&id, &event),
                    Ok(None) => break Value::Null,
                    Err(error) => break error_of(&error),
                }
            };
            let mut ended = json!({ "event": "ended", "session": id });
            if !error.is_null() {
                ended["error"] = error;
            }
            write(&ended);
        });
        reply
    }

    fn report(&self, session: &str, event: &Event) {
        let Ok(entry) = serde_json::from_str::<Value>(event.line()) else {
            return;
        };
        if event.stamp.seq.is_some() {
            write(&json!({ "event": "entry", "session": session, "entry": entry }));
        }
        let key = || (session.to_owned(), text(&entry, "request_id").to_owned());
        match &event.body {
            EventBody::Adapter(
                AdapterBody::PermissionRequest(_) | AdapterBody::InputRequest(_),
            ) if event.awaits_answer => {
                let is_permission = entry["type"] == "permission.request";
                let leaves = self.with_state(|state| {
                    state.asked.insert(key(), is_permission);
                    state.leaves_requests
                });
                if !leaves {
                    let kind = if is_permission {
                        "permission"
                    } else {
                        "question"
                    };
                    let request = &entry["request_id"];
                    write(&json!({
                        "event": "asked", "session": session, "request": request, "kind": kind,
                    }));
                }
            }
            EventBody::Adapter(AdapterBody::FileOutput(file)) => {
                if let Some(seq) = event.stamp.seq {
                    let key = (session.to_owned(), seq);
                    self.with_state(|state| state.files.insert(key, file.clone()));
                }
            }
            EventBody::Relay(RelayBody::RequestDecided(decided)) => {
                let was_asked = self.with_state(|state| state.asked.remove(&key()).is_some());
                if was_asked && !event.is_own && !self.with_state(|state| state.leaves_requests) {
                    let is_withdrawn = decided.reason.is_some() || decided.cancelled == Some(true);
                    let mut end = with(&entry, &["by", "name", "approved"]);
                    end["event"] = json!("asked.end");
                    end["session"] = json!(session);
                    end["request"] = entry["request_id"].clone();
                    end["because"] = json!(if is_withdrawn { "withdrawn" } else { "decided" });
                    write(&end);
                }
            }
            EventBody::Relay(RelayBody::Lag(lag)) => {
                let from = lag.from;
                let to = lag.to;
                write(&json!({ "event": "lag", "session": session, "from": from, "to": to }));
            }
            _ => {}
        }
    }

    async fn send(&self, message: &Value) -> Result<(), Failure> {
        let session = self.session(message)?;
        let mut input = Input::text(text(message, "text"));
        for path in message["files"].as_array().into_iter().flatten() {
            let file_path = path.as_str().unwrap_or_default().to_owned();
            let name = Path::new(&file_path).file_name();
            input = input.with_file(FileInput {
                file_name: name.map(|name| name.to_string_lossy().into_owned()),
                file_path,
                ..FileInput::default()
            });
        }
        let mut turn = session.send(input).await?;
        let name = text(message, "turn").to_owned();
        let named = (session, turn.clone());
        self.with_state(|state| state.turns.insert(name.clone(), named));
        tokio::spawn(async move {
            write(&match turn.end().await {
                Ok(end) => {
                    let category = end.error.as_ref().map(|error| &error.category);
                    json!({
                        "event": "turn", "turn": name, "status": end.status, "category": category,
                    })
                }
                Err(error) => json!({ "event": "turn", "turn": name, "error": error_of(&error) }),
            });
        });
        Ok(())
    }

    async fn answer(&self, message: &Value) -> Result<(), Failure> {
        let session = self.session(message)?;
        let request = text(message, "request").to_owned();
        let key = (session.id().to_string(), request.clone());
        let is_permission = self.with_state(|state| state.asked.get(&key).copied());
        if !message["name"].is_null() {
            return Err(Failure::Unsupported(
                "the name of a person is a member of HTTP".to_owned(),
            ));
        }
        let id = request_id(&request)?;
        let Some(is_permission) = is_permission else {
            return Err(Failure::Client(ClientError::NotPending(id)));
        };
        if is_permission {
            let mut answer = PermissionResponse::new(id, message["approved"] == true);
            answer.option_id = message["option_id"].as_str().map(str::to_owned);
            answer.message = message["message"].as_str().map(str::to_owned);
            session.answer_permission(answer).await?;
        } else {
            let values = message["values"].as_object().map(|values| {
                let values = values.iter();
                let values =
                    values.map(|(name, value)| Ok((name.clone(), Json::from_serialize(value)?)));
                values.collect::<Result<_, serde_json::Error>>()
            });
            let answer = InputResponse {
                request_id: id,
                values: values.transpose()?,
                cancelled: message["cancelled"].as_bool(),
            };
            session.answer_question(answer).await?;
        }
        Ok(())
    }

    async fn history(&self, message: &Value) -> Outcome {
        if !message["before"].is_null() {
            return unsupported("pages are read forward only");
        }
        let id = session_id(message)?;
        let from = message["from"].as_u64().unwrap_or(1);
        let to = message["limit"].as_u64().map(|limit| from + limit - 1);
        let page = self.client()?.history(&id, Some(from), to).await?;
        let entries: Result<Vec<Value>, _> = page
            .entries
            .iter()
            .map(|event| serde_json::from_str(event.line()))
            .collect();
        let entries = entries?;
        let behind = entries.last().and_then(|entry| entry["seq"].as_u64());
        let next = page.next.or(behind.or(to).map(|seq| seq + 1));
        let lost = page.lost.iter();
        let lost = lost.map(|lost| json!({ "from": lost.from, "to": lost.to }));
        Ok(json!({ "entries": entries, "lost": lost.collect::<Vec<_>>(), "next": next }))
    }

    async fn sessions(&self, message: &Value) -> Outcome {
        let filter = &message["filter"];
        let word = |name: &str| filter[name].as_str().map(str::to_owned);
        let mut list = SessionsList::new(request_id("list")?);
        list.limit = filter["limit"]
            .as_u64()
            .and_then(|limit| u32::try_from(limit).ok());
        list.archived = filter["archived"].as_bool();
        (list.agent_id, list.text, list.cursor) = (word("agent"), word("text"), word("cursor"));
        let page = self.client()?.sessions(list).await?;
        let sessions: Vec<_> = page
            .sessions
            .iter()
            .map(|each| json!({ "id": each.session_id }))
            .collect();
        Ok(json!({ "sessions": sessions, "next": page.next }))
    }

    async fn search(&self, message: &Value) -> Outcome {
        let query = SearchQuery {
            text: text(message, "text").to_owned(),
            ..SearchQuery::default()
        };
        let page = self.client()?.http()?.search(&query).await?;
        let hits = page
            .hits
            .iter()
            .map(|hit| json!({ "id": hit.id, "seq": hit.seq }));
        Ok(json!({ "hits": hits.collect::<Vec<_>>(), "next": page.next }))
    }

    async fn put_file(&self, message: &Value) -> Outcome {
        let path = Path::new(text(message, "path"));
        let contents = tokio::fs::read(path)
            .await
            .map_err(|error| ClientError::File {
                path: path.display().to_string(),
                message: error.to_string(),
            })?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let http = self.client()?.http()?.clone();
        let sha256 = http
            .put_file(&session_id(message)?, &name, contents)
            .await?;
        Ok(json!({ "sha256": sha256.to_string() }))
    }

    async fn file(&self, message: &Value) -> Outcome {
        let session = self.session(message)?;
        let key = (
            session.id().to_string(),
            message["seq"].as_u64().unwrap_or_default(),
        );
        let file = self.with_state(|state| state.files.get(&key).cloned());
        let Some(file) = file else {
            return unsupported("the entry is no file");
        };
        let data = session.file(&file).await?;
        let sha256 = Sha256::digest(&data).to_string();
        Ok(json!({ "sha256": sha256, "size": data.len() }))
    }
}

/// Reports the stream over all sessions until it is given up.
async fn report_changes(mut changes: SessionChanges) {
    let error = loop {
        match changes.next().await {
            Ok(change) => write(&json!({ "event": "change", "change": change.data })),
            Err(error) => break error,
        }
    };
    write(&json!({ "event": "changes.ended", "error": error_of(&error) }));
}

fn unsupported(reason: &str) -> Outcome {
    Err(Failure::Unsupported(reason.to_owned()))
}

fn start_of(message: &Value) -> SessionStart {
    SessionStart {
        agent_id: message["agent"].as_str().map(str::to_owned),
        model: message["options"]["model"].as_str().map(str::to_owned),
        ..SessionStart::default()
    }
}

fn session_id(message: &Value) -> Result<SessionId, Failure> {
    SessionId::new(text(message, "session"))
        .map_err(|error| Failure::Unsupported(error.to_string()))
}

fn request_id(id: &str) -> Result<RequestId, Failure> {
    RequestId::new(id).map_err(|error| Failure::Unsupported(error.to_string()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let driver = Driver::default();
    let (sender, mut lines) = mpsc::channel(64);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            // The driver ends with its input.
            let _ = sender.blocking_send(line);
        }
    });
    while let Some(line) = lines.recv().await {
        if let Ok(message) = serde_json::from_str::<Value>(&line) {
            tokio::spawn(driver.clone().run(message));
        }
    }
}
