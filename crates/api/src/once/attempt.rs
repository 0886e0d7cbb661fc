//! What makes two requests the same.

use http::{HeaderMap, Method};
use outlast_protocol::{Micros, Problem, id::ApiKeyId};
use outlast_store::{Receipt, Reply, Unless};

/// Characters of an `Idempotency-Key`.
const KEY: usize = 255;

/// What bodies with secrets are hashed under.
pub(crate) type Key = [u8; 32];

/// One sending of a request that may be repeated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Attempt {
    /// The same for all attempts of a chain.
    pub(super) fingerprint: [u8; 32],
    /// How attempts of a chain are told.
    pub(super) chain: Chain,
}

/// How a client says that it repeats a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Chain {
    /// By a key; the sum is that of method, path and body, which must stay the same.
    Key { sum: u32 },
    /// By a count of retries.
    Retry { count: u32 },
}

impl Attempt {
    /// Reads how a request may be repeated; `None` if its client says nothing of that.
    pub(crate) fn read(
        headers: &HeaderMap,
        by: ApiKeyId,
        method: &Method,
        path: &str,
        body: &[u8],
    ) -> Result<Option<Self>, Problem> {
        Self::under(None, headers, by, method, path, body)
    }

    /// Does so for a body that may hold a secret: what is kept of it is hashed under a key, so that
    /// nobody who sees it can try out what the secret is.
    pub(crate) fn keyed(
        key: &Key,
        headers: &HeaderMap,
        by: ApiKeyId,
        method: &Method,
        path: &str,
        body: &[u8],
    ) -> Result<Option<Self>, Problem> {
        Self::under(Some(key), headers, by, method, path, body)
    }

    fn under(
        hashed: Option<&Key>,
        headers: &HeaderMap,
        by: ApiKeyId,
        method: &Method,
        path: &str,
        body: &[u8],
    ) -> Result<Option<Self>, Problem> {
        let by = by.to_string();
        let parts = [
            by.as_bytes(),
            method.as_str().as_bytes(),
            path.as_bytes(),
            body,
        ];
        if let Some(key) = headers.get("idempotency-key") {
            let key = check(key.as_bytes())?;
            let [one, two, three, four, ..] = digest(hashed, "outlast-request-1", &parts);
            return Ok(Some(Self {
                fingerprint: digest(hashed, "outlast-key-1", &[by.as_bytes(), key]),
                chain: Chain::Key {
                    sum: u32::from_be_bytes([one, two, three, four]),
                },
            }));
        }
        // Telemetry of the SDKs; a value that is no count says nothing.
        let count = headers
            .get("x-stainless-retry-count")
            .and_then(|value| value.to_str().ok());
        let count = count.and_then(|text| text.parse().ok());
        Ok(count.map(|count| Self {
            fingerprint: digest(hashed, "outlast-retry-1", &parts),
            chain: Chain::Retry { count },
        }))
    }

    /// Returns the answer if this receipt is that of another attempt of the same chain.
    pub(super) fn answered_by(&self, receipt: Receipt) -> Result<Option<Reply>, Problem> {
        match self.chain {
            Chain::Key { sum } if receipt.attempt == sum => Ok(Some(receipt.reply)),
            Chain::Key { .. } => Err(other_request()),
            Chain::Retry { count } => {
                let same = !receipt.written && receipt.attempt != count;
                Ok(same.then_some(receipt.reply))
            }
        }
    }

    /// Tells whether this attempt waits for one that is at work. A lower count that comes behind a
    /// higher one was held up on its way.
    pub(super) fn follows(&self, other: Chain) -> Result<bool, Problem> {
        match (self.chain, other) {
            (Chain::Key { sum }, Chain::Key { sum: first }) if sum != first => Err(other_request()),
            (Chain::Key { .. }, Chain::Key { .. }) => Ok(true),
            (Chain::Retry { count }, Chain::Retry { count: first }) => Ok(first != count),
            (Chain::Key { .. }, Chain::Retry { .. }) | (Chain::Retry { .. }, Chain::Key { .. }) => {
                Ok(false)
            }
        }
    }

    /// Makes the right to write the receipt; those of another node that are not older than `since`
    /// count as they do when they are looked for. For a first attempt those of its repeats count that
    /// are not older than `late`.
    pub(super) fn ticket(&self, at: Micros, since: Option<Micros>, late: Micros) -> Ticket {
        let (attempt, unless) = match (self.chain, since) {
            (Chain::Key { sum }, Some(since)) => (sum, Unless::Any(since)),
            (Chain::Key { sum }, None) => (sum, Unless::Never),
            (Chain::Retry { count: 0 }, _) => (0, Unless::Later(late)),
            (Chain::Retry { count }, Some(since)) => (count, Unless::Other(since)),
            (Chain::Retry { count }, None) => (count, Unless::Never),
        };
        Ticket {
            fingerprint: self.fingerprint,
            attempt,
            at,
            unless,
        }
    }
}

/// The right to write a receipt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    fingerprint: [u8; 32],
    attempt: u32,
    at: Micros,
    unless: Unless,
}

impl Ticket {
    pub(super) fn receipt(self, reply: Reply) -> Receipt {
        let Self {
            fingerprint,
            attempt,
            at,
            unless,
        } = self;
        Receipt {
            fingerprint,
            attempt,
            at,
            written: false,
            reply,
            unless,
        }
    }
}

fn check(key: &[u8]) -> Result<&[u8], Problem> {
    let printable = key
        .iter()
        .all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    if printable && (1..=KEY).contains(&key.len()) {
        return Ok(key);
    }
    Err(Problem::invalid(format!(
        "Idempotency-Key: must have 1 to {KEY} printable ASCII characters"
    )))
}

fn other_request() -> Problem {
    Problem::invalid(
        "Idempotency-Key: was used for a request with another method, path or body; a key answers \
         one request only, take a new one",
    )
}

/// Hashes parts so that no two lists of parts look alike, under a key or under none.
fn digest(key: Option<&Key>, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = key.map_or_else(blake3::Hasher::new, blake3::Hasher::new_keyed);
    hasher.update(purpose.as_bytes());
    for part in parts {
        hasher.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use outlast_testkit::random::Constant;

    use super::*;

    fn attempt(
        headers: &[(&'static str, &'static str)],
        path: &str,
        body: &'static str,
    ) -> Attempt {
        let headers = headers.iter().map(|(name, value)| {
            (
                name.parse::<http::HeaderName>().unwrap(),
                value.parse().unwrap(),
            )
        });
        let headers: HeaderMap = headers.collect();
        let by = ApiKeyId::mint(Micros(0), &Constant(1));
        let body = Bytes::from_static(body.as_bytes());
        Attempt::read(&headers, by, &Method::POST, path, &body)
            .unwrap()
            .unwrap()
    }

    #[test]
    fn attempts_differ_by_path_and_body_and_not_by_count() {
        let first = attempt(&[("x-stainless-retry-count", "0")], "/a", "{}");
        let again = attempt(&[("x-stainless-retry-count", "1")], "/a", "{}");
        assert_eq!(first.fingerprint, again.fingerprint);
        assert_eq!(
            (again.follows(first.chain), first.follows(again.chain)),
            (Ok(true), Ok(true)),
            "an original may be the slower one"
        );
        assert_eq!(first.follows(first.chain), Ok(false), "two wishes");
        for (path, body) in [("/b", "{}"), ("/a", "{ }"), ("/a{", "}")] {
            let other = attempt(&[("x-stainless-retry-count", "0")], path, body);
            assert_ne!(first.fingerprint, other.fingerprint, "{path} {body}");
        }
    }

    #[test]
    fn nothing_that_is_kept_of_a_secret_can_be_tried_out() {
        let by = ApiKeyId::mint(Micros(0), &Constant(1));
        for name in ["idempotency-key", "x-stainless-retry-count"] {
            let headers = HeaderMap::from_iter([(
                http::HeaderName::from_static(name),
                http::HeaderValue::from_static("1"),
            )]);
            let read = |key: Option<&Key>, body: &[u8]| {
                let attempt = Attempt::under(key, &headers, by, &Method::POST, "/a", body);
                attempt.unwrap().unwrap()
            };
            let kept = read(Some(&[1; 32]), b"secret");
            assert_eq!(kept, read(Some(&[1; 32]), b"secret"), "a repeat is known");
            assert_ne!(kept, read(Some(&[1; 32]), b"other"));
            // Whoever sees it and guesses the body, but has not the key, learns nothing.
            assert_ne!(kept, read(None, b"secret"));
            assert_ne!(kept, read(Some(&[2; 32]), b"secret"));
        }
    }

    #[test]
    fn a_key_stands_for_one_request() {
        let first = attempt(
            &[("idempotency-key", "k"), ("x-stainless-retry-count", "0")],
            "/a",
            "{}",
        );
        let other = attempt(&[("idempotency-key", "k")], "/a", "{ }");
        assert_eq!(first.fingerprint, other.fingerprint);
        assert!(other.follows(first.chain).is_err());
        assert!(
            other
                .answered_by(first.ticket(Micros(0), None, Micros(0)).body("x"))
                .is_err()
        );
        let reply = first.answered_by(first.ticket(Micros(0), None, Micros(0)).body("x"));
        assert_eq!(reply, Ok(Some(Reply::Body("x".to_owned()))));
    }

    #[test]
    fn a_receipt_answers_other_attempts_until_it_is_written_out() {
        let first = attempt(&[("x-stainless-retry-count", "1")], "/a", "{}");
        let again = attempt(&[("x-stainless-retry-count", "2")], "/a", "{}");
        let receipt = first.ticket(Micros(0), None, Micros(0)).body("x");
        assert_eq!(first.answered_by(receipt.clone()), Ok(None));
        let original = attempt(&[("x-stainless-retry-count", "0")], "/a", "{}");
        for other in [&again, &original] {
            let reply = other.answered_by(receipt.clone());
            assert_eq!(reply, Ok(Some(Reply::Body("x".to_owned()))));
        }
        assert_eq!(
            again.answered_by(Receipt {
                written: true,
                ..receipt
            }),
            Ok(None)
        );
    }

    #[test]
    fn keys_have_bounds() {
        let long = "k".repeat(256);
        for bad in ["", "\u{e9}", "a\tb", &long] {
            assert!(check(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(check(b"a key"), Ok(&b"a key"[..]));
    }
}
