//! Redaction as clients see it: the same events, without their words.

use serde_json::{Value, json};

use crate::{
    bench::{Bench, Reply},
    brain::Brain,
};

/// Stands in what is redacted.
const CANARY: &str = "canary-41aa";

/// The input of a call that says it too.
const WEATHER: &str = r#"{"city":"canary-41aa"}"#;

async fn redact(bench: &Bench, session: &str, events: &[&str]) -> Reply {
    let body = json!({ "event_ids": events, "because": "they asked" });
    let path = format!("/outlast/v1/sessions/{session}/redact");
    bench.post(&path, body).await
}

/// Returns the id of the first event of a type.
fn first<'e>(events: &'e [Value], kind: &str) -> &'e str {
    let mut events = events.iter().filter(|event| event["type"] == kind);
    events.next().unwrap()["id"].as_str().unwrap()
}

#[tokio::test]
async fn lists_and_streams_show_the_event_and_nothing_of_what_it_said() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let asked = bench.say(&session, CANARY).await;
    Brain::new(bench.lease().await).answer(CANARY).await;
    let before = bench.log(&session).await;
    let said = first(&before, "agent.message");
    let done = redact(&bench, &session, &[&asked, said]).await.ok();
    assert_eq!(done["event_ids"], json!([asked, said]));
    assert_eq!(done["positions"].as_array().unwrap().len(), 3, "{done}");

    let after = bench.log(&session).await;
    for (new, old) in after.iter().zip(&before) {
        assert!(!new.to_string().contains(CANARY), "{new}");
        for key in ["id", "type", "processed_at"] {
            assert_eq!(new[key], old[key]);
        }
    }
    assert_eq!(
        before.len(),
        after.len(),
        "the record of it is not for clients"
    );
    let left = json!([{"type": "text", "text": "[erased]"}]);
    for event in [&asked, said] {
        let event = after.iter().find(|one| one["id"] == *event).unwrap();
        assert_eq!(event["content"], left, "{event}");
    }
    let mut reader = bench.follow(&session, Some(0)).await;
    for event in &after {
        let frame = reader.next().await.unwrap();
        assert_eq!(frame.data, *event);
    }
    let again = redact(&bench, &session, &[said, &asked]).await.ok();
    assert_eq!(
        (&again["positions"], &again["at"]),
        (&json!([]), &Value::Null)
    );
}

#[tokio::test]
async fn what_cannot_be_redacted_is_named() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let asked = bench.say(&session, CANARY).await;
    let waits = redact(&bench, &session, &[&asked]).await.refused(400);
    assert!(
        waits.contains("is running") || waits.contains("waits"),
        "{waits}"
    );
    let brain = Brain::new(bench.lease().await);
    let calls = brain.call(&[("weather", WEATHER)]).await;
    brain.end().await;
    let open = calls[0].to_string();
    let open = redact(&bench, &session, &[&open]).await.refused(400);
    assert!(open.contains("a turn that is not over"), "{open}");
    let events = bench.log(&session).await;
    let idle = first(&events, "session.status_idle");
    let nothing = redact(&bench, &session, &[idle]).await.refused(400);
    assert!(
        nothing.contains("says nothing that could be erased"),
        "{nothing}"
    );
    let unknown = "sevt_010000000000000000000001";
    let unknown = redact(&bench, &session, &[&asked, unknown])
        .await
        .refused(404);
    assert!(unknown.contains("event_ids"), "{unknown}");
    let title = json!({ "title": CANARY });
    let path = format!("/v1/sessions/{session}");
    bench.post(&path, title).await.ok();
    let events = bench.log(&session).await;
    let updated = first(&events, "session.updated");
    let config = redact(&bench, &session, &[updated]).await.refused(400);
    assert!(config.contains("what the session runs with"), "{config}");
    // Nothing of it was done.
    let after = bench.log(&session).await;
    assert!(after[0].to_string().contains(CANARY));
    let nobody = "sesn_010000000000000000000001";
    redact(&bench, nobody, &[&asked]).await.refused(404);
    let path = format!("/outlast/v1/sessions/{session}/redact");
    let body = json!({ "event_ids": [asked], "because": "x", "positions": [1] });
    let field = bench.post(&path, body).await.refused(400);
    assert!(field.starts_with("positions: unknown field"), "{field}");
}
