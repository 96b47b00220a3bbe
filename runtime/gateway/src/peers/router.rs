//! Router of a hub's pipe: sends each line to the host of its session, and merges the lines that
//! the hosts send.
//!
//! Lines that concern no session of another host go to this host's relay, which is unaware of the
//! router. If a session moves, its old host sends `session.refused`, and the hub attaches to the
//! session again. If the connection to a host ends, so does the pipe, and the hub attaches to all
//! of its sessions again. It attaches after the last entry that it has, so it misses no entry and
//! receives none twice.

mod lines;

use std::{collections::HashMap, future::Future, io, sync::Arc, time::Duration};

use futures_util::{
    StreamExt,
    future::{AbortHandle, Abortable, BoxFuture, join_all},
    stream::FuturesUnordered,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, WriteHalf},
    sync::{Mutex, oneshot, watch},
    task::JoinSet,
    time::timeout,
};
use trunkline_protocol::{
    Category, Head, HostBody, HostMessage, Item, LineReader, MAX_LINE, SessionId, SessionsList,
};
use trunkline_relay::{RelayOptions, serve_hub};

use self::lines::{Of, Refused, copy_lines, error, refused, write};
use super::{
    ForwardedPrincipal, Peers, SessionLocation, Stream,
    forward::{REACHED, host_unavailable_text},
    list,
};
use crate::{
    auth::{authorizer::Folders, principal::Principal, token::Scope},
    gateway::Shared,
};

/// Capacity of the pipes between the router and this host's relay, in bytes.
const ROOM: usize = 64 * 1024;

/// Limit for the hosts that one hub has sessions of. Its pipe ends if it needs another one.
const HOSTS: usize = 256;

/// Limit for the session lists that one hub waits for. Further requests are refused.
const LISTS: usize = 8;

/// Time for the last lines of the relays, and again for closing the output.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves a hub. Without other hosts, this host's relay serves it directly.
pub(crate) async fn serve<R, W>(
    shared: &Arc<Shared>,
    principal: &Principal,
    folders: Folders,
    input: R,
    output: W,
    stop: impl Future<Output = ()> + Send,
) where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let options = shared.relay_options(principal, folders);
    let Some(peers) = &shared.options.peers else {
        serve_hub(shared.host.clone(), options, input, output, stop).await;
        return;
    };
    let mut router = RelayRouter::new(
        shared,
        peers.clone(),
        principal.clone(),
        options,
        Box::new(output),
    );
    let ended = router.run(Box::new(input), Box::pin(stop)).await;
    tracing::debug!(?ended, "a hub has gone");
    router.end(ended).await;
}

/// Reason for the end of a pipe.
#[derive(Debug)]
enum Ended {
    /// The hub has closed the pipe, or does not read.
    Hub,
    /// The caller has stopped it.
    Stopped,
    /// The connection to a host is lost.
    Host,
}

/// Pipe to the hub.
type Output = Arc<Mutex<Box<dyn AsyncWrite + Send + Unpin>>>;

struct RelayRouter {
    shared: Arc<Shared>,
    peers: Arc<dyn Peers>,
    principal: Principal,
    output: Output,
    /// Pipe to this host's relay.
    own: DuplexStream,
    stop_own: Option<oneshot::Sender<()>>,
    /// Task of this host's relay. The pipe ends with it.
    relay: JoinSet<()>,
    /// Tasks that copy the lines of other hosts to the hub. The pipe ends with any of them.
    copies: JoinSet<()>,
    /// Stops these tasks when true.
    is_over: watch::Sender<bool>,
    links: HashMap<String, WriteHalf<Box<dyn Stream>>>,
    /// Tasks that answer list requests.
    lists: JoinSet<()>,
    /// Sessions that the hub has at other hosts. The handle stops watching for a move.
    there: HashMap<SessionId, (String, AbortHandle)>,
    watched: Watched,
    /// Sessions that their hosts have refused.
    refused: Refused,
}

/// Destination of a line.
enum To {
    Own,
    Host(String),
    /// No host: the router answers with this line.
    Hub(Vec<u8>),
    /// All hosts: a request for a list of sessions.
    All(SessionsList),
}

impl RelayRouter {
    fn new(
        shared: &Arc<Shared>,
        peers: Arc<dyn Peers>,
        principal: Principal,
        options: RelayOptions,
        output: Box<dyn AsyncWrite + Send + Unpin>,
    ) -> Self {
        let (own, read) = tokio::io::duplex(ROOM);
        let (written, of_own) = tokio::io::duplex(ROOM);
        let (stop_own, stopped) = oneshot::channel();
        let output = Arc::new(Mutex::new(output));
        let mut relay = JoinSet::new();
        let (is_over, never) = (watch::Sender::new(false), watch::Sender::new(false));
        let (host, out) = (shared.host.clone(), output.clone());
        relay.spawn(async move {
            let stopped = async {
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let relay = serve_hub(host, options, read, written, stopped);
            tokio::join!(relay, copy_lines(of_own, out, Of::Own, never.subscribe()));
        });
        Self {
            shared: shared.clone(),
            peers,
            principal,
            output,
            own,
            stop_own: Some(stop_own),
            relay,
            copies: JoinSet::new(),
            is_over,
            links: HashMap::new(),
            lists: JoinSet::new(),
            there: HashMap::new(),
            watched: FuturesUnordered::new(),
            refused: Refused::default(),
        }
    }

    /// Routes the hub's lines until the pipe must end.
    async fn run(
        &mut self,
        mut input: Box<dyn AsyncRead + Unpin + Send + '_>,
        mut stop: BoxFuture<'_, ()>,
    ) -> Ended {
        // The same limits as in this host's relay.
        let mut lines = LineReader::of_peer(MAX_LINE);
        loop {
            let read = tokio::select! {
                biased;
                () = &mut stop => return Ended::Stopped,
                () = gone(&mut self.relay, &mut self.copies, &mut self.watched) => return Ended::Host,
                read = input.read(lines.space()) => read,
            };
            let is_last = !matches!(read, Ok(1..));
            if let Ok(bytes) = read {
                lines.filled(bytes);
            }
            while let Some(item) = lines.next() {
                let taken = tokio::select! {
                    biased;
                    () = &mut stop => return Ended::Stopped,
                    taken = self.take(item) => taken,
                };
                if let Err(error) = taken {
                    tracing::debug!("a line of a hub cannot be carried: {error}");
                    return Ended::Host;
                }
            }
            if is_last {
                if let Some(item) = lines.finish() {
                    // The hub has left: an error changes nothing.
                    let _ = self.take(item).await;
                }
                return Ended::Hub;
            }
        }
    }

    /// Routes one line. An error means that a host is lost.
    async fn take(&mut self, item: Item<'_>) -> io::Result<()> {
        let line = match item {
            Item::Line(line) => line,
            // The relay counts invalid lines.
            Item::NotUtf8 { line } | Item::Cut(line) => return write(&mut self.own, line).await,
            Item::NotObject(line) => return write(&mut self.own, line.as_bytes()).await,
            Item::TooLong { first, bytes } => return self.too_long(first, bytes).await,
        };
        match self.identity(line).await? {
            To::Own => write(&mut self.own, line.as_bytes()).await,
            To::Hub(answer) => self.output.lock().await.write_all(&answer).await,
            To::All(asked) => self.list(asked).await,
            To::Host(host) => {
                self.link(&host).await?;
                let Self {
                    links,
                    relay,
                    copies,
                    watched,
                    ..
                } = self;
                let Some(link) = links.get_mut(&host) else {
                    return Err(io::ErrorKind::NotConnected.into());
                };
                // While a host does not read, no further line of the hub is read. The pipe ends if
                // the host is lost.
                tokio::select! {
                    biased;
                    written = write(link, line.as_bytes()) => written,
                    () = gone(relay, copies, watched) => Err(io::ErrorKind::BrokenPipe.into()),
                }
            }
        }
    }

    /// Sends this host's relay a filler line of the same length, so that it reports the limit.
    async fn too_long(&mut self, first: &[u8], bytes: u64) -> io::Result<()> {
        self.own.write_all(first).await?;
        let rest = bytes.saturating_sub(first.len() as u64);
        tokio::io::copy(&mut tokio::io::repeat(b'x').take(rest), &mut self.own).await?;
        self.own.write_all(b"\n").await
    }

    /// Finds the destination of a line. An error ends the pipe.
    async fn identity(&mut self, line: &str) -> io::Result<To> {
        let Ok(head) = Head::read(line) else {
            return Ok(To::Own);
        };
        if head.session_id.is_empty() {
            return Ok(self.way_of_pipe(&head.kind, line).await);
        }
        let Ok(id) = SessionId::new(&*head.session_id) else {
            return Ok(To::Own);
        };
        let mut known = self.there.get(&id).map(|(host, _)| host.clone());
        let is_history = &*head.kind == "session.history";
        let place = match &*head.kind {
            "session.attach" => self.locate(&id).await,
            "session.history" if known.is_none() => self.locate(&id).await,
            "session.start" if known.is_none() => match self.start(&id, line).await {
                Some(place) => place,
                None => return Ok(To::Own),
            },
            "session.detach" | "session.close" => {
                self.forget(&id);
                return Ok(known.map_or(To::Own, To::Host));
            }
            "file.input" if known.is_some() => {
                let message = "the session is at another host, which has no such path: give the file by PUT \
                               /v1/sessions/ID/files, and its SHA-256 with the input";
                return Ok(To::Hub(error(id, Category::PermissionDenied, message)));
            }
            _ => return Ok(known.map_or(To::Own, To::Host)),
        };
        if let Some(host) = &known
            && self.refused.take(&id)
            && !place
                .as_ref()
                .is_ok_and(|place| matches!(place, SessionLocation::There(to) if to == host))
        {
            self.forget(&id);
            known = None;
        }
        match (place, known) {
            // The relay reports unknown sessions.
            (Ok(SessionLocation::Here | SessionLocation::Unknown), None) => Ok(To::Own),
            (Ok(SessionLocation::There(host)), None) => {
                if !is_history {
                    self.watch(id, &host);
                }
                Ok(To::Host(host))
            }
            (Ok(SessionLocation::There(host)), Some(known)) if host == known => Ok(To::Host(host)),
            (Ok(SessionLocation::Unavailable { host, why }), _) => {
                Ok(To::Hub(refused(&id, host_unavailable_text(&host, &why))))
            }
            (Err(why), _) => Ok(To::Hub(refused(&id, why))),
            // The session has moved without a `session.refused`. The pipe ends, so that no late
            // line follows those of the new host.
            (
                Ok(SessionLocation::Here | SessionLocation::Unknown | SessionLocation::There(_)),
                Some(_),
            ) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Finds the route of a message without a session. `sessions.list` with the extension `journal`
    /// goes to all hosts, or to one if it names a session.
    async fn way_of_pipe(&mut self, kind: &str, line: &str) -> To {
        if kind != "sessions.list" {
            return To::Own;
        }
        let Ok(HostMessage {
            body: HostBody::SessionsList(asked),
            ..
        }) = HostMessage::parse(line)
        else {
            return To::Own;
        };
        if !asked
            .extensions
            .iter()
            .flatten()
            .any(|name| name == "journal")
        {
            return To::Own;
        }
        let Some(id) = &asked.id else {
            return To::All(asked);
        };
        let Ok(id) = SessionId::new(&**id) else {
            return To::Own;
        };
        let why = match self.locate(&id).await {
            Ok(SessionLocation::Here | SessionLocation::Unknown) => return To::Own,
            Ok(SessionLocation::There(host)) => return To::Host(host),
            Ok(SessionLocation::Unavailable { host, why }) => host_unavailable_text(&host, &why),
            Err(why) => why,
        };
        To::Hub(list::refusal(asked.request_id, why))
    }

    /// Starts a task that answers with the sessions of all hosts.
    async fn list(&mut self, asked: SessionsList) -> io::Result<()> {
        while self.lists.try_join_next().is_some() {}
        if self.lists.len() == LISTS {
            let why = "too many lists wait already; ask again when one is answered".to_owned();
            return self
                .output
                .lock()
                .await
                .write_all(&list::refusal(asked.request_id, why))
                .await;
        }
        let (shared, peers, principal) = (
            self.shared.clone(),
            self.peers.clone(),
            self.principal.clone(),
        );
        let output = self.output.clone();
        self.lists.spawn(async move {
            let line = list::line(&shared, &principal, &*peers, asked).await;
            let mut output = output.lock().await;
            // Failures are ignored: the hub may have left.
            if output.write_all(&line).await.is_ok() {
                let _ = output.flush().await;
            }
        });
        Ok(())
    }

    async fn locate(&mut self, id: &SessionId) -> Result<SessionLocation, String> {
        let late = |_| "it is not known in time which host has the session; try again".to_owned();
        timeout(REACHED, self.peers.locate(id)).await.map_err(late)
    }

    /// Places a new journaled session. Returns `None` if this host's relay must start or refuse it.
    async fn start(
        &mut self,
        id: &SessionId,
        line: &str,
    ) -> Option<Result<SessionLocation, String>> {
        let HostBody::SessionStart(start) = HostMessage::parse(line).ok()?.body else {
            return None;
        };
        let is_journaled = start
            .extensions
            .iter()
            .flatten()
            .any(|name| name == "journal");
        if !is_journaled || self.principal.scope() < Scope::Control {
            return None;
        }
        let placed = timeout(REACHED, self.peers.place(id, start.agent_id.as_deref())).await;
        Some(
            placed.unwrap_or_else(|_| {
                Err("no host has taken the session in time; try again".to_owned())
            }),
        )
    }

    /// Connects to a host, unless a connection exists.
    async fn link(&mut self, host: &str) -> io::Result<()> {
        if !self.links.contains_key(host) {
            if self.links.len() == HOSTS {
                return Err(io::Error::other("the hub has sessions of too many hosts"));
            }
            let connected = timeout(
                REACHED,
                self.peers
                    .connect(host, ForwardedPrincipal::from_principal(&self.principal)),
            )
            .await;
            let (read, written) = tokio::io::split(connected.map_err(io::Error::from)??);
            let over = self.is_over.subscribe();
            self.copies.spawn(copy_lines(
                read,
                self.output.clone(),
                Of::Other(self.refused.clone()),
                over,
            ));
            self.links.insert(host.to_owned(), written);
        }
        Ok(())
    }

    /// Records a session at another host and watches for its move.
    fn watch(&mut self, id: SessionId, host: &str) {
        let (gone, watching) = futures_util::future::abortable(self.peers.moved(&id, host));
        self.watched.push(gone);
        self.there.insert(id, (host.to_owned(), watching));
    }

    fn forget(&mut self, id: &SessionId) {
        if let Some((_, watching)) = self.there.remove(id) {
            watching.abort();
        }
    }

    /// Ends the pipe. Relays get a short time for their last lines, unless the caller has stopped
    /// the router.
    async fn end(self, ended: Ended) {
        let Self {
            output,
            own,
            stop_own,
            mut relay,
            mut copies,
            is_over,
            mut links,
            mut lists,
            ..
        } = self;
        if matches!(ended, Ended::Stopped) {
            is_over.send_replace(true);
            lists.abort_all();
            if let Some(stop) = stop_own {
                // A relay without a receiver has stopped.
                let _ = stop.send(());
            }
        }
        drop(own);
        let told = async {
            let ends = join_all(links.values_mut().map(AsyncWriteExt::shutdown));
            let others = async { while copies.join_next().await.is_some() {} };
            let lists = async { while lists.join_next().await.is_some() {} };
            tokio::join!(ends, others, lists, relay.join_next());
        };
        let _ = timeout(LAST_WORDS, told).await;
        // Failures are ignored: the hub may have left.
        let _ = timeout(LAST_WORDS, async { output.lock().await.shutdown().await }).await;
    }
}

type Watched = FuturesUnordered<Abortable<BoxFuture<'static, ()>>>;

/// Resolves when a relay or a connection ends, or a session has moved.
async fn gone(relay: &mut JoinSet<()>, copies: &mut JoinSet<()>, watched: &mut Watched) {
    let moved = async {
        loop {
            match watched.next().await {
                Some(Ok(())) => return,
                // A session that the hub has left.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    };
    tokio::select! {
        _ = relay.join_next() => {}
        Some(_) = copies.join_next() => {}
        () = moved => {}
    }
}
