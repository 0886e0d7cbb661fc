//! Where a script stands in a text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// What the line before a script begins with.
const OPENING: &str = "```script";

/// What the line after it consists of.
const CLOSING: &str = "```";

#[derive(Deserialize)]
struct Bare<'a> {
    #[serde(borrow)]
    script: &'a RawValue,
}

/// Returns the JSON of the last script of a text: the inside of a fenced block that is marked
/// `script`, or the value of `script` where the whole text is a JSON object with that key.
///
/// # Errors
/// If a fence is not closed.
pub(super) fn find(text: &str) -> Result<Option<Cow<'_, str>>, &'static str> {
    let mut found = None;
    let mut open: Option<Vec<&str>> = None;
    for line in text.lines() {
        match &mut open {
            Some(lines) if line.trim() == CLOSING => {
                found = Some(Cow::Owned(lines.join("\n")));
                open = None;
            }
            Some(lines) => lines.push(line),
            None if line.trim() == OPENING => open = Some(Vec::new()),
            None => {}
        }
    }
    if open.is_some() {
        return Err("the fence is not closed");
    }
    let bare = || {
        let object = text.trim();
        let parsed = object
            .starts_with('{')
            .then(|| serde_json::from_str::<Bare<'_>>(object));
        parsed
            .and_then(Result::ok)
            .map(|bare| Cow::Borrowed(bare.script.get()))
    };
    Ok(found.or_else(bare))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_last_fence_or_a_bare_object() {
        let found = |text| find(text).map(|found| found.map(Cow::into_owned));
        assert_eq!(found(""), Ok(None));
        assert_eq!(found("```json\n[]\n```"), Ok(None));
        assert_eq!(found("{\"other\": []}"), Ok(None));
        assert_eq!(found("{\"script\": [1]} "), Ok(Some("[1]".to_owned())));
        assert_eq!(
            found("please\n  ```script\r\n[1,\n2]\n```\nthanks"),
            Ok(Some("[1,\n2]".to_owned()))
        );
        assert_eq!(
            found("```script\n[1]\n```\n```script\n[2]\n```"),
            Ok(Some("[2]".to_owned()))
        );
        assert_eq!(found("```script\n[1]"), Err("the fence is not closed"));
    }
}
