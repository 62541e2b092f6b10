//! Addresses that a name from the internet must not lead to.
//!
//! A listed name is under somebody else's control, and so is the address it resolves to. An answer
//! that points at this machine, at its neighbours or at a cloud's metadata service would make the
//! proxy a way *in*. The ranges are those of the IANA special-purpose registries (RFC 6890 and its
//! successors), also where they hide inside an IPv6 transition address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Why an address is not a plain host on the internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Special {
    /// This machine's loopback interface.
    Loopback,
    /// 0.0.0.0/8 and `::`, which Linux connects to itself.
    Unspecified,
    /// Neighbours on the same link.
    LinkLocal,
    /// A private network (RFC 1918, RFC 4193) or a carrier's shared range (RFC 6598).
    Private,
    /// A cloud's metadata service, which hands out credentials.
    Metadata,
    /// A group of hosts, or all of them.
    Multicast,
    /// Set aside for documentation and benchmarks.
    Documentation,
    /// Not assigned to hosts on the internet.
    Reserved,
    /// One of this machine's own addresses.
    Own,
}

impl Special {
    /// The class of `address`; `None` when it is a plain host on the internet.
    #[must_use]
    pub fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => special_v4(address),
            IpAddr::V6(address) => special_v6(address),
        }
        .or_else(|| is_own(address).then_some(Self::Own))
    }
}

impl fmt::Display for Special {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Loopback => "the loopback interface of this machine",
            Self::Unspecified => "the unspecified address",
            Self::LinkLocal => "a link-local address",
            Self::Private => "an address of a private network",
            Self::Metadata => "a cloud metadata service",
            Self::Multicast => "a multicast or broadcast address",
            Self::Documentation => "an address set aside for documentation or benchmarks",
            Self::Reserved => "a reserved address",
            Self::Own => "an address of this machine",
        })
    }
}

fn special_v4(address: Ipv4Addr) -> Option<Special> {
    if METADATA_V4.contains(&address) {
        return Some(Special::Metadata);
    }
    match address.octets() {
        [0, ..] => Some(Special::Unspecified),
        [127, ..] => Some(Special::Loopback),
        [169, 254, ..] => Some(Special::LinkLocal),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => {
            Some(Special::Private)
        }
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [198, 18..=19, ..] => {
            Some(Special::Documentation)
        }
        [255, 255, 255, 255] | [224..=239, ..] => Some(Special::Multicast),
        [192, 0, 0, _] | [192, 88, 99, _] | [240..=255, ..] => Some(Special::Reserved),
        _ => None,
    }
}

fn special_v6(address: Ipv6Addr) -> Option<Special> {
    if METADATA_V6.contains(&address) {
        return Some(Special::Metadata);
    }
    let [first, second, third, fourth, fifth, sixth, ..] = address.segments();
    if [first, second, third, fourth] == [0; 4] {
        return special_low(address, fifth, sixth);
    }
    match (first, second) {
        (0xfe80..=0xfebf, _) => Some(Special::LinkLocal),
        (0xfc00..=0xfdff | 0xfec0..=0xfeff, _) => Some(Special::Private),
        (0xff00..=0xffff, _) => Some(Special::Multicast),
        (0x2001, 0x0db8) | (0x3fff, 0x0000..=0x0fff) => Some(Special::Documentation),
        (0x0064, 0xff9b) if [third, fourth, fifth, sixth] == [0; 4] => embedded(address, 12),
        (0x2002, _) => embedded(address, 2),
        (0x2001, 0x0000) => embedded(address, 4).or_else(|| teredo_client(address)),
        (0x2001, 0x0001..=0x01ff) => Some(Special::Reserved),
        (0x2000..=0x3fff, _) => isatap(address),
        _ => Some(Special::Reserved),
    }
}

/// `::/64`: the unspecified and loopback addresses, and IPv4 in its compatible (RFC 4291), mapped
/// and translated (RFC 2765) spellings.
fn special_low(address: Ipv6Addr, fifth: u16, sixth: u16) -> Option<Special> {
    match (fifth, sixth) {
        _ if address.is_loopback() => Some(Special::Loopback),
        _ if address.is_unspecified() => Some(Special::Unspecified),
        (0, 0 | 0xffff) | (0xffff, 0) => embedded(address, 12),
        _ => Some(Special::Reserved),
    }
}

/// The class of the IPv4 address at byte `offset`.
fn embedded(address: Ipv6Addr, offset: usize) -> Option<Special> {
    match address.octets().get(offset..offset + 4) {
        Some(&[a, b, c, d]) => special_v4(Ipv4Addr::new(a, b, c, d)),
        _ => Some(Special::Reserved),
    }
}

/// RFC 4380: the client's IPv4 address is the last four bytes, inverted.
fn teredo_client(address: Ipv6Addr) -> Option<Special> {
    let [.., a, b, c, d] = address.octets();
    special_v4(Ipv4Addr::new(!a, !b, !c, !d))
}

/// RFC 5214: the interface identifier `[02]00:5efe` is followed by an IPv4 address.
fn isatap(address: Ipv6Addr) -> Option<Special> {
    match address.segments() {
        [_, _, _, _, 0x0000 | 0x0200, 0x5efe, _, _] => embedded(address, 12),
        _ => None,
    }
}

/// Asks the routing table: the source address for a destination is the destination itself only
/// when it is local. connect(2) on a UDP socket sends nothing.
fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let Ok(probe) = UdpSocket::bind((any, 0)) else {
        return false;
    };
    let connected = probe.connect(SocketAddr::new(address, DISCARD));
    connected.is_ok()
        && probe
            .local_addr()
            .is_ok_and(|source| source.ip() == address)
}

/// Any port will do for a probe that sends nothing.
const DISCARD: u16 = 9;

/// The metadata services of AWS, Google, Azure and others (169.254.169.254), AWS ECS
/// (169.254.170.2 and .23), Azure's wire server (168.63.129.16), Alibaba (100.100.100.200) and
/// Oracle (192.0.0.192).
const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// AWS (fd00:ec2::254 and ::23) and Google (fd20:ce::254).
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

#[cfg(test)]
mod tests;
