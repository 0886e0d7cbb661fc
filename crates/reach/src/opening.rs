//! What an operator opens of what is closed by itself.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use ipnet::IpNet;

use crate::Host;

/// One entry of `[egress] open`: a range, or a host, with one port or all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Opening {
    /// All addresses of a range, at every port.
    Range(IpNet),
    /// One host by its name or address, whatever that resolves to.
    Host {
        /// Which.
        host: Host,
        /// That port alone.
        port: Option<u16>,
    },
}

/// An entry that opens nothing.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{0}` is neither a range such as `10.1.0.0/16` nor a host such as `registry.internal`, \
     `registry.internal:8443` or `[fd00::1]:8443`"
)]
pub struct BadOpening(pub String);

impl Opening {
    /// Tells whether it opens an address that was found under that name.
    pub(crate) fn opens(&self, host: &Host, port: u16, address: IpAddr) -> bool {
        match self {
            Self::Range(range) => range.contains(&address),
            Self::Host {
                host: own,
                port: at,
            } => {
                let is_it = own == host || own.address() == Some(address);
                is_it && at.is_none_or(|at| at == port)
            }
        }
    }

    /// Tells whether it names that one place, port included.
    pub(crate) fn names(&self, host: &Host, port: u16, address: IpAddr) -> bool {
        let with_port = matches!(self, Self::Host { port: Some(_), .. });
        with_port && self.opens(host, port, address)
    }
}

impl FromStr for Opening {
    type Err = BadOpening;

    fn from_str(text: &str) -> Result<Self, BadOpening> {
        let bad = || BadOpening(text.to_owned());
        if text.contains('/') {
            let range: IpNet = text.parse().map_err(|_| bad())?;
            return Ok(Self::Range(range));
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return placed(address.ip().into(), Some(address.port())).ok_or_else(bad);
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if text.parse::<IpAddr>().is_err() && !text.ends_with(']') => {
                (host, Some(port.parse().map_err(|_| bad())?))
            }
            Some(_) | None => (text, None),
        };
        placed(host.parse().map_err(|_| bad())?, port).ok_or_else(bad)
    }
}

/// Port 0 is none.
fn placed(host: Host, port: Option<u16>) -> Option<Opening> {
    (port != Some(0)).then_some(Opening::Host { host, port })
}

impl fmt::Display for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(range) => range.fmt(f),
            Self::Host { host, port: None } => host.fmt(f),
            Self::Host {
                host,
                port: Some(port),
            } => f.write_str(&host.with_port(*port)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_are_shown() {
        for text in [
            "10.1.0.0/16",
            "fd00::/8",
            "registry.internal",
            "registry.internal:8443",
            "10.1.2.3",
            "10.1.2.3:443",
            "fd00::1",
            "[fd00::1]:443",
        ] {
            assert_eq!(text.parse::<Opening>().unwrap().to_string(), text);
        }
        assert_eq!(
            "[fd00::1]".parse::<Opening>().unwrap().to_string(),
            "fd00::1"
        );
    }

    #[test]
    fn what_opens_nothing_is_refused_in_words() {
        for text in [
            "",
            "10.1.0.0/33",
            "10.1.0.0/",
            "http://a",
            "a:b",
            "a:0",
            "a:65536",
            "*.internal",
            "10.1.2.3:0",
            "a b",
        ] {
            let error = text.parse::<Opening>().unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("`{text}` is neither")),
                "{text}"
            );
        }
    }
}
