//! HTTP/2: concurrent requests on one connection, for clients with open streams. Without TLS, the
//! client must begin with HTTP/2 directly.

use std::{
    convert::Infallible,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, HttpBody},
    http::Request,
};
use bytes::Bytes;
use hyper::{
    body::{Frame, Incoming, SizeHint},
    server::conn::http2,
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::timeout,
};

use super::{HEAD_TIMEOUT, MAX_HEAD_BYTES, Peer, SHUTDOWN_GRACE, request_service};

/// Limit for the open requests of a connection.
const MAX_OPEN_REQUESTS: u32 = 256;

/// Limits for data in transit, in bytes: of a response to the client, and of all request bodies.
const MAX_SEND_AHEAD_BYTES: usize = 64 * 1024;
const MAX_RECEIVE_AHEAD_BYTES: u32 = 1024 * 1024;

/// Interval of pings, and the timeout for their answer.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Serves the requests of one connection. An idle connection is closed, as in HTTP/1.
pub(super) async fn serve<S>(
    stream: S,
    router: Router,
    from: Peer,
    mut stopped: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let open = Arc::new(watch::Sender::new(0_usize));
    let answers = Arc::new(request_service(router, from, Arc::default()));
    let counts = open.clone();
    let counted = service_fn(move |request: Request<Incoming>| {
        let answers = answers.clone();
        let open = OpenRequest::new(counts.clone());
        async move {
            let response = answers.call(request).await?;
            Ok::<_, Infallible>(response.map(|body| Body::new(CountedBody { body, _open: open })))
        }
    });
    let served = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_OPEN_REQUESTS)
        .max_header_list_size(u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX))
        .max_send_buf_size(MAX_SEND_AHEAD_BYTES)
        .initial_connection_window_size(MAX_RECEIVE_AHEAD_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_INTERVAL)
        .serve_connection(TokioIo::new(stream), counted);
    let mut served = pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        _ = stopped.changed() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
        () = wait_until_idle(open.subscribe()) => {
            served.as_mut().graceful_shutdown();
            // The client may not read the shutdown.
            timeout(SHUTDOWN_GRACE, served).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection has ended: {error}");
    }
}

/// Resolves when no request was open for [`HEAD_TIMEOUT`].
async fn wait_until_idle(mut open: watch::Receiver<usize>) {
    loop {
        // A dropped sender counts as idle.
        let _ = open.wait_for(|open| *open == 0).await;
        if timeout(HEAD_TIMEOUT, open.changed()).await.is_err() {
            return;
        }
    }
}

/// Counter guard of an open request.
struct OpenRequest(Arc<watch::Sender<usize>>);

impl OpenRequest {
    fn new(open: Arc<watch::Sender<usize>>) -> Self {
        open.send_modify(|open| *open += 1);
        Self(open)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// Response body that keeps its request open.
struct CountedBody {
    body: Body,
    _open: OpenRequest,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
