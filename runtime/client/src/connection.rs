//! The task of a client: it owns the connection, and the state of all sessions on it.

use std::{
    collections::{HashMap, HashSet},
    io,
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until, timeout},
};
use trunkline_protocol::{
    AdapterBody, HostMessage, Item, LineReader, MAX_LINE, Ping, RelayBody, RequestId, SessionId,
    session_named_in,
};

use crate::{
    ClientError, Connect, ConnectError, Pipe, ReconnectPolicy,
    event::{Event, EventBody, SessionsToVisit},
    reconnect::ReconnectBackoff,
    session_state::{SessionCommand, SessionState},
};

/// Timeout for one attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest line that is read: an entry is a line of up to 16 MiB, and what the relay adds to
/// it.
const MAX_ENTRY_LINE: usize = MAX_LINE + (256 << 10);

/// Bytes to write from which no further call is taken.
const MAX_UNWRITTEN_BYTES: usize = 1 << 20;

/// Requests to the host itself without an answer.
const MAX_PENDING_REQUESTS: usize = 1024;

/// The duration after which a connection that breaks counts as progress.
pub(crate) const STEADY: Duration = Duration::from_secs(10);

/// The interval of pings over a network, and the unanswered ones after which the connection counts
/// as lost.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const MAX_UNANSWERED_PINGS: u32 = 3;

/// Timeout for the last bytes in both directions when a client is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A call on a client.
#[derive(Debug)]
pub(crate) enum Command {
    Add {
        state: Box<SessionState>,
        reply: oneshot::Sender<Result<(), ClientError>>,
    },
    Session {
        session: SessionId,
        command: SessionCommand,
    },
    Request {
        request_id: RequestId,
        request: PendingRequest,
    },
    Close(oneshot::Sender<()>),
}

/// A request to the host itself, without an answer.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    /// The session that it is about.
    pub(crate) session: Option<SessionId>,
    pub(crate) line: Vec<u8>,
    pub(crate) reply: oneshot::Sender<Result<RequestAnswer, ClientError>>,
}

/// The host's answer to a request.
#[derive(Debug)]
pub(crate) enum RequestAnswer {
    Adapter(AdapterBody),
    Relay(RelayBody),
}

/// The reason why a connection is no longer served.
enum ServeEnd {
    Closed,
    Lost(String),
}

#[derive(Debug)]
pub(crate) struct ConnectionTask {
    commands: mpsc::Receiver<Command>,
    to_visit: Arc<SessionsToVisit>,
    policy: ReconnectPolicy,
    cause: Arc<OnceLock<ClientError>>,
    sessions: HashMap<SessionId, SessionState>,
    /// Sessions whose queues keep the connection from being read.
    overfull: HashSet<SessionId>,
    /// The first time at which a session is attached again.
    next_attach: Option<Instant>,
    requests: HashMap<RequestId, PendingRequest>,
    backoff: ReconnectBackoff,
    is_connected: bool,
    /// No handle is left: the task ends with its last session.
    is_abandoned: bool,
    closer: Option<oneshot::Sender<()>>,
    /// Lines to write, and the part of them that is written.
    out: Vec<u8>,
    written: usize,
    needs_flush: bool,
    unanswered_pings: u32,
}

/// Makes one attempt to connect.
pub(crate) async fn dial<C: Connect>(transport: &mut C) -> Result<Pipe, ConnectError> {
    let late = || {
        let limit = CONNECT_TIMEOUT.as_secs();
        ConnectError::transient(format!("there was no answer within {limit} seconds"))
    };
    let dialed = timeout(CONNECT_TIMEOUT, transport.connect()).await;
    dialed.unwrap_or_else(|_| Err(late()))
}

impl ConnectionTask {
    pub(crate) fn new(
        commands: mpsc::Receiver<Command>,
        to_visit: Arc<SessionsToVisit>,
        policy: ReconnectPolicy,
        cause: Arc<OnceLock<ClientError>>,
    ) -> Self {
        Self {
            commands,
            to_visit,
            policy,
            cause,
            sessions: HashMap::new(),
            overfull: HashSet::new(),
            next_attach: None,
            requests: HashMap::new(),
            backoff: ReconnectBackoff::default(),
            is_connected: false,
            is_abandoned: false,
            closer: None,
            out: Vec::new(),
            written: 0,
            needs_flush: false,
            unanswered_pings: 0,
        }
    }

    pub(crate) async fn run<C: Connect>(mut self, mut transport: C, pipe: Pipe) {
        let mut pipe = pipe;
        let cause = loop {
            let connected_at = Instant::now();
            let stopped = self.serve(&mut pipe).await;
            let ServeEnd::Lost(reason) = stopped else {
                self.end_sessions(&ClientError::ClientClosed);
                self.close(pipe).await;
                break ClientError::ClientClosed;
            };
            if connected_at.elapsed() >= STEADY {
                self.backoff.reset();
            }
            let lost = pipe.lost(reason).await;
            tracing::debug!("the connection to the host is lost: {lost}");
            match self.reconnect(&mut transport, lost).await {
                Ok(Some(next)) => pipe = next,
                Ok(None) => break ClientError::ClientClosed,
                Err(lost) => break ClientError::ConnectionLost(lost),
            }
        };
        // Later calls find the cause, since the receiver of commands is dropped after it is set.
        let _ = self.cause.set(cause.clone());
        self.end_sessions(&cause);
        for (_, request) in self.requests.drain() {
            reply(request.reply, Err(cause.clone()));
        }
        if let Some(closer) = self.closer.take() {
            reply(closer, ());
        }
    }

    /// Serves one connection.
    async fn serve(&mut self, pipe: &mut Pipe) -> ServeEnd {
        let mut lines = LineReader::of_peer(MAX_ENTRY_LINE);
        self.begin();
        let mut next_ping = Instant::now() + PING_INTERVAL;
        let is_remote = pipe.is_remote();
        let mut can_write = true;
        loop {
            if self.closer.is_some() || (self.is_abandoned && self.sessions.is_empty()) {
                return ServeEnd::Closed;
            }
            let sessions = &self.sessions;
            let is_overfull = |id: &SessionId| sessions.get(id).is_some_and(|it| it.is_overfull());
            self.overfull.retain(is_overfull);
            let reads = self.overfull.is_empty();
            let ping = is_remote.then_some(next_ping);
            let deadline = self.next_attach.into_iter().chain(ping).min();
            let (input, output) = pipe.ends();
            tokio::select! {
                biased;
                () = self.to_visit.requested() => self.attend(),
                command = self.commands.recv(),
                    if !self.is_abandoned && self.out.len() - self.written < MAX_UNWRITTEN_BYTES => {
                    self.execute(command);
                }
                wrote = write_or_flush(output, &self.out[self.written..]),
                    if can_write && (self.written < self.out.len() || self.needs_flush) => {
                    match wrote {
                        Ok(bytes) => self.note_written(bytes),
                        // Lines that the host wrote before its end can still be read.
                        Err(_) => can_write = false,
                    }
                }
                read = input.read(lines.space()), if reads => match read {
                    Ok(0) => return ServeEnd::Lost("the host has ended the connection".to_owned()),
                    Err(error) => return ServeEnd::Lost(error.to_string()),
                    Ok(bytes) => {
                        lines.filled(bytes);
                        self.unanswered_pings = 0;
                        while let Some(item) = lines.next() {
                            self.receive(item);
                        }
                    }
                },
                () = async { sleep_until(deadline.unwrap_or_else(Instant::now)).await }, if deadline.is_some() => {
                    let now = Instant::now();
                    if is_remote && next_ping <= now {
                        // A host that is not read cannot answer.
                        if reads && self.unanswered_pings >= MAX_UNANSWERED_PINGS {
                            return ServeEnd::Lost("the host does not answer pings".to_owned());
                        }
                        next_ping = now + PING_INTERVAL;
                        self.unanswered_pings += u32::from(reads);
                        HostMessage::new(SessionId::none(), Ping { nonce: None }).write(&mut self.out);
                    }
                    self.wake(now);
                }
            }
            if !can_write {
                self.discard_output();
            }
        }
    }

    /// Waits and connects until there is a connection. `Ok(None)` when the client is closed
    /// meanwhile.
    async fn reconnect<C: Connect>(
        &mut self,
        transport: &mut C,
        mut lost: ConnectError,
    ) -> Result<Option<Pipe>, ConnectError> {
        self.is_connected = false;
        self.discard_output();
        let cause = ClientError::ConnectionLost(lost.clone());
        for session in self.sessions.values_mut() {
            session.disconnect(&cause);
        }
        self.sessions.retain(|_, session| !session.is_ended());
        loop {
            if lost.is_permanent() {
                return Err(lost);
            }
            let now = Instant::now();
            let Some(delay) = self.backoff.next_delay(&self.policy, now) else {
                return Err(lost);
            };
            let mut attempt = pin!(async {
                sleep(delay).await;
                dial(transport).await
            });
            let attempted = loop {
                if self.closer.is_some() || (self.is_abandoned && self.sessions.is_empty()) {
                    return Ok(None);
                }
                tokio::select! {
                    biased;
                    () = self.to_visit.requested() => self.attend(),
                    command = self.commands.recv(), if !self.is_abandoned => self.execute(command),
                    attempted = &mut attempt => break attempted,
                }
            };
            match attempted {
                Ok(pipe) => return Ok(Some(pipe)),
                Err(error) => lost = error,
            }
        }
    }

    /// Begins a connection: opens and attaches the sessions, and repeats requests without an
    /// answer.
    fn begin(&mut self) {
        self.is_connected = true;
        self.unanswered_pings = 0;
        self.next_attach = None;
        for session in self.sessions.values_mut() {
            session.connect(&mut self.out);
        }
        // A cancelled call needs no answer.
        self.requests
            .retain(|_, request| !request.reply.is_closed());
        for request in self.requests.values() {
            self.out.extend_from_slice(&request.line);
        }
    }

    /// Executes a call; `None` when no handle is left.
    fn execute(&mut self, command: Option<Command>) {
        match command {
            None => self.is_abandoned = true,
            Some(Command::Add {
                mut state,
                reply: to,
            }) => {
                if self.sessions.contains_key(state.id()) {
                    return reply(to, Err(ClientError::AlreadyOpen(state.id().clone())));
                }
                if self.is_connected {
                    state.connect(&mut self.out);
                }
                self.sessions.insert(state.id().clone(), *state);
                reply(to, Ok(()));
            }
            Some(Command::Session { session, command }) => {
                // The reply of an ended session is dropped, and its caller finds the cause.
                self.update(&session, |session, out| session.execute(command, out));
            }
            Some(Command::Request {
                request_id,
                request,
            }) => {
                self.requests
                    .retain(|_, request| !request.reply.is_closed());
                if self.requests.len() >= MAX_PENDING_REQUESTS {
                    return reply(
                        request.reply,
                        Err(ClientError::Busy("requests to the host")),
                    );
                }
                if self.is_connected {
                    self.out.extend_from_slice(&request.line);
                }
                self.requests.insert(request_id, request);
            }
            Some(Command::Close(closer)) => self.closer = Some(closer),
        }
    }

    fn attend(&mut self) {
        let sessions = self.to_visit.take();
        // Calls that came before the last handle was dropped are still in the queue.
        for _ in 0..self.commands.len() {
            if let Ok(command) = self.commands.try_recv() {
                self.execute(Some(command));
            }
        }
        for session in sessions {
            self.update(&session, SessionState::attend);
        }
    }

    /// Attaches the sessions again whose wait is over.
    fn wake(&mut self, now: Instant) {
        for session in self.sessions.values_mut() {
            session.wake(now, &mut self.out);
        }
        self.next_attach = self
            .sessions
            .values()
            .filter_map(SessionState::deadline)
            .min();
    }

    /// Does something with a session, and notes what that changes for the connection.
    fn update<T>(
        &mut self,
        id: &SessionId,
        change: impl FnOnce(&mut SessionState, &mut Vec<u8>) -> T,
    ) -> Option<T> {
        let session = self.sessions.get_mut(id)?;
        let changed = change(session, &mut self.out);
        self.next_attach = self.next_attach.into_iter().chain(session.deadline()).min();
        if session.is_overfull() {
            self.overfull.insert(id.clone());
        }
        if session.is_ended() {
            self.sessions.remove(id);
        }
        Some(changed)
    }

    fn receive(&mut self, item: Item<'_>) {
        match item {
            Item::Line(line) => {
                if let Some((session, event)) = Event::parse(line) {
                    self.receive_event(&session, event);
                }
            }
            Item::TooLong { first, bytes } => {
                let session = session_named_in(first);
                if let Some(session) = session {
                    self.update(&session, |session, out| session.skip_line(bytes, out));
                }
            }
            Item::NotUtf8 { .. } | Item::NotObject(_) | Item::Cut(_) => {
                tracing::debug!("the host wrote a line that is not a message");
            }
        }
    }

    fn receive_event(&mut self, id: &SessionId, event: Event) {
        let answered = match &event.body {
            EventBody::Adapter(AdapterBody::AgentsListResult(list)) => Some(&list.request_id),
            EventBody::Adapter(AdapterBody::SessionsListResult(list)) => Some(&list.request_id),
            EventBody::Relay(RelayBody::SessionHistoryResult(page)) => Some(&page.request_id),
            EventBody::Relay(RelayBody::SessionEditResult(result)) => Some(&result.request_id),
            _ => None,
        };
        if let Some(request_id) = answered {
            if let Some(request) = self.requests.remove(request_id) {
                self.answer(request, event.body);
            }
            return;
        }
        if self.sessions.contains_key(id) {
            let policy = self.policy;
            let is_news = self.update(id, |session, out| {
                session.receive(event, &policy, Instant::now(), out)
            });
            if is_news == Some(true) {
                self.backoff.reset();
            }
        } else if let EventBody::Relay(RelayBody::SessionRefused(_)) = &event.body {
            // A host without a journal refuses a history by the session's id.
            let is_meant = |request: &PendingRequest| request.session.as_ref() == Some(id);
            let meant = self.requests.iter().find(|(_, request)| is_meant(request));
            let meant = meant.map(|(request_id, _)| request_id.clone());
            if let Some(request) = meant.and_then(|meant| self.requests.remove(&meant)) {
                self.answer(request, event.body);
            }
        }
    }

    fn answer(&self, request: PendingRequest, body: EventBody) {
        let answer = match body {
            EventBody::Adapter(body) => RequestAnswer::Adapter(body),
            EventBody::Relay(body) => RequestAnswer::Relay(body),
            EventBody::Unknown | EventBody::TooLong { .. } => return,
        };
        reply(request.reply, Ok(answer));
    }

    /// Notes what a write took; a flush takes nothing.
    fn note_written(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written == self.out.len() {
            self.discard_output();
            self.needs_flush = bytes > 0;
        }
    }

    fn discard_output(&mut self) {
        self.needs_flush = false;
        self.written = 0;
        self.out.clear();
        // A burst of long inputs does not keep its memory.
        self.out.shrink_to(MAX_UNWRITTEN_BYTES);
    }

    fn end_sessions(&mut self, cause: &ClientError) {
        for (_, mut session) in self.sessions.drain() {
            session.hang_up(false, &mut self.out);
            session.end(cause);
        }
    }

    /// Writes what is left, and waits for the host to have read it.
    async fn close(&mut self, mut pipe: Pipe) {
        let (input, output) = pipe.ends();
        let rest = &self.out[self.written..];
        let last = async {
            output.write_all(rest).await?;
            output.shutdown().await?;
            // Unread lines would break the pipe before the host has read its end.
            tokio::io::copy(input, &mut tokio::io::sink()).await
        };
        // A host that is gone needs no farewell.
        let _ = timeout(CLOSE_TIMEOUT, last).await;
        pipe.finish().await;
    }
}

/// Writes a part of the bytes; flushes when there are none. Cancelling loses nothing.
async fn write_or_flush(
    output: &mut (dyn AsyncWrite + Send + Unpin),
    bytes: &[u8],
) -> io::Result<usize> {
    if bytes.is_empty() {
        return output.flush().await.map(|()| 0);
    }
    match output.write(bytes).await? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        written => Ok(written),
    }
}

/// Answers a call. A cancelled call reads no answer.
fn reply<T>(to: oneshot::Sender<T>, value: T) {
    let _ = to.send(value);
}
