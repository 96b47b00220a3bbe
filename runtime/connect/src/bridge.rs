//! The core: frames of the hub in, lines for the host out, and the other way. No socket and no clock.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use trunkline_protocol::{
    AdapterMessage, AgentEntry, AgentsList, Extensions, HostBody, HostMessage, PermissionResponse,
    RelayMessage, RequestId, SessionId, StopReason, TurnId, Unread,
};
use uuid::Uuid;

use crate::{
    WhenLost,
    files::Files,
    frame::{Caps, Hello, HelloAgent, NativeSession, ToHub},
    joined::PIECE,
    outbox::{Lost, Outbox},
    session::Session,
    settings::Settings,
    show,
};

mod ends;
mod from_host;
mod from_hub;
#[cfg(test)]
mod tests;

/// Sessions that are open at a time.
const SESSIONS: usize = 1024;

/// Requests that wait for a person.
const REQUESTS: usize = 1024;

/// The most of a request that a person reads, in bytes. One that is longer is denied: a part could mislead.
const REQUEST_BYTES: usize = 64 * 1024;

/// How long a request waits for the hub, which answers each itself after 60 s.
const ANSWERS: Duration = Duration::from_secs(75);

/// Sessions that are remembered for a list.
const KNOWN: usize = 256;

/// The name of the journal in `extensions`.
const JOURNAL: &str = "journal";

/// What a connector was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) runtime_id: String,
    pub(crate) org: Option<String>,
    /// Which agents the hub gets. `None`: all.
    pub(crate) agents: Option<Vec<String>>,
    /// How long a session may rest.
    pub(crate) idle: Duration,
    pub(crate) lost: WhenLost,
}

/// What a frame of the hub means for its connection.
#[derive(PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing.
    Done,
    /// The hub takes the runtime.
    Taken,
    /// The hub refuses it.
    Refused(String),
    /// The token for the next connection.
    Token(String),
}

/// Translates between a hub and a host.
pub(crate) struct Bridge {
    rules: Rules,
    agents: Vec<AgentEntry>,
    /// Whether they are asked for.
    asks_agents: bool,
    settings: BTreeMap<String, Settings>,
    /// By the hub's ids.
    sessions: BTreeMap<String, Session>,
    /// The hub's id of each session of the host.
    wires: HashMap<SessionId, String>,
    /// Requests that wait, by the ids that the hub has.
    requests: BTreeMap<String, Pending>,
    /// Sessions that can be resumed, the last one last.
    known: VecDeque<(String, NativeSession)>,
    /// Sessions that were closed and cannot be resumed, the last one last.
    forgotten: VecDeque<String>,
    /// Sessions of which the hub may have missed something.
    marked: BTreeSet<String>,
    pub(crate) out: Outbox,
    /// Lines for the host.
    pub(crate) said: Vec<u8>,
    files: Box<dyn Files>,
    is_up: bool,
    now: Duration,
}

/// A request that waits for a person.
#[derive(Debug, Clone)]
struct Pending {
    session: String,
    request_id: RequestId,
    tool: String,
    description: String,
    resource: String,
    /// Whether it can be allowed for always.
    has_always: bool,
    /// When it is denied. `None` while the hub has not been asked.
    until: Option<Duration>,
}

impl Bridge {
    pub(crate) fn new(rules: Rules, files: Box<dyn Files>) -> Self {
        Self {
            rules,
            agents: Vec::new(),
            asks_agents: false,
            settings: BTreeMap::new(),
            sessions: BTreeMap::new(),
            wires: HashMap::new(),
            requests: BTreeMap::new(),
            known: VecDeque::new(),
            forgotten: VecDeque::new(),
            marked: BTreeSet::new(),
            out: Outbox::default(),
            said: Vec::new(),
            files,
            is_up: false,
            now: Duration::ZERO,
        }
    }

    /// Tells the time, from the start of this on. What happens next happens then.
    pub(crate) fn at(&mut self, now: Duration) {
        self.now = now;
    }

    /// Asks the host for its agents.
    pub(crate) fn ask_agents(&mut self) {
        self.asks_agents = true;
        if let Ok(request_id) = RequestId::new("agents") {
            let list = AgentsList {
                request_id,
                health: None,
                sessions: None,
            };
            HostMessage::new(SessionId::none(), list).write(&mut self.said);
        }
    }

    /// Whether the host has not answered that yet.
    pub(crate) fn asks_agents(&self) -> bool {
        self.asks_agents
    }

    /// An agent that the hub is to get and that the host has not.
    pub(crate) fn lacks(&self) -> Option<String> {
        let has = |id: &String| self.agents.iter().any(|agent| agent.id == *id);
        let lacks = self
            .rules
            .agents
            .iter()
            .flatten()
            .find(|id| !has(id))
            .cloned();
        lacks.or_else(|| self.agents.is_empty().then(|| "at all".to_owned()))
    }

    /// The first frame of a connection.
    pub(crate) fn hello(&self, token: &str) -> String {
        let agents = self.agents.iter().map(|agent| {
            let caps = agent.capabilities.clone().unwrap_or_default();
            HelloAgent {
                id: format!("{}.{}", self.rules.runtime_id, agent.id),
                profile: agent
                    .profile
                    .clone()
                    .unwrap_or_else(|| "external".to_owned()),
                name: agent.name.clone().unwrap_or_else(|| agent.id.clone()),
                caps: Caps {
                    native_session_ids: caps.native_session_ids.unwrap_or(false),
                    turn_completion: true,
                    resume_attach: caps.resume_attach.unwrap_or(false),
                    exec_model: caps.exec_model.unwrap_or_else(|| "interactive".to_owned()),
                },
            }
        });
        ToHub::Hello(Hello {
            runtime_id: self.rules.runtime_id.clone(),
            token: token.to_owned(),
            org_id: self.rules.org.clone(),
            agents: agents.collect(),
        })
        .text()
    }

    /// The hub has taken the runtime: what waits may go.
    fn taken(&mut self) {
        self.is_up = true;
        for (id, mut pending) in std::mem::take(&mut self.requests) {
            match pending.until {
                None => self.put_request(&mut pending),
                Some(_) => drop(self.requests.insert(id, pending)),
            }
        }
        for id in std::mem::take(&mut self.marked) {
            let content =
                "The connection to the hub broke. What was said here right before may be missing."
                    .to_owned();
            let channel = "system".to_owned();
            self.out.push_front(
                &id,
                Lost::Marked,
                &ToHub::Output {
                    session_id: id.clone(),
                    channel,
                    content,
                },
            );
        }
    }

    /// The connection has broken.
    pub(crate) fn disconnected(&mut self) {
        self.is_up = false;
        self.marked.extend(self.out.broken());
        for (id, mut pending) in std::mem::take(&mut self.requests) {
            match self.rules.lost {
                WhenLost::Deny => self.deny(
                    &pending,
                    StopReason::Policy,
                    "the connection to the hub broke",
                ),
                WhenLost::Wait => {
                    pending.until = None;
                    self.requests.insert(id, pending);
                }
            }
        }
    }

    /// What the passing of time does.
    pub(crate) fn tick(&mut self) {
        let now = self.now;
        let late = |pending: &Pending| pending.until.is_some_and(|until| until <= now);
        let late: Vec<_> = self
            .requests
            .iter()
            .filter(|(_, pending)| late(pending))
            .map(|(id, _)| id.clone())
            .collect();
        for id in late {
            if let Some(pending) = self.requests.remove(&id) {
                self.deny(&pending, StopReason::Timeout, "no one answered");
            }
        }
        let mut over = Vec::new();
        let asked: BTreeSet<_> = self
            .requests
            .values()
            .map(|pending| pending.session.clone())
            .collect();
        for (id, session) in &mut self.sessions {
            if let Some((channel, content)) = session.joined.due(now) {
                let output = ToHub::Output {
                    session_id: id.clone(),
                    channel,
                    content,
                };
                self.out.push(id, Lost::Marked, &output);
            }
            let settings = self.settings.get(&session.agent);
            let idle = settings
                .and_then(|settings| settings.idle)
                .unwrap_or(self.rules.idle);
            let lasts = settings
                .and_then(|settings| settings.lasts)
                .unwrap_or(Duration::MAX);
            if session.rests()
                && !asked.contains(id)
                && (now.saturating_sub(session.used) >= idle
                    || now.saturating_sub(session.opened) >= lasts)
            {
                over.push(id.clone());
            }
        }
        over.iter().for_each(|id| self.close(id));
    }

    /// How soon time matters again.
    pub(crate) fn wakes_in(&self) -> Duration {
        let is_joining = self
            .sessions
            .values()
            .any(|session| !session.joined.is_empty());
        Duration::from_millis(if is_joining { 250 } else { 2000 })
    }

    fn say(&mut self, wire: &SessionId, turn: Option<TurnId>, body: impl Into<HostBody>) {
        HostMessage::new(wire.clone(), body.into())
            .of_turn(turn)
            .write(&mut self.said);
    }

    /// Shows a text on a channel, behind what was said before.
    fn show(&mut self, id: &str, channel: &str, text: &str) {
        self.flush(id);
        let mut rest = text.replace('\0', "\u{fffd}");
        while !rest.is_empty() {
            let next = rest.split_off(rest.floor_char_boundary(PIECE));
            self.put_output(id, channel.to_owned(), std::mem::replace(&mut rest, next));
        }
    }

    fn put_output(&mut self, id: &str, channel: String, content: String) {
        let output = ToHub::Output {
            session_id: id.to_owned(),
            channel,
            content,
        };
        self.out.push(id, Lost::Marked, &output);
    }

    /// Lets go what is being joined.
    fn flush(&mut self, id: &str) {
        let joined = self
            .sessions
            .get_mut(id)
            .and_then(|session| session.joined.take());
        if let Some((channel, content)) = joined {
            self.put_output(id, channel, content);
        }
    }

    fn put_started(&mut self, id: &str, hub: &str) {
        let started = ToHub::Started {
            session_id: id.to_owned(),
            in_response_to: hub.to_owned(),
        };
        self.out.push(id, Lost::Again, &started);
    }

    fn put_completed(&mut self, id: &str, hub: &str, exit_code: i32) {
        self.flush(id);
        let native_handle = self
            .sessions
            .get(id)
            .and_then(|session| session.native.clone());
        let (session_id, in_response_to) = (id.to_owned(), hub.to_owned());
        let completed = ToHub::Completed {
            session_id,
            in_response_to,
            exit_code,
            native_handle,
        };
        self.out.push(id, Lost::Again, &completed);
    }

    /// Tells that a message ran no turn. The one that runs, if any, is what the hub waits for again.
    fn put_refused(&mut self, id: &str, hub: &str, why: &str) {
        self.put_started(id, hub);
        self.show(id, "system", why);
        self.put_completed(id, hub, 1);
        let running = self
            .sessions
            .get(id)
            .and_then(|session| session.turns.front()?.hub.clone());
        if let Some(running) = running {
            self.put_started(id, &running);
        }
    }

    /// Asks the hub about a request.
    fn put_request(&mut self, pending: &mut Pending) {
        // One that no other runtime has.
        let request_id = Uuid::new_v4().to_string();
        let request = ToHub::Permission {
            session_id: pending.session.clone(),
            request_id: request_id.clone(),
            tool: pending.tool.clone(),
            description: pending.description.clone(),
            resource: pending.resource.clone(),
        };
        pending.until = Some(self.now + ANSWERS);
        self.out.push(&pending.session, Lost::Forgotten, &request);
        self.requests.insert(request_id, pending.clone());
    }

    fn deny(&mut self, pending: &Pending, reason: StopReason, why: &str) {
        let Some(wire) = self
            .sessions
            .get(&pending.session)
            .map(|session| session.wire.clone())
        else {
            return;
        };
        let mut response = PermissionResponse::new(pending.request_id.clone(), false);
        response.reason = Some(reason);
        self.say(&wire, None, response);
        self.show(
            &pending.session,
            "system",
            &format!("denied: {}: {why}", show::cut(&pending.tool, 256)),
        );
    }

    /// The extensions that each session asks for.
    fn extensions() -> Vec<String> {
        let of_person = Extensions::TURNS
            | Extensions::EVENTS
            | Extensions::RESUME
            | Extensions::OPTIONS
            | Extensions::QUESTIONS
            | Extensions::CONTROL;
        let mut names = of_person.to_names();
        names.push(JOURNAL.to_owned());
        names
    }
}
