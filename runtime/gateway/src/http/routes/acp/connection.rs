//! ACP connection over HTTP: messages of its requests go in, and responses wait for its streams.

use std::{
    collections::HashMap,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream},
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch},
    time::{Instant, sleep, timeout},
};
use uuid::Uuid;

use super::{MAX_MESSAGE_BYTES, host, streams::ConnectionStreams};
use crate::{
    auth::principal::Principal,
    gateway::Shared,
    http::{
        problem::{Answer, Problem},
        routes::socket::PIPE_BYTES,
    },
};

/// Limits for connections: in all, and of one token.
const MAX_CONNECTIONS: usize = 1024;
const MAX_CONNECTIONS_PER_TOKEN: usize = 64;

/// Limit for the waiting messages of a client. Their bytes are limited to one message of maximal
/// length.
const MAX_WAITING_MESSAGES: usize = 64;

/// Limit for the bytes that wait for the streams of a connection. Beyond it, nothing more is read
/// from its sessions.
const MAX_UNREAD_BYTES: usize = 4 * 1024 * 1024;

/// Time without a read at this limit after which the connection is closed.
const STALLED_READER_TIMEOUT: Duration = Duration::from_secs(60);

/// Time after which an unused connection is closed, and the interval of this check.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// Timeout for a message to be accepted, and for the first response.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for the messages before the end to be processed.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// ACP connections over HTTP, by id.
#[derive(Debug, Default)]
pub(crate) struct AcpConnections(Mutex<HashMap<String, Arc<AcpConnection>>>);

/// An ACP connection over HTTP.
#[derive(Debug)]
pub(super) struct AcpConnection {
    /// Name of the token that owns it; `None` for this user.
    owner: Option<String>,
    streams: Mutex<ConnectionStreams>,
    /// Signals that a stream was read.
    taken: Notify,
    said: mpsc::Sender<(Vec<u8>, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    /// Time of the last use.
    used: Mutex<Instant>,
    over: watch::Sender<bool>,
}

impl AcpConnections {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<AcpConnection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a connection of this principal. Connections of others look unknown.
    pub(super) fn find(&self, id: &str, principal: &Principal) -> Option<Arc<AcpConnection>> {
        let found = self.lock().get(id).cloned();
        found.filter(|connection| connection.owner == owner(principal) && !connection.is_over())
    }

    /// Adds a connection if the limits allow it.
    fn add(&self, id: &str, connection: Arc<AcpConnection>) -> Answer<()> {
        let mut all = self.lock();
        let own = all
            .values()
            .filter(|other| other.owner == connection.owner)
            .count();
        if all.len() >= MAX_CONNECTIONS || own >= MAX_CONNECTIONS_PER_TOKEN {
            return Err(Problem::too_many(
                "too many connections are open; end one by DELETE",
            ));
        }
        all.insert(id.to_owned(), connection);
        Ok(())
    }

    fn remove(&self, id: &str) {
        self.lock().remove(id);
    }
}

fn owner(principal: &Principal) -> Option<String> {
    principal.visitor().map(|visitor| visitor.name.clone())
}

/// Opens a connection with the client's first message. Returns its id and the response.
pub(super) async fn begin_connection(
    shared: Arc<Shared>,
    principal: Principal,
    agent: Option<String>,
    message: Vec<u8>,
) -> Answer<(String, Vec<u8>)> {
    let (first, answer) = oneshot::channel();
    let (said, says) = mpsc::channel(MAX_WAITING_MESSAGES);
    let connection = Arc::new(AcpConnection::new(owner(&principal), first, said));
    let id = Uuid::new_v4().to_string();
    shared.acp.add(&id, connection.clone())?;
    tokio::spawn(run_connection(
        id.clone(),
        connection.clone(),
        shared,
        principal,
        agent,
        says,
    ));
    connection.send_message(message).await?;
    match timeout(MESSAGE_TIMEOUT, answer).await {
        Ok(Ok(answer)) => Ok((id, answer)),
        _ => {
            connection.end();
            Err(Problem::unavailable("the daemon did not answer in time"))
        }
    }
}

/// Serves a connection until it is closed.
async fn run_connection(
    id: String,
    connection: Arc<AcpConnection>,
    shared: Arc<Shared>,
    principal: Principal,
    agent: Option<String>,
    says: mpsc::Receiver<(Vec<u8>, OwnedSemaphorePermit)>,
) {
    let (host, options) = host::serve_as(shared.clone(), &principal, agent);
    let (to_served, input) = tokio::io::duplex(PIPE_BYTES);
    let (output, from_served) = tokio::io::duplex(PIPE_BYTES);
    let served = async {
        if let Err(error) = trunkline_acp::serve(input, output, host, options, pending()).await {
            tracing::warn!("an ACP connection has failed: {error}");
        }
    };
    let ends = async {
        tokio::select! {
            () = shared.ending_for(&principal) => {}
            () = connection.wait_until_over() => {}
            () = connection.wait_until_idle() => tracing::debug!("an unused ACP connection is closed"),
        }
        connection.end();
        sleep(CLOSE_GRACE).await;
    };
    tokio::select! {
        () = served => {}
        () = connection.forward_messages(says, to_served) => {}
        () = connection.collect_responses(from_served) => {}
        () = ends => {}
    }
    connection.end();
    shared.acp.remove(&id);
}

impl AcpConnection {
    fn new(
        owner: Option<String>,
        first: oneshot::Sender<Vec<u8>>,
        said: mpsc::Sender<(Vec<u8>, OwnedSemaphorePermit)>,
    ) -> Self {
        Self {
            owner,
            streams: Mutex::new(ConnectionStreams::new(first)),
            taken: Notify::new(),
            said,
            // One byte more, for the end of the line.
            room: Arc::new(Semaphore::new(MAX_MESSAGE_BYTES + 1)),
            used: Mutex::new(Instant::now()),
            over: watch::Sender::new(false),
        }
    }

    pub(super) fn streams(&self) -> MutexGuard<'_, ConnectionStreams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connection. Earlier messages are still processed.
    pub(super) fn end(&self) {
        self.over.send_replace(true);
    }

    fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Resolves when the connection is closed.
    pub(super) async fn wait_until_over(&self) {
        // A dropped sender counts as closed.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// Records a use.
    pub(super) fn record_use(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Sends a line to the agent, in the order in which the calls resolve.
    ///
    /// # Cancel safety
    /// A line is sent completely or not at all.
    pub(super) async fn send_message(&self, line: Vec<u8>) -> Answer<()> {
        self.record_use();
        let bytes = u32::try_from(line.len()).unwrap_or(u32::MAX);
        let said = async {
            let room = self.room.clone().acquire_many_owned(bytes).await.ok()?;
            self.said.send((line, room)).await.ok()
        };
        match timeout(MESSAGE_TIMEOUT, said).await {
            Ok(Some(())) => Ok(()),
            Ok(None) => Err(Problem::no_connection()),
            Err(_) => Err(Problem::unavailable(
                "too many messages wait in this connection; read its streams, then try again",
            )),
        }
    }

    /// Returns the next events of a stream.
    ///
    /// # Cancel safety
    /// Dropping the future loses no events.
    pub(super) async fn next_events(&self, session: Option<&str>, wake: &Notify) -> Bytes {
        loop {
            if let Some(events) = self.streams().take_events(session) {
                self.taken.notify_one();
                return events.into();
            }
            wake.notified().await;
        }
    }

    /// Forwards messages until the connection is closed. Resolves if the agent no longer reads.
    async fn forward_messages(
        &self,
        mut says: mpsc::Receiver<(Vec<u8>, OwnedSemaphorePermit)>,
        mut to: DuplexStream,
    ) {
        loop {
            let said = tokio::select! {
                biased;
                said = says.recv() => said,
                () = self.wait_until_over(), if !says.is_closed() => {
                    // Accepted messages are forwarded; no more are accepted.
                    says.close();
                    continue;
                }
            };
            let Some((line, _room)) = said else { break };
            if to.write_all(&line).await.is_err() {
                return;
            }
        }
        drop(to);
        pending::<()>().await;
    }

    /// Sorts the agent's messages into streams. Resolves when the agent has ended, or when the
    /// client reads nothing.
    async fn collect_responses(&self, from: DuplexStream) {
        let mut lines = BufReader::new(from);
        loop {
            let mut line = Vec::new();
            if !matches!(lines.read_until(b'\n', &mut line).await, Ok(1..)) {
                return;
            }
            if line.pop_if(|last| *last == b'\n').is_none() || self.is_over() {
                continue;
            }
            self.streams().route_message(line);
            while self.streams().bytes() > MAX_UNREAD_BYTES && !self.is_over() {
                let taken = async {
                    tokio::select! {
                        () = self.taken.notified() => {}
                        () = self.wait_until_over() => {}
                    }
                };
                if timeout(STALLED_READER_TIMEOUT, taken).await.is_err() {
                    return tracing::debug!("a client of ACP that reads nothing is let go");
                }
            }
        }
    }

    /// Resolves when the connection was unused for [`IDLE_TIMEOUT`].
    async fn wait_until_idle(&self) {
        loop {
            sleep(IDLE_CHECK_INTERVAL).await;
            let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.streams().is_read() && used.elapsed() >= IDLE_TIMEOUT {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
