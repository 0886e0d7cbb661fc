//! Ranges of addresses that are not the public internet.
//!
//! The tables are those of the registries of special-purpose addresses. What carries an address of IPv4
//! within one of IPv6 is judged by that where the network would unpack it, and refused as a whole where
//! it leads to a tunnel that nobody runs any more.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address belongs to that is not public.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Range {
    /// This machine, by its loopback.
    Loopback,
    /// One of this machine's own addresses.
    Machine,
    /// Where this server listens.
    Server,
    /// Private networks.
    Private,
    /// Between a provider and its customers.
    Shared,
    /// One link, without a router.
    LinkLocal,
    /// What tells a machine of a cloud about itself, its credentials too.
    Metadata,
    /// Many at once.
    Multicast,
    /// Nobody's: documentation, tests, tunnels that are gone, the future.
    Reserved,
}

impl Range {
    /// Returns the range of an address; none if it is public.
    ///
    /// [`Machine`](Self::Machine) and [`Server`](Self::Server) are not told by the address alone.
    pub fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => v4(address),
            IpAddr::V6(address) => v6(address),
        }
    }

    /// Returns what people call it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Loopback => "a loopback address",
            Self::Machine => "an address of the server's own machine",
            Self::Server => "the server itself",
            Self::Private => "a private address",
            Self::Shared => "an address shared within a provider's network",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a metadata service",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
        }
    }

    /// Returns what figures call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Machine => "machine",
            Self::Server => "server",
            Self::Private => "private",
            Self::Shared => "shared",
            Self::LinkLocal => "link_local",
            Self::Metadata => "metadata",
            Self::Multicast => "multicast",
            Self::Reserved => "reserved",
        }
    }
}

/// Returns the address that a packet to this one ends at.
///
/// Of IPv4, if it is mapped, or goes through the well-known prefix of NAT64.
pub(crate) fn carried(address: IpAddr) -> IpAddr {
    let address = address.to_canonical();
    match address {
        IpAddr::V6(six) => match six.segments() {
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => IpAddr::V4(joined(high, low)),
            _ => address,
        },
        IpAddr::V4(_) => address,
    }
}

fn joined(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

fn v4(address: Ipv4Addr) -> Option<Range> {
    let range = match address.octets() {
        [169, 254, 169, 254]
        | [169, 254, 170, 2]
        | [168, 63, 129, 16]
        | [100, 100, 100, 200]
        | [192, 0, 0, 192] => Range::Metadata,
        [127, ..] => Range::Loopback,
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => Range::Private,
        [100, 64..=127, ..] => Range::Shared,
        [169, 254, ..] => Range::LinkLocal,
        [224..=239, ..] => Range::Multicast,
        // This network; protocols; documentation; the relay of 6to4; benchmarks; the future.
        [0, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [198, 18 | 19, ..]
        | [240..=255, ..] => Range::Reserved,
        _ => return None,
    };
    Some(range)
}

fn v6(address: Ipv6Addr) -> Option<Range> {
    let carried = carried(address.into());
    if let IpAddr::V4(four) = carried {
        return v4(four);
    }
    let range = match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Range::Loopback,
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => Range::Metadata,
        // Also NAT64 of a network's own prefix, which leads to whatever it likes.
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] | [0x64, 0xff9b, 1, ..] => Range::Private,
        [0xfe80..=0xfebf, ..] => Range::LinkLocal,
        [0xff00..=0xffff, ..] => Range::Multicast,
        // Teredo and other protocols; documentation, old and new; 6to4.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x2002, ..] => {
            Range::Reserved
        }
        [0x2000..=0x3fff, ..] => return None,
        _ => Range::Reserved,
    };
    Some(range)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Option<Range> {
        Range::of(text.parse().unwrap())
    }

    #[test]
    fn each_range_is_known_from_its_first_to_its_last_address() {
        for (range, addresses) in [
            (
                Range::Loopback,
                "127.0.0.0 127.255.255.255 ::1 ::ffff:127.0.0.1",
            ),
            (
                Range::Private,
                "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 \
                 fc00:: fdff:ffff::1 fec0::1 ::ffff:10.0.0.1 64:ff9b::a00:1 64:ff9b:1::1",
            ),
            (Range::Shared, "100.64.0.0 100.127.255.255 64:ff9b::6440:1"),
            (
                Range::LinkLocal,
                "169.254.0.1 169.254.255.255 fe80::1 febf::1",
            ),
            (
                Range::Metadata,
                "169.254.169.254 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe fd00:ec2::254 \
                 168.63.129.16 100.100.100.200 169.254.170.2 192.0.0.192",
            ),
            (Range::Multicast, "224.0.0.1 239.255.255.255 ff02::1"),
            (
                Range::Reserved,
                "0.0.0.0 0.1.2.3 192.0.0.1 192.0.2.1 198.51.100.1 203.0.113.1 198.18.0.1 \
                 198.19.255.255 192.88.99.1 240.0.0.1 255.255.255.255 :: ::7f00:1 100::1 \
                 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:db8::1 2002:7f00:1:: \
                 2002:808:808::1 3fff::1 5f00::1 4000::1 1::1",
            ),
        ] {
            for address in addresses.split_whitespace() {
                assert_eq!(of(address), Some(range), "{address}");
            }
        }
    }

    #[test]
    fn public_addresses_are_public() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.1.1.1",
            "128.0.0.1",
            "169.253.1.1",
            "169.255.1.1",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.167.1.1",
            "192.169.1.1",
            "198.17.1.1",
            "198.20.0.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "2a00:1450::1",
        ] {
            assert_eq!(of(address), None, "{address}");
        }
    }

    proptest! {
        #[test]
        fn what_carries_an_address_is_judged_by_it(bits in any::<u32>()) {
            let four = Ipv4Addr::from(bits);
            let [a, b, c, d] = four.octets().map(u16::from);
            let nat64 = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a << 8 | b, c << 8 | d);
            for six in [four.to_ipv6_mapped(), nat64] {
                prop_assert_eq!(Range::of(six.into()), Range::of(four.into()));
            }
        }
    }
}
