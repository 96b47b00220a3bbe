//! HTTP client for the daemon's socket.

use std::{io, path::Path, time::Duration};

use axum::{
    body::{Body, Bytes, to_bytes},
    http::{Method, Request, StatusCode, header},
    response::Response,
};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinSet,
    time::timeout,
};
use trunkline_client::connect_unix;

/// Timeout for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Limit for a response, in bytes. The largest is the snapshot of a session.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// Sends a request to the daemon that listens on a socket. `body` is JSON and may be empty. Returns
/// the status and the body of the response.
///
/// # Errors
/// Fails if no daemon listens on the socket, or if it does not respond within 30 s.
///
/// # Panics
/// Panics outside a tokio runtime with I/O and time.
pub async fn send_request(
    socket: &Path,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> io::Result<(StatusCode, Bytes)> {
    let response = async {
        let stream = connect_unix(socket).await?;
        send_request_over(stream, "daemon", method, path, body).await
    };
    timeout(RESPONSE_TIMEOUT, response)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Sends a request over an open connection to a host of this name, without a timeout.
///
/// # Errors
/// Fails if the connection breaks, if the response is invalid, or if it is longer than 4 MiB.
///
/// # Panics
/// Panics outside a tokio runtime with I/O.
pub async fn send_request_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    host: &str,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> io::Result<(StatusCode, Bytes)> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .map_err(io::Error::other)?;
    let (response, _connection) = exchange(stream, request).await?;
    let status = response.status();
    let body = to_bytes(response.into_body(), MAX_RESPONSE_BYTES).await;
    Ok((status, body.map_err(io::Error::other)?))
}

/// Sends a request over a connection. The returned task drives the connection; dropping it closes
/// the connection.
pub(crate) async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Body>,
) -> io::Result<(Response, JoinSet<()>)> {
    let (mut sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("a connection to a server has ended: {error}");
        }
    });
    let response = sender.send_request(request).await;
    Ok((response.map_err(io::Error::other)?.map(Body::new), driver))
}
