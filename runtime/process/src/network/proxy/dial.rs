//! From a target that is asked for to a connection: the list, the name's addresses, the address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::network::address::Block;
use crate::network::allow_list::{AllowList, LOCALHOST};
use crate::network::host::{Host, Target};
use crate::network::refusal::{Denial, Failure, Reason, Stop};

use super::Shared;

/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;

impl Shared {
    /// Connects to `target` if that is allowed: to an address that was judged, and not to what a second lookup
    /// would give.
    pub(super) async fn dial(&self, target: &Target) -> Result<TcpStream, Stop> {
        if !self.allow.allows(target) {
            return Err(Stop::Denied(Denial { reason: Reason::NotListed, target: Some(target.clone()) }));
        }
        let addresses = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) if name == LOCALHOST => {
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
            }
            Host::Name(name) => self.look_up(name, target).await?,
        };
        let Ok(connected) = timeout(self.limits.connect, connect(&addresses, target)).await else {
            return Err(Stop::Failed(Failure::Late(target.clone())));
        };
        let stream = connected.map_err(Stop::Failed)?;
        self.counters.allowed();
        Ok(stream)
    }

    async fn look_up(&self, name: &str, target: &Target) -> Result<Vec<IpAddr>, Stop> {
        let Ok(found) = timeout(self.limits.lookup, self.resolver.resolve(name)).await else {
            return Err(Stop::Failed(Failure::Late(target.clone())));
        };
        let found = found.map_err(|error| Stop::Failed(Failure::Lookup(target.clone(), error)))?;
        match judge(&self.allow, target.port, &found) {
            Ok(addresses) if addresses.is_empty() => Err(Stop::Failed(Failure::NoAddress(target.clone()))),
            Ok(addresses) => Ok(addresses),
            Err(reason) => Err(Stop::Denied(Denial { reason, target: Some(target.clone()) })),
        }
    }
}

/// Keeps of a name's addresses those that a name on the list may lead to: public ones, and those that are on the
/// list themselves. If none is left, the first tells why.
fn judge(allow: &AllowList, port: u16, found: &[IpAddr]) -> Result<Vec<IpAddr>, Reason> {
    let mut open: Vec<IpAddr> = Vec::new();
    let mut refused = None;
    for address in found.iter().map(IpAddr::to_canonical) {
        match Block::of(address) {
            Some(block) if !allow.grants(address, port) => {
                refused.get_or_insert(Reason::SpecialAddress(address, block));
            }
            Some(_) | None if open.len() < MAX_ADDRESSES && !open.contains(&address) => open.push(address),
            Some(_) | None => {}
        }
    }
    match refused {
        Some(reason) if open.is_empty() => Err(reason),
        Some(_) | None => Ok(open),
    }
}

/// Tries one address after the other.
async fn connect(addresses: &[IpAddr], target: &Target) -> Result<TcpStream, Failure> {
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect(SocketAddr::new(*address, target.port)).await {
            Ok(stream) => {
                // Without it, small messages wait for each other; a socket that cannot has other troubles.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(Failure::Connect(target.clone(), last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(allow: &[&str], found: &[&str]) -> Result<Vec<String>, String> {
        let found: Vec<IpAddr> = found.iter().map(|address| address.parse().unwrap()).collect();
        judge(&AllowList::parse(allow).unwrap(), 443, &found)
            .map(|open| open.iter().map(IpAddr::to_string).collect())
            .map_err(|reason| format!("{reason:?}").split(',').next().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_name_leads_to_public_addresses_and_listed_ones_only() {
        let open = |addresses: &[&str]| Ok(addresses.iter().map(|address| (*address).to_owned()).collect());
        assert_eq!(judged(&[], &["1.1.1.1", "2606:4700::1", "1.1.1.1"]), open(&["1.1.1.1", "2606:4700::1"]));
        assert_eq!(judged(&[], &["10.0.0.1", "1.1.1.1"]), open(&["1.1.1.1"]));
        assert_eq!(judged(&["10.0.0.0/8"], &["10.0.0.1"]), open(&["10.0.0.1"]));
        assert_eq!(judged(&["10.0.0.0/8"], &["::ffff:10.0.0.1"]), open(&["10.0.0.1"]));
        assert_eq!(judged(&["0.0.0.0/0"], &["10.0.0.1"]), Err("SpecialAddress(10.0.0.1".into()));
        assert_eq!(judged(&["10.0.0.1:80"], &["10.0.0.1"]), Err("SpecialAddress(10.0.0.1".into()));
        assert_eq!(judged(&[], &["::ffff:127.0.0.1"]), Err("SpecialAddress(127.0.0.1".into()));
        assert_eq!(judged(&[], &[]), open(&[]));
    }
}
