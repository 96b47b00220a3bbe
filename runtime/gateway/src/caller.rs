//! Which process of this machine is at the other end of a connection: one that an agent started
//! gets nothing, whatever token it has. The kernel names a socket's inode, and `/proc` who has it
//! open.

use std::{
    io::{self, Read},
    net::{IpAddr, SocketAddr},
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::{sync::OnceCell, task::spawn_blocking};
use trunkline_host::process::{SocketHolder, holder_of_socket};

use crate::problem::Problem;

/// The two ends of a connection.
#[derive(Debug)]
pub(crate) struct Caller {
    peer: SocketAddr,
    own: SocketAddr,
    /// Whether it may ask; looked at with its first token.
    may_ask: OnceCell<bool>,
}

impl Caller {
    pub(crate) fn new(peer: SocketAddr, own: SocketAddr) -> Self {
        let canonical =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Self {
            peer: canonical(peer),
            own: canonical(own),
            may_ask: OnceCell::new(),
        }
    }

    /// Refuses a process that an agent has started.
    pub(crate) async fn check(&self) -> Result<(), Problem> {
        let (peer, own) = (self.peer, self.own);
        let looked = async || {
            spawn_blocking(move || may_ask(peer, own))
                .await
                .unwrap_or(false)
        };
        match *self.may_ask.get_or_init(looked).await {
            true => Ok(()),
            false => Err(Problem::forbidden(
                "a process that an agent has started gets nothing here, whatever its token",
            )),
        }
    }
}

/// Whether the process at the other end may ask. Blocks for `/proc`.
fn may_ask(peer: SocketAddr, own: SocketAddr) -> bool {
    match inode(peer, own) {
        Ok(Some(inode)) => match holder_of_socket(inode) {
            SocketHolder::Other => true,
            SocketHolder::Descendant => false,
            SocketHolder::Unknown => {
                tracing::warn!(
                    "a request is refused: it cannot be told whether its process is an agent's"
                );
                false
            }
        },
        // Of another machine; one of this machine that has let its socket go cannot be told from an agent's.
        Ok(None) => !peer.ip().is_loopback(),
        Err(error) => {
            tracing::warn!(
                "the kernel does not say who asks, so that agents are not told from others: {error}"
            );
            true
        }
    }
}

const LOOK_UP: u16 = 20; // SOCK_DIAG_BY_FAMILY
const ERROR: u16 = 2; // NLMSG_ERROR
const REQUEST: u16 = 1; // NLM_F_REQUEST
const NETLINK: (i32, i32) = (16, 4); // AF_NETLINK, NETLINK_SOCK_DIAG
const TCP: u8 = 6;
const NOT_FOUND: i32 = -2; // -ENOENT
/// Where an answer has the inode, behind the head of the message.
const INODE: usize = 68;

/// The inode of the socket that a TCP connection of this machine has at its other end; `None` where
/// there is none, or no process has it any more.
fn inode(peer: SocketAddr, own: SocketAddr) -> io::Result<Option<u64>> {
    let mut socket = Socket::new(
        Domain::from(NETLINK.0),
        Type::DGRAM,
        Some(Protocol::from(NETLINK.1)),
    )?;
    // The kernel answers at once, or not at all.
    socket.set_read_timeout(Some(std::time::Duration::from_secs(1)))?;
    socket.send(&question(peer, own))?;
    let mut answer = [0; 1024];
    let read = socket.read(&mut answer)?;
    answered(&answer[..read])
}

/// Asks for one TCP socket by its two addresses: `nlmsghdr`, then `inet_diag_req_v2`.
fn question(peer: SocketAddr, own: SocketAddr) -> Vec<u8> {
    let family = if peer.is_ipv4() { 2u8 } else { 10 };
    let mut asked = vec![family, TCP, 0, 0];
    asked.extend(u32::MAX.to_ne_bytes());
    asked.extend(peer.port().to_be_bytes());
    asked.extend(own.port().to_be_bytes());
    for end in [peer, own] {
        match end.ip() {
            IpAddr::V4(ip) => {
                asked.extend(ip.octets());
                asked.extend([0; 12]);
            }
            IpAddr::V6(ip) => asked.extend(ip.octets()),
        }
    }
    // Any interface, any cookie.
    asked.extend(0u32.to_ne_bytes());
    asked.extend([0xff; 8]);
    let mut message = Vec::with_capacity(16 + asked.len());
    message.extend(
        u32::try_from(16 + asked.len())
            .unwrap_or_default()
            .to_ne_bytes(),
    );
    message.extend(LOOK_UP.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(asked);
    message
}

fn answered(answer: &[u8]) -> io::Result<Option<u64>> {
    let cut = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the answer of the kernel is cut",
        )
    };
    let (kind, body) = (
        answer.get(4..6).ok_or_else(cut)?,
        answer.get(16..).ok_or_else(cut)?,
    );
    let number = |at: usize| {
        body.get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(cut)
    };
    if kind == ERROR.to_ne_bytes() {
        return match i32::from_ne_bytes(number(0)?) {
            NOT_FOUND => Ok(None),
            errno => Err(io::Error::from_raw_os_error(-errno)),
        };
    }
    let inode = u32::from_ne_bytes(number(INODE)?);
    Ok((inode != 0).then_some(u64::from(inode)))
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        os::unix::fs::MetadataExt,
        process::{Command, Stdio},
    };

    use super::*;

    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn the_kernel_names_the_socket_at_the_other_end() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (client, server) = pair(address);
            let fd = std::os::fd::AsRawFd::as_raw_fd(&client);
            let own = std::fs::metadata(format!("/proc/self/fd/{fd}"))
                .unwrap()
                .ino();
            let ends = (server.peer_addr().unwrap(), server.local_addr().unwrap());
            assert_eq!(inode(ends.0, ends.1).unwrap(), Some(own), "{address}");
            // Of none that there is.
            let none = SocketAddr::new(ends.0.ip(), 1);
            assert_eq!(inode(none, ends.1).unwrap(), None);
            drop(client);
            // A process that another test starts has it until it runs its program.
            while inode(ends.0, ends.1).unwrap().is_some() {
                std::thread::yield_now();
            }
            assert!(!may_ask(ends.0, ends.1), "and could have been an agent's");
        }
        assert!(
            may_ask(
                "192.0.2.1:1".parse().unwrap(),
                "192.0.2.2:1".parse().unwrap()
            ),
            "of another machine"
        );
    }

    #[tokio::test]
    async fn a_process_that_this_one_started_is_refused_and_another_is_not() {
        let (client, server) = pair("127.0.0.1:0");
        let ends = (server.peer_addr().unwrap(), server.local_addr().unwrap());
        assert!(Caller::new(ends.0, ends.1).check().await.is_ok());
        let stdin = Stdio::from(std::os::fd::OwnedFd::from(client));
        let mut child = Command::new("sleep")
            .arg("600")
            .stdin(stdin)
            .spawn()
            .unwrap();
        assert!(Caller::new(ends.0, ends.1).check().await.is_err());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
