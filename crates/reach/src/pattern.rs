//! Hosts as a list names them.

use std::{fmt, str::FromStr};

use crate::{Host, HostError};

/// One host, or `*.` and a name for all of its subdomains, not for itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Pattern {
    /// That host alone.
    Exact(Host),
    /// What ends in a dot and that name.
    Below(String),
}

impl Pattern {
    /// Tells whether the pattern means that host.
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exact(own), host) => own == host,
            (Self::Below(own), Host::Name(name)) => is_below(name, own),
            (Self::Below(_), Host::Address(_)) => false,
        }
    }

    /// Tells whether there are hosts that both mean.
    pub fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(host), other) | (other, Self::Exact(host)) => other.matches(host),
            (Self::Below(one), Self::Below(other)) => {
                one == other || is_below(one, other) || is_below(other, one)
            }
        }
    }
}

/// Tells whether a name is a subdomain of another.
fn is_below(name: &str, of: &str) -> bool {
    let before = name.strip_suffix(of);
    before.is_some_and(|before| before.len() > 1 && before.ends_with('.'))
}

impl FromStr for Pattern {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let Some(rest) = text.strip_prefix("*.") else {
            return text.parse().map(Self::Exact);
        };
        match rest.parse()? {
            Host::Name(name) => Ok(Self::Below(name)),
            Host::Address(_) => Err(HostError),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => host.fmt(f),
            Self::Below(name) => write!(f, "*.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, host: &str) -> bool {
        let host = host.parse().unwrap();
        pattern.parse::<Pattern>().unwrap().matches(&host)
    }

    #[test]
    fn a_name_means_itself_alone() {
        assert!(matches("example.com", "EXAMPLE.com."));
        assert!(matches("BÜCHER.example", "xn--bcher-kva.example"));
        for other in ["a.example.com", "xexample.com", "example.com.evil.example"] {
            assert!(!matches("example.com", other), "{other}");
        }
    }

    #[test]
    fn a_star_means_subdomains_alone() {
        assert!(matches("*.example.com", "a.example.com"));
        assert!(matches("*.example.com", "a.b.Example.com"));
        for other in ["example.com", "aexample.com", "a.example.com.evil.example"] {
            assert!(!matches("*.example.com", other), "{other}");
        }
    }

    #[test]
    fn patterns_meet_where_both_mean_a_host() {
        let meets = |one: &str, other: &str| {
            let (one, other): (Pattern, Pattern) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(one.meets(&other), other.meets(&one), "{one} {other}");
            one.meets(&other)
        };
        for (one, other) in [
            ("a.example", "A.example."),
            ("*.example", "a.example"),
            ("*.example", "*.example"),
            ("*.example", "*.a.example"),
            ("1.2.3.4", "1.2.3.4"),
        ] {
            assert!(meets(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("a.example", "b.example"),
            ("*.a.example", "a.example"),
            ("*.a.example", "*.b.example"),
            ("*.a.example", "*.aa.example"),
            ("*.example", "1.2.3.4"),
        ] {
            assert!(!meets(one, other), "{one} {other}");
        }
    }

    #[test]
    fn an_address_means_that_address_in_every_form() {
        assert!(matches("1.2.3.4", "0x01020304"));
        assert!(!matches("1.2.3.4", "1.2.3.5"));
        assert!("*.1.2.3.4".parse::<Pattern>().is_err());
    }

    proptest! {
        #[test]
        fn a_star_never_means_what_does_not_end_so(host in "[a-z0-9-]{1,8}(\\.[a-z0-9-]{1,8}){0,3}") {
            let Ok(read) = host.parse::<Host>() else { return Ok(()) };
            let pattern: Pattern = "*.b.example".parse().unwrap();
            let below = read.to_string().ends_with(".b.example");
            prop_assert_eq!(pattern.matches(&read), below);
        }

        #[test]
        fn what_a_host_is_called_means_it(host in "[a-zA-Z0-9]{1,8}(\\.[a-zA-Z]{1,8}){1,3}\\.?") {
            let read: Host = host.parse().unwrap();
            prop_assert!(read.to_string().parse::<Pattern>().unwrap().matches(&read));
            prop_assert_eq!(read.to_string().parse::<Host>().unwrap(), read);
        }
    }
}
