//! Taking stdin and stdout for the wire, and SIGTERM for the end ([relay.9]).

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

use crate::{RelayOptions, Report, serve::serve_pipes};

/// The first descriptor that is not a standard one.
const FIRST_FREE: i32 = 3;

/// How often the end of an input is looked for that is not read for the moment.
const LOOK: Duration = Duration::from_millis(200);

/// Serves the hub that holds the other ends of stdin and stdout, until stdin ends, SIGTERM or SIGINT comes, or stdout
/// breaks: the whole of `trunkline serve`. Takes both descriptors for the rest of the process's life.
///
/// A terminal or file as stdin is read by a thread that cannot be interrupted: end the process after this, rather than
/// wait for the runtime to.
///
/// # Errors
/// When the descriptors or the signals cannot be taken. The relay's own end is never an error.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn serve_stdio(host: Host, options: RelayOptions) -> io::Result<Report> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // A second handle to the input, to see its end while nothing is read.
    let hung_up = fcntl_dupfd_cloexec(stdin(), FIRST_FREE)?;
    let (reader, writer) = take_stdio()?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok(serve_pipes(host, reader, writer, options, Box::pin(stop), Box::pin(closed_above(hung_up))).await)
}

/// Resolves when the hub has closed the input, however much of it is unread; never for what is not a pipe or socket.
async fn closed_above(input: OwnedFd) {
    let mut looks = interval(LOOK);
    loop {
        looks.tick().await;
        let mut watched = [PollFd::new(&input, PollFlags::RDHUP)];
        let looked = poll(&mut watched, Some(&Timespec::default()));
        if looked.is_ok() && watched[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP) {
            return;
        }
    }
}
