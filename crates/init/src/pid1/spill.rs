//! Results too long for a model to be shown at once: a file in the sandbox, and a preview.

use std::{fs::OpenOptions, io::Write as _, os::unix::fs::OpenOptionsExt as _};

use crate::{
    frame::{Answer, Part},
    tools::INLINE_CHARACTERS,
};

/// Where whole results go. Commands can read there and, with root on the host, not write.
const FOLDER: &str = "/mnt/session/tool-output";

/// How many characters of beginning and end a preview shows.
const SHOWN: usize = 4000;

/// Puts a long text into a file and returns a preview that names it.
pub(super) fn fit(call: &str, mut answer: Answer) -> Answer {
    for part in &mut answer.content {
        if let Part::Text(text) = part
            && text.len() > INLINE_CHARACTERS
            && text.chars().count() > INLINE_CHARACTERS
        {
            *text = preview(text, &store(call, text));
        }
    }
    answer
}

/// Writes the file; returns the words that say where it is.
fn store(call: &str, text: &str) -> String {
    let name: String = call
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    let path = format!("{FOLDER}/{name}.txt");
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => format!("all of this is in {path}"),
        Err(error) => format!("it could not be kept: {error}"),
    }
}

/// Shows the beginning, where the rest is, and the end.
fn preview(text: &str, place: &str) -> String {
    let total = text.chars().count();
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (at(SHOWN), at(total - SHOWN));
    format!(
        "{}\n[{} of {total} characters left out; {place}]\n{}",
        text.get(..head).unwrap_or_default(),
        total - 2 * SHOWN,
        text.get(tail..).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_the_limit_is_shown_whole_and_one_more_is_not() {
        let fits = Answer::text("ü".repeat(INLINE_CHARACTERS));
        assert_eq!(fit("c", fits.clone()), fits);
        let Part::Text(text) =
            &fit("c", Answer::text("ü".repeat(INLINE_CHARACTERS + 1))).content[0]
        else {
            panic!("not a text");
        };
        assert!(
            text.contains("[92001 of 100001 characters left out; "),
            "{}",
            text.len()
        );
        assert_eq!(text.matches('ü').count(), 2 * SHOWN);
    }
}
