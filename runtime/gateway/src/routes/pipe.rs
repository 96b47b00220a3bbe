//! The protocol itself over a WebSocket: a message holds one or more whole lines, and the daemon is the relay.

use axum::{
    extract::{Request, State},
    response::Response,
};
use trunkline_protocol::MAX_LINE;
use trunkline_relay::serve_hub;

use super::{
    Gate,
    socket::{self, Form},
};
use crate::judge::Folders;

pub(super) async fn upgrade(State(shared): Gate, request: Request) -> Response {
    let relay = shared.clone();
    // It is the relay who says that a line is too long.
    socket::upgrade(shared, request, MAX_LINE, Form::Lines, move |pass, input, output, stop| {
        let options = relay.relay_options(pass, Folders::Refused);
        let host = relay.host.clone();
        Ok(async move {
            serve_hub(host, options, input, output, stop).await;
        })
    })
    .await
}
