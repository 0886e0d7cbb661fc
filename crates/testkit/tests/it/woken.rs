//! Waking many sessions after a death.

use std::time::Duration;

use outlast_session::Kind;
use serde_json::json;
use tokio::time::sleep;

use crate::{checkpoints::script, lives::World};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn sessions_are_claimed_together_and_not_one_after_another() {
    let world = World::new(5).await;
    let first = world.start(None).await;
    let slow = script(&json!([{"content": [{"pause_ms": 600_000}, {"text": "z"}]}]));
    let mut sessions = Vec::new();
    for _ in 0..6 {
        let session = world.session(&first).await;
        first.send(session, &slow).await;
        sessions.push(session);
    }
    sleep(SECOND).await;
    first.kill();
    let _next = world.start_late(SECOND).await;
    sleep(SECOND * 3 / 2).await;
    for session in sessions {
        let log = world.log(session).await;
        let claims = log.iter().filter(|record| record.kind == Kind::Claimed);
        assert_eq!(claims.count(), 2, "{session}");
    }
}
