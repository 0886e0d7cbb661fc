//! A process that is killed at any moment loses nothing that it was told is durable.

use std::{collections::HashMap, io::Write as _, path::Path, process::Stdio, time::Duration};

use outlast_protocol::id::SessionId;
use outlast_session::{Claim, Fence, Proposal, Record, State, Step, fold};
use outlast_store::{
    Append, Log as _,
    conformance::fixture::{World, note},
    verify,
};
use outlast_testkit::random::Seeded;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    task::JoinSet,
};

use crate::kit::Kit;

const DIR: &str = "OUTLAST_TEST_CRASH_DIR";
const SEED: &str = "OUTLAST_TEST_CRASH_SEED";
const ROUNDS: u64 = 20;
const SESSIONS: usize = 12;

/// What the dead process was told: the hash at a position of a session.
type Acked = HashMap<SessionId, HashMap<u64, String>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let (random, mut acked) = (Seeded::new(7), Acked::new());
    let mut before = 0;
    for round in 1..=ROUNDS {
        let mut child = start(dir.path(), round);
        kill_somewhere(&mut child, &random, &mut acked).await;
        check(dir.path(), 1_000 + round, &acked).await;
        let now = acked.values().map(HashMap::len).sum();
        assert!(now > before, "round {round} got no further");
        before = now;
    }
}

/// Starts this very binary again, as the process that is to die.
fn start(dir: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "crash::the_process_that_is_killed",
            "--nocapture",
        ])
        .env(DIR, dir)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Kills the process after some acknowledgements, and reads what it was told until then.
async fn kill_somewhere(child: &mut Child, random: &Seeded, acked: &mut Acked) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (last, mut seen) = (1 + random.below(300), 0);
    while let Some(line) = lines.next_line().await.unwrap() {
        let Some(rest) = line.strip_prefix("ack ") else {
            continue;
        };
        let parts: Vec<&str> = rest.split(' ').collect();
        let [session, position, hash] = parts[..] else {
            panic!("`{line}`")
        };
        let session = SessionId::parse(session).unwrap();
        let known = acked.entry(session).or_default();
        known.insert(position.parse().unwrap(), hash.to_owned());
        seen += 1;
        if seen == last {
            tokio::time::sleep(Duration::from_micros(random.below(3_000))).await;
            child.start_kill().unwrap();
        }
    }
    assert!(
        seen >= last,
        "it ended by itself after {seen} acknowledgements"
    );
    child.wait().await.unwrap();
}

/// Opens what is left: every log is whole, holds what was acknowledged, and folds to its head.
async fn check(dir: &Path, seed: u64, acked: &Acked) {
    let kit = Kit::open(dir, seed).await.unwrap();
    for (session, known) in acked {
        let log = read(&kit, *session).await;
        verify(*session, &log).unwrap();
        let found: HashMap<u64, String> = log
            .iter()
            .map(|record| (record.position, hex(&record.hash)))
            .collect();
        for (position, hash) in known {
            assert_eq!(found.get(position), Some(hash), "{session} lost {position}");
        }
        let mut state = State::blank(*session);
        log.iter()
            .for_each(|record| fold(&mut state, &record.entry()).unwrap());
        assert_eq!(state, *kit.store.head(*session).await.unwrap());
    }
    kit.store.close().await;
    let database = rusqlite::Connection::open(dir.join("outlast.db")).unwrap();
    let word: String = database
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(word, "ok");
}

async fn read(kit: &Kit, session: SessionId) -> Vec<Record> {
    let mut log: Vec<Record> = Vec::new();
    loop {
        let from = log.last().map_or(0, |record| record.position);
        let slice = outlast_store::Slice::after(from, 500);
        let page = kit.store.read(session, slice).await.unwrap();
        if page.is_empty() {
            return log;
        }
        log.extend(page);
    }
}

fn hex(hash: &[u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the process that `nothing_acknowledged_is_lost_by_a_kill` starts and kills"]
async fn the_process_that_is_killed() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let seed = std::env::var(SEED).unwrap().parse().unwrap();
    append_for_ever(dir.as_ref(), seed).await;
}

/// Takes over what the process before left, and appends until it is killed.
async fn append_for_ever(dir: &Path, seed: u64) {
    let kit = Kit::open(dir, seed).await.unwrap();
    let world = kit.world().await;
    let mut leases = Vec::new();
    for left in world
        .store
        .ready(outlast_protocol::Micros(i64::MAX), 1_000)
        .await
        .unwrap()
    {
        let claim = Claim {
            process: world.process,
            dead: left.dead,
        };
        let proposal = Proposal::Claim {
            thread: left.thread,
            claim,
        };
        let taken = world.propose(left.session, proposal).await.unwrap();
        leases.push((left.session, taken.state.thread(0).unwrap().epoch, 0));
    }
    while leases.len() < SESSIONS {
        let brain = world.running().await;
        leases.push((brain.session, brain.epoch, brain.seq));
    }
    let mut brains = JoinSet::new();
    for (session, epoch, seq) in leases {
        brains.spawn(say(world.clone(), session, epoch, seq));
    }
    brains.join_all().await;
}

async fn say(world: World, session: SessionId, epoch: u64, mut seq: u64) {
    loop {
        seq += 1;
        // Some bodies go to blobs, which must be there before the record that names them.
        let size = if seq.is_multiple_of(25) { 80_000 } else { 700 };
        let fence = Fence {
            epoch,
            seq,
            acked: seq - 1,
        };
        let step: Step = note(&"n".repeat(size));
        let proposal = Proposal::Brain {
            thread: 0,
            fence,
            step,
        };
        let append = Append {
            proposal,
            receipt: None,
        };
        let outcome = world.store.append(session, append).await.unwrap();
        for record in &*outcome.records {
            let line = format!("ack {session} {} {}\n", record.position, hex(&record.hash));
            std::io::stdout().write_all(line.as_bytes()).unwrap();
        }
    }
}
