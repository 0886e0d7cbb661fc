//! Brains: repeats, gaps, stale leases, order, races for a lease.

use futures::future::join_all;
use outlast_session::{Answer, Claim, Fence, Kind, Proposal, Refusal, Said, Step, json};
use serde_json::json;

use super::fixture::{World, note};
use crate::{Append, AppendError};

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    a_repeat_returns_the_first_outcome(&world().await).await;
    gaps_and_old_leases_are_refused(&world().await).await;
    appends_can_be_pipelined(&world().await).await;
    only_one_of_two_claims_holds(&world().await).await;
    an_event_id_stands_once(&world().await).await;
}

async fn a_repeat_returns_the_first_outcome(world: &World) {
    let mut brain = world.running().await;
    let first = brain.say(note("once")).await.unwrap();
    let position = first.records[0].position;
    let again = brain.at(brain.seq, note("once"));
    let again = world.propose(brain.session, again).await.unwrap();
    assert_eq!(
        again.answer,
        Answer::Repeated {
            first: position,
            last: position
        }
    );
    assert!(again.records.is_empty());
    assert_eq!(again.state.tail, position);
}

async fn gaps_and_old_leases_are_refused(world: &World) {
    let brain = world.running().await;
    let gap = brain.at(brain.seq + 2, note("too far"));
    let error = world.propose(brain.session, gap).await.unwrap_err();
    assert!(
        matches!(error, AppendError::Refused(Refusal::Gap { .. })),
        "{error}"
    );

    let successor = world.process();
    let claim = Claim {
        process: successor,
        dead: None,
    };
    let held = world
        .propose(brain.session, Proposal::Claim { thread: 0, claim })
        .await
        .unwrap_err();
    assert!(
        matches!(held, AppendError::Refused(Refusal::Held { holder }) if holder == world.process),
        "{held}"
    );
    let claim = Claim {
        process: successor,
        dead: Some(world.process),
    };
    let taken = world
        .propose(brain.session, Proposal::Claim { thread: 0, claim })
        .await
        .unwrap();
    assert_eq!(taken.state.thread(0).unwrap().epoch, brain.epoch + 1);
    let late = brain.at(brain.seq + 1, note("late"));
    let error = world.propose(brain.session, late).await.unwrap_err();
    assert!(
        matches!(error, AppendError::Refused(Refusal::Stale { .. })),
        "{error}"
    );
}

/// Appends in flight are decided in the order they were made, whatever their size.
async fn appends_can_be_pipelined(world: &World) {
    let brain = world.running().await;
    let sizes = [10, 200_000, 10, 10, 100_000, 90_000, 10];
    let appends: Vec<_> = (1..)
        .zip(sizes)
        .map(|(number, size)| {
            let proposal = brain.at(brain.seq + number, note(&"n".repeat(size)));
            world.store.append(
                brain.session,
                Append {
                    proposal,
                    receipt: None,
                },
            )
        })
        .collect();
    let outcomes: Result<Vec<_>, _> = join_all(appends).await.into_iter().collect();
    let tails: Vec<u64> = outcomes
        .unwrap()
        .iter()
        .map(|outcome| outcome.state.tail)
        .collect();
    let first = tails[0];
    assert_eq!(tails, (first..first + 7).collect::<Vec<_>>());
    let log = world.log(brain.session).await;
    let notes = log.iter().filter(|record| record.kind == Kind::Noted);
    let lengths: Vec<usize> = notes.map(|record| record.body.text().len()).collect();
    let frame = lengths[0] - 10;
    assert_eq!(lengths, sizes.map(|size| size + frame));

    // One that is refused is refused alone: what follows it in order is a gap and stays one.
    let next = brain.seq + 8;
    let steps = [
        (next, "a"),
        (next + 2, "gap"),
        (next + 1, "b"),
        (next + 2, "c"),
    ];
    let appends = steps.map(|(seq, text)| {
        let proposal = brain.at(seq, note(text));
        world.store.append(
            brain.session,
            Append {
                proposal,
                receipt: None,
            },
        )
    });
    let answers: Vec<bool> = join_all(appends).await.iter().map(Result::is_ok).collect();
    assert_eq!(answers, [true, false, true, true]);
}

async fn only_one_of_two_claims_holds(world: &World) {
    let session = world.session().await;
    world.send(session, "work").await;
    let claims = (0..8).map(|_| {
        let claim = Claim {
            process: world.process(),
            dead: None,
        };
        world.propose(session, Proposal::Claim { thread: 0, claim })
    });
    let answers = join_all(claims).await;
    let held = |answer: &Result<_, AppendError>| {
        matches!(answer, Err(AppendError::Refused(Refusal::Held { .. })))
    };
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(answers.iter().filter(|answer| held(answer)).count(), 7);
    assert_eq!(world.state(session).await.thread(0).unwrap().epoch, 1);
}

/// Ids that a brain brings along cannot hide an event that stands in the log.
async fn an_event_id_stands_once(world: &World) {
    let mut brain = world.running().await;
    let log = world.log(brain.session).await;
    let known = log
        .iter()
        .find(|record| record.kind == Kind::UserMessage)
        .unwrap()
        .event
        .unwrap();
    let request = world.event();
    let started = Proposal::Keyed {
        thread: 0,
        epoch: brain.epoch,
        key: request,
        fact: outlast_session::Fact::RequestStarted,
    };
    world.propose(brain.session, started).await.unwrap();
    let answer = |ids: &[outlast_protocol::id::EventId]| {
        let body = json(&json!({ "content": [{ "type": "text", "text": "hello" }] }));
        let events = ids
            .iter()
            .map(|id| Said::Message(*id, body.clone()))
            .collect();
        Step::Respond(Box::new(outlast_session::Respond {
            request,
            blocks: Vec::new(),
            stop: "end_turn".to_owned(),
            details: None,
            after: outlast_session::After::Answer,
            events,
        }))
    };
    // One that waits for its place must find that free.
    let waits = world.send(brain.session, "waits").await.records[0]
        .event
        .unwrap();
    let before = world.state(brain.session).await;
    let twice = world.event();
    for ids in [&[known][..], &[waits], &[twice, twice]] {
        let fence = Fence {
            epoch: brain.epoch,
            seq: brain.seq + 1,
            acked: 0,
        };
        let proposal = Proposal::Brain {
            thread: 0,
            fence,
            step: answer(ids),
        };
        let error = world.propose(brain.session, proposal).await.unwrap_err();
        assert!(
            matches!(error, AppendError::Refused(Refusal::Illegal(_))),
            "{error}"
        );
    }
    assert_eq!(before.tail, world.state(brain.session).await.tail);
    brain.say(answer(&[world.event(), twice])).await.unwrap();
}
