//! Requests of the editor, except for turns.

use serde_json::{Value, json};
use trunkline_client::ClientError;
use trunkline_protocol::{
    AttachRefusal, Json, Resume, SessionAttach, SessionId, SessionInfo, SessionStart,
};
use uuid::Uuid;

use super::{EditorAgent, EditorCapabilities, MAX_SESSIONS, session_id};
use crate::{
    facts::Setting,
    native::NativeConversation,
    rpc::{Code, Id, Refusal},
    session::{EditorSession, Joining, Phase},
};

/// A change of an option, which the editor asked for.
struct Change {
    request: Id,
    setting: Setting,
    value: Value,
    /// True if the answer has all options.
    lists_options: bool,
}

/// The method that changes the title of a session or archives it. ACP has none.
const EDIT_METHOD: &str = "_trunkline/session/edit";

impl EditorAgent {
    /// Handles a request: answers it, or begins what answers it later.
    pub(super) async fn handle_request(
        &mut self,
        id: &Id,
        method: &str,
        params: &Value,
    ) -> Result<(), Refusal> {
        match method {
            "initialize" => self.initialize(id, params),
            "authenticate" => {
                return Err(Refusal::params(
                    "no authentication is needed, and there is none",
                ));
            }
            "logout" if self.options.logs_out => self.log_out(id),
            "session/new" => self.new_session(id, params)?,
            "session/load" => self.join(id, params, true)?,
            "session/resume" => self.join(id, params, false)?,
            "session/list" => self.list(id, params)?,
            "session/status" if self.options.offers_unstable => self.status(id, params)?,
            "session/fork" if self.options.offers_unstable => self.fork(id, params)?,
            EDIT_METHOD if self.options.offers_unstable => self.edit(id, params)?,
            "session/close" => self.close(id, params)?,
            "session/delete" => self.delete(id, params)?,
            "session/prompt" => self.prompt(id, params).await?,
            "session/set_mode" => {
                self.change(params, Some("mode"), &params["modeId"], id, false)?;
            }
            "session/set_config_option" => {
                let option = params["configId"].as_str();
                self.change(params, option, &params["value"], id, true)?;
            }
            _ => {
                return Err(Refusal::new(
                    Code::MethodNotFound,
                    format!("{method:?} is not known"),
                ));
            }
        }
        Ok(())
    }

    fn initialize(&mut self, id: &Id, params: &Value) {
        let capabilities = &params["clientCapabilities"];
        self.editor = Some(EditorCapabilities {
            forms: capabilities["elicitation"]["form"].is_object(),
            notices: capabilities["session"]["notices"].is_object(),
            compaction: capabilities["session"]["compaction"].is_object(),
            booleans: capabilities["session"]["configOptions"]["boolean"].is_object(),
        });
        let mut result = json!({
            // The only stable version: an editor of another one decides whether to continue.
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {
                    "image": self.options.files.is_some(),
                    "audio": false,
                    "embeddedContext": true,
                },
                // Tools reach any address that a server names: editors elsewhere name none.
                "mcpCapabilities": { "http": self.options.is_local, "sse": self.options.is_local },
                "sessionCapabilities": {
                    "list": {},
                    "resume": {},
                    "close": {},
                    "delete": {},
                    "additionalDirectories": {},
                },
            },
            "agentInfo": { "name": "trunkline", "title": "trunkline", "version": self.options.version },
            "authMethods": [],
        });
        if self.options.logs_out {
            result["agentCapabilities"]["auth"] = json!({ "logout": {} });
        }
        if self.options.offers_unstable {
            let sessions = &mut result["agentCapabilities"]["sessionCapabilities"];
            sessions["status"] = json!({});
            sessions["fork"] = json!({});
            sessions["_meta"] = json!({ EDIT_METHOD: {} });
        }
        self.answer(id, Ok(result));
    }

    fn log_out(&self, id: &Id) {
        let request = id.clone();
        self.host.call(self.store.log_out(), move |agent, ended| {
            let ended = ended.map_err(|why| Refusal::new(Code::Internal, why));
            agent.answer(&request, ended.map(|()| json!({})));
        });
    }

    fn new_session(&mut self, id: &Id, params: &Value) -> Result<(), Refusal> {
        self.check_room()?;
        let cwd = self.folder(&params["cwd"])?;
        let add_dirs = self.folders(&params["additionalDirectories"])?;
        let start = SessionStart {
            agent_id: self.options.agent.clone(),
            cwd: Some(cwd),
            add_dirs: (!add_dirs.is_empty()).then_some(add_dirs),
            mcp_servers: mcp_servers(params)?,
            ..SessionStart::default()
        };
        let session = new_session_id()?;
        let phase = Phase::Starting {
            request: id.clone(),
            until: None,
            replays: None,
        };
        let new = self.make_session(phase);
        let stream = new.stream;
        self.sessions.insert(session.clone(), new);
        let client = self.client.clone();
        let opening = session.clone();
        self.host.call(
            async move { client.open_as(opening, start).await },
            move |agent, opened| agent.finish_opening(&session, stream, opened),
        );
        Ok(())
    }

    /// Opens a session of the journal, with its history or without. One that is open here is left
    /// and attached again; its prompts and questions stay. A conversation that an agent keeps
    /// becomes a session of the journal with the same id.
    fn join(&mut self, id: &Id, params: &Value, replays: bool) -> Result<(), Refusal> {
        let session = session_id(params)?;
        // A session of the journal continues in its own folders. All that are named are checked.
        let cwd = self.folder(&params["cwd"])?;
        let add_dirs = self.folders(&params["additionalDirectories"])?;
        let mcp_servers = mcp_servers(params)?;
        let start = NativeConversation::parse(&session).map(|conversation| SessionStart {
            agent_id: Some(conversation.agent.to_owned()),
            cwd: Some(cwd),
            add_dirs: (!add_dirs.is_empty()).then_some(add_dirs),
            mcp_servers: mcp_servers.clone(),
            resume: Some(Resume {
                native_session_id: Some(conversation.native_session_id.to_owned()),
                history: replays.then_some(true),
                ..Resume::default()
            }),
            ..SessionStart::default()
        });
        let attach = SessionAttach {
            mcp_servers,
            ..SessionAttach::default()
        };
        let joining = Joining {
            request: id.clone(),
            replays,
            copy: None,
            last_seq: None,
            requests: Vec::new(),
        };
        let mut new = self.make_session(Phase::Joining(joining));
        let stream = new.stream;
        let mut turns = Vec::new();
        match self.sessions.get_mut(&session) {
            Some(before) if !before.is_open() => return Err(being_opened()),
            Some(before) => {
                turns.extend(before.prompts.iter().map(|prompt| prompt.turn.clone()));
                new.handle = before.handle.take();
                new.prompts = std::mem::take(&mut before.prompts);
                new.questions = std::mem::take(&mut before.questions);
                new.pending_changes = before.pending_changes;
                new.shows_modes = before.shows_modes;
            }
            None => self.check_room()?,
        }
        let before = new.handle.clone();
        self.sessions.insert(session.clone(), new);
        let client = self.client.clone();
        let joined = session.clone();
        let attached = async move {
            for mut turn in turns {
                // An input that the host does not have would be lost; its own end has the cause.
                let _ = turn.accepted().await;
            }
            if let Some(before) = before {
                // An ended session is left.
                let _ = before.detach().await;
            }
            let attached = client.attach(joined.clone(), attach).await;
            match (attached, start) {
                (
                    Err(ClientError::SessionRefused {
                        reason: Some(AttachRefusal::Unknown),
                        ..
                    }),
                    Some(start),
                ) => client.open_as(joined, start).await,
                (attached, _) => attached,
            }
        };
        self.host.call(attached, move |agent, opened| {
            agent.finish_opening(&session, stream, opened);
        });
        Ok(())
    }

    /// Opens a session as a copy of one of the journal, which need not be open here. The entries of
    /// the source are not shown.
    fn fork(&mut self, id: &Id, params: &Value) -> Result<(), Refusal> {
        let source = session_id(params)?;
        self.check_room()?;
        // The copy works in the folders of its source; those that are named here are checked.
        self.folder(&params["cwd"])?;
        self.folders(&params["additionalDirectories"])?;
        let copy = new_session_id()?;
        let joining = Joining {
            request: id.clone(),
            replays: false,
            copy: Some(copy.clone()),
            last_seq: None,
            requests: Vec::new(),
        };
        let new = self.make_session(Phase::Joining(joining));
        let stream = new.stream;
        self.sessions.insert(copy.clone(), new);
        let client = self.client.clone();
        let opening = copy.clone();
        self.host.call(
            async move { client.fork_as(opening, &source, None).await },
            move |agent, opened| agent.finish_opening(&copy, stream, opened),
        );
        Ok(())
    }

    /// Changes the title of a session or archives it; it need not be open here.
    fn edit(&mut self, id: &Id, params: &Value) -> Result<(), Refusal> {
        let session = session_id(params)?;
        let title = match &params["title"] {
            Value::Null => None,
            Value::String(title) => Some(title.clone()),
            _ => return Err(Refusal::params("`title` must be a string")),
        };
        let archived = match &params["archived"] {
            Value::Null => None,
            Value::Bool(archived) => Some(*archived),
            _ => return Err(Refusal::params("`archived` must be true or false")),
        };
        let client = self.client.clone();
        let request = id.clone();
        self.host.call(
            async move { client.edit(&session, title, archived).await },
            move |agent, edited| {
                let edited = edited.map_err(Refusal::from);
                agent.answer(&request, edited.map(|()| json!({})));
            },
        );
        Ok(())
    }

    /// Makes a session whose events have another number from its opening to its end.
    fn make_session(&mut self, phase: Phase) -> EditorSession {
        self.last_stream += 1;
        let mut session = EditorSession::new(phase, self.last_stream);
        session.facts.has_booleans = self.editor.is_some_and(|editor| editor.booleans);
        session
    }

    /// Stops the editor's turns in a session, and leaves it: it can be loaded again.
    fn close(&mut self, id: &Id, params: &Value) -> Result<(), Refusal> {
        let session = self.open_session(params)?;
        self.leave(&session);
        self.answer(id, Ok(json!({})));
        Ok(())
    }

    fn delete(&mut self, id: &Id, params: &Value) -> Result<(), Refusal> {
        let session = session_id(params)?;
        self.leave(&session);
        let removed = self.store.remove(session.to_string());
        let request = id.clone();
        self.host.call(removed, move |agent, removed| {
            let removed = removed.map_err(|why| Refusal::new(Code::Internal, why));
            agent.answer(&request, removed.map(|()| json!({})));
        });
        Ok(())
    }

    fn leave(&mut self, session: &SessionId) {
        self.stop_session(session);
        self.call_session(session, async |handle| handle.detach().await);
        self.forget(
            session,
            &Refusal::new(Code::Cancelled, "the session was closed"),
        );
    }

    fn change(
        &mut self,
        params: &Value,
        option: Option<&str>,
        value: &Value,
        request: &Id,
        lists_options: bool,
    ) -> Result<(), Refusal> {
        let id = self.open_session(params)?;
        let session = self.sessions.get_mut(&id).ok_or_else(being_opened)?;
        let setting = option.and_then(|option| session.facts.setting(option));
        let setting = setting.ok_or_else(|| Refusal::params("there is no such option"))?;
        if !session.facts.has(&setting, value) {
            return Err(Refusal::params(format!("the agent knows no {value}")));
        }
        let Some(handle) = session.handle.clone() else {
            return Err(being_opened());
        };
        session.pending_changes += 1;
        let update = session.facts.update(&setting, value);
        let change = Change {
            request: request.clone(),
            setting,
            value: value.clone(),
            lists_options,
        };
        self.host.call(
            async move { handle.update(update).await },
            move |agent, values| agent.finish_change(&id, &change, values),
        );
        Ok(())
    }

    /// Answers a change with the values that are in force now.
    fn finish_change(
        &mut self,
        id: &SessionId,
        change: &Change,
        values: Result<SessionInfo, ClientError>,
    ) {
        if let Ok(info) = &values {
            self.update_facts(id, info, None);
        }
        let Some(session) = self.sessions.get_mut(id) else {
            let closed = Refusal::new(Code::Cancelled, "the session was closed");
            return self.answer(&change.request, Err(closed));
        };
        // One that was left and opened again has none.
        session.pending_changes = session.pending_changes.saturating_sub(1);
        let error = session.change_error.take();
        let current = session.facts.value(&change.setting).unwrap_or_default();
        let answer = match values {
            Err(cause) => Err(cause.into()),
            Ok(_) if change.value != current => {
                Err(Refusal::params(error.unwrap_or_else(|| {
                    format!("the agent stays with {current}")
                })))
            }
            Ok(_) if change.lists_options => {
                Ok(json!({ "configOptions": session.facts.options() }))
            }
            Ok(_) => Ok(json!({})),
        };
        self.answer(&change.request, answer);
    }

    /// Cancels a request of the editor. A change of an option, or a removal, is under way, and its
    /// own answer follows.
    pub(super) fn cancel(&mut self, id: &Id) {
        let cancelled = || Refusal::new(Code::Cancelled, "it was cancelled");
        if self.lists.remove(id) {
            return self.answer(id, Err(cancelled()));
        }
        let mut opening = self.sessions.iter();
        if let Some((session, open)) = opening.find(|(_, it)| it.opening_request() == Some(id)) {
            let session = session.clone();
            match open.phase {
                Phase::Starting { .. } => {
                    self.call_session(&session, async |handle| handle.close().await);
                }
                _ => self.call_session(&session, async |handle| handle.detach().await),
            }
            return self.forget(&session, &cancelled());
        }
        // Its end answers it.
        let mut prompts = self.sessions.values().flat_map(|session| &session.prompts);
        let prompt = prompts.find(|prompt| prompt.request == *id);
        if let Some(turn) = prompt.map(|prompt| prompt.turn.clone()) {
            self.host.call(async move { turn.stop().await }, |_, _| ());
        }
    }

    /// Stops all turns of the editor in a session, and denies its open requests.
    pub(super) fn stop_session(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let turns = session.prompts.iter().map(|prompt| prompt.turn.clone());
        for turn in turns {
            self.host.call(async move { turn.stop().await }, |_, _| ());
        }
        let questions: Vec<_> = session.questions.values().copied().collect();
        for number in questions {
            self.withdraw(number);
            self.answer_question(number, Err("the turn was cancelled".to_owned()));
        }
    }

    /// The session that parameters name, if it is open.
    pub(super) fn open_session(&self, params: &Value) -> Result<SessionId, Refusal> {
        let id = session_id(params)?;
        match self.sessions.get(&id) {
            Some(session) if session.is_open() => Ok(id),
            Some(_) => Err(being_opened()),
            None => Err(Refusal::new(
                Code::NotFound,
                "the session is not open here; load or resume it first",
            )),
        }
    }

    fn check_room(&self) -> Result<(), Refusal> {
        if self.sessions.len() < MAX_SESSIONS {
            return Ok(());
        }
        let message = format!("{MAX_SESSIONS} sessions are open; close some first");
        Err(Refusal::new(Code::Internal, message))
    }

    fn folder(&self, value: &Value) -> Result<String, Refusal> {
        let path = value.as_str().filter(|path| path.starts_with('/'));
        let path = path.ok_or_else(|| Refusal::params("a folder must be an absolute path"))?;
        (self.options.may_work_in)(path).map_err(Refusal::params)?;
        Ok(path.to_owned())
    }

    fn folders(&self, value: &Value) -> Result<Vec<String>, Refusal> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .map(|path| self.folder(path))
            .collect()
    }
}

/// The servers that parameters name; `None` for none.
fn mcp_servers(params: &Value) -> Result<Option<Json>, Refusal> {
    match &params["mcpServers"] {
        Value::Null => Ok(None),
        Value::Array(servers) if servers.is_empty() => Ok(None),
        servers @ Value::Array(_) => Json::from_serialize(servers)
            .map(Some)
            .map_err(|error| Refusal::params(error.to_string())),
        _ => Err(Refusal::params("`mcpServers` must be a list")),
    }
}

fn being_opened() -> Refusal {
    Refusal::new(Code::InvalidRequest, "the session is being opened")
}

/// Returns an id for a new session.
fn new_session_id() -> Result<SessionId, Refusal> {
    SessionId::new(format!("acp-{}", Uuid::new_v4().simple()))
        .map_err(|error| Refusal::new(Code::Internal, error.to_string()))
}
