//! What must be so once nothing disturbs a world any more.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use outlast_protocol::id::SessionId;
use outlast_session::{Kind, Record};
use tokio::time::sleep;

use super::{
    client::Shared,
    reader::Reader,
    watch::{Seen, Watcher},
    world::{Life, World},
};

/// Looks at everything.
pub(crate) async fn look(world: &World, watcher: &Watcher, shared: &Shared, readers: &[Reader]) {
    watcher.finish(world).await;
    let sessions = watcher.sessions();
    accepted(watcher, shared, &sessions);
    once(world, watcher, &sessions);
    seen(readers, &sessions);
}

/// Looks again and again whether somebody goes on with what is unfinished: the monitor of the
/// process itself must never have found anything that nobody would have woken.
pub(crate) async fn stuck(life: Arc<Life>, watcher: Watcher) {
    loop {
        let diagnosis = life.kernel.diagnose_server().await.unwrap();
        if let Some(one) = diagnosis.sessions.iter().find(|one| one.stuck) {
            return watcher.wrong(format!("nobody goes on with {one:?}"));
        }
        sleep(Duration::from_secs(5)).await;
    }
}

/// What was accepted is there once, and what nobody knows of is there once at most.
fn accepted(watcher: &Watcher, shared: &Shared, sessions: &[(SessionId, Seen)]) {
    let sent = shared.sent.lock().unwrap_or_else(PoisonError::into_inner);
    for wish in sent.iter() {
        let names = |record: &&Record| {
            let kind = matches!(record.kind, Kind::Created | Kind::ArrivedMessage);
            kind && record.body.text().contains(&wish.token)
        };
        let logs = sessions.iter().flat_map(|(_, seen)| &seen.records);
        let found = logs.filter(names).count();
        if found > 1 || (wish.accepted && found == 0) {
            watcher.wrong(format!("{wish:?} is there {found} times"));
        }
    }
}

/// No call of any session ran twice.
fn once(world: &World, watcher: &Watcher, sessions: &[(SessionId, Seen)]) {
    let runs = world.runs.lock().unwrap().clone();
    for (call, runs) in runs.iter().filter(|(_, runs)| **runs > 1) {
        watcher.wrong(format!("call `{call}` ran {runs} times"));
    }
    for (session, seen) in sessions.iter().filter(|(_, seen)| !seen.state.deleted) {
        let of = |kind| {
            seen.records
                .iter()
                .filter(move |record| record.kind == kind)
        };
        if of(Kind::RequestStart).count() != of(Kind::RequestEnd).count() {
            let words = format!("session `{session}`: a model request without an end");
            watcher.wrong(words);
        }
    }
}

/// No reader saw a gap, or anything twice, and each saw the end.
fn seen(readers: &[Reader], sessions: &[(SessionId, Seen)]) {
    for reader in readers {
        let log = sessions
            .iter()
            .find(|(session, _)| *session == reader.session);
        if let Some((_, seen)) = log {
            reader.check(&seen.records, seen.state.deleted);
        }
    }
}
