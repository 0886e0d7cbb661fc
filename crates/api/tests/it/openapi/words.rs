//! What a refusal says.

use std::collections::BTreeSet;

/// Tells whether a refusal is about the form of a body: what a schema could have said.
pub(crate) fn is_form(message: &str) -> bool {
    const FORMS: [&str; 14] = [
        "unknown field",
        "unknown query parameter",
        "is required",
        "must not be null",
        "must be a string",
        "must be an array",
        "must be an object",
        "must be an integer",
        "must be true or false",
        "must be a model id or an object",
        "must be an agent id or an object",
        "must not be empty",
        " characters, not ",
        " entries, not ",
    ];
    FORMS.iter().any(|form| message.contains(form)) || !choices(message).is_empty()
}

/// Returns the words of which one must be chosen, as `must be` lists them.
pub(crate) fn choices(message: &str) -> BTreeSet<String> {
    let Some((_, rest)) = message.split_once(": must be `") else {
        return BTreeSet::new();
    };
    // Of a body that may bring secrets no refusal says what was sent.
    let choices = rest.rsplit_once("`, not `").map(|(choices, _)| choices);
    match choices.or_else(|| rest.strip_suffix('`')) {
        Some(choices) => quoted(&format!("`{choices}`")),
        None => BTreeSet::new(),
    }
}

/// Returns the fields or parameters that are allowed in place of an unknown one.
pub(crate) fn allowed(message: &str) -> Option<BTreeSet<String>> {
    if message.contains("this endpoint takes none") || message.ends_with("allowed: none") {
        return Some(BTreeSet::new());
    }
    message
        .split_once("allowed: ")
        .map(|(_, words)| quoted(words))
}

fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn words_are_found() {
    let set = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    assert_eq!(
        choices("a.b: must be `x`, `y` or `z`, not `w`"),
        set(&["x", "y", "z"])
    );
    assert_eq!(choices("a.b: must be `x` or `y`"), set(&["x", "y"]));
    assert_eq!(choices("a: must be an array, not null"), set(&[]));
    assert_eq!(
        allowed("a.zz: unknown field; allowed: `b` or `c`"),
        Some(set(&["b", "c"]))
    );
    assert_eq!(allowed("a: is required"), None);
}
