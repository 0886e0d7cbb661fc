//! Notes of checkpoints: a blob that the log names is never removed, and one that it does not name
//! always goes, whatever happens to the append that was to name it.

use std::time::Duration;

use outlast_protocol::id::SessionId;
use outlast_session::Proposal;
use outlast_store::Append;
use outlast_testkit::faulty::Fault;

use crate::{
    checkpoints::{USUAL, keys, named, pass, recorded, results, state, turn, world},
    lives::{Life, World},
};

/// Meets the next checkpoint that a life has the log name with a fault.
fn meet(life: &Life, fault: Fault) {
    let mut left = true;
    life.store.hook(move |_, _, append: &Append| {
        let meets = left && matches!(append.proposal, Proposal::Checkpoint(_));
        left &= !meets;
        if meets { fault } else { Fault::None }
    });
}

/// Asserts that what the log names is there, and, after a while, nothing else.
async fn settled(world: &World, life: &Life, session: SessionId) {
    let before = named(life, session).await;
    assert!(before.iter().all(|blob| keys(world).contains(blob)));
    pass(15).await;
    // By now it may be a newer one.
    assert_eq!(keys(world), named(life, session).await);
}

#[tokio::test(start_paused = true)]
async fn one_that_was_not_named_goes_once_the_store_is_back() {
    let (world, life, session) = world(USUAL).await;
    turn(&life, session).await;
    let gate = world.blobs.hold();
    pass(15).await;
    assert_eq!(keys(&world).len(), 1, "it is stored and not named yet");
    life.store.away(true);
    gate.close();
    world.blobs.hold_no_more();
    pass(15).await;
    assert_eq!(
        keys(&world).len(),
        1,
        "nobody can say yet what the log names"
    );
    life.store.away(false);
    pass(10).await;
    assert_eq!(recorded(&world, session).await, 0);
    settled(&world, &life, session).await;
    pass(60).await;
    assert_eq!(recorded(&world, session).await, 1);
    settled(&world, &life, session).await;
}

#[tokio::test(start_paused = true)]
async fn one_whose_note_was_lost_goes_too() {
    let (world, life, session) = world(USUAL).await;
    turn(&life, session).await;
    life.store.away(true);
    pass(25).await;
    life.store.away(false);
    pass(60).await;
    assert_eq!(recorded(&world, session).await, 1);
    settled(&world, &life, session).await;
}

#[tokio::test(start_paused = true)]
async fn one_stays_that_was_named_unheard() {
    for away in [false, true] {
        let (world, life, session) = world(USUAL).await;
        turn(&life, session).await;
        pass(15).await;
        turn(&life, session).await;
        meet(&life, Fault::After);
        pass(11).await;
        life.store.away(away);
        pass(20).await;
        life.store.away(false);
        assert_eq!(recorded(&world, session).await, 2);
        settled(&world, &life, session).await;
        world.hands.vanish();
        turn(&life, session).await;
        let results = results(&world, session).await;
        assert!(results[2].contains("what was written after"), "{results:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_a_process_that_was_declared_dead_is_named_never_or_for_good() {
    for late in [1, 10, 25, 60] {
        let (mut world, life, session) = world(USUAL).await;
        turn(&life, session).await;
        meet(&life, Fault::Late(Duration::from_secs(late)));
        pass(12).await;
        assert_eq!(keys(&world).len(), 1);
        // It goes on all the same: it was only cut off.
        world.schedule = outlast_kernel::Schedule::NEVER;
        let next = world.start(None).await;
        for _ in 0..80 {
            pass(1).await;
            let there = keys(&world);
            let named = named(&next, session).await;
            assert!(named.iter().all(|blob| there.contains(blob)), "{late}");
        }
        // Until it ends, it tries again and again.
        drop(life);
        settled(&world, &next, session).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_is_taken_with_a_clock_that_was_set_back() {
    let (world, life, session) = world(USUAL).await;
    turn(&life, session).await;
    pass(15).await;
    let first = state(&life, session).await.checkpoint().cloned().unwrap();
    for (number, back) in [(2, 3_600), (3, 0), (4, 86_400)] {
        turn(&life, session).await;
        world.clock.jump(-back);
        pass(15).await;
        assert_eq!(
            recorded(&world, session).await,
            number,
            "set back by {back} s"
        );
        settled(&world, &life, session).await;
    }
    drop(life);
    world.clock.jump(-3_600);
    let life = world.start(None).await;
    turn(&life, session).await;
    pass(15).await;
    assert_eq!(recorded(&world, session).await, 5, "across a restart too");
    let last = state(&life, session).await.checkpoint().cloned().unwrap();
    assert!(last.at > first.at);
    settled(&world, &life, session).await;
    let log = world.log(session).await;
    assert!(log.is_sorted_by_key(|record| record.at));
    // What came since is known as such: the next server saves it unasked.
    turn(&life, session).await;
    drop(life);
    world.clock.jump(-3_600);
    let life = world.start(None).await;
    pass(20).await;
    assert_eq!(recorded(&world, session).await, 6);
    settled(&world, &life, session).await;
}
