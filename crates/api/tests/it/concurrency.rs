//! Many at once: list and stream are one truth.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use outlast_testkit::random::Seeded;
use serde_json::{Value, json};

use crate::{
    bench::{Bench, Setup, id},
    brain::Brain,
    reader::Frame,
};

/// Works on whatever comes until the session is over.
async fn work(bench: Arc<Bench>, over: Arc<AtomicBool>) {
    while !over.load(Ordering::SeqCst) {
        tokio::select! {
            lease = bench.lease() => answer(Brain::new(lease)).await,
            () = until(&over) => return,
        }
    }
}

async fn until(over: &AtomicBool) {
    while !over.load(Ordering::SeqCst) {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// Answers until nothing waits.
async fn answer(brain: Brain) {
    loop {
        brain.take_in().await;
        let state = brain.lease.state();
        let Some(thread) = brain.lease.held(&state) else {
            return;
        };
        if thread.turn.is_none() {
            return;
        }
        let (request, at) = brain.begin().await;
        let message = brain.start(at);
        brain.delta(message, 0, "te");
        tokio::task::yield_now().await;
        brain.delta(message, 0, "xt");
        brain
            .respond(request, vec![crate::brain::said(message, &["text"])])
            .await;
        brain.finish(request).await;
        let stop = outlast_session::Stop::EndTurn;
        let end = brain.propose(outlast_session::Step::EndTurn(stop)).await;
        if end == outlast_session::Answer::Appended {
            return;
        }
    }
}

/// Reads as the documented recipe says: open the stream, list the history, drop what was listed.
async fn follow(bench: Arc<Bench>, session: String, late: u64) -> Vec<Value> {
    for _ in 0..late {
        tokio::task::yield_now().await;
    }
    let mut reader = bench.follow(&session, None).await;
    let mut seen = bench.log(&session).await;
    let placed = |event: &Value| event["processed_at"].is_string();
    seen.retain(placed);
    while let Some(frame) = reader.next().await {
        let known = seen.iter().any(|event| id(event) == frame.event());
        if placed(&frame.data) && !known {
            seen.push(frame.data);
        }
    }
    seen
}

/// Reads with interruptions, each time resuming behind the last position.
async fn resume(bench: Arc<Bench>, session: String, random: Arc<Seeded>) -> Vec<Frame> {
    let mut last = 0;
    let mut all = Vec::new();
    loop {
        let mut reader = bench.follow(&session, Some(last)).await;
        let keep = 1 + random.below(10);
        for _ in 0..keep {
            let Some(frame) = reader.next().await else {
                return all;
            };
            let position = frame.id.unwrap();
            assert!(position > last, "{position} after {last}");
            last = position;
            all.push(frame);
        }
        let end = all
            .last()
            .is_some_and(|frame| frame.name == "session.status_terminated");
        if end {
            return all;
        }
    }
}

async fn run(seed: u64) {
    let bench = Arc::new(
        Bench::with(Setup {
            seed,
            ..Default::default()
        })
        .await,
    );
    let random = Arc::new(Seeded::new(seed));
    let session = bench.session().await;
    let over = Arc::new(AtomicBool::new(false));
    let brains: Vec<_> = (0..2)
        .map(|_| tokio::spawn(work(bench.clone(), over.clone())))
        .collect();
    let readers: Vec<_> = (0..4)
        .map(|_| tokio::spawn(follow(bench.clone(), session.clone(), random.below(200))))
        .collect();
    let resumed = tokio::spawn(resume(bench.clone(), session.clone(), random.clone()));
    let senders: Vec<_> = (0..4)
        .map(|_| {
            let (bench, session) = (bench.clone(), session.clone());
            tokio::spawn(async move {
                let mut sent = Vec::new();
                for n in 0..8 {
                    sent.push(bench.say(&session, &n.to_string()).await);
                    tokio::task::yield_now().await;
                }
                sent
            })
        })
        .collect();
    let mut sent = Vec::new();
    for sender in senders {
        sent.extend(sender.await.unwrap());
    }
    let archive = format!("/v1/sessions/{session}/archive");
    while bench.poke(&archive).await.status != 200 {
        tokio::task::yield_now().await;
    }
    over.store(true, Ordering::SeqCst);
    for brain in brains {
        brain.await.unwrap();
    }
    let log = bench.log(&session).await;
    for event in &sent {
        assert_eq!(log.iter().filter(|listed| id(listed) == *event).count(), 1);
    }
    for reader in readers {
        assert_eq!(reader.await.unwrap(), log, "seed {seed}");
    }
    let resumed = resumed.await.unwrap();
    let placed: Vec<_> = resumed
        .into_iter()
        .map(|frame| frame.data)
        .filter(|event| event["processed_at"].is_string())
        .collect();
    assert_eq!(json!(placed), json!(log), "seed {seed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_reader_ends_with_the_list() {
    for seed in 0..10 {
        run(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_stream_shows_is_listed_already() {
    let bench = Arc::new(Bench::new().await);
    let session = bench.session().await;
    let mut reader = bench.follow(&session, None).await;
    let over = Arc::new(AtomicBool::new(false));
    let brain = tokio::spawn(work(bench.clone(), over.clone()));
    for n in 0..20 {
        bench.say(&session, &n.to_string()).await;
    }
    for _ in 0..60 {
        let frame = reader.next().await.unwrap();
        let log = bench.log(&session).await;
        assert!(
            log.iter().any(|event| id(event) == frame.event()),
            "{frame:?}"
        );
    }
    over.store(true, Ordering::SeqCst);
    brain.await.unwrap();
}
