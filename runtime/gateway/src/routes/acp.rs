//! The Agent Client Protocol, by its remote transport: one WebSocket.
//!
//! A connection is a hub of the daemon's own relay, judged by the same table as the pipe's. It ends without its sessions:
//! turns go on, and what the agent asks waits for who comes next.

mod host;

use axum::{
    extract::{Request, State},
    http::{HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use uuid::Uuid;

use super::{
    Gate, Query,
    socket::{self, Form},
};

/// The longest message of a client, in bytes: a prompt with much text in it.
const MESSAGE: usize = 4 * 1024 * 1024;

/// Names a connection.
const CONNECTION: HeaderName = HeaderName::from_static("acp-connection-id");

/// What a client chooses when it connects.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chosen {
    /// The agent of new sessions, and the only one whose sessions are listed.
    agent: Option<String>,
}

pub(super) async fn upgrade(State(shared): Gate, Query(chosen): Query<Chosen>, request: Request) -> Response {
    if let Err(problem) = shared.takes_work() {
        return problem.into_response();
    }
    let of = shared.clone();
    let serves = move |pass: &_, input, output, stop| {
        let (host, options) = host::serve_as(of, pass, chosen.agent);
        Ok(async move {
            if let Err(error) = trunkline_acp::serve(input, output, host, options, stop).await {
                tracing::warn!("a client of ACP was let go: {error}");
            }
        })
    };
    let mut response = socket::upgrade(shared, request, MESSAGE, Form::Rpc, serves).await;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS
        && let Ok(id) = HeaderValue::try_from(Uuid::new_v4().to_string())
    {
        response.headers_mut().insert(CONNECTION, id);
    }
    response
}
