//! The one `codex app-server` that all sessions of the same environment share.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use trunkline_sdk::protocol::{Failure, Model};
use trunkline_sdk::{Category, Error};

use super::inbox::{Inbox, Mail};
use crate::agent::failure;
use crate::agent::launch::Launch;
use crate::agent::locked;
use crate::agent::log::SessionLog;
use crate::agent::process::{Agent, Ended, Stdin, last_lines};
use crate::agent::rpc::{Handler, Id, JsonRpcVersion, METHOD_NOT_FOUND, Peer};

/// The most threads that threads have begun by themselves.
const MOST_CHILDREN: usize = 1024;

/// The most notifications that wait for their thread to be known.
const MOST_EARLY: usize = 64;

/// The longest of those, in bytes.
const LONGEST_EARLY: usize = 16 * 1024;

/// A running app server that has been greeted.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) peer: Arc<Peer>,
    /// The models that it offers, once somebody has asked.
    pub(super) models: OnceCell<Vec<Model>>,
    routes: Arc<Routes>,
}

impl Server {
    /// Starts one and greets it.
    async fn start(
        launch: &Launch,
        deadline: Option<Duration>,
        log: Option<&Arc<SessionLog>>,
    ) -> Result<Self, Error> {
        let agent = Agent::start(launch, Stdin::Owned, log).await?;
        let routes = Arc::new(Routes::default());
        let peer = Peer::new(agent, JsonRpcVersion::Bare, routes.clone());
        let greeting = json!({
            "clientInfo": { "name": "trunkline", "title": "Trunkline", "version": env!("CARGO_PKG_VERSION") },
            "capabilities": { "experimentalApi": true },
        });
        if let Err(error) = peer
            .call::<_, Value>("initialize", &greeting, deadline)
            .await
        {
            peer.abandon();
            return Err(error.error("codex app-server did not start"));
        }
        // Where it could not be sent, the process has ended, and the next call says so.
        let _ = peer.notify("initialized", &Value::Null).await;
        Ok(Self {
            peer,
            models: OnceCell::new(),
            routes,
        })
    }

    /// From now on the thread's messages go to this inbox, and to no other.
    pub(super) fn route(&self, thread: &str, inbox: &Arc<Inbox>) {
        self.routes.add(thread, inbox);
        if let Some(ended) = self.peer.ended() {
            inbox.gone(ended);
        }
    }

    /// The thread's messages are not read from this inbox any more.
    pub(super) fn forget(&self, thread: &str, inbox: &Arc<Inbox>) {
        self.routes.remove(thread, inbox);
    }

    /// Refuses requests that no one has read.
    pub(super) fn refuse(&self, unread: Vec<Mail>) {
        for mail in unread {
            if let Mail::Request { id, .. } = mail {
                refuse(&self.peer, &id);
            }
        }
    }
}

/// Why a request is refused that no turn reads.
pub(super) const NOT_NOW: &str = "no turn of this thread can be asked now";

fn refuse(peer: &Peer, id: &Id) {
    peer.refuse(id, -32000, NOT_NOW);
}

/// Which session reads which thread.
#[derive(Debug, Default)]
struct Routes(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    threads: HashMap<String, Arc<Inbox>>,
    /// Threads that were begun by others: their requests are asked there.
    children: HashMap<String, Weak<Inbox>>,
    /// Notifications of threads that are not known yet.
    early: VecDeque<(String, Mail)>,
}

/// The thread that a message is about.
#[derive(Deserialize, Default)]
struct Address<'a> {
    #[serde(borrow, default, rename = "threadId")]
    thread: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "conversationId")]
    conversation: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "thread")]
    whole: Option<&'a RawValue>,
}

/// A thread as it is begun.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Begun {
    id: Value,
    parent_thread_id: Value,
}

impl Address<'_> {
    fn of(params: &RawValue) -> Address<'_> {
        serde_json::from_str(params.get()).unwrap_or_default()
    }

    fn thread(&self) -> Option<String> {
        let text = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
        self.thread
            .and_then(text)
            .or_else(|| self.conversation.and_then(text))
    }

    fn begun(&self) -> Begun {
        self.whole
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default()
    }
}

/// Notifications without a thread that concern every session.
const FOR_ALL: &[&str] = &["account/rateLimits/updated", "configWarning"];

impl Routes {
    fn table(&self) -> MutexGuard<'_, Table> {
        locked(&self.0)
    }

    fn add(&self, thread: &str, inbox: &Arc<Inbox>) {
        let mut table = self.table();
        if let Some(other) = table.threads.insert(thread.to_owned(), inbox.clone()) {
            other.take();
        }
        let early = std::mem::take(&mut table.early);
        for (of, mail) in early {
            if of == thread {
                inbox.put(mail);
            } else {
                table.early.push_back((of, mail));
            }
        }
    }

    fn remove(&self, thread: &str, inbox: &Arc<Inbox>) {
        let mut table = self.table();
        if table
            .threads
            .get(thread)
            .is_some_and(|known| Arc::ptr_eq(known, inbox))
        {
            table.threads.remove(thread);
        }
        table.children.retain(|_, inbox| inbox.strong_count() > 0);
    }

    /// Remembers whose child a thread is.
    fn begun(&self, begun: &Begun) {
        let (Some(id), Some(parent)) = (begun.id.as_str(), begun.parent_thread_id.as_str()) else {
            return;
        };
        let mut table = self.table();
        let inbox = match table.threads.get(parent) {
            Some(inbox) => Arc::downgrade(inbox),
            None => match table.children.get(parent) {
                Some(inbox) => inbox.clone(),
                None => return,
            },
        };
        if table.children.len() < MOST_CHILDREN {
            table.children.insert(id.to_owned(), inbox);
        }
    }
}

impl Handler for Routes {
    fn notified(&self, method: &str, params: &RawValue) {
        let address = Address::of(params);
        if method == "thread/started" {
            return self.begun(&address.begun());
        }
        let mail = || Mail::Notification {
            method: method.to_owned(),
            params: params.to_owned(),
        };
        let mut table = self.table();
        match address.thread() {
            Some(thread) => {
                if let Some(inbox) = table.threads.get(&thread) {
                    inbox.put(mail());
                } else if let Some(inbox) = table.children.get(&thread).and_then(Weak::upgrade) {
                    inbox.put(Mail::Alive);
                } else if method == "mcpServer/startupStatus/updated"
                    && params.get().len() <= LONGEST_EARLY
                {
                    if table.early.len() >= MOST_EARLY {
                        table.early.pop_front();
                    }
                    table.early.push_back((thread, mail()));
                }
            }
            None if FOR_ALL.contains(&method) => {
                for inbox in table.threads.values() {
                    inbox.put(mail());
                }
            }
            None => {}
        }
    }

    fn asked(&self, peer: &Arc<Peer>, id: Id, method: &str, params: &RawValue) {
        let known = super::approval::METHODS.contains(&method);
        let inbox = Address::of(params)
            .thread()
            .filter(|_| known)
            .and_then(|thread| {
                let table = self.table();
                table
                    .threads
                    .get(&thread)
                    .cloned()
                    .or_else(|| table.children.get(&thread)?.upgrade())
            });
        let Some(inbox) = inbox else {
            return peer.refuse(&id, METHOD_NOT_FOUND, "method not found");
        };
        let mail = Mail::Request {
            id,
            method: method.to_owned(),
            params: params.to_owned(),
        };
        if let Some(Mail::Request { id, .. }) = inbox.put(mail) {
            refuse(peer, &id);
        }
    }

    fn gone(&self, ended: &Ended) {
        for inbox in self.table().threads.values() {
            inbox.gone(ended);
        }
    }
}

/// The failure of a turn whose app server ended.
pub(super) fn gone(ended: &Ended) -> Error {
    let last = last_lines(&ended.stderr);
    let text = format!(
        "codex app-server ended: {}; the next input starts it again",
        ended.exit
    );
    let text = if last.is_empty() {
        text
    } else {
        format!("{text}; it said: {last}")
    };
    Error::new(Category::ProcessExit, failure::message(&text))
}

/// The app servers of this adapter, each started once: sessions of the same launch share one.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Vec<(Launch, Arc<tokio::sync::Mutex<Slot>>)>>);

#[derive(Debug, Default)]
struct Slot {
    server: Weak<Server>,
    /// The one of the configuration's own environment stays when no session needs it.
    kept: Option<Arc<Server>>,
    failed: Option<(Instant, Failure)>,
}

/// Whether an app server outlives its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stay {
    Kept,
    WithSessions,
}

impl Pool {
    /// The app server of this launch: the running one, or a new one. Who comes while it starts waits for the same start.
    pub(super) async fn server(
        &self,
        launch: &Launch,
        stay: Stay,
        deadline: Option<Duration>,
        log: Option<&Arc<SessionLog>>,
    ) -> Result<Arc<Server>, Error> {
        let asked = Instant::now();
        let slot = self.slot(launch);
        let mut slot = slot.lock().await;
        if let Some(server) = slot.server.upgrade().filter(|server| server.peer.is_fit()) {
            if let Some(log) = log {
                server.peer.log().attach(log);
            }
            return Ok(server);
        }
        if let Some((at, failure)) = &slot.failed
            && *at > asked
        {
            let category = failure.category.unwrap_or(Category::Other);
            return Err(Error::new(
                category,
                failure.message.clone().unwrap_or_default(),
            ));
        }
        match Server::start(launch, deadline, log).await {
            Ok(server) => {
                let server = Arc::new(server);
                slot.server = Arc::downgrade(&server);
                slot.kept = (stay == Stay::Kept).then(|| server.clone());
                slot.failed = None;
                Ok(server)
            }
            Err(error) => {
                slot.failed = Some((Instant::now(), error.failure().clone()));
                Err(error)
            }
        }
    }

    fn slot(&self, launch: &Launch) -> Arc<tokio::sync::Mutex<Slot>> {
        let mut slots = locked(&self.0);
        // Those that no session and no start holds, and that are not kept, are over.
        slots.retain(|(_, slot)| {
            let held = Arc::strong_count(slot) > 1;
            held || slot
                .try_lock()
                .is_ok_and(|slot| slot.server.strong_count() > 0)
        });
        if let Some((_, slot)) = slots.iter().find(|(known, _)| known == launch) {
            return slot.clone();
        }
        let slot = Arc::default();
        slots.push((launch.clone(), Arc::clone(&slot)));
        slot
    }
}
