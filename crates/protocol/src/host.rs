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

/// Checks a whole name: one label or several; an IPv4 address passes too.
pub(crate) fn is_name(name: &str) -> bool {
    name.split('.').all(is_label)
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
        let long = "a".repeat(64);
        for bad in [
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
