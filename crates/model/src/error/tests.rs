use super::*;

fn classify(status: Option<u16>, body: &str) -> Error {
    Failure {
        status,
        ..Failure::from_body(body)
    }
    .classify()
}

/// One word per class, so that a table stays readable.
fn class(error: &Error) -> &'static str {
    match error {
        Error::Retry { kind, .. } => match kind {
            RetryKind::Overloaded => "overloaded",
            RetryKind::RateLimited => "rate limited",
            RetryKind::Failed => "failed",
        },
        Error::Overflow { .. } => "overflow",
        Error::Billing { .. } => "billing",
        Error::NoModel { .. } => "no model",
        Error::Refused { .. } => "refused",
        Error::Withdrawn { .. } => "withdrawn",
        Error::Fatal { .. } => "fatal",
    }
}

fn body(kind: &str, message: &str) -> String {
    serde_json::json!({"type": "error", "error": {"type": kind, "message": message}}).to_string()
}

/// Checks a table of `status kind message class`.
fn check(cases: &[(u16, &str, &str, &str)]) {
    for (status, kind, message, expected) in cases {
        let status = (*status != 0).then_some(*status);
        let error = classify(status, &body(kind, message));
        assert_eq!(class(&error), *expected, "{status:?} {kind} {message}");
    }
}

#[test]
fn passing_trouble_is_retried() {
    check(&[
        (529, "overloaded_error", "Overloaded", "overloaded"),
        (503, "overloaded_error", "Overloaded", "overloaded"),
        (503, "unavailable_error", "Loading model", "failed"),
        (429, "rate_limit_error", "slow down", "rate limited"),
        (500, "api_error", "Internal", "failed"),
        (500, "invalid_request_error", "odd proxy", "failed"),
        (504, "timeout_error", "late", "failed"),
        (408, "timeout_error", "late", "failed"),
        (409, "conflict_error", "again", "failed"),
    ]);
}

#[test]
fn refusals_are_not() {
    check(&[
        (
            400,
            "invalid_request_error",
            "max_tokens: Field required",
            "refused",
        ),
        (404, "not_found_error", "model: x", "no model"),
        (404, "nginx", "404 Not Found", "refused"),
        (401, "authentication_error", "invalid x-api-key", "fatal"),
        (403, "permission_error", "no", "fatal"),
        (402, "billing_error", "pay", "billing"),
        (429, "insufficient_quota", "no", "billing"),
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low to",
            "billing",
        ),
    ]);
}

#[test]
fn a_full_window_is_known_by_its_words() {
    check(&[
        (
            400,
            "invalid_request_error",
            "prompt is too long: 3 tokens > 2 maximum",
            "overflow",
        ),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
            "overflow",
        ),
        (
            400,
            "exceed_context_size_error",
            "the request is larger",
            "overflow",
        ),
        (413, "request_too_large", "too large", "overflow"),
    ]);
    let by_code = r#"{"error":{"code":"context_length_exceeded","message":"too many"}}"#;
    assert_eq!(class(&classify(Some(400), by_code)), "overflow");
}

#[test]
fn an_error_within_a_stream_is_known_by_its_type() {
    check(&[
        (0, "overloaded_error", "Overloaded", "overloaded"),
        (0, "rate_limit_error", "x", "rate limited"),
        (0, "api_error", "x", "failed"),
        (0, "invalid_request_error", "x", "refused"),
        (0, "authentication_error", "x", "fatal"),
        (0, "brand_new_error", "x", "failed"),
    ]);
}

#[test]
fn bodies_of_other_forms_go_by_status() {
    for (status, body, expected) in [
        (529, "", "overloaded"),
        (429, "<html>", "rate limited"),
        (502, "bad gateway", "failed"),
        (501, "", "refused"),
        (422, "{}", "refused"),
        (307, "", "refused"),
        (500, r#"{"error":"plain words"}"#, "failed"),
        (500, r#"{"error":null}"#, "failed"),
    ] {
        assert_eq!(
            class(&classify(Some(status), body)),
            expected,
            "{status} {body}"
        );
    }
}

#[test]
fn the_header_overrules_the_status() {
    let with = |status, should_retry| {
        class(
            &Failure {
                status: Some(status),
                should_retry: Some(should_retry),
                ..Failure::default()
            }
            .classify(),
        )
    };
    assert_eq!(with(429, false), "refused");
    assert_eq!(with(400, true), "failed");
    assert_eq!(with(529, true), "overloaded");
    assert_eq!(with(401, true), "fatal");
}

#[test]
fn messages_are_one_line_bounded_and_never_empty() {
    let long = classify(Some(500), &body("api_error", &"é\n".repeat(5_000))).to_string();
    assert!(long.chars().count() <= LONGEST && !long.contains('\n'));
    assert_eq!(
        classify(Some(500), "").to_string(),
        "the model's provider answered 500"
    );
    assert_eq!(
        classify(None, "").to_string(),
        "the model's provider gave no reason"
    );
    assert_eq!(classify(Some(500), "  down  \n").to_string(), "down");
    assert_eq!(
        classify(Some(500), r#"{"error":{"type":"api_error"}}"#).to_string(),
        "api_error"
    );
}

#[test]
fn the_wait_is_kept_on_retries() {
    let error = Failure {
        status: Some(429),
        after: Some(Duration::from_secs(3)),
        message: "slow down".to_owned(),
        ..Failure::default()
    }
    .classify();
    assert_eq!(
        error,
        Error::Retry {
            kind: RetryKind::RateLimited,
            after: Some(Duration::from_secs(3)),
            message: "slow down".to_owned(),
        }
    );
    assert!(error.is_retryable());
}
