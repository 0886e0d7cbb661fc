//! Which bytes of a file are asked for.

use http::{HeaderMap, header};

/// What is asked for of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Range {
    /// All of it.
    Whole,
    /// One part.
    Part { from: u64, length: u64 },
    /// What is not there.
    Beyond,
}

impl Range {
    /// Reads what is asked for of so many bytes.
    ///
    /// What is several ranges, or none that HTTP knows, is taken for none, as HTTP wants it. So is one
    /// that depends on a version (`If-Range`), because files have none that a client could know.
    pub(super) fn of(headers: &HeaderMap, size: u64) -> Self {
        if headers.contains_key(header::IF_RANGE) {
            return Self::Whole;
        }
        let value = headers.get(header::RANGE);
        let text = value.and_then(|value| value.to_str().ok());
        let asked = text.and_then(|text| {
            let (unit, text) = text.trim().split_once('=')?;
            unit.eq_ignore_ascii_case("bytes")
                .then_some(text)?
                .split_once('-')
        });
        match asked {
            Some(("", last)) => number(last).map_or(Self::Whole, |last| suffix(last, size)),
            Some((from, to)) => between(from, to, size).unwrap_or(Self::Whole),
            None => Self::Whole,
        }
    }
}

/// The last bytes, or all if there are fewer.
fn suffix(last: u64, size: u64) -> Range {
    match (last, size) {
        (0, _) => Range::Beyond,
        // An empty file is all of itself, and there is no way to write that as a part.
        (_, 0) => Range::Whole,
        _ => Range::Part {
            from: size.saturating_sub(last),
            length: last.min(size),
        },
    }
}

/// The bytes from one to another, or to the end; `None` if that is no range.
fn between(from: &str, to: &str, size: u64) -> Option<Range> {
    let from = number(from)?;
    let to = if to.is_empty() { u64::MAX } else { number(to)? };
    if to < from {
        return None;
    }
    let Some(last) = size.checked_sub(1).filter(|last| from <= *last) else {
        return Some(Range::Beyond);
    };
    let length = to.min(last) - from + 1;
    Some(Range::Part { from, length })
}

/// Reads digits alone; what is larger than any file counts as that.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn one_range_is_read_and_what_is_none_is_the_whole() {
        use Range::{Beyond, Whole};
        let part = |from, length| Range::Part { from, length };
        for (text, of_ten, of_none) in [
            ("bytes=0-0", part(0, 1), Beyond),
            ("Bytes=2-", part(2, 8), Beyond),
            ("bytes=2-4", part(2, 3), Beyond),
            ("bytes=5-100", part(5, 5), Beyond),
            ("bytes=9-99999999999999999999", part(9, 1), Beyond),
            ("bytes=-3", part(7, 3), Whole),
            ("bytes=-100", part(0, 10), Whole),
            ("bytes=10-", Beyond, Beyond),
            ("bytes=99999999999999999999-", Beyond, Beyond),
            ("bytes=-0", Beyond, Beyond),
            ("bytes=4-2", Whole, Whole),
            ("bytes=0-1,3-4", Whole, Whole),
            ("bytes=-", Whole, Whole),
            ("bytes=+1-2", Whole, Whole),
            ("lines=0-1", Whole, Whole),
            ("bytes=x-", Whole, Whole),
        ] {
            let value = HeaderValue::from_static(text);
            let mut headers = HeaderMap::from_iter([(header::RANGE, value)]);
            let found = (Range::of(&headers, 10), Range::of(&headers, 0));
            assert_eq!(found, (of_ten, of_none), "{text}");
            headers.insert(header::IF_RANGE, HeaderValue::from_static("\"x\""));
            assert_eq!(Range::of(&headers, 10), Whole, "{text}");
        }
        assert_eq!(Range::of(&HeaderMap::new(), 10), Whole);
    }
}
