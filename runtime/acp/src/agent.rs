//! The translation between an editor and the sessions of a host.
//!
//! Lines of the editor and events of sessions come in. Lines for the editor go to a buffer, and
//! calls on the host to a set of futures whose results come back in. No I/O, except for files.

mod events;
mod list;
mod opening;
mod requests;
mod turns;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::Future,
    path::PathBuf,
    pin::Pin,
};

use serde_json::{Value, json};
use tokio::time::Instant;
use trunkline_client::{Client, ClientError, Event, Session, SessionSet};
use trunkline_protocol::{Item, SessionId, Sha256};

use crate::{
    Host, Options,
    ask::EditorRequest,
    rpc::{self, Code, EditorMessage, Id, Refusal},
    serve::OutputBuffer,
    session::{EditorSession, Phase},
};

/// The most requests of an editor without an answer.
const MAX_OPEN_REQUESTS: usize = 256;

/// The most sessions that an editor has open.
const MAX_SESSIONS: usize = 256;

/// The result of a call on a [`Host`].
type HostResult<T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send>>;

/// A [`Host`] of any type.
pub(crate) trait AnyHost: Send {
    fn remove(&self, session: String) -> HostResult<()>;
    fn keep_file(&self, session: SessionId, file: PathBuf, sha256: Sha256) -> HostResult<()>;
    fn read_file(&self, session: SessionId, sha256: Sha256) -> HostResult<Option<Vec<u8>>>;
    fn work_dirs(&self) -> HostResult<BTreeMap<String, String>>;
    fn log_out(&self) -> HostResult<()>;
}

impl<H: Host> AnyHost for H {
    fn remove(&self, session: String) -> HostResult<()> {
        Box::pin(Host::remove(self.clone(), session))
    }

    fn keep_file(&self, session: SessionId, file: PathBuf, sha256: Sha256) -> HostResult<()> {
        Box::pin(Host::keep_file(self.clone(), session, file, sha256))
    }

    fn read_file(&self, session: SessionId, sha256: Sha256) -> HostResult<Option<Vec<u8>>> {
        Box::pin(Host::read_file(self.clone(), session, sha256))
    }

    fn work_dirs(&self) -> HostResult<BTreeMap<String, String>> {
        Box::pin(Host::work_dirs(self.clone()))
    }

    fn log_out(&self) -> HostResult<()> {
        Box::pin(Host::log_out(self.clone()))
    }
}

/// A stream of a session's events, which has another number each time that it is opened.
pub(crate) type StreamKey = (SessionId, u64);

/// Capabilities that an editor declared.
#[derive(Debug, Default, Clone, Copy)]
struct EditorCapabilities {
    forms: bool,
    notices: bool,
    compaction: bool,
    booleans: bool,
}

/// The agent of one editor.
pub(crate) struct EditorAgent {
    options: Options,
    client: Client,
    /// Operations on sessions beside the connection of `client`.
    store: Box<dyn AnyHost>,
    /// `None` until `initialize`.
    editor: Option<EditorCapabilities>,
    /// Requests of the editor without an answer.
    open_requests: HashSet<Id>,
    /// Open requests that ask for a list.
    lists: HashSet<Id>,
    sessions: HashMap<SessionId, EditorSession>,
    /// Questions to the editor without an answer.
    questions: HashMap<u64, (SessionId, EditorRequest)>,
    last_question: u64,
    last_stream: u64,
    last_file: u64,
    pub(crate) output: OutputBuffer,
    /// Events of the sessions, and calls on the host.
    pub(crate) host: SessionSet<StreamKey, Self>,
}

impl EditorAgent {
    pub(crate) fn new(options: Options, client: Client, store: Box<dyn AnyHost>) -> Self {
        Self {
            options,
            client,
            store,
            editor: None,
            open_requests: HashSet::new(),
            lists: HashSet::new(),
            sessions: HashMap::new(),
            questions: HashMap::new(),
            last_question: 0,
            last_stream: 0,
            last_file: 0,
            output: OutputBuffer::default(),
            host: SessionSet::default(),
        }
    }

    /// Handles a line of the editor.
    pub(crate) async fn handle_item(&mut self, item: Item<'_>) {
        let (id, refusal) = match item {
            Item::Line(line) => match rpc::parse(line) {
                Ok(message) => return self.handle_message(message).await,
                Err(refused) => refused,
            },
            Item::TooLong { bytes, .. } => {
                let limit = self.options.max_line;
                let message = format!("the line has {bytes} bytes; {limit} are read at most");
                (None, Refusal::new(Code::InvalidRequest, message))
            }
            Item::NotObject(line) if line.starts_with('[') => (
                None,
                Refusal::new(Code::InvalidRequest, "batches are no part of ACP"),
            ),
            Item::NotObject(_) | Item::NotUtf8 { .. } | Item::Cut(_) => {
                (None, Refusal::new(Code::Parse, "the line is not JSON-RPC"))
            }
        };
        self.output.push(&rpc::answer(id.as_ref(), Err(refusal)));
    }

    async fn handle_message(&mut self, message: EditorMessage) {
        match message {
            EditorMessage::Request { id, method, params } => {
                let refused = match () {
                    () if self.open_requests.contains(&id) => {
                        Some("a request with this id is open")
                    }
                    () if self.open_requests.len() >= MAX_OPEN_REQUESTS => {
                        Some("too many requests are open")
                    }
                    () if self.editor.is_none() && method != "initialize" => {
                        Some("send `initialize` first")
                    }
                    () => None,
                };
                if let Some(why) = refused {
                    // The answer to the one that is open must stay the only one with its id.
                    let to = (!self.open_requests.contains(&id)).then_some(&id);
                    let refusal = Refusal::new(Code::InvalidRequest, why);
                    return self.output.push(&rpc::answer(to, Err(refusal)));
                }
                self.open_requests.insert(id.clone());
                if let Err(refusal) = self.handle_request(&id, &method, &params).await {
                    self.answer(&id, Err(refusal));
                }
            }
            EditorMessage::Notification { method, params } => match &*method {
                "session/cancel" => {
                    if let Ok(id) = session_id(&params) {
                        self.stop_session(&id);
                    }
                }
                "$/cancel_request" => {
                    if let Some(id) = Id::from_value(&params["requestId"]) {
                        self.cancel(&id);
                    }
                }
                _ => tracing::debug!("a notification is not known: {method}"),
            },
            EditorMessage::Answer { to, result } => self.answer_question(to, result),
            EditorMessage::Stray => {}
        }
    }

    /// Handles the next item of a session's events.
    pub(crate) async fn handle_stream_item(
        &mut self,
        (session, stream): StreamKey,
        next: Result<Option<Event>, ClientError>,
    ) {
        let is_current = |open: &EditorSession| open.stream == stream;
        if !self.sessions.get(&session).is_some_and(is_current) {
            return;
        }
        match next {
            Ok(Some(event)) => self.handle_event(&session, event).await,
            // Its `session.closed` came before.
            Ok(None) => {}
            Err(cause) => self.forget(&session, &cause.into()),
        }
    }

    /// The time of [`Self::open_silent_sessions`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let waits = |session: &EditorSession| match session.phase {
            Phase::Starting { until, .. } => until,
            Phase::Joining(_) | Phase::Open => None,
        };
        self.sessions.values().filter_map(waits).min()
    }

    /// Opens the sessions whose agents have declared nothing in time.
    pub(crate) fn open_silent_sessions(&mut self, now: Instant) {
        let is_due = |session: &EditorSession| match session.phase {
            Phase::Starting { until, .. } => until.is_some_and(|until| until <= now),
            Phase::Joining(_) | Phase::Open => false,
        };
        let due = self.sessions.iter().filter(|(_, it)| is_due(it));
        for id in due.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.finish_start(&id);
        }
    }

    /// Denies all open requests of the agent, and waits until the denials are on their way.
    pub(crate) async fn deny_all(&mut self) {
        self.host.cancel_calls();
        for number in self.questions.keys().copied().collect::<Vec<_>>() {
            self.answer_question(number, Err("the editor has gone".to_owned()));
        }
        while self.host.next(false).await.is_some() {}
    }

    /// Answers all open requests with an error: there is no host any longer.
    pub(crate) fn fail_all(&mut self, cause: &ClientError) {
        let refusal = Refusal::from(cause.clone());
        for id in self.sessions.keys().cloned().collect::<Vec<_>>() {
            self.forget(&id, &refusal);
        }
        for request in std::mem::take(&mut self.open_requests) {
            let answer = rpc::answer(Some(&request), Err(refusal.clone()));
            self.output.push(&answer);
        }
    }

    /// Begins the new calls, before a later line of the editor is handled.
    pub(crate) fn poll_calls(&mut self) {
        while let Some(finish) = self.host.try_next_result() {
            finish(self);
        }
    }

    /// Begins a call on a session whose result is of no interest: an ended session reports its end
    /// by its events.
    fn call_session<F>(&self, id: &SessionId, call: impl FnOnce(Session) -> F)
    where
        F: Future<Output = Result<(), ClientError>> + Send + 'static,
    {
        if let Some(handle) = self.sessions.get(id).and_then(|it| it.handle.clone()) {
            self.host.call(call(handle), |_, _| ());
        }
    }

    /// Answers a request, unless it has been answered.
    fn answer(&mut self, id: &Id, result: Result<Value, Refusal>) {
        if self.open_requests.remove(id) {
            self.output.push(&rpc::answer(Some(id), result));
        }
    }

    /// Sends the editor an update of a session.
    fn update(&mut self, session: &SessionId, update: &Value) {
        let params = json!({ "sessionId": session.as_str(), "update": update });
        self.notify("session/update", &params);
    }

    fn notify(&mut self, method: &str, params: &Value) {
        self.output.push(&rpc::notification(method, params));
    }

    /// Forgets a session, and answers what waits for it.
    fn forget(&mut self, id: &SessionId, why: &Refusal) {
        let Some(session) = self.sessions.remove(id) else {
            return;
        };
        if let Some(request) = session.opening_request() {
            self.answer(request, Err(why.clone()));
        }
        for prompt in session.prompts {
            self.answer(&prompt.request, Err(why.clone()));
        }
        for number in session.questions.into_values() {
            self.questions.remove(&number);
            self.withdraw(number);
        }
    }

    /// Withdraws a question to the editor.
    fn withdraw(&mut self, number: u64) {
        self.notify("$/cancel_request", &json!({ "requestId": number }));
    }
}

/// The session that parameters name.
fn session_id(params: &Value) -> Result<SessionId, Refusal> {
    let id = params["sessionId"]
        .as_str()
        .and_then(|id| SessionId::new(id).ok());
    id.ok_or_else(|| Refusal::params("`sessionId` must be the id of a session"))
}
