//! Keeps the key out of answers, wherever a chunk ends.

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use reqwest::header::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};

/// What stands in the key's place.
const MARK: &[u8] = b"[key]";

/// The shortest key that is looked for: a shorter one may stand in any text by chance.
const SHORTEST: usize = 12;

/// Looks for the key in what passes.
///
/// What passes is what came, in the same chunks, unless the key is in it: only the end of a chunk
/// that may be the beginning of the key is held back until the next one.
#[derive(Clone)]
pub(super) struct Scrub {
    key: Option<SecretString>,
    held: BytesMut,
}

impl Scrub {
    pub(super) fn new(key: Option<&SecretString>) -> Self {
        let key = key.filter(|key| key.expose_secret().len() >= SHORTEST);
        Self {
            key: key.cloned(),
            held: BytesMut::new(),
        }
    }

    /// Marks headers that have the key: nothing else of them is of use.
    pub(super) fn headers(&self, headers: &mut HeaderMap) {
        let Some(key) = &self.key else { return };
        let key = key.expose_secret().as_bytes();
        for value in headers.values_mut() {
            if find(value.as_bytes(), key).is_some() {
                *value = HeaderValue::from_static("[key]");
            }
        }
    }

    /// Scrubs a body.
    pub(super) fn over(
        self,
        body: BoxStream<'static, Result<Bytes, String>>,
    ) -> BoxStream<'static, Result<Bytes, String>> {
        let state = (self, Some(body));
        let scrubbed = stream::unfold(state, |(mut scrub, body)| async move {
            let mut body = body?;
            loop {
                let (item, body) = match body.next().await {
                    Some(Ok(chunk)) => match scrub.feed(chunk) {
                        chunk if chunk.is_empty() => continue,
                        chunk => (Ok(chunk), Some(body)),
                    },
                    Some(Err(words)) => (Err(scrub.words(&words)), None),
                    None if scrub.held.is_empty() => return None,
                    None => (Ok(scrub.held.split().freeze()), None),
                };
                return Some((item, (scrub, body)));
            }
        });
        scrubbed.boxed()
    }

    fn words(&self, words: &str) -> String {
        match &self.key {
            Some(key) => words.replace(key.expose_secret(), "[key]"),
            None => words.to_owned(),
        }
    }

    /// Takes a chunk in, and returns what can go on.
    fn feed(&mut self, chunk: Bytes) -> Bytes {
        let Some(key) = &self.key else { return chunk };
        let key = key.expose_secret().as_bytes();
        let mut chunk = if self.held.is_empty() {
            chunk
        } else {
            self.held.extend_from_slice(&chunk);
            self.held.split().freeze()
        };
        if let Some(place) = find(&chunk, key) {
            chunk = replaced(&chunk, key, place);
        }
        let kept = chunk.len() - begun(&chunk, key);
        self.held
            .extend_from_slice(chunk.get(kept..).unwrap_or_default());
        chunk.truncate(kept);
        chunk
    }
}

fn find(text: &[u8], key: &[u8]) -> Option<usize> {
    let first = key.first()?;
    let mut from = 0;
    loop {
        let rest = text.get(from..)?;
        let place = from + rest.iter().position(|byte| byte == first)?;
        if text.get(place..)?.starts_with(key) {
            return Some(place);
        }
        from = place + 1;
    }
}

/// Puts the mark in the place of each key, the first of which is known.
fn replaced(text: &[u8], key: &[u8], first: usize) -> Bytes {
    let (mut out, mut rest, mut place) = (BytesMut::new(), text, Some(first));
    while let Some(at) = place {
        let (before, behind) = rest.split_at(at);
        out.extend_from_slice(before);
        out.extend_from_slice(MARK);
        rest = behind.get(key.len()..).unwrap_or_default();
        place = find(rest, key);
    }
    out.extend_from_slice(rest);
    out.freeze()
}

/// Returns how many bytes at the end may be the beginning of the key.
fn begun(text: &[u8], key: &[u8]) -> usize {
    let most = text.len().min(key.len().saturating_sub(1));
    let begins = |length: &usize| text.ends_with(key.get(..*length).unwrap_or_default());
    (1..=most).rev().find(begins).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: &str = "sk-aab-sk-aabb";

    fn passed(chunks: &[&[u8]]) -> Vec<u8> {
        let mut scrub = Scrub::new(Some(&KEY.into()));
        let mut out = Vec::new();
        for chunk in chunks {
            out.extend_from_slice(&scrub.feed(Bytes::copy_from_slice(chunk)));
        }
        out.extend_from_slice(&scrub.held);
        out
    }

    #[test]
    fn what_has_no_key_passes_as_it_came() {
        let mut scrub = Scrub::new(Some(&KEY.into()));
        let chunk = Bytes::from_static(b"data: {\"type\":\"ping\"}\n\n");
        let place = chunk.as_ptr();
        let passed = scrub.feed(chunk.clone());
        assert_eq!(
            (&passed, passed.as_ptr()),
            (&chunk, place),
            "not even copied"
        );
        let mut short = Scrub::new(Some(&"short".into()));
        assert_eq!(
            short.feed(Bytes::from_static(b"a short one")),
            "a short one"
        );
    }

    #[test]
    fn a_header_with_the_key_is_marked() {
        let mut headers = HeaderMap::new();
        headers.insert("request-id", format!("req_{KEY}").parse().unwrap());
        headers.insert("retry-after", HeaderValue::from_static("7"));
        Scrub::new(Some(&KEY.into())).headers(&mut headers);
        assert_eq!(headers["request-id"], "[key]");
        assert_eq!(headers["retry-after"], "7");
    }

    proptest! {
        #[test]
        fn a_key_is_found_wherever_chunks_end(
            words in prop::collection::vec(prop_oneof![Just(KEY), Just("sk-aab-"), Just("x"), Just("b")], 0..8),
            ends in prop::collection::vec(0_usize..120, 0..8),
        ) {
            let text = words.concat();
            let mut ends: Vec<usize> = ends.into_iter().filter(|end| *end <= text.len()).collect();
            ends.extend([0, text.len()]);
            ends.sort_unstable();
            let chunks: Vec<&[u8]> = ends.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
            let expected = text.replace(KEY, "[key]");
            prop_assert_eq!(String::from_utf8(passed(&chunks)).unwrap(), expected);
        }
    }
}
