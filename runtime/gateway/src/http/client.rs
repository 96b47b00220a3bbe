//! Asks a daemon over its socket, as this user.

use std::{io, path::Path, time::Duration};

use axum::{
    body::{Body, Bytes, to_bytes},
    http::{Method, Request, StatusCode, header},
};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use trunkline_client::connect_unix;

/// How long an answer may take.
const ANSWERED: Duration = Duration::from_secs(30);

/// The longest answer that is read, in bytes: a picture of a session.
const ANSWER: usize = 4 * 1024 * 1024;

/// Asks the daemon that listens on a socket: a method, a path, a body in JSON that may be empty.
/// Gives the status and the body of the answer.
///
/// # Errors
/// When no daemon listens there, or it does not answer within 30 s.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn ask(
    socket: &Path,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> io::Result<(StatusCode, Bytes)> {
    let asked = async {
        let stream = connect_unix(socket).await?;
        ask_over(stream, "daemon", method, path, body).await
    };
    timeout(ANSWERED, asked)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The same over a connection that is there, to a host of this name, however long it takes.
///
/// # Errors
/// When the connection breaks, or what comes is no answer, or longer than 4 MiB.
///
/// # Panics
/// Outside a tokio runtime with I/O.
pub async fn ask_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    host: &str,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> io::Result<(StatusCode, Bytes)> {
    let (mut sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .map_err(io::Error::other)?;
    let answered = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        let status = response.status();
        let body = to_bytes(Body::new(response.into_body()), ANSWER)
            .await
            .map_err(io::Error::other)?;
        Ok((status, body))
    };
    tokio::select! {
        answered = answered => answered,
        Err(error) = connection => Err(io::Error::other(error)),
    }
}
