//! Bodies that are erased: gone wherever the store had them, with the chain and the fold intact.

use outlast_protocol::id::{EventId, SessionId};
use outlast_session::{
    Answer, Erase, Erasure, Fact, Kind, Proposal, Record, Refusal, Respond, Said, State, Step,
    Stop, fold, json, remains,
};
use serde_json::{json, value::RawValue};

use super::fixture::{Brain, World};
use crate::{AppendError, Auditor, End, INLINE, Outcome, Snapshot, verify};

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    what_is_erased_is_gone_and_all_else_stays(&world().await).await;
    erasing_again_is_no_harm(&world().await).await;
    what_is_worked_with_stays(&world().await).await;
    what_was_made_of_it_goes_too(&world().await).await;
}

/// What the model said in a [`Talk`].
const SAID: &str = "the words of the model";

/// A session with one turn that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Talk {
    pub(super) session: SessionId,
    asked: EventId,
    said: EventId,
}

impl Talk {
    /// Has somebody say something, and the model answer.
    pub(super) async fn new(world: &World, words: &str) -> Self {
        let session = world.session().await;
        let sent = world.send(session, words).await;
        let asked = sent.records[0].event.unwrap();
        let mut brain = world.brain(session).await;
        let said = answer(world, &mut brain).await;
        brain.say(Step::EndTurn(Stop::EndTurn)).await.unwrap();
        Self {
            session,
            asked,
            said,
        }
    }

    /// Makes the proposal to erase all that was said.
    pub(super) async fn erasure(&self, world: &World) -> Proposal {
        let mut erasures = Vec::new();
        for record in world.log(self.session).await {
            let event = record
                .event
                .filter(|event| [self.asked, self.said].contains(event));
            let of_it = event.is_some() || record.kind == Kind::Response;
            let left = remains(record.kind, record.body.text(), &|_| true);
            if let Some(remains) = left.filter(|_| of_it && !record.body.is_erased()) {
                erasures.push(Erasure {
                    position: record.position,
                    kind: record.kind,
                    event: event.unwrap_or(self.said),
                    remains,
                });
            }
        }
        Proposal::Erase(Erase {
            erasures,
            because: "they asked".to_owned(),
            by: Some(world.key),
        })
    }

    pub(super) async fn erase(&self, world: &World) -> Result<Outcome, AppendError> {
        let wish = self.erasure(world).await;
        world.propose(self.session, wish).await
    }
}

/// Has the model answer in one message; returns its event.
async fn answer(world: &World, brain: &mut Brain<'_>) -> EventId {
    let (request, said) = (world.event(), world.event());
    let started = Proposal::Keyed {
        thread: 0,
        epoch: brain.epoch,
        key: request,
        fact: Fact::RequestStarted,
    };
    world.propose(brain.session, started).await.unwrap();
    let block = json!({"type": "text", "text": SAID});
    let block = RawValue::from_string(block.to_string()).unwrap();
    let body = json(&json!({"content": [block]}));
    let response = Respond {
        request,
        blocks: vec![block],
        stop: "end_turn".to_owned(),
        details: None,
        after: outlast_session::After::Answer,
        events: vec![Said::Message(said, body)],
    };
    brain.say(Step::Respond(Box::new(response))).await.unwrap();
    said
}

/// Checks chain, fold and holes of a log against its head.
async fn whole(world: &World, session: SessionId) -> Vec<Record> {
    let log = world.log(session).await;
    let end: End = verify(session, &log).unwrap();
    let (mut auditor, mut state) = (Auditor::new(session, &[]), State::blank(session));
    for record in &log {
        auditor.step(record).unwrap();
        fold(&mut state, &record.entry()).unwrap();
    }
    auditor.finish(end).unwrap();
    assert_eq!(state, *world.state(session).await);
    log
}

async fn what_is_erased_is_gone_and_all_else_stays(world: &World) {
    for words in ["few words".to_owned(), "many words ".repeat(INLINE)] {
        let talk = Talk::new(world, &words).await;
        let before = (
            world.state(talk.session).await,
            world.log(talk.session).await,
        );
        let erased = talk.erase(world).await.unwrap();
        assert_eq!(erased.answer, Answer::Appended);
        assert_eq!(erased.records.len(), 1);
        let log = whole(world, talk.session).await;
        let holes = log.iter().filter(|record| record.body.is_erased());
        let holes: Vec<&Record> = holes.collect();
        assert_eq!(holes.len(), 4, "arrival, place, response, message");
        for record in &log {
            let text = record.body.text();
            assert!(!text.contains(&words) && !text.contains(SAID), "{record:?}");
            assert_eq!(record.salt.is_none(), record.body.is_erased());
        }
        // The same by every way of reading.
        let found = world.store.find(talk.session, talk.asked).await.unwrap();
        assert!(found.body.is_erased() && found.kind == Kind::UserMessage);
        let both = world
            .store
            .of_event(talk.session, talk.asked)
            .await
            .unwrap();
        assert!(both.len() == 2 && both.iter().all(|record| record.body.is_erased()));
        // Nothing else moved.
        let (state, known) = before;
        for (new, old) in log.iter().zip(&known) {
            assert_eq!(
                (new.hash, new.digest, new.event),
                (old.hash, old.digest, old.event)
            );
        }
        let same = State {
            tail: state.tail + 1,
            at: erased.state.at,
            ..(*state).clone()
        };
        assert_eq!(*erased.state, same);
        // It goes on, also from what the store folds again.
        world.send(talk.session, "more").await;
        let mut brain = world.brain(talk.session).await;
        answer(world, &mut brain).await;
        whole(world, talk.session).await;
    }
}

async fn erasing_again_is_no_harm(world: &World) {
    let talk = Talk::new(world, "some words").await;
    // Two who ask at the same time have both found it there.
    let wish = talk.erasure(world).await;
    for _ in 0..2 {
        world.propose(talk.session, wish.clone()).await.unwrap();
    }
    let log = whole(world, talk.session).await;
    let told = log.iter().filter(|record| record.kind == Kind::Erased);
    assert_eq!(told.count(), 2);
    let nothing = talk.erase(world).await.unwrap();
    assert_eq!(
        (nothing.answer, nothing.records.len()),
        (Answer::Nothing, 0)
    );
}

async fn what_is_worked_with_stays(world: &World) {
    let refused = async |talk: Talk, words: &str| {
        let before = world.log(talk.session).await;
        let error = talk.erase(world).await.unwrap_err();
        let AppendError::Refused(Refusal::Client(problem)) = error else {
            panic!("{error}");
        };
        assert!(problem.message.contains(words), "{problem:?}");
        let after = world.log(talk.session).await;
        assert_eq!(before.len(), after.len());
        assert!(after.iter().all(|record| !record.body.is_erased()));
    };
    let talk = Talk::new(world, "old words").await;
    let sent = world.send(talk.session, "waiting words").await;
    let waiting = Talk {
        asked: sent.records[0].event.unwrap(),
        ..talk
    };
    refused(waiting, "waits to be taken in").await;
    let mut brain = world.brain(talk.session).await;
    refused(talk, "is running").await;
    world.asks(&mut brain).await;
    brain.say(Step::EndTurn(Stop::EndTurn)).await.unwrap();
    refused(waiting, "belongs to a turn that is not over").await;
    // What was before that turn can go while a client is waited for; the newest response cannot.
    let wish = Proposal::Erase(Erase {
        erasures: of(world, talk.session, talk.asked).await,
        because: "old".to_owned(),
        by: None,
    });
    world.propose(talk.session, wish).await.unwrap();
    let nobody = world.propose(world.session_id(), talk.erasure(world).await);
    assert!(matches!(nobody.await, Err(AppendError::NotFound(_))));
    let own = world.log(talk.session).await.remove(0);
    let wish = Proposal::Erase(Erase {
        erasures: vec![Erasure {
            position: own.position,
            kind: own.kind,
            event: talk.asked,
            remains: json(&json!({})),
        }],
        because: "a record of the server's own".to_owned(),
        by: None,
    });
    let illegal = world.propose(talk.session, wish).await;
    assert!(matches!(
        illegal,
        Err(AppendError::Refused(Refusal::Illegal(_)))
    ));
    whole(world, talk.session).await;
}

/// Returns the erasures of one event.
async fn of(world: &World, session: SessionId, event: EventId) -> Vec<Erasure> {
    let records = world.store.of_event(session, event).await.unwrap();
    let erasure = |record: &Record| Erasure {
        position: record.position,
        kind: record.kind,
        event,
        remains: remains(record.kind, record.body.text(), &|_| true).unwrap(),
    };
    records.iter().map(erasure).collect()
}

async fn what_was_made_of_it_goes_too(world: &World) {
    let talk = Talk::new(world, "words that were kept").await;
    let session = talk.session;
    let save = async |position: u64| {
        let snapshot = Snapshot {
            session,
            thread: 0,
            name: "whole/1".to_owned(),
            position,
            body: b"words that were kept".to_vec(),
        };
        world.store.save_snapshot(snapshot).await.unwrap();
        world.store.snapshot(session, 0, "whole/1").await.unwrap()
    };
    let tail = world.state(session).await.tail;
    assert!(save(tail).await.is_some());
    talk.erase(world).await.unwrap();
    let kept = world.store.snapshot(session, 0, "whole/1").await.unwrap();
    assert!(kept.is_none());
    // Whoever made one before, and brings it late, has the words still.
    assert!(save(tail).await.is_none());
    assert!(save(tail + 1).await.is_some());
    world.store.scrub().await.unwrap();
}
