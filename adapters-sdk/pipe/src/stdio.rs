//! Taking stdin and stdout for the wire.
//!
//! The real descriptors are kept aside. Descriptor 1 becomes stderr and descriptor 0 the null
//! device, so that neither a library's print nor a child's read touches the wire.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{fs::FileTypeExt, net::UnixStream as StdUnixStream},
    },
};

use rustix::{
    io::fcntl_dupfd_cloexec,
    stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{UnixStream, unix::pipe},
};

/// The first descriptor that is not a standard one.
const FIRST_FREE: i32 = 3;

/// Input of the wire.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;
/// Output of the wire.
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Keeps the wire, and gives everything else in the process something harmless.
///
/// # Errors
///
/// When the descriptors cannot be taken.
///
/// # Panics
///
/// Outside a tokio runtime with I/O.
pub fn take_stdio() -> io::Result<(Input, Output)> {
    io::stdout().flush()?;
    let input = fcntl_dupfd_cloexec(stdin(), FIRST_FREE)?;
    let output = fcntl_dupfd_cloexec(stdout(), FIRST_FREE)?;
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    dup2_stdin(&null)?;
    if dup2_stdout(stderr()).is_err() {
        dup2_stdout(&null)?;
    }
    Ok((reader(input)?, writer(output)?))
}

/// Pipes and sockets are polled; a file or terminal is read by a thread that is not joined at the end.
fn reader(input: OwnedFd) -> io::Result<Input> {
    let file = File::from(input);
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() {
        let own = pipe::OpenOptions::new().open_receiver(own_path(&file));
        return match own {
            Ok(receiver) => Ok(Box::new(receiver)),
            Err(_) => Ok(Box::new(pipe::Receiver::from_owned_fd(file.into())?)),
        };
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
        let own = pipe::OpenOptions::new().open_sender(own_path(&file));
        return match own {
            Ok(sender) => Ok(Box::new(sender)),
            Err(_) => Ok(Box::new(pipe::Sender::from_owned_fd(file.into())?)),
        };
    }
    if kind.is_socket() {
        return Ok(Box::new(socket(file)?));
    }
    Ok(Box::new(tokio::fs::File::from_std(file)))
}

/// Opening a pipe by this path makes a description of our own: not blocking is a property of the
/// description, and the one that was inherited may be another process's stderr too.
fn own_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn socket(file: File) -> io::Result<UnixStream> {
    let socket = StdUnixStream::from(OwnedFd::from(file));
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}
