//! Tests of the reader: every refusal names its field and its bound.

use serde_json::json;

use super::*;

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Problem>, message: &str) {
    assert_eq!(result.unwrap_err(), Problem::invalid(message));
}

#[test]
fn an_empty_body_is_an_empty_object() {
    for empty in ["", " \n"] {
        assert_eq!(body(empty.as_bytes()).unwrap(), json!({}));
    }
}

#[test]
fn broken_json_is_refused_with_its_position() {
    let message = |text: &str| body(text.as_bytes()).unwrap_err().message;
    assert_eq!(
        message("{\n  \"a\": 1,\n}"),
        "the body is not valid JSON: trailing comma at line 3 column 1"
    );
    assert!(message("{} {}").contains("line 1 column 4"));
    assert!(message(&"[".repeat(100_000)).contains("recursion limit"));
    assert!(body(b"\"\xff\"").is_err());
}

#[test]
fn of_a_repeated_key_the_last_value_counts_and_keys_keep_their_order() {
    let value = body(br#"{"z":1,"a":2,"z":3}"#).unwrap();
    assert_eq!(value.to_string(), r#"{"z":3,"a":2}"#);
}

#[test]
fn nul_is_refused_wherever_it_stands() {
    for (text, message) in [
        (
            r#"{"a":{"b":["x","y\u0000"]}}"#,
            "a.b.1: must not contain the character U+0000",
        ),
        (
            r#"{"a":{"k\u0000":1}}"#,
            "a: a key must not contain the character U+0000",
        ),
        (
            r#""\u0000""#,
            "the body: must not contain the character U+0000",
        ),
    ] {
        refused(body(text.as_bytes()), message);
    }
    // An escaped backslash before `u0000` is six harmless characters.
    assert!(body(br#"{"a":"\\u0000"}"#).is_ok());
    let value = json!({"a": "x\0"});
    let at = At::root(&value).object().unwrap().field("a").required();
    refused(
        at.unwrap().text(1..=9),
        "a: must not contain the character U+0000",
    );
}

#[test]
fn values_are_read_within_bounds() {
    let value = json!({"s": "äöü", "n": 7, "f": 1.5, "b": true, "l": [1, 2, 3], "o": {"x": 1}});
    let mut object = At::root(&value).object().unwrap();
    let mut take = |name| object.field(name).required().unwrap();
    let (s, n, f, b, l, o) = (
        take("s"),
        take("n"),
        take("f"),
        take("b"),
        take("l"),
        take("o"),
    );

    assert_eq!(s.text(3..=3).unwrap(), "äöü");
    refused(s.text(1..=2), "s: must have 1 to 2 characters, not 3");
    refused(s.text(4..=9), "s: must have 4 to 9 characters, not 3");
    refused(n.text(0..=9), "n: must be a string, not a number");
    assert_eq!(n.int(7..=7).unwrap(), 7);
    refused(n.int(8..=9), "n: must be an integer from 8 to 9, not 7");
    refused(
        n.int(8..=i64::MAX),
        "n: must be an integer of at least 8, not 7",
    );
    refused(
        f.int(0..=9),
        "f: must be an integer from 0 to 9, not a decimal number",
    );
    assert!(b.boolean().unwrap());
    refused(s.boolean(), "s: must be true or false, not a string");
    assert_eq!(l.items(0..=3).unwrap()[2].path(), "l.2");
    refused(l.items(0..=2), "l: must have 0 to 2 entries, not 3");
    refused(o.items(0..=2), "o: must be an array, not an object");
    refused(l.object(), "l: must be an object, not an array");
    let nested = o.object().unwrap().field("x").required().unwrap();
    assert_eq!(nested.path(), "o.x");
    refused(
        s.word(&[("a", 1), ("b", 2), ("c", 3)]),
        "s: must be `a`, `b` or `c`, not `äöü`",
    );
    refused(s.word(&[("a", 1)]), "s: must be `a`, not `äöü`");
    refused(
        At::root(&json!([])).object(),
        "the body: must be an object, not an array",
    );
}

#[test]
fn absent_null_and_value_differ() {
    let value = json!({"null": null, "value": "v"});
    let mut object = At::root(&value).object().unwrap();
    refused(object.field("absent").required(), "absent: is required");
    refused(
        object.field("null").required(),
        "null: is required and must not be null",
    );
    refused(
        object.field("null").not_clearable(),
        "null: must not be null, it cannot be cleared; leave it out to keep it",
    );
    assert!(object.field("absent").not_clearable().unwrap().is_none());
    assert!(object.field("absent").optional().is_none());
    assert!(object.field("null").optional().is_none());
    assert!(matches!(object.field("absent").patch(), Patch::Keep));
    assert!(matches!(object.field("null").patch(), Patch::Clear));
    let patch = object.field("value").patch().try_map(|at| at.any_text());
    assert_eq!(patch, Ok(Patch::Set("v")));
    assert_eq!(Patch::Keep.over(Some(1)), Some(1));
    assert_eq!(Patch::Clear.over(Some(1)), None);
    assert_eq!(Patch::Set(2).over(Some(1)), Some(2));
}

#[test]
fn unknown_fields_are_refused_by_full_path() {
    let value = json!({"tools": [{"type": "x", "typo": 1, "more": 2}]});
    let mut object = At::root(&value).object().unwrap();
    let tools = object.field("tools").required().unwrap();
    object.finish().unwrap();
    let mut tool = tools.items(0..=1).unwrap()[0].object().unwrap();
    let _type = tool.field("type");
    let _name = tool.field("name");
    refused(
        tool.finish(),
        "tools.0.typo: unknown field (and 1 more); allowed: `type` or `name`",
    );
}

#[test]
fn later_parts_pass_only_empty() {
    let value = json!({"n": null, "l": [], "o": {}, "full": [1], "text": "", "no": false});
    let mut object = At::root(&value).object().unwrap();
    for empty in ["absent", "n", "l", "o"] {
        object.field(empty).not_supported().unwrap();
    }
    for full in ["full", "text", "no"] {
        let problem = object.field(full).not_supported().unwrap_err();
        assert_eq!(problem.code, crate::ErrorCode::NotSupported);
        assert!(
            problem
                .message
                .starts_with(&format!("{full}: not_supported"))
        );
    }
}

#[test]
fn what_a_client_sent_is_quoted_short_and_printable() {
    assert_eq!(excerpt("a\u{1b}[31mb"), "a\u{fffd}[31mb");
    assert_eq!(excerpt(&"x".repeat(65)), format!("{}…", "x".repeat(64)));
    assert_eq!(excerpt(&"x".repeat(64)), "x".repeat(64));
}
