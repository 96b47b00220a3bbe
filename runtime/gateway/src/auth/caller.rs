//! Refusal of connections from processes that an agent has started, whatever token they have.
//!
//! The kernel names the inode of the socket at the other end, and `/proc` shows which process has it
//! open. A process below a host is refused. A process of this machine that is not found (an SSH
//! tunnel whose process this user cannot read, or an agent that hides) has neither approval nor
//! `admin`.

use std::{
    io::{self, Read},
    net::{IpAddr, SocketAddr},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rustix::process::geteuid;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    sync::{OnceCell, oneshot},
    task::spawn_blocking,
};
use trunkline_host::process::{SocketHolder, find_socket_holders, is_cgroup_without_agents};

use crate::http::problem::Problem;

/// Refusal of actions that need a process that was found.
pub(crate) const UNPROVEN: &str = "the process at the other end of this connection was not found, \
    so it may be an agent's, which approves nothing and has no scope admin: keep the connection open \
    until the answer; through an SSH tunnel or a proxy, connect to the daemon's Unix socket \
    (journal/host.sock in its state folder)";

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConnectionEnds {
    peer: SocketAddr,
    own: SocketAddr,
}

/// The process at the other end of a connection.
#[derive(Debug)]
pub(crate) struct Caller {
    ends: ConnectionEnds,
    /// Found with the first token of the connection.
    place: OnceCell<CallerPlace>,
}

impl Caller {
    pub(crate) fn new(peer: SocketAddr, own: SocketAddr) -> Self {
        Self {
            ends: ConnectionEnds {
                peer: to_canonical(peer),
                own: to_canonical(own),
            },
            place: OnceCell::new(),
        }
    }

    /// Address of the client, for people.
    pub(crate) fn address(&self) -> String {
        self.ends.peer.ip().to_string()
    }

    /// Refuses a process below a host. Returns `false` for a process of this machine that was not
    /// found.
    pub(crate) async fn is_proven(&self) -> Result<bool, Problem> {
        match self.place.get_or_init(|| find_place(self.ends)).await {
            CallerPlace::Outside | CallerPlace::OtherMachine => Ok(true),
            CallerPlace::Unknown => Ok(false),
            CallerPlace::BelowHost => Err(Problem::forbidden(
                "a process that an agent has started gets nothing here, whatever its token",
            )),
        }
    }
}

/// Converts an IPv4 address in IPv6 form to IPv4.
fn to_canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(_) => address,
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
    }
}

/// The place of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallerPlace {
    /// A process of this machine that is no agent's.
    Outside,
    OtherMachine,
    /// A process of this machine that an agent has started.
    BelowHost,
    /// A process of this machine that was not found.
    Unknown,
}

/// Callers that wait for their place.
type WaitingCallers = Vec<(ConnectionEnds, oneshot::Sender<CallerPlace>)>;

/// Callers that wait for the running search. The next search is for all of them, so that many
/// connections of one process do not delay the others.
static WAITING: Mutex<WaitingCallers> = Mutex::new(Vec::new());

/// Held during a search.
static SEARCH: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Finds the place of a caller.
///
/// # Cancel safety
///
/// Dropping the future gives up the place only; a search that has begun ends for the others.
async fn find_place(ends: ConnectionEnds) -> CallerPlace {
    let (sender, mut place) = oneshot::channel();
    let waiting = || WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting().push((ends, sender));
    let turn = tokio::select! {
        biased;
        place = &mut place => return place.unwrap_or(CallerPlace::Unknown),
        turn = SEARCH.lock() => turn,
    };
    // The previous search may have included this caller.
    let batch = std::mem::take(&mut *waiting());
    let searched = spawn_blocking(move || {
        let _turn = turn;
        let ends: Vec<_> = batch.iter().map(|(ends, _)| *ends).collect();
        for ((_, sender), place) in batch.into_iter().zip(find_places(&ends)) {
            // A caller that has left needs none.
            let _ = sender.send(place);
        }
    });
    // A search that panicked has dropped the senders.
    let _ = searched.await;
    place.await.unwrap_or(CallerPlace::Unknown)
}

/// Finds the places of callers. Blocks for the kernel and for `/proc`.
fn find_places(callers: &[ConnectionEnds]) -> Vec<CallerPlace> {
    let sockets: Vec<_> = callers.iter().map(|ends| find_socket(*ends)).collect();
    let open = |socket: &io::Result<Option<PeerSocket>>| match socket {
        Ok(Some(socket)) if socket.inode != 0 => Some(socket.inode),
        _ => None,
    };
    let inodes: Vec<_> = sockets.iter().filter_map(open).collect();
    let mut holders = find_socket_holders(&inodes).into_iter();
    let mut place = |ends: &ConnectionEnds, socket: &io::Result<Option<PeerSocket>>| {
        let holder = open(socket).and_then(|_| holders.next());
        match (holder, socket) {
            (Some(SocketHolder::Outside), _) => CallerPlace::Outside,
            (Some(SocketHolder::BelowHost), _) => CallerPlace::BelowHost,
            (Some(SocketHolder::NotFound), Ok(Some(socket))) if socket.cannot_be_an_agents() => {
                CallerPlace::Outside
            }
            (Some(SocketHolder::NotFound), _) | (None, Ok(Some(_))) => CallerPlace::Unknown,
            (None, Ok(None)) => place_without_socket(ends),
            (None, Err(error)) => {
                tracing::warn!("the kernel names no socket of {}: {error}", ends.peer);
                place_without_socket(ends)
            }
        }
    };
    callers
        .iter()
        .zip(&sockets)
        .map(|(ends, socket)| place(ends, socket))
        .collect()
}

/// Returns the place of a caller without a socket on this machine, or whose socket is closed.
fn place_without_socket(ends: &ConnectionEnds) -> CallerPlace {
    match is_own_address(ends.peer) {
        Ok(false) => CallerPlace::OtherMachine,
        Ok(true) => CallerPlace::Unknown,
        Err(error) => {
            tracing::warn!("the kernel knows no route to {}: {error}", ends.peer);
            CallerPlace::Unknown
        }
    }
}

/// The socket at the other end of a connection of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PeerSocket {
    /// 0 after the last process has closed it.
    inode: u64,
    /// User who created it.
    user: u32,
    /// Cgroup (version 2) in which it was created; `None` if the kernel does not report it.
    cgroup: Option<u64>,
}

impl PeerSocket {
    /// Returns true if no agent can have created it, although its holder was not found: it belongs
    /// to another user, or to a process whose open files cannot be read, such as an SSH server.
    fn cannot_be_an_agents(self) -> bool {
        self.is_of_another_user() || self.cgroup.is_some_and(is_cgroup_without_agents)
    }

    /// Returns true if it belongs to a user that no process of this user can become. A daemon of
    /// the superuser can read the files of all processes and needs no such check.
    fn is_of_another_user(self) -> bool {
        let own = geteuid();
        !own.is_root() && self.user != own.as_raw() && !is_subordinate(self.user)
    }
}

/// Returns whether a user of this machine may lend this id to processes in user namespaces
/// (subuid(5)).
fn is_subordinate(user: u32) -> bool {
    let mut text = String::new();
    let read = std::fs::File::open("/etc/subuid")
        .and_then(|file| file.take(MAX_SUBUID_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) => is_in_ranges(&text, user),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// The most bytes of `/etc/subuid` that are read.
const MAX_SUBUID_BYTES: u64 = 1024 * 1024;

fn is_in_ranges(subuid: &str, user: u32) -> bool {
    subuid.lines().any(|line| {
        let mut fields = line.trim().split(':').skip(1);
        let mut number = || fields.next()?.parse::<u32>().ok();
        let Some(first) = number() else { return false };
        let Some(count) = number() else { return false };
        user.checked_sub(first).is_some_and(|offset| offset < count)
    })
}

/// Timeout for an answer of the kernel, which should be immediate.
const NETLINK_TIMEOUT: Duration = Duration::from_secs(1);

const HEADER_BYTES: usize = 16; // nlmsghdr
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const AF_NETLINK: i32 = 16;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// A request to a part of the kernel, and its body.
#[derive(Debug, Clone, Copy)]
struct NetlinkRequest<'a> {
    protocol: i32,
    message_type: u16,
    body: &'a [u8],
}

impl NetlinkRequest<'_> {
    /// Returns the body of the answer.
    ///
    /// # Errors
    ///
    /// The error that the kernel answered with, or the one that kept it from answering.
    fn send(self) -> io::Result<Vec<u8>> {
        let mut socket = Socket::new(
            Domain::from(AF_NETLINK),
            Type::DGRAM,
            Some(Protocol::from(self.protocol)),
        )?;
        socket.set_read_timeout(Some(NETLINK_TIMEOUT))?;
        let length = u32::try_from(HEADER_BYTES + self.body.len()).map_err(io::Error::other)?;
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(self.message_type.to_ne_bytes());
        message.extend(NLM_F_REQUEST.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(self.body);
        socket.send(&message)?;
        let mut answer = [0; 4096];
        let read = socket.read(&mut answer)?;
        parse_answer(&answer[..read])
    }
}

fn parse_answer(answer: &[u8]) -> io::Result<Vec<u8>> {
    let message_type = field(answer, 4).map(u16::from_ne_bytes)?;
    let body = answer.get(HEADER_BYTES..).ok_or_else(short_answer)?;
    if message_type == NLMSG_ERROR {
        let errno = field(body, 0).map(i32::from_ne_bytes)?;
        return Err(io::Error::from_raw_os_error(errno.saturating_neg()));
    }
    Ok(body.to_vec())
}

fn field<const N: usize>(body: &[u8], at: usize) -> io::Result<[u8; N]> {
    let bytes = body.get(at..at + N).ok_or_else(short_answer)?;
    bytes.try_into().map_err(io::Error::other)
}

fn short_answer() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the answer of the kernel is cut",
    )
}

/// Finds the socket that a TCP connection has at its other end; `None` if it is not of this machine.
fn find_socket(ends: ConnectionEnds) -> io::Result<Option<PeerSocket>> {
    const NETLINK_SOCK_DIAG: i32 = 4;
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const IPPROTO_TCP: u8 = 6;
    // Places in an `inet_diag_msg`.
    const USER: usize = 64;
    const INODE: usize = 68;
    /// The length of an `inet_diag_msg`; attributes follow.
    const MESSAGE_BYTES: usize = 72;
    const INET_DIAG_CGROUP_ID: u16 = 21;
    let ConnectionEnds { peer, own } = ends;
    let family = if peer.is_ipv4() { AF_INET } else { AF_INET6 };
    // An `inet_diag_req_v2`: no attributes, any state.
    let mut body = vec![family, IPPROTO_TCP, 0, 0];
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(peer.port().to_be_bytes());
    body.extend(own.port().to_be_bytes());
    for end in [peer, own] {
        let mut address = ip_bytes(end.ip());
        address.resize(16, 0);
        body.extend(address);
    }
    body.extend(scope_id(peer).to_ne_bytes());
    // Any cookie.
    body.extend([0xff; 8]);
    let request = NetlinkRequest {
        protocol: NETLINK_SOCK_DIAG,
        message_type: SOCK_DIAG_BY_FAMILY,
        body: &body,
    };
    let answer = match request.send() {
        Ok(answer) => answer,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(PeerSocket {
        inode: field(&answer, INODE).map(u32::from_ne_bytes)?.into(),
        user: field(&answer, USER).map(u32::from_ne_bytes)?,
        cgroup: find_attribute(
            answer.get(MESSAGE_BYTES..).unwrap_or_default(),
            INET_DIAG_CGROUP_ID,
        )
        .and_then(|id| id.try_into().ok())
        .map(u64::from_ne_bytes),
    }))
}

/// Finds the value of an attribute (`nlattr`) of a kind.
fn find_attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(field(attributes, 0).ok()?));
        let kind = u16::from_ne_bytes(field(attributes, 2).ok()?);
        let value = attributes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// Returns whether an address is one of this machine, as the kernel routes it.
fn is_own_address(address: SocketAddr) -> io::Result<bool> {
    const NETLINK_ROUTE: i32 = 0;
    const RTM_GETROUTE: u16 = 26;
    const RTA_DST: u16 = 1;
    const RTA_OIF: u16 = 4;
    /// The place of the type in an `rtmsg`.
    const TYPE: usize = 7;
    const RTN_LOCAL: u8 = 2;
    let ip = ip_bytes(address.ip());
    let (family, bits) = match address.ip() {
        IpAddr::V4(_) => (AF_INET, 32),
        IpAddr::V6(_) => (AF_INET6, 128),
    };
    // An `rtmsg`.
    let mut body = vec![family, bits];
    body.extend([0; 10]);
    let mut add_attribute = |attribute: u16, value: &[u8]| {
        // An attribute of an address has no more than twenty bytes.
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        body.extend(length.to_ne_bytes());
        body.extend(attribute.to_ne_bytes());
        body.extend(value);
    };
    add_attribute(RTA_DST, &ip);
    if scope_id(address) != 0 {
        add_attribute(RTA_OIF, &scope_id(address).to_ne_bytes());
    }
    let request = NetlinkRequest {
        protocol: NETLINK_ROUTE,
        message_type: RTM_GETROUTE,
        body: &body,
    };
    match request.send() {
        Ok(answer) => field(&answer, TYPE).map(|[route_type]| route_type == RTN_LOCAL),
        // Own addresses are looked up first, so they have a route.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn ip_bytes(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// The interface of a link-local address; 0 for any other.
fn scope_id(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(address) => address.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

#[cfg(test)]
mod tests;
