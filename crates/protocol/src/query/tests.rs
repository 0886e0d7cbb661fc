//! Tests of query strings.

use proptest::prelude::*;

use super::*;

fn query(raw: &str) -> Query {
    Query::parse(raw).unwrap()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Problem>, message: &str) {
    assert_eq!(result.unwrap_err(), Problem::invalid(message));
}

#[test]
fn arrays_come_with_and_without_brackets() {
    for raw in [
        "types[]=a&types[]=b",
        "types%5B%5D=a&types%5b%5d=b",
        "types=a&types=b",
        "types[]=a&types=b",
    ] {
        let mut query = query(raw);
        assert_eq!(query.list("types", 2).unwrap(), ["a", "b"]);
        query.finish().unwrap();
    }
    refused(
        query("t=a&t[]=b&t=c").list("t", 2),
        "t: must have at most 2 values, not 3",
    );
    refused(
        query("s[]=c").words("s", 9, &[("a", 1), ("b", 2)]),
        "s: must be `a` or `b`, not `c`",
    );
}

#[test]
fn ranges_read_their_four_bounds() {
    let raw = "created_at[gt]=1970-01-01T00%3A00%3A01%2B00%3A00&created_at%5Blte%5D=1970-01-01T00:00:03Z\
               &created_at[gte]=1970-01-01T01:00:02+01:00";
    let mut query = query(raw);
    let range = query.range("created_at").unwrap();
    query.finish().unwrap();
    assert_eq!(
        range,
        TimeRange {
            gt: Some(Micros(1_000_000)),
            gte: Some(Micros(2_000_000)),
            lt: None,
            lte: Some(Micros(3_000_000)),
        }
    );
    let inside = |at| range.contains(Micros(at));
    assert!(inside(2_000_000) && inside(3_000_000));
    assert!(!inside(1_999_999) && !inside(3_000_001));
    let open = TimeRange {
        gt: Some(Micros(1)),
        lt: Some(Micros(3)),
        ..TimeRange::default()
    };
    assert!(open.contains(Micros(2)) && !open.contains(Micros(1)) && !open.contains(Micros(3)));
}

#[test]
fn bad_times_are_refused() {
    refused(
        query("created_at[gt]=yesterday").range("created_at"),
        "created_at[gt]: must be an RFC 3339 time such as `2026-01-31T12:00:00Z`, not `yesterday`",
    );
    let mut exact = query("created_at=2026-01-01T00:00:00Z");
    exact.range("created_at").unwrap();
    refused(
        exact.finish(),
        "created_at: unknown query parameter; allowed: `created_at[gt]`, `created_at[gte]`, \
         `created_at[lt]` or `created_at[lte]`",
    );
}

#[test]
fn limits_are_bounded() {
    assert_eq!(query("").limit(20, 100), Ok(20));
    assert_eq!(query("limit=100").limit(20, 100), Ok(100));
    for bad in [
        "0",
        "101",
        "-1",
        "+5",
        "1.0",
        "x",
        "",
        "99999999999999999999",
    ] {
        refused(
            query(&format!("limit={}", bad.replace('+', "%2B"))).limit(20, 100),
            &format!("limit: must be an integer from 1 to 100, not `{bad}`"),
        );
    }
    refused(
        query("limit=1&limit=2").limit(20, 100),
        "limit: must be given at most once",
    );
}

#[test]
fn words_flags_and_orders_are_read() {
    assert_eq!(query("order=asc").order(Order::Desc), Ok(Order::Asc));
    assert_eq!(query("").order(Order::Desc), Ok(Order::Desc));
    refused(
        query("order=up").order(Order::Asc),
        "order: must be `asc` or `desc`, not `up`",
    );
    assert_eq!(
        query("include_archived=true").flag("include_archived"),
        Ok(true)
    );
    assert_eq!(query("").flag("include_archived"), Ok(false));
    refused(
        query("f=1").flag("f"),
        "f: must be `true` or `false`, not `1`",
    );
    refused(
        query(&format!("page={}", "x".repeat(2_049))).page(),
        "page: must have at most 2048 characters",
    );
}

#[test]
fn unknown_parameters_are_refused_and_beta_is_ignored() {
    query("beta=true&beta=false&").finish().unwrap();
    refused(
        query("x=1").finish(),
        "x: unknown query parameter; this endpoint takes none",
    );
    let mut known = query("limit=5&Limit=6&beta=true");
    assert_eq!(known.limit(1, 9), Ok(5));
    known.list("types", 9).unwrap();
    refused(
        known.finish(),
        "Limit: unknown query parameter; allowed: `limit` or `types`",
    );
}

#[test]
fn nul_is_refused() {
    refused(
        Query::parse("a=b&page=x%00y"),
        "page: must not contain the character U+0000",
    );
}

proptest! {
    #[test]
    fn no_text_makes_a_query_panic(raw in ".*") {
        if let Ok(mut query) = Query::parse(&raw) {
            drop(query.limit(1, 9));
            drop(query.range("created_at"));
            drop(query.list("types", 9));
            drop(query.finish());
        }
    }
}
