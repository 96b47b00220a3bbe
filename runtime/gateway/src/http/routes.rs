//! Routes. Each handler is thin: the work is done by a session or the host.

mod acp;
mod agents;
mod changes;
pub(crate) mod events;
mod export;
mod files;
mod hosts;
mod inputs;
mod operate;
mod pipe;
mod requests;
mod rules;
mod search;
mod sessions;
mod socket;
mod tokens;

use std::{
    sync::{Arc, LazyLock},
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
use trunkline_host::redact;
use trunkline_protocol::{HostMessage, SessionId, TurnId};

pub(crate) use self::sessions::NewSession;
use crate::{
    auth::{authentication, handover, token::Scope},
    gateway::Shared,
    http::{
        console, cors, encoding, idempotency,
        operation::{Access, Routes, delete, get, patch, post, put},
        problem::{Answer, Problem},
    },
    peers::{forward, inbound},
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
        .layer(from_fn(inbound::read_whole))
        .layer(from_fn_with_state(
            shared.clone(),
            cors::check_host_and_origin,
        ))
        .with_state(shared)
}

/// Operations of one session, which another host may serve.
fn session_routes() -> Routes {
    let routes = Routes::default();
    let routes = routes.add(
        get(
            "/v1/sessions/{id}",
            "showSession",
            "Returns the state of a session",
        )
        .problems(&[403]),
        sessions::show,
    );
    let routes = routes.add(
        patch("/v1/sessions/{id}", "editSession", "Changes the title of a session, or archives it")
            .scope(Scope::Control)
            .notes("An absent member stays as it is. Archiving closes nothing: a running session continues.")
            .answers(&[(204, "The session is changed, and the change stored.")])
            .problems(&[422]),
        sessions::edit,
    );
    let routes = routes.add(
        delete(
            "/v1/sessions/{id}",
            "closeSession",
            "Closes a session for all clients",
        )
        .scope(Scope::Control)
        .answers(&[(
            204,
            "The session is closed; with `remove`, nothing of it is kept.",
        )])
        .problems(&[409]),
        sessions::close,
    );
    let routes = routes.add(
        post("/v1/sessions/{id}/inputs", "sendInput", "Sends an input")
            .scope(Scope::Control)
            .notes("Two inputs with the same `Idempotency-Key` are one turn. A lost connection stops nothing.")
            .headers(&[("Idempotency-Key", "The id of the input, of 1 to 256 bytes; as `message_id`.")])
            .answers(&[
                (200, "With `wait=end`: the turn has ended."),
                (202, "The journal has the input; the events of its turn follow the entry `seq`."),
            ])
            .problems(&[409, 422, 429]),
        inputs::take,
    );
    let routes = routes.add(
        get("/v1/sessions/{id}/events", "streamEvents", "Streams the entries of a session")
            .headers(&[("Last-Event-ID", "The number of an entry, as `after`, which it overrides.")])
            .media(&["text/event-stream"])
            .answers(&[
                (200, "Each entry is an event: `id` is its `seq`, `event` its type, `data` the entry. Comments are heartbeats."),
                (204, "The session is closed, and has no later entry."),
            ])
            .problems(&[403, 409, 422, 429]),
        events::stream_entries,
    );
    let routes = routes.add(
        get(
            "/v1/sessions/{id}/history",
            "readHistory",
            "Returns a page of a session's entries",
        )
        .problems(&[422]),
        sessions::history,
    );
    let routes = routes.add(
        get("/v1/sessions/{id}/export", "exportSession", "Returns a whole session as a file")
            .notes("All entries up to the last one now. A body that breaks off is incomplete. `Content-Disposition` \
                    names the file.")
            .media(&["application/jsonl", "text/markdown"])
            .answers(&[(200, "The entries as lines, or the conversation as a document.")])
            .problems(&[429]),
        export::export,
    );
    let routes = routes.add(
        post("/v1/sessions/{id}/stop", "stopTurn", "Stops a turn")
            .scope(Scope::Control)
            .answers(&[(
                202,
                "The agent is asked to stop; the end of the turn is an event.",
            )]),
        requests::stop,
    );
    let routes = routes.add(
        post(
            "/v1/sessions/{id}/requests/{request}",
            "answerRequest",
            "Answers a permission or a question",
        )
        .scope(Scope::Control)
        .notes("The first answer decides; a later one is a 409 that names the client which decided. A permission \
                also needs `may_approve`.")
        .answers(&[(200, "This answer has decided.")])
        .problems(&[429, 500]),
        requests::answer,
    );
    let routes = routes.add(
        post(
            "/v1/sessions/{id}/settings",
            "changeSettings",
            "Changes settings of a session",
        )
        .scope(Scope::Control)
        .answers(&[(
            202,
            "The agent is asked to change them; the applied settings are an event.",
        )]),
        requests::update,
    );
    let routes = routes.add(
        post("/v1/sessions/{id}/fork", "forkSession", "Opens a session as a copy of this one")
            .scope(Scope::Control)
            .notes("The copy has the entries of its source, and continues independently. Nothing runs before its \
                    first input.")
            .answers(&[(201, "The copy is stored.")])
            .problems(&[501]),
        sessions::fork,
    );
    let routes = routes.add(
        put(
            "/v1/sessions/{id}/files",
            "putFile",
            "Uploads a file for an input",
        )
        .scope(Scope::Control)
        .accepts("application/octet-stream")
        .answers(&[(
            201,
            "The file waits for an hour for an input that names it.",
        )])
        .problems(&[400, 408, 409, 413, 422, 429]),
        files::take,
    );
    routes.add(
        get(
            "/v1/sessions/{id}/files/{sha256}",
            "getFile",
            "Returns a file that the agent gave, or that an input has named",
        )
        .media(&["application/octet-stream"])
        .answers(&[(200, "The bytes of the file, to be saved.")]),
        files::give,
    )
}

/// Operations of this daemon that need a token.
fn authenticated_routes() -> Routes {
    const CONNECTION: (&str, &str) = (
        "Acp-Connection-Id",
        "The connection, as the answer to `initialize` names it.",
    );
    let routes = Routes::default();
    let routes = routes.add(
        get("/v1/me", "me", "Returns the principal of the token"),
        operate::me,
    );
    let routes = routes.add(
        get(
            "/v1/agents",
            "listAgents",
            "Lists the agents that the token may use, with their health",
        ),
        agents::list,
    );
    let routes = routes.add(
        get(
            "/v1/agents/{agent}/conversations",
            "listConversations",
            "Lists the conversations that an agent itself keeps, the newest first",
        )
        .scope(Scope::Control)
        .notes("Includes those that began without trunkline. The token must see all sessions.")
        .problems(&[404, 422, 501, 503]),
        agents::conversations,
    );
    let routes = routes.add(
        get("/v1/hosts", "listHosts", "Lists the hosts of the cluster")
            .notes("A daemon without a cluster has none."),
        hosts::list,
    );
    let routes = routes.add(
        get("/v1/events", "streamChanges", "Streams the changes of all sessions of this daemon")
            .notes("Has the sessions that the token sees, without the content of inputs and outputs.")
            .headers(&[("Last-Event-ID", "The position of an event, as `after`, which it overrides.")])
            .media(&["text/event-stream"])
            .answers(&[(
                200,
                "Events `snapshot`, `session`, `request`, `turn` and `reset`: `id` is the position, `data` a \
                 StreamedChange. Comments are heartbeats.",
            )])
            .problems(&[422, 429]),
        changes::stream_changes,
    );
    let routes = routes.add(
        get(
            "/v1/sessions",
            "listSessions",
            "Returns a page of sessions, the last active first",
        )
        .answers(&[(200, "Sessions that the token sees.")])
        .problems(&[422]),
        sessions::listed,
    );
    let routes = routes.add(
        post("/v1/sessions", "openSession", "Opens a session")
            .scope(Scope::Control)
            .answers(&[(201, "The session is open and stored.")])
            .problems(&[429, 501, 503]),
        sessions::open,
    );
    let routes = routes.add(
        get("/v1/search", "searchSessions", "Searches titles, inputs and outputs for a text")
            .notes("Searches what this daemon keeps of the sessions that the token sees, for about 250 ms. `next` \
                    continues an incomplete search.")
            .problems(&[422, 429, 503]),
        search::search,
    );
    let routes = routes.add(
        post(
            "/v1/sessions/{id}/relocate",
            "relocateSession",
            "Makes a host take over a session whose files no host has",
        )
        .scope(Scope::Admin)
        .notes("The token must see all sessions. Requests about the session are answered with 503, since its files are \
                on a storage that no running host has. Its agent begins anew: an entry `host.fact` has `context: lost`."),
        hosts::relocate,
    );
    let routes = routes.add(
        get(
            "/v1/usage",
            "usage",
            "Returns the usage of turns by day and agent",
        )
        .notes("The token must see all sessions. Has its agents.")
        .problems(&[403, 503]),
        operate::usage,
    );
    let routes = routes.add(
        get(
            "/v1/tokens",
            "listTokens",
            "Lists the valid tokens without their text",
        )
        .scope(Scope::Admin)
        .problems(&[503]),
        tokens::list,
    );
    let routes = routes.add(
        post("/v1/tokens", "makeToken", "Creates a token")
            .scope(Scope::Admin)
            .notes("It has at most the rights of the token that creates it, and ends with it.")
            .answers(&[(201, "Only this answer has the text of the token.")])
            .problems(&[429, 500, 503]),
        tokens::make,
    );
    let routes = routes.add(
        delete(
            "/v1/tokens/{id}",
            "revokeToken",
            "Revokes a token and those that it created",
        )
        .scope(Scope::Admin)
        .notes("Their streams end within a second.")
        .problems(&[404, 500, 503]),
        tokens::revoke,
    );
    let routes = routes.add(
        get(
            "/v1/rules",
            "listRules",
            "Lists the lasting rules, the oldest first",
        )
        .scope(Scope::Control)
        .answers(&[(200, "Rules of the agents that the token may use.")]),
        rules::list,
    );
    let routes = routes.add(
        delete("/v1/rules/{id}", "removeRule", "Removes a lasting rule")
            .notes("Also needs `may_approve`. The rule approves no later request.")
            .problems(&[403, 404, 500, 503]),
        rules::remove,
    );
    let routes = routes.add(
        post("/v1/drain", "drain", "Makes a host of the cluster hand its sessions to others")
            .scope(Scope::Admin)
            .notes("The host accepts no new sessions. `GET /v1/hosts` has the number of those that are left."),
        hosts::drain,
    );
    let routes = routes.add(
        post("/v1/reload", "reload", "Reads the configuration again")
            .scope(Scope::Admin)
            .problems(&[503]),
        operate::reload,
    );
    let routes = routes.add(
        post("/v1/stop", "stopDaemon", "Stops the daemon")
            .scope(Scope::Admin)
            .answers(&[(
                202,
                "The daemon accepts no more work, and ends within 10 s.",
            )]),
        operate::stop,
    );
    let routes = routes.add(
        post(
            "/v1/handover",
            "handover",
            "Returns a code for a browser, valid once, for a minute",
        )
        .scope(Scope::Admin)
        .notes("Only for this user, over the socket."),
        operate::handover,
    );
    let routes = routes.add(
        post("/acp", "acpSay", "Receives a message of an ACP client")
            .notes("`initialize` begins a connection and is answered by its result. Each further message names the \
                    connection; its answer arrives by a stream. A message needs the scope that it needs on the pipe.")
            .headers(&[CONNECTION, ("Acp-Session-Id", "The session.")])
            .accepts("application/json")
            .media(&["application/json"])
            .answers(&[
                (200, "The answer to `initialize`; the header `Acp-Connection-Id` names the connection."),
                (202, "The message is accepted."),
            ])
            .problems(&[404, 408, 413, 415, 429, 503]),
        acp::receive_message,
    );
    let routes = routes.add(
        delete("/acp", "acpEnd", "Ends an ACP connection")
            .notes("Sessions and their turns continue.")
            .headers(&[CONNECTION])
            .problems(&[400, 404]),
        acp::end_connection,
    );
    let routes = routes.add(
        get("/metrics", "metrics", "Returns figures for Prometheus")
            .notes("The token must see all sessions of all agents.")
            .media(&["text/plain"])
            .answers(&[(200, "The text format, version 0.0.4.")])
            .problems(&[403]),
        operate::metrics,
    );
    routes.add(
        get("/openapi.json", "openapi", "Returns this document")
            .media(&["application/json"])
            .answers(&[
                (200, "OpenAPI 3.1."),
                (304, "The client has this document."),
            ]),
        operate::contract,
    )
}

/// Operations without a token, or which can receive it in their first message.
fn open_routes() -> Routes {
    const FIRST_MESSAGE: &str = "A client without a token in its header sends `{\"type\":\"auth\",\"token\":\"…\"}` first, \
                                 within 10 s.";
    let routes = Routes::default();
    let routes = routes.add(
        get("/healthz", "isAlive", "Answers if the daemon runs")
            .access(Access::Public)
            .media(&["text/plain"])
            .answers(&[(200, "The daemon runs.")]),
        async || "ok\n",
    );
    let routes = routes.add(
        get(
            "/readyz",
            "isReady",
            "Returns whether the daemon accepts work, and what it serves",
        )
        .access(Access::Handler)
        .notes("Needs no token; more is shown to one.")
        .answers(&[
            (200, "The daemon accepts work."),
            (503, "The daemon ends, or its journal cannot be written."),
        ]),
        operate::ready,
    );
    let routes = routes.add(
        post(
            handover::PATH,
            "open",
            "Returns the console for a code of `handover`",
        )
        .access(Access::Public)
        .accepts("application/x-www-form-urlencoded")
        .media(&["text/html"])
        .answers(&[(200, "The page, with a token of its own.")])
        .problems(&[400, 401, 403, 429, 503]),
        operate::open,
    );
    let routes = routes.add(
        get(
            "/v1/pipe",
            "pipe",
            "Opens a WebSocket with the protocol itself",
        )
        .access(Access::Handler)
        .notes("Messages contain whole lines of the protocol.")
        .answers(&[(101, FIRST_MESSAGE)])
        .problems(&[400]),
        pipe::upgrade,
    );
    routes.add(
        get("/acp", "acpListen", "Opens a stream of an ACP connection, or a connection over a WebSocket")
            .access(Access::Handler)
            .notes("With the header of a session its stream, otherwise the connection's: each event is a message of \
                    JSON-RPC. With `Upgrade: websocket` each text is a message, and there are no headers. A message \
                    needs the scope that it needs on the pipe.")
            .headers(&[
                ("Acp-Connection-Id", "The connection, as the answer to `initialize` names it."),
                ("Acp-Session-Id", "The session."),
            ])
            .media(&["text/event-stream"])
            .answers(&[(101, FIRST_MESSAGE), (200, "Events. Comments are heartbeats.")])
            .problems(&[404, 406, 409, 429, 503]),
        acp::open_stream,
    )
}

/// Returns all operations of the API.
#[cfg(test)]
pub(crate) fn api_routes() -> Vec<Routes> {
    vec![session_routes(), authenticated_routes(), open_routes()]
}

/// Returns the files of the console, which the API does not describe.
fn console_routes() -> Router<Arc<Shared>> {
    let file = |asset: &'static LazyLock<console::Asset>| {
        let respond = move |headers: HeaderMap| async move { asset.respond(&headers) };
        on(MethodFilter::GET, respond)
    };
    Router::new()
        .route("/", file(&console::INDEX))
        .route("/app.js", file(&console::SCRIPT))
        .route("/app.css", file(&console::STYLE))
        .route("/icon.svg", file(&console::ICON))
}

/// Counts a request by its route; paths are too many for a metric.
async fn counted(
    State(shared): State<Arc<Shared>>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    let (began, method) = (Instant::now(), request.method().clone());
    let response = match shared.options.traced {
        None => next.run(request).await,
        Some(adopt) => traced(adopt, path.as_str(), request, next).await,
    };
    let metrics = &shared.metrics;
    let status = response.status();
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
    match is_bare {
        true => Problem::new(response.status(), "the request cannot be read").into_response(),
        false => response,
    }
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
    message.map_err(|error| Problem::unprocessable(error.to_string()))
}

/// Refuses options that the lenient reader of the protocol has dropped: a dropped restriction would
/// restrict nothing.
fn all_read(options: &Map<String, Value>, message: &HostMessage) -> Answer<()> {
    let read: Map<String, Value> = serde_json::from_slice(&message.to_line()).unwrap_or_default();
    let is_lost = |(name, value): &(&String, &Value)| !value.is_null() && !read.contains_key(*name);
    match options.iter().find(is_lost) {
        Some((name, _)) => Err(Problem::unprocessable(format!(
            "{name} is not an option, or has another type"
        ))),
        None => Ok(()),
    }
}

/// JSON body; an empty one counts as `{}`.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Answer<Self> {
        let bytes = read(request.into_body(), BODY).await?;
        let bytes = if bytes.is_empty() { &b"{}"[..] } else { &bytes };
        let read = serde_json::from_slice(bytes);
        read.map(Self)
            .map_err(|error| Problem::bad_request(format!("the body: {error}")))
    }
}

/// Reads a body of up to `most` bytes.
pub(crate) async fn read(body: Body, most: usize) -> Answer<Vec<u8>> {
    let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time");
    timeout(BODY_TIME, bytes_of(body, most))
        .await
        .map_err(late)?
}

async fn bytes_of(body: Body, most: usize) -> Answer<Vec<u8>> {
    // A client that announces its length, as most do, gets one buffer of that size.
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(most);
    let mut bytes = Vec::with_capacity(announced.min(most));
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk =
            chunk.map_err(|error| Problem::bad_request(format!("the body is cut: {error}")))?;
        if bytes.len() + chunk.len() > most {
            return Err(Problem::too_large(format!(
                "the body has more than {most} bytes"
            )));
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
