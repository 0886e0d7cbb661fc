//! Pages, forwards and backwards.

use std::time::Duration;

use outlast_testkit::random::Seeded;
use serde_json::{Value, json};

use crate::{
    bench::{Bench, Setup, id, message},
    brain::Brain,
};

fn ids(page: &Value) -> Vec<String> {
    page["data"].as_array().unwrap().iter().map(id).collect()
}

/// Reads a list to its end; returns the pages.
async fn walk(bench: &Bench, path: &str) -> Vec<Value> {
    let mut pages = vec![bench.get(path).await.ok()];
    while let Some(next) = pages.last().unwrap()["next_page"].as_str() {
        let page = bench.get(&format!("{path}&page={next}")).await.ok();
        pages.push(page);
        assert!(pages.len() < 500, "no end");
    }
    pages
}

fn joined(pages: &[Value]) -> Vec<String> {
    pages.iter().flat_map(ids).collect()
}

/// Sessions of which several are made in the same microsecond.
async fn crowd(count: usize) -> (Bench, Vec<String>) {
    let bench = Bench::with(Setup {
        step: Duration::ZERO,
        ..Default::default()
    })
    .await;
    let (agent, environment) = bench.home().await;
    let mut made = Vec::new();
    for n in 0..count {
        if n % 5 == 0 {
            bench.clock.advance(Duration::from_micros(1));
        }
        let body = json!({ "agent": agent, "environment_id": environment, "title": n.to_string() });
        let session = bench.post("/v1/sessions", body).await.ok();
        made.push((
            session["created_at"].as_str().unwrap().to_owned(),
            id(&session),
        ));
    }
    made.sort();
    (bench, made.into_iter().map(|(_, id)| id).collect())
}

#[tokio::test]
async fn sessions_page_in_both_orders_and_both_directions() {
    let (bench, asc) = crowd(23).await;
    let desc: Vec<_> = asc.iter().rev().cloned().collect();
    for (order, all) in [("asc", &asc), ("desc", &desc)] {
        for limit in [1, 2, 7, 22, 23, 24] {
            let path = format!("/v1/sessions?order={order}&limit={limit}");
            let pages = walk(&bench, &path).await;
            assert_eq!(&joined(&pages), all);
            assert_eq!(pages[0]["prev_page"], Value::Null);
            assert_eq!(pages.len(), all.len().div_ceil(limit));
            // Back again, page by page.
            let mut back = vec![pages.last().unwrap().clone()];
            while let Some(prev) = back.last().unwrap()["prev_page"].as_str() {
                let page = bench.get(&format!("{path}&page={prev}")).await.ok();
                back.push(page);
            }
            back.reverse();
            let first = &back[0];
            assert_eq!(first["prev_page"], Value::Null);
            let seen = joined(&back);
            assert_eq!(&seen, all, "{order} {limit}");
            // Turning round in the middle leads to the same neighbours.
            if let Some(next) = first["next_page"].as_str() {
                let second = bench.get(&format!("{path}&page={next}")).await.ok();
                assert_eq!(ids(&second)[0], all[ids(first).len()]);
            }
        }
    }
}

#[tokio::test]
async fn a_cursor_of_sessions_knows_its_order_and_time() {
    let (bench, asc) = crowd(12).await;
    let page = bench.get("/v1/sessions?order=desc&limit=4").await.ok();
    let next = page["next_page"].as_str().unwrap().to_owned();
    let reply = bench
        .get(&format!("/v1/sessions?order=asc&page={next}"))
        .await;
    insta::assert_json_snapshot!("other_order", reply.shown());
    let at = bench.get(&format!("/v1/sessions/{}", asc[0])).await.ok()["created_at"].clone();
    let at = at.as_str().unwrap();
    let reply = bench
        .get(&format!("/v1/sessions?created_at[lte]={at}&page={next}"))
        .await;
    insta::assert_json_snapshot!("other_time", reply.shown());
    // Limit and the other filters may change, and so may the time where it covers the cursor.
    for query in ["limit=2", "statuses[]=idle", "include_archived=true"] {
        let page = bench
            .get(&format!("/v1/sessions?{query}&page={next}"))
            .await
            .ok();
        assert_eq!(ids(&page)[0], asc[7], "{query}");
    }
    let page = bench
        .get(&format!("/v1/sessions?created_at[gte]={at}&page={next}"))
        .await
        .ok();
    assert_eq!(ids(&page)[0], asc[7]);
    // What lies behind the cursor may be gone; the way back is not.
    let page = bench
        .get(&format!("/v1/sessions?statuses[]=running&page={next}"))
        .await
        .ok();
    assert_eq!((ids(&page), &page["next_page"]), (Vec::new(), &Value::Null));
    let prev = page["prev_page"].as_str().unwrap();
    let back = bench
        .get(&format!("/v1/sessions?limit=4&page={prev}"))
        .await
        .ok();
    assert_eq!(
        ids(&back),
        asc[8..].iter().rev().cloned().collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn entries_that_go_between_pages_leave_no_gap_and_no_double() {
    let (bench, asc) = crowd(12).await;
    let first = bench.get("/v1/sessions?order=asc&limit=4").await.ok();
    bench.delete(&format!("/v1/sessions/{}", asc[3])).await.ok();
    bench.delete(&format!("/v1/sessions/{}", asc[5])).await.ok();
    let next = first["next_page"].as_str().unwrap();
    let second = bench
        .get(&format!("/v1/sessions?order=asc&limit=4&page={next}"))
        .await
        .ok();
    let expected = [&asc[4], &asc[6], &asc[7], &asc[8]].map(String::clone);
    assert_eq!(ids(&second), expected);
}

#[tokio::test]
async fn a_cursor_belongs_to_its_list() {
    let bench = Bench::new().await;
    let (agent, _) = bench.home().await;
    let (other, _) = bench.home().await;
    for n in 0..3 {
        bench
            .post(
                &format!("/v1/agents/{agent}"),
                json!({ "name": format!("n{n}") }),
            )
            .await
            .ok();
    }
    let sessions = [bench.session().await, bench.session().await];
    for session in &sessions {
        bench.say(session, "one").await;
        bench.say(session, "two").await;
    }
    let lists = [
        "/v1/agents?".to_owned(),
        "/v1/environments?".to_owned(),
        "/v1/sessions?".to_owned(),
        format!("/v1/agents/{agent}/versions?"),
        format!("/v1/sessions/{}/events?", sessions[0]),
    ];
    for from in &lists {
        let page = bench.get(&format!("{from}limit=1")).await.ok();
        let next = page["next_page"]
            .as_str()
            .unwrap_or_else(|| panic!("{from}"))
            .to_owned();
        for to in &lists {
            let reply = bench.get(&format!("{to}page={next}")).await;
            if from == to {
                reply.ok();
            } else {
                let told = reply.refused(400);
                assert!(
                    told.starts_with("page: is a cursor of another list"),
                    "{told}"
                );
            }
        }
        for elsewhere in [
            format!("/v1/agents/{other}/versions?"),
            format!("/v1/sessions/{}/events?", sessions[1]),
            format!("/v1/sessions/{}/events?order=desc&", sessions[0]),
        ] {
            let told = bench
                .get(&format!("{elsewhere}page={next}"))
                .await
                .refused(400);
            assert!(
                told.starts_with("page: is a cursor of"),
                "{elsewhere}: {told}"
            );
        }
    }
}

#[tokio::test]
async fn plain_lists_page_to_their_end() {
    let bench = Bench::with(Setup {
        step: Duration::ZERO,
        ..Default::default()
    })
    .await;
    let mut agents = Vec::new();
    let mut environments = Vec::new();
    for n in 0..25 {
        if n % 4 == 0 {
            bench.clock.advance(Duration::from_micros(1));
        }
        let agent = bench
            .post("/v1/agents", json!({ "name": "a", "model": "full" }))
            .await
            .ok();
        agents.push((agent["created_at"].as_str().unwrap().to_owned(), id(&agent)));
        let place = bench
            .post("/v1/environments", json!({ "name": "a" }))
            .await
            .ok();
        environments.push((place["created_at"].as_str().unwrap().to_owned(), id(&place)));
    }
    for (path, mut made) in [
        ("/v1/agents", agents.clone()),
        ("/v1/environments", environments),
    ] {
        made.sort();
        let expected: Vec<_> = made.into_iter().rev().map(|(_, id)| id).collect();
        for limit in [1, 7, 20, 100] {
            let pages = walk(&bench, &format!("{path}?limit={limit}")).await;
            assert_eq!(joined(&pages), expected);
            assert!(pages.iter().all(|page| page.get("prev_page").is_none()));
        }
        assert_eq!(
            ids(&bench.get(path).await.ok()).len(),
            20,
            "the default page"
        );
    }
    let agent = &agents[0].1;
    for n in 0..24 {
        bench
            .post(
                &format!("/v1/agents/{agent}"),
                json!({ "name": format!("n{n}") }),
            )
            .await
            .ok();
    }
    bench
        .poke(&format!("/v1/agents/{agent}/archive"))
        .await
        .ok();
    for limit in [1, 8, 25] {
        let pages = walk(
            &bench,
            &format!("/v1/agents/{agent}/versions?limit={limit}"),
        )
        .await;
        let versions = pages
            .iter()
            .flat_map(|page| page["data"].as_array().unwrap().clone());
        let versions: Vec<_> = versions
            .map(|agent| agent["version"].as_u64().unwrap())
            .collect();
        assert_eq!(versions, (1..=25).rev().collect::<Vec<_>>());
    }
}

/// Lists events page by page while inputs arrive and are taken in; whatever was there at first is
/// listed once.
async fn shifting(seed: u64, order: &str) {
    let bench = Bench::with(Setup {
        seed,
        ..Default::default()
    })
    .await;
    let random = Seeded::new(seed);
    let session = bench.session().await;
    let path = format!("/v1/sessions/{session}/events");
    bench.say(&session, "first").await;
    let brain = Brain::new(bench.lease().await);
    brain.take_in().await;
    let mut open = Some(brain.begin().await.0);
    for _ in 0..random.below(12) {
        bench.say(&session, "waits").await;
    }
    let before: Vec<_> = bench.log(&session).await.iter().map(id).collect();
    let limit = 1 + random.below(5);
    let path_with = format!("{path}?order={order}&limit={limit}");
    let mut listed = Vec::new();
    let mut page = bench.get(&path_with).await.ok();
    loop {
        listed.extend(ids(&page));
        let Some(next) = page["next_page"].as_str().map(str::to_owned) else {
            break;
        };
        for _ in 0..random.below(3) {
            match random.below(3) {
                0 => {
                    bench.say(&session, "more").await;
                }
                1 => {
                    // A turn's end takes in all that waits.
                    if let Some(request) = open.take() {
                        let said = crate::brain::said(brain.lease.event_id(), &["x"]);
                        brain.respond(request, vec![said]).await;
                        brain.finish(request).await;
                    }
                    brain.take_in().await;
                }
                _ => {
                    if open.is_none() && listed.len() < 30 {
                        bench.say(&session, "again").await;
                        brain.take_in().await;
                        open = Some(brain.begin().await.0);
                    }
                }
            }
        }
        page = bench.get(&format!("{path_with}&page={next}")).await.ok();
        assert!(listed.len() < 400, "no end");
    }
    let mut once = listed.clone();
    once.sort();
    once.dedup();
    assert_eq!(
        once.len(),
        listed.len(),
        "seed {seed} {order}: a double in {listed:?}"
    );
    for event in &before {
        assert!(
            listed.contains(event),
            "seed {seed} {order}: {event} is missing in {listed:?}"
        );
    }
}

#[tokio::test]
async fn a_list_that_shifts_has_no_gap_and_no_double() {
    for seed in 0..25 {
        shifting(seed, "asc").await;
        shifting(seed, "desc").await;
    }
}

#[tokio::test]
async fn events_page_in_both_orders() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    for _ in 0..3 {
        bench.say(&session, "x").await;
        Brain::new(bench.lease().await).answer("y").await;
    }
    let body = json!({ "events": [message("a"), message("b"), message("c")] });
    bench
        .post(&format!("/v1/sessions/{session}/events"), body)
        .await
        .ok();
    let all: Vec<_> = bench.log(&session).await.iter().map(id).collect();
    let threads = bench
        .get(&format!("/v1/sessions/{session}/threads"))
        .await
        .ok();
    let thread = id(&threads["data"][0]);
    for limit in [1, 2, 5, all.len() - 3, all.len(), 1_000] {
        let path = format!("/v1/sessions/{session}/events?limit={limit}");
        let pages = walk(&bench, &path).await;
        assert_eq!(joined(&pages), all);
        assert_eq!(pages.len(), all.len().div_ceil(limit), "{limit}");
        let mut backwards = joined(&walk(&bench, &format!("{path}&order=desc")).await);
        backwards.reverse();
        assert_eq!(backwards, all);
        let own = format!("/v1/sessions/{session}/threads/{thread}/events?limit={limit}");
        assert_eq!(joined(&walk(&bench, &own).await), all);
        let typed = format!("{path}&types[]=user.message");
        let messages = joined(&walk(&bench, &typed).await);
        assert_eq!(messages.len(), 6);
    }
}

#[tokio::test]
async fn pages_of_large_events_leave_nothing_out() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let large = "x".repeat(7 << 20);
    for _ in 0..4 {
        bench.say(&session, &large).await;
        Brain::new(bench.lease().await).answer("y").await;
    }
    let path = format!("/v1/sessions/{session}/events?limit=");
    let all = joined(&walk(&bench, &format!("{path}1")).await);
    let wide = walk(&bench, &format!("{path}1000")).await;
    assert_eq!(joined(&wide), all);
    assert!(wide.len() > 1, "a page has about 16 MiB at most");
    let mut backwards = joined(&walk(&bench, &format!("{path}1000&order=desc")).await);
    backwards.reverse();
    assert_eq!(backwards, all);
    let typed = walk(&bench, &format!("{path}1000&types[]=user.message")).await;
    assert_eq!(joined(&typed).len(), 4);
}
