//! Which addresses may be connected to.

use std::net::{IpAddr, SocketAddr};

use crate::{BadOpening, Host, Opening, Range, own, range};

/// Public addresses, and what an operator opened beside them.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    openings: Vec<Opening>,
    own: Option<SocketAddr>,
}

/// An address that may not be connected to.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{host}` is at {address}, {}; whoever runs this server can open it {remedy}",
    range.words()
)]
pub struct Refused {
    /// What was asked for.
    pub host: Host,
    /// At which port.
    pub port: u16,
    /// What it resolves to.
    pub address: IpAddr,
    /// What that is.
    pub range: Range,
    /// What to write for it to be allowed.
    pub remedy: String,
}

impl Rule {
    /// Reads what is open.
    ///
    /// # Errors
    ///
    /// The first entry that opens nothing.
    pub fn new<S: AsRef<str>>(open: &[S]) -> Result<Self, BadOpening> {
        let openings = open.iter().map(|entry| entry.as_ref().parse());
        Ok(Self {
            openings: openings.collect::<Result<_, _>>()?,
            own: None,
        })
    }

    /// Notes where this server listens: no range opens that, only an entry that names host and port.
    #[must_use]
    pub fn guarding(mut self, own: SocketAddr) -> Self {
        self.own = Some(own);
        self
    }

    /// Checks the address that a host was found at.
    ///
    /// # Errors
    ///
    /// If it is not public and nobody opened it.
    pub fn check(&self, host: &Host, port: u16, address: IpAddr) -> Result<(), Refused> {
        let address = range::carried(address);
        let refused = |range| {
            Err(Refused {
                host: host.clone(),
                port,
                address,
                range,
                remedy: self.remedy(&host.with_port(port)),
            })
        };
        let mut openings = self.openings.iter();
        if self.is_server(port, address) {
            let named = openings.any(|opening| opening.names(host, port, address));
            return if named {
                Ok(())
            } else {
                refused(Range::Server)
            };
        }
        let of_machine = || own::is_here(address).then_some(Range::Machine);
        match Range::of(address).or_else(of_machine) {
            Some(range) if !openings.any(|opening| opening.opens(host, port, address)) => {
                refused(range)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Says what to write so that an entry is there too. What is open already is not repeated: these
    /// words are read inside sandboxes, and a line that had the new entry alone would close the rest.
    fn remedy(&self, entry: &str) -> String {
        if self.openings.is_empty() {
            return format!(
                "with this line below `[egress]` in outlast.toml: open = [\"{entry}\"]"
            );
        }
        format!(
            "by adding \"{entry}\" to what `open` has already, below `[egress]` in outlast.toml"
        )
    }

    fn is_server(&self, port: u16, address: IpAddr) -> bool {
        self.own.is_some_and(|own| {
            let ip = own.ip().to_canonical();
            own.port() == port && (ip == address || ip.is_unspecified() && own::is_here(address))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: &Rule, host: &str, port: u16, address: &str) -> Result<(), Range> {
        let checked = rule.check(&host.parse().unwrap(), port, address.parse().unwrap());
        checked.map_err(|refused| refused.range)
    }

    #[test]
    fn what_is_not_public_is_closed_until_it_is_opened() {
        let closed = Rule::default();
        assert_eq!(check(&closed, "a.example", 443, "8.8.8.8"), Ok(()));
        assert_eq!(
            check(&closed, "a.example", 443, "10.1.2.3"),
            Err(Range::Private)
        );
        let open = Rule::new(&["10.1.0.0/16", "registry.internal:8443", "db.internal"]).unwrap();
        assert_eq!(check(&open, "a.example", 443, "10.1.2.3"), Ok(()));
        assert_eq!(check(&open, "a.example", 443, "::ffff:10.1.2.3"), Ok(()));
        assert_eq!(
            check(&open, "a.example", 443, "10.2.2.3"),
            Err(Range::Private)
        );
        assert_eq!(check(&open, "Registry.internal.", 8443, "10.2.2.3"), Ok(()));
        assert_eq!(
            check(&open, "registry.internal", 443, "10.2.2.3"),
            Err(Range::Private)
        );
        assert_eq!(check(&open, "db.internal", 5432, "192.168.1.1"), Ok(()));
        assert_eq!(
            check(&open, "x.db.internal", 5432, "192.168.1.1"),
            Err(Range::Private)
        );
    }

    #[test]
    fn the_error_prints_the_line_that_opens() {
        let host: Host = "Registry.internal".parse().unwrap();
        let refused = Rule::default().check(&host, 8443, "10.0.0.7".parse().unwrap());
        let words = refused.unwrap_err().to_string();
        assert_eq!(
            words,
            "`registry.internal` is at 10.0.0.7, a private address; whoever runs this server can \
             open it with this line below `[egress]` in outlast.toml: open = \
             [\"registry.internal:8443\"]"
        );
        let line = words
            .rsplit_once("[\"")
            .unwrap()
            .1
            .strip_suffix("\"]")
            .unwrap();
        let rule = Rule::new(&[line]).unwrap();
        rule.check(&host, 8443, "10.0.0.7".parse().unwrap())
            .unwrap();
    }

    #[test]
    fn what_is_open_already_is_neither_closed_nor_shown() {
        let host: Host = "registry.internal".parse().unwrap();
        let closed: IpAddr = "10.0.0.7".parse().unwrap();
        let rule = Rule::new(&["10.1.0.0/16", "db.internal:5432"]).unwrap();
        let words = rule.check(&host, 443, closed).unwrap_err().to_string();
        assert!(
            words.ends_with(
                "open it by adding \"registry.internal:443\" to what `open` has already, below \
                 `[egress]` in outlast.toml"
            ),
            "{words}"
        );
        assert!(!words.contains("db.internal"), "{words}");
    }

    #[test]
    fn no_range_opens_the_server_itself() {
        let own = "127.0.0.1:4747".parse().unwrap();
        let rule = Rule::new(&["127.0.0.0/8", "localhost"])
            .unwrap()
            .guarding(own);
        assert_eq!(check(&rule, "localhost", 4748, "127.0.0.1"), Ok(()));
        assert_eq!(
            check(&rule, "localhost", 4747, "127.0.0.1"),
            Err(Range::Server)
        );
        assert_eq!(
            check(&rule, "127.0.0.1", 4747, "::ffff:127.0.0.1"),
            Err(Range::Server)
        );
        let named = Rule::new(&["127.0.0.1:4747"]).unwrap().guarding(own);
        assert_eq!(check(&named, "127.0.0.1", 4747, "127.0.0.1"), Ok(()));
        let everywhere = Rule::new(&["127.0.0.0/8"]).unwrap();
        let everywhere = everywhere.guarding("0.0.0.0:4747".parse().unwrap());
        assert_eq!(
            check(&everywhere, "a.example", 4747, "127.0.0.1"),
            Err(Range::Server)
        );
    }
}
