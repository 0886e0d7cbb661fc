//! Hands that are let go between two calls: too old, or unused; what of that the model is told.

use std::time::Duration;

use outlast_protocol::id::{IncarnationId, SessionId};
use serde_json::json;

use crate::{
    checkpoints::{USUAL, one_call, pass, results, script, state, turn},
    lives::{Life, World},
};

/// What a result says of a new sandbox.
const TOLD: &str = "the one before ended between two calls";

async fn world(change: impl FnOnce(&mut World)) -> (World, Life, SessionId) {
    let mut world = World::new(13).await;
    world.schedule = USUAL;
    change(&mut world);
    let life = world.start(None).await;
    let session = world.session(&life).await;
    (world, life, session)
}

/// Which results say that the sandbox is a new one.
async fn told(world: &World, session: SessionId) -> Vec<bool> {
    let results = results(world, session).await;
    let fine = results
        .iter()
        .all(|text| text.contains("\"is_error\":false"));
    assert!(fine, "{results:?}");
    results.iter().map(|text| text.contains(TOLD)).collect()
}

/// In which sandbox each call ran.
fn lives(world: &World) -> Vec<IncarnationId> {
    let asked = world.hands.asked();
    asked.iter().map(|asked| asked.incarnation).collect()
}

#[tokio::test(start_paused = true)]
async fn a_hand_grows_not_old_in_a_turn_without_a_pause() {
    let age = Duration::from_secs(12);
    let (world, life, session) = world(|world| world.hand_age = Some(age)).await;
    let call = json!({"name": "bash", "input": {"command": "c", "wait_ms": 3_000}});
    let mut steps = vec![json!({"calls": [call]}); 8];
    steps.push(json!({"text": "end"}));
    life.send(session, &script(&json!(steps))).await;
    assert!(life.rests(session).await);
    let lives = lives(&world);
    assert_eq!(world.hands.provisioned().len(), 2);
    assert_eq!(
        lives[..4],
        [lives[0]; 4],
        "each call is shorter than the age"
    );
    assert_eq!(lives[4..], [lives[7]; 4]);
    let hand = state(&life, session).await.hand.unwrap();
    let workspace = world.hands.workspace(hand.incarnation).unwrap();
    assert_eq!(workspace.lines().count(), 8, "the workspace stays");
    let expected = [false, false, false, false, true, false, false, false];
    assert_eq!(told(&world, session).await, expected);
}

#[tokio::test(start_paused = true)]
async fn calls_side_by_side_get_one_hand_in_place_of_an_old_one() {
    let age = Duration::from_secs(12);
    let (world, life, session) = world(|world| world.hand_age = Some(age)).await;
    let call = |ms: u64| json!({"name": "bash", "input": {"command": "c", "wait_ms": ms}});
    let read = |ms: u64| json!({"name": "read", "input": {"file_path": "f", "wait_ms": ms}});
    let steps = json!([
        {"calls": [call(13_000)]}, {"calls": [read(5_000), read(20_000)]}, {"text": "end"}
    ]);
    life.send(session, &script(&steps)).await;
    assert!(life.rests(session).await);
    let lives = lives(&world);
    assert_eq!(lives[1], lives[2]);
    assert_ne!(lives[0], lives[1]);
    assert_eq!(world.hands.provisioned().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_first_call_after_an_idle_hand_was_let_go_is_told_so_once() {
    let idle = Duration::from_secs(60);
    let (world, life, session) = world(|world| world.hand_idle = idle).await;
    turn(&life, session).await;
    turn(&life, session).await;
    pass(100).await;
    turn(&life, session).await;
    turn(&life, session).await;
    assert_eq!(world.hands.provisioned().len(), 2);
    assert_eq!(told(&world, session).await, [false, false, true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_hand_that_ended_unseen_between_two_calls_is_told_across_a_restart() {
    let (world, life, session) = world(|_| ()).await;
    turn(&life, session).await;
    life.kill();
    world.bury();
    let next = world.start(None).await;
    turn(&next, session).await;
    turn(&next, session).await;
    assert_eq!(told(&world, session).await, [false, true, false]);
}

#[tokio::test(start_paused = true)]
async fn the_bound_that_ended_a_hand_between_two_calls_is_told_once() {
    for restarted in [false, true] {
        let (world, life, session) = world(|_| ()).await;
        turn(&life, session).await;
        let hand = state(&life, session).await.hand.unwrap();
        let why = "the sandbox's disk limit of 8 MiB was passed: it holds 12 MiB";
        world.hands.end(hand.incarnation, why);
        let life = if restarted {
            world.start(None).await
        } else {
            life
        };
        turn(&life, session).await;
        turn(&life, session).await;
        assert_eq!(told(&world, session).await, [false, true, false]);
        let results = results(&world, session).await;
        assert!(
            results[1].contains(&format!("{TOLD} ({why})")),
            "{results:?}"
        );
    }
}

/// Has the hand of a second call die under it, and then one turn more; returns all results.
async fn buried(world: &World, life: &Life, session: SessionId) -> Vec<String> {
    life.send(session, &one_call(60_000)).await;
    while world.hands.asked().len() < 2 {
        pass(1).await;
    }
    world.bury();
    assert!(life.rests(session).await);
    turn(life, session).await;
    results(world, session).await
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_hand_is_not_taken_for_that_of_the_one_before() {
    let (world, life, session) = world(|_| ()).await;
    turn(&life, session).await;
    let hand = state(&life, session).await.hand.unwrap();
    world.hands.end(hand.incarnation, "its limit was passed");
    let results = buried(&world, &life, session).await;
    assert!(
        results[1].contains("(it was killed); the call may have run"),
        "{results:?}"
    );
    assert!(
        results[1].contains(&format!("{TOLD} (its limit was passed)")),
        "{results:?}"
    );
    assert!(!results[2].contains(TOLD), "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn what_an_error_said_is_not_said_again() {
    let (world, life, session) = world(|_| ()).await;
    turn(&life, session).await;
    let results = buried(&world, &life, session).await;
    assert!(results[1].contains("may have run"), "{results:?}");
    assert!(
        !results.iter().any(|text| text.contains(TOLD)),
        "{results:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn files_that_nobody_can_look_for_now_are_not_taken_for_lost() {
    let (world, life, session) = world(|_| ()).await;
    turn(&life, session).await;
    world.bury();
    world.hands.hide(true);
    turn(&life, session).await;
    world.hands.hide(false);
    turn(&life, session).await;
    assert_eq!(world.hands.provisioned().len(), 2, "none was made blindly");
    let results = results(&world, session).await;
    let refused = "look for its files";
    assert!(results[1].contains(refused), "{results:?}");
    assert!(results[2].contains(TOLD), "{results:?}");
    assert!(!results[2].contains("are lost"), "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_machine_is_told_in_its_own_words_alone() {
    let (world, life, session) = world(|_| ()).await;
    turn(&life, session).await;
    world.hands.vanish();
    turn(&life, session).await;
    turn(&life, session).await;
    assert_eq!(told(&world, session).await, [false; 3]);
    assert!(results(&world, session).await[1].contains("are gone too"));
}
