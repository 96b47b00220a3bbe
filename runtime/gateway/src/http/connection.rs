//! Connections of the network and of the daemon's socket. Their number is limited, and so are the
//! time and the size of a request's head.

mod http2;

use std::{
    convert::Infallible,
    future::Future,
    io,
    io::Cursor,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, HttpBody},
    http::Request,
    response::Response,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, getrlimit};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tower_service::Service;
use trunkline_relay::PrivateSocket;

use crate::{
    auth::{authorizer::HubOrigin, caller::Caller, principal::Principal},
    gateway::Shared,
    http::{
        listener::{Listener, ListenerIdentity},
        unauthenticated::{ClientAdmission, UnauthenticatedClients},
    },
    peers::router,
};

/// Limit for the connections over the network.
const MAX_NETWORK_CONNECTIONS: usize = 16 * 1024;

/// Limit for the connections on the daemon's socket.
const MAX_SOCKET_CONNECTIONS: usize = 1024;

/// Timeout for the head of a request, from its first byte or from the end of the previous request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);

/// Limit for the head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 8 * 1024;

/// Timeout for the first byte of a connection on the socket.
pub(crate) const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time that open connections have to finish when the gateway stops.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// Delay after a failed `accept`, for example for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Origin of a request.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// Network: the listener, the process at the other end, and the state of its authentication.
    Network(Arc<ListenerIdentity>, Arc<Caller>, Arc<ClientAdmission>),
    /// The daemon's socket, which only this user can open.
    User,
    /// Another host, on behalf of a principal.
    OtherHost(Principal),
}

impl Peer {
    fn admission(&self) -> Option<&Arc<ClientAdmission>> {
        match self {
            Self::Network(_, _, admission) => Some(admission),
            Self::User | Self::OtherHost(_) => None,
        }
    }
}

/// Connection limit that all listeners share.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionRoom {
    places: Arc<Semaphore>,
    strangers: Arc<UnauthenticatedClients>,
}

impl ConnectionRoom {
    pub(crate) fn new() -> Self {
        Self::with_places(max_network_connections())
    }

    /// Keeps at least half of the places for clients with a token.
    fn with_places(places: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places)),
            strangers: Arc::new(UnauthenticatedClients::new(places / 2)),
        }
    }
}

/// Accepts connections over TCP until it is stopped.
pub(crate) async fn serve_network(
    listener_config: Listener,
    room: ConnectionRoom,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let Listener {
        listener,
        names,
        tls,
    } = listener_config;
    let identity = Arc::new(ListenerIdentity { names, tls });
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            // A dropped sender counts as a stop.
            _ = stopped.changed() => break,
            Some(_) = open.join_next() => continue,
            accepted = accept_connection(&listener, &room.places) => accepted,
        };
        let Some((stream, peer, permit)) = accepted else {
            continue;
        };
        // The connection is closed already.
        let Ok(own) = stream.local_addr() else {
            continue;
        };
        // Lines are small, and each must be sent at once.
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
                Err(error) => tracing::debug!("a TLS handshake has failed: {error}"),
            }
        });
    }
    drop(listener);
    finish_connections(open).await;
}

/// Returns the connection limit for the network. A quarter of the process's file descriptors stays
/// free for the journal, agents, and the socket.
fn max_network_connections() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(descriptors / 4 * 3)
        .unwrap_or(MAX_NETWORK_CONNECTIONS)
        .clamp(1, MAX_NETWORK_CONNECTIONS)
}

async fn accept_connection(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = room.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, permit)),
        Err(error) => {
            tracing::warn!("failed to accept a connection: {error}");
            sleep(ACCEPT_RETRY_DELAY).await;
            None
        }
    }
}

/// Connections of this user that may be silent for [`FIRST_BYTE_TIMEOUT`]. A further one has
/// [`SHORT_FIRST_BYTE_TIMEOUT`], so that silent ones do not use all of [`MAX_SOCKET_CONNECTIONS`].
const MAX_SILENT_CONNECTIONS: usize = MAX_SOCKET_CONNECTIONS / 2;

/// Timeout for the first byte while many connections are silent.
const SHORT_FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(1);

/// Accepts connections of this user: HTTP, and hubs that use the protocol. The first byte decides:
/// a line of the protocol begins with a brace or white space.
pub(crate) async fn serve_socket(
    socket: PrivateSocket,
    router: Router,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut open = JoinSet::new();
    let silent = Arc::new(Semaphore::new(MAX_SILENT_CONNECTIONS));
    loop {
        let mut stream = tokio::select! {
            biased;
            // A dropped sender counts as a stop.
            _ = stopped.changed() => break,
            Some(_) = open.join_next() => continue,
            stream = socket.accept(), if open.len() < MAX_SOCKET_CONNECTIONS => stream,
        };
        let router = router.clone();
        let shared = shared.clone();
        let mut stopped = stopped.clone();
        let silent = silent.clone().try_acquire_owned();
        open.spawn(async move {
            let mut first = [0];
            let patience = if silent.is_ok() {
                FIRST_BYTE_TIMEOUT
            } else {
                SHORT_FIRST_BYTE_TIMEOUT
            };
            let read = tokio::select! {
                read = timeout(patience, stream.read_exact(&mut first)) => read,
                _ = stopped.changed() => return,
            };
            drop(silent);
            if !matches!(read, Ok(Ok(_))) {
                return;
            }
            let (input, output) = stream.into_split();
            let input = Cursor::new(first).chain(input);
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
                // A dropped sender counts as a stop.
                let _ = stopped.changed().await;
            };
            router::serve(
                &shared,
                &Principal::User,
                HubOrigin::Network,
                input,
                output,
                stop,
            )
            .await;
        });
    }
    drop(socket);
    finish_connections(open).await;
}

async fn finish_connections(mut open: JoinSet<()>) {
    let ended = async { while open.join_next().await.is_some() {} };
    // Remaining connections are dropped.
    let _ = timeout(SHUTDOWN_GRACE, ended).await;
}

/// First bytes of an HTTP/2 connection. No HTTP/1 method has this name.
const HTTP2_PREFACE: &[u8] = b"PRI ";

/// Timeout for reading the rest of a refused request before the connection closes.
const LINGER_TIMEOUT: Duration = Duration::from_secs(10);

/// Limit for this rest, in bytes.
const MAX_LINGER_BYTES: usize = 64 * 1024 * 1024;

/// Receiving half of a connection, which outlives its HTTP server.
struct SharedInput<R>(Arc<Mutex<R>>);

impl<R> Clone for SharedInput<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for SharedInput<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut input = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Pin::new(&mut *input).poll_read(cx, to)
    }
}

impl<R: AsyncRead + Unpin> SharedInput<R> {
    /// Reads and drops the rest of a refused request. Many clients read the answer only after they
    /// have sent the whole body, and a close with unread bytes would discard it.
    async fn drain(&mut self, admission: Option<&Arc<ClientAdmission>>) {
        let mut part = vec![0; 16 * 1024];
        let mut bytes = 0;
        while let Ok(read @ 1..) = self.read(&mut part).await
            && bytes < MAX_LINGER_BYTES
        {
            bytes += read;
            admission.inspect(|it| it.finish_request());
        }
    }
}

/// Reads up to the first byte that differs from the preface of HTTP/2. Returns true for HTTP/2, and
/// the halves of the connection, which returns these bytes again.
///
/// # Errors
/// Fails if the connection fails or ends.
async fn detect_http2<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    mut stream: S,
) -> io::Result<(
    bool,
    SharedInput<impl AsyncRead + Unpin + Send + 'static>,
    impl AsyncWrite + Unpin + Send + 'static,
)> {
    let mut first = Vec::with_capacity(HTTP2_PREFACE.len());
    while first.len() < HTTP2_PREFACE.len() && HTTP2_PREFACE.starts_with(&first) {
        first.push(stream.read_u8().await?);
    }
    let is_http2 = first == HTTP2_PREFACE;
    let (input, output) = tokio::io::split(stream);
    let input = Cursor::new(first).chain(input);
    Ok((is_http2, SharedInput(Arc::new(Mutex::new(input))), output))
}

/// Serves the requests of one connection, and holds its place until the end.
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
        begun = timeout(HEAD_TIMEOUT, detect_http2(stream)) => begun,
        _ = stopped.changed() => return,
    };
    let Ok(Ok((is_http2, mut input, output))) = begun else {
        return;
    };
    let stream = tokio::io::join(input.clone(), output);
    if is_http2 {
        http2::serve(stream, router, from, stopped).await;
        return drop(place);
    }
    let admission = from.admission().cloned();
    let is_refused = Arc::new(AtomicBool::new(false));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(
            TokioIo::new(stream),
            request_service(router, from, is_refused.clone()),
        )
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
    if is_refused.load(SeqCst) {
        // A timeout leaves the rest unread.
        let _ = timeout(LINGER_TIMEOUT, input.drain(admission.as_ref())).await;
    }
    drop(place);
}

/// Returns the service of a connection. It records the origin of each request, and whether the last
/// one was refused and had a body.
fn request_service(
    router: Router,
    from: Peer,
    is_refused: Arc<AtomicBool>,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = Response,
    Error = Infallible,
    Future = impl Future<Output = Result<Response, Infallible>> + Send,
> + Send {
    service_fn(move |request: Request<Incoming>| {
        let mut router = router.clone();
        let from = from.clone();
        let is_refused = is_refused.clone();
        async move {
            let has_body = !request.body().is_end_stream();
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(from.clone());
            let admission = from.admission();
            admission.inspect(|it| it.begin_request());
            let answer = router.call(request).await;
            admission.inspect(|it| it.finish_request());
            let answer = answer.unwrap_or_else(|never| match never {});
            is_refused.store(has_body && answer.status().as_u16() >= 400, SeqCst);
            Ok(answer)
        }
    })
}

#[cfg(test)]
mod tests;
