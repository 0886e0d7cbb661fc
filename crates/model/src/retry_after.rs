//! How long an upstream asks to be left alone.

use std::time::Duration;

use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// The longest wait that is believed: a header must not be able to park a session for a day.
const CAP: Duration = Duration::from_secs(300);

/// Reads `retry-after-ms`, else `retry-after` as seconds or as a date, cut to five minutes.
///
/// A date is measured against the answer's own `date` header, so neither clock matters. What
/// cannot be read counts as absent.
pub(crate) fn read(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let millis = text("retry-after-ms").and_then(|value| scaled(value, 0.001));
    millis.or_else(|| {
        let value = text(RETRY_AFTER.as_str())?;
        scaled(value, 1.0).or_else(|| until(value, text(DATE.as_str())?))
    })
}

/// Reads a number of units of `scale` seconds.
fn scaled(value: &str, scale: f64) -> Option<Duration> {
    let seconds = value.parse::<f64>().ok()? * scale;
    let sane = seconds.is_finite() && seconds >= 0.0;
    sane.then(|| Duration::from_secs_f64(seconds.min(CAP.as_secs_f64())))
}

/// Measures from the moment `now` to the moment `then`, zero if that has passed.
fn until(then: &str, now: &str) -> Option<Duration> {
    let parser = rfc2822::DateTimeParser::new();
    let then = parser.parse_timestamp(then).ok()?.as_second();
    let now = parser.parse_timestamp(now).ok()?.as_second();
    let seconds = u64::try_from(then.saturating_sub(now)).unwrap_or(0);
    Some(Duration::from_secs(seconds).min(CAP))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_pairs(pairs: &[(&'static str, &'static str)]) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        read(&headers)
    }

    #[test]
    fn reads_every_form_and_caps_it() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        type Case = (Vec<(&'static str, &'static str)>, Option<u64>);
        let cases: Vec<Case> = vec![
            (vec![], None),
            (vec![("retry-after", "7")], Some(7_000)),
            (vec![("retry-after", " 0.25 ")], Some(250)),
            (
                vec![("retry-after-ms", "120"), ("retry-after", "7")],
                Some(120),
            ),
            (
                vec![("retry-after-ms", "soon"), ("retry-after", "7")],
                Some(7_000),
            ),
            (vec![("retry-after", "86400")], Some(300_000)),
            (vec![("retry-after", "-1")], None),
            (vec![("retry-after", "NaN")], None),
            (
                vec![date, ("retry-after", "Sun, 06 Nov 1994 08:49:49 GMT")],
                Some(12_000),
            ),
            (
                vec![date, ("retry-after", "Sat, 05 Nov 1994 08:49:49 GMT")],
                Some(0),
            ),
            (vec![("retry-after", "Sun, 06 Nov 1994 08:49:49 GMT")], None),
        ];
        for (pairs, expected) in cases {
            assert_eq!(
                read_pairs(&pairs),
                expected.map(Duration::from_millis),
                "{pairs:?}"
            );
        }
    }
}
