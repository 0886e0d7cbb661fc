//! Files: what is shown of them, and the rules for their names.

use serde::{Deserialize, Serialize};

use crate::id::{FileId, SessionId};
use crate::{Micros, Problem, limits, mime};

/// What is known of a file apart from its bytes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "file")]
pub struct File {
    /// Its id.
    pub id: FileId,
    /// When it was made.
    pub created_at: Micros,
    /// Whether its bytes are given out: what an agent made is, what was uploaded is not.
    pub downloadable: bool,
    /// When it goes by itself.
    pub expires_at: Option<Micros>,
    /// Its name; of what an agent made, its path below the folder of outputs.
    pub filename: String,
    /// What its bytes are, as far as anybody said.
    pub mime_type: String,
    /// What it belongs to, and goes with.
    pub scope: Option<Scope>,
    /// How many bytes it has.
    pub size_bytes: u64,
}

/// What a file belongs to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Scope {
    /// A session.
    Session {
        /// Which.
        id: SessionId,
    },
}

impl File {
    /// Returns the session that it goes with.
    pub fn session(&self) -> Option<SessionId> {
        self.scope.map(|Scope::Session { id }| id)
    }
}

/// Returns the name that an upload is kept under: the last component of what was sent, or one made
/// up from its type where none was.
///
/// # Errors
///
/// If the name is too long or has control characters.
pub fn name(sent: Option<&str>, mime_type: &str) -> Result<String, Problem> {
    let last = |sent: &str| {
        sent.rsplit(['/', '\\'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let name = sent.map(last).unwrap_or_default();
    if matches!(name.as_str(), "" | "." | "..") {
        return Ok(format!("unnamed.{}", mime::ending(mime_type)));
    }
    if name.chars().any(char::is_control) {
        return Err(Problem::invalid(
            "file: its name must not contain control characters",
        ));
    }
    let count = name.chars().count();
    if count > limits::FILE_NAME {
        return Err(Problem::invalid(format!(
            "file: its name must have at most {} characters, not {count}",
            limits::FILE_NAME
        )));
    }
    Ok(name)
}

/// Reads `expires_in_seconds` of an upload.
///
/// # Errors
///
/// If it is no whole number within the bounds.
pub fn expiry(text: &str) -> Result<std::time::Duration, Problem> {
    let (min, max) = (limits::FILE_EXPIRY.start(), limits::FILE_EXPIRY.end());
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = text.parse::<i64>().ok().filter(|_| digits);
    match seconds.filter(|seconds| limits::FILE_EXPIRY.contains(seconds)) {
        Some(seconds) => Ok(std::time::Duration::from_secs(seconds.unsigned_abs())),
        None => Err(Problem::invalid(format!(
            "expires_in_seconds: must be an integer from {min} to {max}, not `{}`",
            crate::read::excerpt(text)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_last_component() {
        for (sent, kept) in [
            (Some("a.txt"), "a.txt"),
            (Some("/home/me/a b.txt"), "a b.txt"),
            (Some("C:\\docs\\a.txt"), "a.txt"),
            (Some("\u{1f980}'\"$(x)"), "\u{1f980}'\"$(x)"),
            (Some(""), "unnamed.pdf"),
            (Some("dir/"), "unnamed.pdf"),
            (Some("../.."), "unnamed.pdf"),
            (None, "unnamed.pdf"),
        ] {
            assert_eq!(name(sent, "application/pdf").unwrap(), kept, "{sent:?}");
        }
        assert_eq!(name(None, "x/y").unwrap(), "unnamed.bin");
        let long = "\u{e9}".repeat(255);
        assert_eq!(name(Some(&long), "x/y").unwrap(), long);
        for bad in ["a\nb", "a\0", &"x".repeat(256)] {
            assert!(name(Some(bad), "x/y").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_expiry_has_bounds() {
        assert_eq!(expiry("3600").unwrap().as_secs(), 3_600);
        assert_eq!(expiry("7776000").unwrap().as_secs(), 7_776_000);
        for bad in [
            "",
            "3599",
            "7776001",
            "+3600",
            "-1",
            "1e9",
            "99999999999999999999",
            "x",
        ] {
            assert!(expiry(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_is_shown_whole() {
        let text = r#"{"type":"file","id":"file_010000000000000000000000","created_at":"2026-01-01T00:00:00.000000Z","downloadable":false,"expires_at":null,"filename":"a","mime_type":"text/plain","scope":null,"size_bytes":1}"#;
        let file: File = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&file).unwrap(), text);
    }
}
