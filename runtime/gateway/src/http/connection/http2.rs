//! HTTP/2: many requests at a time on one connection, which clients that hold streams open prefer.
//! Without TLS a client begins with it, as it knows beforehand that it is spoken here.

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

use super::{ENDING, HEAD, HEAD_BYTES, Peer, service};

/// How many requests of a connection are open at a time.
const REQUESTS: u32 = 256;

/// How much of an answer is written ahead of its client, and how much of all bodies a client may
/// send ahead, in bytes.
const AHEAD: usize = 64 * 1024;
const BODIES: u32 = 1024 * 1024;

/// How often a client is asked whether it is there, and how long it may take to answer.
const PING: Duration = Duration::from_secs(20);

/// Serves the requests of one connection. One without a request ends, as it does in HTTP/1.
pub(super) async fn serve<S>(
    stream: S,
    router: Router,
    from: Peer,
    mut stopped: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let open = Arc::new(watch::Sender::new(0_usize));
    let (answers, counts) = (Arc::new(service(router, from)), open.clone());
    let counted = service_fn(move |request: Request<Incoming>| {
        let (answers, open) = (answers.clone(), Open::new(counts.clone()));
        async move {
            let response = answers.call(request).await?;
            Ok::<_, Infallible>(response.map(|body| Body::new(Counted { body, _open: open })))
        }
    });
    let served = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(REQUESTS)
        .max_header_list_size(u32::try_from(HEAD_BYTES).unwrap_or(u32::MAX))
        .max_send_buf_size(AHEAD)
        .initial_connection_window_size(BODIES)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .serve_connection(TokioIo::new(stream), counted);
    let mut served = pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        _ = stopped.changed() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
        () = idle(open.subscribe()) => {
            served.as_mut().graceful_shutdown();
            // It may not hear that.
            timeout(ENDING, served).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection has ended: {error}");
    }
}

/// Resolves when no request was open for as long as a request's head may take.
async fn idle(mut open: watch::Receiver<usize>) {
    loop {
        // Gone is idle.
        let _ = open.wait_for(|open| *open == 0).await;
        if timeout(HEAD, open.changed()).await.is_err() {
            return;
        }
    }
}

/// A request that is open, and counted.
struct Open(Arc<watch::Sender<usize>>);

impl Open {
    fn new(open: Arc<watch::Sender<usize>>) -> Self {
        open.send_modify(|open| *open += 1);
        Self(open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// A body that says when it is done with.
struct Counted {
    body: Body,
    _open: Open,
}

impl HttpBody for Counted {
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
