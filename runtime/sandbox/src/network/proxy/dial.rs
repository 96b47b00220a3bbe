//! Connections to targets: checks of the list and of the addresses, then the connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::network::address::SpecialBlock;
use crate::network::allow_list::{AllowList, LOCALHOST};
use crate::network::guarded_ports::is_guarded;
use crate::network::host::{NetworkTarget, TargetHost};
use crate::network::refusal::{ConnectionError, ConnectionFailure, DenialReason, RequestDenial};

use super::ProxyState;

/// Maximum of addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;

/// Minimum time for one address, if that much of the total is left.
const MIN_SHARE: Duration = Duration::from_secs(1);

impl ProxyState {
    /// Connects to `target` if it is allowed. The connection goes to an address that was checked,
    /// never to the result of a second lookup.
    pub(super) async fn dial(&self, target: &NetworkTarget) -> Result<TcpStream, ConnectionError> {
        if !self.allow.allows(target) {
            return Err(ConnectionError::Denied(RequestDenial {
                reason: DenialReason::NotListed,
                target: Some(target.clone()),
            }));
        }
        if let TargetHost::Address(address) = target.host {
            self.remove_own_addresses(vec![address], target)?;
        }
        if let Some(upstream) = self
            .options
            .upstream
            .as_ref()
            .filter(|proxy| proxy.is_used_for(target))
        {
            let stream = upstream.connect(target, self.options.limits.connect).await;
            let stream = stream?;
            self.counters.allowed.increment();
            return Ok(stream);
        }
        let addresses = match &target.host {
            TargetHost::Address(address) => vec![*address],
            TargetHost::Name(name) if name == LOCALHOST => {
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
            }
            TargetHost::Name(name) => self.look_up(name, target).await?,
        };
        let addresses = self.remove_own_addresses(addresses, target)?;
        let stream = connect(
            &interleave_families(addresses),
            target,
            self.options.limits.connect,
        )
        .await?;
        self.counters.allowed.increment();
        Ok(stream)
    }

    /// Removes the addresses of this machine that the list does not name.
    ///
    /// # Errors
    ///
    /// If none is left, returns the reason for the first.
    fn remove_own_addresses(
        &self,
        mut addresses: Vec<IpAddr>,
        target: &NetworkTarget,
    ) -> Result<Vec<IpAddr>, ConnectionError> {
        let mut refused = None;
        addresses.retain(|address| {
            let reason = check_own_address(
                &self.allow,
                *address,
                target.port,
                is_own_address,
                is_guarded,
            );
            let is_open = reason.is_none();
            refused = refused.take().or(reason);
            is_open
        });
        match refused {
            Some(reason) if addresses.is_empty() => Err(ConnectionError::Denied(RequestDenial {
                reason,
                target: Some(target.clone()),
            })),
            _ => Ok(addresses),
        }
    }

    async fn look_up(
        &self,
        name: &str,
        target: &NetworkTarget,
    ) -> Result<Vec<IpAddr>, ConnectionError> {
        let Ok(found) = timeout(
            self.options.limits.lookup,
            self.options.resolver.resolve(name),
        )
        .await
        else {
            return Err(ConnectionFailure::Late(target.clone()).into());
        };
        let found = found.map_err(|error| {
            ConnectionError::Failed(ConnectionFailure::Lookup(target.clone(), error))
        })?;
        match filter_addresses(&self.allow, target.port, &found) {
            Ok(addresses) if addresses.is_empty() => {
                Err(ConnectionFailure::NoAddress(target.clone()).into())
            }
            Ok(addresses) => Ok(addresses),
            Err(reason) => Err(ConnectionError::Denied(RequestDenial {
                reason,
                target: Some(target.clone()),
            })),
        }
    }
}

/// Returns the addresses of a name that may be reached: public ones, and addresses on the list. If
/// none is left, returns the reason for the first.
fn filter_addresses(
    allow: &AllowList,
    port: u16,
    found: &[IpAddr],
) -> Result<Vec<IpAddr>, DenialReason> {
    let mut open: Vec<IpAddr> = Vec::new();
    let mut refused = None;
    for address in found.iter().map(IpAddr::to_canonical) {
        match SpecialBlock::find(address) {
            Some(block) if !allow.grants(address, port) => {
                refused.get_or_insert(DenialReason::SpecialAddress(address, block));
            }
            Some(_) | None if open.len() < MAX_ADDRESSES && !open.contains(&address) => {
                open.push(address)
            }
            Some(_) | None => {}
        }
    }
    match refused {
        Some(reason) if open.is_empty() => Err(reason),
        Some(_) | None => Ok(open),
    }
}

/// Returns true if this machine itself has an address.
fn is_own_address(address: IpAddr) -> bool {
    // Only a local address can be bound.
    address.is_loopback() || address.is_unspecified() || UdpSocket::bind((address, 0)).is_ok()
}

/// Returns the reason why an address of this machine must not be reached. A range does not open it,
/// except one of loopback addresses, and a guarded port needs an entry that names it.
fn check_own_address(
    allow: &AllowList,
    address: IpAddr,
    port: u16,
    is_own_address: impl Fn(IpAddr) -> bool,
    is_guarded: impl Fn(u16) -> bool,
) -> Option<DenialReason> {
    if !is_own_address(address) {
        return None;
    }
    if is_guarded(port) {
        return (!allow.names(address, port, true)).then_some(DenialReason::OwnPort(address));
    }
    let is_open = address.is_loopback() || allow.names(address, port, false);
    (!is_open).then_some(DenialReason::OwnAddress(address))
}

/// Alternates the two families of addresses. If one family has no route, the next attempt uses the
/// other.
fn interleave_families(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == v6);
    let mut second = second.into_iter();
    let mut mixed: Vec<IpAddr> = first
        .into_iter()
        .flat_map(|one| [Some(one), second.next()])
        .flatten()
        .collect();
    mixed.extend(second);
    mixed
}

/// Tries the addresses in turn. Each gets its share of the remaining time, so that an address that
/// never answers does not use up all of it.
async fn connect(
    addresses: &[IpAddr],
    target: &NetworkTarget,
    limit: Duration,
) -> Result<TcpStream, ConnectionFailure> {
    let end = Instant::now() + limit;
    let mut last =
        ConnectionFailure::Connect(target.clone(), io::ErrorKind::AddrNotAvailable.into());
    for (tried, address) in addresses.iter().enumerate() {
        let left = end.saturating_duration_since(Instant::now());
        let others = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share = (left / others).max(MIN_SHARE).min(left);
        match timeout(
            share,
            TcpStream::connect(SocketAddr::new(*address, target.port)),
        )
        .await
        {
            Ok(Ok(stream)) => {
                // Without this option, small messages are delayed. A failure does not prevent the
                // connection.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last = ConnectionFailure::Connect(target.clone(), error),
            Err(_) => last = ConnectionFailure::Late(target.clone()),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    fn judged(allow: &[&str], found: &[&str]) -> Result<Vec<String>, String> {
        let found: Vec<IpAddr> = found
            .iter()
            .map(|address| address.parse().unwrap())
            .collect();
        filter_addresses(&AllowList::parse(allow).unwrap(), 443, &found)
            .map(|open| open.iter().map(IpAddr::to_string).collect())
            .map_err(|reason| {
                format!("{reason:?}")
                    .split(',')
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            })
    }

    #[test]
    fn a_name_leads_to_public_addresses_and_listed_ones_only() {
        let open = |addresses: &[&str]| {
            Ok(addresses
                .iter()
                .map(|address| (*address).to_owned())
                .collect())
        };
        assert_eq!(
            judged(&[], &["1.1.1.1", "2606:4700::1", "1.1.1.1"]),
            open(&["1.1.1.1", "2606:4700::1"])
        );
        assert_eq!(judged(&[], &["10.0.0.1", "1.1.1.1"]), open(&["1.1.1.1"]));
        assert_eq!(judged(&["10.0.0.0/8"], &["10.0.0.1"]), open(&["10.0.0.1"]));
        assert_eq!(
            judged(&["10.0.0.0/8"], &["::ffff:10.0.0.1"]),
            open(&["10.0.0.1"])
        );
        assert_eq!(
            judged(&["0.0.0.0/0"], &["10.0.0.1"]),
            Err("SpecialAddress(10.0.0.1".into())
        );
        assert_eq!(
            judged(&["10.0.0.1:80"], &["10.0.0.1"]),
            Err("SpecialAddress(10.0.0.1".into())
        );
        assert_eq!(
            judged(&[], &["::ffff:127.0.0.1"]),
            Err("SpecialAddress(127.0.0.1".into())
        );
        assert_eq!(judged(&[], &[]), open(&[]));
    }

    #[test]
    fn an_own_address_and_a_guarded_port_must_be_named() {
        let refused = |entry: &str, address: &str, port: u16| {
            let allow = AllowList::parse([entry]).unwrap();
            let is_own_address = |address: IpAddr| address != IpAddr::from([192, 0, 2, 1]);
            let reason = check_own_address(
                &allow,
                address.parse().unwrap(),
                port,
                is_own_address,
                |port| port == 443,
            );
            reason.as_ref().map(DenialReason::code)
        };
        for (entry, address, port, code) in [
            ("10.0.0.0/8:80", "192.0.2.1", 80, None),
            ("10.0.0.0/8:80", "10.0.0.5", 80, Some("own-address")),
            ("0.0.0.0/0", "8.8.8.8", 80, Some("own-address")),
            ("10.0.0.5", "10.0.0.5", 80, None),
            ("10.0.0.5:81", "10.0.0.5", 80, Some("own-address")),
            ("127.0.0.0/8", "127.0.0.1", 80, None),
            ("127.0.0.0/8:443", "127.0.0.1", 443, Some("own-port")),
            ("localhost", "127.0.0.1", 443, Some("own-port")),
            ("localhost:443", "127.0.0.1", 443, None),
            ("10.0.0.5", "10.0.0.5", 443, Some("own-port")),
            ("10.0.0.5:443", "10.0.0.5", 443, None),
            ("a.test:443", "10.0.0.5", 443, Some("own-port")),
        ] {
            assert_eq!(
                refused(entry, address, port),
                code,
                "{entry} {address}:{port}"
            );
        }
        assert!(
            is_own_address(Ipv4Addr::LOCALHOST.into())
                && is_own_address(Ipv4Addr::UNSPECIFIED.into())
        );
        assert!(!is_own_address(IpAddr::from([192, 0, 2, 1])));
    }

    #[test]
    fn families_of_addresses_take_turns() {
        let mixed = |addresses: &[&str]| -> Vec<String> {
            let addresses = addresses
                .iter()
                .map(|address| address.parse().unwrap())
                .collect();
            interleave_families(addresses)
                .iter()
                .map(IpAddr::to_string)
                .collect()
        };
        assert_eq!(
            mixed(&["::1", "::2", "::3", "1.1.1.1"]),
            ["::1", "1.1.1.1", "::2", "::3"]
        );
        assert_eq!(
            mixed(&["1.1.1.1", "::1", "::2", "::3"]),
            ["1.1.1.1", "::1", "::2", "::3"]
        );
        assert_eq!(mixed(&["1.1.1.1", "1.1.1.2"]), ["1.1.1.1", "1.1.1.2"]);
        assert!(mixed(&[]).is_empty());
    }

    /// Fills the queue of a listener that accepts nothing, so that it answers no further
    /// connection.
    async fn full_listener() -> (TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) =
            timeout(Duration::from_millis(300), TcpStream::connect(address)).await
        {
            queued.push(stream.unwrap());
            assert!(queued.len() < 100, "the queue does not fill");
        }
        (listener, queued)
    }

    #[tokio::test]
    async fn an_address_that_answers_nothing_leaves_time_for_the_next() {
        let (listener, _queued) = full_listener().await;
        let port = listener.local_addr().unwrap().port();
        let _other = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
        let target = NetworkTarget {
            host: TargetHost::Name("two.test".into()),
            port,
        };
        let addresses = ["127.0.0.1".parse().unwrap(), "127.0.0.2".parse().unwrap()];
        let stream = connect(&addresses, &target, Duration::from_secs(2))
            .await
            .unwrap();
        assert_eq!(stream.peer_addr().unwrap().ip(), addresses[1]);

        let late = connect(&addresses[..1], &target, Duration::from_millis(50))
            .await
            .unwrap_err();
        assert!(matches!(late, ConnectionFailure::Late(_)), "{late:?}");
    }
}
