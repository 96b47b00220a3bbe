//! Connections from other hosts. Each serves one principal.

use std::sync::Arc;

use axum::Router;
use tokio::io::AsyncReadExt;
use trunkline_relay::serve_hub;

use super::{ForwardedPrincipal, Stream};
use crate::{
    auth::{authorizer::HubOrigin, principal::Principal},
    gateway::Shared,
    http::connection::{self, Peer},
};

/// Limit for the connections from other hosts. A further one is closed.
pub(crate) const MAX_PEER_CONNECTIONS: usize = 16 * 1024;

/// Serves a connection from another host. The first byte decides between HTTP and a hub that sends
/// lines.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    router: Router,
    stream: Box<dyn Stream>,
    who: ForwardedPrincipal,
) {
    let Ok(place) = shared.peer_connections.clone().try_acquire_owned() else {
        return tracing::warn!(
            "too many connections from other hosts are open; the new one is closed"
        );
    };
    let principal = Principal::of_other_host(who, shared.options.token_agents.clone());
    let (mut input, output) = tokio::io::split(stream);
    let mut first = [0];
    let read = tokio::select! {
        read = tokio::time::timeout(connection::FIRST_BYTE_TIMEOUT, input.read_exact(&mut first)) => read,
        () = shared.ending() => return,
        () = shared.known_tokens.ended(&principal) => return,
    };
    if !matches!(read, Ok(Ok(_))) {
        return;
    }
    let input = std::io::Cursor::new(first).chain(input);
    if first[0].is_ascii_uppercase() {
        let stopped = shared.ending.clone();
        let stream = tokio::io::join(input, output);
        return connection::serve(stream, router, Peer::OtherHost(principal), stopped, place).await;
    }
    let options = shared.relay_options(&principal, HubOrigin::Network);
    serve_hub(
        shared.host.clone(),
        options,
        input,
        output,
        shared.ending_for(&principal),
    )
    .await;
    drop(place);
}
