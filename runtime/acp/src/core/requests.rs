//! What a client asks for, but for turns.

use serde_json::{Value, json};
use trunkline_protocol::{
    Json, PROTOCOL, RequestId, SessionClose, SessionDetach, SessionId, SessionStart, SessionsList,
    Stop, StopReason,
};
use uuid::Uuid;

use super::{Client, Core, SESSIONS, attach, extensions, session_id};
use crate::{
    facts::Setting,
    rpc::{Code, Id, Refusal},
    session::{Change, Joining, Phase, Session},
};

/// How many sessions one answer lists.
const LISTED: u32 = 50;

impl Core {
    /// Does what is asked, or begins it.
    pub(super) fn request(&mut self, id: &Id, method: &str, params: &Value) -> Result<(), Refusal> {
        match method {
            "initialize" => self.initialize(id, params),
            "authenticate" => {
                return Err(Refusal::params(
                    "no authentication is needed, and there is none",
                ));
            }
            "session/new" => self.new_session(id, params)?,
            "session/load" => self.join(id, params, true)?,
            "session/resume" => self.join(id, params, false)?,
            "session/list" => self.list(id, params)?,
            "session/close" => self.close(id, params)?,
            "session/delete" => self.delete(id, params)?,
            "session/prompt" => self.prompt(id, params)?,
            "session/set_mode" => {
                let value = params["modeId"]
                    .as_str()
                    .ok_or_else(|| Refusal::params("`modeId` is missing"))?;
                self.change(id, params, Setting::Mode, value, false)?;
            }
            "session/set_config_option" => {
                let named = params["configId"].as_str().and_then(Setting::named);
                let setting = named.ok_or_else(|| Refusal::params("there is no such option"))?;
                let value = params["value"].as_str();
                let value =
                    value.ok_or_else(|| Refusal::params("`value` must be one of the option's"))?;
                self.change(id, params, setting, value, true)?;
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
        let can = &params["clientCapabilities"];
        self.client = Some(Client {
            forms: can["elicitation"]["form"].is_object(),
            notices: can["session"]["notices"].is_object(),
        });
        let result = json!({
            // The only stable version: who speaks another one decides whether to go on.
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {
                    "image": self.options.files.is_some(),
                    "audio": false,
                    "embeddedContext": true,
                },
                // A server can be any address that tools reach: from elsewhere none is named.
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
        self.answer(id, Ok(result));
    }

    fn new_session(&mut self, id: &Id, params: &Value) -> Result<(), Refusal> {
        self.has_room()?;
        let cwd = self.folder(&params["cwd"])?;
        let add_dirs = self.folders(&params["additionalDirectories"])?;
        let mcp_servers = mcp_servers(params)?;
        let session = SessionId::new(format!("acp-{}", Uuid::new_v4().simple()))
            .map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
        let start = SessionStart {
            protocol: Some(PROTOCOL),
            extensions: Some(extensions()),
            agent_id: self.options.agent.clone(),
            cwd: Some(cwd),
            add_dirs: (!add_dirs.is_empty()).then_some(add_dirs),
            mcp_servers: mcp_servers.clone(),
            ..SessionStart::default()
        };
        let phase = Phase::Starting {
            id: id.clone(),
            opened: false,
            until: None,
        };
        self.sessions
            .insert(session.clone(), Session::new(phase, mcp_servers));
        self.say_host(&session, start);
        Ok(())
    }

    /// Opens a session of the journal, with its history or without.
    fn join(&mut self, id: &Id, params: &Value, replays: bool) -> Result<(), Refusal> {
        let session = session_id(params)?;
        // It goes on where it began; what is named here is checked all the same.
        self.folder(&params["cwd"])?;
        self.folders(&params["additionalDirectories"])?;
        let mcp_servers = mcp_servers(params)?;
        let before = self.sessions.remove(&session);
        if before.as_ref().is_some_and(|session| !session.is_open()) {
            self.sessions.extend(before.map(|before| (session, before)));
            return Err(Refusal::new(
                Code::InvalidRequest,
                "the session is being opened",
            ));
        }
        if before.is_none() {
            self.has_room()?;
        }
        let joining = Joining {
            id: id.clone(),
            replays,
            last: None,
            open: Default::default(),
            to_ask: Vec::new(),
        };
        let mut new = Session::new(Phase::Joining(Box::new(joining)), mcp_servers.clone());
        if let Some(before) = before {
            // What waits goes on to wait.
            (new.prompts, new.changes) = (before.prompts, before.changes);
            (new.asked, new.shows_modes) = (before.asked, before.shows_modes);
        }
        self.sessions.insert(session.clone(), new);
        let attach = trunkline_protocol::SessionAttach {
            mcp_servers,
            ..attach()
        };
        self.say_hub(&session, attach);
        Ok(())
    }

    fn list(&mut self, id: &Id, params: &Value) -> Result<(), Refusal> {
        let text = |name: &str| match &params[name] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            _ => Err(Refusal::params(format!("`{name}` must be a string"))),
        };
        let (cwd, cursor) = (text("cwd")?, text("cursor")?);
        self.asks += 1;
        let request = RequestId::new(format!("acp-{}", self.asks))
            .map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
        self.lists.insert(request.clone(), id.clone());
        let list = SessionsList {
            cwd,
            cursor,
            limit: Some(LISTED),
            agent_id: self.options.agent.clone(),
            extensions: Some(extensions()),
            ..SessionsList::new(request)
        };
        self.say_host(&SessionId::none(), list);
        Ok(())
    }

    /// Ends what the client does in a session, and lets it go: it can be loaded again.
    fn close(&mut self, id: &Id, params: &Value) -> Result<(), Refusal> {
        let session = self.opened(params)?;
        self.leave(&session);
        self.answer(id, Ok(json!({})));
        Ok(())
    }

    fn delete(&mut self, id: &Id, params: &Value) -> Result<(), Refusal> {
        let session = session_id(params)?;
        if self.sessions.contains_key(&session) {
            self.leave(&session);
        }
        self.out.removals.push((id.clone(), session));
        Ok(())
    }

    fn leave(&mut self, session: &SessionId) {
        self.stop(session);
        self.detach(
            session,
            &Refusal::new(Code::Cancelled, "the session was closed"),
        );
    }

    fn change(
        &mut self,
        id: &Id,
        params: &Value,
        setting: Setting,
        value: &str,
        lists: bool,
    ) -> Result<(), Refusal> {
        let session = self.opened(params)?;
        let known = self
            .sessions
            .get_mut(&session)
            .filter(|known| known.facts.has(setting, value));
        let known =
            known.ok_or_else(|| Refusal::params(format!("the agent knows no {value:?}")))?;
        let change = Change {
            id: id.clone(),
            setting,
            value: value.to_owned(),
            lists,
        };
        known.changes.push_back(change);
        self.say_host(&session, setting.update(value.to_owned()));
        Ok(())
    }

    /// A request of the client is cancelled.
    pub(super) fn cancel(&mut self, id: &Id) {
        let cancelled = || Refusal::new(Code::Cancelled, "it was cancelled");
        self.lists.retain(|_, waiting| waiting != id);
        let meant = self.sessions.iter().find_map(|(session, known)| {
            let is = match &known.phase {
                Phase::Starting { id: waiting, .. } => waiting == id,
                Phase::Joining(joining) => joining.id == *id,
                Phase::Open => false,
            };
            let turn = known
                .prompts
                .iter()
                .find(|prompt| prompt.id == *id)
                .map(|prompt| prompt.turn.clone());
            (is || turn.is_some()).then(|| (session.clone(), turn))
        });
        match meant {
            // Its end answers it.
            Some((session, Some(turn))) => self.stop_turn(&session, turn),
            Some((session, None)) => {
                let is_new = matches!(self.sessions[&session].phase, Phase::Starting { .. });
                self.forget(&session, &cancelled());
                match is_new {
                    true => self.say_host(&session, SessionClose {}),
                    false => self.say_hub(&session, SessionDetach {}),
                }
                self.answer(id, Err(cancelled()));
            }
            // A change of an option, or a removal, is under way, and says how it ended.
            None if self.out.removals.iter().any(|(waiting, _)| waiting == id) => {}
            None if self
                .sessions
                .values()
                .any(|known| known.changes.iter().any(|change| change.id == *id)) => {}
            None => self.answer(id, Err(cancelled())),
        }
    }

    /// Stops all turns of this client in a session, and denies what it was asked there.
    pub(super) fn stop(&mut self, session: &SessionId) {
        let Some(known) = self.sessions.get(session) else {
            return;
        };
        let turns: Vec<_> = known
            .prompts
            .iter()
            .map(|prompt| prompt.turn.clone())
            .collect();
        let asked: Vec<_> = known.asked.values().copied().collect();
        for turn in turns {
            self.stop_turn(session, turn);
        }
        for number in asked {
            self.withdraw(number);
            self.answered(number, Err("the turn was cancelled".to_owned()));
        }
    }

    fn stop_turn(&mut self, session: &SessionId, turn: trunkline_protocol::TurnId) {
        let stop = Stop {
            reason: Some(StopReason::User),
        };
        let message =
            trunkline_protocol::HostMessage::new(session.clone(), stop).of_turn(Some(turn));
        self.say(&message);
    }

    /// The session that is meant, which is open.
    pub(super) fn opened(&self, params: &Value) -> Result<SessionId, Refusal> {
        let id = session_id(params)?;
        match self.sessions.get(&id) {
            Some(session) if session.is_open() => Ok(id),
            Some(_) => Err(Refusal::new(
                Code::InvalidRequest,
                "the session is being opened",
            )),
            None => Err(Refusal::new(
                Code::NotFound,
                "the session is not open here; load or resume it first",
            )),
        }
    }

    fn has_room(&self) -> Result<(), Refusal> {
        match self.sessions.len() < SESSIONS {
            true => Ok(()),
            false => Err(Refusal::new(
                Code::Internal,
                format!("{SESSIONS} sessions are open; close some first"),
            )),
        }
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

/// The servers that a client names. `None` where it names none.
fn mcp_servers(params: &Value) -> Result<Option<Json>, Refusal> {
    match &params["mcpServers"] {
        Value::Null => Ok(None),
        Value::Array(servers) if servers.is_empty() => Ok(None),
        servers @ Value::Array(_) => Json::of(servers)
            .map(Some)
            .map_err(|error| Refusal::params(error.to_string())),
        _ => Err(Refusal::params("`mcpServers` must be a list")),
    }
}
