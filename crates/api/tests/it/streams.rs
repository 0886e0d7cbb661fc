//! Streams of events.

use std::time::Duration;

use http::Method;
use outlast_protocol::Micros;
use outlast_session::{Step, Then};
use serde_json::{Value, json};

use crate::{
    bench::{Bench, Setup, id, message, request},
    brain::Brain,
    reader::{Frame, Reader, names},
    redact::redact,
};

/// A log with everything in it: turns, calls, an interrupt, messages that wait, an update, an end.
async fn eventful(bench: &Bench) -> String {
    let session = bench.session().await;
    let path = format!("/v1/sessions/{session}/events");
    bench.say(&session, "one").await;
    let brain = Brain::new(bench.lease().await);
    bench.say(&session, "two, while one is waiting").await;
    let calls = brain
        .call(&[("weather", "{\"city\":\n\"Bonn\"}"), ("bash", "{}")])
        .await;
    brain.end().await;
    let result = json!({ "type": "user.custom_tool_result", "custom_tool_use_id": calls[0] });
    bench.post(&path, json!({ "events": [result] })).await.ok();
    let confirm =
        json!({ "type": "user.tool_confirmation", "tool_use_id": calls[1], "result": "allow" });
    bench.post(&path, json!({ "events": [confirm] })).await.ok();
    let brain = Brain::new(bench.lease().await);
    brain.lease.execute(calls[1]).await.unwrap();
    let (request, _) = brain.begin().await;
    brain
        .propose(Step::Note(outlast_session::json(
            &json!({ "private": true }),
        )))
        .await;
    bench.say(&session, "three").await;
    bench
        .post(
            &path,
            json!({ "events": [{ "type": "user.interrupt" }, message("four")] }),
        )
        .await
        .ok();
    brain.propose(Step::Interrupt).await;
    brain.finish(request).await;
    let (request, _) = brain.begin().await;
    let said = crate::brain::said(brain.lease.event_id(), &["a", "b"]);
    brain.respond(request, vec![said]).await;
    brain.finish(request).await;
    brain.end().await;
    bench
        .post(&format!("/v1/sessions/{session}"), json!({ "title": "t" }))
        .await
        .ok();
    bench.say(&session, "five").await;
    let brain = Brain::new(bench.lease().await);
    brain.take_in().await;
    brain.fail(Then::Exhausted).await;
    bench
        .poke(&format!("/v1/sessions/{session}/archive"))
        .await
        .ok();
    session
}

async fn head(bench: &Bench, session: &str) -> u64 {
    bench
        .kernel
        .state(session.parse().unwrap())
        .await
        .unwrap()
        .tail
}

#[tokio::test]
async fn a_stream_resumes_exactly_at_every_position() {
    let bench = Bench::new().await;
    let session = eventful(&bench).await;
    let all = bench.follow(&session, Some(0)).await.rest().await;
    insta::assert_json_snapshot!(
        "whole_log",
        all.iter()
            .map(|frame| json!([frame.id, frame.name]))
            .collect::<Vec<_>>()
    );
    let head = head(&bench, &session).await;
    for from in 0..=head {
        let rest = bench.follow(&session, Some(from)).await.rest().await;
        let expected: Vec<_> = all
            .iter()
            .filter(|frame| frame.id > Some(from))
            .cloned()
            .collect();
        assert_eq!(rest, expected, "from {from}");
    }
    // The list is the same, event by event.
    let listed = bench.log(&session).await;
    let data: Vec<_> = all.into_iter().map(|frame| frame.data).collect();
    assert_eq!(data, listed);
}

#[tokio::test]
async fn a_live_reader_sees_both_moments_of_an_input_and_then_what_the_list_has() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let mut reader = bench.follow(&session, None).await;
    assert_eq!(reader.headers["content-type"], "text/event-stream");
    assert_eq!(reader.headers["cache-control"], "no-cache, no-transform");
    assert_eq!(reader.headers["x-accel-buffering"], "no");
    assert!(reader.headers.contains_key("request-id"));
    assert!(!reader.headers.contains_key("content-encoding"));
    bench.say(&session, "hi").await;
    Brain::new(bench.lease().await).answer("hello").await;
    let frames = reader.until("session.status_idle").await;
    insta::assert_json_snapshot!(
        "live_turn",
        redact(&json!(
            frames
                .iter()
                .map(|frame| json!([frame.name, frame.id, frame.data]))
                .collect::<Vec<_>>()
        ))
    );
    let (arrived, placed) = (&frames[0], &frames[1]);
    assert_eq!(
        (arrived.event(), &arrived.data["processed_at"]),
        (placed.event(), &Value::Null)
    );
    let listed = bench.log(&session).await;
    let data: Vec<_> = frames.into_iter().skip(1).map(|frame| frame.data).collect();
    assert_eq!(data, listed);
}

#[tokio::test]
async fn a_replay_shows_arrivals_that_still_wait_and_no_others() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    bench.say(&session, "taken in").await;
    let brain = Brain::new(bench.lease().await);
    brain.take_in().await;
    let waiting = bench.say(&session, "waiting").await;
    let mut reader = bench.follow(&session, Some(0)).await;
    let frames = reader.ready();
    let arrivals: Vec<_> = frames
        .iter()
        .filter(|frame| frame.data["processed_at"].is_null())
        .collect();
    assert_eq!(arrivals.len(), 1);
    assert_eq!(arrivals[0].event(), waiting);
    let (request, _) = brain.begin().await;
    let said = crate::brain::said(brain.lease.event_id(), &["x"]);
    brain.respond(request, vec![said]).await;
    brain.finish(request).await;
    brain.take_in().await;
    let later = reader.until("user.message").await;
    let placed = later.last().unwrap();
    assert_eq!(placed.event(), waiting);
    assert!(placed.data["processed_at"].is_string());
    // Live from here on: an arrival is shown although it is placed before it is read.
    bench
        .post(
            &format!("/v1/sessions/{session}/events"),
            json!({ "events": [{ "type": "user.interrupt" }] }),
        )
        .await
        .ok();
    brain.propose(Step::Interrupt).await;
    let frames = reader.until("session.status_idle").await;
    let seen: Vec<_> = frames
        .iter()
        .filter(|frame| frame.name == "user.interrupt")
        .collect();
    assert_eq!(seen.len(), 2, "{frames:?}");
}

#[tokio::test]
async fn a_new_stream_without_a_position_starts_at_the_head() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    bench.say(&session, "before").await;
    let mut reader = bench.follow(&session, None).await;
    assert_eq!(reader.ready(), Vec::<Frame>::new());
    let after = bench.say(&session, "after").await;
    assert_eq!(reader.next().await.unwrap().event(), after);
    let head = head(&bench, &session).await;
    let mut reader = bench.follow(&session, Some(head)).await;
    let later = bench.say(&session, "later").await;
    assert_eq!(reader.next().await.unwrap().event(), later);
}

#[tokio::test]
async fn a_wrong_position_is_refused() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let path = format!("/v1/sessions/{session}/events/stream");
    let head = head(&bench, &session).await;
    let beyond = (head + 1).to_string();
    for position in [
        "x",
        "-1",
        "+1",
        "1.0",
        "",
        "0x1",
        &beyond,
        "18446744073709551615",
        "1e3",
    ] {
        let headers = [("last-event-id", position)];
        let reply = bench.ask(request(Method::GET, &path, &headers, "")).await;
        let words = reply.refused(400);
        assert!(words.starts_with("Last-Event-ID:"), "{position}: {words}");
    }
    let headers = [("last-event-id", &*beyond)];
    let reply = bench.ask(request(Method::GET, &path, &headers, "")).await;
    insta::assert_json_snapshot!("beyond_the_head", reply.shown());
    let threads = bench
        .get(&format!("/v1/sessions/{session}/threads"))
        .await
        .ok();
    let path = format!(
        "/v1/sessions/{session}/threads/{}/stream",
        id(&threads["data"][0])
    );
    bench
        .ask(request(Method::GET, &path, &headers, ""))
        .await
        .refused(400);
}

#[tokio::test]
async fn the_primary_threads_stream_is_that_of_the_session() {
    let bench = Bench::new().await;
    let session = eventful(&bench).await;
    let threads = bench
        .get(&format!("/v1/sessions/{session}/threads"))
        .await
        .ok();
    let path = format!(
        "/v1/sessions/{session}/threads/{}/stream",
        id(&threads["data"][0])
    );
    let of_thread = bench
        .open(&path, &[("last-event-id", "0")])
        .await
        .rest()
        .await;
    assert_eq!(
        of_thread,
        bench.follow(&session, Some(0)).await.rest().await
    );
}

#[tokio::test]
async fn a_deleted_session_ends_its_streams_with_a_word() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let mut readers = [
        bench.follow(&session, None).await,
        bench.follow(&session, Some(0)).await,
    ];
    bench.delete(&format!("/v1/sessions/{session}")).await.ok();
    for reader in &mut readers {
        let frames = reader.rest().await;
        let last = frames.last().unwrap();
        assert_eq!((&*last.name, last.id), ("session.deleted", None));
        assert!(last.data["processed_at"].is_string() && last.event().starts_with("sevt_01"));
        assert_eq!(frames.len(), 1);
    }
}

#[tokio::test]
async fn a_terminated_session_ends_its_streams() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let mut live = bench.follow(&session, None).await;
    bench.say(&session, "hi").await;
    let brain = Brain::new(bench.lease().await);
    brain.take_in().await;
    brain.fail(Then::Terminal).await;
    let frames = live.rest().await;
    assert_eq!(names(&frames).last(), Some(&"session.status_terminated"));
    assert_eq!(
        bench.follow(&session, None).await.rest().await,
        Vec::<Frame>::new()
    );
    let replayed = bench.follow(&session, Some(0)).await.rest().await;
    assert_eq!(names(&replayed).last(), Some(&"session.status_terminated"));
}

#[tokio::test]
async fn a_shutdown_ends_streams_between_frames() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let mut reader = bench.follow(&session, None).await;
    bench.say(&session, "hi").await;
    assert_eq!(reader.next().await.unwrap().name, "user.message");
    bench.shutdown.cancel();
    assert_eq!(reader.rest().await, Vec::<Frame>::new());
    let mut late = bench.follow(&session, Some(0)).await;
    assert_eq!(late.rest().await, Vec::<Frame>::new());
}

#[tokio::test]
async fn a_quiet_stream_pings_with_the_head() {
    let ping = Duration::from_millis(20);
    let bench = Bench::with(Setup {
        ping,
        ..Default::default()
    })
    .await;
    let session = bench.session().await;
    let mut reader = bench.follow(&session, None).await;
    for _ in 0..2 {
        let frame = reader.next().await.unwrap();
        assert_eq!((&*frame.name, frame.id), ("ping", None));
        assert_eq!(frame.data["head"], json!(head(&bench, &session).await));
    }
    bench.say(&session, "hi").await;
    assert_eq!(
        reader.until("user.message").await.last().unwrap().id,
        Some(2)
    );
    let after = reader.next().await.unwrap();
    assert_eq!(
        after.data,
        json!({ "type": "ping", "head": head(&bench, &session).await })
    );
}

#[tokio::test]
async fn private_records_do_not_keep_a_stream_silent() {
    let ping = Duration::from_millis(50);
    let bench = Bench::with(Setup {
        ping,
        ..Default::default()
    })
    .await;
    let session = bench.session().await;
    bench.say(&session, "hi").await;
    let brain = Brain::new(bench.lease().await);
    brain.take_in().await;
    let mut reader = bench.follow(&session, None).await;
    let notes = async {
        loop {
            brain
                .propose(Step::Note(outlast_session::json(&json!({}))))
                .await;
            tokio::task::yield_now().await;
        }
    };
    let frame = tokio::select! {
        frame = reader.next() => frame.unwrap(),
        () = notes => unreachable!(),
    };
    assert_eq!(frame.name, "ping");
    assert!(frame.data["head"].as_u64().unwrap() > 2);
}

#[tokio::test]
async fn another_sessions_events_are_not_seen() {
    let bench = Bench::new().await;
    let (one, two) = (bench.session().await, bench.session().await);
    let mut reader = bench.follow(&one, None).await;
    bench.say(&two, "elsewhere").await;
    let here = bench.say(&one, "here").await;
    assert_eq!(reader.next().await.unwrap().event(), here);
}

#[tokio::test]
async fn a_log_longer_than_a_page_is_replayed_whole() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    for _ in 0..60 {
        bench.say(&session, "again").await;
        Brain::new(bench.lease().await)
            .answer(&"x".repeat(40_000))
            .await;
    }
    bench
        .poke(&format!("/v1/sessions/{session}/archive"))
        .await
        .ok();
    let all = bench.follow(&session, Some(0)).await.rest().await;
    let data: Vec<_> = all.iter().map(|frame| frame.data.clone()).collect();
    assert_eq!(data, bench.log(&session).await);
    let positions: Vec<_> = all.iter().map(|frame| frame.id.unwrap()).collect();
    assert!(positions.is_sorted_by(|a, b| a < b));
}

#[tokio::test]
async fn times_never_go_backwards_on_a_stream() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let mut reader: Reader = bench.follow(&session, None).await;
    bench.say(&session, "one").await;
    outlast_testkit::build::Dial::set(&*bench.clock, Micros(0));
    Brain::new(bench.lease().await).answer("two").await;
    let frames = reader.until("session.status_idle").await;
    let times: Vec<_> = frames
        .iter()
        .filter_map(|frame| frame.data["processed_at"].as_str())
        .collect();
    assert!(times.is_sorted());
}
