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
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension, RequestExt, Router,
    body::{Body, HttpBody},
    extract::{DefaultBodyLimit, FromRequest, FromRequestParts, MatchedPath, Path, Request, State},
    handler::Handler,
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

pub(crate) use self::sessions::New;
use crate::{
    auth::{authentication, handover, principal::Principal},
    gateway::Shared,
    http::{
        console, cors, encoding, idempotency,
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
        .merge(console_routes().router)
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

/// Routes of one session, which another host may serve.
fn session_routes() -> Routes {
    Routes::default()
        .get("/v1/sessions/{id}", sessions::show)
        .patch("/v1/sessions/{id}", sessions::edit)
        .delete("/v1/sessions/{id}", sessions::close)
        .post("/v1/sessions/{id}/inputs", inputs::take)
        .get("/v1/sessions/{id}/events", events::stream_entries)
        .get("/v1/sessions/{id}/history", sessions::history)
        .get("/v1/sessions/{id}/export", export::export)
        .post("/v1/sessions/{id}/stop", requests::stop)
        .post("/v1/sessions/{id}/requests/{request}", requests::answer)
        .post("/v1/sessions/{id}/settings", requests::update)
        .post("/v1/sessions/{id}/fork", sessions::fork)
        .put("/v1/sessions/{id}/files", files::take)
        .get("/v1/sessions/{id}/files/{sha256}", files::give)
}

/// Routes of this daemon that need a token.
fn authenticated_routes() -> Routes {
    Routes::default()
        .get("/v1/me", operate::me)
        .get("/v1/agents", agents::list)
        .get("/v1/agents/{agent}/conversations", agents::conversations)
        .get("/v1/hosts", hosts::list)
        .get("/v1/events", changes::stream_changes)
        .get("/v1/sessions", sessions::listed)
        .post("/v1/sessions", sessions::open)
        .get("/v1/search", search::search)
        // No host serves the session.
        .post("/v1/sessions/{id}/relocate", hosts::relocate)
        .get("/v1/usage", operate::usage)
        .get("/v1/tokens", tokens::list)
        .post("/v1/tokens", tokens::make)
        .delete("/v1/tokens/{id}", tokens::revoke)
        .get("/v1/rules", rules::list)
        .delete("/v1/rules/{id}", rules::remove)
        .post("/v1/drain", hosts::drain)
        .post("/v1/reload", operate::reload)
        .post("/v1/stop", operate::stop)
        .post("/v1/handover", operate::handover)
        .post("/acp", acp::receive_message)
        .delete("/acp", acp::end_connection)
        .get("/metrics", operate::metrics)
        .get("/openapi.json", operate::contract)
}

/// Routes without a token, or which can receive it in their first message.
fn open_routes() -> Routes {
    Routes::default()
        .get("/healthz", async || "ok\n")
        .get("/readyz", operate::ready)
        .post(handover::PATH, operate::open)
        .get("/v1/pipe", pipe::upgrade)
        .get("/acp", acp::open_stream)
}

/// Files of the console; the API does not describe them.
fn console_routes() -> Routes {
    Routes::default()
        .get("/", async |headers: HeaderMap| {
            console::INDEX.respond(&headers)
        })
        .get("/app.js", async |headers: HeaderMap| {
            console::SCRIPT.respond(&headers)
        })
        .get("/app.css", async |headers: HeaderMap| {
            console::STYLE.respond(&headers)
        })
        .get("/icon.svg", async |headers: HeaderMap| {
            console::ICON.respond(&headers)
        })
}

/// A router that records its routes: the API's description has exactly these.
#[derive(Default)]
struct Routes {
    router: Router<Arc<Shared>>,
    recorded: Vec<(&'static str, MethodFilter)>,
}

/// Defines the method of [`Routes`] for an HTTP method.
macro_rules! add_route {
    ($($name:ident $filter:ident),*) => {$(
        fn $name<H: Handler<T, Arc<Shared>>, T: 'static>(
            self,
            path: &'static str,
            handler: H,
        ) -> Self {
            self.add(path, MethodFilter::$filter, handler)
        }
    )*};
}

impl Routes {
    add_route!(get GET, post POST, put PUT, patch PATCH, delete DELETE);

    fn add<H: Handler<T, Arc<Shared>>, T: 'static>(
        mut self,
        path: &'static str,
        method: MethodFilter,
        handler: H,
    ) -> Self {
        self.recorded.push((path, method));
        self.router = self.router.route(path, on(method, handler));
        self
    }
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

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let names: Path<Vec<(String, String)>> = Path::from_request_parts(parts, state)
            .await
            .map_err(|_| Problem::no_session())?;
        let id = names
            .0
            .into_iter()
            .find(|(name, _)| name == "id")
            .map(|(_, id)| id);
        let id = id
            .and_then(|id| SessionId::new(id).ok())
            .filter(|id| *id != SessionId::none());
        id.map(Self).ok_or_else(Problem::no_session)
    }
}

/// Returns another part of a path by its name.
pub(crate) async fn part(parts: &mut Parts, wanted: &str) -> Answer<String> {
    let names: Path<Vec<(String, String)>> = Path::from_request_parts(parts, &())
        .await
        .map_err(|_| Problem::not_found())?;
    let found = names
        .0
        .into_iter()
        .find(|(name, _)| name == wanted)
        .map(|(_, value)| value);
    found.ok_or_else(Problem::not_found)
}

/// Parses the id of a turn.
pub(crate) fn turn_id(text: Option<String>) -> Answer<Option<TurnId>> {
    let id = text.map(TurnId::new).transpose();
    id.map_err(|error| Problem::unprocessable(format!("the id of a turn: {error}")))
}

/// Adds the short names of members; the protocol's names stay for one version.
fn with_short_names(mut answer: Value, names: &[(&str, &str)]) -> Value {
    for (short, protocol) in names {
        if let Some(value) = answer.get(protocol).cloned() {
            answer[short] = value;
        }
    }
    answer
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

type Asks = Extension<Principal>;
type Gate = State<Arc<Shared>>;

pub(crate) use acp::AcpConnections;
pub(crate) use search::RunningSearches;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_openapi_document_describes_exactly_the_routes() {
        let document: Value = serde_json::from_str(operate::CONTRACT).unwrap();
        let methods = [
            ("get", MethodFilter::GET),
            ("post", MethodFilter::POST),
            ("put", MethodFilter::PUT),
            ("patch", MethodFilter::PATCH),
            ("delete", MethodFilter::DELETE),
        ];
        let mut described = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (name, method) in methods {
                if item[name].is_object() {
                    described.push((path.as_str(), method));
                }
            }
        }
        let mut routes = [session_routes(), authenticated_routes(), open_routes()]
            .map(|routes| routes.recorded)
            .concat();
        let order =
            |(path, method): &(&str, MethodFilter)| (path.to_string(), format!("{method:?}"));
        described.sort_by_key(order);
        routes.sort_by_key(order);
        assert_eq!(described, routes);
    }
}
