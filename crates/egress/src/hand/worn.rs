//! What credentials mean for one place: what is swapped where, what is added, what is swept.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, Uri, header, header::Entry};
use zeroize::Zeroizing;

use super::{
    answer::Answer,
    credentials::{Held, Way},
    place::Place,
};
use crate::{
    forms,
    replace::{Needle, Table},
};

/// What credentials mean for one host and port.
#[derive(Debug)]
pub(crate) struct Worn {
    held: Arc<[Held]>,
    /// Placeholders to secrets, in headers.
    header: Arc<Table>,
    /// The same in bodies, by how they are written.
    bodies: [Arc<Table>; 3],
    /// Secrets in all their forms to placeholders, in what comes back; the same for all places.
    pub(crate) sweep: Arc<Table>,
    /// Which of them are added.
    added: Vec<usize>,
}

/// How a body writes text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Writing {
    /// As it is.
    Plain,
    /// Within strings of JSON.
    Json,
    /// Percent-encoded.
    Form,
}

/// What stands in the place of a secret for which nothing stands inside the hand.
const REMOVED: &str = "[secret removed by egress]";

impl Worn {
    /// Takes what of a hand's credentials may go to a place; `sweep` is of all of them.
    pub(crate) fn new(held: Arc<[Held]>, place: &Place, sweep: Arc<Table>) -> Self {
        let all = held.iter().enumerate();
        let own: Vec<_> = all.filter(|(_, one)| one.is_for(place)).collect();
        let swaps = |writing, wanted: fn(bool, bool) -> bool| {
            let needles = own
                .iter()
                .filter_map(|(tag, one)| swap(*tag, one, writing, wanted));
            Arc::new(Table::new(needles.collect()))
        };
        let in_body = |writing| swaps(writing, |_, body| body);
        let is_added = |one: &Held| matches!(one.way, Way::Basic { .. });
        let added = own.iter().filter(|(_, one)| is_added(one));
        Self {
            header: swaps(Writing::Plain, |header, _| header),
            bodies: [Writing::Plain, Writing::Json, Writing::Form].map(in_body),
            sweep,
            added: added.map(|(tag, _)| *tag).collect(),
            held: held.clone(),
        }
    }

    /// Asks for a response that can be looked through: unpacked, and whole, for of parts nobody could tell
    /// what they are parts of.
    pub(crate) fn readable(headers: &mut HeaderMap) {
        headers.insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        );
        headers.remove(header::SEC_WEBSOCKET_EXTENSIONS);
        headers.remove(header::RANGE);
        headers.remove(header::IF_RANGE);
    }

    /// Returns the id of a credential by its tag.
    pub(crate) fn credential(&self, tag: usize) -> &str {
        self.held.get(tag).map_or("", |held| &held.credential)
    }

    /// Swaps and adds in the headers of a request; returns the tags of what was used.
    pub(crate) fn dress(&self, uri: &Uri, headers: &mut HeaderMap) -> Result<Vec<usize>, Answer> {
        let mut used = Vec::new();
        for value in headers.values_mut() {
            if let Some((bytes, tags)) = self.header.replace(value.as_bytes()) {
                *value = written(&bytes)?;
                used.extend(tags);
            }
        }
        if let Entry::Occupied(mut entry) = headers.entry(header::AUTHORIZATION)
            && let Some((value, tags)) = self.basic(entry.get())?
        {
            entry.insert(value);
            used.extend(tags);
        }
        used.extend(self.add(uri, headers)?);
        Ok(used)
    }

    /// Swaps within `Basic`, which hides the placeholder in base64.
    fn basic(&self, value: &HeaderValue) -> Result<Option<(HeaderValue, Vec<usize>)>, Answer> {
        let pair = value.to_str().ok().and_then(|text| text.split_once(' '));
        let Some((_, encoded)) = pair.filter(|(word, _)| word.eq_ignore_ascii_case("basic")) else {
            return Ok(None);
        };
        let Ok(decoded) = STANDARD.decode(encoded.trim()) else {
            return Ok(None);
        };
        let Some((bytes, tags)) = self.header.replace(&decoded) else {
            return Ok(None);
        };
        let bytes = Zeroizing::new(bytes);
        let text = Zeroizing::new(format!("Basic {}", STANDARD.encode(&*bytes)));
        Ok(Some((written(text.as_bytes())?, tags)))
    }

    /// Adds what is added below a path; the longest path counts.
    fn add(&self, uri: &Uri, headers: &mut HeaderMap) -> Result<Option<usize>, Answer> {
        let mut best: Option<(usize, usize)> = None;
        for tag in &self.added {
            if let Some(Way::Basic { path, .. }) = self.held.get(*tag).map(|held| &held.way)
                && is_below(uri.path(), path)
                && best.is_none_or(|(_, length)| length < path.len())
            {
                best = Some((*tag, path.len()));
            }
        }
        let way = best.and_then(|(tag, _)| Some((tag, &self.held.get(tag)?.way)));
        let Some((tag, Way::Basic { user, secret, .. })) = way else {
            return Ok(None);
        };
        let pair = Zeroizing::new(format!("{user}:{}", secret.expose()));
        let text = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
        headers.insert(header::AUTHORIZATION, written(text.as_bytes())?);
        Ok(Some(tag))
    }

    /// Returns what is swapped in a body of that kind; none if nothing is.
    pub(crate) fn body(&self, headers: &HeaderMap) -> Option<Arc<Table>> {
        let encoding = headers.get(header::CONTENT_ENCODING);
        if encoding.is_some_and(|encoding| encoding != "identity") {
            return None;
        }
        let kind = headers.get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        let [plain, json, form] = &self.bodies;
        let table = match kind.as_str() {
            "application/x-www-form-urlencoded" => form,
            kind if kind == "application/json" || kind.ends_with("+json") => json,
            _ => plain,
        };
        (!table.is_empty()).then(|| table.clone())
    }

    /// Sweeps the headers of a response; tells whether there was something.
    pub(crate) fn sweep_headers(&self, headers: &mut HeaderMap) -> bool {
        let mut found = false;
        for value in headers.values_mut() {
            if let Some((bytes, _)) = self.sweep.replace(value.as_bytes()) {
                // What is put there is plain, so that only what was there before can be no header.
                *value = HeaderValue::from_bytes(&bytes)
                    .unwrap_or_else(|_| HeaderValue::from_static(REMOVED));
                found = true;
            }
        }
        found
    }
}

/// Tells whether a path is below another, in the one reading that both sides have of it.
fn is_below(path: &str, prefix: &str) -> bool {
    let plain = |part: &str| part != "." && part != ".." && !part.contains(['%', '\\']);
    let rest = path.strip_prefix(prefix);
    let ends =
        rest.is_some_and(|rest| prefix.ends_with('/') || rest.is_empty() || rest.starts_with('/'));
    ends && path.split('/').all(plain)
}

fn swap(
    tag: usize,
    held: &Held,
    writing: Writing,
    wanted: fn(bool, bool) -> bool,
) -> Option<Needle> {
    let Way::Swap {
        placeholder,
        secret,
        header,
        body,
        ..
    } = &held.way
    else {
        return None;
    };
    let secret = secret.expose().as_bytes();
    let put = match writing {
        Writing::Plain => Zeroizing::new(secret.to_vec()),
        Writing::Json => forms::json(secret),
        Writing::Form => forms::percent(secret, b"0123456789ABCDEF"),
    };
    let find = Zeroizing::new(placeholder.as_bytes().to_vec());
    wanted(*header, *body).then_some(Needle { find, put, tag })
}

/// Returns what is looked for in what comes back: of all credentials, for a host may hand out what another
/// one was given.
pub(crate) fn sweep(held: &[Held]) -> Arc<Table> {
    let all = held.iter().enumerate();
    let needles = all.flat_map(|(tag, one)| swept(tag, one));
    Arc::new(Table::new(needles.collect()))
}

fn swept(tag: usize, held: &Held) -> impl Iterator<Item = Needle> {
    let put = match &held.way {
        Way::Swap { placeholder, .. } => placeholder.as_str(),
        Way::Basic { .. } => REMOVED,
    };
    let put = Zeroizing::new(put.as_bytes().to_vec());
    let forms = forms::of(held.secret().expose().as_bytes());
    forms.into_iter().map(move |find| Needle {
        find,
        put: put.clone(),
        tag,
    })
}

/// Writes a header that has a secret: it is marked, so that nothing prints it.
fn written(bytes: &[u8]) -> Result<HeaderValue, Answer> {
    let mut value = HeaderValue::from_bytes(bytes).map_err(|_| {
        Answer::bad("a credential has a byte that no header may have, such as an end of line")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::{super::credentials::Hosts, *};

    const PLACEHOLDER: &str = "outlast_placeholder_00112233445566778899aabbccddeeff";

    fn held(header: bool, body: bool) -> Held {
        Held {
            credential: "vcrd_1".to_owned(),
            vault: None,
            hosts: Hosts::These(vec!["a.example".parse().unwrap()]),
            way: Way::Swap {
                variable: "KEY".to_owned(),
                placeholder: PLACEHOLDER.to_owned(),
                secret: "s3cr\"t of twelve&more".into(),
                header,
                body,
            },
        }
    }

    fn repository(path: &str, secret: &str) -> Held {
        Held {
            credential: format!("sesrsc_{path}"),
            vault: None,
            hosts: Hosts::These(vec!["a.example".parse().unwrap()]),
            way: Way::Basic {
                port: 443,
                path: path.to_owned(),
                user: "x-access-token".to_owned(),
                secret: secret.into(),
            },
        }
    }

    fn worn(held: Vec<Held>, host: &str) -> Worn {
        worn_at(held, host, 443)
    }

    fn worn_at(held: Vec<Held>, host: &str, port: u16) -> Worn {
        let host = host.parse().unwrap();
        let sweep = sweep(&held);
        Worn::new(held.into(), &Place { host, port }, sweep)
    }

    fn dressed(worn: &Worn, path: &str, lines: &[(&'static str, String)]) -> Vec<(String, String)> {
        let mut headers: HeaderMap = lines
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect();
        worn.dress(&path.parse().unwrap(), &mut headers).unwrap();
        let text = |value: &HeaderValue| String::from_utf8(value.as_bytes().to_vec()).unwrap();
        let lines = headers.iter();
        lines
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect()
    }

    #[test]
    fn a_placeholder_is_swapped_in_headers_and_within_basic() {
        let worn = worn(vec![held(true, false)], "a.example");
        let basic = |pair: String| format!("bAsic {}", STANDARD.encode(pair));
        let lines = dressed(
            &worn,
            &format!("/{PLACEHOLDER}"),
            &[
                ("x-key", format!("key={PLACEHOLDER};")),
                ("authorization", basic(format!("me:{PLACEHOLDER}"))),
            ],
        );
        let secret = "s3cr\"t of twelve&more";
        let expected = format!("Basic {}", STANDARD.encode(format!("me:{secret}")));
        assert_eq!(
            lines,
            [
                ("x-key".to_owned(), format!("key={secret};")),
                ("authorization".to_owned(), expected),
            ]
        );
    }

    #[test]
    fn it_is_swapped_for_its_hosts_and_places_alone() {
        let line = [("x-key", PLACEHOLDER.to_owned())];
        let same = [("x-key".to_owned(), PLACEHOLDER.to_owned())];
        assert_eq!(
            dressed(&worn(vec![held(true, true)], "b.example"), "/", &line),
            same
        );
        assert_eq!(
            dressed(&worn(vec![held(false, true)], "a.example"), "/", &line),
            same
        );
        let only_header = worn(vec![held(true, false)], "a.example");
        assert!(only_header.body(&HeaderMap::new()).is_none());
    }

    #[test]
    fn a_body_is_written_as_its_kind_is() {
        let worn = worn(vec![held(false, true)], "a.example");
        let swapped = |kind: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            let table = worn.body(&headers).unwrap();
            String::from_utf8(table.replace(PLACEHOLDER.as_bytes()).unwrap().0).unwrap()
        };
        assert_eq!(swapped("text/plain"), "s3cr\"t of twelve&more");
        assert_eq!(
            swapped("application/JSON; charset=utf-8"),
            "s3cr\\\"t of twelve&more"
        );
        assert_eq!(
            swapped("application/vnd.x+json"),
            "s3cr\\\"t of twelve&more"
        );
        let form = "application/x-www-form-urlencoded";
        assert_eq!(swapped(form), "s3cr%22t%20of%20twelve%26more");
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert!(worn.body(&headers).is_none());
    }

    #[test]
    fn a_secret_that_is_no_header_is_told_without_it() {
        let mut held = held(true, true);
        if let Way::Swap { secret, .. } = &mut held.way {
            *secret = "two\r\nlines: of a header".into();
        }
        let mut headers = HeaderMap::new();
        headers.insert("x-key", HeaderValue::from_static(PLACEHOLDER));
        let answer = worn(vec![held], "a.example").dress(&Uri::from_static("/"), &mut headers);
        assert!(!answer.unwrap_err().words().contains("lines"));
    }

    #[test]
    fn a_repositorys_token_is_added_below_its_path_alone() {
        let all = vec![
            repository("/o/r.git", "token one"),
            repository("/o/", "token two"),
        ];
        let worn = worn(all, "a.example");
        let added = |path: &str| {
            let lines = dressed(&worn, path, &[]);
            let value = lines.first().map(|(_, value)| value.clone())?;
            let encoded = value.strip_prefix("Basic ")?;
            Some(String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap())
        };
        let one = Some("x-access-token:token one".to_owned());
        let two = Some("x-access-token:token two".to_owned());
        assert_eq!(added("/o/r.git/info/refs?service=x"), one);
        assert_eq!(added("/o/r.git"), one);
        assert_eq!(added("/o/r.github"), two);
        for path in [
            "/x/r.git",
            "/o",
            "/o/r.git/../../x",
            "/o/%2e%2e/x",
            "/o/..",
            "/o/a\\b",
        ] {
            assert_eq!(added(path), None, "{path}");
        }
    }

    #[test]
    fn a_repositorys_token_is_for_one_port_and_the_first_of_two_counts() {
        let all = || {
            vec![
                repository("/o/r", "token one"),
                repository("/o/r", "token two"),
            ]
        };
        let added = |port| dressed(&worn_at(all(), "a.example", port), "/o/r", &[]);
        let pair = STANDARD.encode("x-access-token:token one");
        let line = ("authorization".to_owned(), format!("Basic {pair}"));
        assert_eq!(added(443), [line]);
        assert_eq!(added(8443), []);
    }

    #[test]
    fn what_comes_back_in_headers_is_swept() {
        let worn = worn(vec![held(true, true)], "a.example");
        let mut headers = HeaderMap::new();
        let basic = STANDARD.encode("me:s3cr\"t of twelve&more");
        headers.insert("x-echo", basic.parse().unwrap());
        assert!(worn.sweep_headers(&mut headers));
        let swept = headers["x-echo"].to_str().unwrap();
        assert!(
            swept.contains(PLACEHOLDER) && !swept.contains(&basic[8..20]),
            "{swept}"
        );
    }
}
