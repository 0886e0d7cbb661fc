//! A store that is away for a while: what was to be written is written when it is back, once.

use std::time::Duration;

use outlast_protocol::id::SessionId;
use outlast_session::{Fact, Kind, Proposal, Record, Rules};
use outlast_store::Append;
use outlast_testkit::faulty::Fault;

use tokio::time::{Instant, sleep};

use crate::{
    checkpoints::{one_call, pass, results},
    lives::{Life, World},
};

async fn world() -> (World, Life, SessionId) {
    // None is to spare: what is begun again is told from what went on.
    let rules = Rules {
        attempts: 1,
        ..Rules::default()
    };
    let world = World::under(5, rules).await;
    let life = world.start(None).await;
    let session = world.session(&life).await;
    (world, life, session)
}

/// Waits until a hand has been asked.
async fn asked(world: &World) {
    while world.hands.asked().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
}

fn count(log: &[Record], kind: Kind) -> usize {
    log.iter().filter(|record| record.kind == kind).count()
}

/// Asserts that a turn with one call went as it would have gone, under one lease.
async fn undisturbed(world: &World, session: SessionId) {
    let log = world.log(session).await;
    outlast_store::verify(session, &log).unwrap();
    let kinds = [
        (Kind::Claimed, 1),
        (Kind::RequestStart, 2),
        (Kind::RequestEnd, 2),
        (Kind::Intended, 1),
        (Kind::Settled, 1),
        (Kind::AgentToolResult, 1),
        (Kind::AgentMessage, 1),
        (Kind::SessionError, 0),
    ];
    for (kind, expected) in kinds {
        assert_eq!(count(&log, kind), expected, "{kind}");
    }
    assert_eq!(world.hands.asked().len(), 1);
    let results = results(world, session).await;
    assert!(results[0].contains("\"is_error\":false"), "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_stands_still_and_goes_on_by_itself() {
    for (call, before) in [(0, 0), (5_000, 0), (5_000, 2), (700_000, 1)] {
        let (world, life, session) = world().await;
        life.send(session, &one_call(call)).await;
        asked(&world).await;
        pass(before).await;
        life.store.away(true);
        pass(600).await;
        life.store.away(false);
        assert!(life.rests(session).await);
        undisturbed(&world, session).await;
    }
}

/// Why the log cannot take an append now.
const NO: [Fault; 3] = [Fault::Before, Fault::Full, Fault::Crowded];

#[tokio::test(start_paused = true)]
async fn a_turn_begins_when_the_log_can_take_it() {
    for fault in NO {
        let (world, life, session) = world().await;
        // The claim comes with the message; all that follows fails for a while.
        let since = Instant::now();
        life.store.hook(move |_, _, append: &Append| {
            let claims = matches!(append.proposal, Proposal::Send(_));
            if claims || since.elapsed() > Duration::from_secs(100) {
                Fault::None
            } else {
                fault
            }
        });
        life.send(session, &one_call(0)).await;
        assert!(life.rests(session).await, "{fault:?}");
        undisturbed(&world, session).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_is_never_dropped_because_the_log_has_no_room_for_it() {
    for fault in NO {
        let (world, life, session) = world().await;
        let since = Instant::now();
        life.store.hook(move |_, _, append: &Append| {
            let settles = matches!(
                append.proposal,
                Proposal::Keyed {
                    fact: Fact::Settled(..),
                    ..
                }
            );
            if settles && since.elapsed() < Duration::from_secs(300) {
                fault
            } else {
                Fault::None
            }
        });
        life.send(session, &one_call(0)).await;
        assert!(life.rests(session).await, "{fault:?}");
        undisturbed(&world, session).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_is_asked_for_again() {
    let (world, life, session) = world().await;
    let mut number = 0;
    life.store.hook(move |_, _, append: &Append| {
        if matches!(append.proposal, Proposal::Send(_)) {
            return Fault::None;
        }
        number += 1;
        if number % 2 == 1 {
            Fault::After
        } else {
            Fault::None
        }
    });
    life.send(session, &one_call(0)).await;
    assert!(life.rests(session).await);
    undisturbed(&world, session).await;
}
