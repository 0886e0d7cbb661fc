//! Whether an address is one of this machine's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Tells whether packets to an address stay on this machine.
///
/// A socket of UDP that is connected sends nothing, and the kernel gives it the address that it would
/// send from: that of the peer, if and only if the peer is here.
pub(crate) fn is_here(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        // Any port but 0, which some kernels refuse.
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_here_and_documentation_is_not() {
        assert!(is_here(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_here("203.0.113.7".parse().unwrap()));
    }
}
