//! Ranges of addresses, and which addresses no one reaches by a name alone.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::host::HostProblem;

/// All addresses that share their first `length` bits with `first`; never an IPv4-mapped one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Range {
    first: IpAddr,
    length: u8,
}

impl Range {
    /// One address alone.
    pub(crate) fn of(address: IpAddr) -> Self {
        let first = address.to_canonical();
        Self {
            first,
            length: if first.is_ipv4() { 32 } else { 128 },
        }
    }

    /// Reads `10.0.0.5`, `10.0.0.0/8` or `fd00::/8`.
    ///
    /// By hand: `ipnet` reads `010.0.0.0/8`, which is octal to others, and knows nothing of
    /// IPv4-mapped ranges.
    pub(crate) fn parse(text: &str) -> Result<Self, HostProblem> {
        let Some((address, length)) = text.split_once('/') else {
            return text.parse().map(Self::of).map_err(|_| HostProblem::Address);
        };
        let address: IpAddr = address.parse().map_err(|_| HostProblem::Address)?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let plain = length.len() <= 3 && length.bytes().all(|byte| byte.is_ascii_digit());
        let length: u8 = plain
            .then(|| length.parse().ok())
            .flatten()
            .ok_or(HostProblem::PrefixLength)?;
        if length > all {
            return Err(HostProblem::PrefixLength);
        }
        let range = match address {
            IpAddr::V6(mapped) if length >= 96 && mapped.to_ipv4_mapped().is_some() => Self {
                first: address.to_canonical(),
                length: length - 96,
            },
            first => Self { first, length },
        };
        if range.masked() == range.first {
            Ok(range)
        } else {
            Err(HostProblem::BitsBeyondPrefix)
        }
    }

    /// Whether `address` (canonical) lies in it.
    pub(crate) fn holds(self, address: IpAddr) -> bool {
        self.first.is_ipv4() == address.is_ipv4()
            && Self {
                first: address,
                ..self
            }
            .masked()
                == self.first
    }

    /// Whether all of it lies in `other`.
    pub(crate) fn is_within(self, other: Self) -> bool {
        self.length >= other.length && other.holds(self.first)
    }

    /// Whether listing this range is meant to open `address`. A special-purpose address is opened
    /// only by a range that lies wholly in its block: `0.0.0.0/0` is the public internet and not
    /// the loopback.
    pub(crate) fn grants(self, address: IpAddr) -> bool {
        self.holds(address) && Block::of(address).is_none_or(|block| self.is_within(block.range))
    }

    /// The range that grants what both grant.
    pub(crate) fn intersect(self, other: Self) -> Option<Self> {
        let (small, large) = if self.is_within(other) {
            (self, other)
        } else {
            (other, self)
        };
        // A large range that reaches beyond a block grants nothing in it; a small one inside may.
        let in_the_same_blocks = SPECIAL
            .iter()
            .all(|block| !small.is_within(block.range) || large.is_within(block.range));
        (small.is_within(large) && in_the_same_blocks).then_some(small)
    }

    pub(crate) fn is_ipv6(self) -> bool {
        self.first.is_ipv6()
    }

    fn masked(self) -> IpAddr {
        let cut = u32::from(self.length);
        match self.first {
            IpAddr::V4(address) => {
                let mask = u32::MAX
                    .checked_shl(32_u32.saturating_sub(cut))
                    .unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX
                    .checked_shl(128_u32.saturating_sub(cut))
                    .unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.length) {
            (IpAddr::V4(_), 32) | (IpAddr::V6(_), 128) => write!(f, "{}", self.first),
            (first, length) => write!(f, "{first}/{length}"),
        }
    }
}

/// A block of addresses with a purpose of its own (the registries of RFC 6890 and RFC 9637).
#[derive(Debug)]
pub(crate) struct Block {
    range: Range,
    /// What such an address is, as in "a loopback address".
    pub(crate) what: &'static str,
}

impl Block {
    /// The block that `address` (canonical) lies in, the narrowest first; `None` for a public address.
    pub(crate) fn of(address: IpAddr) -> Option<&'static Self> {
        SPECIAL.iter().find(|block| block.range.holds(address))
    }
}

const fn v4(a: u8, b: u8, c: u8, length: u8, what: &'static str) -> Block {
    Block {
        range: Range {
            first: IpAddr::V4(Ipv4Addr::new(a, b, c, 0)),
            length,
        },
        what,
    }
}

const fn v6(first: [u16; 3], last: u16, length: u8, what: &'static str) -> Block {
    let [a, b, c] = first;
    Block {
        range: Range {
            first: IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, last)),
            length,
        },
        what,
    }
}

/// Every block that is not public; of two that overlap, one lies in the other and comes first.
static SPECIAL: [Block; 30] = [
    v4(0, 0, 0, 8, "an unspecified address"),
    v4(10, 0, 0, 8, "a private address"),
    v4(100, 64, 0, 10, "a carrier's internal address"),
    v4(127, 0, 0, 8, "a loopback address"),
    v4(169, 254, 0, 16, "a link-local address"),
    v4(172, 16, 0, 12, "a private address"),
    v4(192, 0, 0, 24, "a protocol's own address"),
    v4(192, 0, 2, 24, "an address for documentation"),
    v4(192, 88, 99, 24, "a relay's address"),
    v4(192, 168, 0, 16, "a private address"),
    v4(198, 18, 0, 15, "an address for benchmarks"),
    v4(198, 51, 100, 24, "an address for documentation"),
    v4(203, 0, 113, 24, "an address for documentation"),
    v4(224, 0, 0, 4, "a multicast address"),
    v4(240, 0, 0, 4, "a reserved or broadcast address"),
    v6([0, 0, 0], 0, 128, "an unspecified address"),
    v6([0, 0, 0], 1, 128, "a loopback address"),
    // These carry an IPv4 address, which a translator on the way would reach.
    v6([0x64, 0xff9b, 0], 0, 96, "a translated address"),
    v6([0x64, 0xff9b, 1], 0, 48, "a translated address"),
    v6([0x2002, 0, 0], 0, 16, "a tunnelled address"),
    v6([0x2001, 0, 0], 0, 23, "a protocol's own address"),
    v6([0x2001, 0xdb8, 0], 0, 32, "an address for documentation"),
    v6([0x3fff, 0, 0], 0, 20, "an address for documentation"),
    v6([0xfc00, 0, 0], 0, 7, "a private address"),
    v6([0xfe80, 0, 0], 0, 10, "a link-local address"),
    v6([0xfec0, 0, 0], 0, 10, "a private address"),
    v6([0xff00, 0, 0], 0, 8, "a multicast address"),
    // Public addresses are 2000::/3.
    v6([0, 0, 0], 0, 3, "a reserved address"),
    v6([0x4000, 0, 0], 0, 2, "a reserved address"),
    v6([0x8000, 0, 0], 0, 1, "a reserved address"),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse::<IpAddr>().unwrap().to_canonical()
    }

    fn range(text: &str) -> Range {
        Range::parse(text).unwrap()
    }

    #[test]
    fn what_is_not_public_is_told_from_what_is() {
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
            assert!(Block::of(address(special)).is_some(), "{special}");
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
            assert!(Block::of(address(public)).is_none(), "{public}");
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
            assert!(Range::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn an_intersection_grants_what_both_grant(
            first: u32, second: u32, left in 0_u8..=32, right in 0_u8..=32, low: u32, six: bool,
        ) {
            // The low bits decide in IPv6, so that the blocks there are met as well.
            let make = |bits: u32, length: u8| {
                let first = if six {
                    Ipv6Addr::from_bits(u128::from(bits) << 96).into()
                } else {
                    IpAddr::from(Ipv4Addr::from_bits(bits))
                };
                let range = Range { first, length };
                Range { first: range.masked(), length }
            };
            let (a, b) = (make(first, left), make(second & low | first & !low, right));
            let probe = make(first ^ (low >> left.min(31)), 32).first;
            for probe in [probe, a.first, b.first] {
                let both = a.grants(probe) && b.grants(probe);
                prop_assert_eq!(a.intersect(b).is_some_and(|range| range.grants(probe)), both);
            }
        }
    }
}
