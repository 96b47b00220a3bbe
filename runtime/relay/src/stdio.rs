//! Taking stdin and stdout for the wire, and SIGTERM for the end ([relay.9]).
//!
//! The real descriptors are kept aside. Descriptor 1 becomes stderr and descriptor 0 the null device, so that neither
//! a library's print nor a child's read touches the wire.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{fs::FileTypeExt, net::UnixStream as StdUnixStream},
    },
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::fcntl_dupfd_cloexec,
    stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout},
};
use tokio::{
    net::{UnixStream, unix::pipe},
    signal::unix::{SignalKind, signal},
    time::interval,
};
use trunkline_host::Host;

use crate::{
    RelayOptions, Report,
    serve::{Input, Output, serve_pipes},
};

/// The first descriptor that is no standard one.
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
    let Wire { reader, writer, hung_up } = take()?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok(serve_pipes(host, reader, writer, options, Box::pin(stop), Box::pin(closed_above(hung_up))).await)
}

/// The hub's pipes.
struct Wire {
    reader: Input<'static>,
    writer: Output,
    /// A second handle to the input, to see its end while nothing is read.
    hung_up: OwnedFd,
}

/// Resolves when the hub has closed the input, however much of it is unread; never for what is no pipe or socket.
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

/// Keeps the wire and gives everybody else something harmless.
fn take() -> io::Result<Wire> {
    io::stdout().flush()?;
    let input = fcntl_dupfd_cloexec(stdin(), FIRST_FREE)?;
    let hung_up = fcntl_dupfd_cloexec(stdin(), FIRST_FREE)?;
    let output = fcntl_dupfd_cloexec(stdout(), FIRST_FREE)?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    if dup2_stdout(stderr()).is_err() {
        dup2_stdout(&null)?;
    }
    Ok(Wire { reader: reader(input)?, writer: writer(output)?, hung_up })
}

fn reader(input: OwnedFd) -> io::Result<Input<'static>> {
    let file = File::from(input);
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() {
        return Ok(match pipe::OpenOptions::new().open_receiver(own_path(&file)) {
            Ok(receiver) => Box::new(receiver),
            Err(_) => Box::new(pipe::Receiver::from_owned_fd(file.into())?),
        });
    }
    if kind.is_socket() {
        return Ok(Box::new(socket(file)?));
    }
    Ok(Box::new(tokio::fs::File::from_std(file)))
}

fn writer(output: OwnedFd) -> io::Result<Output> {
    let file = File::from(output);
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() {
        return Ok(match pipe::OpenOptions::new().open_sender(own_path(&file)) {
            Ok(sender) => Box::new(sender),
            Err(_) => Box::new(pipe::Sender::from_owned_fd(file.into())?),
        });
    }
    if kind.is_socket() {
        return Ok(Box::new(socket(file)?));
    }
    Ok(Box::new(tokio::fs::File::from_std(file)))
}

/// Opening a pipe by this path makes a description of our own: not blocking is a property of the description, and the
/// one that was inherited may be another process's stderr too.
fn own_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn socket(file: File) -> io::Result<UnixStream> {
    let socket = StdUnixStream::from(OwnedFd::from(file));
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}
