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

use super::{MESSAGE, host, streams::Streams};
use crate::{
    auth::principal::Principal,
    gateway::Shared,
    http::{
        problem::{Answer, Problem},
        routes::socket::ROOM,
    },
};

/// Limits for connections: in all, and of one token.
const CONNECTIONS: usize = 1024;
const OF_ONE: usize = 64;

/// Limit for the waiting messages of a client. Their bytes are limited to one message of maximal
/// length.
const WAITING: usize = 64;

/// Limit for the bytes that wait for the streams of a connection. Beyond it, nothing more is read
/// from its sessions.
const BEHIND: usize = 4 * 1024 * 1024;

/// Time without a read at this limit after which the connection is closed.
const STALLED: Duration = Duration::from_secs(60);

/// Time after which an unused connection is closed, and the interval of this check.
const IDLE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_secs(15);

/// Timeout for a message to be accepted, and for the first response.
const TAKES: Duration = Duration::from_secs(30);

/// Time for the messages before the end to be processed.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// ACP connections over HTTP, by id.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<HashMap<String, Arc<Connection>>>);

/// An ACP connection over HTTP.
#[derive(Debug)]
pub(super) struct Connection {
    /// Name of the token that owns it; `None` for this user.
    owner: Option<String>,
    streams: Mutex<Streams>,
    /// Signals that a stream was read.
    taken: Notify,
    said: mpsc::Sender<(Vec<u8>, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    /// Time of the last use.
    used: Mutex<Instant>,
    over: watch::Sender<bool>,
}

impl Connections {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a connection of this principal. Connections of others look unknown.
    pub(super) fn find(&self, id: &str, principal: &Principal) -> Option<Arc<Connection>> {
        let found = self.all().get(id).cloned();
        found.filter(|connection| connection.owner == owner(principal) && !connection.is_over())
    }

    /// Adds a connection if the limits allow it.
    fn add(&self, id: &str, connection: Arc<Connection>) -> Answer<()> {
        let mut all = self.all();
        let own = all
            .values()
            .filter(|other| other.owner == connection.owner)
            .count();
        if all.len() >= CONNECTIONS || own >= OF_ONE {
            return Err(Problem::too_many(
                "too many connections are open; end one by DELETE",
            ));
        }
        all.insert(id.to_owned(), connection);
        Ok(())
    }

    fn remove(&self, id: &str) {
        self.all().remove(id);
    }
}

fn owner(principal: &Principal) -> Option<String> {
    principal.visitor().map(|visitor| visitor.name.clone())
}

/// Opens a connection with the client's first message. Returns its id and the response.
pub(super) async fn begin(
    shared: Arc<Shared>,
    principal: Principal,
    agent: Option<String>,
    message: Vec<u8>,
) -> Answer<(String, Vec<u8>)> {
    let (first, answer) = oneshot::channel();
    let (said, says) = mpsc::channel(WAITING);
    let connection = Arc::new(Connection::new(owner(&principal), first, said));
    let id = Uuid::new_v4().to_string();
    shared.acp.add(&id, connection.clone())?;
    tokio::spawn(run(
        id.clone(),
        connection.clone(),
        shared,
        principal,
        agent,
        says,
    ));
    connection.say(message).await?;
    match timeout(TAKES, answer).await {
        Ok(Ok(answer)) => Ok((id, answer)),
        _ => {
            connection.end();
            Err(Problem::unavailable("the daemon did not answer in time"))
        }
    }
}

/// Serves a connection until it is closed.
async fn run(
    id: String,
    connection: Arc<Connection>,
    shared: Arc<Shared>,
    principal: Principal,
    agent: Option<String>,
    says: mpsc::Receiver<(Vec<u8>, OwnedSemaphorePermit)>,
) {
    let (host, options) = host::serve_as(shared.clone(), &principal, agent);
    let (to_served, input) = tokio::io::duplex(ROOM);
    let (output, of_served) = tokio::io::duplex(ROOM);
    let served = async {
        if let Err(error) = trunkline_acp::serve(input, output, host, options, pending()).await {
            tracing::warn!("a client of ACP was let go: {error}");
        }
    };
    let ends = async {
        tokio::select! {
            () = shared.ending_for(&principal) => {}
            () = connection.over() => {}
            () = connection.idle() => tracing::debug!("a connection of ACP that no one uses ends"),
        }
        connection.end();
        sleep(LAST_WORDS).await;
    };
    tokio::select! {
        () = served => {}
        () = connection.hand_on(says, to_served) => {}
        () = connection.collect(of_served) => {}
        () = ends => {}
    }
    connection.end();
    shared.acp.remove(&id);
}

impl Connection {
    fn new(
        owner: Option<String>,
        first: oneshot::Sender<Vec<u8>>,
        said: mpsc::Sender<(Vec<u8>, OwnedSemaphorePermit)>,
    ) -> Self {
        Self {
            owner,
            streams: Mutex::new(Streams::new(first)),
            taken: Notify::new(),
            said,
            // One byte more, for the end of the line.
            room: Arc::new(Semaphore::new(MESSAGE + 1)),
            used: Mutex::new(Instant::now()),
            over: watch::Sender::new(false),
        }
    }

    pub(super) fn streams(&self) -> MutexGuard<'_, Streams> {
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
    pub(super) async fn over(&self) {
        // A dropped sender counts as closed.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// Records a use.
    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Sends a line to the agent, in the order in which the calls resolve.
    ///
    /// # Cancel safety
    /// A line is sent completely or not at all.
    pub(super) async fn say(&self, line: Vec<u8>) -> Answer<()> {
        self.touch();
        let bytes = u32::try_from(line.len()).unwrap_or(u32::MAX);
        let said = async {
            let room = self.room.clone().acquire_many_owned(bytes).await.ok()?;
            self.said.send((line, room)).await.ok()
        };
        match timeout(TAKES, said).await {
            Ok(Some(())) => Ok(()),
            Ok(None) => Err(Problem::no_connection()),
            Err(_) => Err(Problem::unavailable(
                "too much waits in this connection; read its streams",
            )),
        }
    }

    /// Returns the next events of a stream.
    ///
    /// # Cancel safety
    /// Dropping the future loses no events.
    pub(super) async fn events(&self, session: Option<&str>, wake: &Notify) -> Bytes {
        loop {
            if let Some(events) = self.streams().take(session) {
                self.taken.notify_one();
                return events.into();
            }
            wake.notified().await;
        }
    }

    /// Forwards messages until the connection is closed. Resolves if the agent no longer reads.
    async fn hand_on(
        &self,
        mut says: mpsc::Receiver<(Vec<u8>, OwnedSemaphorePermit)>,
        mut to: DuplexStream,
    ) {
        loop {
            let said = tokio::select! {
                biased;
                said = says.recv() => said,
                () = self.over(), if !says.is_closed() => {
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
    async fn collect(&self, from: DuplexStream) {
        let mut lines = BufReader::new(from);
        loop {
            let mut line = Vec::new();
            if !matches!(lines.read_until(b'\n', &mut line).await, Ok(1..)) {
                return;
            }
            if line.pop_if(|last| *last == b'\n').is_none() || self.is_over() {
                continue;
            }
            self.streams().put(line);
            while self.streams().bytes() > BEHIND && !self.is_over() {
                let taken = async {
                    tokio::select! {
                        () = self.taken.notified() => {}
                        () = self.over() => {}
                    }
                };
                if timeout(STALLED, taken).await.is_err() {
                    return tracing::debug!("a client of ACP that reads nothing is let go");
                }
            }
        }
    }

    /// Resolves when the connection was unused for [`IDLE_TIMEOUT`].
    async fn idle(&self) {
        loop {
            sleep(LOOK).await;
            let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.streams().is_read() && used.elapsed() >= IDLE {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
