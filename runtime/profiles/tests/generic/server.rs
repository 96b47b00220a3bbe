//! An HTTP/1.1 server whose answers a test defines byte for byte.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request of a client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

type Handler = dyn Fn(usize, &Request, &mut dyn Stream) + Send + Sync;

/// A server; its threads end with the test's process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers each connection's one request by a closure, which gets the request's number from 0.
    pub(crate) fn start(
        handler: impl Fn(usize, &Request, &mut dyn Stream) + Send + Sync + 'static,
    ) -> Self {
        Self::with(None, Arc::new(handler))
    }

    pub(crate) fn tls(
        config: ServerConfig,
        handler: impl Fn(usize, &Request, &mut dyn Stream) + Send + Sync + 'static,
    ) -> Self {
        Self::with(Some(Arc::new(config)), Arc::new(handler))
    }

    fn with(tls: Option<Arc<ServerConfig>>, handler: Arc<Handler>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let seen = Arc::clone(&seen);
                let handler = Arc::clone(&handler);
                let tls = tls.clone();
                thread::spawn(move || match tls {
                    None => serve(connection, &seen, &*handler),
                    Some(tls) => serve(
                        StreamOwned::new(ServerConnection::new(tls).unwrap(), connection),
                        &seen,
                        &*handler,
                    ),
                });
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(stream: impl Stream, seen: &Mutex<Vec<Request>>, handler: &Handler) {
    let mut reader = BufReader::new(stream);
    let Some(request) = read(&mut reader) else {
        return;
    };
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        seen.len() - 1
    };
    handler(number, &request, reader.get_mut());
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut request = Request::default();
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    request.line = line.trim_end().to_owned();
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        request
            .headers
            .insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = request
        .headers
        .get("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).unwrap();
    Some(request)
}

/// Writes a whole response.
pub(crate) fn respond(to: &mut dyn Stream, status: &str, headers: &str, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n",
        body.len()
    );
    // A client that has gone does not read it.
    let _ = to
        .write_all(head.as_bytes())
        .and_then(|()| to.write_all(body))
        .and_then(|()| to.flush());
}

/// Begins a response whose body comes in chunks.
pub(crate) fn begin(to: &mut dyn Stream, headers: &str) {
    let head = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n{headers}\r\n"
    );
    to.write_all(head.as_bytes()).unwrap();
}

/// Writes a chunk; an empty one ends the body.
pub(crate) fn chunk(to: &mut dyn Stream, bytes: &[u8]) -> std::io::Result<()> {
    to.write_all(format!("{:x}\r\n", bytes.len()).as_bytes())?;
    to.write_all(bytes)?;
    to.write_all(b"\r\n")?;
    to.flush()
}
