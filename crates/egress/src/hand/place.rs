//! Where a request goes: read once, in one form, and everything else has to agree.

use http::{HeaderMap, Request, Uri, Version, header, uri::Authority};
use outlast_reach::Host;

use super::answer::Answer;

/// A host and a port.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Place {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

/// The port of plain HTTP.
pub(crate) const HTTP: u16 = 80;

/// The port of HTTP over TLS.
pub(crate) const HTTPS: u16 = 443;

impl Place {
    /// Reads `host:port`; without a port it is `usual`, if there is one.
    fn read(authority: &str, usual: Option<u16>) -> Result<Self, Answer> {
        let no = |why: &str| Answer::bad(format!("`{}` {why}", shown(authority)));
        if authority.contains('@') {
            return Err(no("carries a user name, which does not belong there"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            Some(_) | None => (authority, None),
        };
        let port = match port {
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok(),
            Some(_) => None,
            None => usual,
        };
        let port = port.filter(|port| *port != 0);
        let port = port.ok_or_else(|| no("has no port between 1 and 65535"))?;
        let host = host
            .parse()
            .map_err(|_| no("is no host name and no IP address"))?;
        Ok(Self { host, port })
    }

    /// Writes it as the `Host` of a request, without a port that goes without saying.
    pub(crate) fn authority(&self, usual: u16) -> String {
        let with_port = self.host.with_port(self.port);
        if self.port == usual {
            let port = format!(":{usual}");
            return with_port
                .strip_suffix(&port)
                .unwrap_or(&with_port)
                .to_owned();
        }
        with_port
    }
}

/// Cuts what somebody wrote, for words about it.
fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}

/// Returns where a `CONNECT` leads.
pub(crate) fn of_tunnel<B>(request: &Request<B>) -> Result<Place, Answer> {
    let uri = request.uri();
    let form = || Answer::bad("CONNECT names `host:port` and nothing else");
    let authority = uri.authority().filter(|_| uri.path_and_query().is_none());
    let place = Place::read(authority.ok_or_else(form)?.as_str(), None)?;
    // Python's client says where it wants to go once.
    if request.headers().contains_key(header::HOST) {
        agrees(request.headers(), &place, HTTPS)?;
    }
    Ok(place)
}

/// Returns where a request to a proxy leads.
pub(crate) fn of_proxied<B>(request: &Request<B>) -> Result<Place, Answer> {
    let uri = request.uri();
    match (uri.scheme_str(), uri.authority()) {
        (Some("http"), Some(authority)) => {
            let place = Place::read(authority.as_str(), Some(HTTP))?;
            if !is_old(request) {
                agrees(request.headers(), &place, HTTP)?;
            }
            Ok(place)
        }
        (Some(scheme), _) => Err(Answer::bad(format!(
            "`{}://` is not served by a request to a proxy; only `http://` is, and `https://` by CONNECT",
            shown(scheme)
        ))),
        (None, _) => Err(Answer::bad(
            "this is a proxy: a request names the whole URL, as in `GET http://example.com/`",
        )),
    }
}

/// Checks that a request within a tunnel stays where the tunnel leads.
pub(crate) fn within<B>(request: &Request<B>, place: &Place, usual: u16) -> Result<(), Answer> {
    let own = |authority: &Authority| Place::read(authority.as_str(), Some(usual));
    if let Some(authority) = request.uri().authority()
        && own(authority)? != *place
    {
        return Err(elsewhere(authority.as_str(), place));
    }
    if is_old(request) {
        return Ok(());
    }
    agrees(request.headers(), place, usual)
}

/// Tells whether a request is of a version that had no `Host`, and has none.
fn is_old<B>(request: &Request<B>) -> bool {
    request.version() < Version::HTTP_11 && !request.headers().contains_key(header::HOST)
}

/// Checks that `Host` is there, once, and says the same.
fn agrees(headers: &HeaderMap, place: &Place, usual: u16) -> Result<(), Answer> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (host, more) = (hosts.next(), hosts.next());
    let Some(host) = host else {
        return Err(Answer::bad("the request has no `Host`"));
    };
    if more.is_some() {
        return Err(Answer::bad("the request has more than one `Host`"));
    }
    let text = host.to_str().unwrap_or_default();
    // A client may leave out the port that the URL names, but not name another one.
    let read = Place::read(text, Some(usual))?;
    if read == *place {
        Ok(())
    } else {
        Err(elsewhere(text, place))
    }
}

fn elsewhere(said: &str, place: &Place) -> Answer {
    let (said, place) = (shown(said), place.host.with_port(place.port));
    Answer::forbidden(
        "host_mismatch",
        format!("the request says `{said}`, and goes to `{place}`: both have to be the same"),
    )
}

/// Returns what a request asks for, as the host itself is asked.
pub(crate) fn path(uri: &Uri) -> Uri {
    // One that is empty is there too, in `http://a.example#b`, and would be written as it is.
    let path = uri.path_and_query().filter(|path| path.as_str() != "/");
    path.map_or_else(|| Uri::from_static("/"), |path| Uri::from(path.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, uri: &str, hosts: &[&str]) -> Request<()> {
        let mut request = Request::builder().method(method).uri(uri);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        request.body(()).unwrap()
    }

    fn proxied(uri: &str, hosts: &[&str]) -> Result<String, String> {
        let place = of_proxied(&request("GET", uri, hosts));
        place
            .map(|place| place.host.with_port(place.port))
            .map_err(|answer| answer.words().to_owned())
    }

    #[test]
    fn url_and_host_have_to_say_the_same() {
        for (uri, host, place) in [
            ("http://A.example/x", "a.example", "a.example:80"),
            ("http://a.example:80/", "a.example.", "a.example:80"),
            ("http://a.example:8080/", "A.EXAMPLE:8080", "a.example:8080"),
            ("http://[::1]/", "[::1]:80", "[::1]:80"),
            ("http://0x7f.1/", "127.0.0.1", "127.0.0.1:80"),
        ] {
            assert_eq!(proxied(uri, &[host]).as_deref(), Ok(place), "{uri}");
        }
        for (uri, hosts) in [
            ("http://a.example/", &["b.example"] as &[_]),
            ("http://a.example:8080/", &["a.example"]),
            ("http://a.example/", &["a.example:8080"]),
            ("http://a.example/", &["a.example", "a.example"]),
            ("http://a.example/", &[]),
            ("http://a.example/", &[""]),
            ("http://a.example/", &["a.example/b"]),
            ("http://u@a.example/", &["a.example"]),
            ("http://a.example:0/", &["a.example:0"]),
            ("http://a.example:/", &["a.example:99999"]),
            ("https://a.example/", &["a.example"]),
            ("ftp://a.example/", &["a.example"]),
            ("/", &["a.example"]),
        ] {
            assert!(proxied(uri, hosts).is_err(), "{uri} {hosts:?}");
        }
    }

    #[test]
    fn a_tunnel_names_host_and_port() {
        let place = |uri, hosts: &[&str]| of_tunnel(&request("CONNECT", uri, hosts)).is_ok();
        assert!(place("a.example:443", &["a.example:443"]));
        assert!(place("a.example:443", &["A.example"]));
        assert!(place("[::1]:443", &["[::1]:443"]));
        assert!(!place("a.example", &["a.example"]));
        assert!(!place("a.example:443", &["b.example:443"]));
        assert!(!place("a.example:443", &["a.example:8443"]));
        assert!(!place("http://a.example:443/", &["a.example:443"]));
        assert!(place("a.example:443", &[]));
    }

    #[test]
    fn nothing_within_a_tunnel_leads_elsewhere() {
        let place = Place::read("a.example:443", None).unwrap();
        let stays = |uri, hosts: &[&str]| {
            within(&request("GET", uri, hosts), &place, HTTPS).map_err(|answer| answer.rule())
        };
        assert_eq!(stays("/x?y", &["a.example"]), Ok(()));
        assert_eq!(stays("https://a.example/x", &["a.example:443"]), Ok(()));
        assert_eq!(stays("/", &["b.example"]), Err("host_mismatch"));
        assert_eq!(stays("/", &["a.example:80"]), Err("host_mismatch"));
        assert_eq!(
            stays("https://b.example/", &["a.example"]),
            Err("host_mismatch")
        );
        assert_eq!(stays("/", &[]), Err("request"));
        assert_eq!(stays("/", &["a.example", "b.example"]), Err("request"));
    }

    #[test]
    fn a_host_is_asked_for_a_path() {
        for (uri, asked) in [
            ("http://a.example", "/"),
            ("http://a.example#b", "/"),
            ("http://a.example/#b", "/"),
            ("http://a.example?b", "/?b"),
            ("http://a.example/b?c#d", "/b?c"),
            ("/b#", "/b"),
            ("*", "*"),
        ] {
            assert_eq!(path(&Uri::from_static(uri)).to_string(), asked, "{uri}");
        }
    }

    #[test]
    fn a_port_that_goes_without_saying_is_not_said() {
        let authority = |text: &str, usual| Place::read(text, None).unwrap().authority(usual);
        assert_eq!(authority("a.example:443", HTTPS), "a.example");
        assert_eq!(authority("a.example:443", HTTP), "a.example:443");
        assert_eq!(authority("[::1]:80", HTTP), "[::1]");
    }
}
