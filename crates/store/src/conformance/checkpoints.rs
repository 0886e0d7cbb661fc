//! Checkpoints: whose blob is named, and whose is loose.

use std::time::Duration;

use outlast_protocol::id::{IncarnationId, SessionId};
use outlast_session::{
    Answer, Fact, Failure, Proposal, Step, Then,
    body::{Checkpointed, HandWanted, Sum},
    json,
};

use serde_json::json;

use super::fixture::{Brain, World};
use crate::{AppendError, Blob};

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    one_is_loose_until_a_log_names_it_and_after_two_others(&world().await).await;
    one_that_is_not_named_goes_and_one_that_is_stays(&world().await).await;
    the_end_of_a_session_loosens_its_last_ones(&world().await).await;
    one_of_a_dead_process_is_loose(&world().await).await;
    one_that_was_given_up_is_not_named(&world().await).await;
}

/// A session with a hand.
async fn with_hand(world: &World) -> (Brain<'_>, IncarnationId) {
    let brain = world.running().await;
    let incarnation = IncarnationId::mint(world.clock.now(), &*world.entropy);
    let wanted = HandWanted {
        name: "default".to_owned(),
        incarnation,
        predecessor: None,
        forgotten: Vec::new(),
        loss: None,
        networking: None,
    };
    let proposal = Proposal::Keyed {
        thread: 0,
        epoch: brain.epoch,
        key: world.event(),
        fact: Fact::HandWanted(wanted),
    };
    let made = world.propose(brain.session, proposal).await.unwrap();
    assert_eq!(made.answer, Answer::Appended);
    (brain, incarnation)
}

/// Notes the blob of a checkpoint.
async fn begun(world: &World, session: SessionId, number: u32) -> Blob {
    let blob = Blob::of_session(&format!("sessions/{session}/checkpoints/x-{number}")).unwrap();
    let noted = world.store.begin_blob(blob.clone(), world.process);
    noted.await.unwrap();
    blob
}

/// Has the log name a checkpoint.
async fn name(world: &World, session: SessionId, of: IncarnationId, blob: &Blob) -> Answer {
    try_to_name(world, session, of, blob).await.unwrap()
}

async fn try_to_name(
    world: &World,
    session: SessionId,
    of: IncarnationId,
    blob: &Blob,
) -> Result<Answer, AppendError> {
    world.pass(Duration::from_secs(1));
    let new = Checkpointed {
        incarnation: of,
        blob: blob.to_string(),
        sum: Sum {
            entries: 1,
            bytes: 2,
            digest: "ab".to_owned(),
        },
        at: world.clock.now(),
    };
    let proposal = Proposal::Checkpoint(new);
    Ok(world.propose(session, proposal).await?.answer)
}

async fn loose(world: &World) -> Vec<Blob> {
    world.store.loose_blobs(10).await.unwrap()
}

/// Asserts that this blob alone is loose, and forgets it.
async fn only(world: &World, blob: Blob) {
    assert_eq!(loose(world).await, std::slice::from_ref(&blob));
    world.store.forget_blob(blob).await.unwrap();
    assert_eq!(loose(world).await, []);
}

async fn one_is_loose_until_a_log_names_it_and_after_two_others(world: &World) {
    let (brain, hand) = with_hand(world).await;
    let session = brain.session;
    let first = begun(world, session, 1).await;
    assert_eq!(loose(world).await, [], "whoever writes it lives");
    assert_eq!(name(world, session, hand, &first).await, Answer::Appended);
    assert_eq!(loose(world).await, []);
    let second = begun(world, session, 2).await;
    assert_eq!(name(world, session, hand, &second).await, Answer::Appended);
    assert_eq!(loose(world).await, [], "the second newest stays");
    let third = begun(world, session, 3).await;
    assert_eq!(name(world, session, hand, &third).await, Answer::Appended);
    only(world, first).await;
    // An append about something else changes nothing.
    world.send(session, "go on").await;
    assert_eq!(loose(world).await, []);
}

async fn one_that_is_not_named_goes_and_one_that_is_stays(world: &World) {
    let (brain, hand) = with_hand(world).await;
    let session = brain.session;
    let other = IncarnationId::mint(world.clock.now(), &*world.entropy);
    let first = begun(world, session, 1).await;
    assert_eq!(
        name(world, session, other, &first).await,
        Answer::Nothing,
        "not of the newest hand"
    );
    assert_eq!(loose(world).await, []);
    assert!(world.store.drop_blob(first.clone()).await.unwrap());
    only(world, first).await;
    let second = begun(world, session, 2).await;
    name(world, session, hand, &second).await;
    // Whoever lost the answer of the append may give the blob up.
    assert!(!world.store.drop_blob(second).await.unwrap());
    assert_eq!(loose(world).await, []);
}

async fn the_end_of_a_session_loosens_its_last_ones(world: &World) {
    for proposal in [Proposal::Archive(world.key), Proposal::Delete(world.key)] {
        let (mut brain, hand) = with_hand(world).await;
        let session = brain.session;
        let last = [
            begun(world, session, 1).await,
            begun(world, session, 3).await,
        ];
        for blob in &last {
            name(world, session, hand, blob).await;
        }
        let failure = Failure {
            error: json(&json!({ "error": { "type": "unknown_error" } })),
            then: Then::Exhausted,
        };
        brain.say(Step::Fail(failure)).await.unwrap();
        world.propose(session, proposal).await.unwrap();
        let mut found = loose(world).await;
        found.sort();
        assert_eq!(found, last);
        for blob in last {
            world.store.forget_blob(blob).await.unwrap();
        }
        // One that was on its way meanwhile.
        let late = begun(world, session, 2).await;
        assert!(world.store.drop_blob(late.clone()).await.unwrap());
        only(world, late).await;
    }
}

async fn one_of_a_dead_process_is_loose(world: &World) {
    let (brain, hand) = with_hand(world).await;
    let session = brain.session;
    let (named, left) = (
        begun(world, session, 1).await,
        begun(world, session, 2).await,
    );
    name(world, session, hand, &named).await;
    let next = world.process();
    world.store.register(next, world.clock.now()).await.unwrap();
    assert_eq!(loose(world).await, [left]);
}

/// An append that comes late, by itself or of a process that was declared dead, names nothing that is
/// about to be removed.
async fn one_that_was_given_up_is_not_named(world: &World) {
    let (brain, hand) = with_hand(world).await;
    let session = brain.session;
    let never = Blob::of_session(&format!("sessions/{session}/checkpoints/x-0")).unwrap();
    let dropped = begun(world, session, 1).await;
    assert!(world.store.drop_blob(dropped.clone()).await.unwrap());
    let orphan = begun(world, session, 2).await;
    world.store.declare_dead(world.process).await.unwrap();
    let mut found = loose(world).await;
    found.sort();
    assert_eq!(found, [dropped.clone(), orphan.clone()]);
    let tail = world.state(session).await.tail;
    for blob in [never, dropped, orphan] {
        let refused = try_to_name(world, session, hand, &blob).await;
        let named =
            matches!(&refused, Err(AppendError::Missing(what)) if *what == blob.to_string());
        assert!(named, "{refused:?}");
    }
    assert_eq!(world.state(session).await.tail, tail);
    assert_eq!(loose(world).await.len(), 2);
}
