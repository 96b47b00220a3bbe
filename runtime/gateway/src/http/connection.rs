//! Connections: taken one by one, bounded in number, in the time until a request is there, and in its size.

mod http2;
mod rewind;

use std::{convert::Infallible, future::Future, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, http::Request, response::Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, getrlimit};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tower_service::Service;
use trunkline_relay::PrivateSocket;

use self::rewind::RewoundStream;
use crate::{
    auth::{authorizer::Folders, caller::Caller, principal::Principal},
    gateway::Shared,
    http::{
        listener::{Listener, ListenerIdentity},
        unauthenticated::{ClientAdmission, UnauthenticatedClients},
    },
    peers::router,
};

/// How many connections there are at a time over the network, at most.
const CONNECTIONS: usize = 16 * 1024;

/// How many there are on the socket.
const OWN_CONNECTIONS: usize = 1024;

/// How long a request's head may take, from its first byte or from the end of the request before.
const HEAD: Duration = Duration::from_secs(20);

/// The longest head, in bytes.
const HEAD_BYTES: usize = 8 * 1024;

/// How long a connection may take to say its first byte on the socket.
pub(crate) const FIRST: Duration = Duration::from_secs(60);

/// How long those that there are may take to end.
const ENDING: Duration = Duration::from_secs(2);

/// How long it waits after a connection could not be taken: there may be no descriptor.
const AGAIN: Duration = Duration::from_millis(100);

/// From where a request comes.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// The network: how it came in, who is at the other end, and whether that has shown a token.
    Network(Arc<ListenerIdentity>, Arc<Caller>, Arc<ClientAdmission>),
    /// The socket of this user.
    User,
    /// Another host, for who asks there.
    OtherHost(Principal),
}

/// The places that the connections of all entrances share.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionRoom {
    places: Arc<Semaphore>,
    strangers: Arc<UnauthenticatedClients>,
}

impl ConnectionRoom {
    pub(crate) fn new() -> Self {
        Self::of(connections())
    }

    /// Half of the places at least are for clients with a token.
    fn of(places: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places)),
            strangers: Arc::new(UnauthenticatedClients::new(places / 2)),
        }
    }
}

/// Takes connections over TCP until it is stopped.
pub(crate) async fn network(
    entrance: Listener,
    room: ConnectionRoom,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let Listener {
        listener,
        names,
        tls,
    } = entrance;
    let identity = Arc::new(ListenerIdentity { names, tls });
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            // Gone is stopped.
            _ = stopped.changed() => break,
            Some(_) = open.join_next() => continue,
            accepted = accept(&listener, &room.places) => accepted,
        };
        let Some((stream, peer, permit)) = accepted else {
            continue;
        };
        // Gone again.
        let Ok(own) = stream.local_addr() else {
            continue;
        };
        // A line at a time is said: none waits for more.
        let _ = stream.set_nodelay(true);
        let caller = Arc::new(Caller::new(peer, own));
        let identity = identity.clone();
        let strangers = room.strangers.clone();
        let router = router.clone();
        let mut stopped = stopped.clone();
        open.spawn(async move {
            let stream = tokio::select! {
                stream = strangers.admit(stream, permit) => stream,
                _ = stopped.changed() => return,
            };
            let from = Peer::Network(identity.clone(), caller, stream.admission());
            let Some(tls) = &identity.tls else {
                return serve(stream, router, from, stopped, ()).await;
            };
            let agreed = tokio::select! {
                agreed = tls.shake_hands(stream) => agreed,
                _ = stopped.changed() => return,
            };
            match agreed {
                Ok(stream) => serve(stream, router, from, stopped, ()).await,
                Err(error) => tracing::debug!("a client did not agree on TLS: {error}"),
            }
        });
    }
    drop(listener);
    end(open).await;
}

/// How many connections of the network there may be. Each is a descriptor: a quarter of those that
/// the process may have is left for the journal, for agents and for this user.
fn connections() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(descriptors / 4 * 3)
        .unwrap_or(CONNECTIONS)
        .clamp(1, CONNECTIONS)
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = room.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, permit)),
        Err(error) => {
            tracing::warn!("a connection was not taken: {error}");
            sleep(AGAIN).await;
            None
        }
    }
}

/// Connections of this user that may be silent for [`FIRST`]. A further one has [`SHORT_FIRST`], so
/// that silent ones do not use all of [`OWN_CONNECTIONS`].
const SILENT_CONNECTIONS: usize = OWN_CONNECTIONS / 2;

/// Timeout for the first byte while many connections are silent.
const SHORT_FIRST: Duration = Duration::from_secs(1);

/// Takes connections of this user: HTTP, and hubs that speak the protocol itself, told apart by
/// their first byte, which is a brace or a blank for a line of the protocol.
pub(crate) async fn socket(
    socket: PrivateSocket,
    router: Router,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut open = JoinSet::new();
    let silent = Arc::new(Semaphore::new(SILENT_CONNECTIONS));
    loop {
        let mut stream = tokio::select! {
            biased;
            // Gone is stopped.
            _ = stopped.changed() => break,
            Some(_) = open.join_next() => continue,
            stream = socket.accept(), if open.len() < OWN_CONNECTIONS => stream,
        };
        let (router, shared, mut stopped) = (router.clone(), shared.clone(), stopped.clone());
        let silent = silent.clone().try_acquire_owned();
        open.spawn(async move {
            let mut first = [0];
            let patience = if silent.is_ok() { FIRST } else { SHORT_FIRST };
            let read = tokio::select! {
                read = timeout(patience, stream.read_exact(&mut first)) => read,
                _ = stopped.changed() => return,
            };
            drop(silent);
            if !matches!(read, Ok(Ok(_))) {
                return;
            }
            let (input, output) = stream.into_split();
            let input = std::io::Cursor::new(first).chain(input);
            if first[0].is_ascii_uppercase() {
                return serve(
                    tokio::io::join(input, output),
                    router,
                    Peer::User,
                    stopped,
                    (),
                )
                .await;
            }
            let stop = async move {
                // Gone is stopped.
                let _ = stopped.changed().await;
            };
            router::serve(
                &shared,
                &Principal::User,
                Folders::Refused,
                input,
                output,
                stop,
            )
            .await;
        });
    }
    drop(socket);
    end(open).await;
}

async fn end(mut open: JoinSet<()>) {
    let ended = async { while open.join_next().await.is_some() {} };
    // Those that are left are dropped.
    let _ = timeout(ENDING, ended).await;
}

/// Serves the requests of one connection, which holds its place as long.
pub(crate) async fn serve<S>(
    stream: S,
    router: Router,
    from: Peer,
    mut stopped: watch::Receiver<bool>,
    place: impl Send,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let begun = tokio::select! {
        begun = timeout(HEAD, RewoundStream::of(stream)) => begun,
        _ = stopped.changed() => return,
    };
    let Ok(Ok(stream)) = begun else { return };
    if stream.is_http2() {
        http2::serve(stream, router, from, stopped).await;
        return drop(place);
    }
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service(router, from))
        .with_upgrades();
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        _ = stopped.changed() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection has ended: {error}");
    }
    drop(place);
}

/// Answers the requests of a connection, each of which notes from where it comes.
fn service(
    router: Router,
    from: Peer,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = Response,
    Error = Infallible,
    Future = impl Future<Output = Result<Response, Infallible>> + Send,
> + Send {
    service_fn(move |request: Request<Incoming>| {
        let (mut router, from) = (router.clone(), from.clone());
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(from.clone());
            let admission = match &from {
                Peer::Network(_, _, admission) => Some(admission),
                Peer::User | Peer::OtherHost(_) => None,
            };
            admission.inspect(|it| it.asks());
            let answer = router.call(request).await;
            admission.inspect(|it| it.answered());
            Ok(answer.unwrap_or_else(|never| match never {}))
        }
    })
}

#[cfg(test)]
mod tests;
