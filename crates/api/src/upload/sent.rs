//! What a part of a form says of its file: the name and the type.
//!
//! Neither is guessed where it was said in a way that is not understood: a name that was mangled on its
//! way, or a type that is none, is refused in words.

use http::{HeaderMap, header};
use outlast_protocol::{Problem, limits, mime};
use percent_encoding::percent_decode_str;

/// Returns the name that was sent, if any was: `filename*` before `filename`, as HTTP has it.
pub(super) fn name(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(header::CONTENT_DISPOSITION) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| Problem::invalid("file: its name must be UTF-8"))?;
    let parameters = parameters(text);
    let find = |wanted: &str| {
        let mut known = parameters.iter();
        let found = known.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| *value)
    };
    match (find("filename*"), find("filename")) {
        (Some(value), _) => extended(value).map(Some),
        (None, Some(value)) => plain(value).map(Some),
        (None, None) => Ok(None),
    }
}

/// Returns the type that was sent, if any was.
pub(super) fn kind(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return Ok(None);
    };
    if value.as_bytes().trim_ascii().is_empty() {
        return Ok(None);
    }
    let read = value.to_str().ok().and_then(mime::parse);
    read.map(Some).ok_or_else(|| {
        Problem::invalid(format!(
            "file: its content-type must be a type such as `text/plain`, of at most {} characters; leave it \
             out to have it told by the name",
            limits::MIME_TYPE
        ))
    })
}

/// Takes a header apart at the semicolons that are in no quotes.
fn parameters(text: &str) -> Vec<(&str, &str)> {
    let mut all = Vec::new();
    let (mut begin, mut quoted, mut escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => quoted = !quoted,
            b';' if !quoted => {
                all.extend(text.get(begin..at));
                begin = at + 1;
            }
            _ => {}
        }
        // What else follows a backslash is a name of Windows, and says nothing.
        escaped = quoted && byte == b'\\';
    }
    all.extend(text.get(begin..));
    let parts = all.into_iter().filter_map(|part| part.split_once('='));
    parts
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect()
}

/// Reads a name in quotes, or without.
fn plain(value: &str) -> Result<String, Problem> {
    let Some(rest) = value.strip_prefix('"') else {
        return Ok(unescaped(value));
    };
    let inner = rest.strip_suffix('"');
    let inner =
        inner.ok_or_else(|| Problem::invalid("file: the quotes around its name do not end"))?;
    Ok(unescaped(inner))
}

/// Reads the signs that clients write so because they end the name; what else they write is theirs.
fn unescaped(name: &str) -> String {
    name.replace("\\\"", "\"").replace("%22", "\"")
}

/// Reads a name that is written as `UTF-8''na%C3%AFve.txt`.
fn extended(value: &str) -> Result<String, Problem> {
    let bad = || {
        Problem::invalid(
            "file: its `filename*` must be like UTF-8''na%C3%AFve.txt, with percent-encoded UTF-8",
        )
    };
    let (charset, rest) = value.split_once('\'').ok_or_else(bad)?;
    let (_language, text) = rest.split_once('\'').ok_or_else(bad)?;
    let literal = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~%".contains(&byte);
    let whole = text
        .split('%')
        .skip(1)
        .all(|code| matches!(code.as_bytes(), [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit()));
    if !charset.eq_ignore_ascii_case("utf-8") || !whole || !text.bytes().all(literal) {
        return Err(bad());
    }
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(String::from).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(header: &[u8]) -> Result<Option<String>, String> {
        let value = HeaderValue::from_bytes(header).unwrap();
        let headers = HeaderMap::from_iter([(header::CONTENT_DISPOSITION, value)]);
        name(&headers).map_err(|problem| problem.message)
    }

    #[test]
    fn names_are_read_as_they_were_meant() {
        for (header, expected) in [
            ("", None),
            (r#"; filename="a b.txt""#, Some("a b.txt")),
            (r#"; FileName = "a.txt""#, Some("a.txt")),
            ("; filename=a b.txt", Some("a b.txt")),
            (r#"; filename="a;b=c.txt""#, Some("a;b=c.txt")),
            (r#"; filename="a\"b%22c""#, Some("a\"b\"c")),
            (r#"; filename="C:\docs\a.txt""#, Some(r"C:\docs\a.txt")),
            (r#"; filename="a%20b""#, Some("a%20b")),
            (r#"; filename="\u{1f980}""#, Some(r"\u{1f980}")),
            (
                "; filename*=UTF-8''na%C3%AFve%20a.txt",
                Some("na\u{ef}ve a.txt"),
            ),
            ("; filename*=utf-8'en'a.txt; filename=\"b\"", Some("a.txt")),
            (
                "; filename=\"b\"; filename*=UTF-8''%e2%82%ac",
                Some("\u{20ac}"),
            ),
            (
                r#"; filename="x; filename*=UTF-8''y""#,
                Some("x; filename*=UTF-8''y"),
            ),
        ] {
            let found = of(format!("form-data; name=\"file\"{header}").as_bytes());
            assert_eq!(found, Ok(expected.map(str::to_owned)), "{header}");
        }
    }

    #[test]
    fn names_that_are_not_understood_are_refused() {
        for (header, words) in [
            (
                &b"filename=\"a"[..],
                "the quotes around its name do not end",
            ),
            (b"filename=\"\xe9\"", "must be UTF-8"),
            (b"filename*=a.txt", "`filename*` must be like"),
            (b"filename*=UTF-8'a.txt", "`filename*` must be like"),
            (b"filename*=ISO-8859-1''%E9", "`filename*` must be like"),
            (b"filename*=UTF-8''%E9", "`filename*` must be like"),
            (b"filename*=UTF-8''a%2", "`filename*` must be like"),
            (b"filename*=UTF-8''a%zz", "`filename*` must be like"),
            (b"filename*=UTF-8''a b", "`filename*` must be like"),
            (
                b"filename*=\"UTF-8''a\"; filename=a",
                "`filename*` must be like",
            ),
        ] {
            let told = of(&[b"form-data; name=\"file\"; ", header].concat()).unwrap_err();
            assert!(told.contains(words), "{told}");
        }
    }
}
