//! What a frame of the hub does.

use base64::{Engine, engine::general_purpose::STANDARD};
use trunkline_protocol::{
    FileInput, InputMode, InputResponse, MessageId, PROTOCOL, PermissionResponse, Resume,
    SessionId, SessionStart, SessionUpdate, Stop, StopReason, SystemPromptMode, TurnId, UserInput,
};
use uuid::Uuid;

use super::{Bridge, Heard, SESSIONS};
use crate::{
    ask::Answered,
    files::{MAX_FILE, base_name},
    frame::{ConfigUpdate, Create, Decision, File, FromHub, Message, NativeList, ToHub},
    outbox::Lost,
    session::{Session, Steer, TURNS, Turn},
    show,
};

/// The longest token, in bytes.
const TOKEN: usize = 4096;

/// The most sessions in a list.
const LISTED: usize = 50;

/// With what a session is opened.
struct Opening<'a> {
    agent: &'a str,
    user: Option<String>,
    native: Option<String>,
    /// Whether what was said in it is shown again.
    history: bool,
    profile: Option<&'a str>,
}

impl Bridge {
    /// Takes a frame.
    pub(crate) fn hub(&mut self, text: &str) -> Heard {
        match FromHub::read(text) {
            Ok(FromHub::Ack(ack)) if self.is_up => {
                tracing::debug!(ack.ok, "a second hello.ack of the hub")
            }
            Ok(FromHub::Ack(ack)) if ack.ok => {
                self.taken();
                return Heard::Taken;
            }
            Ok(FromHub::Ack(ack)) => {
                // It stands on a terminal.
                let why = ack.error.unwrap_or_default();
                return Heard::Refused(why.chars().filter(|c| !c.is_control()).take(256).collect());
            }
            Ok(FromHub::Token(token)) => {
                let is_good = !token.is_empty()
                    && token.len() <= TOKEN
                    && token.chars().all(|c| c.is_ascii_graphic());
                if is_good {
                    return Heard::Token(token);
                }
                tracing::warn!("the hub sent a token that is not one; the one of before is kept");
            }
            Ok(FromHub::Create(create)) => self.create(&create),
            Ok(FromHub::Message(message, is_for_turn)) => self.message(message, is_for_turn),
            Ok(FromHub::Stop(of)) => self.stop(&of.session_id),
            Ok(FromHub::Permission(decision)) => self.decide(&decision),
            Ok(FromHub::File(file)) => self.file(*file),
            Ok(FromHub::Config(update)) => self.update(&update),
            Ok(FromHub::NativeList(list)) => self.native_list(list),
            Ok(FromHub::Close(of)) => self.over(&of.session_id, Some("the hub closed the session")),
            Ok(FromHub::Ping) => self.out.push("", Lost::Forgotten, &ToHub::Pong {}),
            Ok(FromHub::Unknown) => {
                tracing::debug!("the hub sent a frame of a type that is not known here")
            }
            Err(dropped) => tracing::warn!("a frame of the hub was dropped: {dropped}"),
        }
        Heard::Done
    }

    fn create(&mut self, create: &Create) {
        let id = &create.session_id;
        if self.sessions.contains_key(id) {
            return self.put_created(id, Ok(()));
        }
        let native = create
            .resume_session_id
            .clone()
            .filter(|native| !native.is_empty());
        let opening = Opening {
            agent: &create.agent_id,
            user: create.user_id.clone(),
            history: native.is_some(),
            native,
            profile: create.prompt_profile.as_deref(),
        };
        if let Err(why) = self.open(id, opening) {
            self.put_created(id, Err(why));
        }
    }

    pub(super) fn put_created(&mut self, id: &str, opened: Result<(), String>) {
        let session = self.sessions.get_mut(id).filter(|_| opened.is_ok());
        let native_handle = session.and_then(|session| {
            session.is_answered = true;
            session.native.clone()
        });
        let session_id = id.to_owned();
        let created = ToHub::Created {
            session_id,
            ok: opened.is_ok(),
            error: opened.err(),
            native_handle,
        };
        self.out.push(id, Lost::Again, &created);
    }

    /// Opens a session at the host, where it is not.
    fn open(&mut self, id: &str, opening: Opening<'_>) -> Result<(), String> {
        if self.sessions.contains_key(id) {
            return Ok(());
        }
        let agent = self
            .agent(opening.agent)
            .ok_or("this runtime has no such agent")?;
        let settings = self.settings.get(&agent).cloned().unwrap_or_default();
        let of_agent = || {
            self.sessions
                .values()
                .filter(|session| session.agent == agent)
                .count() as u64
        };
        if settings.max_sessions.is_some_and(|most| of_agent() >= most) {
            self.close_one(Some(&agent))?;
        }
        if self.sessions.len() >= SESSIONS {
            self.close_one(None)?;
        }
        let wire = format!("{}.{}", self.rules.runtime_id, Uuid::new_v4().simple());
        let wire = SessionId::new(wire).map_err(|error| error.to_string())?;
        let instructions = show::instructions(opening.profile);
        let is_anew = opening.native.is_none() && self.forgotten.iter().any(|before| before == id);
        let resume = opening.native.clone().map(|native| Resume {
            native_session_id: Some(native),
            history: Some(opening.history),
            ..Resume::default()
        });
        let start = SessionStart {
            protocol: Some(PROTOCOL),
            extensions: Some(Self::extensions()),
            agent_id: Some(agent.clone()),
            user_id: opening.user.filter(|user| !user.is_empty()),
            resume,
            system_prompt: instructions.map(str::to_owned),
            system_prompt_mode: instructions.map(|_| SystemPromptMode::Append),
            denied_tools: Some(settings.denied_tools).filter(|tools| !tools.is_empty()),
            ..SessionStart::default()
        };
        self.say(&wire, None, start);
        self.wires.insert(wire.clone(), id.to_owned());
        let mut session = Session::new(wire, agent, self.now);
        session.native = opening.native;
        self.sessions.insert(id.to_owned(), session);
        if is_anew {
            self.forgotten.retain(|before| before != id);
            self.show(
                id,
                "system",
                "The session had rested and was closed. The agent does not remember it.",
            );
        }
        Ok(())
    }

    /// The host's id of an agent that the hub has.
    fn agent(&self, of_hub: &str) -> Option<String> {
        let id = of_hub
            .strip_prefix(&self.rules.runtime_id)?
            .strip_prefix('.')?;
        self.agents
            .iter()
            .find(|agent| agent.id == id)
            .map(|agent| agent.id.clone())
    }

    /// Makes room: closes the session that has rested longest.
    fn close_one(&mut self, agent: Option<&str>) -> Result<(), String> {
        let of = |session: &Session| agent.is_none_or(|agent| session.agent == agent);
        let is_asked = |id: &String| self.requests.values().any(|pending| pending.session == *id);
        let resting = self.sessions.iter();
        let resting =
            resting.filter(|(id, session)| of(session) && session.rests() && !is_asked(id));
        let oldest = resting
            .min_by_key(|(_, session)| session.used)
            .map(|(id, _)| id.clone());
        let oldest = oldest.ok_or("too many sessions work at the same time")?;
        self.close(&oldest);
        Ok(())
    }

    fn message(&mut self, message: Message, is_for_turn: bool) {
        let Message {
            session_id: id,
            message_id: hub,
            content,
            agent_id,
            ..
        } = message;
        let opening = Opening {
            agent: &agent_id,
            user: message.user_id,
            native: message.native_handle.filter(|native| !native.is_empty()),
            history: false,
            profile: message.prompt_profile.as_deref(),
        };
        let was_open = self.sessions.contains_key(&id);
        if let Err(why) = self.open(&id, opening) {
            return self.put_refused(&id, &hub, &why);
        }
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        // The hub knows it, since it has sent a message.
        session.is_answered |= !was_open;
        if session.has(&hub) {
            return tracing::warn!("the hub sent a message twice");
        }
        session.used = now;
        session.messages += 1;
        if session.first_prompt.is_empty() {
            session.first_prompt = show::cut(&content, 200);
        }
        if session.question.is_some() {
            return self.answer(&id, &hub, &content);
        }
        if is_for_turn && !session.turns.is_empty() && session.steers.len() < TURNS {
            return self.steer(&id, hub, content);
        }
        let message = MessageId::new(&hub).ok();
        self.turn(&id, &hub, message, content);
    }

    /// Begins a turn, or has it wait for those before it.
    pub(super) fn turn(
        &mut self,
        id: &str,
        hub: &str,
        message: Option<MessageId>,
        content: String,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session.turns.len() >= TURNS {
            return self.put_refused(id, hub, "too many messages wait");
        }
        let fresh = || Uuid::new_v4().simple().to_string();
        let Ok(turn) = TurnId::new(fresh()) else {
            return;
        };
        let Some(message) = message.or_else(|| MessageId::new(fresh()).ok()) else {
            return;
        };
        let wire = session.wire.clone();
        let is_first = session.turns.is_empty();
        session.turns.push_back(Turn {
            id: turn.clone(),
            message: message.clone(),
            hub: Some(hub.to_owned()),
        });
        if is_first {
            session.output = 0;
            self.put_started(id, hub);
        }
        self.say(
            &wire,
            Some(turn),
            UserInput {
                content,
                message_id: Some(message),
                ..UserInput::default()
            },
        );
    }

    fn steer(&mut self, id: &str, hub: String, content: String) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Ok(message) = MessageId::new(&hub) else {
            return;
        };
        let wire = session.wire.clone();
        session.steers.push_back(Steer {
            message: message.clone(),
            hub,
            content: content.clone(),
        });
        let input = UserInput {
            content,
            message_id: Some(message),
            mode: Some(InputMode::Steer),
            ..UserInput::default()
        };
        self.say(
            &wire,
            TurnId::new(Uuid::new_v4().simple().to_string()).ok(),
            input,
        );
    }

    /// A message while a question waits is its answer. For the hub the turn goes on by it.
    fn answer(&mut self, id: &str, hub: &str, content: &str) {
        self.put_started(id, hub);
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Some(question) = &mut session.question else {
            return;
        };
        let request_id = question.request_id.clone();
        match question.answer(content) {
            Answered::Next(why) => {
                let shown = question.shown();
                if let Some(why) = why {
                    self.show(id, "system", &why);
                }
                self.show(id, "question", &shown);
                self.put_completed(id, hub, 0);
            }
            Answered::Whole(values) => {
                session.question = None;
                let wire = session.wire.clone();
                let runs = session
                    .turns
                    .front_mut()
                    .map(|turn| turn.hub.replace(hub.to_owned()));
                self.say(
                    &wire,
                    None,
                    InputResponse {
                        request_id,
                        values: Some(values),
                        cancelled: None,
                    },
                );
                match runs {
                    // A turn that the hub waits for asked it; what answers it has its end now.
                    Some(Some(before)) => self.put_completed(id, &before, 0),
                    Some(None) => {}
                    None => self.put_completed(id, hub, 0),
                }
            }
        }
    }

    fn stop(&mut self, id: &str) {
        let session_id = id.to_owned();
        let ack = match self.sessions.get(id).map(|session| session.wire.clone()) {
            Some(wire) => {
                self.say(
                    &wire,
                    None,
                    Stop {
                        reason: Some(StopReason::User),
                    },
                );
                ToHub::StopAck {
                    session_id,
                    ok: true,
                    error: None,
                }
            }
            None => {
                let error = Some("the session is not open".to_owned());
                ToHub::StopAck {
                    session_id,
                    ok: false,
                    error,
                }
            }
        };
        self.out.push(id, Lost::Forgotten, &ack);
    }

    fn decide(&mut self, decision: &Decision) {
        let is_asked = self
            .requests
            .get(&decision.request_id)
            .is_some_and(|asked| asked.session == decision.session_id);
        let pending = if is_asked {
            self.requests.remove(&decision.request_id)
        } else {
            None
        };
        let Some(pending) = pending else {
            return tracing::debug!("the hub decided about a request that does not wait");
        };
        let Some(wire) = self
            .sessions
            .get(&pending.session)
            .map(|session| session.wire.clone())
        else {
            return;
        };
        let mut response = PermissionResponse::new(pending.request_id, decision.approved);
        response.reason = Some(StopReason::User);
        response.always_allow =
            (decision.approved && pending.has_always && decision.always_allow == Some(true))
                .then_some(true);
        self.say(&wire, None, response);
    }

    fn file(&mut self, file: File) {
        let id = file.session_id;
        let name = base_name(&file.metadata.name);
        let Some(wire) = self.sessions.get(&id).map(|session| session.wire.clone()) else {
            let text = format!(
                "{name} was not given to the agent: send a message first, which opens the session"
            );
            return self.show(&id, "system", &text);
        };
        let is_small = file.data.len() <= MAX_FILE.div_ceil(3) * 4 + 4;
        let bytes = match is_small {
            true => STANDARD
                .decode(file.data.as_bytes())
                .map_err(|_| "it is not whole".to_owned()),
            false => Err(format!("it is larger than {} MiB", MAX_FILE >> 20)),
        };
        let kept = bytes.and_then(|bytes| self.files.keep(&id, &name, &bytes));
        let path = kept.and_then(|path| {
            path.into_os_string()
                .into_string()
                .map_err(|_| "no name".to_owned())
        });
        match path {
            Ok(file_path) => {
                let file_mime_type = Some(file.metadata.mime_type).filter(|kind| !kind.is_empty());
                let input = FileInput {
                    file_name: Some(name),
                    file_mime_type,
                    file_path,
                    ..FileInput::default()
                };
                self.say(&wire, None, input);
            }
            Err(why) => self.show(
                &id,
                "system",
                &format!("{name} was not given to the agent: {why}"),
            ),
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.used = self.now;
        }
    }

    fn update(&mut self, update: &ConfigUpdate) {
        let applied = match self.agent(&update.agent_id) {
            None => Err("this runtime has no such agent".to_owned()),
            Some(agent) => {
                let mut settings = self.settings.get(&agent).cloned().unwrap_or_default();
                settings.apply(update).map(|()| (agent, settings))
            }
        };
        let error = match applied {
            Ok((agent, settings)) => {
                let denied = settings.denied_tools.clone();
                let before = self
                    .settings
                    .insert(agent.clone(), settings)
                    .unwrap_or_default();
                if before.denied_tools != denied {
                    let open = self
                        .sessions
                        .values()
                        .filter(|session| session.agent == agent);
                    for wire in open.map(|session| session.wire.clone()).collect::<Vec<_>>() {
                        let update = SessionUpdate {
                            denied_tools: Some(denied.clone()),
                            ..SessionUpdate::default()
                        };
                        self.say(&wire, None, update);
                    }
                }
                None
            }
            Err(why) => Some(why),
        };
        let agent_id = show::cut(&update.agent_id, 256);
        self.out.push(
            "",
            Lost::Forgotten,
            &ToHub::ConfigAck {
                agent_id,
                ok: error.is_none(),
                error,
            },
        );
    }

    /// Answers with the sessions that the connector has had: a host does not list those of its agents.
    fn native_list(&mut self, list: NativeList) {
        let agent = self.agent(&list.agent_id);
        let known = self
            .known
            .iter()
            .rev()
            .filter(|(of, _)| Some(of) == agent.as_ref());
        let sessions = known
            .take(LISTED)
            .map(|(_, session)| session.clone())
            .collect();
        let NativeList {
            agent_id,
            request_id,
        } = list;
        self.out.push(
            "",
            Lost::Forgotten,
            &ToHub::Native {
                agent_id,
                request_id,
                sessions,
            },
        );
    }
}
