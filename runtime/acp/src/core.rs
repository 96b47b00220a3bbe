//! Between a client of ACP and a relay with a journal: lines in, lines out. No clock, no input, no output.

mod entries;
mod opening;
mod requests;
mod turns;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use serde_json::Value;
use tokio::time::Instant;
use trunkline_protocol::{
    AdapterBody, Body, Envelope, FromRelay, HostBody, HubBody, Item, PROTOCOL, RequestId,
    SessionAttach, SessionDetach, SessionId,
};

use crate::{
    Options,
    ask::Asked,
    rpc::{self, Code, Id, Refusal, Said},
    session::{Phase, Session},
};

/// The most requests of a client that wait for their answer.
pub(crate) const REQUESTS: usize = 256;

/// The most sessions that a client has open.
pub(crate) const SESSIONS: usize = 256;

/// The extensions that sessions ask for.
const EXTENSIONS: [&str; 8] = [
    "turns",
    "events",
    "usage",
    "resume",
    "options",
    "questions",
    "control",
    "journal",
];

/// What goes to the client, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Line(Vec<u8>),
    /// A picture that the agent made: it is read when it is sent.
    Picture(Picture),
}

/// A picture in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) session: SessionId,
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) mime: String,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) to_client: Vec<Out>,
    /// Files that are to be there before what goes to the relay.
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
    /// Files that no one needs any more.
    pub(crate) stale: Vec<PathBuf>,
    pub(crate) to_relay: Vec<u8>,
    /// Sessions that are to be removed, and whom to answer.
    pub(crate) removals: Vec<(Id, SessionId)>,
}

/// What a client can do.
#[derive(Debug, Default, Clone, Copy)]
struct Client {
    forms: bool,
    notices: bool,
}

/// A conversation with one client.
#[derive(Debug)]
pub(crate) struct Core {
    options: Arc<Options>,
    /// Once it has said `initialize`.
    client: Option<Client>,
    /// Requests of the client that wait for their answer.
    open: HashSet<Id>,
    sessions: HashMap<SessionId, Session>,
    /// What the client was asked.
    asked: HashMap<u64, (SessionId, Asked)>,
    /// How many requests the client was sent.
    asks: u64,
    /// Whom to tell which sessions there are.
    lists: HashMap<RequestId, Id>,
    /// How many files were made.
    files: u64,
    out: Effects,
}

impl Core {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self {
            options,
            client: None,
            open: HashSet::new(),
            sessions: HashMap::new(),
            asked: HashMap::new(),
            asks: 0,
            lists: HashMap::new(),
            files: 0,
            out: Effects::default(),
        }
    }

    /// What is to be done since it was asked last.
    pub(crate) fn effects(&mut self) -> Effects {
        std::mem::take(&mut self.out)
    }

    /// Takes what a client has said.
    pub(crate) fn client(&mut self, item: Item<'_>) {
        let refused = match item {
            Item::Line(line) => match rpc::read(line) {
                Ok(said) => return self.said(said),
                Err(refused) => refused,
            },
            Item::TooLong { bytes, .. } => {
                let most = self.options.max_line;
                let why = format!("the line has {bytes} bytes; {most} are read at most");
                (None, Refusal::new(Code::InvalidRequest, why))
            }
            Item::NotObject(line) if line.starts_with('[') => (
                None,
                Refusal::new(Code::InvalidRequest, "batches are no part of ACP"),
            ),
            Item::NotObject(_) | Item::NotUtf8 { .. } | Item::Cut(_) => {
                (None, Refusal::new(Code::Parse, "the line is not JSON-RPC"))
            }
        };
        let (id, refusal) = refused;
        self.put(rpc::answer(id.as_ref(), Err(refusal)));
    }

    fn said(&mut self, said: Said) {
        match said {
            Said::Request { id, method, params } => {
                let refused = match () {
                    () if self.open.contains(&id) => Some("a request with this id is open"),
                    () if self.open.len() >= REQUESTS => Some("too many requests are open"),
                    () if self.client.is_none() && method != "initialize" => {
                        Some("say `initialize` first")
                    }
                    () => None,
                };
                if let Some(why) = refused {
                    // The answer to the one that is open must stay the only one with its id.
                    let to = (!self.open.contains(&id)).then_some(&id);
                    let refusal = Refusal::new(Code::InvalidRequest, why);
                    return self.put(rpc::answer(to, Err(refusal)));
                }
                self.open.insert(id.clone());
                if let Err(refusal) = self.request(&id, &method, &params) {
                    self.answer(&id, Err(refusal));
                }
            }
            Said::Notification { method, params } => match &*method {
                "session/cancel" => {
                    if let Some(id) = session_id(&params)
                        .ok()
                        .filter(|id| self.sessions.contains_key(id))
                    {
                        self.stop(&id);
                    }
                }
                "$/cancel_request" => {
                    if let Some(id) = Id::of(&params["requestId"]) {
                        self.cancel(&id);
                    }
                }
                _ => tracing::debug!("a notification is not known: {method}"),
            },
            Said::Answer { to, result } => self.answered(to, result),
            Said::Stray => {}
        }
    }

    /// Takes a line of the relay.
    pub(crate) fn relay(&mut self, line: &str, now: Instant) {
        match FromRelay::parse(line) {
            Ok((FromRelay::Adapter(message), stamp)) => self.adapter(message, &stamp, now),
            Ok((FromRelay::Relay(message), stamp)) => self.of_relay(message, &stamp, now),
            Err(unread) => tracing::debug!("a line of the host was not understood: {unread}"),
        }
    }

    /// When [`Core::tick`] is to be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let untils = self
            .sessions
            .values()
            .filter_map(|session| match session.phase {
                Phase::Starting { until, .. } => until,
                Phase::Joining(_) | Phase::Open => session.unserved.and_then(|(_, again)| again),
            });
        untils.min()
    }

    /// Opens the sessions whose agents have been silent for long enough, and attaches again to those that have moved.
    pub(crate) fn tick(&mut self, now: Instant) {
        let moved = self.sessions.iter_mut().filter_map(|(id, session)| {
            let (_, again) = session.unserved.as_mut()?;
            again.take_if(|again| *again <= now).map(|_| id.clone())
        });
        for id in moved.collect::<Vec<_>>() {
            self.attach_again(&id);
        }
        let due = |session: &Session| matches!(session.phase, Phase::Starting { until: Some(until), .. } if until <= now);
        let ids: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, session)| due(session))
            .map(|(id, _)| id.clone())
            .collect();
        for id in ids {
            self.has_opened(&id);
        }
    }

    /// Another relay has the journal by now: sessions go on behind the last entry that was heard.
    pub(crate) fn reconnected(&mut self) {
        for (_, id) in std::mem::take(&mut self.lists) {
            self.answer(&id, Err(lost()));
        }
        let ids: Vec<_> = self.sessions.keys().cloned().collect();
        for id in ids {
            let Some(session) = self.sessions.get(&id) else {
                continue;
            };
            if let Phase::Starting { id: asked, .. } = &session.phase {
                let asked = asked.clone();
                self.forget(&id, &lost());
                self.answer(&asked, Err(lost()));
                continue;
            }
            self.attach_again(&id);
        }
    }

    /// Attaches again behind the last entry that was heard, and says again what has no answer.
    fn attach_again(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let attach = SessionAttach {
            after: session.seq,
            epoch: session.epoch,
            mcp_servers: session.mcp_servers.clone(),
            ..attach()
        };
        for change in std::mem::take(&mut session.changes) {
            self.answer(&change.id, Err(lost()));
        }
        self.say_hub(id, attach);
        self.say_again(id);
    }

    /// Denies what the client was asked and has not answered, for it has gone.
    pub(crate) fn gone(&mut self) {
        let asked: Vec<_> = self.asked.keys().copied().collect();
        for number in asked {
            self.answered(number, Err("the client has gone".to_owned()));
        }
    }

    /// The answer to [`Effects::removals`].
    pub(crate) fn removed(&mut self, id: &Id, result: Result<(), String>) {
        let result = result.map(|()| serde_json::json!({}));
        self.answer(id, result.map_err(|why| Refusal::new(Code::Internal, why)));
    }

    fn put(&mut self, line: Vec<u8>) {
        self.out.to_client.push(Out::Line(line));
    }

    /// Answers a request, unless it has been.
    fn answer(&mut self, id: &Id, result: Result<Value, Refusal>) {
        if self.open.remove(id) {
            self.put(rpc::answer(Some(id), result));
        }
    }

    /// Tells the client what happens in a session.
    fn update(&mut self, session: &SessionId, update: &Value) {
        let params = serde_json::json!({ "sessionId": session.as_str(), "update": update });
        self.put(rpc::notification("session/update", &params));
    }

    fn say<B: Body>(&mut self, message: &Envelope<B>) {
        message.write(&mut self.out.to_relay);
    }

    fn say_host(&mut self, session: &SessionId, body: impl Into<HostBody>) {
        self.say(&Envelope::<HostBody>::new(session.clone(), body.into()));
    }

    fn say_hub(&mut self, session: &SessionId, body: impl Into<HubBody>) {
        self.say(&Envelope::<HubBody>::new(session.clone(), body.into()));
    }

    /// Lets a session go, which stays with the relay.
    fn detach(&mut self, id: &SessionId, why: &Refusal) {
        self.forget(id, why);
        self.say_hub(id, SessionDetach {});
    }

    /// Forgets a session, and answers all that waits for it.
    fn forget(&mut self, id: &SessionId, why: &Refusal) {
        let Some(session) = self.sessions.remove(id) else {
            return;
        };
        for prompt in session.prompts {
            self.out.stale.extend(prompt.files);
            self.answer(&prompt.id, Err(why.clone()));
        }
        for change in session.changes {
            self.answer(&change.id, Err(why.clone()));
        }
        for number in session.asked.into_values() {
            self.asked.remove(&number);
            self.withdraw(number);
        }
    }

    /// Tells the client that a question needs no answer any more.
    fn withdraw(&mut self, number: u64) {
        self.put(rpc::notification(
            "$/cancel_request",
            &serde_json::json!({ "requestId": number }),
        ));
    }
}

/// An attachment with the extensions that sessions ask for.
fn attach() -> SessionAttach {
    SessionAttach {
        protocol: Some(PROTOCOL),
        extensions: Some(extensions()),
        ..SessionAttach::default()
    }
}

fn extensions() -> Vec<String> {
    EXTENSIONS.map(str::to_owned).to_vec()
}

/// That the host has ended before it answered.
fn lost() -> Refusal {
    Refusal::new(Code::Internal, "the host has ended; try again")
}

/// The session that is meant.
fn session_id(params: &Value) -> Result<SessionId, Refusal> {
    let id = params["sessionId"]
        .as_str()
        .and_then(|id| SessionId::new(id).ok());
    id.ok_or_else(|| Refusal::params("`sessionId` must be the id of a session"))
}

/// Whether a message is outside what a client sees.
fn is_of_pipe(body: &AdapterBody) -> bool {
    matches!(
        body,
        AdapterBody::SessionsListResult(_)
            | AdapterBody::AgentsListResult(_)
            | AdapterBody::Pong(_)
    )
}
