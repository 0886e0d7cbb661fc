//! Seeds: the same seed gives the same log, byte for byte; and lives that end at random.

use outlast_protocol::seam::Entropy as _;
use outlast_store::verify;
use serde_json::json;

use crate::lives::{Death, World, told};

/// Seeds that every run of the tests tries.
const SEEDS: u64 = 40;

/// Runs many sessions over processes that die one after another; returns their logs as text.
async fn storm(seed: u64, deaths: u64) -> Vec<String> {
    let world = World::new(seed).await;
    let draw = |bound: u64| {
        let mut bytes = [0; 8];
        world.entropy.fill(&mut bytes);
        u64::from_le_bytes(bytes) % bound
    };
    let mut life = world.start(None).await;
    let mut sessions = Vec::new();
    for number in 0..5 {
        let session = world.session(&life).await;
        let rounds = 1 + draw(4);
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
    let mut logs = Vec::new();
    for session in sessions {
        assert!(life.rests(session).await, "seed {seed}");
        let records = world.log(session).await;
        verify(session, &records).unwrap_or_else(|broken| panic!("seed {seed}: {broken:?}"));
        let told = told(&records);
        assert!(
            told.iter().any(|line| line.contains("done with")),
            "seed {seed}: {told:#?}"
        );
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
