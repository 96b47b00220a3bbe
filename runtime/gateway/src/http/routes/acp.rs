//! The Agent Client Protocol by its remote transport: a WebSocket, or HTTP requests and streams.
//!
//! A connection is a hub of the daemon's own relay, with the same authorization as the pipe. Its
//! sessions outlive it: turns continue, and permission requests wait for the next client.
//!
//! Over HTTP a connection begins with `initialize`. The response has the connection's id, which
//! each further request names. Each request is answered with 202 at once. The agent's messages
//! arrive by streams: one for the connection, and one for each session.

mod connection;
mod host;
mod streams;

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use tokio::{sync::Notify, time::sleep};
use trunkline_protocol::SessionId;
use uuid::Uuid;

use self::{connection::AcpConnection, streams::OpenStreamError};
use super::{
    Query,
    events::{HEARTBEAT, ReadEvents, answer_events},
    read,
    socket::{self, MessageFormat, SocketHandler, one_line},
};
use crate::{
    auth::{authentication::require_principal, principal::Principal},
    gateway::Shared,
    http::{
        cors,
        operation::{AcceptedAnswer, RequestContext, WithStatus},
        problem::{Answer, Problem},
        session_client::SessionClient,
    },
};

pub(crate) use self::connection::AcpConnections;

/// Limit for a message of a client, in bytes. A prompt can be long.
const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// Header with the id of a connection.
const CONNECTION_HEADER: HeaderName = HeaderName::from_static("acp-connection-id");

/// Header with the id of a session, which also names its stream.
const SESSION_HEADER: HeaderName = HeaderName::from_static("acp-session-id");

/// Query of a new connection.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ConnectionQuery {
    /// Agent of new sessions; the default one if absent. Only its sessions are listed; all if absent.
    agent: Option<String>,
}

/// Handles GET: opens a WebSocket, or a stream of an existing connection.
pub(super) async fn open_stream(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<ConnectionQuery>,
    request: Request,
) -> Answer<Response> {
    let headers = request.headers();
    if cors::single_header(headers, header::UPGRADE)
        .is_some_and(|to| to.eq_ignore_ascii_case("websocket"))
    {
        shared.takes_work()?;
        return upgrade(shared, query, request).await;
    }
    let principal = require_principal(&shared, request.extensions(), headers).await?;
    let accepts = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    if !accepts
        .flat_map(|value| value.split(','))
        .any(|kind| media_type(kind) == "text/event-stream")
    {
        let detail = "the answer is a stream: `Accept: text/event-stream`, or a WebSocket";
        return Err(Problem::new(StatusCode::NOT_ACCEPTABLE, detail));
    }
    let connection = find_connection(&shared, &principal, headers)?;
    let session = session_header(headers)?;
    if let Some(session) = &session {
        // The session need not be open yet: clients open its stream first.
        SessionClient::join(&shared.sessions_for(&principal), session).await?;
    }
    let session = session.map(|session| session.as_str().to_owned());
    let wake = connection
        .streams()
        .open(session.as_deref())
        .map_err(|taken| match taken {
            OpenStreamError::Open => Problem::conflict("another request has this stream open"),
            OpenStreamError::Full => Problem::too_many("the connection has too many streams"),
        })?;
    connection.record_use();
    let stream = ClientStream {
        connection,
        session,
        wake,
    };
    answer_events(RequestContext { shared, principal }, stream)
}

async fn upgrade(
    shared: Arc<Shared>,
    query: ConnectionQuery,
    request: Request,
) -> Answer<Response> {
    let own = shared.clone();
    let serve: SocketHandler = Box::new(move |principal, input, output, stop| {
        Box::pin(async move {
            let (host, options) = host::serve_as(own, &principal, query.agent);
            if let Err(error) = trunkline_acp::serve(input, output, host, options, stop).await {
                tracing::warn!("an ACP connection has failed: {error}");
            }
        })
    });
    let format = MessageFormat::Rpc;
    let mut response = socket::upgrade(shared, request, MAX_MESSAGE_BYTES, format, serve).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS
        && let Ok(id) = HeaderValue::try_from(Uuid::new_v4().to_string())
    {
        response.headers_mut().insert(CONNECTION_HEADER, id);
    }
    Ok(response)
}

/// Handles POST: receives one message.
pub(super) async fn receive_message(
    RequestContext { shared, principal }: RequestContext,
    Query(query): Query<ConnectionQuery>,
    request: Request,
) -> Answer<Response> {
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    if cors::single_header(&headers, header::CONTENT_TYPE)
        .is_none_or(|kind| media_type(kind) != "application/json")
    {
        let detail = "a message is JSON: `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let body = read(body, MAX_MESSAGE_BYTES).await?;
    let message: Value = serde_json::from_slice(&body)
        .map_err(|error| Problem::bad_request(format!("the body: {error}")))?;
    if message.is_array() {
        return Err(Problem::bad_request("batches are no part of ACP"));
    }
    if !message.is_object() {
        return Err(Problem::bad_request("a message of JSON-RPC is an object"));
    }
    let method = message["method"].as_str();
    let id = message.get("id").filter(|id| !id.is_null());
    if method == Some("initialize") {
        if headers.contains_key(CONNECTION_HEADER) {
            return Err(Problem::bad_request(
                "the connection is initialized already; send `initialize` once, without Acp-Connection-Id",
            ));
        }
        if id.is_none() {
            return Err(Problem::bad_request(
                "`initialize` is a request: it has an `id`",
            ));
        }
        shared.takes_work()?;
        let (id, answer) =
            connection::begin_connection(shared, principal, query.agent, one_line(&body)).await?;
        let headers = [
            (CONNECTION_HEADER, &*id),
            (header::CONTENT_TYPE, "application/json"),
        ];
        return Ok((headers, answer).into_response());
    }
    let connection = find_connection(&shared, &principal, &headers)?;
    let header = session_header(&headers)?.map(|session| session.as_str().to_owned());
    let said = message["params"]["sessionId"].as_str().map(str::to_owned);
    let differs = || Problem::bad_request("Acp-Session-Id names another session than the message");
    if header.is_some() && said.is_some() && header != said {
        return Err(differs());
    }
    // Methods that open or delete a session need no header: the client may not have its stream yet.
    let needs = [
        "session/prompt",
        "session/cancel",
        "session/close",
        "session/set_mode",
        "session/set_config_option",
    ];
    if method.is_some_and(|method| needs.contains(&method)) && header.is_none() {
        return Err(Problem::bad_request("Acp-Session-Id is missing"));
    }
    let id = id.map(Value::to_string);
    {
        let mut streams = connection.streams();
        match (method, &id) {
            (Some(method), id) => {
                let opens = matches!(method, "session/load" | "session/resume" | "session/fork");
                if let Some(session) = said.as_deref().filter(|_| opens) {
                    streams.note_opened(session, header.is_some());
                }
                if let Some(id) = id {
                    streams.expect_response(id.clone(), header.or(said), opens);
                }
            }
            (None, Some(id)) => {
                if header.is_some()
                    && streams
                        .request_session(id)
                        .is_some_and(|session| header.as_deref() != Some(session))
                {
                    return Err(differs());
                }
                streams.finish_request(id);
            }
            (None, None) => {}
        }
    }
    let taken = connection.send_message(one_line(&body)).await;
    if let (Err(_), Some(_), Some(id)) = (&taken, method, &id) {
        connection.streams().forget_expected(id);
    }
    taken.map(|()| StatusCode::ACCEPTED.into_response())
}

/// Handles DELETE: closes a connection.
pub(super) async fn end_connection(
    RequestContext { shared, principal }: RequestContext,
    headers: HeaderMap,
) -> Answer<AcceptedAnswer> {
    find_connection(&shared, &principal, &headers)?.end();
    Ok(WithStatus(()))
}

/// Returns a media type without its parameters.
fn media_type(value: &str) -> String {
    value
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// Finds the connection that a request names.
fn find_connection(
    shared: &Shared,
    principal: &Principal,
    headers: &HeaderMap,
) -> Answer<Arc<AcpConnection>> {
    let id = cors::single_header(headers, CONNECTION_HEADER)
        .ok_or_else(|| Problem::bad_request("Acp-Connection-Id is missing"))?;
    shared
        .acp
        .find(id, principal)
        .ok_or_else(Problem::no_connection)
}

/// Returns the session that a request names.
fn session_header(headers: &HeaderMap) -> Answer<Option<SessionId>> {
    if !headers.contains_key(SESSION_HEADER) {
        return Ok(None);
    }
    let id = cors::single_header(headers, SESSION_HEADER).and_then(|id| SessionId::new(id).ok());
    id.filter(|id| *id != SessionId::none())
        .map(Some)
        .ok_or_else(Problem::no_session)
}

/// Event stream of a client.
struct ClientStream {
    connection: Arc<AcpConnection>,
    session: Option<String>,
    wake: Arc<Notify>,
}

impl ReadEvents for ClientStream {
    async fn read_events(&mut self) -> Option<Bytes> {
        tokio::select! {
            biased;
            () = self.connection.wait_until_over() => None,
            events = self.connection.next_events(self.session.as_deref(), &self.wake) => Some(events),
            () = sleep(HEARTBEAT) => Some(Bytes::from_static(b":\n\n")),
        }
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        self.connection.streams().close(self.session.as_deref());
        self.connection.record_use();
    }
}
