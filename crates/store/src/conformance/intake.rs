//! Whole logs from elsewhere.

use std::sync::Arc;

use outlast_session::{Body, Kind, Proposal, Record};

use super::{
    erasing::Talk,
    fixture::{Log, World, note},
};
use crate::{INLINE, Intake, IntakeError, Source as _, verify};

/// A log with a lease, large bodies and calls that wait.
async fn lived(world: &World) -> Log {
    let mut brain = world.running().await;
    let session = brain.session;
    world.send(session, &"large ".repeat(INLINE)).await;
    brain.say(note("small")).await.unwrap();
    world.asks(&mut brain).await;
    let records = world.log(session).await;
    Log { session, records }
}

pub(super) async fn run<S: Intake>(world: &impl AsyncFn() -> (World, Arc<S>)) {
    let (from, _) = world().await;
    let log = lived(&from).await;
    what_comes_in_is_what_went_out(&world().await, &from, &log).await;
    what_is_not_whole_leaves_nothing(&world().await, &log).await;
    one_that_is_here_stays_as_it_is(&world().await).await;
    a_log_with_holes_comes_in_as_it_went_out(&world().await, &from).await;
}

async fn a_log_with_holes_comes_in_as_it_went_out<S: Intake>(
    (world, intake): &(World, Arc<S>),
    from: &World,
) {
    let talk = Talk::new(from, &"large ".repeat(INLINE)).await;
    talk.erase(from).await.unwrap();
    let (session, records) = (talk.session, from.log(talk.session).await);
    let log = Log { session, records };
    let state = intake.take_in(Arc::new(log.clone())).await.unwrap();
    assert_eq!(state, from.state(session).await);
    let records = world.log(session).await;
    assert_eq!(verify(session, &records).unwrap(), log.end());
    let left = |records: &[Record]| -> Vec<(bool, String)> {
        let bodies = records.iter().map(|record| &record.body);
        bodies
            .map(|body| (body.is_erased(), body.text().to_owned()))
            .collect()
    };
    assert_eq!(left(&records), left(&log.records));
    world.send(session, "more").await;
    // What is left of a body must be what was recorded.
    let talk = Talk::new(from, "words").await;
    talk.erase(from).await.unwrap();
    let mut records = from.log(talk.session).await;
    let hole = records.iter_mut().find(|record| record.body.is_erased());
    hole.unwrap().body = Body::nothing();
    let session = talk.session;
    let refused = intake.take_in(Arc::new(Log { session, records })).await;
    assert!(matches!(refused, Err(IntakeError::Broken { .. })));
}

async fn what_comes_in_is_what_went_out<S: Intake>(
    (world, intake): &(World, Arc<S>),
    from: &World,
    log: &Log,
) {
    let session = log.session;
    let state = intake.take_in(Arc::new(log.clone())).await.unwrap();
    assert_eq!(state, from.state(session).await);
    assert_eq!(world.state(session).await, state);
    let records = world.log(session).await;
    assert_eq!(verify(session, &records).unwrap(), log.end());
    for (new, old) in records.iter().zip(&log.records) {
        assert_eq!(new.body.text(), old.body.text());
        assert_eq!(new.salt, old.salt);
    }
    // It goes on here: the brain that held it is nobody's, and what is sent follows the chain.
    let ready = world.store.ready(world.clock.now(), 10).await.unwrap();
    assert!(ready.iter().any(|one| one.session == session), "{ready:?}");
    world.send(session, "more").await;
    verify(session, &world.log(session).await).unwrap();
}

async fn what_is_not_whole_leaves_nothing<S: Intake>((world, intake): &(World, Arc<S>), log: &Log) {
    type Change = fn(&mut Vec<Record>);
    let changes: [Change; 5] = [
        |records| records[3].thread += 1,
        |records| drop(records.remove(2)),
        |records| records[1].body = records[0].body.clone(),
        |records| {
            records[0].body = Body::nothing();
            records[0].salt = None;
        },
        // Nothing says that this was erased.
        |records| {
            let note = records
                .iter_mut()
                .rfind(|record| record.kind == Kind::Noted);
            let note = note.unwrap();
            (note.body, note.salt) = (Body::nothing(), None);
        },
    ];
    for change in changes {
        let mut broken = log.clone();
        change(&mut broken.records);
        let refused = intake.take_in(Arc::new(broken)).await.unwrap_err();
        let told = matches!(refused, IntakeError::Broken { .. });
        assert!(told, "{refused}");
        world.store.head(log.session).await.unwrap_err();
    }
    intake.take_in(Arc::new(log.clone())).await.unwrap();
}

async fn one_that_is_here_stays_as_it_is<S: Intake>((world, intake): &(World, Arc<S>)) {
    let log = lived(world).await;
    let session = log.session;
    world.send(session, "later").await;
    let before = world.state(session).await;
    let again = intake.take_in(Arc::new(log.clone())).await.unwrap_err();
    assert!(matches!(again, IntakeError::Exists(id) if id == session));
    assert_eq!(world.state(session).await, before);
    let session = world.session().await;
    let records = world.log(session).await;
    let end = Proposal::Delete(world.key);
    world.propose(session, end).await.unwrap();
    let deleted = Log { session, records };
    let again = intake.take_in(Arc::new(deleted)).await.unwrap_err();
    assert!(matches!(again, IntakeError::Exists(_)), "{again}");
}
