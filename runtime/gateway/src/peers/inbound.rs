//! Connections from other hosts. Each serves one principal.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, BodyDataStream, HttpBody},
    extract::Request,
    middleware::Next,
    response::Response,
};
use futures_util::{StreamExt, stream::poll_fn};
use tokio::{io::AsyncReadExt, time::timeout};
use trunkline_relay::serve_hub;

use super::{ForwardedPrincipal, Stream};
use crate::{
    auth::{authorizer::HubOrigin, principal::Principal},
    gateway::Shared,
    http::connection::{self, Peer},
};

/// Limit for the connections from other hosts. A further one is closed.
pub(crate) const MAX_PEER_CONNECTIONS: usize = 16 * 1024;

/// Limits for reading the rest of a refused body, in bytes and time.
const MAX_DRAINED_BYTES: u64 = crate::http::uploads::MAX_UPLOAD;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a connection from another host. The first byte decides between HTTP and a hub that sends
/// lines.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    router: Router,
    stream: Box<dyn Stream>,
    who: ForwardedPrincipal,
) {
    let Ok(place) = shared.peer_connections.clone().try_acquire_owned() else {
        return tracing::warn!(
            "too many connections from other hosts are open; the new one is closed"
        );
    };
    let principal = Principal::of_other_host(who, shared.options.token_agents.clone());
    let (mut input, output) = tokio::io::split(stream);
    let mut first = [0];
    let read = tokio::select! {
        read = tokio::time::timeout(connection::FIRST_BYTE_TIMEOUT, input.read_exact(&mut first)) => read,
        () = shared.ending() => return,
        () = shared.known_tokens.ended(&principal) => return,
    };
    if !matches!(read, Ok(Ok(_))) {
        return;
    }
    let input = std::io::Cursor::new(first).chain(input);
    if first[0].is_ascii_uppercase() {
        let stopped = shared.ending.clone();
        let stream = tokio::io::join(input, output);
        return connection::serve(stream, router, Peer::OtherHost(principal), stopped, place).await;
    }
    let options = shared.relay_options(&principal, HubOrigin::Network);
    serve_hub(
        shared.host.clone(),
        options,
        input,
        output,
        shared.ending_for(&principal),
    )
    .await;
    drop(place);
}

/// Middleware that reads the rest of a body after its request was refused. The forwarding host
/// reads the response only after it has sent the whole body.
pub(crate) async fn read_whole(request: Request, next: Next) -> Response {
    let is_from_other_host = matches!(request.extensions().get(), Some(Peer::OtherHost(_)));
    if !is_from_other_host || request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let rest = Arc::new(Mutex::new(body.into_data_stream()));
    let read = rest.clone();
    let body = Body::from_stream(poll_fn(move |context| {
        lock_body(&read).poll_next_unpin(context)
    }));
    let response = next.run(Request::from_parts(head, body)).await;
    let drained = async {
        let mut bytes = 0;
        while let Some(Ok(chunk)) = poll_fn(|context| lock_body(&rest).poll_next_unpin(context))
            .next()
            .await
        {
            bytes += chunk.len() as u64;
            if bytes > MAX_DRAINED_BYTES {
                break;
            }
        }
    };
    // A timeout leaves the rest unread.
    let _ = timeout(DRAIN_TIMEOUT, drained).await;
    response
}

fn lock_body(body: &Mutex<BodyDataStream>) -> std::sync::MutexGuard<'_, BodyDataStream> {
    body.lock().unwrap_or_else(PoisonError::into_inner)
}
