//! Lifelines that transport deadlines. They are sockets, because a process that sees a reader in
//! `/proc` can open its pipe for writing, and because a write to a socket without a reader raises
//! no signal.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Result of sending a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Sent completely.
    Whole,
    /// There is no room: the other side has not read for long.
    Full,
    /// There is no other side.
    Gone,
}

/// A lifeline: the end that an init holds, and the host's.
///
/// # Errors
///
/// When the system is short of descriptors or memory.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (held, own) = UnixStream::pair()?;
    Ok((held.into(), own.into()))
}

/// Sends a record, whole or not at all. Does not block, and raises no signal.
pub(crate) fn send<const N: usize>(lifeline: &OwnedFd, record: [u8; N]) -> Sent {
    loop {
        // SAFETY: pointer and length belong to a live array, which the kernel only reads.
        let sent = unsafe {
            libc::send(
                lifeline.as_raw_fd(),
                record.as_ptr().cast(),
                record.len(),
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        // The kernel queues what fits in one piece, and a few bytes do.
        if sent >= 0 {
            return Sent::Whole;
        }
        match io::Error::last_os_error().kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => return Sent::Full,
            _ => return Sent::Gone,
        }
    }
}
