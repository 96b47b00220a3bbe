//! The relay protocol over a WebSocket. A message holds one or more complete lines.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use trunkline_protocol::MAX_LINE;

use super::socket::{self, MessageFormat};
use crate::{auth::authorizer::Folders, gateway::Shared, peers::router};

pub(super) async fn upgrade(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let relay = shared.clone();
    // The relay reports lines that are too long.
    socket::upgrade(
        shared,
        request,
        MAX_LINE,
        MessageFormat::Lines,
        move |principal, input, output, stop| {
            let principal = principal.clone();
            Ok(async move {
                router::serve(&relay, &principal, Folders::Refused, input, output, stop).await
            })
        },
    )
    .await
}
