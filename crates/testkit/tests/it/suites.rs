//! The suites of the seams, on what lives in memory.

use std::sync::Arc;

use outlast_store::{
    Slice,
    conformance::{self, fixture::Subject},
};
use outlast_testkit::{
    blobs, build::World, faulty::Faulty, memory::Memory, mortal::Mortal, random::Seeded,
    time::ManualClock,
};

fn subject(seed: u64) -> Subject {
    let (clock, entropy) = (
        Arc::new(ManualClock::default()),
        Arc::new(Seeded::new(seed)),
    );
    let store = Arc::new(Memory::new(clock.clone(), entropy.clone()));
    Subject {
        store,
        clock,
        entropy,
    }
}

#[tokio::test(start_paused = true)]
async fn memory_keeps_the_contract_of_a_store() {
    let before = tokio::time::Instant::now();
    conformance::run(async || subject(1)).await;
    assert_eq!(tokio::time::Instant::now(), before, "it needs no time");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_takes_in_whole_logs() {
    let next = std::sync::atomic::AtomicU64::new(1);
    conformance::run_intake(async || {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (clock, entropy) = (
            Arc::new(ManualClock::default()),
            Arc::new(Seeded::new(number)),
        );
        let store = Arc::new(Memory::new(clock.clone(), entropy.clone()));
        let subject = Subject {
            store: store.clone(),
            clock,
            entropy,
        };
        (subject, store)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_store_without_a_fault_keeps_it_too() {
    conformance::run(async || {
        let Subject { clock, entropy, .. } = subject(1);
        let store = Arc::new(Faulty::new(Memory::new(clock.clone(), entropy.clone())));
        Subject {
            store,
            clock,
            entropy,
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_store_of_a_process_that_lives_keeps_it_too() {
    conformance::run(async || {
        let Subject { clock, entropy, .. } = subject(1);
        let memory = Memory::new(clock.clone(), entropy.clone());
        let store = Arc::new(Mortal::under(memory, Arc::default()));
        Subject {
            store,
            clock,
            entropy,
        }
    })
    .await;
}

#[tokio::test]
async fn memory_keeps_the_contract_of_blobs() {
    let fresh = async || Arc::new(blobs::Memory::default()) as Arc<dyn outlast_blobs::Blobs>;
    outlast_blobs::conformance::run(fresh).await;
    let mortal = async || {
        let memory = Arc::new(blobs::Memory::default());
        Arc::new(blobs::Mortal::under(memory, Arc::default())) as Arc<dyn outlast_blobs::Blobs>
    };
    outlast_blobs::conformance::run(mortal).await;
}

/// The same seed gives the same bytes, hashes included.
#[tokio::test(start_paused = true)]
async fn a_run_can_be_repeated() {
    let run = async |seed| {
        let world = World::new(subject(seed)).await;
        let brain = world.running().await;
        world.send(brain.session, "hello").await;
        let log = world
            .store
            .read(brain.session, Slice::after(0, 100))
            .await
            .unwrap();
        assert!(log.len() > 4 && log.iter().all(|record| record.at == world.clock.now()));
        log.iter()
            .map(|record| (record.hash, record.body.text().to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(5).await, run(5).await);
    assert_ne!(run(5).await, run(6).await);
}
