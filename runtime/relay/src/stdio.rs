//! Setup of stdin and stdout as the wire, and of SIGTERM as the end ([relay.9]).

use std::{io, os::fd::OwnedFd, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::fcntl_dupfd_cloexec,
    stdio::stdin,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::interval,
};
use trunkline_host::Host;
use trunkline_pipe::take_stdio;

use crate::{
    RelayOptions, RelayReport,
    doors::SocketListeners,
    serve::{BoxedFuture, serve_with},
};

/// The first descriptor that is not a standard one.
const FIRST_FREE: i32 = 3;

/// Interval for checking the end of an input that is not being read.
const LOOK: Duration = Duration::from_millis(200);

/// Serves the hub that holds the other ends of stdin and stdout, and hubs that connect to the
/// options' sockets, until stdin ends, SIGTERM or SIGINT comes, or stdout breaks: the whole of
/// `trunkline serve`. With [`stays`](RelayOptions::stays) only a signal ends it. Takes both
/// descriptors for the rest of the process's life.
///
/// A terminal or file as stdin is read by a thread that cannot be interrupted: end the process
/// after this, rather than wait for the runtime to.
///
/// # Errors
/// Returned if the descriptors, the signals or a socket cannot be taken. The relay's own end is
/// never an error.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn serve_stdio(host: Host, options: RelayOptions) -> io::Result<RelayReport> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let doors = SocketListeners::open(&host, &options)?;
    // A second handle to the input, to notice its end while nothing is read.
    let hung_up = fcntl_dupfd_cloexec(stdin(), FIRST_FREE)?;
    let (mut reader, writer) = take_stdio()?;
    let mut stop: BoxedFuture<'_, ()> = Box::pin(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    });
    let hung_up = Box::pin(closed_above(hung_up));
    Ok(serve_with(
        host,
        doors,
        &mut reader,
        writer,
        options,
        &mut stop,
        hung_up,
    )
    .await)
}

/// Resolves when the hub has closed the input, however much of it is unread; never for other files
/// than pipes and sockets.
async fn closed_above(input: OwnedFd) {
    let mut looks = interval(LOOK);
    loop {
        looks.tick().await;
        let mut watched = [PollFd::new(&input, PollFlags::RDHUP)];
        let looked = poll(&mut watched, Some(&Timespec::default()));
        if looked.is_ok()
            && watched[0]
                .revents()
                .intersects(PollFlags::HUP | PollFlags::RDHUP)
        {
            return;
        }
    }
}
