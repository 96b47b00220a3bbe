//! Connections of other hosts, each for one who asks there.

use std::sync::Arc;

use axum::Router;
use tokio::io::AsyncReadExt;
use trunkline_relay::serve_hub;

use super::{Stream, Who};
use crate::{accept, accept::Peer, gateway::Shared, judge::Folders, pass::Pass};

/// How many connections of other hosts there are at a time. A further one is closed at once.
pub(crate) const FELLOWS: usize = 16 * 1024;

/// Serves one connection of another host: requests, or a hub that speaks lines, told apart by their first byte.
pub(crate) async fn serve(shared: Arc<Shared>, router: Router, stream: Box<dyn Stream>, who: Who) {
    let Ok(place) = shared.fellows.clone().try_acquire_owned() else {
        return tracing::warn!("too many connections of other hosts are open");
    };
    let pass = Pass::of_fellow(who);
    let (mut input, output) = tokio::io::split(stream);
    let mut first = [0];
    let read = tokio::select! {
        read = tokio::time::timeout(accept::FIRST, input.read_exact(&mut first)) => read,
        () = shared.ending() => return,
        () = shared.passes.ended(&pass) => return,
    };
    if !matches!(read, Ok(Ok(_))) {
        return;
    }
    let input = std::io::Cursor::new(first).chain(input);
    if first[0].is_ascii_uppercase() {
        let stopped = shared.ending.clone();
        let stream = tokio::io::join(input, output);
        return accept::serve(stream, router, Peer::Fellow(pass), stopped, place).await;
    }
    let options = shared.relay_options(&pass, Folders::Refused);
    serve_hub(shared.host.clone(), options, input, output, shared.over_for(&pass)).await;
    drop(place);
}
