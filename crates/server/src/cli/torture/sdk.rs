//! A client that sends as the official SDKs do: what got no answer is sent again, with a count.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{
    Method, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderMap},
};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::random::Random;

/// The part of the API that is spoken.
const BETA: &str = "managed-agents-2026-04-01";

/// The SDKs' shortest and longest wait of their own choice.
const WAITS: (f64, f64) = (0.5, 8.0);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(60);

/// How long an impatient client waits: often shorter than the answer takes.
const IMPATIENT: Duration = Duration::from_millis(60);

/// How often a request is one of an impatient client.
const IMPATIENCE: u64 = 12;

/// How a client says that it repeats a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Repeats {
    /// By `Idempotency-Key`, as an application does that sets one.
    ByKey,
    /// By `x-stainless-retry-count` alone, as the SDKs do by themselves.
    ByCount,
}

/// What all clients sent together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Requests that were to be done once.
    pub(super) requests: AtomicU64,
    /// Sendings beyond the first of each.
    pub(super) again: AtomicU64,
    /// Answers that were those of an earlier sending.
    pub(super) replayed: AtomicU64,
}

/// A request came to nothing, for all that its client knows.
#[derive(Debug)]
pub(super) struct GivenUp {
    /// Why.
    pub(super) why: String,
    /// Whether the server said no for certain.
    pub(super) refused: bool,
}

/// One client.
#[derive(Clone, Debug)]
pub(super) struct Sdk {
    http: reqwest::Client,
    base: String,
    key: SecretString,
    repeats: Repeats,
    patience: Duration,
    tally: Arc<Tally>,
}

impl Sdk {
    pub(super) fn new(
        http: reqwest::Client,
        (base, key): (&str, &SecretString),
        repeats: Repeats,
        patience: Duration,
        tally: Arc<Tally>,
    ) -> Self {
        Self {
            http,
            base: base.to_owned(),
            key: key.clone(),
            repeats,
            patience,
            tally,
        }
    }

    /// Has something done once, however often that has to be sent.
    pub(super) async fn post(
        &self,
        path: &str,
        body: &Value,
        random: &mut Random,
    ) -> Result<Value, GivenUp> {
        let body = body.to_string();
        let name = format!("{:016x}{:016x}", random.draw(), random.draw());
        let until = Instant::now() + self.patience;
        self.tally.requests.fetch_add(1, Ordering::Relaxed);
        for count in 0_u32.. {
            if count > 0 {
                self.tally.again.fetch_add(1, Ordering::Relaxed);
            }
            let limit = match random.once_in(IMPATIENCE) {
                true => random.time(IMPATIENT).max(Duration::from_millis(1)),
                false => ANSWER,
            };
            let sent = self.send(path, &body, &name, count).timeout(limit);
            let failed = match sent.send().await {
                Ok(response) => match self.read(response).await {
                    Ok(answer) => return Ok(answer),
                    Err(failed) => failed,
                },
                Err(error) => Failed::lost(&error),
            };
            let pause = failed.after.unwrap_or_else(|| wait(count, random));
            if !failed.again || Instant::now() + pause > until {
                return Err(GivenUp {
                    refused: !failed.again,
                    why: failed.why,
                });
            }
            sleep(pause).await;
        }
        // Counting ends long after the patience.
        Err(GivenUp {
            why: "too many attempts".to_owned(),
            refused: false,
        })
    }

    fn send(&self, path: &str, body: &str, name: &str, count: u32) -> reqwest::RequestBuilder {
        let request = self
            .http
            .request(Method::POST, format!("{}{path}", self.base))
            .header("x-api-key", self.key.expose_secret())
            .header("anthropic-version", "2026-10-21")
            .header("anthropic-beta", BETA)
            .header("x-stainless-retry-count", count)
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_owned());
        match self.repeats {
            Repeats::ByKey => request.header("idempotency-key", name),
            Repeats::ByCount => request,
        }
    }

    async fn read(&self, response: Response) -> Result<Value, Failed> {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await;
        let body = body.map_err(|error| Failed::lost(&error))?;
        if status.is_success() {
            if headers.contains_key("idempotent-replayed") {
                self.tally.replayed.fetch_add(1, Ordering::Relaxed);
            }
            return serde_json::from_slice(&body).map_err(|error| Failed {
                why: format!("an answer that is no JSON: {error}"),
                again: false,
                after: None,
            });
        }
        let words = String::from_utf8_lossy(&body);
        Err(Failed {
            why: format!("{status}: {words}"),
            again: is_repeated(status, &headers),
            after: after(&headers),
        })
    }
}

/// Why one sending came to nothing.
#[derive(Debug)]
struct Failed {
    why: String,
    again: bool,
    after: Option<Duration>,
}

impl Failed {
    /// There was no answer; it may have been accepted.
    fn lost(error: &reqwest::Error) -> Self {
        Self {
            why: format!("no answer: {error}"),
            again: true,
            after: None,
        }
    }
}

/// Tells whether the SDKs send a request again after such an answer.
fn is_repeated(status: StatusCode, headers: &HeaderMap) -> bool {
    match headers
        .get("x-should-retry")
        .and_then(|word| word.to_str().ok())
    {
        Some("true") => true,
        Some("false") => false,
        _ => matches!(status.as_u16(), 408 | 409 | 429 | 500..),
    }
}

/// Reads how long the server asks to wait.
fn after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name| headers.get(name)?.to_str().ok()?.parse().ok();
    let seconds = number("retry-after-ms")
        .map_or_else(|| number("retry-after"), |ms: f64| Some(ms / 1_000.0));
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// Returns the wait of the SDKs' own choice: doubled each time, less up to a quarter.
fn wait(count: u32, random: &mut Random) -> Duration {
    let (first, longest) = WAITS;
    let full = (first * f64::from(2_u32.saturating_pow(count.min(16)))).min(longest);
    let off = f64::from(u32::try_from(random.below(1_000)).unwrap_or(0)) / 4_000.0;
    Duration::from_secs_f64(full * (1.0 - off))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = reqwest::header::HeaderName::from_static(name);
            (name, value.parse().unwrap())
        });
        pairs.collect()
    }

    #[test]
    fn it_repeats_what_the_sdks_repeat() {
        for (status, word, again) in [
            (408, None, true),
            (409, None, true),
            (429, None, true),
            (529, None, true),
            (400, None, false),
            (404, Some("true"), true),
            (409, Some("false"), false),
        ] {
            let headers =
                word.map_or_else(HeaderMap::new, |word| headers(&[("x-should-retry", word)]));
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(is_repeated(status, &headers), again, "{status} {word:?}");
        }
    }

    #[test]
    fn it_waits_as_the_sdks_wait() {
        let found = |pairs| after(&headers(pairs));
        let both = [("retry-after-ms", "250"), ("retry-after", "9")];
        assert_eq!(found(&both), Some(Duration::from_millis(250)));
        assert_eq!(found(&[("retry-after", "2")]), Some(Duration::from_secs(2)));
        assert_eq!(found(&[("retry-after", "soon")]), None);
        let mut random = Random::new(1, "");
        for (count, full) in [(0, 0.5), (1, 1.0), (3, 4.0), (9, 8.0), (u32::MAX, 8.0)] {
            let waited = wait(count, &mut random).as_secs_f64();
            assert!(waited <= full && waited >= full * 0.75, "{count}: {waited}");
        }
    }
}
