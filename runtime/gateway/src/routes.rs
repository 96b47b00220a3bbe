//! The paths. Each is thin: what it does, a session or the host does.

mod acp;
mod agents;
pub(crate) mod events;
mod files;
mod hosts;
mod inputs;
mod operate;
mod pipe;
mod requests;
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
    http::{StatusCode, request::Parts},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{delete, get, post, put},
};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use tracing::{Instrument, Span, field};
use trunkline_host::redact;
use trunkline_protocol::{HostMessage, SessionId, TurnId};

pub(crate) use self::sessions::New;
use crate::{
    console,
    elsewhere::{carry, fellow},
    gateway::Shared,
    guard,
    pass::Pass,
    problem::{Answer, Problem},
};

/// The longest body that is JSON, in bytes.
const BODY: usize = 1024 * 1024;

/// All paths.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let mut of_session = Router::new()
        .route(
            "/v1/sessions/{id}",
            get(sessions::show).delete(sessions::close),
        )
        .route("/v1/sessions/{id}/inputs", post(inputs::take))
        .route("/v1/sessions/{id}/events", get(events::stream))
        .route("/v1/sessions/{id}/history", get(sessions::history))
        .route("/v1/sessions/{id}/stop", post(requests::stop))
        .route(
            "/v1/sessions/{id}/requests/{request}",
            post(requests::answer),
        )
        .route("/v1/sessions/{id}/settings", post(requests::update))
        .route("/v1/sessions/{id}/fork", post(sessions::fork))
        .route("/v1/sessions/{id}/edit", post(sessions::edit))
        .route("/v1/sessions/{id}/files", put(files::take))
        .route("/v1/sessions/{id}/files/{sha256}", get(files::give));
    if shared.options.elsewhere.is_some() {
        of_session = of_session.route_layer(from_fn_with_state(shared.clone(), carry::to_its_host));
    }
    let guarded = Router::new()
        .route("/v1/me", get(operate::me))
        .route("/v1/agents", get(agents::list))
        .route(
            "/v1/agents/{agent}/conversations",
            get(agents::conversations),
        )
        .route("/v1/hosts", get(hosts::list))
        .route("/v1/sessions", get(sessions::listed).post(sessions::open))
        .merge(of_session)
        // No host has it.
        .route("/v1/sessions/{id}/relocate", post(hosts::relocate))
        .route("/v1/usage", get(operate::usage))
        .route("/v1/tokens", get(tokens::list).post(tokens::make))
        .route("/v1/tokens/{id}", delete(tokens::revoke))
        .route("/v1/drain", post(hosts::drain))
        .route("/v1/reload", post(operate::reload))
        .route("/v1/stop", post(operate::stop))
        .route("/v1/handover", post(operate::handover))
        .route("/acp", post(acp::take).delete(acp::end))
        .route("/metrics", get(operate::metrics))
        .route("/openapi.json", get(operate::contract))
        .route_layer(from_fn_with_state(shared.clone(), guard::with_pass));
    let open = Router::new()
        .route("/", get(async || console::page()))
        .route("/app.js", get(async || console::script()))
        .route("/app.css", get(async || console::style()))
        .route("/icon.svg", get(async || console::icon()))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(operate::ready))
        .route(crate::handover::PATH, post(operate::open))
        // It may tell who it is by its first message.
        .route("/v1/pipe", get(pipe::upgrade))
        // So may this.
        .route("/acp", get(acp::listen));
    guarded
        .merge(open)
        .route_layer(from_fn_with_state(shared.clone(), counted))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path does not take that method",
            )
        })
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn(plain_errors))
        .layer(from_fn(fellow::read_whole))
        .layer(from_fn_with_state(shared.clone(), guard::from_here))
        .with_state(shared)
}

/// Counts a request, by its route and not by its path, of which there are too many.
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

/// Runs a request in a span, which ends with the head of the answer: a stream goes on without it.
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
    let named = request.extract_parts::<Named>().await.ok();
    let response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    // What a stranger calls a session is no name of one.
    if let Some(Named(id)) = named.filter(|_| status != StatusCode::UNAUTHORIZED) {
        span.record("session", &*redact::text(id.as_str()));
    }
    response
}

/// Errors that the router itself makes have no body: they get one as the others have.
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

/// The session that a path names. What is no id names none.
#[derive(Debug)]
pub(crate) struct Named(pub(crate) SessionId);

impl<S: Send + Sync> FromRequestParts<S> for Named {
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

/// Another part of a path, by its name.
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

/// The id of a turn.
pub(crate) fn turn_id(text: Option<String>) -> Answer<Option<TurnId>> {
    let id = text.map(TurnId::new).transpose();
    id.map_err(|error| Problem::unprocessable(format!("the id of a turn: {error}")))
}

/// The message of these members.
fn message(id: &SessionId, kind: &str, mut members: Map<String, Value>) -> Answer<HostMessage> {
    for (name, value) in [("type", json!(kind)), ("session_id", json!(id))] {
        if members.insert(name.to_owned(), value).is_some() {
            return Err(Problem::unprocessable(format!("{name} may not be set")));
        }
    }
    let message = HostMessage::parse(&Value::Object(members).to_string());
    message.map_err(|error| Problem::unprocessable(error.to_string()))
}

/// Refuses options that the protocol, which is lenient, has not read: a restriction that is not
/// there restricts nothing.
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

/// A body in JSON; an empty one counts as `{}`.
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
async fn read(body: Body, most: usize) -> Answer<Vec<u8>> {
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

/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(30);

/// The query of an address.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        let read = axum::extract::Query::try_from_uri(&parts.uri);
        read.map(|read| Self(read.0))
            .map_err(|error| Problem::bad_request(format!("the query: {error}")))
    }
}

/// Does what blocks where that may be.
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

type Asks = Extension<Pass>;
type Gate = State<Arc<Shared>>;

pub(crate) use acp::Connections;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    /// The contract is a file by hand: it has each path and method that there is, and no other.
    #[test]
    fn the_contract_has_all_paths() {
        let contract: Value = serde_json::from_str(super::operate::CONTRACT).unwrap();
        let methods = ["get", "post", "put", "delete"];
        let mut told = BTreeSet::new();
        for (path, item) in contract["paths"].as_object().unwrap() {
            told.extend(
                methods
                    .iter()
                    .filter(|method| item[**method].is_object())
                    .map(|method| (path.clone(), *method)),
            );
        }
        let source = include_str!("routes.rs")
            .split("#[cfg(test)]")
            .next()
            .unwrap();
        let source: String = source.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut there = BTreeSet::new();
        for route in source.split(".route(").skip(1) {
            let (path, rest) = route.split_once(", ").unwrap();
            let path = match path.trim().trim_matches('"') {
                "crate::handover::PATH" => crate::handover::PATH,
                path => path,
            };
            let rest = rest.split(".route").next().unwrap();
            for method in methods {
                if rest.contains(&format!("{method}(")) {
                    there.insert((path.to_owned(), method));
                }
            }
        }
        // The page and its assets are for people.
        for asset in ["/", "/app.js", "/app.css", "/icon.svg"] {
            assert!(there.remove(&(asset.to_owned(), "get")), "{asset}");
        }
        assert_eq!(told, there);
    }
}
