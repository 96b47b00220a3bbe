use std::{
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    process::{Command, Stdio},
};

use futures_util::FutureExt;

use super::*;

fn connect(address: SocketAddr) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Address by which this machine reaches others, if there is one.
fn outward_address() -> Option<SocketAddr> {
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    probe.connect("192.0.2.1:9").ok()?;
    Some(SocketAddr::new(probe.local_addr().unwrap().ip(), 0))
}

fn ends(server: &TcpStream) -> ConnectionEnds {
    ConnectionEnds {
        peer: server.peer_addr().unwrap(),
        own: server.local_addr().unwrap(),
    }
}

#[test]
fn the_kernel_names_the_socket_at_the_other_end() {
    let mut addresses = vec!["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()];
    addresses.extend(outward_address());
    for address in addresses {
        let (client, server) = connect(address);
        let file = std::fs::metadata(format!("/proc/self/fd/{}", client.as_raw_fd())).unwrap();
        let connection = ends(&server);
        let socket = find_socket(connection).unwrap().unwrap();
        assert_eq!(socket.inode, file.ino(), "{address}");
        assert_eq!(socket.user, geteuid().as_raw());
        let none = ConnectionEnds {
            peer: SocketAddr::new(connection.peer.ip(), 1),
            ..connection
        };
        assert_eq!(find_socket(none).unwrap(), None);
        assert_eq!(find_places(&[none]), [CallerPlace::Unknown]);
        drop(client);
        // A process that another test starts has the socket until it runs its program.
        while find_socket(connection)
            .unwrap()
            .is_some_and(|socket| socket.inode != 0)
        {
            std::thread::yield_now();
        }
        assert_eq!(
            find_places(&[connection]),
            [CallerPlace::Unknown],
            "it may be an agent's"
        );
    }
}

#[test]
fn only_addresses_of_this_machine_are_its_own() {
    for own in ["127.0.0.1:1", "127.9.8.7:1", "[::1]:1"] {
        assert!(is_own_address(own.parse().unwrap()).unwrap(), "{own}");
    }
    for other in ["192.0.2.1:1", "[2001:db8::1]:1"] {
        assert!(!is_own_address(other.parse().unwrap()).unwrap(), "{other}");
        let far = ConnectionEnds {
            peer: other.parse().unwrap(),
            own: "127.0.0.1:1".parse().unwrap(),
        };
        assert_eq!(find_places(&[far]), [CallerPlace::OtherMachine]);
    }
    if let Some(own) = outward_address() {
        assert!(is_own_address(own).unwrap(), "{own}");
    }
}

#[test]
fn an_answer_that_is_cut_is_an_error() {
    let mut whole = [0; HEADER_BYTES + 4];
    assert_eq!(parse_answer(&whole).unwrap(), [0; 4]);
    whole[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
    whole[HEADER_BYTES..].copy_from_slice(&(-2i32).to_ne_bytes());
    assert_eq!(
        parse_answer(&whole).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    for length in 0..whole.len() {
        assert_eq!(
            parse_answer(&whole[..length]).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}

#[test]
fn an_attribute_is_found_between_others() {
    let mut attributes = Vec::new();
    for (kind, value) in [(3u16, &b"abc"[..]), (21, b"12345678"), (8, b"")] {
        attributes.extend(u16::try_from(4 + value.len()).unwrap().to_ne_bytes());
        attributes.extend(kind.to_ne_bytes());
        attributes.extend(value);
        attributes.resize(attributes.len().next_multiple_of(4), 0);
    }
    assert_eq!(find_attribute(&attributes, 21), Some(&b"12345678"[..]));
    assert_eq!(find_attribute(&attributes, 8), Some(&b""[..]));
    assert_eq!(find_attribute(&attributes, 9), None);
    for length in 0..20 {
        assert_eq!(find_attribute(&attributes[..length], 21), None, "{length}");
    }
    // An attribute without a length ends the search.
    assert_eq!(find_attribute(&[0; 8], 21), None);
}

#[test]
fn ids_that_are_lent_to_containers_are_of_this_user() {
    let subuid = "ann:100000:65536\n# none\nbob:x:1\n1001:524288:2\n";
    for (user, is_lent) in [
        (99_999, false),
        (100_000, true),
        (165_535, true),
        (165_536, false),
        (524_289, true),
        (524_290, false),
        (33, false),
    ] {
        assert_eq!(is_in_ranges(subuid, user), is_lent, "{user}");
    }
}

#[tokio::test]
async fn a_process_that_this_one_started_is_refused_and_another_is_not() {
    let (client, server) = connect(LOOPBACK);
    let ConnectionEnds { peer, own } = ends(&server);
    assert!(matches!(Caller::new(peer, own).is_proven().await, Ok(true)));
    let stdin = Stdio::from(OwnedFd::from(client));
    let mut child = Command::new("sleep")
        .arg("600")
        .stdin(stdin)
        .spawn()
        .unwrap();
    assert!(Caller::new(peer, own).is_proven().await.is_err());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn callers_that_wait_share_a_search_and_one_that_leaves_harms_none() {
    let pairs: Vec<_> = (0..8).map(|_| connect(LOOPBACK)).collect();
    let mut left = Box::pin(find_place(ends(&pairs[0].1)));
    // Polled once: the caller starts the search, and leaves.
    assert_eq!((&mut left).now_or_never(), None);
    let mut waits: Vec<_> = pairs[1..]
        .iter()
        .map(|(_, server)| Box::pin(find_place(ends(server))))
        .collect();
    for wait in &mut waits {
        assert_eq!(wait.now_or_never(), None);
    }
    drop(left);
    for wait in waits {
        assert_eq!(wait.await, CallerPlace::Outside);
    }
}
