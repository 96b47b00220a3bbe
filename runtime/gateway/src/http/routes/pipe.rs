//! The relay protocol over a WebSocket. A message holds one or more complete lines.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use trunkline_protocol::MAX_LINE;

use super::socket::{self, MessageFormat};
use crate::{auth::authorizer::HubOrigin, gateway::Shared, http::problem::Answer, peers::router};

pub(super) async fn upgrade(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Answer<Response> {
    let relay = shared.clone();
    // The relay reports lines that are too long.
    socket::upgrade(
        shared,
        request,
        MAX_LINE,
        MessageFormat::Lines,
        Box::new(move |principal, input, output, stop| {
            Box::pin(async move {
                router::serve(&relay, &principal, HubOrigin::Network, input, output, stop).await
            })
        }),
    )
    .await
}
