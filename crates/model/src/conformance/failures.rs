//! Cases in which the model fails.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};

use super::chat::Chat;
use crate::{Error, Model, RetryKind};

async fn failing(model: &dyn Model, fault: Value) -> Error {
    let chat = Chat::script(&json!([{"text": "fine", "error": fault}]));
    chat.ask(model).await.expect_err("a failure")
}

fn kind(error: &Error) -> Option<RetryKind> {
    match error {
        Error::Retry { kind, .. } => Some(*kind),
        Error::Overflow { .. }
        | Error::Billing { .. }
        | Error::NoModel { .. }
        | Error::Refused { .. }
        | Error::Withdrawn { .. }
        | Error::Fatal { .. } => None,
    }
}

pub(super) async fn come_in_every_class(model: Arc<dyn Model>) {
    for (status, expected) in [
        (529, RetryKind::Overloaded),
        (429, RetryKind::RateLimited),
        (500, RetryKind::Failed),
        (503, RetryKind::Failed),
        (408, RetryKind::Failed),
    ] {
        let error = failing(&*model, json!(status)).await;
        assert_eq!(kind(&error), Some(expected), "{status}: {error:?}");
    }
    let error = failing(&*model, json!({"status": 429, "retry_after_ms": 1_500})).await;
    let Error::Retry { after, message, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(after, Some(Duration::from_millis(1_500)));
    assert_eq!(message, "scripted rate_limit_error");
    let class = |error: Error| match error {
        Error::Retry { .. } => "retry",
        Error::Overflow { .. } => "overflow",
        Error::Billing { .. } => "billing",
        Error::NoModel { .. } => "no model",
        Error::Refused { .. } => "refused",
        Error::Withdrawn { .. } => "withdrawn",
        Error::Fatal { .. } => "fatal",
    };
    for (status, expected) in [
        (400, "refused"),
        (404, "no model"),
        (401, "fatal"),
        (403, "fatal"),
        (402, "billing"),
        (413, "overflow"),
    ] {
        assert_eq!(
            class(failing(&*model, json!(status)).await),
            expected,
            "{status}"
        );
    }
    let words = json!({"status": 400, "message": "prompt is too long: 3 tokens > 2 maximum"});
    assert_eq!(class(failing(&*model, words).await), "overflow");
}

pub(super) async fn end_after_their_times(model: Arc<dyn Model>) {
    let chat = Chat::script(&json!([{"text": "fine", "error": {"status": 529, "times": 2}}]));
    for _ in 0..2 {
        for _ in 0..2 {
            let error = chat.ask(&*model).await.expect_err("a failure");
            assert_eq!(kind(&error), Some(RetryKind::Overloaded));
        }
        let answer = chat.ask(&*model).await.expect("an answer");
        assert_eq!(answer.texts[0].text, "fine");
    }
}

pub(super) async fn come_in_the_middle(model: Arc<dyn Model>) {
    for (fault, expected) in [
        (
            json!({"status": 529, "midway": true}),
            RetryKind::Overloaded,
        ),
        (json!({"drop": true}), RetryKind::Failed),
    ] {
        let chat = Chat::script(&json!([
            {"content": [{"filler": 1_000}], "error": fault},
        ]));
        let mut events = model.stream(chat.call()).await.expect("a stream");
        let mut seen = 0;
        let error = loop {
            match events.next().await.expect("an error before the end") {
                Ok(_) => seen += 1,
                Err(error) => break error,
            }
        };
        assert!(seen > 10, "only {seen} events");
        assert_eq!(kind(&error), Some(expected), "{error:?}");
        assert!(events.next().await.is_none(), "nothing follows an error");
    }
}
