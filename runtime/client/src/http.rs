//! HTTP of a daemon: requests, files, the search, and the removal of sessions.

use std::{
    error::Error as StdError,
    fmt,
    future::poll_fn,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Bytes, Incoming},
    client::conn::http1::handshake,
    header,
};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::OnceCell,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use trunkline_protocol::{InputResult, MessageId, SessionId, Sha256, TurnId};
use uuid::Uuid;

#[cfg(unix)]
use crate::UnixSocket;
use crate::{
    ClientError, ConnectError, MAX_FILE_BYTES, ReconnectBackoff, ReconnectPolicy, SessionChanges,
    WebSocket,
    transport::{ByteStream, DaemonAddresses},
};

/// Timeout for a response, and for each part of its body.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Rate in bytes per second that a request's body has at least.
const MIN_UPLOAD_RATE: u64 = 75_000;

/// Limit for the JSON of a response, in bytes. The largest is the snapshot of a session.
pub const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// Limit for the problem document of a refusal, in bytes.
const MAX_PROBLEM_BYTES: usize = 64 << 10;

/// Longest time of a `Retry-After` that is waited for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The `Host` of requests over a socket.
const SOCKET_HOST: &str = "daemon";

/// A request that a daemon answers, and behind it a line that every host answers.
const PROBE: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: daemon\r\nConnection: close\r\n\r\n\
    {\"type\":\"ping\",\"session_id\":\"\",\"nonce\":\"probe\"}\n";

/// Sends a request over a connection. The returned task drives the connection; dropping it closes
/// the connection.
///
/// # Errors
/// The connection breaks, or the response is not HTTP.
///
/// # Cancel safety
/// Cancelling closes the connection.
///
/// # Panics
/// Outside a tokio runtime with I/O.
pub async fn exchange<B>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<B>,
) -> io::Result<(Response<Incoming>, JoinSet<()>)>
where
    B: Body<Data: Send, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static,
{
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
    Ok((response.map_err(io::Error::other)?, driver))
}

/// Sends a request over an open connection to a server of this name, without a timeout. `body` is
/// JSON and may be empty. Returns the status and the body of the response, which has at most
/// [`MAX_RESPONSE_BYTES`].
///
/// # Errors
/// The connection breaks, or the response is invalid or too long.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
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
        .body(Full::<Bytes>::from(body))
        .map_err(io::Error::other)?;
    let (response, _connection) = exchange(stream, request).await?;
    let status = response.status();
    let body = read_body(
        response.into_body(),
        MAX_RESPONSE_BYTES,
        "MAX_RESPONSE_BYTES",
    )
    .await?;
    Ok((status, body.into()))
}

/// Reads the next part of a body; `None` at its end.
pub(crate) async fn read_part(body: &mut Incoming, limit: Duration) -> io::Result<Option<Bytes>> {
    loop {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the daemon is silent");
        match timeout(limit, frame).await.map_err(late)? {
            None => return Ok(None),
            Some(frame) => match frame.map_err(io::Error::other)?.into_data() {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(_trailers) => {}
            },
        }
    }
}

async fn read_body(mut body: Incoming, limit: usize, name: &str) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    while let Some(part) = read_part(&mut body, RESPONSE_TIMEOUT).await? {
        if contents.len() + part.len() > limit {
            return Err(over_limit(limit, name));
        }
        contents.extend_from_slice(&part);
    }
    Ok(contents)
}

/// The error of an answer that exceeds the limit of this name.
pub(crate) fn over_limit(limit: usize, name: &str) -> io::Error {
    let message = format!("it has more than {limit} bytes, the limit `{name}`");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Creates the error of a request whose connection broke.
pub(crate) fn lost(error: &io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::InvalidData => {
            ClientError::RequestFailed(format!("the answer cannot be used: {error}"))
        }
        _ => ClientError::ConnectionLost(ConnectError::transient(error.to_string())),
    }
}

/// HTTP of a daemon: [`Client::http`](crate::Client::http) of a connected client, or made from a
/// [`WebSocket`] or [`UnixSocket`].
///
/// Each request has a connection of its own. A temporary failure is tried again with growing waits,
/// and not before the daemon's `Retry-After` has passed, until
/// [`ReconnectPolicy::give_up_after`]. The token goes to the daemon's address only, as a header:
/// redirects are not followed. Clones share the address that answered last.
#[derive(Debug, Clone)]
pub struct HttpClient {
    target: HttpTarget,
    policy: ReconnectPolicy,
    /// Number of the address that is used, modulo their count.
    address: Arc<AtomicUsize>,
}

#[derive(Debug, Clone)]
enum HttpTarget {
    /// The socket, and whether its host speaks HTTP, once that is known.
    #[cfg(unix)]
    Socket(UnixSocket, Arc<OnceCell<bool>>),
    Network(DaemonAddresses),
}

/// A request and all that its repetitions have in common.
pub(crate) struct HttpRequest {
    method: Method,
    path: String,
    body: Bytes,
    key: Option<String>,
}

impl HttpRequest {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            key: (method == Method::POST).then(|| Uuid::new_v4().simple().to_string()),
            method,
            path: path.into(),
            body: Bytes::new(),
        }
    }
}

/// A search over titles, inputs and outputs.
#[derive(Debug, Clone, Default)]
pub struct SearchQuery {
    /// The text. Case is ignored.
    pub text: String,
    /// Only sessions of this agent.
    pub agent: Option<String>,
    /// Maximum number of hits: 50 if absent, 200 at most.
    pub limit: Option<u32>,
    /// The `next` of the previous page.
    pub after: Option<String>,
}

/// A page of hits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct SearchPage {
    /// The hits: sessions last active first, in each session the newest first.
    pub hits: Vec<SearchHit>,
    /// Position at which the search continues, also after a page without hits; `None` at the end.
    pub next: Option<String>,
}

/// A text of a session that contains the searched one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct SearchHit {
    /// The session's id.
    pub id: String,
    /// The session's agent.
    pub agent: String,
    /// The session's title.
    pub title: Option<String>,
    /// The number of the entry that has the beginning of the text; `None` for a title.
    pub seq: Option<u64>,
    /// The turn of that entry.
    pub turn: Option<String>,
    /// The time of that entry, by RFC 3339.
    pub time: String,
    /// The place of the text: `title`, `input` or `output`.
    pub kind: String,
    /// The text around the hit, of at most 200 characters.
    pub snippet: String,
}

impl HttpClient {
    fn new(target: HttpTarget) -> Self {
        Self {
            target,
            policy: ReconnectPolicy::default(),
            address: Arc::default(),
        }
    }

    /// Sets the limits of repetitions.
    #[must_use]
    pub fn with_policy(mut self, policy: ReconnectPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sends a request for a path such as `/v1/usage?days=7`, and returns the JSON of its answer;
    /// `null` for an empty one. A POST has an `Idempotency-Key`, so that it counts once.
    ///
    /// # Errors
    /// [`ClientError::HttpRefused`] for a status other than 2xx, [`ClientError::RequestFailed`] for
    /// an answer that is no JSON or has more than [`MAX_RESPONSE_BYTES`],
    /// [`ClientError::Unsupported`] for the socket of `trunkline serve`, and
    /// [`ClientError::Unreachable`] and [`ClientError::ConnectionLost`].
    ///
    /// # Cancel safety
    /// Cancelling may or may not have the effect of the request.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ClientError> {
        let request = HttpRequest {
            body: body.map(Value::to_string).unwrap_or_default().into(),
            ..HttpRequest::new(method, path)
        };
        self.ask(&request).await
    }

    /// Sends a request whose answer is a file, of at most [`MAX_FILE_BYTES`]. A PUT has a file as
    /// its body, and other requests JSON, or nothing.
    ///
    /// # Errors
    /// As [`HttpClient::request`].
    ///
    /// # Cancel safety
    /// Cancelling may or may not have the effect of the request.
    pub async fn request_bytes(
        &self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Result<Vec<u8>, ClientError> {
        let request = HttpRequest {
            body: body.into(),
            ..HttpRequest::new(method, path)
        };
        self.send(&request, MAX_FILE_BYTES as usize, "MAX_FILE_BYTES")
            .await
    }

    async fn ask<T: DeserializeOwned>(&self, request: &HttpRequest) -> Result<T, ClientError> {
        let answer = self.send(request, MAX_RESPONSE_BYTES, "MAX_RESPONSE_BYTES");
        let answer = answer.await?;
        let json = if answer.is_empty() { b"null" } else { &*answer };
        serde_json::from_slice(json).map_err(|error| {
            ClientError::RequestFailed(format!("the answer has another form: {error}"))
        })
    }

    /// Searches all sessions that the token sees, in as many requests as there are pages. In a
    /// cluster these are the sessions of the host that answers.
    ///
    /// # Errors
    /// As [`HttpClient::request`].
    ///
    /// # Cancel safety
    /// Cancelling changes nothing.
    pub async fn search(&self, query: &SearchQuery) -> Result<SearchPage, ClientError> {
        let limit = query.limit.map(|limit| limit.to_string());
        let mut path = format!("/v1/search?q={}", encode(&query.text));
        for (name, value) in [
            ("agent", &query.agent),
            ("limit", &limit),
            ("after", &query.after),
        ] {
            if let Some(value) = value {
                path = format!("{path}&{name}={}", encode(value));
            }
        }
        self.ask(&HttpRequest::new(Method::GET, path)).await
    }

    /// Closes a session, and removes all that is kept of it.
    ///
    /// # Errors
    /// As [`HttpClient::request`]: the status is 404 if there is no such session.
    ///
    /// # Cancel safety
    /// Cancelling may leave the session removed.
    pub async fn remove_session(&self, session: &SessionId) -> Result<(), ClientError> {
        let path = format!("{}?remove=true", session_path(session));
        let request = HttpRequest::new(Method::DELETE, path);
        self.ask::<Option<Value>>(&request).await.map(drop)
    }

    /// Uploads a file for an input of the session that names its digest within an hour.
    ///
    /// # Errors
    /// [`ClientError::File`] if it has more than [`MAX_FILE_BYTES`] or arrived changed, and as
    /// [`HttpClient::request`]: the status is 413 if the agent takes no file of this size.
    ///
    /// # Cancel safety
    /// Cancelling may leave the file at the daemon for an hour.
    pub async fn put_file(
        &self,
        session: &SessionId,
        name: &str,
        contents: impl Into<Bytes>,
    ) -> Result<Sha256, ClientError> {
        let body = contents.into();
        if body.len() as u64 > MAX_FILE_BYTES {
            let error = over_limit(MAX_FILE_BYTES as usize, "MAX_FILE_BYTES");
            return Err(file_error(name, &error));
        }
        let sha256 = Sha256::digest(&body);
        let path = format!("{}/files?name={}", session_path(session), encode(name));
        let request = HttpRequest {
            body,
            ..HttpRequest::new(Method::PUT, path)
        };
        let stored: Value = self.ask(&request).await?;
        if stored["sha256"].as_str() != Some(&sha256.to_string()) {
            return Err(file_error(name, &"the daemon got other contents"));
        }
        Ok(sha256)
    }

    /// Downloads a file of the agent or of an input, and compares it with its digest.
    ///
    /// # Errors
    /// [`ClientError::File`] if it has more than [`MAX_FILE_BYTES`] or another digest, and as
    /// [`HttpClient::request`].
    ///
    /// # Cancel safety
    /// Cancelling changes nothing.
    pub async fn get_file(
        &self,
        session: &SessionId,
        sha256: &Sha256,
    ) -> Result<Vec<u8>, ClientError> {
        let path = format!("{}/files/{sha256}", session_path(session));
        let contents = self.request_bytes(Method::GET, &path, "").await?;
        if Sha256::digest(&contents) != *sha256 {
            let problem = "its contents are not the announced ones";
            return Err(file_error(&sha256.to_string(), &problem));
        }
        Ok(contents)
    }

    /// Streams the changes of all sessions that the token sees, behind a position: a snapshot and
    /// all later ones without it. In a cluster these are the sessions of the host that answers.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    #[must_use]
    pub fn changes(&self, after: Option<String>) -> SessionChanges {
        SessionChanges::begin(self.clone(), after)
    }

    /// Sends an input with uploaded files. Returns its turn and its acceptance.
    pub(crate) async fn post_input(
        &self,
        session: &SessionId,
        message_id: &MessageId,
        content: &str,
        files: Vec<Value>,
    ) -> Result<(Option<TurnId>, InputResult), ClientError> {
        let body = json!({ "content": content, "files": files }).to_string();
        let path = format!("{}/inputs", session_path(session));
        let request = HttpRequest {
            key: Some(message_id.to_string()),
            body: body.into(),
            ..HttpRequest::new(Method::POST, path)
        };
        let taken: Value = self.ask(&request).await?;
        let turn_id = taken["turn_id"].as_str();
        let result = InputResult {
            message_id: Some(message_id.clone()),
            seq: taken["seq"].as_u64().unwrap_or_default(),
            duplicate: taken["duplicate"].as_bool(),
        };
        Ok((turn_id.and_then(|id| TurnId::new(id).ok()), result))
    }

    /// Sends a request, repeats it after temporary errors, and returns the body of the response.
    async fn send(
        &self,
        request: &HttpRequest,
        limit: usize,
        name: &str,
    ) -> Result<Vec<u8>, ClientError> {
        let mut backoff = ReconnectBackoff::default();
        let mut is_repeated = false;
        loop {
            let answered = async {
                let (response, _connection) = self.open(request).await?;
                let body = read_body(response.into_body(), limit, name).await;
                body.map_err(|error| lost(&error))
            };
            let error = match answered.await {
                Ok(body) => return Ok(body),
                Err(error) => error,
            };
            // The answer to the first removal was lost.
            let is_missing = matches!(error, ClientError::HttpRefused { status: 404, .. });
            if is_repeated && is_missing && request.method == Method::DELETE {
                return Ok(Vec::new());
            }
            let Some(delay) = self.next_delay(&mut backoff, &error) else {
                return Err(error);
            };
            is_repeated = true;
            sleep(delay).await;
        }
    }

    /// Returns the wait before a request is repeated at the next address; `None` if it is not.
    pub(crate) fn next_delay(
        &self,
        backoff: &mut ReconnectBackoff,
        error: &ClientError,
    ) -> Option<Duration> {
        if error.is_permanent() {
            return None;
        }
        self.address.fetch_add(1, Ordering::Relaxed);
        let delay = backoff.next_delay(&self.policy, Instant::now())?;
        let retry_after = match error {
            ClientError::HttpRefused { retry_after, .. } => *retry_after,
            _ => None,
        };
        Some(delay.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER)))
    }

    /// Sends a request once. Returns the response, and the task that drives its connection.
    ///
    /// # Errors
    /// As [`HttpClient::request`].
    pub(crate) async fn open(
        &self,
        request: &HttpRequest,
    ) -> Result<(Response<Incoming>, JoinSet<()>), ClientError> {
        let upload = Duration::from_secs(request.body.len() as u64 / MIN_UPLOAD_RATE);
        let opened = timeout(RESPONSE_TIMEOUT + upload, self.open_untimed(request)).await;
        opened.unwrap_or_else(|error| Err(lost(&error.into())))
    }

    async fn open_untimed(
        &self,
        request: &HttpRequest,
    ) -> Result<(Response<Incoming>, JoinSet<()>), ClientError> {
        let content_type = match request.method {
            Method::PUT => "application/octet-stream",
            _ => "application/json",
        };
        let mut head = Request::builder()
            .method(&request.method)
            .header(header::CONTENT_TYPE, content_type);
        if let Some(key) = &request.key {
            head = head.header("idempotency-key", key);
        }
        let (stream, head): (Box<dyn ByteStream>, _) = match &self.target {
            #[cfg(unix)]
            HttpTarget::Socket(socket, has_http) => {
                let connect = async || socket.open().await.map_err(ClientError::Unreachable);
                let probed = has_http.get_or_try_init(async || {
                    let answer = speaks_http(connect().await?).await;
                    answer.map_err(|error| lost(&error))
                });
                if !*probed.await? {
                    return Err(ClientError::Unsupported(NO_HTTP));
                }
                let head = head.uri(&*request.path);
                (
                    Box::new(connect().await?),
                    head.header(header::HOST, SOCKET_HOST),
                )
            }
            HttpTarget::Network(addresses) => {
                let number = self.address.load(Ordering::Relaxed);
                let connected = addresses.connect(number).await;
                let (server, stream, bearer) = connected.map_err(ClientError::Unreachable)?;
                let head = head
                    .uri(format!("{}{}", server.path(), request.path))
                    .header(header::HOST, server.authority())
                    .header(header::AUTHORIZATION, bearer);
                (stream, head)
            }
        };
        let message = head.body(Full::new(request.body.clone()));
        let message = message.map_err(|error| ClientError::RequestFailed(error.to_string()))?;
        let (response, connection) = exchange(stream, message)
            .await
            .map_err(|error| lost(&error))?;
        if response.status().is_success() {
            return Ok((response, connection));
        }
        Err(self.refusal(response).await)
    }

    async fn refusal(&self, response: Response<Incoming>) -> ClientError {
        let status = response.status();
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|after| after.to_str().ok()?.parse().ok());
        let body = read_body(response.into_body(), MAX_PROBLEM_BYTES, "MAX_PROBLEM_BYTES").await;
        let problem: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
        let detail = problem["detail"].as_str();
        let reason = status.canonical_reason().unwrap_or("no reason is given");
        let message = detail.unwrap_or(reason);
        ClientError::HttpRefused {
            status: status.as_u16(),
            message: match &self.target {
                HttpTarget::Network(addresses) => addresses.without_token(message),
                #[cfg(unix)]
                HttpTarget::Socket(..) => message.to_owned(),
            },
            retry_after: retry_after.map(Duration::from_secs),
        }
    }
}

impl From<WebSocket> for HttpClient {
    /// HTTP at the same addresses, with the same token.
    fn from(socket: WebSocket) -> Self {
        Self::new(HttpTarget::Network(socket.into_addresses()))
    }
}

#[cfg(unix)]
impl From<UnixSocket> for HttpClient {
    /// HTTP over the same socket.
    fn from(socket: UnixSocket) -> Self {
        Self::new(HttpTarget::Socket(socket, Arc::default()))
    }
}

/// Text of [`ClientError::Unsupported`] for a host without HTTP.
pub(crate) const NO_HTTP: &str =
    "HTTP; connect to a daemon (`trunkline up`) by its socket or address";

/// Returns false for `trunkline serve`, which answers the line behind the request only.
async fn speaks_http(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<bool> {
    stream.write_all(PROBE).await?;
    let mut start = [0; 5];
    stream.read_exact(&mut start).await?;
    Ok(start == *b"HTTP/")
}

fn session_path(session: &SessionId) -> String {
    format!("/v1/sessions/{}", encode(session.as_str()))
}

pub(crate) fn encode(text: &str) -> impl fmt::Display {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}

fn file_error(name: &str, problem: &dyn fmt::Display) -> ClientError {
    ClientError::File {
        path: name.to_owned(),
        message: problem.to_string(),
    }
}
