//! Threads.

use serde_json::json;

use crate::{
    bench::{Bench, id},
    brain::Brain,
};

#[tokio::test]
async fn the_primary_thread_is_shown_in_every_way() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let path = format!("/v1/sessions/{session}/threads");
    let fresh = bench.get(&path).await;
    insta::assert_json_snapshot!("list", fresh.shown());
    let thread = id(&fresh.json()["data"][0]);
    let one = format!("{path}/{thread}");
    assert_eq!(bench.get(&one).await.json()["id"], json!(thread));

    bench.say(&session, "hi").await;
    let brain = Brain::new(bench.lease().await);
    for (query, count) in [
        ("statuses[]=running", 1),
        ("statuses[]=idle", 0),
        ("statuses[]=idle&statuses[]=running&limit=1", 1),
        ("statuses[]=terminated", 0),
    ] {
        let listed = bench.get(&format!("{path}?{query}")).await.ok();
        assert_eq!(listed["data"].as_array().unwrap().len(), count, "{query}");
        assert_eq!(listed["next_page"], json!(null));
    }
    brain.answer("hello").await;
    insta::assert_json_snapshot!("after_a_turn", bench.get(&one).await.shown());

    let own = bench.get(&format!("{one}/events")).await.ok();
    let of_session = bench
        .get(&format!("/v1/sessions/{session}/events"))
        .await
        .ok();
    assert_eq!(own, of_session);
    let archive = bench.poke(&format!("{one}/archive")).await;
    insta::assert_json_snapshot!("archive_of_primary", archive.shown());
    bench
        .poke(&format!("/v1/sessions/{session}/archive"))
        .await
        .ok();
    insta::assert_json_snapshot!("terminated", bench.get(&one).await.shown());
}

#[tokio::test]
async fn a_thread_of_another_session_is_unknown() {
    let bench = Bench::new().await;
    let (one, two) = (bench.session().await, bench.session().await);
    let threads = bench.get(&format!("/v1/sessions/{one}/threads")).await.ok();
    let thread = id(&threads["data"][0]);
    for end in ["", "/events", "/stream"] {
        let path = format!("/v1/sessions/{two}/threads/{thread}{end}");
        bench.get(&path).await.refused(404);
    }
    bench
        .poke(&format!("/v1/sessions/{two}/threads/{thread}/archive"))
        .await
        .refused(404);
}

#[tokio::test]
async fn parameters_of_the_session_list_are_none_of_a_thread() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let path = format!("/v1/sessions/{session}/threads");
    let thread = id(&bench.get(&path).await.ok()["data"][0]);
    for query in [
        "order=desc",
        "types[]=user.message",
        "created_at[gt]=2026-01-01T00:00:00Z",
    ] {
        let told = bench
            .get(&format!("{path}/{thread}/events?{query}"))
            .await
            .refused(400);
        assert!(
            told.contains("unknown query parameter; allowed: `limit` or `page`"),
            "{told}"
        );
    }
    for (query, words) in [
        ("statuses[]=x", "statuses: must be"),
        ("limit=1001", "limit: must be an integer from 1 to 1000"),
        ("page=x", "page: is not a cursor"),
    ] {
        let told = bench.get(&format!("{path}?{query}")).await.refused(400);
        assert!(told.starts_with(words), "{told}");
    }
}
