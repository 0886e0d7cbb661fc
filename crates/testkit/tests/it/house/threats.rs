//! The threat model names tests that are there.

use std::{fs, path::Path};

/// What the document calls a test: a file, and maybe a function in it.
fn named(document: &str) -> Vec<(&str, Option<&str>)> {
    let spans = document.split('`').skip(1).step_by(2);
    let places = ["crates/", "fuzz/", "tests/"];
    let tests = spans.filter(|span| places.iter().any(|place| span.starts_with(place)));
    tests
        .map(|span| match span.split_once("::") {
            Some((file, test)) => (file, Some(test)),
            None => (span, None),
        })
        .collect()
}

#[test]
fn each_line_of_the_threat_model_is_shown_by_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = fs::read_to_string(root.join("docs/threat-model.md")).unwrap();
    let named = named(&document);
    assert!(named.len() > 20, "it names only {} tests", named.len());
    for (file, test) in named {
        let text = fs::read_to_string(root.join(file));
        let text = text.unwrap_or_else(|_| panic!("there is no `{file}`"));
        if let Some(test) = test {
            let is_there = text.contains(&format!("fn {test}("));
            assert!(is_there, "`{file}` has no test `{test}`");
        }
    }
}
