//! Names of places: who may be reached, and what for.

use http::{HeaderMap, Uri, header};
use outlast_protocol::{
    Micros, Problem,
    credential::{CreateCredential, normal},
    environment::CreateEnvironment,
    session::{CreateSession, RepositoryUrl},
};
use outlast_reach::{Host, Opening, Pattern, Range};
use serde_json::{Value, json};
use url::Url;

use crate::hand::{
    credentials::{Held, Hosts, Way},
    place::Place,
    worn::{Worn, sweep},
};

/// Reads lines: a pattern, a host, a URL, a path. What is accepted is understood in one way by whoever
/// reads it, and what is allowed lies below what was named.
pub fn places(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut lines = text.splitn(4, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (pattern, host, url, path) = (line(), line(), line(), line());
    matched(pattern, host);
    listed(pattern);
    opened(pattern);
    addressed(url);
    repository(url, path);
}

/// What matches is the host itself, or a name below the one behind the star.
fn matched(pattern: &str, host: &str) {
    let Ok(host) = host.parse::<Host>() else {
        return;
    };
    let shown = host.to_string();
    assert_eq!(shown.parse::<Host>().as_ref(), Ok(&host));
    assert!(shown.parse::<Pattern>().unwrap().matches(&host));
    if let Host::Address(address) = host {
        assert_eq!(address, address.to_canonical());
        assert_eq!(Range::of(address), Range::of(shown.parse().unwrap()));
    }
    let Ok(read) = pattern.parse::<Pattern>() else {
        return;
    };
    assert_eq!(read.to_string().parse::<Pattern>().as_ref(), Ok(&read));
    let named = pattern.strip_prefix("*.");
    let own = named.unwrap_or(pattern).parse::<Host>().unwrap();
    let expected = match named {
        None => own == host,
        Some(_) => {
            let labels: Vec<&str> = shown.split('.').collect();
            let own = own.to_string();
            let own: Vec<&str> = own.split('.').collect();
            host.address().is_none() && labels.len() > own.len() && labels.ends_with(&own)
        }
    };
    assert_eq!(read.matches(&host), expected);
}

/// What a list of hosts takes is what the way out understands: nothing is accepted and ignored.
fn listed(entry: &str) {
    let environment = json!({"name": "x", "config": {"type": "cloud", "networking": {
        "type": "limited", "allowed_hosts": [entry],
    }}});
    let credential = json!({"auth": {
        "type": "environment_variable", "secret_name": "KEY", "secret_value": "secret",
        "networking": {"type": "limited", "allowed_hosts": [entry]},
    }});
    let taken = [
        CreateEnvironment::parse(&environment).is_ok(),
        CreateCredential::parse(&credential).is_ok(),
    ];
    assert_eq!(taken[0], taken[1]);
    if taken[0] {
        let read = entry.parse::<Pattern>();
        assert!(read.is_ok(), "{entry} is accepted and means nothing");
    }
}

/// What opens something is shown as what opens the same.
fn opened(entry: &str) {
    if let Ok(opening) = entry.parse::<Opening>() {
        assert_eq!(opening.to_string().parse().as_ref(), Ok(&opening));
    }
}

/// The address of a server has one form, and a place that can be connected to.
fn addressed(text: &str) {
    let one = normal(text);
    assert_eq!(normal(&one), one);
    if credential(text).is_err() {
        return;
    }
    let url = Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let host: Host = url.host_str().unwrap().parse().unwrap();
    let again = Url::parse(&one).unwrap();
    assert_eq!(
        again.host_str().unwrap().parse::<Host>().as_ref(),
        Ok(&host)
    );
    assert_eq!(again.port_or_known_default(), url.port_or_known_default());
    assert_eq!((again.scheme(), again.query()), (url.scheme(), url.query()));
}

fn credential(url: &str) -> Result<(), Problem> {
    let auth = json!({"type": "static_bearer", "mcp_server_url": url, "token": "secret"});
    let create = CreateCredential::parse(&json!({ "auth": auth }))?;
    let id = |prefix: &str| format!("{prefix}01{}", "1".repeat(22));
    let (own, vault) = (id("vcrd_").parse().unwrap(), id("vlt_").parse().unwrap());
    let made = create.resolve(own, vault, Micros(1))?;
    let shown: Value = serde_json::to_value(&made).unwrap();
    assert_eq!(shown["auth"]["mcp_server_url"], url);
    Ok(())
}

/// A repository's token goes below the repository's path, also in the reading of a server that takes
/// dots and escapes out of it.
fn repository(text: &str, path: &str) {
    let Some(repository) = RepositoryUrl::parse(text) else {
        return;
    };
    let url = Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let (host, port) = repository.host();
    let own: Host = host
        .parse()
        .unwrap_or_else(|_| panic!("{text} has no host"));
    assert_eq!(url.host_str().unwrap().parse::<Host>().as_ref(), Ok(&own));
    assert_eq!(url.port_or_known_default(), Some(port));
    cloned(text);
    let base = repository.base();
    assert!(base.starts_with('/') && base.len() > 1, "{text}");
    assert!(url.path().starts_with(base), "{text}");
    let Ok(uri) = path.parse::<Uri>() else { return };
    let place = Place { host: own, port };
    if !dressed(&place, port, base, &uri) {
        return;
    }
    let other = port.wrapping_add(1);
    assert!(
        !dressed(&place, other, base, &uri),
        "the token of {other} goes to {port}"
    );
    let read = Url::parse(&format!("https://h{}", uri.path())).unwrap();
    let rest = read.path().strip_prefix(base);
    let below = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    assert!(below, "the token of {base} goes to {uri}");
    assert!(!uri.path().contains(['%', '\\']), "{uri}");
}

/// Where a repository stands if nobody says where is a folder of its own.
fn cloned(url: &str) {
    let id = |prefix: &str| format!("{prefix}01{}", "1".repeat(22));
    let body = json!({"agent": id("agent_"), "environment_id": id("env_"), "resources": [
        {"type": "github_repository", "url": url},
    ]});
    let Ok(create) = CreateSession::parse(&body) else {
        return;
    };
    let path = create.resources.repositories[0].path.as_str();
    let name = path.strip_prefix("/workspace/").unwrap_or_default();
    assert!(
        !matches!(name, "" | "." | "..") && !name.contains('/'),
        "{path}"
    );
}

/// Tells whether a request to a place gets the token of a repository at that port.
fn dressed(place: &Place, port: u16, base: &str, uri: &Uri) -> bool {
    let held = Held {
        credential: "sesrsc".to_owned(),
        vault: None,
        hosts: Hosts::These(vec![Pattern::Exact(place.host.clone())]),
        way: Way::Basic {
            port,
            path: base.to_owned(),
            user: "x-access-token".to_owned(),
            secret: "a token of a repository".into(),
        },
    };
    let mut headers = HeaderMap::new();
    let held = vec![held];
    let sweep = sweep(&held);
    let worn = Worn::new(held.into(), place, sweep);
    let used = worn.dress(uri, &mut headers).unwrap();
    assert_eq!(
        headers.contains_key(header::AUTHORIZATION),
        !used.is_empty()
    );
    !used.is_empty()
}
