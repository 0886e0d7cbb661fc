//! Hosts as they are compared.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
};

/// A host in its one form: a name in lower case and Punycode without a dot at its end, or an address.
///
/// An address in an odd form (`0x7f.1`, `2130706433`, `[::ffff:7f00:1]`) is that address, and never a name.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Host {
    /// A name.
    Name(String),
    /// An address; of IPv4 also where it was written as one of IPv6.
    Address(IpAddr),
}

/// Why a text names no host.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("is no host name and no IP address")]
pub struct HostError;

/// The longest name that DNS has.
const LONGEST: usize = 253;

impl Host {
    /// Returns the address, if it is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Name(_) => None,
            Self::Address(address) => Some(*address),
        }
    }

    /// Returns it with a port, as a URL has it.
    pub fn with_port(&self, port: u16) -> String {
        match self {
            Self::Address(IpAddr::V6(address)) => format!("[{address}]:{port}"),
            Self::Address(IpAddr::V4(_)) | Self::Name(_) => format!("{self}:{port}"),
        }
    }
}

impl FromStr for Host {
    type Err = HostError;

    /// Reads a name, an address of IPv4, or one of IPv6 with or without brackets.
    fn from_str(text: &str) -> Result<Self, HostError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(address.into());
        }
        // What is escaped is read in two ways by two programs.
        if text.contains('%') {
            return Err(HostError);
        }
        let text = text.strip_suffix('.').unwrap_or(text);
        match url::Host::parse(text).map_err(|_| HostError)? {
            url::Host::Ipv4(address) => Ok(address.into()),
            url::Host::Ipv6(address) => Ok(IpAddr::V6(address).into()),
            url::Host::Domain(name) => named(name),
        }
    }
}

fn named(name: String) -> Result<Host, HostError> {
    // Underscores stand in names that people use, though they are none of host names.
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if name.len() <= LONGEST && name.split('.').all(label) {
        Ok(Host::Name(name))
    } else {
        Err(HostError)
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl From<Ipv4Addr> for Host {
    fn from(address: Ipv4Addr) -> Self {
        Self::Address(address.into())
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        text.parse::<Host>().ok().map(|host| host.to_string())
    }

    #[test]
    fn a_name_has_one_form() {
        for (text, one) in [
            ("Example.COM", "example.com"),
            ("example.com.", "example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example.", "xn--bcher-kva.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("a_b.example", "a_b.example"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(read(text).as_deref(), Some(one), "{text}");
        }
    }

    #[test]
    fn an_address_is_found_in_every_form() {
        for (text, one) in [
            ("127.0.0.1", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("[::1]", "::1"),
            ("::1", "::1"),
            ("[::ffff:127.0.0.1]", "127.0.0.1"),
            ("１２７.0.0.1", "127.0.0.1"),
        ] {
            let host: Host = text.parse().unwrap();
            assert!(host.address().is_some(), "{text}");
            assert_eq!(host.to_string(), one, "{text}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        let long = "a.".repeat(130) + "example";
        for text in [
            "",
            ".",
            "..",
            "a..b",
            "a b",
            "a/b",
            "a:80",
            "a@b",
            "[::1",
            "::1]",
            "ex%61mple.com",
            "1.2.3.4.5.6",
            "256.1.1.1",
            "a\0b",
            "*.example.com",
            &long,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn brackets_go_with_a_port() {
        let with_port = |text: &str| text.parse::<Host>().unwrap().with_port(8443);
        assert_eq!(with_port("::1"), "[::1]:8443");
        assert_eq!(with_port("1.2.3.4"), "1.2.3.4:8443");
        assert_eq!(with_port("A.example"), "a.example:8443");
    }
}
