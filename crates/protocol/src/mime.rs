//! MIME types: which ones are well formed, and which go with a file's name.

use crate::limits;

/// What is said of bytes that nothing is known of.
pub const BINARY: &str = "application/octet-stream";

/// Endings of names and their types; of several endings of one type the first is the usual one.
const TABLE: &[(&str, &str)] = &[
    ("bin", BINARY),
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("csv", "text/csv"),
    ("tsv", "text/tab-separated-values"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("ics", "text/calendar"),
    ("json", "application/json"),
    ("jsonl", "application/x-ndjson"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("toml", "application/toml"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("tar", "application/x-tar"),
    ("wasm", "application/wasm"),
    ("rtf", "application/rtf"),
    ("epub", "application/epub+zip"),
    ("sqlite", "application/vnd.sqlite3"),
    ("parquet", "application/vnd.apache.parquet"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    (
        "pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
    ("doc", "application/msword"),
    ("xls", "application/vnd.ms-excel"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
    ("bmp", "image/bmp"),
    ("tiff", "image/tiff"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("ogg", "audio/ogg"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
];

/// Returns the type that a name's ending stands for.
pub fn of_name(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let found = TABLE
        .iter()
        .find(|(known, _)| ending.eq_ignore_ascii_case(known));
    found.map_or(BINARY, |(_, kind)| kind)
}

/// Returns the usual ending of names of a type.
pub fn ending(kind: &str) -> &'static str {
    let found = TABLE.iter().find(|(_, known)| *known == essence(kind));
    found.map_or("bin", |(ending, _)| ending)
}

/// Returns a type without its parameters.
pub fn essence(kind: &str) -> &str {
    kind.split(';').next().unwrap_or_default().trim()
}

/// Reads a type as a client sent it; `None` if it is none.
pub fn parse(text: &str) -> Option<String> {
    let text = text.trim();
    let printable = text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    let (kind, sub) = essence(text).split_once('/')?;
    let fits = text.len() <= limits::MIME_TYPE && printable && is_token(kind) && is_token(sub);
    fits.then(|| text.to_owned())
}

fn is_token(text: &str) -> bool {
    let sign = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
    !text.is_empty() && text.bytes().all(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_types_know_each_other() {
        for (name, kind) in [
            ("a.PDF", "application/pdf"),
            ("a.tar.gz", "application/gzip"),
            ("a", BINARY),
            ("a.", BINARY),
            (".png", "image/png"),
            ("a.unheard-of", BINARY),
        ] {
            assert_eq!(of_name(name), kind, "{name}");
        }
        assert_eq!(ending("image/jpeg"), "jpg");
        assert_eq!(ending("text/plain; charset=utf-8"), "txt");
        assert_eq!(ending("x/y"), "bin");
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for good in ["text/plain", " text/plain; charset=utf-8 ", "a/b+c"] {
            assert_eq!(parse(good).as_deref(), Some(good.trim()));
        }
        for bad in [
            "",
            "text",
            "text/",
            "/plain",
            "te xt/plain",
            "text/plain\r\nx: y",
            "t/\u{e9}",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
