//! A client: one connection to a host, and the sessions on it.

use std::sync::{Arc, OnceLock};

use tokio::sync::{mpsc, oneshot};
use trunkline_protocol::{
    AdapterBody, AgentEntry, AgentsList, AgentsListResult, AttachRefusal, Extensions, HostMessage,
    HubMessage, ListedSession, LostEntries, RelayBody, RequestId, Role, SessionAttach, SessionEdit,
    SessionEntry, SessionFork, SessionHistory, SessionId, SessionStart, SessionsList,
};

use crate::{
    ClientError, Connect, Event, Events, ReconnectPolicy, Session,
    connection::{Command, ConnectionTask, PendingRequest, RequestAnswer},
    event::{EventQueue, SessionsToVisit},
    session::random_id,
    session_state::SessionState,
};

/// Calls that wait for the connection task. Further calls wait before they count as made.
const COMMAND_QUEUE: usize = 64;

/// A position behind every entry of a session. JSON numbers are exact up to here.
const BEHIND_ALL_ENTRIES: u64 = 1 << 53;

/// A hub of one host: any number of sessions over one connection. Clones share it.
///
/// A lost connection is made again, and each session continues behind its last entry. Sessions of a
/// host without a journal end with their connection. When the last handle is dropped (clones and
/// sessions), the connection is closed as by [`Client::close`], once the host has accepted the
/// inputs of its sessions.
#[derive(Debug, Clone)]
pub struct Client {
    commands: mpsc::Sender<Command>,
    to_visit: Arc<SessionsToVisit>,
    /// The cause of the connection's end.
    cause: Arc<OnceLock<ClientError>>,
    is_remote: bool,
    #[cfg(feature = "websocket")]
    http: Option<crate::HttpClient>,
}

/// A page of the journal's sessions ([journal.12]).
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct SessionPage {
    /// The sessions, the last active first.
    pub sessions: Vec<ListedSession>,
    /// The `cursor` of the next page, if there may be one.
    pub next: Option<String>,
    /// Hosts that did not answer, and whose sessions are missing.
    pub missing: Vec<String>,
}

/// A page of a session's entries ([journal.9]).
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct HistoryPage {
    /// The entries in order. None of them awaits an answer.
    pub entries: Vec<Event>,
    /// The entries among them that the journal has lost.
    pub lost: Vec<LostEntries>,
    /// The number of the next entry, if there are more.
    pub next: Option<u64>,
}

impl Client {
    /// Connects, with the default [`ReconnectPolicy`].
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] if the first connection is not made. It is not tried again.
    ///
    /// # Cancel safety
    /// Cancelling closes the connection.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn connect<C: Connect>(transport: C) -> Result<Self, ClientError> {
        Self::connect_with(transport, ReconnectPolicy::default()).await
    }

    /// Connects, with limits for later reconnects.
    ///
    /// # Errors
    /// As [`Client::connect`].
    ///
    /// # Cancel safety
    /// Cancelling closes the connection.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn connect_with<C: Connect>(
        mut transport: C,
        policy: ReconnectPolicy,
    ) -> Result<Self, ClientError> {
        let pipe = crate::connection::dial(&mut transport)
            .await
            .map_err(ClientError::Unreachable)?;
        let (commands, receiver) = mpsc::channel(COMMAND_QUEUE);
        let client = Self {
            commands,
            to_visit: Arc::default(),
            cause: Arc::default(),
            is_remote: pipe.is_remote(),
            #[cfg(feature = "websocket")]
            http: transport.http().map(|http| http.with_policy(policy)),
        };
        let to_visit = client.to_visit.clone();
        let connection = ConnectionTask::new(receiver, to_visit, policy, client.cause.clone());
        tokio::spawn(connection.run(transport, pipe));
        Ok(client)
    }

    /// Opens a session with an id of this client's. Returns when the host has it.
    ///
    /// `protocol`, `extensions` and `max_line` of the start are this client's own.
    ///
    /// # Errors
    /// [`ClientError::SessionRefused`], [`ClientError::SessionUnserved`] and the cause of the
    /// connection's end. What the agent itself refuses comes later, as a `session.closed`.
    ///
    /// # Cancel safety
    /// Cancelling may leave an empty session at the host.
    pub async fn open(&self, start: SessionStart) -> Result<(Session, Events), ClientError> {
        self.open_as(random_id(SessionId::new), start).await
    }

    /// Opens a session with this id. As [`Client::open`].
    ///
    /// # Errors
    /// [`ClientError::AlreadyOpen`] if this client has the session, and as [`Client::open`].
    ///
    /// # Cancel safety
    /// Cancelling may leave an empty session at the host.
    pub async fn open_as(
        &self,
        id: SessionId,
        start: SessionStart,
    ) -> Result<(Session, Events), ClientError> {
        self.add(id, Role::Control, |id, queue, opened| {
            SessionState::start(id, start, queue, opened)
        })
        .await
    }

    /// Attaches to a session of the journal, behind the entry `after` ([journal.5]); 0 for all
    /// entries.
    ///
    /// `epoch` should be that entry's. `protocol` and `extensions` are this client's own.
    ///
    /// # Errors
    /// [`ClientError::AlreadyOpen`] if this client has the session, and as [`Client::open`].
    ///
    /// # Cancel safety
    /// Cancelling leaves the session as it was.
    pub async fn attach(
        &self,
        id: SessionId,
        attach: SessionAttach,
    ) -> Result<(Session, Events), ClientError> {
        let role = attach.role.unwrap_or(Role::Control);
        self.add(id, role, |id, queue, opened| {
            SessionState::attach(id, attach, queue, opened)
        })
        .await
    }

    /// Attaches to a session of the journal behind its last entry: its events are those that come
    /// from now on. As [`Client::attach`].
    ///
    /// # Errors
    /// As [`Client::attach`].
    ///
    /// # Cancel safety
    /// Cancelling leaves the session as it was.
    pub async fn attach_at_end(
        &self,
        id: SessionId,
        role: Role,
    ) -> Result<(Session, Events), ClientError> {
        let attach = |after| SessionAttach {
            after,
            role: Some(role),
            ..SessionAttach::default()
        };
        // The refusal names the last entry.
        let refused = self.attach(id.clone(), attach(BEHIND_ALL_ENTRIES)).await;
        match refused {
            Err(ClientError::SessionRefused {
                reason: Some(AttachRefusal::Ahead),
                last_seq: Some(last),
                ..
            }) => self.attach(id, attach(last)).await,
            other => other,
        }
    }

    /// Opens a session of the journal as a copy of another one, up to an entry; `None` is the last
    /// ([journal.14]). Its events begin with the copied entries. Nothing runs before its first
    /// input; [`SessionAttached::copied`](trunkline_protocol::SessionAttached::copied) of
    /// [`Session::attached`] is the way in which the agent gets the conversation.
    ///
    /// # Errors
    /// As [`Client::attach`]. [`ClientError::SessionRefused`] if the host does not copy sessions.
    ///
    /// # Cancel safety
    /// Cancelling may leave a copy at the host.
    pub async fn fork(
        &self,
        source: &SessionId,
        seq: Option<u64>,
    ) -> Result<(Session, Events), ClientError> {
        self.fork_as(random_id(SessionId::new), source, seq).await
    }

    /// Opens a session with this id as a copy of another one. As [`Client::fork`].
    ///
    /// # Errors
    /// [`ClientError::AlreadyOpen`] if this client has the session, and as [`Client::fork`].
    ///
    /// # Cancel safety
    /// Cancelling may leave a copy at the host.
    pub async fn fork_as(
        &self,
        id: SessionId,
        source: &SessionId,
        seq: Option<u64>,
    ) -> Result<(Session, Events), ClientError> {
        let fork = SessionFork {
            source: source.to_string(),
            seq,
            ..SessionFork::default()
        };
        self.add(id, Role::Control, |id, queue, opened| {
            SessionState::fork(id, fork, queue, opened)
        })
        .await
    }

    /// Changes the title of a session of the journal, or archives it, or undoes that
    /// ([journal.13]). `None` leaves a member as it is; the empty title removes the title. The
    /// session need not be attached.
    ///
    /// # Errors
    /// [`ClientError::RequestFailed`] if the host does not change it; as [`Client::agents`].
    ///
    /// # Cancel safety
    /// Cancelling may or may not change the session.
    pub async fn edit(
        &self,
        session: &SessionId,
        title: Option<String>,
        archived: Option<bool>,
    ) -> Result<(), ClientError> {
        let request_id = random_id(RequestId::new);
        let edit = SessionEdit {
            request_id: request_id.clone(),
            title,
            archived,
        };
        let line = HubMessage::new(session.clone(), edit).to_line();
        let session = Some(session.clone());
        match self.request(request_id, session, line).await? {
            RequestAnswer::Relay(RelayBody::SessionEditResult(result)) => match result.error {
                Some(error) => Err(ClientError::RequestFailed(error)),
                None => Ok(()),
            },
            _ => Err(unexpected()),
        }
    }

    /// Lists the conversations that an agent itself keeps ([relay.10]); `None` is the host's default
    /// agent. With a directory, only those that began there. One is continued by
    /// [`Client::open`] with its id in `resume`.
    ///
    /// # Errors
    /// [`ClientError::RequestFailed`] if the agent lists none; as [`Client::agents`].
    ///
    /// # Cancel safety
    /// Cancelling changes nothing.
    pub async fn native_sessions(
        &self,
        agent: Option<String>,
        cwd: Option<String>,
        limit: Option<u32>,
    ) -> Result<Vec<SessionEntry>, ClientError> {
        let request_id = random_id(RequestId::new);
        let list = SessionsList {
            agent_id: agent,
            cwd,
            limit,
            ..SessionsList::new(request_id.clone())
        };
        let line = HostMessage::new(SessionId::none(), list).to_line();
        match self.request(request_id, None, line).await? {
            RequestAnswer::Adapter(AdapterBody::SessionsListResult(list)) => match list.error {
                Some(error) => Err(ClientError::RequestFailed(error)),
                None => Ok(list.entries.unwrap_or_default()),
            },
            _ => Err(unexpected()),
        }
    }

    /// Lists the agents ([relay.4]), with their health if asked for.
    ///
    /// # Errors
    /// The cause of the connection's end; [`ClientError::Busy`].
    ///
    /// # Cancel safety
    /// Cancelling changes nothing.
    pub async fn agents(&self, health: bool) -> Result<Vec<AgentEntry>, ClientError> {
        Ok(self.list_agents(health, None).await?.agents)
    }

    /// Lists the agents with their health, and at most so many of the open sessions ([relay.4]):
    /// those whose turns run, then the youngest.
    ///
    /// # Errors
    /// As [`Client::agents`].
    ///
    /// # Cancel safety
    /// Cancelling changes nothing.
    pub async fn health(&self, max_sessions: u32) -> Result<AgentsListResult, ClientError> {
        self.list_agents(true, Some(max_sessions)).await
    }

    async fn list_agents(
        &self,
        health: bool,
        sessions: Option<u32>,
    ) -> Result<AgentsListResult, ClientError> {
        let request_id = random_id(RequestId::new);
        let list = AgentsList {
            request_id: request_id.clone(),
            health: health.then_some(true),
            sessions,
        };
        let line = HostMessage::new(SessionId::none(), list).to_line();
        match self.request(request_id, None, line).await? {
            RequestAnswer::Adapter(AdapterBody::AgentsListResult(list)) => Ok(list),
            _ => Err(unexpected()),
        }
    }

    /// Lists sessions of the journal, a page of them ([journal.12]). The filter's `request_id` and
    /// `extensions` are this client's own; [`SessionPage::next`] is the `cursor` of the next page.
    ///
    /// # Errors
    /// [`ClientError::RequestFailed`] if the host has no list; as [`Client::agents`].
    ///
    /// # Cancel safety
    /// Cancelling changes nothing.
    pub async fn sessions(&self, filter: SessionsList) -> Result<SessionPage, ClientError> {
        let request_id = random_id(RequestId::new);
        let mut extensions = Extensions::RESUME.to_names();
        extensions.push("journal".to_owned());
        let list = SessionsList {
            request_id: request_id.clone(),
            extensions: Some(extensions),
            ..filter
        };
        let line = HostMessage::new(SessionId::none(), list).to_line();
        match self.request(request_id, None, line).await? {
            RequestAnswer::Adapter(AdapterBody::SessionsListResult(list)) => match list.error {
                Some(error) => Err(ClientError::RequestFailed(error)),
                None => Ok(SessionPage {
                    sessions: list.sessions.unwrap_or_default(),
                    next: list.next,
                    missing: list.missing.unwrap_or_default(),
                }),
            },
            _ => Err(unexpected()),
        }
    }

    /// Reads a page of a session's entries, from one to another, which need not be attached
    /// ([journal.9]). `None` is the first or the last that there is.
    ///
    /// # Errors
    /// [`ClientError::RequestFailed`] if there are none; as [`Client::agents`].
    ///
    /// # Cancel safety
    /// Cancelling changes nothing.
    pub async fn history(
        &self,
        session: &SessionId,
        from: Option<u64>,
        to: Option<u64>,
    ) -> Result<HistoryPage, ClientError> {
        let request_id = random_id(RequestId::new);
        let history = SessionHistory {
            request_id: request_id.clone(),
            from,
            to,
        };
        let line = HubMessage::new(session.clone(), history).to_line();
        match self
            .request(request_id, Some(session.clone()), line)
            .await?
        {
            RequestAnswer::Relay(RelayBody::SessionHistoryResult(page)) => match page.error {
                Some(error) => Err(ClientError::RequestFailed(error)),
                None => {
                    let entries = page.entries.unwrap_or_default();
                    let entries = entries.iter().filter_map(|entry| Event::parse(entry.get()));
                    Ok(HistoryPage {
                        entries: entries.map(|(_, event)| event).collect(),
                        lost: page.lost.unwrap_or_default(),
                        next: page.next,
                    })
                }
            },
            // The host keeps no journal.
            RequestAnswer::Relay(RelayBody::SessionRefused(refused)) => Err(
                ClientError::RequestFailed(refused.message.unwrap_or_default()),
            ),
            _ => Err(unexpected()),
        }
    }

    /// Returns HTTP of the daemon, for its search, the stream over all sessions, and all other
    /// paths. It has connections of its own, and outlives this client.
    ///
    /// # Errors
    /// [`ClientError::Unsupported`] for a command, streams, and other transports without HTTP.
    #[cfg(feature = "websocket")]
    pub fn http(&self) -> Result<&crate::HttpClient, ClientError> {
        let http = self.http.as_ref();
        http.ok_or(ClientError::Unsupported(crate::http::NO_HTTP))
    }

    /// Closes a session, and removes all that is kept of it. This client, like all others, must
    /// have left it before.
    ///
    /// # Errors
    /// As [`HttpClient::remove_session`](crate::HttpClient::remove_session): the status is 409 for
    /// a session in use. [`ClientError::Unsupported`] as [`Client::http`].
    ///
    /// # Cancel safety
    /// Cancelling may leave the session removed.
    #[cfg(feature = "websocket")]
    pub async fn remove_session(&self, session: &SessionId) -> Result<(), ClientError> {
        let http = self.http()?;
        // HTTP does not overtake what was sent before, such as leaving the session.
        self.agents(false).await?;
        http.remove_session(session).await
    }

    /// Waits until the client has given up its connection, or was closed, and returns the cause.
    ///
    /// # Cancel safety
    /// Cancelling changes nothing.
    pub async fn ended(&self) -> ClientError {
        self.commands.closed().await;
        self.cause()
    }

    /// Closes the connection, and waits for the end of a command that was started for it. Sessions
    /// of a journal continue at their host; their calls and turns here fail with
    /// [`ClientError::ClientClosed`].
    ///
    /// All that was sent before is written, unless the host takes longer than a second. A command
    /// that does not end within ten seconds is killed.
    ///
    /// # Cancel safety
    /// Cancelling leaves the client closing.
    pub async fn close(self) {
        let (done, closed) = oneshot::channel();
        if self.commands.send(Command::Close(done)).await.is_ok() {
            // The task is over if it does not answer.
            let _ = closed.await;
        }
    }

    pub(crate) fn is_remote(&self) -> bool {
        self.is_remote
    }

    pub(crate) async fn command(&self, command: Command) -> Result<(), ClientError> {
        let sent = self.commands.send(command).await;
        sent.map_err(|_| self.cause())
    }

    /// The cause of the connection's end, for a call that its ended task did not answer.
    pub(crate) fn cause(&self) -> ClientError {
        self.cause
            .get()
            .cloned()
            .unwrap_or(ClientError::ClientClosed)
    }

    async fn add(
        &self,
        id: SessionId,
        role: Role,
        state: impl FnOnce(
            SessionId,
            Arc<EventQueue>,
            oneshot::Sender<crate::session_state::OpeningResult>,
        ) -> SessionState,
    ) -> Result<(Session, Events), ClientError> {
        let queue = Arc::new(EventQueue::new());
        let (opened_sender, opened) = oneshot::channel();
        let state = Box::new(state(id.clone(), queue.clone(), opened_sender));
        // A cancelled call leaves the session by dropping this handle.
        let to_visit = self.to_visit.clone();
        let mut session = Session::new(id, self.clone(), queue, to_visit, role);
        let (reply, added) = oneshot::channel();
        self.command(Command::Add { state, reply }).await?;
        added.await.unwrap_or_else(|_| Err(self.cause()))?;
        match opened.await {
            Ok(opened) => session.set_opened(opened),
            Err(_) => return Err(session.cause()),
        }
        let events = Events {
            session: session.clone(),
        };
        Ok((session, events))
    }

    /// Asks the host itself. Sent again on a new connection.
    async fn request(
        &self,
        request_id: RequestId,
        session: Option<SessionId>,
        line: Vec<u8>,
    ) -> Result<RequestAnswer, ClientError> {
        let (reply, answer) = oneshot::channel();
        let request = PendingRequest {
            session,
            line,
            reply,
        };
        let command = Command::Request {
            request_id,
            request,
        };
        self.command(command).await?;
        answer.await.unwrap_or_else(|_| Err(self.cause()))
    }
}

fn unexpected() -> ClientError {
    ClientError::RequestFailed("the answer is of another type".to_owned())
}
