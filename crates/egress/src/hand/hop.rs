//! What belongs to one connection and does not go on.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Headers that never go on.
const OWN: [HeaderName; 6] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Others that have no constant.
const OLD: [&str; 2] = ["keep-alive", "proxy-connection"];

/// Removes what belongs to the connection; what it asked to become is returned.
///
/// A request that both sides have to agree to change (`Upgrade`) keeps that; trailers stay possible.
pub(crate) fn strip(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let named = named(headers);
    let upgrade = headers
        .get(header::UPGRADE)
        .filter(|_| named.contains(&header::UPGRADE))
        .cloned();
    let trailers = mentions(headers, header::TE, "trailers");
    for name in named.iter().filter(|name| may_be_named(name)).chain(&OWN) {
        headers.remove(name);
    }
    for name in OLD {
        headers.remove(name);
    }
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if let Some(to) = &upgrade {
        become_(headers, to.clone());
    }
    upgrade
}

/// Asks for, or agrees to, a change of protocol.
fn become_(headers: &mut HeaderMap, to: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, to);
}

/// What a client may not have dropped by naming it: it decides where the request goes and where it ends.
fn may_be_named(name: &HeaderName) -> bool {
    ![
        header::HOST,
        header::CONTENT_LENGTH,
        header::CONTENT_ENCODING,
        header::CONTENT_TYPE,
    ]
    .contains(name)
}

/// Returns the headers that `Connection` names.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    words(headers, header::CONNECTION)
        .filter_map(|word| word.parse().ok())
        .collect()
}

fn mentions(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    words(headers, name).any(|said| said.eq_ignore_ascii_case(word))
}

fn words(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',').map(str::trim))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let lines = lines.iter();
        lines
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn what_belongs_to_the_connection_is_removed() {
        let mut all = headers(&[
            ("connection", "close, X-Mine"),
            ("connection", "Keep-Alive, host, content-length"),
            ("x-mine", "1"),
            ("x-stays", "2"),
            ("host", "a.example"),
            ("content-length", "3"),
            ("proxy-authorization", "Basic x"),
            ("proxy-connection", "keep-alive"),
            ("keep-alive", "timeout=5"),
            ("te", "gzip, trailers"),
            ("upgrade", "h2c"),
            ("transfer-encoding", "chunked"),
        ]);
        assert_eq!(strip(&mut all), None);
        assert_eq!(
            all,
            headers(&[
                ("x-stays", "2"),
                ("host", "a.example"),
                ("content-length", "3"),
                ("te", "trailers"),
            ])
        );
    }

    #[test]
    fn an_upgrade_goes_on() {
        let mut all = headers(&[("connection", "Upgrade, x-a"), ("upgrade", "websocket")]);
        assert_eq!(strip(&mut all), Some(HeaderValue::from_static("websocket")));
        assert_eq!(
            all,
            headers(&[("connection", "upgrade"), ("upgrade", "websocket")])
        );
    }
}
