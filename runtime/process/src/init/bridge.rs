//! The bridge inside the sandbox: from a port of its loopback to the proxy's socket.
//!
//! One thread and no runtime: it lives in the init program of a sandbox whose number of threads is
//! limited. It decides nothing; a program that gets past it has merely reached the proxy.

mod link;
pub(crate) mod socket;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::link::SocketPair;
use self::socket::connect;

pub use self::socket::SocketFile;

/// Limit of simultaneous connections; further ones wait to be accepted. It is higher than a proxy's
/// default, so that the proxy can refuse connections with a reason.
const MAX_LINKS: usize = 320;

/// Pause before the next accept after the system had no descriptors or memory.
const ACCEPT_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A bound port that waits to be served.
#[derive(Debug)]
pub struct Bridge {
    listener: TcpListener,
}

/// Binds `port` on the loopback; 0 takes a free one. To be called before the program is started, so
/// that its first connection is not refused.
///
/// # Errors
///
/// The port is taken, or there is no loopback.
pub fn listen(port: u16) -> io::Result<Bridge> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    Ok(Bridge { listener })
}

impl Bridge {
    /// Returns the port that programs connect to.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Copies every connection to the Unix socket at `socket`, in both directions, forever; run it
    /// on its own thread. A connection is closed if the socket cannot be reached.
    ///
    /// # Errors
    ///
    /// The system can no longer poll, which is a bug or the end.
    pub fn run(self, socket: impl AsRef<Path>) -> io::Result<Infallible> {
        let mut links: Vec<SocketPair> = Vec::new();
        let mut paused = false;
        loop {
            let accepting = !paused && links.len() < MAX_LINKS;
            let (incoming, ready) = self.wait(&links, accepting)?;
            // From the last to the first, so that one that is taken out moves only what has been seen.
            for (index, events) in ready.into_iter().enumerate().rev() {
                let over = !events.is_empty()
                    && links
                        .get_mut(index)
                        .is_some_and(|link| link.copy().is_err());
                if over {
                    links.swap_remove(index);
                }
            }
            paused = false;
            if incoming {
                match self.listener.accept() {
                    Ok((program, _)) => {
                        if let Some(link) = connect(socket.as_ref())
                            .ok()
                            .and_then(|proxy| SocketPair::new(program, proxy).ok())
                        {
                            links.push(link);
                        }
                    }
                    // A connection that went before it was taken, or a full table of descriptors.
                    Err(error) => paused = error.kind() != io::ErrorKind::WouldBlock,
                }
            }
        }
    }

    /// Waits until something can be done: whether there is a connection to accept, and what each link may do.
    fn wait(&self, links: &[SocketPair], accepting: bool) -> io::Result<(bool, Vec<PollFlags>)> {
        let mut watched = Vec::with_capacity(1 + 2 * links.len());
        let mut owners = Vec::with_capacity(2 * links.len());
        watched.push(PollFd::from_borrowed_fd(
            self.listener.as_fd(),
            if accepting {
                PollFlags::IN
            } else {
                PollFlags::empty()
            },
        ));
        for (index, link) in links.iter().enumerate() {
            for (socket, interest) in link.interests() {
                // A socket of which nothing is wanted would still wake us for its hang-up, again and again.
                if !interest.is_empty() {
                    watched.push(PollFd::from_borrowed_fd(socket, interest));
                    owners.push(index);
                }
            }
        }
        let pause = (!accepting && links.len() < MAX_LINKS).then_some(&ACCEPT_PAUSE);
        match poll(&mut watched, pause) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let incoming = watched
            .first()
            .is_some_and(|listener| listener.revents().contains(PollFlags::IN));
        let mut ready = vec![PollFlags::empty(); links.len()];
        for (socket, owner) in watched.iter().skip(1).zip(owners) {
            if let Some(events) = ready.get_mut(owner) {
                *events |= socket.revents();
            }
        }
        Ok((accepting && incoming, ready))
    }
}

#[cfg(test)]
mod tests;
