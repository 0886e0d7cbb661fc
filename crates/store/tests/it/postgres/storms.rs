//! A database that dies under a storm of appends: nothing that was acknowledged is lost, nothing
//! stands twice, and whoever waits is told what came of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use outlast_protocol::id::SessionId;
use outlast_session::{Answer, Proposal};
use outlast_store::{
    Append, AppendError, Log as _, ReadError, Slice,
    conformance::fixture::{World, note},
    postgres::Postgres,
};
use outlast_testkit::{
    postgres::{Stop, Syncs},
    random::Seeded,
};
use tokio::{task::JoinSet, time::sleep};

use super::{kit::Kit, nodes::whole};

const BRAINS: usize = 8;
const CLIENTS: usize = 4;

/// Writers, until they are told to stop.
struct Storm {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    writers: JoinSet<Told>,
}

/// What a writer was told of its session.
struct Told {
    session: SessionId,
    /// Position and text of each append that was acknowledged.
    stands: Vec<(u64, String)>,
    /// Texts of those that were told to have come to nothing.
    failed: Vec<String>,
}

impl Storm {
    async fn begin(world: &World) -> Self {
        let (stop, acknowledged) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let mut writers = JoinSet::new();
        for _ in 0..BRAINS {
            let brain = world.running().await;
            let (stop, count) = (stop.clone(), acknowledged.clone());
            let (session, epoch, seq) = (brain.session, brain.epoch, brain.seq);
            writers.spawn(notes(world.clone(), session, epoch, seq, stop, count));
        }
        for _ in 0..CLIENTS {
            let session = world.session().await;
            let (stop, count) = (stop.clone(), acknowledged.clone());
            writers.spawn(messages(world.clone(), session, stop, count));
        }
        Self {
            stop,
            acknowledged,
            writers,
        }
    }

    /// Waits for that many more acknowledgements.
    async fn passes(&self, more: u64) {
        let wanted = self.acknowledged.load(Ordering::Relaxed) + more;
        while self.acknowledged.load(Ordering::Relaxed) < wanted {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends it, and compares what was told with what stands.
    async fn check(self, world: &World) {
        self.stop.store(true, Ordering::Relaxed);
        for told in self.writers.join_all().await {
            whole(world, told.session).await;
            let log = world.log(told.session).await;
            for (position, text) in &told.stands {
                let mut records = log.iter();
                let record = records.find(|record| record.position == *position);
                let record = record.unwrap();
                assert!(
                    record.body.text().contains(text),
                    "`{text}` at {position} is lost"
                );
            }
            let bodies: Vec<&str> = log.iter().map(|record| record.body.text()).collect();
            let count = |text: &str| bodies.iter().filter(|body| body.contains(text)).count();
            for (_, text) in &told.stands {
                assert_eq!(count(text), 1, "`{text}` stands more than once");
            }
            for text in &told.failed {
                assert_eq!(count(text), 0, "`{text}` was told to have come to nothing");
            }
        }
    }
}

/// A brain that repeats what it got no answer to: each note stands once, in order.
async fn notes(
    world: World,
    session: SessionId,
    epoch: u64,
    mut seq: u64,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
) -> Told {
    let mut stands = Vec::new();
    let mut acked = seq;
    while !stop.load(Ordering::Relaxed) {
        seq += 1;
        let text = format!("note <{seq}> of {session}");
        let fence = outlast_session::Fence { epoch, seq, acked };
        loop {
            let step = note(&text);
            let proposal = Proposal::Brain {
                thread: 0,
                fence,
                step,
            };
            match world.propose(session, proposal).await {
                Ok(outcome) => {
                    // A repeat would mean that an answer was lost, and none is.
                    assert_eq!(outcome.answer, Answer::Appended);
                    stands.push((outcome.records.first().unwrap().position, text));
                    break;
                }
                Err(AppendError::Unavailable(_)) => sleep(Duration::from_millis(20)).await,
                Err(error) => panic!("{error}"),
            }
        }
        acked = seq;
        count.fetch_add(1, Ordering::Relaxed);
    }
    let failed = Vec::new();
    Told {
        session,
        stands,
        failed,
    }
}

/// A client that never repeats: what it was told of each message has to be true.
async fn messages(
    world: World,
    session: SessionId,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
) -> Told {
    let (mut stands, mut failed) = (Vec::new(), Vec::new());
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) && number < 900 {
        number += 1;
        let text = format!("message <{number}> of {session}");
        match world.propose(session, world.message(&text)).await {
            Ok(outcome) => {
                stands.push((outcome.records.first().unwrap().position, text));
                count.fetch_add(1, Ordering::Relaxed);
            }
            Err(AppendError::Unavailable(_)) => {
                failed.push(text);
                sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    Told {
        session,
        stands,
        failed,
    }
}

/// Follows a session from the start, as a reader does: registers, reads to the head, waits.
async fn follow(store: Postgres, session: SessionId, until: Arc<AtomicU64>) {
    let mut seen = 0;
    let mut tail = store.watch(session).await.unwrap();
    loop {
        let head = *tail.borrow_and_update();
        while seen < head {
            match store.read(session, Slice::after(seen, 50)).await {
                Ok(page) => {
                    for record in page {
                        assert_eq!(record.position, seen + 1, "no gap, no double");
                        seen = record.position;
                    }
                }
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
        if seen >= until.load(Ordering::Relaxed) {
            return;
        }
        let waited = tokio::time::timeout(Duration::from_secs(60), tail.changed()).await;
        waited.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_the_database_that_are_killed_lose_nothing() {
    let kit = Kit::start(Syncs::None);
    let (_store, world) = kit.world("postgres", "one").await;
    let storm = Storm::begin(&world).await;
    let random = Seeded::new(5);
    for _ in 0..25 {
        storm.passes(20 + random.below(60)).await;
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                    WHERE application_name = 'outlast' ORDER BY random() LIMIT 2";
        kit.cluster.tell(kill).unwrap();
    }
    storm.passes(100).await;
    storm.check(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_crashes_and_comes_back_loses_nothing() {
    let mut kit = Kit::start(Syncs::All);
    let (_store, world) = kit.world("postgres", "one").await;
    let storm = Storm::begin(&world).await;
    for round in 0..4 {
        storm.passes(100).await;
        kit.cluster.stop(Stop::Immediate);
        if round == 3 {
            // Long enough for writers to be told that it is away.
            sleep(Duration::from_secs(5)).await;
        }
        kit.cluster.resume();
    }
    storm.passes(100).await;
    storm.check(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_stands_still_and_goes_on_loses_nothing() {
    let mut kit = Kit::start(Syncs::None);
    kit.silence = Duration::from_secs(2);
    let (_store, world) = kit.world("postgres", "one").await;
    let quiet = world.session().await;
    let storm = Storm::begin(&world).await;
    for round in 0..3 {
        storm.passes(100).await;
        kit.cluster.freeze();
        if round == 2 {
            // Nobody waits for ever: what was not sent is told to have come to nothing.
            let told = tokio::time::timeout(Duration::from_secs(40), async {
                let sent = world.propose(quiet, world.message("unheard"));
                (sent.await, world.store.head(quiet).await)
            });
            let (sent, head) = told.await.unwrap();
            assert!(matches!(sent, Err(AppendError::Unavailable(_))), "{sent:?}");
            assert!(matches!(head, Err(ReadError::Unavailable(_))), "{head:?}");
        } else {
            sleep(Duration::from_secs(1 + 3 * round)).await;
        }
        kit.cluster.thaw();
    }
    storm.passes(100).await;
    let log = world.log(quiet).await;
    assert!(
        !log.iter()
            .any(|record| record.body.text().contains("unheard"))
    );
    storm.check(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_miss_nothing_when_messages_are_lost() {
    let kit = Kit::start(Syncs::None);
    let (_here, here) = kit.world("postgres", "here").await;
    let there = kit.open("postgres", "there").await.unwrap();
    let session = here.session().await;
    let until = Arc::new(AtomicU64::new(u64::MAX));
    let followers: JoinSet<()> = (0..3)
        .map(|_| follow(there.clone(), session, until.clone()))
        .collect();
    let mut last = 0;
    for round in 0..60 {
        if round % 6 == 3 {
            let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                        WHERE query LIKE 'LISTEN %' OR query LIKE 'SELECT pg_notify%'";
            kit.cluster.tell(kill).unwrap();
        }
        let append = Append {
            proposal: here.message(&round.to_string()),
            receipt: None,
        };
        last = here.store.append(session, append).await.unwrap().state.tail;
    }
    until.store(last, Ordering::Relaxed);
    // One more, so that whoever has seen the last one looks again.
    here.send(session, "the end").await;
    followers.join_all().await;
}
