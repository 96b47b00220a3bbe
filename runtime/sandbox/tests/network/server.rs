//! A small HTTP/1.1 server that records its requests, and an echo server.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::fixture::SERVED;

pub(crate) struct Server {
    pub(crate) port: u16,
    heads: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

impl Server {
    /// Returns the heads of all requests so far. A raw server has one entry for each connection.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// Starts a server that handles each connection with `serve`.
pub(crate) async fn serve<F>(
    address: &str,
    serve: impl Fn(TcpStream, Arc<Mutex<Vec<String>>>) -> F + Send + 'static,
) -> Server
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve(stream, Arc::clone(&seen)));
        }
    });
    Server {
        port,
        heads,
        _task: task,
    }
}

/// Starts a server that answers every request of a connection: `/echo` with the request's body,
/// `/big` with 1 MiB, `/chunked` with two chunks, `/endless` without a length, `/early` with 413
/// before it reads the body, every other path with the path.
pub(crate) async fn http() -> Server {
    serve(SERVED, |stream, heads| async move {
        let mut stream = BufReader::new(stream);
        while let Some(head) = read_head(&mut stream).await {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let continues = head.contains("100-continue");
            let lower = head.to_ascii_lowercase();
            heads.lock().unwrap().push(head);
            if path == "/early" {
                let _ = stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n").await;
                return;
            }
            if continues {
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
            }
            let Some(body) = read_body(&mut stream, &lower).await else { return };
            let answer = match path.as_str() {
                "/chunked" => {
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
                        .to_vec()
                }
                "/endless" => b"HTTP/1.1 200 OK\r\n\r\nto the end".to_vec(),
                _ => {
                    let body = match path.as_str() {
                        "/echo" => body,
                        "/big" => vec![b'x'; 1024 * 1024],
                        path => path.as_bytes().to_vec(),
                    };
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nKeep-Alive: timeout=5\r\n\r\n",
                        body.len()
                    );
                    [head.as_bytes(), &body].concat()
                }
            };
            // Ignores `Connection: close`, so that the proxy must detect the end of the response
            // itself.
            if stream.write_all(&answer).await.is_err() || path == "/endless" {
                return;
            }
        }
    })
    .await
}

/// Starts a server that echoes what it receives, in any protocol, and ends when the client ends.
pub(crate) async fn echo() -> Server {
    serve(SERVED, |mut stream, heads| async move {
        heads.lock().unwrap().push(String::new());
        let (mut from, mut to) = stream.split();
        let _ = tokio::io::copy(&mut from, &mut to).await;
        let _ = to.shutdown().await;
    })
    .await
}

pub(crate) async fn read_head(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

async fn read_body(stream: &mut BufReader<TcpStream>, head: &str) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    if let Some(length) = head.split("content-length: ").nth(1) {
        let length: usize = length.split("\r\n").next()?.parse().ok()?;
        body.resize(length, 0);
        stream.read_exact(&mut body).await.ok()?;
    } else if head.contains("transfer-encoding: chunked") {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok()?;
            let size = usize::from_str_radix(line.trim_end(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).await.ok()?;
            if size == 0 {
                break;
            }
            body.extend(&chunk[..size]);
        }
    }
    Some(body)
}
