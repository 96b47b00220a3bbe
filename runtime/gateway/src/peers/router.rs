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

use self::lines::{LineSource, RefusedSessions, copy_lines, error_line, refused_line, write_line};
use super::{
    Peers, SessionLocation, Stream,
    forward::{self, PEER_TIMEOUT, host_unavailable_text},
    list,
};
use crate::{
    auth::{authorizer::HubOrigin, principal::Principal, token::Scope},
    gateway::Shared,
    http::problem::Problem,
};

/// Capacity of the pipes between the router and this host's relay, in bytes.
const PIPE_BYTES: usize = 64 * 1024;

/// Limit for the hosts that one hub has sessions of. Its pipe ends if it needs another one.
const MAX_HOSTS: usize = 256;

/// Limit for the session lists that one hub waits for. Further requests are refused.
const MAX_WAITING_LISTS: usize = 8;

/// Time for the last lines of the relays, and again for closing the output.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Serves a hub. Without other hosts, this host's relay serves it directly.
pub(crate) async fn serve<R, W>(
    shared: &Arc<Shared>,
    principal: &Principal,
    hub: HubOrigin,
    input: R,
    output: W,
    stop: impl Future<Output = ()> + Send,
) where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let options = shared.relay_options(principal, hub);
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
    tracing::debug!(?ended, "the pipe of a hub has ended");
    router.finish(ended).await;
}

/// Reason for the end of a pipe.
#[derive(Debug)]
enum PipeEnd {
    /// The hub has closed the pipe, or does not read.
    Hub,
    /// The caller has stopped it.
    Stopped,
    /// The connection to a host is lost.
    Host,
}

/// Pipe to the hub.
type HubOutput = Arc<Mutex<Box<dyn AsyncWrite + Send + Unpin>>>;

struct RelayRouter {
    shared: Arc<Shared>,
    peers: Arc<dyn Peers>,
    principal: Principal,
    output: HubOutput,
    /// Pipe to this host's relay.
    own: DuplexStream,
    stop_own: Option<oneshot::Sender<()>>,
    /// Task of this host's relay. The pipe ends with it.
    relay: JoinSet<()>,
    /// Tasks that copy the lines of other hosts to the hub. The pipe ends with any of them.
    copies: JoinSet<()>,
    /// Stops these tasks when true.
    is_over: watch::Sender<bool>,
    connections: HashMap<String, WriteHalf<Box<dyn Stream>>>,
    /// Tasks that answer list requests.
    lists: JoinSet<()>,
    /// Sessions that the hub has at other hosts. The handle stops watching for a move.
    remote_sessions: HashMap<SessionId, (String, AbortHandle)>,
    watched: WatchedMoves,
    /// Sessions that their hosts have refused.
    refused: RefusedSessions,
}

/// Destination of a line.
enum LineRoute {
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
        let (own, read) = tokio::io::duplex(PIPE_BYTES);
        let (written, from_own) = tokio::io::duplex(PIPE_BYTES);
        let (stop_own, stopped) = oneshot::channel();
        let output = Arc::new(Mutex::new(output));
        let mut relay = JoinSet::new();
        let is_over = watch::Sender::new(false);
        let never = watch::Sender::new(false);
        let host = shared.host.clone();
        let hub = output.clone();
        relay.spawn(async move {
            let stopped = async {
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let relay = serve_hub(host, options, read, written, stopped);
            tokio::join!(
                relay,
                copy_lines(from_own, hub, LineSource::Own, never.subscribe())
            );
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
            connections: HashMap::new(),
            lists: JoinSet::new(),
            remote_sessions: HashMap::new(),
            watched: FuturesUnordered::new(),
            refused: RefusedSessions::default(),
        }
    }

    /// Routes the hub's lines until the pipe must end.
    async fn run(
        &mut self,
        mut input: Box<dyn AsyncRead + Unpin + Send + '_>,
        mut stop: BoxFuture<'_, ()>,
    ) -> PipeEnd {
        // The same limits as in this host's relay.
        let mut lines = LineReader::of_peer(MAX_LINE);
        loop {
            let read = tokio::select! {
                biased;
                () = &mut stop => return PipeEnd::Stopped,
                () = host_lost(&mut self.relay, &mut self.copies, &mut self.watched) => return PipeEnd::Host,
                read = input.read(lines.space()) => read,
            };
            let is_last = !matches!(read, Ok(1..));
            if let Ok(bytes) = read {
                lines.filled(bytes);
            }
            while let Some(item) = lines.next() {
                let taken = tokio::select! {
                    biased;
                    () = &mut stop => return PipeEnd::Stopped,
                    taken = self.route_line(item) => taken,
                };
                if let Err(error) = taken {
                    tracing::debug!("failed to route a line of a hub: {error}");
                    return PipeEnd::Host;
                }
            }
            if is_last {
                if let Some(item) = lines.finish() {
                    // The hub has left: an error changes nothing.
                    let _ = self.route_line(item).await;
                }
                return PipeEnd::Hub;
            }
        }
    }

    /// Routes one line. An error means that a host is lost.
    async fn route_line(&mut self, item: Item<'_>) -> io::Result<()> {
        let line = match item {
            Item::Line(line) => line,
            // The relay counts invalid lines.
            Item::NotUtf8 { line } | Item::Cut(line) => {
                return write_line(&mut self.own, line).await;
            }
            Item::NotObject(line) => return write_line(&mut self.own, line.as_bytes()).await,
            Item::TooLong { first, bytes } => return self.send_oversized(first, bytes).await,
        };
        match self.find_route(line).await? {
            LineRoute::Own => write_line(&mut self.own, line.as_bytes()).await,
            LineRoute::Hub(answer) => self.output.lock().await.write_all(&answer).await,
            LineRoute::All(asked) => self.list_sessions(asked).await,
            LineRoute::Host(host) => {
                self.connect_host(&host).await?;
                let Self {
                    connections,
                    relay,
                    copies,
                    watched,
                    ..
                } = self;
                let Some(link) = connections.get_mut(&host) else {
                    return Err(io::ErrorKind::NotConnected.into());
                };
                // While a host does not read, no further line of the hub is read. The pipe ends if
                // the host is lost.
                tokio::select! {
                    biased;
                    written = write_line(link, line.as_bytes()) => written,
                    () = host_lost(relay, copies, watched) => Err(io::ErrorKind::BrokenPipe.into()),
                }
            }
        }
    }

    /// Sends this host's relay a filler line of the same length, so that it reports the limit.
    async fn send_oversized(&mut self, first: &[u8], bytes: u64) -> io::Result<()> {
        self.own.write_all(first).await?;
        let rest = bytes.saturating_sub(first.len() as u64);
        tokio::io::copy(&mut tokio::io::repeat(b'x').take(rest), &mut self.own).await?;
        self.own.write_all(b"\n").await
    }

    /// Finds the destination of a line. An error ends the pipe.
    async fn find_route(&mut self, line: &str) -> io::Result<LineRoute> {
        let Ok(head) = Head::read(line) else {
            return Ok(LineRoute::Own);
        };
        if head.session_id.is_empty() {
            return Ok(self.find_pipe_route(&head.kind, line).await);
        }
        let Ok(id) = SessionId::new(&*head.session_id) else {
            return Ok(LineRoute::Own);
        };
        let mut known = self.remote_sessions.get(&id).map(|(host, _)| host.clone());
        let is_history = &*head.kind == "session.history";
        let place = match &*head.kind {
            "session.attach" => self.locate(&id).await,
            "session.history" if known.is_none() => self.locate(&id).await,
            "session.start" if known.is_none() => match self.place_session(&id, line).await {
                Some(place) => place,
                None => return Ok(LineRoute::Own),
            },
            "session.detach" | "session.close" => {
                self.forget_session(&id);
                return Ok(known.map_or(LineRoute::Own, LineRoute::Host));
            }
            "file.input" if known.is_some() => {
                let message = "the session is at another host, which has no such path: give the file by PUT \
                               /v1/sessions/ID/files, and its SHA-256 with the input";
                return Ok(LineRoute::Hub(error_line(
                    id,
                    Category::PermissionDenied,
                    message,
                )));
            }
            _ => return Ok(known.map_or(LineRoute::Own, LineRoute::Host)),
        };
        if let Some(host) = &known
            && self.refused.remove(&id)
            && !place
                .as_ref()
                .is_ok_and(|place| matches!(place, SessionLocation::There(to) if to == host))
        {
            self.forget_session(&id);
            known = None;
        }
        match (place, known) {
            // The relay reports unknown sessions.
            (Ok(SessionLocation::Here | SessionLocation::Unknown), None) => Ok(LineRoute::Own),
            (Ok(SessionLocation::There(host)), None) => {
                if !is_history {
                    self.watch_session(id, &host);
                }
                Ok(LineRoute::Host(host))
            }
            (Ok(SessionLocation::There(host)), Some(known)) if host == known => {
                Ok(LineRoute::Host(host))
            }
            (Ok(SessionLocation::Unavailable { host, why }), _) => Ok(LineRoute::Hub(
                refused_line(&id, host_unavailable_text(&host, &why)),
            )),
            (Err(why), _) => Ok(LineRoute::Hub(refused_line(&id, why))),
            // The session has moved without a `session.refused`. The pipe ends, so that no late
            // line follows the new host's lines.
            (
                Ok(SessionLocation::Here | SessionLocation::Unknown | SessionLocation::There(_)),
                Some(_),
            ) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Finds the route of a message without a session. `sessions.list` with the extension `journal`
    /// goes to all hosts, or to one if it names a session.
    async fn find_pipe_route(&mut self, kind: &str, line: &str) -> LineRoute {
        if kind != "sessions.list" {
            return LineRoute::Own;
        }
        let Ok(HostMessage {
            body: HostBody::SessionsList(asked),
            ..
        }) = HostMessage::parse(line)
        else {
            return LineRoute::Own;
        };
        if !is_journaled(asked.extensions.as_ref()) {
            return LineRoute::Own;
        }
        let Some(id) = &asked.id else {
            return LineRoute::All(asked);
        };
        let Ok(id) = SessionId::new(&**id) else {
            return LineRoute::Own;
        };
        let why = match self.locate(&id).await {
            Ok(SessionLocation::Here | SessionLocation::Unknown) => return LineRoute::Own,
            Ok(SessionLocation::There(host)) => return LineRoute::Host(host),
            Ok(SessionLocation::Unavailable { host, why }) => host_unavailable_text(&host, &why),
            Err(why) => why,
        };
        LineRoute::Hub(list::refusal_line(asked.request_id, why))
    }

    /// Starts a task that answers with the sessions of all hosts.
    async fn list_sessions(&mut self, asked: SessionsList) -> io::Result<()> {
        while self.lists.try_join_next().is_some() {}
        if self.lists.len() == MAX_WAITING_LISTS {
            let why = "too many lists wait already; ask again when one is answered".to_owned();
            return self
                .output
                .lock()
                .await
                .write_all(&list::refusal_line(asked.request_id, why))
                .await;
        }
        let shared = self.shared.clone();
        let peers = self.peers.clone();
        let principal = self.principal.clone();
        let output = self.output.clone();
        self.lists.spawn(async move {
            let line = list::list_as_line(&shared, &principal, &*peers, asked).await;
            let mut output = output.lock().await;
            // Failures are ignored: the hub may have left.
            if output.write_all(&line).await.is_ok() {
                let _ = output.flush().await;
            }
        });
        Ok(())
    }

    async fn locate(&mut self, id: &SessionId) -> Result<SessionLocation, String> {
        let located = forward::locate(&*self.peers, id).await;
        located.map_err(Problem::into_detail)
    }

    /// Places a new journaled session. Returns `None` if this host's relay must start or refuse it.
    async fn place_session(
        &mut self,
        id: &SessionId,
        line: &str,
    ) -> Option<Result<SessionLocation, String>> {
        let HostBody::SessionStart(start) = HostMessage::parse(line).ok()?.body else {
            return None;
        };
        if !is_journaled(start.extensions.as_ref()) || self.principal.scope() < Scope::Control {
            return None;
        }
        let placed = timeout(
            PEER_TIMEOUT,
            self.peers.place(id, start.agent_id.as_deref()),
        )
        .await;
        Some(
            placed.unwrap_or_else(|_| {
                Err("no host accepted the session in time; try again".to_owned())
            }),
        )
    }

    /// Connects to a host, unless a connection exists.
    async fn connect_host(&mut self, host: &str) -> io::Result<()> {
        if !self.connections.contains_key(host) {
            if self.connections.len() == MAX_HOSTS {
                return Err(io::Error::other("the hub has sessions of too many hosts"));
            }
            let connected = forward::connect_to_host(&*self.peers, &self.principal, host);
            let (read, written) = tokio::io::split(connected.await?);
            let over = self.is_over.subscribe();
            self.copies.spawn(copy_lines(
                read,
                self.output.clone(),
                LineSource::Other(self.refused.clone()),
                over,
            ));
            self.connections.insert(host.to_owned(), written);
        }
        Ok(())
    }

    /// Records a session at another host and watches for its move.
    fn watch_session(&mut self, id: SessionId, host: &str) {
        let (gone, watching) = futures_util::future::abortable(self.peers.moved(&id, host));
        self.watched.push(gone);
        self.remote_sessions.insert(id, (host.to_owned(), watching));
    }

    fn forget_session(&mut self, id: &SessionId) {
        if let Some((_, watching)) = self.remote_sessions.remove(id) {
            watching.abort();
        }
    }

    /// Ends the pipe. Relays get a short time for their last lines, unless the caller has stopped
    /// the router.
    async fn finish(self, ended: PipeEnd) {
        let Self {
            output,
            own,
            stop_own,
            mut relay,
            mut copies,
            is_over,
            mut connections,
            mut lists,
            ..
        } = self;
        if matches!(ended, PipeEnd::Stopped) {
            is_over.send_replace(true);
            lists.abort_all();
            if let Some(stop) = stop_own {
                // A relay without a receiver has stopped.
                let _ = stop.send(());
            }
        }
        drop(own);
        let drained = async {
            let ends = join_all(connections.values_mut().map(AsyncWriteExt::shutdown));
            let others = async { while copies.join_next().await.is_some() {} };
            let lists = async { while lists.join_next().await.is_some() {} };
            tokio::join!(ends, others, lists, relay.join_next());
        };
        let _ = timeout(CLOSE_GRACE, drained).await;
        // Failures are ignored: the hub may have left.
        let _ = timeout(CLOSE_GRACE, async { output.lock().await.shutdown().await }).await;
    }
}

/// Returns true if a hub understands the extension `journal`.
fn is_journaled(extensions: Option<&Vec<String>>) -> bool {
    extensions.is_some_and(|names| names.iter().any(|name| name == "journal"))
}

type WatchedMoves = FuturesUnordered<Abortable<BoxFuture<'static, ()>>>;

/// Resolves when a relay or a connection ends, or a session has moved.
async fn host_lost(relay: &mut JoinSet<()>, copies: &mut JoinSet<()>, watched: &mut WatchedMoves) {
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
