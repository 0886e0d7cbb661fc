//! Many writers at once.

use std::collections::{HashMap, HashSet};

use outlast_protocol::id::SessionId;
use tokio::task::JoinSet;

use super::fixture::World;
use crate::verify;

const SESSIONS: usize = 50;
const WRITERS: usize = 1_000;

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    a_thousand_writers(&world().await).await;
}

/// Each answer names positions of its own, and every log is whole and holds what was sent.
async fn a_thousand_writers(world: &World) {
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(world.session().await);
    }
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let (world, session) = (world.clone(), sessions[number % SESSIONS]);
        writers.spawn(async move {
            let text = format!("message {number}");
            let sent = world.send(session, &text).await;
            assert_eq!(sent.records.len(), 1);
            assert_eq!(sent.state.tail, sent.records[0].position);
            (session, sent.records[0].position, text)
        });
    }
    let mut sent: HashMap<SessionId, HashMap<u64, String>> = HashMap::new();
    for (session, position, text) in writers.join_all().await {
        let twice = sent.entry(session).or_default().insert(position, text);
        assert_eq!(twice, None, "two answers name position {position}");
    }
    for session in sessions {
        let log = world.log(session).await;
        verify(session, &log).unwrap();
        let sent = &sent[&session];
        let positions: HashSet<u64> = log.iter().skip(1).map(|record| record.position).collect();
        assert_eq!(positions, sent.keys().copied().collect());
        for record in log.iter().skip(1) {
            assert!(record.body.text().contains(&sent[&record.position]));
        }
    }
}
