//! One agent process and its sessions; and the processes that run.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;
use trunkline_sdk::{Category, Error};

use super::inbox::{Inbox, Item};
use super::initialize::InitializeResponse;
use super::request;
use crate::agent::deadlines;
use crate::agent::end::explain_timeout;
use crate::agent::launch::Launch;
use crate::agent::locked;
use crate::agent::log::SessionLog;
use crate::agent::process::{Agent, Ended, Stdin};
use crate::agent::rpc::{
    CallError, Handler, INTERNAL_ERROR, INVALID_PARAMS, Id, JsonRpcVersion, METHOD_NOT_FOUND, Peer,
};

/// The most sessions of one process.
const MOST_SESSIONS: usize = 4096;

/// Updates of sessions whose id is not known yet: the most of them, and their bytes.
const MOST_EARLY: usize = 256;
const MOST_EARLY_BYTES: usize = 4 * 1024 * 1024;

/// The most processes without a session that are kept for the next one.
const MOST_IDLE: usize = 1;

/// A method that no agent has: its refusal is a sign of life.
const ALIVE: &str = "_trunkline/alive";

/// How long an agent has for that.
const ALIVE_WITHIN: Duration = Duration::from_secs(5);

/// How long a notification may take to be written.
pub(crate) const WRITE: Duration = Duration::from_millis(200);

/// What an agent may ask of its client.
const REQUESTS: &[&str] = &[
    "session/request_permission",
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/wait_for_exit",
    "terminal/kill",
    "terminal/release",
    "elicitation/create",
];

/// The most elicitations about pages whose sessions are known.
const MAX_ELICITATIONS: usize = 256;

/// A running agent.
pub(crate) struct Link {
    pub(crate) peer: Arc<Peer>,
    pub(crate) initialized: InitializeResponse,
    /// Whether the agent was offered files.
    pub(crate) client_files: bool,
    router: Arc<Router>,
}

/// Gives each session what is meant for it.
#[derive(Default)]
struct Router(Mutex<Routes>);

#[derive(Default)]
struct Routes {
    sessions: HashMap<String, Weak<Inbox>>,
    /// Sessions that are being made: their updates may come before their id.
    opening: usize,
    early: VecDeque<(String, Item)>,
    early_bytes: usize,
    /// Sessions by the ids of their elicitations, which `elicitation/complete` names without the session.
    elicitations: VecDeque<(String, String)>,
}

#[derive(Deserialize)]
struct Addressed {
    #[serde(rename = "sessionId")]
    session: String,
}

/// The name of an elicitation about a page.
#[derive(Deserialize)]
struct Elicited {
    #[serde(rename = "elicitationId")]
    id: String,
}

impl Router {
    fn lock(&self) -> MutexGuard<'_, Routes> {
        locked(&self.0)
    }

    fn inbox(&self, session: &str) -> Option<Arc<Inbox>> {
        self.lock().sessions.get(session)?.upgrade()
    }

    fn begin(&self) {
        self.lock().opening += 1;
    }

    fn end(&self) {
        let mut routes = self.lock();
        routes.opening = routes.opening.saturating_sub(1);
        if routes.opening == 0 {
            routes.early = VecDeque::new();
            routes.early_bytes = 0;
        }
    }

    fn register(&self, session: &str, inbox: &Arc<Inbox>) -> Option<Arc<Inbox>> {
        let mut routes = self.lock();
        if routes.sessions.len() >= MOST_SESSIONS {
            routes.sessions.retain(|_, inbox| inbox.strong_count() > 0);
        }
        let other = routes
            .sessions
            .insert(session.to_owned(), Arc::downgrade(inbox));
        let early = std::mem::take(&mut routes.early);
        for (id, item) in early {
            if id == session {
                routes.early_bytes = routes.early_bytes.saturating_sub(size(&item));
                // What finds no room is counted there.
                drop(inbox.put(item));
            } else {
                routes.early.push_back((id, item));
            }
        }
        other
            .and_then(|other| other.upgrade())
            .filter(|other| !Arc::ptr_eq(other, inbox))
    }

    fn note_elicitation(&self, params: &RawValue, session: &str) {
        if let Ok(Elicited { id }) = serde_json::from_str(params.get()) {
            let elicitations = &mut self.lock().elicitations;
            elicitations.truncate(MAX_ELICITATIONS - 1);
            elicitations.push_front((id, session.to_owned()));
        }
    }

    /// Takes the session of an elicitation that is complete.
    fn take_elicited(&self, params: &RawValue) -> Option<Arc<Inbox>> {
        let Elicited { id } = serde_json::from_str(params.get()).ok()?;
        let mut routes = self.lock();
        let mut known = routes.elicitations.iter();
        let at = known.position(|(known, _)| *known == id)?;
        let (_, session) = routes.elicitations.remove(at)?;
        routes.sessions.get(&session)?.upgrade()
    }

    fn early(&self, session: String, item: Item) {
        let mut routes = self.lock();
        let bytes = size(&item);
        let has_room =
            routes.early.len() < MOST_EARLY && routes.early_bytes + bytes <= MOST_EARLY_BYTES;
        if routes.opening > 0 && has_room {
            routes.early_bytes += bytes;
            routes.early.push_back((session, item));
        }
    }
}

fn size(item: &Item) -> usize {
    match item {
        Item::Update(params) | Item::Complete(params) | Item::Request { params, .. } => {
            params.get().len()
        }
    }
}

impl Handler for Router {
    fn notified(&self, method: &str, params: &RawValue) {
        if method == "elicitation/complete" {
            match self.take_elicited(params) {
                Some(inbox) => drop(inbox.put(Item::Complete(params.to_owned()))),
                None => tracing::debug!("no open elicitation is complete"),
            }
            return;
        }
        if method != "session/update" {
            return tracing::debug!(method, "a notification of an unknown kind");
        }
        let Ok(Addressed { session }) = serde_json::from_str(params.get()) else {
            return tracing::debug!("an update of no session");
        };
        let item = Item::Update(params.to_owned());
        match self.inbox(&session) {
            // What finds no room is counted there.
            Some(inbox) => drop(inbox.put(item)),
            None => self.early(session, item),
        }
    }

    fn asked(&self, peer: &Arc<Peer>, id: Id, method: &str, params: &RawValue) {
        if !REQUESTS.contains(&method) {
            let unknown = format!(
                "method not found: {}",
                method.chars().take(100).collect::<String>()
            );
            return peer.refuse(&id, METHOD_NOT_FOUND, unknown);
        }
        let addressed = serde_json::from_str::<Addressed>(params.get()).ok();
        let found =
            addressed.and_then(|Addressed { session }| Some((self.inbox(&session)?, session)));
        let Some((inbox, session)) = found else {
            return peer.refuse(&id, INVALID_PARAMS, "no such session");
        };
        if method == "elicitation/create" {
            self.note_elicitation(params, &session);
        }
        let item = Item::Request {
            id,
            method: method.to_owned(),
            params: params.to_owned(),
        };
        if let Err(Item::Request { id, .. }) = inbox.put(item) {
            peer.refuse(&id, INTERNAL_ERROR, "too much of this session is unread");
        }
    }

    fn gone(&self, ended: &Ended) {
        tracing::debug!(exit = %ended.exit, "the agent has ended");
    }
}

impl Link {
    /// Starts an agent and greets it.
    ///
    /// # Errors
    /// Why it did not start, or did not answer.
    async fn start(
        launch: &Launch,
        client_files: bool,
        deadline: Option<Duration>,
        log: Option<&Arc<SessionLog>>,
    ) -> Result<Arc<Self>, Error> {
        let name = launch.name().to_string_lossy().into_owned();
        let agent = Agent::start(launch, Stdin::Owned, log).await?;
        let router = Arc::new(Router::default());
        let peer = Peer::new(agent, JsonRpcVersion::V2, router.clone());
        let answer = peer
            .call::<_, Value>("initialize", &request::initialize(client_files), deadline)
            .await;
        let answer = answer.map_err(|error| match error {
            CallError::Late { wait, stderr } => {
                let what = format!("{name} did not start");
                let late = deadlines::limit_reached("start_timeout", wait, &what);
                explain_timeout(late, None, &stderr)
            }
            error => error.error(&format!("{name} did not start")),
        });
        let initialized = answer
            .and_then(|answer| InitializeResponse::of(&answer))
            .inspect_err(|_| peer.abandon())?;
        Ok(Arc::new(Self {
            peer,
            initialized,
            client_files,
            router,
        }))
    }

    /// Gives a session what the agent sends of it, from now on; and no other. Which one got it before.
    pub(crate) fn register(&self, session: &str, inbox: &Arc<Inbox>) -> Option<Arc<Inbox>> {
        self.router.register(session, inbox)
    }

    /// Tells the agent to cancel what a session runs. One that takes no input any more ends the turn by its own end, or
    /// not in time.
    pub(crate) async fn cancel(&self, session: &str) {
        let params = json!({ "sessionId": session });
        let _ = timeout(WRITE, self.peer.notify("session/cancel", &params)).await;
    }

    /// Retires an agent that answers nothing. Returns whether it did.
    pub(crate) async fn retire_if_mute(&self) -> bool {
        let answer = self
            .peer
            .call::<_, Value>(ALIVE, &json!({}), Some(ALIVE_WITHIN))
            .await;
        let is_mute = matches!(answer, Err(CallError::Late { .. }));
        if is_mute {
            self.peer.retire();
        }
        is_mute
    }

    /// Keeps updates of unknown sessions until the returned value is dropped: one of them is being made.
    pub(crate) fn opening(&self) -> Opening<'_> {
        self.router.begin();
        Opening(&self.router)
    }
}

/// While this lives, a session is being made.
pub(crate) struct Opening<'a>(&'a Router);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The agents that run: one for each way of starting it.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<(Launch, Slot)>>);

/// A place for a process. Who holds the lock starts it; the others wait.
type Slot = Arc<tokio::sync::Mutex<Option<Arc<Link>>>>;

impl Pool {
    fn slot(&self, launch: &Launch) -> Slot {
        let mut slots = locked(&self.0);
        let place = match slots.iter().position(|(known, _)| known == launch) {
            Some(at) => slots.remove(at),
            None => (launch.clone(), Slot::default()),
        };
        // The last used stand last; of those that no one uses only few are kept.
        let mut idle = slots.iter().filter(|(_, slot)| is_idle(slot)).count();
        slots.retain(|(_, slot)| {
            let goes = is_idle(slot) && idle > MOST_IDLE - 1;
            idle -= usize::from(goes);
            !goes
        });
        let slot = place.1.clone();
        slots.push(place);
        slot
    }

    /// The running agent of a launch, started if there is none. Its start has at most this long. The session of this log
    /// is one of its own from now on.
    ///
    /// # Errors
    /// Why it did not start.
    pub(crate) async fn link(
        &self,
        launch: &Launch,
        client_files: bool,
        deadline: Option<Duration>,
        log: Option<&Arc<SessionLog>>,
    ) -> Result<Arc<Link>, Error> {
        let slot = self.slot(launch);
        let mut place = slot.lock().await;
        if let Some(link) = place.as_ref().filter(|link| link.peer.is_fit()) {
            if let Some(log) = log {
                link.peer.log().attach(log);
            }
            return Ok(link.clone());
        }
        *place = None;
        let link = Link::start(launch, client_files, deadline, log).await?;
        *place = Some(link.clone());
        Ok(link)
    }
}

/// Whether no one uses or starts the process of a place.
fn is_idle(slot: &Slot) -> bool {
    Arc::strong_count(slot) == 1
        && slot.try_lock().is_ok_and(|place| {
            place
                .as_ref()
                .is_none_or(|link| Arc::strong_count(link) == 1)
        })
}

/// The failure of a session's use of its agent, by the answer to a call.
pub(crate) fn failure(
    error: &CallError,
    what: &str,
    initialized: &InitializeResponse,
    kind_hint: Option<&str>,
) -> Error {
    match error {
        CallError::Rpc(rpc) if rpc.code == -32000 => {
            let hint = kind_hint.map_or_else(|| initialized.login_hint(), str::to_owned);
            Error::new(Category::Auth, format!("{what}: {}; {hint}", rpc.message)).code("-32000")
        }
        error => error.error(what),
    }
}
