//! Connections: taken one by one, bounded in number, in the time until a request is there, and in its size.

use std::{convert::Infallible, future::Future, sync::Arc, time::Duration};

use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, getrlimit};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tower_service::Service;
use trunkline_relay::{PrivateSocket, RelayOptions, serve_hub};

use crate::gateway::Shared;

/// How many connections there are at a time over the network, at most.
const CONNECTIONS: usize = 16 * 1024;

/// How many there are on the socket.
const OWN_CONNECTIONS: usize = 1024;

/// How long a request's head may take, from its first byte or from the end of the request before.
const HEAD: Duration = Duration::from_secs(20);

/// The longest head, in bytes.
const HEAD_BYTES: usize = 8 * 1024;

/// How long a connection may take to say its first byte on the socket.
const FIRST: Duration = Duration::from_secs(60);

/// How long those that there are may take to end.
const ENDING: Duration = Duration::from_secs(2);

/// How long it waits after a connection could not be taken: there may be no descriptor.
const AGAIN: Duration = Duration::from_millis(100);

/// From where a request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The network.
    Network,
    /// The socket of this user.
    User,
}

/// Takes connections over TCP until it is stopped.
pub(crate) async fn network(listener: TcpListener, router: Router, mut stopped: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(connections()));
    let mut open = JoinSet::new();
    loop {
        let stream = tokio::select! {
            biased;
            // Gone is stopped.
            _ = stopped.changed() => break,
            Some(_) = open.join_next() => continue,
            accepted = accept(&listener, &room) => accepted,
        };
        let Some((stream, permit)) = stream else { continue };
        let (router, stopped) = (router.clone(), stopped.clone());
        open.spawn(async move {
            // A line at a time is said: none waits for more.
            let _ = stream.set_nodelay(true);
            serve(stream, router, Peer::Network, stopped).await;
            drop(permit);
        });
    }
    drop(listener);
    end(open).await;
}

/// How many connections of the network there may be. Each is a descriptor: a quarter of those that the process may have
/// is left for the journal, for agents and for this user.
fn connections() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(descriptors / 4 * 3).unwrap_or(CONNECTIONS).clamp(1, CONNECTIONS)
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = room.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(error) => {
            tracing::warn!("a connection was not taken: {error}");
            sleep(AGAIN).await;
            None
        }
    }
}

/// Takes connections of this user: HTTP, and hubs that speak the protocol itself, told apart by their first byte, which
/// is a brace or a blank for a line of the protocol.
pub(crate) async fn socket(
    socket: PrivateSocket,
    router: Router,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut open = JoinSet::new();
    loop {
        let mut stream = tokio::select! {
            biased;
            // Gone is stopped.
            _ = stopped.changed() => break,
            Some(_) = open.join_next() => continue,
            stream = socket.accept(), if open.len() < OWN_CONNECTIONS => stream,
        };
        let (router, shared, mut stopped) = (router.clone(), shared.clone(), stopped.clone());
        open.spawn(async move {
            let mut first = [0];
            let read = tokio::select! {
                read = timeout(FIRST, stream.read_exact(&mut first)) => read,
                _ = stopped.changed() => return,
            };
            if !matches!(read, Ok(Ok(_))) {
                return;
            }
            let (input, output) = stream.into_split();
            let input = std::io::Cursor::new(first).chain(input);
            if first[0].is_ascii_uppercase() {
                return serve(tokio::io::join(input, output), router, Peer::User, stopped).await;
            }
            let options = RelayOptions::default().sessions(shared.sessions.clone()).of_user();
            let stop = async move {
                // Gone is stopped.
                let _ = stopped.changed().await;
            };
            serve_hub(shared.host.clone(), options, input, output, stop).await;
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

/// Serves the requests of one connection.
fn serve<S>(
    stream: S,
    router: Router,
    peer: Peer,
    mut stopped: watch::Receiver<bool>,
) -> impl Future<Output = ()> + Send
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let mut router = router.clone();
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            Ok::<_, Infallible>(router.call(request).await.unwrap_or_else(|never| match never {}))
        }
    });
    async move {
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
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
    }
}

#[cfg(test)]
mod tests;
