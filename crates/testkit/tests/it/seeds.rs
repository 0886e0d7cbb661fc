//! Seeds: the same seed gives the same log, byte for byte; and lives that end at random.

use outlast_protocol::id::SessionId;
use outlast_session::Kind;
use outlast_store::verify;
use serde_json::json;

use crate::lives::{Death, Life, World, told};

/// Seeds that every run of the tests tries.
const SEEDS: u64 = 40;

/// Runs many sessions over processes that die one after another; returns their logs as text.
async fn storm(seed: u64, deaths: u64) -> Vec<String> {
    let world = World::new(seed).await;
    let draw = |bound: u64| world.entropy.below(bound);
    let mut life = world.start(None).await;
    let sessions = begin(&world, &life).await;
    for _ in 0..deaths {
        let death = Death {
            at: 1 + draw(25),
            committed: draw(2) == 0,
        };
        world.bury();
        life = world.start(Some(death)).await;
        for session in &sessions {
            if !life.rests(*session).await {
                break;
            }
        }
    }
    world.bury();
    life = world.start(None).await;
    finish(&world, &life, &sessions, seed).await
}

/// Begins sessions that call tools for a while.
async fn begin(world: &World, life: &Life) -> Vec<SessionId> {
    let mut sessions = Vec::new();
    for number in 0..5 {
        let session = world.session(life).await;
        let rounds = 1 + world.entropy.below(4);
        let steps = json!({"script": [
            {"calls": [{"name": "bash", "input": {"command": number, "n": "{{n}}", "wait_ms": 3}},
                {"name": "read", "input": {"file_path": "f"}}], "repeat": rounds},
            {"text": "done with {{results}}"},
        ]});
        let text = json!({"type": "text", "text": steps.to_string()});
        life.send(
            session,
            &json!([{"type": "user.message", "content": [text]}]),
        )
        .await;
        sessions.push(session);
    }
    sessions
}

/// Waits for all sessions, checks their logs and returns them as text.
async fn finish(world: &World, life: &Life, sessions: &[SessionId], seed: u64) -> Vec<String> {
    let mut logs = Vec::new();
    for session in sessions {
        assert!(life.rests(*session).await, "seed {seed}");
        let records = world.log(*session).await;
        verify(*session, &records).unwrap_or_else(|broken| panic!("seed {seed}: {broken:?}"));
        let told = told(&records);
        assert!(
            told.iter().any(|line| line.contains("done with")),
            "seed {seed}: {told:#?}"
        );
        for call in records
            .iter()
            .filter(|record| record.kind == Kind::AgentToolUse)
        {
            let runs = world.hands.executions(call.event.unwrap());
            assert!(runs <= 1, "seed {seed}: a call ran {runs} times");
        }
        let bytes = records.iter().map(|record| {
            format!(
                "{} {} {:?} {}",
                record.position,
                record.at,
                record.hash,
                record.body.text()
            )
        });
        logs.extend(bytes);
    }
    logs
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_bytes() {
    assert_eq!(storm(1, 3).await, storm(1, 3).await);
    assert_ne!(storm(1, 3).await, storm(2, 3).await);
}

#[tokio::test(start_paused = true)]
async fn whatever_dies_every_session_comes_to_its_end() {
    for seed in 0..SEEDS {
        storm(seed, 6).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_now_and_then_stops_nothing() {
    for seed in 0..SEEDS {
        let world = World::new(seed).await;
        let life = world.start_flaky(10).await;
        let sessions = begin(&world, &life).await;
        finish(&world, &life, &sessions, seed).await;
    }
}
