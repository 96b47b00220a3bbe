//! The hub's side of sessions of a journal: listeners and senders. The sessions themselves run in
//! `trunkline-sessions` ([journal.5]).

use std::{collections::HashMap, sync::Arc};

use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
};
use trunkline_pipe::{Class, Flow};
use trunkline_protocol::{
    AdapterBody, AdapterMessage, AttachRefusal, Extensions, HostBody, HostMessage, HubBody,
    HubMessage, MIN_MAX_LINE, Meta, RelayBody, RelayMessage, SessionAttach, SessionEdit,
    SessionEditResult, SessionFork, SessionHistory, SessionId, SessionRefused, SessionStart,
    SessionsList, SessionsListResult, TooLong, fit,
};
use trunkline_sessions::{Listener, Sessions, StartError, StreamItem, ends};

use crate::upstream::{Outlet, Upstream};

/// The name of the extension.
pub(crate) const JOURNAL: &str = "journal";

/// The name of the extension by which a hub without the journal gets notes on files and stalls
/// ([relay.7]).
pub(crate) const NOTES: &str = "notes";

/// Returns true if a hub offers an extension that only a relay knows.
pub(crate) fn is_offered(extension: &str, offered: Option<&[String]>) -> bool {
    offered.into_iter().flatten().any(|name| name == extension)
}

/// Capacity of the inbox of a listener's task.
const INBOX: usize = 64;

/// Maximum number of answers to `session.history` and `sessions.list` in progress.
const ANSWERS: usize = 16;

/// The error for a request that comes while [`ANSWERS`] are in progress.
const BUSY: &str = "too many wait already; ask again when one is answered";

/// The sessions of the journal that a hub has on one pipe.
pub(crate) struct JournalSessions {
    sessions: Sessions,
    upstream: Arc<Upstream>,
    links: HashMap<SessionId, ListenerLink>,
    listeners: ListenerTasks,
}

/// The tasks that report to a hub what happens in its sessions.
#[derive(Default)]
pub(crate) struct ListenerTasks {
    tasks: JoinSet<()>,
    /// Set when the hub has disconnected while the sessions stay.
    detached: watch::Sender<bool>,
}

/// The handle to the task of a listener.
struct ListenerLink {
    inbox: mpsc::Sender<ToListener>,
    outlet: Arc<Outlet>,
}

/// A message to the task of a listener.
enum ToListener {
    /// A message that the hub has sent.
    Said(Box<HostMessage>),
    /// An edit that the hub has sent.
    Edit(SessionEdit),
    /// Ends the task, which confirms when it has written its last line.
    Leave {
        releases: bool,
        done: oneshot::Sender<()>,
    },
}

impl JournalSessions {
    pub(crate) fn new(sessions: Sessions, upstream: Arc<Upstream>) -> Self {
        Self {
            sessions,
            upstream,
            links: HashMap::new(),
            listeners: ListenerTasks::default(),
        }
    }

    /// Returns true if this pipe has a session of this id.
    pub(crate) fn has_session(&self, id: &SessionId) -> bool {
        self.links
            .get(id)
            .is_some_and(|link| !link.inbox.is_closed())
    }

    /// Returns the agent of a session.
    pub(crate) async fn session_agent(&self, id: &SessionId) -> Option<String> {
        self.sessions.agent(id).await
    }

    /// Opens a new session: the hub gets `ready`, a line, before its first entry.
    ///
    /// # Errors
    /// Returned if the host refuses. A refusal by the journal is reported to the hub instead.
    pub(crate) fn start_session(
        &mut self,
        id: &SessionId,
        agent: &str,
        start: SessionStart,
        meta: Option<Meta>,
        ready: &[u8],
    ) -> Result<(), Box<trunkline_protocol::SessionClosed>> {
        match self.sessions.start(id, agent, start, meta, None) {
            Ok(listener) => {
                self.upstream.put_control(ready);
                let outlet = Arc::new(self.upstream.outlet());
                self.spawn_listener(
                    id.clone(),
                    outlet.clone(),
                    async move { Ok((listener, None)) },
                );
                Ok(())
            }
            Err(StartError::Refused(refused)) => {
                self.send_body(id, refused);
                Ok(())
            }
            Err(StartError::Closed(closed)) => {
                self.upstream.put_control(ready);
                Err(closed)
            }
        }
    }

    /// Handles a message that only a hub of a journal sends.
    pub(crate) async fn handle_message(&mut self, message: HubMessage) {
        let id = message.session_id;
        match message.body {
            HubBody::SessionAttach(attach) => self.attach_session(id, attach).await,
            HubBody::SessionDetach(detach) => {
                if let Some(link) = self.links.remove(&id) {
                    link.leave(detach.release == Some(true)).await;
                    link.outlet.purge();
                }
            }
            HubBody::SessionHistory(asked) => self.read_history(id, asked),
            HubBody::SessionEdit(edit) => self.edit_session(id, edit).await,
            HubBody::SessionFork(fork) => self.fork_session(id, *fork).await,
        }
        self.listeners.forget_ended();
    }

    /// Passes a message of the hub to its session.
    pub(crate) async fn forward_message(&mut self, message: HostMessage) {
        let id = message.session_id.clone();
        if let HostBody::SessionStart(_) = message.body {
            return self.send_body(&id, ends::exists());
        }
        let closes = matches!(message.body, HostBody::SessionClose(_));
        let Some(link) = self.links.get(&id) else {
            return;
        };
        // A listener whose task has ended is closed.
        let _ = link.inbox.send(ToListener::Said(Box::new(message))).await;
        if closes && let Some(link) = self.links.remove(&id) {
            link.leave(false).await;
            // Nothing more of this session is sent on this pipe ([session.4]).
            link.outlet.purge();
        }
    }

    /// Returns the outlet of a session that is about to be attached. A second attach replaces the
    /// first, from which nothing may follow the new answer.
    async fn new_outlet(&mut self, id: &SessionId) -> Arc<Outlet> {
        match self.links.remove(id) {
            Some(link) => {
                link.leave(false).await;
                link.outlet.purge();
                link.outlet
            }
            None => Arc::new(self.upstream.outlet()),
        }
    }

    /// Changes the title or the archive of a session ([journal.13]). A listener of this pipe does
    /// it, if there is one, so that the entry precedes the answer.
    async fn edit_session(&mut self, id: SessionId, mut edit: SessionEdit) {
        if let Some(link) = self.links.get(&id).filter(|link| !link.inbox.is_closed()) {
            match link.inbox.send(ToListener::Edit(edit)).await {
                Ok(()) => return,
                Err(mpsc::error::SendError(ToListener::Edit(unsent))) => edit = unsent,
                Err(_) => return,
            }
        }
        if self.is_busy() {
            let refused = SessionEditResult {
                request_id: edit.request_id,
                error: Some(BUSY.to_owned()),
            };
            return self.send_body(&id, refused);
        }
        let sessions = self.sessions.clone();
        let upstream = self.upstream.clone();
        self.listeners.tasks.spawn(async move {
            let result = sessions.edit(&id, edit).await;
            upstream.put_control(&RelayMessage::new(id, result).to_line());
        });
    }

    /// Opens a session as a copy of another one, and attaches to it ([journal.14]).
    async fn fork_session(&mut self, id: SessionId, fork: SessionFork) {
        if self.has_session(&id) {
            return self.send_body(&id, ends::exists());
        }
        let outlet = self.new_outlet(&id).await;
        let sessions = self.sessions.clone();
        let named = id.clone();
        self.spawn_listener(id, outlet, async move {
            let (attached, listener) = sessions.fork(&named, fork).await?;
            Ok((listener, Some(RelayBody::from(attached))))
        });
    }

    async fn attach_session(&mut self, id: SessionId, attach: SessionAttach) {
        let outlet = self.new_outlet(&id).await;
        let sessions = self.sessions.clone();
        let named = id.clone();
        self.spawn_listener(id, outlet, async move {
            let (attached, listener) = sessions.attach(&named, &attach).await?;
            Ok((listener, Some(RelayBody::from(attached))))
        });
    }

    fn spawn_listener(
        &mut self,
        id: SessionId,
        outlet: Arc<Outlet>,
        listener: impl Future<Output = Result<(Listener, Option<RelayBody>), SessionRefused>>
        + Send
        + 'static,
    ) {
        let (inbox, said) = mpsc::channel(INBOX);
        self.links.insert(
            id.clone(),
            ListenerLink {
                inbox,
                outlet: outlet.clone(),
            },
        );
        let detached = self.listeners.detached.subscribe();
        self.listeners.tasks.spawn(async move {
            match listener.await {
                Ok((listener, attached)) => {
                    if let Some(attached) = attached {
                        put_answer(&outlet, &RelayMessage::new(id, attached));
                    }
                    listen(listener, &outlet, said, detached).await;
                }
                Err(refused) => put_answer(&outlet, &RelayMessage::new(id, refused)),
            }
        });
    }

    /// Returns true if too many answers are in progress to begin another one.
    fn is_busy(&self) -> bool {
        self.listeners.tasks.len() > self.links.len() + ANSWERS
    }

    /// Answers with the sessions of the journal ([journal.12]).
    pub(crate) fn list_sessions(&mut self, asked: SessionsList) {
        self.listeners.forget_ended();
        if self.is_busy() {
            let error = Some(BUSY.to_owned());
            let refused = SessionsListResult {
                error,
                ..SessionsListResult::to(asked.request_id)
            };
            return self.upstream.put_control(&of_pipe(refused));
        }
        let sessions = self.sessions.clone();
        let upstream = self.upstream.clone();
        self.listeners.tasks.spawn(async move {
            let result = sessions.list(asked).await;
            upstream.put_control(&of_pipe(result));
        });
    }

    fn read_history(&mut self, id: SessionId, asked: SessionHistory) {
        if self.is_busy() {
            let refused = trunkline_protocol::SessionHistoryResult {
                request_id: asked.request_id,
                entries: None,
                lost: None,
                next: None,
                error: Some(BUSY.to_owned()),
            };
            return self.send_body(&id, refused);
        }
        let sessions = self.sessions.clone();
        let upstream = self.upstream.clone();
        self.listeners.tasks.spawn(async move {
            let result = sessions.history(&id, &asked).await;
            upstream.put_control(&RelayMessage::new(id, result).to_line());
        });
    }

    fn send_body(&self, id: &SessionId, body: impl Into<RelayBody>) {
        self.upstream
            .put_control(&RelayMessage::new(id.clone(), body).to_line());
    }

    /// Answers that this relay keeps no journal.
    pub(crate) fn refuse_message(upstream: &Upstream, message: &HubMessage) {
        let why = "this relay keeps no journal; start it with --journal FOLDER";
        let refused = refusal(&message.body, AttachRefusal::Unknown, why);
        upstream.put_control(&RelayMessage::new(message.session_id.clone(), refused).to_line());
    }

    /// Returns the listeners, which continue to report until their sessions end or they are
    /// detached.
    pub(crate) fn into_listeners(self) -> ListenerTasks {
        self.listeners
    }
}

impl ListenerTasks {
    fn forget_ended(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }

    /// Makes each listener leave its session as soon as the session has every message of the hub.
    pub(crate) fn detach(&self) {
        self.detached.send_replace(true);
    }

    /// Waits until the last listener has ended.
    pub(crate) async fn join(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Returns the answer to a refused message of a hub of a journal.
pub(crate) fn refusal(body: &HubBody, reason: AttachRefusal, why: impl Into<String>) -> RelayBody {
    match body {
        HubBody::SessionEdit(edit) => SessionEditResult {
            request_id: edit.request_id.clone(),
            error: Some(why.into()),
        }
        .into(),
        HubBody::SessionAttach(_)
        | HubBody::SessionDetach(_)
        | HubBody::SessionHistory(_)
        | HubBody::SessionFork(_) => ends::refused(reason, why).into(),
    }
}

fn of_pipe(result: SessionsListResult) -> Vec<u8> {
    AdapterMessage::new(SessionId::none(), AdapterBody::from(result)).to_line()
}

impl ListenerLink {
    /// Ends the listener's task and waits for it.
    async fn leave(&self, releases: bool) {
        let (done, left) = oneshot::channel();
        let leave = ToListener::Leave { releases, done };
        if self.inbox.send(leave).await.is_ok() {
            // An error means that the task has ended.
            let _ = left.await;
        }
    }
}

/// Answers a `session.attach` in a line that every hub accepts ([frame.5]), since it names no
/// longest line.
fn put_answer(outlet: &Outlet, answer: &RelayMessage) {
    let put = |line| outlet.put(line, Class::Answer);
    match fit(answer, Extensions::all(), MIN_MAX_LINE, put) {
        Ok(lost) if lost.is_empty() => {}
        Ok(lost) => {
            tracing::warn!(session = %answer.session_id, ?lost, "the answer to an attach was cut");
        }
        Err(TooLong { bytes }) => {
            tracing::error!(session = %answer.session_id, bytes, "the answer to an attach was not sent");
        }
    }
}

/// Answers the hub. Never dropped: a pause ends before it holds back too much ([relay.5]).
fn reply(outlet: &Outlet, line: Vec<u8>) {
    outlet.put(line, Class::Answer);
    if outlet.holds_too_much() {
        outlet.flow(Flow::Resume);
    }
}

/// Reports the session's stream to the hub, as fast as the hub reads, and passes the hub's messages
/// to the session.
async fn listen(
    mut listener: Listener,
    outlet: &Outlet,
    mut said: mpsc::Receiver<ToListener>,
    mut detached: watch::Receiver<bool>,
) {
    let sender = listener.sender();
    let mut lines = Vec::new();
    let mut is_speaking = true;
    loop {
        // Before the hub's next message: with too many waiting replies the session would drop the
        // listener.
        while let Some(line) = listener.try_reply() {
            reply(outlet, line);
        }
        tokio::select! {
            biased;
            message = said.recv(), if is_speaking => match message {
                Some(ToListener::Said(message)) => match message.body {
                    HostBody::FlowPause(_) => outlet.flow(Flow::Pause),
                    HostBody::FlowResume(_) => outlet.flow(Flow::Resume),
                    // If the session is closed, its listener reports that.
                    _ => drop(sender.send(*message).await),
                },
                Some(ToListener::Edit(edit)) => drop(sender.edit(edit).await),
                Some(ToListener::Leave { releases, done }) => {
                    if releases {
                        listener.release();
                    } else {
                        drop(listener);
                    }
                    // The receiver may have given up waiting.
                    let _ = done.send(());
                    return;
                }
                // The pipe ends: the hub still gets what happens, unless the session stays.
                None => is_speaking = false,
            },
            () = async {
                // A dropped sender means detached.
                let _ = detached.wait_for(|is| *is).await;
            }, if !is_speaking => return,
            heard = listener.next_with(outlet.room(), &mut lines) => match heard {
                Ok(StreamItem::Entries) => outlet.put(std::mem::take(&mut lines), Class::Event),
                Ok(StreamItem::Reply) => reply(outlet, std::mem::take(&mut lines)),
                Ok(StreamItem::Ended(end)) => return reply(outlet, listener.last_line(end)),
                Err(error) => {
                    tracing::warn!(session = %listener.session(), "{error}");
                    return reply(outlet, listener.unreadable_line(&error));
                }
            },
        }
    }
}
