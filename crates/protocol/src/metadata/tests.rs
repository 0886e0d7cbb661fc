//! Tests of metadata: bounds, merging, deleting.

use serde_json::json;

use super::*;

fn created(value: &Value) -> Result<Metadata, Problem> {
    let mut object = At::root(value).object().unwrap();
    create(object.field("metadata"))
}

fn patched(value: &Value, empty: EmptyValue) -> Result<MetadataPatch, Problem> {
    let mut object = At::root(value).object().unwrap();
    patch(object.field("metadata"), empty)
}

fn pairs(count: usize) -> Value {
    let map = (0..count).map(|n| (format!("k{n}"), json!("v"))).collect();
    json!({"metadata": Value::Object(map)})
}

#[test]
fn absent_and_null_are_empty() {
    for empty in [
        json!({}),
        json!({"metadata": null}),
        json!({"metadata": {}}),
    ] {
        assert_eq!(created(&empty), Ok(Metadata::new()));
        assert_eq!(
            patched(&empty, EmptyValue::Kept),
            Ok(MetadataPatch::default())
        );
    }
}

#[test]
fn bounds_are_named_and_every_problem_is_listed() {
    assert_eq!(created(&pairs(16)).unwrap().len(), 16);
    let refused = |value: Value, code, message: &str| {
        assert_eq!(created(&value), Err(Problem::new(code, message)));
    };
    refused(
        pairs(17),
        ErrorCode::InvalidMetadata,
        "metadata: must have at most 16 pairs, not 17",
    );
    let long_key = "ä".repeat(65);
    refused(
        json!({"metadata": {(&long_key): "v", "k": "x".repeat(513), "": "v"}}),
        ErrorCode::InvalidMetadata,
        &format!(
            "metadata: key `` must have 1 to 64 characters, not 0; the value of key `k` must have at \
             most 512 characters, not 513; key `{}…` must have 1 to 64 characters, not 65",
            "ä".repeat(64)
        ),
    );
    refused(
        json!({"metadata": {"k": "a\0"}}),
        ErrorCode::InvalidMetadata,
        "metadata: the value of key `k` must not contain the character U+0000",
    );
    refused(
        json!({"metadata": {"k": 1}}),
        ErrorCode::InvalidRequest,
        "metadata: the value of key `k` must be a string",
    );
    refused(
        json!({"metadata": []}),
        ErrorCode::InvalidRequest,
        "metadata: must be an object, not an array",
    );
    assert!(created(&json!({"metadata": {"ä".repeat(64): "x".repeat(512)}})).is_ok());
}

#[test]
fn a_patch_merges_sets_and_deletes() {
    let stored = Metadata::from([("a".into(), "1".into()), ("b".into(), "2".into())]);
    let value = json!({"metadata": {"a": null, "b": "3", "c": "", "never": null}});
    let kept = patched(&value, EmptyValue::Kept).unwrap();
    assert_eq!(
        kept.apply(&stored).unwrap(),
        Metadata::from([("b".into(), "3".into()), ("c".into(), String::new())])
    );
    let deleted = patched(&value, EmptyValue::Deletes).unwrap();
    assert_eq!(
        deleted.apply(&stored).unwrap(),
        Metadata::from([("b".into(), "3".into())])
    );
}

#[test]
fn the_result_of_a_patch_is_bounded() {
    let full = created(&pairs(16)).unwrap();
    let one_more = patched(&json!({"metadata": {"new": "v"}}), EmptyValue::Kept).unwrap();
    assert_eq!(
        one_more.apply(&full),
        Err(Problem::new(
            ErrorCode::InvalidMetadata,
            "metadata: must have at most 16 pairs, not 17"
        ))
    );
    let swapped = json!({"metadata": {"new": "v", "k0": null}});
    let swapped = patched(&swapped, EmptyValue::Kept).unwrap();
    assert_eq!(swapped.apply(&full).unwrap().len(), 16);
    let bad = json!({"metadata": {"k": "x".repeat(513)}});
    assert!(patched(&bad, EmptyValue::Kept).is_err());
}

#[test]
fn a_key_is_shown_in_part_and_without_signs_that_move_a_cursor() {
    let key = format!("\u{1b}[2J{}", "k".repeat(5_000));
    let body = json!({"metadata": {key: 1}});
    let told = [
        created(&body).unwrap_err(),
        patched(&body, EmptyValue::Kept).unwrap_err(),
    ];
    for Problem { message, .. } in told {
        assert!(
            message.len() < 300 && !message.contains('\u{1b}'),
            "{message:?}"
        );
    }
}
