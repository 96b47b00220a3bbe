//! Ranges of addresses, and the blocks of special-purpose addresses.

use std::fmt;
use std::net::IpAddr;
use std::sync::LazyLock;

use ipnet::IpNet;

use super::host::HostProblem;

/// A range of addresses that share their first bits. Never an IPv4-mapped range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AddressRange(IpNet);

impl AddressRange {
    /// Creates the range of one address.
    pub(crate) fn from_address(address: IpAddr) -> Self {
        Self(address.to_canonical().into())
    }

    /// Parses `10.0.0.5`, `10.0.0.0/8` or `fd00::/8`.
    pub(crate) fn parse(text: &str) -> Result<Self, HostProblem> {
        let Some((address, length)) = text.split_once('/') else {
            return text
                .parse()
                .map(Self::from_address)
                .map_err(|_| HostProblem::Address);
        };
        let address: IpAddr = address.parse().map_err(|_| HostProblem::Address)?;
        let plain = length.bytes().all(|byte| byte.is_ascii_digit());
        let length: Option<u8> = plain.then(|| length.parse().ok()).flatten();
        let length = length.ok_or(HostProblem::PrefixLength)?;
        let range = match address.to_canonical() {
            mapped @ IpAddr::V4(_) if address.is_ipv6() && length >= 96 => {
                IpNet::new(mapped, length - 96)
            }
            _ => IpNet::new(address, length),
        };
        let range = range.map_err(|_| HostProblem::PrefixLength)?;
        if range == range.trunc() {
            Ok(Self(range))
        } else {
            Err(HostProblem::BitsBeyondPrefix)
        }
    }

    /// Returns true if the range contains `address`, which must be canonical.
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Returns true if the range is part of `other`.
    pub(crate) fn is_within(self, other: Self) -> bool {
        other.0.contains(&self.0)
    }

    /// Returns true if an entry with this range opens `address`. A special-purpose address needs a
    /// range within its block: `0.0.0.0/0` is the public internet and not the loopback.
    pub(crate) fn grants(self, address: IpAddr) -> bool {
        self.contains(address)
            && SpecialBlock::find(address).is_none_or(|block| self.is_within(block.range))
    }

    /// Returns the range of the addresses that both ranges grant.
    pub(crate) fn intersect(self, other: Self) -> Option<Self> {
        let (small, large) = if self.is_within(other) {
            (self, other)
        } else {
            (other, self)
        };
        // A range larger than a special-purpose block grants nothing in it. A smaller one inside
        // may.
        let in_the_same_blocks = SPECIAL_BLOCKS
            .iter()
            .all(|block| !small.is_within(block.range) || large.is_within(block.range));
        (small.is_within(large) && in_the_same_blocks).then_some(small)
    }

    pub(crate) fn is_ipv6(self) -> bool {
        self.0.addr().is_ipv6()
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            write!(f, "{}", self.0.addr())
        } else {
            write!(f, "{}", self.0)
        }
    }
}

/// A block of addresses with a purpose of its own (the registries of RFC 6890 and RFC 9637).
#[derive(Debug)]
pub(crate) struct SpecialBlock {
    range: AddressRange,
    /// Description of an address, as in "a loopback address".
    pub(crate) description: &'static str,
}

impl SpecialBlock {
    /// Returns the narrowest block of `address`, which must be canonical, or `None` for a public
    /// address.
    pub(crate) fn find(address: IpAddr) -> Option<&'static Self> {
        SPECIAL_BLOCKS
            .iter()
            .find(|block| block.range.contains(address))
    }
}

/// All blocks that are not public. Of two that overlap, one is within the other and comes first.
const SPECIAL_RANGES: [(&str, &str); 30] = [
    ("0.0.0.0/8", "an unspecified address"),
    ("10.0.0.0/8", "a private address"),
    ("100.64.0.0/10", "a carrier's internal address"),
    ("127.0.0.0/8", "a loopback address"),
    ("169.254.0.0/16", "a link-local address"),
    ("172.16.0.0/12", "a private address"),
    ("192.0.0.0/24", "a protocol's own address"),
    ("192.0.2.0/24", "an address for documentation"),
    ("192.88.99.0/24", "a relay's address"),
    ("192.168.0.0/16", "a private address"),
    ("198.18.0.0/15", "an address for benchmarks"),
    ("198.51.100.0/24", "an address for documentation"),
    ("203.0.113.0/24", "an address for documentation"),
    ("224.0.0.0/4", "a multicast address"),
    ("240.0.0.0/4", "a reserved or broadcast address"),
    ("::/128", "an unspecified address"),
    ("::1/128", "a loopback address"),
    // These contain an IPv4 address, which a translator on the way would reach.
    ("64:ff9b::/96", "a translated address"),
    ("64:ff9b:1::/48", "a translated address"),
    ("2002::/16", "a tunnelled address"),
    ("2001::/23", "a protocol's own address"),
    ("2001:db8::/32", "an address for documentation"),
    ("3fff::/20", "an address for documentation"),
    ("fc00::/7", "a private address"),
    ("fe80::/10", "a link-local address"),
    ("fec0::/10", "a private address"),
    ("ff00::/8", "a multicast address"),
    // Public addresses are 2000::/3.
    ("::/3", "a reserved address"),
    ("4000::/2", "a reserved address"),
    ("8000::/1", "a reserved address"),
];

static SPECIAL_BLOCKS: LazyLock<Vec<SpecialBlock>> = LazyLock::new(|| {
    let blocks = SPECIAL_RANGES.iter();
    let parsed = blocks.map(|(range, description)| {
        AddressRange::parse(range).map(|range| SpecialBlock { range, description })
    });
    parsed.flatten().collect()
});

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse::<IpAddr>().unwrap().to_canonical()
    }

    fn range(text: &str) -> AddressRange {
        AddressRange::parse(text).unwrap()
    }

    #[test]
    fn special_addresses_are_distinguished_from_public_ones() {
        assert_eq!(SPECIAL_BLOCKS.len(), SPECIAL_RANGES.len());
        for special in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "239.1.1.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2001::1",
            "2002:7f00:1::",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "4000::1",
            "2001:db8::1",
        ] {
            assert!(SpecialBlock::find(address(special)).is_some(), "{special}");
        }
        for public in [
            "1.1.1.1",
            "100.63.0.1",
            "100.128.0.1",
            "172.32.0.1",
            "8.8.8.8",
            "::ffff:8.8.8.8",
            "2606:4700::1",
            "2a00::1",
        ] {
            assert!(SpecialBlock::find(address(public)).is_none(), "{public}");
        }
    }

    #[test]
    fn a_wide_range_opens_no_special_address() {
        assert!(range("0.0.0.0/0").grants(address("1.1.1.1")));
        assert!(!range("0.0.0.0/0").grants(address("127.0.0.1")));
        assert!(!range("0.0.0.0/0").grants(address("169.254.169.254")));
        assert!(!range("8.0.0.0/5").grants(address("10.0.0.1")));
        assert!(range("10.0.0.0/8").grants(address("10.0.0.1")));
        assert!(range("127.0.0.1").grants(address("::ffff:127.0.0.1")));
        assert!(range("::ffff:10.0.0.0/104").grants(address("10.9.9.9")));
        assert!(!range("::/0").grants(address("::1")));
        assert!(range("::1").grants(address("::1")));
    }

    #[test]
    fn ranges_are_read_and_written() {
        for text in [
            "10.0.0.0/8",
            "1.2.3.4",
            "fd00::/8",
            "::1",
            "0.0.0.0/0",
            "::/0",
        ] {
            assert_eq!(range(text).to_string(), text);
        }
        for bad in [
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "10/8",
            "fd00::/129",
            "010.0.0.0/8",
            "/8",
            "",
        ] {
            assert!(AddressRange::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn an_intersection_grants_what_both_grant(
            first: u32, second: u32, left in 0_u8..=32, right in 0_u8..=32, low: u32, six: bool,
        ) {
            // The random bits are the first bits in IPv6 too, so that its blocks are hit as well.
            let make = |bits: u32, length: u8| {
                let first = if six {
                    Ipv6Addr::from_bits(u128::from(bits) << 96).into()
                } else {
                    IpAddr::from(Ipv4Addr::from_bits(bits))
                };
                AddressRange(IpNet::new(first, length).unwrap().trunc())
            };
            let a = make(first, left);
            let b = make(second & low | first & !low, right);
            let probe = make(first ^ (low >> left.min(31)), 32).0.addr();
            for probe in [probe, a.0.addr(), b.0.addr()] {
                let both = a.grants(probe) && b.grants(probe);
                prop_assert_eq!(a.intersect(b).is_some_and(|range| range.grants(probe)), both);
            }
        }
    }
}
