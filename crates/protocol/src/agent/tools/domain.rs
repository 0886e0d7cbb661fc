//! Domain lists of the web tools.

use crate::read::At;
use crate::{Problem, host, limits};

/// Whether a domain may carry a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Paths {
    /// In searches.
    Allowed,
    /// In fetches.
    Refused,
}

/// Names that never leave one machine or network.
const LOCAL: &[&str] = &["localhost", "local", "internal", "localdomain", "invalid"];

/// Second-level suffixes under which names are registered, besides every top-level domain.
///
/// The public list of suffixes has ten thousand entries and changes weekly; these are the ones a
/// person types by mistake. A suffix that is missing here is a domain list that matches too much,
/// never one that opens a private network.
const SUFFIXES: &[&str] = &[
    "ac.uk",
    "co.uk",
    "gov.uk",
    "org.uk",
    "com.au",
    "net.au",
    "org.au",
    "co.jp",
    "ne.jp",
    "or.jp",
    "com.br",
    "com.cn",
    "co.in",
    "co.kr",
    "co.nz",
    "co.za",
    "com.mx",
    "com.tr",
    "com.tw",
    "com.sg",
    "com.hk",
    "com.ar",
    "co.il",
    "github.io",
    "gitlab.io",
    "pages.dev",
    "vercel.app",
    "netlify.app",
];

/// Reads a list of 1 to 64 domains without repeats.
pub(super) fn list(at: &At<'_>, paths: Paths) -> Result<Vec<String>, Problem> {
    let items = at.items(1..=limits::DOMAINS)?;
    let mut seen: Vec<String> = Vec::with_capacity(items.len());
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        let text = item.text(1..=limits::DOMAIN)?;
        let canonical = canonical(text, paths).map_err(|why| item.refuse(why))?;
        if seen.contains(&canonical) {
            return Err(item.refuse("is in the list already"));
        }
        seen.push(canonical);
        out.push(text.to_owned());
    }
    Ok(out)
}

/// Checks one domain; returns it as it is compared: host in lower case, no trailing slash.
fn canonical(text: &str, paths: Paths) -> Result<String, &'static str> {
    if !text.is_ascii() {
        return Err("must be ASCII; write an international name as Punycode (`xn--...`)");
    }
    if text.contains("://") {
        return Err("must be a host name without a scheme, such as `docs.example.com`");
    }
    let text = text.strip_suffix('/').unwrap_or(text);
    let (host, path) = text
        .split_once('/')
        .map_or((text, None), |(host, path)| (host, Some(path)));
    match path {
        Some(_) if paths == Paths::Refused => return Err("must be a host name without a path"),
        Some(path) if !is_path(path) => {
            return Err("the path must not contain white space or any of `? # $ , | ^ !`");
        }
        Some(_) | None => {}
    }
    let name = host.to_ascii_lowercase();
    check_host(&name)?;
    Ok(match path {
        Some(path) => format!("{name}/{path}"),
        None => name,
    })
}

fn is_path(path: &str) -> bool {
    !path.is_empty()
        && path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"?#$,|^!".contains(&byte))
}

fn check_host(name: &str) -> Result<(), &'static str> {
    if name.contains('*') {
        return Err("must not contain a wildcard; a domain covers its subdomains");
    }
    if name.contains(['@', ':', '[']) {
        return Err("must be a host name without credentials, port or IP address");
    }
    let labels: Vec<&str> = name.split('.').collect();
    if !labels.iter().all(|label| host::is_label(label)) {
        return Err("must be a host name such as `docs.example.com`");
    }
    let Some(top) = labels.last().copied() else {
        return Err("must be a host name such as `docs.example.com`");
    };
    if LOCAL.contains(&top) {
        return Err("must not be a local name");
    }
    // Also `0x7f.1` and the like: a number at the end makes the whole name an IP address.
    if top.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("must not be an IP address");
    }
    if labels.len() < 2 || SUFFIXES.contains(&name) {
        return Err("must be a registrable domain such as `example.com`, not a bare suffix");
    }
    Ok(())
}
