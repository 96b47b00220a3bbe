//! A hub on one pipe, with sessions of several hosts: each line goes where its session is, and
//! lines come back whole.
//!
//! What names no session of another host goes to this host's relay, which knows nothing of the
//! switch. When a session moves in order, the host that had it says so to the hub
//! (`session.refused`), which attaches to it again. When a host goes, so does the hub's pipe: it
//! attaches to all of its sessions again. Either way it does so at wherever they are then, behind
//! the last entry that it has, and gets no entry twice, and misses none.

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

/// How much is on its way between the switch and this host's relay, in bytes.
const ROOM: usize = 64 * 1024;

/// How many other hosts one hub may have sessions of. For a further one its pipe is not opened.
const HOSTS: usize = 256;

/// How many lists of sessions one hub may wait for. A further one is refused.
const LISTS: usize = 8;

/// How long a hub is still told what is said when its pipe ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves a hub: by this host's relay, or where there are other hosts, by that of each session.
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

/// Why a pipe ends.
#[derive(Debug)]
enum Ended {
    /// The hub has gone, or does not read.
    Hub,
    /// It was asked to.
    Stopped,
    /// A host has gone.
    Host,
}

/// To the hub.
type Output = Arc<Mutex<Box<dyn AsyncWrite + Send + Unpin>>>;

struct RelayRouter {
    shared: Arc<Shared>,
    peers: Arc<dyn Peers>,
    principal: Principal,
    output: Output,
    /// To this host's relay.
    own: DuplexStream,
    stop_own: Option<oneshot::Sender<()>>,
    /// This host's relay. Where it ends the pipe does.
    relay: JoinSet<()>,
    /// What carries the lines of each other host to the hub: the same.
    copies: JoinSet<()>,
    /// Whether they carry no further line.
    is_over: watch::Sender<bool>,
    links: HashMap<String, WriteHalf<Box<dyn Stream>>>,
    /// What answers with the sessions of all hosts.
    lists: JoinSet<()>,
    /// The sessions of other hosts that the hub has, and what watches that they stay there.
    there: HashMap<SessionId, (String, AbortHandle)>,
    watched: Watched,
    /// Those of them that the hub knows to be there no more.
    refused: Refused,
}

/// Where a line goes.
enum To {
    Own,
    Host(String),
    /// Nowhere: this is the answer.
    Hub(Vec<u8>),
    /// To all hosts: their sessions are asked for.
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

    /// Takes what the hub says until the pipe is to end.
    async fn run(
        &mut self,
        mut input: Box<dyn AsyncRead + Unpin + Send + '_>,
        mut stop: BoxFuture<'_, ()>,
    ) -> Ended {
        // As this host's relay reads them.
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
                    // In vain where no one is there any more.
                    let _ = self.take(item).await;
                }
                return Ended::Hub;
            }
        }
    }

    /// Takes one line. An error is a host that has gone.
    async fn take(&mut self, item: Item<'_>) -> io::Result<()> {
        let line = match item {
            Item::Line(line) => line,
            // The relay counts them.
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
                // While a host does not read, nothing more of the hub is taken, as by a relay; its
                // end is the pipe's.
                tokio::select! {
                    biased;
                    written = write(link, line.as_bytes()) => written,
                    () = gone(relay, copies, watched) => Err(io::ErrorKind::BrokenPipe.into()),
                }
            }
        }
    }

    /// Gives this host's relay a line as long as one that was skipped, of which it says the same.
    async fn too_long(&mut self, first: &[u8], bytes: u64) -> io::Result<()> {
        self.own.write_all(first).await?;
        let rest = bytes.saturating_sub(first.len() as u64);
        tokio::io::copy(&mut tokio::io::repeat(b'x').take(rest), &mut self.own).await?;
        self.own.write_all(b"\n").await
    }

    /// Where a line goes.
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
            // What this host does not know either, it says.
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
            // It has moved, and the hub was not told yet: its pipe ends, so that nothing comes
            // behind what is new.
            (
                Ok(SessionLocation::Here | SessionLocation::Unknown | SessionLocation::There(_)),
                Some(_),
            ) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Where a message of the pipe itself goes: one that asks for sessions of the journal to all
    /// hosts, or where it names one, to its host.
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

    /// Answers with the sessions of all hosts, once they have told theirs.
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
            // In vain where the hub has gone.
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

    /// Where a session of the journal begins. `None`: it is one of this pipe alone, or is refused here.
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

    /// Opens the way to a host, where there is none yet.
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

    /// Notes that the hub has a session of another host.
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

    /// Lets each relay say what it has to say last, and waits for it a little. Who may hear no more
    /// hears no other host.
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
                // Gone has stopped.
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
        // In vain where the hub has gone.
        let _ = timeout(LAST_WORDS, async { output.lock().await.shutdown().await }).await;
    }
}

type Watched = FuturesUnordered<Abortable<BoxFuture<'static, ()>>>;

/// Resolves when a host has gone.
async fn gone(relay: &mut JoinSet<()>, copies: &mut JoinSet<()>, watched: &mut Watched) {
    let moved = async {
        loop {
            match watched.next().await {
                Some(Ok(())) => return,
                // It is watched no more.
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
