//! A connection over HTTP: what its requests say goes in, and what comes out waits for its streams.

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

/// How many connections there are, and how many one token has.
const CONNECTIONS: usize = 1024;
const OF_ONE: usize = 64;

/// How many messages of a client wait, beside the bound of their bytes, which is one message of the longest.
const WAITING: usize = 64;

/// How much waits for the streams of a connection before nothing more is read of its sessions, in bytes.
const BEHIND: usize = 4 * 1024 * 1024;

/// How long a client may take nothing of that.
const STALLED: Duration = Duration::from_secs(60);

/// How long a connection stays that no one reads and no one speaks in, and how often it is looked at.
const IDLE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_secs(15);

/// How long a message may wait until it is taken, and the first answer.
const TAKES: Duration = Duration::from_secs(30);

/// How long what was said before the end may take to be said on.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// All connections over HTTP, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<HashMap<String, Arc<Connection>>>);

/// One of them.
#[derive(Debug)]
pub(super) struct Connection {
    /// The name of whose it is. `None`: this user's.
    owner: Option<String>,
    streams: Mutex<Streams>,
    /// Something was taken of the streams.
    taken: Notify,
    said: mpsc::Sender<(Vec<u8>, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    /// When it was last used.
    used: Mutex<Instant>,
    over: watch::Sender<bool>,
}

impl Connections {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That of an id, if who asks has it. Another's looks like one that never was.
    pub(super) fn find(&self, id: &str, principal: &Principal) -> Option<Arc<Connection>> {
        let found = self.all().get(id).cloned();
        found.filter(|connection| connection.owner == owner(principal) && !connection.is_over())
    }

    /// Adds one, if there is room.
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

/// Begins a connection with the client's first message. Gives its id and the answer.
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

/// Serves a connection until it is over.
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
            // With its end.
            room: Arc::new(Semaphore::new(MESSAGE + 1)),
            used: Mutex::new(Instant::now()),
            over: watch::Sender::new(false),
        }
    }

    pub(super) fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it. What was said before still counts.
    pub(super) fn end(&self) {
        self.over.send_replace(true);
    }

    fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Resolves when it is over.
    pub(super) async fn over(&self) {
        // Gone is over.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// Notes that it is used.
    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Says a line, in the order of the calls that have resolved.
    ///
    /// # Cancel safety
    /// A line is said whole or not at all.
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

    /// The next events of a stream.
    ///
    /// # Cancel safety
    /// Nothing is taken before it is given.
    pub(super) async fn events(&self, session: Option<&str>, wake: &Notify) -> Bytes {
        loop {
            if let Some(events) = self.streams().take(session) {
                self.taken.notify_one();
                return events.into();
            }
            wake.notified().await;
        }
    }

    /// Hands on what was said, up to the end of the connection. Resolves when no one takes it.
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
                    // What was taken is said; nothing more is taken.
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

    /// Puts what comes where the client reads it. Resolves when nothing more comes, or the client
    /// takes none of it.
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

    /// Resolves when no one has used it for long.
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
