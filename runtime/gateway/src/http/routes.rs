//! Routes. Each handler is thin: the work is done by a session or the host.

mod acp;
mod agents;
mod browsers;
mod changes;
pub(crate) mod events;
mod export;
mod files;
mod hosts;
mod inputs;
mod operate;
mod pipe;
mod requests;
mod search;
mod sessions;
mod socket;
mod tokens;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    RequestExt, Router,
    body::{Body, HttpBody},
    extract::{DefaultBodyLimit, FromRequest, FromRequestParts, MatchedPath, Path, Request, State},
    http::{HeaderMap, StatusCode, request::Parts},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{MethodFilter, on},
};
use futures_util::StreamExt;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use tracing::{Instrument, Span, field};
use trunkline_host::{
    config::{NetworkOption, SessionOption},
    redact,
};
use trunkline_protocol::{HostMessage, SessionId, TurnId};

pub(crate) use self::sessions::NewSession;
use crate::{
    auth::authentication,
    gateway::Shared,
    http::{
        connection::Peer,
        console, cors, encoding, idempotency,
        operation::{Routes, operations},
        problem::{Answer, Problem},
    },
    peers::forward,
};

/// Maximum length of a JSON body, in bytes.
pub(crate) const BODY: usize = 1024 * 1024;

/// Creates the router of all routes.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let answer_once = from_fn_with_state(shared.clone(), idempotency::answer_once);
    let mut sessions = session_routes().router.route_layer(answer_once.clone());
    if shared.options.peers.is_some() {
        let forward = from_fn_with_state(shared.clone(), forward::forward_session_request);
        sessions = sessions.route_layer(forward);
    }
    let authenticate = from_fn_with_state(shared.clone(), authentication::authenticate);
    let authenticated = authenticated_routes()
        .router
        .route_layer(answer_once)
        .merge(sessions)
        .route_layer(authenticate);
    authenticated
        .merge(open_routes().router)
        .merge(console_routes())
        .route_layer(from_fn_with_state(shared.clone(), counted))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path does not take that method",
            )
        })
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn(encoding::encode))
        .layer(from_fn(plain_errors))
        .layer(from_fn_with_state(
            shared.clone(),
            cors::check_host_and_origin,
        ))
        .with_state(shared)
}

/// Operations of one session, which another host may serve.
fn session_routes() -> Routes {
    operations! {
        /// Returns the state of a session.
        ///
        /// - problems: 403
        GET "/v1/sessions/{id}" showSession(Observe) => sessions::show;

        /// Changes the title of a session, or archives it.
        ///
        /// An absent member stays as it is. Archiving closes nothing: a running session continues.
        ///
        /// - 204: The session is changed, and the change stored.
        /// - problems: 422
        PATCH "/v1/sessions/{id}" editSession(Control) => sessions::edit;

        /// Closes a session for all clients.
        ///
        /// - 204: The session is closed; with `remove`, nothing of it is kept.
        /// - problems: 409
        DELETE "/v1/sessions/{id}" closeSession(Control) => sessions::close;

        /// Sends an input.
        ///
        /// Two inputs with the same `Idempotency-Key` are one turn. A lost connection stops
        /// nothing.
        ///
        /// - 200: With `wait=end`: the turn has ended.
        /// - 202: The journal has the input; the events of its turn follow the entry `seq`.
        /// - header `Idempotency-Key`: The id of the input, of 1 to 256 bytes; as `message_id`.
        /// - problems: 409, 422, 429
        POST "/v1/sessions/{id}/inputs" sendInput(Control) => inputs::take;

        /// Streams the entries of a session.
        ///
        /// - 200 `text/event-stream`: Each entry is an event: `id` is its `seq`, `event` its type,
        ///   `data` the entry. Comments are heartbeats.
        /// - 204: The session is closed, and has no later entry.
        /// - header `Last-Event-ID`: The number of an entry, as `after`, which it overrides.
        /// - problems: 403, 409, 422, 429
        GET "/v1/sessions/{id}/events" streamEvents(Observe) => events::stream_entries;

        /// Returns a page of a session's entries.
        ///
        /// - problems: 422
        GET "/v1/sessions/{id}/history" readHistory(Observe) => sessions::history;

        /// Returns a whole session as a file.
        ///
        /// All entries up to the last one now. A body that breaks off is incomplete.
        /// `Content-Disposition` names the file.
        ///
        /// - 200 `application/jsonl`, `text/markdown`: The entries as lines, or the conversation as
        ///   a document.
        /// - problems: 429
        GET "/v1/sessions/{id}/export" exportSession(Observe) => export::export;

        /// Stops a turn.
        ///
        /// - 202: The agent is asked to stop; the end of the turn is an event.
        POST "/v1/sessions/{id}/stop" stopTurn(Control) => requests::stop;

        /// Answers a permission or a question.
        ///
        /// The first answer decides; a later one is a 409 that names the client which decided. A
        /// permission also needs `may_approve`.
        ///
        /// - 200: This answer has decided.
        /// - problems: 429, 500
        POST "/v1/sessions/{id}/requests/{request}" answerRequest(Control) => requests::answer;

        /// Changes settings of a session.
        ///
        /// - 202: The agent is asked to change them; the applied settings are an event.
        POST "/v1/sessions/{id}/settings" changeSettings(Control) => requests::update;

        /// Opens a session as a copy of this one.
        ///
        /// The copy has the entries of its source, and continues independently. Nothing runs before
        /// its first input.
        ///
        /// - 201: The copy is stored.
        /// - problems: 501
        POST "/v1/sessions/{id}/fork" forkSession(Control) => sessions::fork;

        /// Uploads a file for an input.
        ///
        /// - 201: The file waits for an hour for an input that names it.
        /// - body `application/octet-stream`
        /// - problems: 400, 408, 409, 413, 415, 422, 429
        PUT "/v1/sessions/{id}/files" putFile(Control) => files::take;

        /// Returns a file that the agent gave, or that an input has named.
        ///
        /// - 200 `application/octet-stream`: The bytes of the file, to be saved.
        GET "/v1/sessions/{id}/files/{sha256}" getFile(Observe) => files::give;
    }
}

/// Operations of this daemon that need a token.
fn authenticated_routes() -> Routes {
    operations! {
        /// Returns the principal of the token.
        GET "/v1/me" me(Observe) => operate::me;

        /// Lists the agents that the token may use, with their health.
        GET "/v1/agents" listAgents(Observe) => agents::list;

        /// Lists the conversations that an agent itself keeps, the newest first.
        ///
        /// Includes those that began without trunkline. The token must see all sessions.
        ///
        /// - problems: 404, 422, 501, 503
        GET "/v1/agents/{agent}/conversations" listConversations(Control) => agents::conversations;

        /// Ends the process of an agent; its next input starts another one.
        ///
        /// Running turns of all its sessions end as `failed`, and a back-off ends. Only on the host
        /// that receives the request.
        ///
        /// - 204: The process has ended, or none ran.
        /// - problems: 404
        POST "/v1/agents/{agent}/restart" restartAgent(Admin) => agents::restart;

        /// Lists the hosts of the cluster.
        ///
        /// A daemon without a cluster has none.
        GET "/v1/hosts" listHosts(Observe) => hosts::list;

        /// Streams the changes of all sessions of this daemon.
        ///
        /// Has the sessions that the token sees, without the content of inputs and outputs.
        ///
        /// - 200 `text/event-stream`: Events `snapshot`, `session`, `request`, `turn` and `reset`:
        ///   `id` is the position, `data` a StreamedChange. Comments are heartbeats.
        /// - header `Last-Event-ID`: The position of an event, as `after`, which it overrides.
        /// - problems: 422, 429
        GET "/v1/events" streamChanges(Observe) => changes::stream_changes;

        /// Returns a page of sessions, the last active first.
        ///
        /// - 200: Sessions that the token sees.
        /// - problems: 422
        GET "/v1/sessions" listSessions(Observe) => sessions::listed;

        /// Opens a session.
        ///
        /// - 201: The session is open and stored.
        /// - problems: 429, 501, 503
        POST "/v1/sessions" openSession(Control) => sessions::open;

        /// Searches titles, inputs and outputs for a text.
        ///
        /// Searches what this daemon keeps of the sessions that the token sees, for about 250 ms.
        /// `next` continues an incomplete search.
        ///
        /// - problems: 422, 429, 503
        GET "/v1/search" searchSessions(Observe) => search::search;

        /// Makes a host take over a session whose files no host has.
        ///
        /// The token must see all sessions. Requests about the session are answered with 503, since
        /// its files are on a storage that no running host has. Its agent begins anew: an entry
        /// `host.fact` has `context: lost`.
        POST "/v1/sessions/{id}/relocate" relocateSession(Admin) => hosts::relocate;

        /// Returns the usage of turns by day and agent.
        ///
        /// The token must see all sessions. Has its agents.
        ///
        /// - problems: 403, 503
        GET "/v1/usage" usage(Observe) => operate::usage;

        /// Lists the valid tokens without their text.
        ///
        /// - problems: 503
        GET "/v1/tokens" listTokens(Admin) => tokens::list;

        /// Creates a token.
        ///
        /// It has at most the rights of the token that creates it, and ends with it.
        ///
        /// - 201: Only this answer has the text of the token.
        /// - problems: 409, 500, 503
        POST "/v1/tokens" makeToken(Admin) => tokens::make;

        /// Revokes a token and those that it created.
        ///
        /// Their streams end within a second.
        ///
        /// - problems: 404, 500, 503
        DELETE "/v1/tokens/{id}" revokeToken(Admin) => tokens::revoke;

        /// Lists the lasting rules, the oldest first.
        ///
        /// - 200: Rules of the agents that the token may use.
        GET "/v1/rules" listRules(Control) => requests::list_rules;

        /// Removes a lasting rule.
        ///
        /// Also needs `may_approve`. The rule approves no later request.
        ///
        /// - problems: 403, 404, 500, 503
        DELETE "/v1/rules/{id}" removeRule(Observe) => requests::remove_rule;

        /// Makes a host of the cluster hand its sessions to others.
        ///
        /// The host accepts no new sessions. `GET /v1/hosts` has the number of those that are left.
        POST "/v1/drain" drain(Admin) => hosts::drain;

        /// Reads the configuration again.
        ///
        /// - problems: 503
        POST "/v1/reload" reload(Admin) => operate::reload;

        /// Stops the daemon.
        ///
        /// - 202: The daemon accepts no more work, and ends within 10 s.
        POST "/v1/stop" stopDaemon(Admin) => operate::stop;

        /// Returns a code for a browser, valid once, for a minute.
        ///
        /// Only for this user, over the socket.
        POST "/v1/handover" handover(Admin) => operate::handover;

        /// Returns a code for a browser on another device, valid once, for a minute.
        ///
        /// Only for this user, over the socket. A new code replaces the one before.
        POST "/v1/pairing" startPairing(Admin) => browsers::start_pairing;

        /// Returns whether a browser has sent the code.
        GET "/v1/pairing/{id}" showPairing(Admin) => browsers::pairing_state;

        /// Confirms or refuses the browser that has sent the code.
        ///
        /// - 204: The browser is paired, or has the scope `admin`; or it was refused.
        /// - problems: 409
        POST "/v1/pairing/{id}" decidePairing(Admin) => browsers::decide_pairing;

        /// Lists the paired browsers.
        ///
        /// A token without the scope `admin` sees its own, and this user's page sees all.
        ///
        /// - problems: 503
        GET "/v1/browsers" listBrowsers(Observe) => browsers::list;

        /// Renames a paired browser.
        ///
        /// A browser that is not the one that asks needs the scope `admin`.
        ///
        /// - 204: It has the name.
        /// - problems: 403, 404, 422, 500, 503
        PATCH "/v1/browsers/{id}" renameBrowser(Observe) => browsers::rename;

        /// Revokes a paired browser and the tokens that it created.
        ///
        /// Its streams end at once. A browser that is not the one that asks needs the scope
        /// `admin`, and so does `keep_tokens`.
        ///
        /// - 204: It signs in no more.
        /// - problems: 403, 404, 500, 503
        DELETE "/v1/browsers/{id}" revokeBrowser(Observe) => browsers::revoke;

        /// Gives the bearer of a paired browser the scope `admin` for five minutes.
        ///
        /// The answer waits until the terminal with the code has confirmed it, for a minute.
        ///
        /// - problems: 403
        POST "/v1/elevation" elevate(Control) => browsers::elevate;

        /// Receives a message of an ACP client.
        ///
        /// `initialize` begins a connection and is answered by its result. Each further message
        /// names the connection; its answer arrives by a stream. A message needs the scope that it
        /// needs on the pipe.
        ///
        /// - 200 `application/json`: The answer to `initialize`; the header `Acp-Connection-Id`
        ///   names the connection.
        /// - 202: The message is accepted.
        /// - header `Acp-Connection-Id`: The connection, as the answer to `initialize` names it.
        /// - header `Acp-Session-Id`: The session.
        /// - body `application/json`
        /// - problems: 404, 408, 413, 415, 429, 503
        POST "/acp" acpSay(Observe) => acp::receive_message;

        /// Ends an ACP connection.
        ///
        /// Sessions and their turns continue.
        ///
        /// - header `Acp-Connection-Id`: The connection, as the answer to `initialize` names it.
        /// - problems: 400, 404
        DELETE "/acp" acpEnd(Observe) => acp::end_connection;

        /// Returns figures for Prometheus.
        ///
        /// The token must see all sessions of all agents.
        ///
        /// - 200 `text/plain`: The text format, version 0.0.4.
        /// - problems: 403
        GET "/metrics" metrics(Observe) => operate::metrics;

        /// Returns this document.
        ///
        /// - 200 `application/json`: OpenAPI 3.1.
        /// - 304: The client has this document.
        GET "/openapi.json" openapi(Observe) => operate::contract;
    }
}

/// Operations without a token, or which can receive it in their first message.
fn open_routes() -> Routes {
    operations! {
        /// Answers if the daemon runs.
        ///
        /// - 200 `text/plain`: The daemon runs.
        GET "/healthz" isAlive(Public) => async || "ok\n";

        /// Returns whether the daemon accepts work, and what it serves.
        ///
        /// Needs no token; more is shown to one.
        ///
        /// - 200: The daemon accepts work.
        /// - 503: The daemon ends, or its journal cannot be written.
        GET "/readyz" isReady(Handler) => operate::ready;

        /// Returns the console for a code of `handover`.
        ///
        /// - 200 `text/html`: The page, with a code that pairs its browser.
        /// - 401 `text/html`: The code was used or is too old; the page explains it.
        /// - 403 `text/html`: The code is not for this client; the page explains it.
        /// - body `application/x-www-form-urlencoded`
        POST "/open" open(Public) => operate::open;

        /// Pairs a browser, which signs in with its key from now on.
        ///
        /// It has the scope `control` at most. With a code of `trunkline open --pair` the answer
        /// waits until the terminal has confirmed it, for a minute.
        ///
        /// - 201: The browser is paired.
        /// - problems: 401, 403, 409, 422, 500, 503
        POST "/v1/browsers" pairBrowser(Handler) => browsers::pair;

        /// Returns a challenge for a paired browser, for a minute.
        ///
        /// - problems: 400, 401
        POST "/v1/browsers/{id}/challenge" challengeBrowser(Public) => browsers::challenge;

        /// Exchanges a signed challenge for a bearer token of ten minutes.
        ///
        /// - problems: 401, 429
        POST "/v1/browsers/{id}/bearer" signIn(Public) => browsers::sign_in;

        /// Opens a WebSocket with the protocol itself.
        ///
        /// Messages contain whole lines of the protocol.
        ///
        /// - 101: A client without a token in its header sends `{"type":"auth","token":"…"}` first,
        ///   within 10 s.
        /// - problems: 400
        GET "/v1/pipe" pipe(Handler) => pipe::upgrade;

        /// Opens a stream of an ACP connection, or a connection over a WebSocket.
        ///
        /// With the header of a session its stream, otherwise the connection's: each event is a
        /// message of JSON-RPC. With `Upgrade: websocket` each text is a message, and there are no
        /// headers. A message needs the scope that it needs on the pipe.
        ///
        /// - 101: A client without a token in its header sends `{"type":"auth","token":"…"}` first,
        ///   within 10 s.
        /// - 200 `text/event-stream`: Events. Comments are heartbeats.
        /// - header `Acp-Connection-Id`: The connection, as the answer to `initialize` names it.
        /// - header `Acp-Session-Id`: The session.
        /// - problems: 404, 406, 409, 429, 503
        GET "/acp" acpListen(Handler) => acp::open_stream;
    }
}

/// Returns all operations of the API.
#[cfg(test)]
pub(crate) fn api_routes() -> Vec<Routes> {
    vec![session_routes(), authenticated_routes(), open_routes()]
}

/// Returns the files of the console, which the API does not describe.
fn console_routes() -> Router<Arc<Shared>> {
    console::ASSETS
        .iter()
        .fold(Router::new(), |router, (path, asset)| {
            let respond = move |headers: HeaderMap| async move { asset.respond(&headers) };
            router.route(path, on(MethodFilter::GET, respond))
        })
}

/// Counts a request by its route; paths are too many for a metric.
async fn counted(
    State(shared): State<Arc<Shared>>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let peer = request.extensions().get::<Peer>().cloned();
    let response = match shared.options.traced {
        None => next.run(request).await,
        Some(adopt) => traced(adopt, path.as_str(), request, next).await,
    };
    let metrics = &shared.metrics;
    let status = response.status();
    if let (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Some(Peer::Network(_, caller, _))) =
        (status, &peer)
    {
        let route = path.as_str();
        tracing::debug!(route, %status, peer = caller.address(), "a request was refused");
    }
    metrics
        .requests
        .with_label_values(&[path.as_str(), method.as_str(), status.as_str()])
        .inc();
    metrics
        .took
        .with_label_values(&[path.as_str()])
        .observe(began.elapsed().as_secs_f64());
    response
}

/// Runs a request in a span, which ends with the head of the answer, before a stream.
async fn traced(adopt: fn(&str, &Span), route: &str, mut request: Request, next: Next) -> Response {
    let span = tracing::info_span!(
        target: "trunkline_gateway::request",
        "request",
        otel.kind = "server",
        http.request.method = request.method().as_str(),
        http.route = route,
        http.response.status_code = field::Empty,
        session = field::Empty,
    );
    if let Some(parent) = request
        .headers()
        .get("traceparent")
        .and_then(|parent| parent.to_str().ok())
    {
        adopt(parent, &span);
    }
    let named = request.extract_parts::<SessionPath>().await.ok();
    let response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    // The name that an unauthenticated client sends is not recorded.
    if let Some(SessionPath(id)) = named.filter(|_| status != StatusCode::UNAUTHORIZED) {
        span.record("session", &*redact::text(id.as_str()));
    }
    response
}

/// Adds a body to the errors of the router itself, which have none.
async fn plain_errors(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let is_bare = response.status().is_client_error()
        && !response
            .headers()
            .contains_key(axum::http::header::CONTENT_TYPE);
    if is_bare {
        return Problem::new(response.status(), "the request cannot be read").into_response();
    }
    response
}

/// Session of a path. An invalid id counts as unknown.
#[derive(Debug)]
pub(crate) struct SessionPath(pub(crate) SessionId);

impl<S: Send + Sync> FromRequestParts<S> for SessionPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        let mut parameters = path_parameters(parts).await;
        let id = parameters
            .find(|(name, _)| name == "id")
            .and_then(|(_, id)| SessionId::new(id).ok())
            .filter(|id| *id != SessionId::none());
        id.map(Self).ok_or_else(Problem::no_session)
    }
}

/// Last parameter of a path.
#[derive(Debug)]
pub(crate) struct LastParameter(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for LastParameter {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        let last = path_parameters(parts).await.last();
        last.map(|(_, value)| Self(value))
            .ok_or_else(Problem::not_found)
    }
}

/// Returns the names and values of a path's parameters; none if they cannot be read.
async fn path_parameters(parts: &mut Parts) -> impl Iterator<Item = (String, String)> {
    let read = Path::<Vec<(String, String)>>::from_request_parts(parts, &()).await;
    read.map(|Path(parameters)| parameters)
        .unwrap_or_default()
        .into_iter()
}

/// Parses the id of a turn.
pub(crate) fn turn_id(text: Option<String>) -> Answer<Option<TurnId>> {
    let id = text.map(TurnId::new).transpose();
    id.map_err(|error| Problem::unprocessable(format!("the id of a turn: {error}")))
}

/// Builds a message of these members.
fn message(id: &SessionId, kind: &str, mut members: Map<String, Value>) -> Answer<HostMessage> {
    for (name, value) in [("type", json!(kind)), ("session_id", json!(id))] {
        if members.insert(name.to_owned(), value).is_some() {
            return Err(Problem::unprocessable(format!("{name} may not be set")));
        }
    }
    let message = HostMessage::parse(&Value::Object(members).to_string());
    message.map_err(Problem::unprocessable)
}

/// Refuses options that the lenient reader of the protocol has dropped: a dropped restriction would
/// restrict nothing.
fn all_read(options: &Map<String, Value>, message: &HostMessage) -> Answer<()> {
    let read: Map<String, Value> = serde_json::from_slice(&message.to_line()).unwrap_or_default();
    let is_lost = |(name, value): &(&String, &Value)| !value.is_null() && !read.contains_key(*name);
    let Some((name, _)) = options.iter().find(is_lost) else {
        return Ok(());
    };
    let network = NetworkOption::ALL.map(NetworkOption::name).into_iter();
    let mut known = network.chain(SessionOption::ALL.map(SessionOption::name));
    let why = if known.any(|known| known == name) {
        "has another type, or is out of range"
    } else {
        "is not an option, or has another type"
    };
    Err(Problem::unprocessable(format!("{name} {why}")))
}

/// JSON body; an empty one counts as `{}`.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Answer<Self> {
        let bytes = read(request.into_body(), BODY).await?;
        let bytes = if bytes.is_empty() { &b"{}"[..] } else { &bytes };
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(Problem::bad_request("the body is no JSON object"));
        }
        let read = serde_json::from_slice(bytes);
        read.map(Self)
            .map_err(|error| Problem::bad_request(format!("the body: {error}")))
    }
}

/// Reads a body of up to `most` bytes.
pub(crate) async fn read(body: Body, most: usize) -> Answer<Vec<u8>> {
    let late = |_| Problem::late("the body did not come in time");
    timeout(BODY_TIME, bytes_of(body, most))
        .await
        .map_err(late)?
}

async fn bytes_of(body: Body, most: usize) -> Answer<Vec<u8>> {
    // A client that announces its length, as most do, gets one buffer of that size.
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let too_large = || Problem::too_large(format!("the body has more than {most} bytes"));
    if announced > most {
        // Before the client gets `100 Continue`.
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(announced);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk =
            chunk.map_err(|error| Problem::bad_request(format!("the body is cut: {error}")))?;
        if bytes.len() + chunk.len() > most {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Timeout for a body.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Query of a URL.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        // The parser would replace bytes that are not UTF-8.
        percent_decode_str(parts.uri.query().unwrap_or_default())
            .decode_utf8()
            .map_err(|error| Problem::bad_request(format!("the query: {error}")))?;
        let read = axum::extract::Query::try_from_uri(&parts.uri);
        read.map(|read| Self(read.0))
            .map_err(|error| Problem::bad_request(format!("the query: {error}")))
    }
}

/// Runs a future that a client which leaves must not interrupt.
pub(crate) async fn spawned<T: Send + 'static>(
    work: impl Future<Output = Answer<T>> + Send + 'static,
) -> Answer<T> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|_| Err(Problem::unavailable("the daemon ends")))
}

/// Runs blocking work on a thread for it.
pub(crate) async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Answer<T>
where
    T: Send + 'static,
    E: Into<Problem> + Send + 'static,
{
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Problem::unavailable("the daemon ends"))?
        .map_err(Into::into)
}

pub(crate) use acp::AcpConnections;
pub(crate) use search::RunningSearches;
