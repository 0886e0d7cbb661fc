//! Hands that are let go between two calls because they are old.

use std::time::Duration;

use outlast_protocol::id::SessionId;
use serde_json::json;

use crate::{
    checkpoints::{USUAL, script, state},
    lives::{Life, World},
};

async fn world(change: impl FnOnce(&mut World)) -> (World, Life, SessionId) {
    let mut world = World::new(13).await;
    world.schedule = USUAL;
    change(&mut world);
    let life = world.start(None).await;
    let session = world.session(&life).await;
    (world, life, session)
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
    let lives: Vec<_> = world
        .hands
        .asked()
        .iter()
        .map(|asked| asked.incarnation)
        .collect();
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
    let lives: Vec<_> = world
        .hands
        .asked()
        .iter()
        .map(|asked| asked.incarnation)
        .collect();
    assert_eq!(lives[1], lives[2]);
    assert_ne!(lives[0], lives[1]);
    assert_eq!(world.hands.provisioned().len(), 2);
}
