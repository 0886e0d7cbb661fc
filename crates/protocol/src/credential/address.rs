//! Addresses of MCP servers and token endpoints.

use crate::read::At;
use crate::{Problem, host, limits};

/// Reads an address; it is kept byte for byte.
pub(super) fn read(at: &At<'_>) -> Result<String, Problem> {
    let text = at.text(1..=limits::SERVER_URL)?;
    match Parts::split(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(why) => Err(at.refuse(why)),
    }
}

/// Returns the form in which addresses of one server are equal: scheme and host in lower case, no
/// default port, no slashes at the end. Path, query and other ports count as they are.
pub fn normal(address: &str) -> String {
    let Ok(parts) = Parts::split(address) else {
        return address.to_owned();
    };
    let scheme = if parts.is_secure { "https" } else { "http" };
    let host = parts.host.to_ascii_lowercase();
    let usual = if parts.is_secure { 443 } else { 80 };
    let port = parts.port.filter(|port| *port != usual);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let (path, query) = match parts.rest.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (parts.rest, String::new()),
    };
    let path = path.trim_end_matches('/');
    format!("{scheme}://{host}{port}{path}{query}")
}

struct Parts<'a> {
    is_secure: bool,
    host: &'a str,
    port: Option<u16>,
    /// Path and query.
    rest: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, &'static str> {
        const FORM: &str = "must be a URL such as `https://mcp.example.com/mcp`";
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("must be a URL of printable ASCII characters without spaces");
        }
        if text.contains('#') {
            return Err("must be a URL without a fragment");
        }
        let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err("must be a URL that begins with `https://` or `http://`"),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.contains('@') {
            return Err("must be a URL without a user name or password");
        }
        let (host, port) = authority_of(authority).ok_or(FORM)?;
        Ok(Self {
            is_secure,
            host,
            port,
            rest,
        })
    }
}

/// Splits host and port; an IPv6 address stands in brackets.
fn authority_of(authority: &str) -> Option<(&str, Option<u16>)> {
    let end = match authority.rfind(']') {
        Some(bracket) => bracket.checked_add(1)?,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at_checked(end)?;
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse().ok().filter(|port| *port > 0)?)
        }
        None if port.is_empty() => None,
        Some(_) | None => return None,
    };
    let inner = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let is_good = match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host::is_name(host.strip_suffix('.').unwrap_or(host)),
    };
    is_good.then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_server_have_one_form() {
        for (address, expected) in [
            (
                "https://MCP.Example.com/Mcp/",
                "https://mcp.example.com/Mcp",
            ),
            ("HTTPS://mcp.example.com:443", "https://mcp.example.com"),
            ("https://mcp.example.com/", "https://mcp.example.com"),
            ("http://a:80/b?c=D/", "http://a/b?c=D/"),
            ("http://a:443/b/?c", "http://a:443/b?c"),
            ("http://[::1]:8080/mcp", "http://[::1]:8080/mcp"),
            ("https://a:8443//", "https://a:8443"),
        ] {
            assert_eq!(normal(address), expected, "{address}");
            assert_eq!(normal(expected), expected, "a form of its own");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in [
            "mcp.example.com",
            "ftp://a/b",
            "https://",
            "https:///mcp",
            "https://u:p@a/",
            "https://a/#b",
            "https://a b/",
            "https://a\u{e9}/",
            "https://a:0/",
            "https://a:x/",
            "https://a:70000/",
            "https://[::1/",
            "https://[a]/",
            "https://a_b/",
            "http://080/mcp",
            "https://xn--a/",
        ] {
            assert!(Parts::split(bad).is_err(), "{bad}");
        }
    }
}
