//! The grammar of host names.

use crate::read::At;
use crate::{Problem, limits};

/// Checks one label: letters, digits and inner hyphens.
pub(crate) fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The longest name that DNS has.
const LONGEST: usize = 253;

/// Checks a whole name: one label or several; an IPv4 address passes too.
///
/// What no client takes for a host would be accepted and mean nothing: a last label of digits makes an
/// address or nothing, and not everything behind `xn--` is a name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_short = name.len() <= LONGEST;
    is_short && name.split('.').all(is_label) && url::Host::parse(name).is_ok()
}

/// Tells whether a name is an IPv4 address, in whatever form.
fn is_address(name: &str) -> bool {
    matches!(url::Host::parse(name), Ok(url::Host::Ipv4(_)))
}

/// Reads an entry of a list of hosts: a name, an IPv4 address, or `*.` and a name for its subdomains.
pub(crate) fn entry(at: &At<'_>) -> Result<String, Problem> {
    let text = at.text(1..=limits::HOST)?;
    let name = text.strip_prefix("*.").unwrap_or(text);
    let why = if text.contains("://") {
        "must be a host name without a scheme"
    } else if name.contains('/') {
        "must be a host name without a path"
    } else if name
        .trim_matches(['[', ']'])
        .parse::<std::net::Ipv6Addr>()
        .is_ok()
    {
        "must be a host name or an IPv4 address; IPv6 addresses are not taken"
    } else if name.contains(':') {
        "must be a host name without a port"
    } else if name.contains('*') {
        "must have `*` only as the whole first label, as in `*.example.com`"
    } else if !is_name(name) {
        "must be a host name such as `example.com`, or `*.example.com` for its subdomains"
    } else if name != text && is_address(name) {
        "must have a name behind `*.`; an address has nothing below it"
    } else {
        return Ok(text.to_owned());
    };
    Err(at.refuse(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels_with_dots() {
        for good in [
            "a",
            "example.com",
            "xn--bcher-kva.example",
            "10.0.0.1",
            "a-b.c1",
        ] {
            assert!(is_name(good), "{good}");
        }
        let (long, longer) = ("a".repeat(64), "a.".repeat(130) + "a");
        for bad in [
            "256.1.1.1",
            "1.2.3.4.5",
            "a.1",
            "xn--a",
            "xn--.example",
            &longer,
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "-a",
            "a-",
            "a_b",
            "a b",
            "bücher.de",
            &long,
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
