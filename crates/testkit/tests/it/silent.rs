//! Hands that do not answer, and later go on: no turn waits for them for long, and nothing is lost.

use std::time::Duration;

use outlast_protocol::id::SessionId;
use outlast_session::Kind;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::{
    checkpoints::{USUAL, one_call, pass, results, state, turn},
    lives::{Life, World},
};

/// How long anything may take that needs a hand which does not answer.
const SOON: Duration = Duration::from_secs(45);

async fn world() -> (World, Life, SessionId) {
    let mut world = World::new(11).await;
    world.schedule = USUAL;
    let life = world.start(None).await;
    let session = world.session(&life).await;
    (world, life, session)
}

/// Begins a call of ten minutes, during which the hands stop to answer.
async fn silenced(world: &World, life: &Life, session: SessionId) {
    life.send(session, &one_call(600_000)).await;
    while world.hands.asked().is_empty() {
        pass(1).await;
    }
    world.hands.stop(true);
}

async fn rests_soon(life: &Life, session: SessionId) {
    let rested = timeout(SOON, life.rests(session)).await;
    assert!(rested.expect("the turn goes on"));
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_the_turn_whatever_the_hand_does() {
    let (world, life, session) = world().await;
    silenced(&world, &life, session).await;
    let began = Instant::now();
    life.send(session, &json!([{"type": "user.interrupt"}]))
        .await;
    rests_soon(&life, session).await;
    assert!(began.elapsed() < Duration::from_secs(15), "{began:?}");
    pass(60).await;
    world.hands.stop(false);
    pass(1).await;
    let call = world.hands.asked()[0].call;
    assert!(
        world.hands.is_settled(call),
        "it was told to stop once it answered"
    );
    turn(&life, session).await;
    let told = results(&world, session).await;
    assert_eq!(told.len(), 2, "one result of each call: {told:?}");
    assert!(told[0].contains("interrupted"), "{told:?}");
    assert!(told[1].contains("\"is_error\":false"), "{told:?}");
    assert_eq!(
        world.hands.provisioned().len(),
        1,
        "the same sandbox goes on"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_is_given_up_and_the_same_sandbox_is_used_again() {
    let (world, life, session) = world().await;
    silenced(&world, &life, session).await;
    rests_soon(&life, session).await;
    let first = results(&world, session).await;
    assert!(first[0].contains("may have run"), "{first:?}");
    // Known by now: nobody waits again, in a new session neither.
    let (other, began) = (world.session(&life).await, Instant::now());
    turn(&life, session).await;
    turn(&life, other).await;
    assert!(began.elapsed() < Duration::from_secs(1));
    for session in [session, other] {
        let told = results(&world, session).await;
        let last = told.last().unwrap();
        assert!(last.contains("the call did not run"), "{last}");
        assert!(last.contains("has not answered"), "{last}");
    }
    world.hands.stop(false);
    turn(&life, session).await;
    turn(&life, other).await;
    for session in [session, other] {
        let told = results(&world, session).await;
        let last = told.last().unwrap();
        assert!(last.contains("\"is_error\":false"), "{last}");
        assert!(!last.contains("new sandbox"), "{last}");
    }
    assert_eq!(world.hands.provisioned().len(), 2);
    let log = world.log(session).await;
    let settled = log.iter().filter(|r| r.kind == Kind::Settled).count();
    assert_eq!(settled, 3, "a late result is told to nobody");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_only_takes_long_is_waited_for() {
    let (world, life, session) = world().await;
    life.send(session, &one_call(400_000)).await;
    assert!(life.rests(session).await);
    let told = results(&world, session).await;
    assert!(told[0].contains("\"is_error\":false"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn hands_that_answer_in_time_are_waited_for() {
    let (world, life, session) = world().await;
    life.send(session, &one_call(5_000)).await;
    while world.hands.asked().is_empty() {
        pass(1).await;
    }
    world.hands.stop(true);
    pass(20).await;
    world.hands.stop(false);
    assert!(life.rests(session).await);
    let told = results(&world, session).await;
    assert!(told[0].contains("\"is_error\":false"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn the_diagnosis_names_who_does_not_answer() {
    let (world, life, session) = world().await;
    silenced(&world, &life, session).await;
    pass(3).await;
    let found = life.kernel.diagnose(session).await.unwrap();
    assert!(
        found.verdict.contains("has not answered since"),
        "{found:?}"
    );
    assert_eq!(found.troubles[0].kind, "silent");
    let server = life.kernel.diagnose_server().await.unwrap();
    let silent = server.silent.unwrap();
    assert_eq!(server.at.since(silent.since).as_secs(), 3);
    world.hands.stop(false);
    let found = life.kernel.diagnose(session).await.unwrap();
    assert!(found.silent.is_none() && !found.verdict.contains("answered"));
}

#[tokio::test(start_paused = true)]
async fn nothing_else_waits_for_long_either() {
    use outlast_hands::Provisioner as _;

    let (world, life, session) = world().await;
    let (archived, deleted) = (world.session(&life).await, world.session(&life).await);
    for one in [session, archived, deleted] {
        turn(&life, one).await;
    }
    world.hands.stop(true);
    // A checkpoint is due, and asks for what does not answer.
    pass(15).await;
    life.send(session, &one_call(0)).await;
    rests_soon(&life, session).await;
    timeout(SOON, life.archive(archived)).await.unwrap();
    timeout(SOON, life.delete(deleted)).await.unwrap();
    timeout(SOON, life.close()).await.unwrap();
    // What was not ended is found and ended later, by the next process here.
    world.hands.stop(false);
    let next = world.start(None).await;
    pass(100).await;
    let left = state(&next, session).await.hand.unwrap().incarnation;
    assert_eq!(world.hands.list().await, [left]);
}
