//! Tests of cursors.

use proptest::prelude::*;

use super::*;

fn place() -> Place {
    Place {
        order: Order::Desc,
        side: Side::Next,
        at: 1_700_000_000_000_000,
        id: "sesn_010000000000000000000003".into(),
    }
}

#[test]
fn a_cursor_is_opaque_and_reads_back() {
    let cursor = encode(List::Sessions, "", &place());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    assert!(cursor.starts_with("page_") && cursor.chars().all(is_plain));
    assert_eq!(decode(List::Sessions, "", &cursor), Ok(place()));
}

#[test]
fn a_foreign_cursor_is_refused() {
    let refusal = |list, owner, text: &str| decode::<Place>(list, owner, text).unwrap_err().message;
    let sessions = encode(List::Sessions, "", &place());
    assert_eq!(
        refusal(List::Agents, "", &sessions),
        "page: is a cursor of another list (sessions); it cannot be used here (agents)"
    );
    let events = encode(List::Events, "sesn_a", &place());
    assert_eq!(
        refusal(List::Events, "sesn_b", &events),
        "page: is a cursor of the events of another object"
    );
    let no_cursor =
        "page: is not a cursor of this server; pass `next_page` or `prev_page` as you got it";
    let other_place = encode(List::Agents, "", &7);
    let cut = sessions.split_at(sessions.len() - 3).0;
    let huge = format!("page_{}", "A".repeat(3_000));
    for bad in ["", "page_", "2", "page_!!!", cut, &other_place, &huge] {
        assert_eq!(refusal(List::Agents, "", bad), no_cursor, "{bad}");
    }
}

#[test]
fn a_cursor_of_another_version_says_so() {
    let json = br#"{"v":2,"l":"agents","o":"","p":null}"#;
    let cursor = format!("page_{}", URL_SAFE_NO_PAD.encode(json));
    assert_eq!(
        decode::<Place>(List::Agents, "", &cursor),
        Err(refuse(
            "is a cursor of another version of this server; start again from the first page"
        ))
    );
}

#[test]
fn a_cursor_keeps_its_order() {
    assert_eq!(place().check_order(Order::Desc), Ok(()));
    assert_eq!(
        place().check_order(Order::Asc),
        Err(Problem::invalid(
            "page: is a cursor of `order=desc`; it cannot be used with `order=asc`"
        ))
    );
}

proptest! {
    #[test]
    fn no_text_makes_a_cursor_panic(text in ".*", digits in "page_[A-Za-z0-9_-]{0,80}") {
        drop(decode::<Place>(List::Agents, "", &text));
        drop(decode::<Place>(List::Agents, "", &digits));
    }
}
