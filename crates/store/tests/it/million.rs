//! A session of a million records: what it costs to list, follow, wake and delete it, and what its
//! neighbours notice.
//!
//! Ignored, because it takes its time; it prints figures, and fails only where cost follows the log.
//! `cargo nextest run -p outlast-store million --run-ignored all --no-capture`

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use outlast_protocol::id::{EventId, SessionId};
use outlast_session::{
    Act, Answer, Body, Claim, Decision, Draft, DraftBody, Fence, Input, Kind, Origin, Proposal,
    Record, Send, State, Step, json,
};
use outlast_store::{
    End, Intake as _, Material, Order, Slice,
    conformance::fixture::{Log, World},
    seal,
};
use serde_json::json;
use tokio::time::Instant;

use crate::kit::Kit;

/// Records of the long session.
const LONG: usize = 1_000_000;

/// Records of the one that it is compared with.
const SHORT: usize = 100;

/// Messages that a neighbour sends to a session.
const SOME: usize = 100;

/// What a figure of the long session may be of the short one's, and a floor for what is small.
const RATIO: f64 = 20.0;
const FLOOR: Duration = Duration::from_millis(20);

/// What neighbours may notice of anything that is done to it.
const STALL: Duration = Duration::from_millis(500);

/// Makes a log of so many records: a session that spoke and spoke, and has a message that waits.
async fn log(world: &World, count: usize) -> Log {
    let session = world.session().await;
    let mut records = world.log(session).await;
    let last = records.last().unwrap();
    let end = End {
        tail: last.position,
        hash: last.hash,
    };
    let body = json(&json!({ "content": [{ "type": "text", "text": "words ".repeat(20) }] }));
    let draft = |kind| Draft {
        thread: 0,
        kind,
        event: Some(world.event()),
        body: DraftBody::Json(body.clone()),
    };
    let mut drafts: Vec<_> = (records.len() + 1..count)
        .map(|_| draft(Kind::AgentMessage))
        .collect();
    drafts.push(draft(Kind::ArrivedMessage));
    let decision = Decision {
        drafts,
        origin: Origin::Server,
        at: last.at,
        state: State::blank(session),
        answer: Answer::Appended,
    };
    let mut find = |draft: &Draft, _: &[Record]| match &draft.body {
        DraftBody::Json(body) => Ok::<_, io::Error>(Material::fresh(body, &*world.entropy)),
        DraftBody::Copy(_) => Err(io::ErrorKind::Unsupported.into()),
    };
    records.extend(seal(&decision, end, &mut find).unwrap());
    Log { session, records }
}

/// Measures something that is done some times; returns the longest.
async fn longest<T>(times: usize, mut doing: impl AsyncFnMut() -> T) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..times {
        let began = Instant::now();
        drop(doing().await);
        longest = longest.max(began.elapsed());
    }
    longest
}

/// What was measured of a session.
#[derive(Debug)]
struct Figures(Vec<(&'static str, Duration)>);

/// Reads of a session what clients, brains and operators read.
async fn figures(world: &World, session: SessionId, event: EventId) -> Figures {
    let tail = world.state(session).await.tail;
    let page = |from, order| Slice {
        order,
        public: true,
        ..Slice::after(from, 100)
    };
    let read = async |slice: Slice| world.store.read(session, slice).await.unwrap();
    let kinds = Slice {
        kinds: vec![Kind::ArrivedMessage],
        order: Order::Backwards,
        ..Slice::after(tail + 1, 10)
    };
    let at = world.clock.now();
    let watch = async || world.store.watch(session).await.unwrap();
    Figures(vec![
        (
            "first page",
            longest(20, async || read(page(0, Order::Forwards)).await).await,
        ),
        (
            "page in the middle",
            longest(20, async || read(page(tail / 2, Order::Forwards)).await).await,
        ),
        (
            "newest page",
            longest(20, async || read(page(tail + 1, Order::Backwards)).await).await,
        ),
        (
            "newest arrivals",
            longest(20, async || read(kinds.clone()).await).await,
        ),
        (
            "an event",
            longest(20, async || world.store.find(session, event).await.unwrap()).await,
        ),
        (
            "a moment",
            longest(20, async || {
                world.store.position_at(session, at).await.unwrap()
            })
            .await,
        ),
        ("stream begins", longest(20, watch).await),
        (
            "who is ready",
            longest(20, async || world.store.ready(at, 16).await.unwrap()).await,
        ),
        (
            "who is unfinished",
            longest(20, async || world.store.unfinished(100).await.unwrap()).await,
        ),
    ])
}

/// Appends to a session of its own until it is told to stop; returns the longest wait.
async fn neighbour(world: World, stop: Arc<AtomicBool>) -> Duration {
    let mut longest = Duration::ZERO;
    while !stop.load(Ordering::SeqCst) {
        // A new one each time: so many may wait in a session, and no more.
        let session = world.session().await;
        for _ in 0..SOME {
            let began = Instant::now();
            world.send(session, "hello").await;
            longest = longest.max(began.elapsed());
            tokio::time::sleep(Duration::from_millis(1)).await;
            if stop.load(Ordering::SeqCst) {
                break;
            }
        }
    }
    longest
}

/// Does something to a store, and returns how long that took and what a neighbour noticed.
async fn beside<T>(world: &World, doing: impl Future<Output = T>) -> (T, Duration, Duration) {
    let stop = Arc::<AtomicBool>::default();
    let tracker = tokio_util::task::TaskTracker::new();
    let beside = tracker.spawn(neighbour(world.clone(), stop.clone()));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let began = Instant::now();
    let done = doing.await;
    let took = began.elapsed();
    stop.store(true, Ordering::SeqCst);
    (done, took, beside.await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a million records take their time"]
async fn a_million_records_cost_what_a_page_costs() {
    let root = tempfile::tempdir().unwrap();
    let from = Kit::open(&root.path().join("from"), 1)
        .await
        .unwrap()
        .world()
        .await;
    let kit = Kit::open(&root.path().join("to"), 2).await.unwrap();
    let world = kit.world().await;
    let (long, short) = (log(&from, LONG).await, log(&from, SHORT).await);
    let event = |log: &Log| log.records[log.records.len() / 2].event.unwrap();
    let (events, sessions) = ([event(&short), event(&long)], [short.session, long.session]);
    assert!(matches!(long.records[LONG / 2].body, Body::Json(_)));
    kit.store.take_in(Arc::new(short)).await.unwrap();
    let took = Instant::now();
    kit.store.take_in(Arc::new(long)).await.unwrap();
    eprintln!("taking it in: {:?}", took.elapsed());

    let few = figures(&world, sessions[0], events[0]).await;
    let (many, _, noticed) = beside(&world, figures(&world, sessions[1], events[1])).await;
    eprintln!("{:<20} {:>12} {:>12}", "", "100", "1,000,000");
    for ((what, few), (_, many)) in few.0.iter().zip(&many.0) {
        eprintln!("{what:<20} {few:>12.1?} {many:>12.1?}");
        let bound = few.mul_f64(RATIO).max(FLOOR);
        assert!(
            *many < bound,
            "{what}: {many:?} of a long log, {few:?} of a short one"
        );
    }
    eprintln!("neighbours waited {noticed:.1?} while it was read");

    // Woken: claimed for, and a brain's first look at it.
    for (name, session) in [("100", sessions[0]), ("1,000,000", sessions[1])] {
        let claim = Proposal::Claim {
            thread: 0,
            claim: Claim {
                process: world.process,
                dead: None,
            },
        };
        let (claimed, took, noticed) = beside(&world, world.propose(session, claim)).await;
        assert_eq!(claimed.unwrap().answer, Answer::Appended);
        eprintln!("waking {name}: {took:.1?}, neighbours waited {noticed:.1?}");
        assert!(took < STALL && noticed < STALL);
    }
    gone(&world, sessions[1]).await;
}

/// Has its brain give it back and its client stop it, so that it can be deleted.
async fn rest(world: &World, session: SessionId) {
    let fence = Fence {
        epoch: 1,
        seq: 1,
        acked: 0,
    };
    let release = Proposal::Brain {
        thread: 0,
        fence,
        step: Step::Release,
    };
    world.propose(session, release).await.unwrap();
    // The first interrupt has the message taken in that waits, the second ends its turn.
    for _ in 0..2 {
        let input = Input {
            act: Act::Interrupt { thread: None },
            body: json(&json!({})),
        };
        let (inputs, by) = (vec![input], world.key);
        let interrupt = Proposal::Send(Send {
            inputs,
            by,
            claim: None,
        });
        world.propose(session, interrupt).await.unwrap();
    }
}

/// Deletes it, and has its rows removed in small steps.
async fn gone(world: &World, session: SessionId) {
    rest(world, session).await;
    let purged = async {
        let deleted = world.propose(session, Proposal::Delete(world.key)).await;
        assert_eq!(deleted.unwrap().answer, Answer::Appended);
        let mut longest = Duration::ZERO;
        loop {
            let began = Instant::now();
            let removed = world.store.purge(500).await.unwrap();
            longest = longest.max(began.elapsed());
            if removed == 0 {
                return longest;
            }
        }
    };
    let (longest, took, noticed) = beside(world, purged).await;
    eprintln!(
        "purging: {took:.1?}, the longest step {longest:.1?}, neighbours waited {noticed:.1?}"
    );
    assert!(noticed < STALL, "neighbours waited {noticed:?}");
}
