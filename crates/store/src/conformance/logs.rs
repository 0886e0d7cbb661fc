//! The log itself: dense, chained, in order of time, folding to its state.

use std::{sync::Arc, time::Duration};

use outlast_protocol::Micros;
use outlast_session::{
    Answer, Body, Kind, Proposal, Refusal, Send, State, Step, Update, body::Config, fold, json,
};
use serde_json::json;

use super::fixture::{World, input, note};
use crate::{AppendError, INLINE, Verifier, verify};

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    positions_are_dense_and_the_chain_holds(&world().await).await;
    the_head_is_the_fold_of_the_log(&world().await).await;
    all_of_an_append_or_nothing(&world().await).await;
    time_never_goes_backwards(&world().await).await;
    large_bodies_read_back(&world().await).await;
    a_session_needs_what_it_names(&world().await).await;
    strangers_are_refused(&world().await).await;
}

async fn positions_are_dense_and_the_chain_holds(world: &World) {
    let mut brain = world.running().await;
    for number in 0..20 {
        brain.say(note(&format!("note {number}"))).await.unwrap();
    }
    let log = world.log(brain.session).await;
    let positions: Vec<u64> = log.iter().map(|record| record.position).collect();
    assert_eq!(positions, (1..=positions.len() as u64).collect::<Vec<_>>());
    let end = verify(brain.session, &log).unwrap();
    assert_eq!(end.tail, world.state(brain.session).await.tail);

    // A place shares salt, digest and body with its arrival.
    let of = |kind| log.iter().find(|record| record.kind == kind).unwrap();
    let (arrived, placed) = (of(Kind::ArrivedMessage), of(Kind::UserMessage));
    assert_eq!(
        (arrived.event, arrived.salt, arrived.digest),
        (placed.event, placed.salt, placed.digest)
    );
    assert_eq!(arrived.body.text(), placed.body.text());

    // The proof notices what it is for.
    let mut changed = log.clone();
    changed[3].body = Body::Json(json(&json!({ "other": true })));
    assert_eq!(verify(brain.session, &changed).unwrap_err().position, 4);
    let mut moved = log.clone();
    moved[5].at = moved[5].at.after(Duration::from_micros(1));
    assert_eq!(verify(brain.session, &moved).unwrap_err().position, 6);
    let mut short = log.clone();
    short.remove(7);
    assert_eq!(verify(brain.session, &short).unwrap_err().position, 9);
    let mut erased = log.clone();
    (erased[2].body, erased[2].salt) = (Body::nothing(), None);
    let mut verifier = Verifier::new(brain.session);
    erased
        .iter()
        .for_each(|record| verifier.check(record).unwrap());
    assert_eq!((verifier.end(), verifier.erased()), (end, 1));
    assert!(
        verify(world.session_id(), &log).is_err(),
        "a log belongs to its session"
    );
}

async fn the_head_is_the_fold_of_the_log(world: &World) {
    let mut brain = world.running().await;
    for number in 0..5 {
        let said = brain.say(note(&number.to_string())).await.unwrap();
        assert_eq!(said.state, world.state(brain.session).await);
    }
    let mut state = State::blank(brain.session);
    for record in world.log(brain.session).await {
        fold(&mut state, &record.entry()).unwrap();
    }
    assert_eq!(state, *world.state(brain.session).await);
}

async fn all_of_an_append_or_nothing(world: &World) {
    let session = world.session().await;
    let before = world.state(session).await;
    let (good, bad) = (
        input("good"),
        outlast_session::Input {
            act: outlast_session::Act::Result {
                call: world.event(),
            },
            body: json(&json!({})),
        },
    );
    let inputs = vec![good.clone(), bad];
    let refused = Proposal::Send(Send {
        inputs,
        by: world.key,
        claim: None,
    });
    let error = world.propose(session, refused).await.unwrap_err();
    assert!(
        matches!(error, AppendError::Refused(Refusal::Client(_))),
        "{error}"
    );
    assert_eq!(*before, *world.state(session).await);

    let inputs = vec![good.clone(), good.clone(), good];
    let sent = Proposal::Send(Send {
        inputs,
        by: world.key,
        claim: None,
    });
    let sent = world.propose(session, sent).await.unwrap();
    let positions: Vec<u64> = sent.records.iter().map(|record| record.position).collect();
    assert_eq!(positions, [2, 3, 4]);
    assert!(sent.records.iter().all(|record| record.at == sent.state.at));
}

async fn time_never_goes_backwards(world: &World) {
    let start = world.clock.now();
    let session = world.session().await;
    world.pass(Duration::from_secs(100));
    world.send(session, "later").await;
    world.clock.set(Micros(start.0 - 5_000_000));
    let sent = world.send(session, "the clock jumped back").await;
    assert_eq!(sent.state.at, start.after(Duration::from_secs(100)));
    world.clock.set(start.after(Duration::from_secs(200)));
    world.send(session, "and on").await;
    let times: Vec<Micros> = world
        .log(session)
        .await
        .iter()
        .map(|record| record.at)
        .collect();
    let at = |seconds| start.after(Duration::from_secs(seconds));
    assert_eq!(times, [at(0), at(100), at(100), at(200)]);
}

async fn large_bodies_read_back(world: &World) {
    let large = "x".repeat(3 * INLINE);
    let session = world.session().await;
    let sent = world.send(session, &large).await;
    assert!(sent.records[0].body.text().contains(&large));
    let claimed = world.propose(session, world.claim()).await.unwrap();
    let epoch = claimed.state.thread(0).unwrap().epoch;
    let fence = outlast_session::Fence {
        epoch,
        seq: 1,
        acked: 0,
    };
    let step = Step::TakeIn {
        last: claimed.state.tail,
    };
    let taken = Proposal::Brain {
        thread: 0,
        fence,
        step,
    };
    let taken = world.propose(session, taken).await.unwrap();
    let placed = taken
        .records
        .iter()
        .find(|record| record.kind == Kind::UserMessage)
        .unwrap();
    assert!(
        placed.body.text().contains(&large),
        "a copy is answered with its body"
    );

    // A body that the decision itself makes: the configuration, in the first record.
    let mut config = Config::clone(&*world.config());
    config.agent.system = Some("s".repeat(2 * INLINE));
    let mut new = world.create();
    new.config = Arc::new(config);
    let id = new.id;
    world
        .propose(id, Proposal::Create(Box::new(new)))
        .await
        .unwrap();
    for session in [session, id] {
        verify(session, &world.log(session).await).unwrap();
    }
    let found = world
        .store
        .find(session, placed.event.unwrap())
        .await
        .unwrap();
    assert_eq!(found.body.text(), placed.body.text());
    let mut bounded = crate::Slice::after(0, 100);
    bounded.bytes = INLINE;
    let page = world.store.read(session, bounded.clone()).await.unwrap();
    assert_eq!(
        page.last().unwrap().kind,
        Kind::Created,
        "the large body does not fit any more"
    );
    bounded.from = 1;
    let page = world.store.read(session, bounded).await.unwrap();
    assert_eq!(page.len(), 1, "one record is returned however large it is");
}

async fn a_session_needs_what_it_names(world: &World) {
    let mut nowhere = world.create();
    let mut config = Config::clone(&nowhere.config);
    config.environment_id =
        outlast_protocol::id::EnvironmentId::mint(world.clock.now(), &*world.entropy);
    nowhere.config = Arc::new(config.clone());
    let id = nowhere.id;
    let error = world
        .propose(id, Proposal::Create(Box::new(nowhere)))
        .await
        .unwrap_err();
    let missing = config.environment_id.to_string();
    assert!(
        matches!(&error, AppendError::Missing(id) if *id == missing),
        "{error}"
    );

    let mut future = world.create();
    let mut config = Config::clone(&future.config);
    config.agent.version = 2;
    future.config = Arc::new(config);
    let id = future.id;
    let error = world
        .propose(id, Proposal::Create(Box::new(future)))
        .await
        .unwrap_err();
    assert!(matches!(error, AppendError::Missing(_)), "{error}");
    world.store.head(id).await.unwrap_err();
}

async fn strangers_are_refused(world: &World) {
    let nobody = world.session_id();
    let error = world
        .propose(nobody, world.message("hello"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, AppendError::NotFound(id) if id == nobody),
        "{error}"
    );
    let new = world.create();
    let error = world
        .propose(nobody, Proposal::Create(Box::new(new.clone())))
        .await
        .unwrap_err();
    assert!(
        matches!(error, AppendError::Refused(Refusal::Illegal(_))),
        "{error}"
    );
    let id = new.id;
    world
        .propose(id, Proposal::Create(Box::new(new.clone())))
        .await
        .unwrap();
    let error = world
        .propose(id, Proposal::Create(Box::new(new)))
        .await
        .unwrap_err();
    assert!(
        matches!(error, AppendError::Refused(Refusal::Illegal(_))),
        "{error}"
    );

    // A configuration replaces the one it was made from, and no other.
    let from = world.state(id).await.config.clone().unwrap();
    let mut config = Config::clone(&from);
    config.title = Some("new".to_owned());
    let (config, event) = (Arc::new(config), json(&json!({ "title": "new" })));
    let update = Update {
        from,
        config,
        event,
        agent: false,
        by: world.key,
    };
    let done = world
        .propose(id, Proposal::Update(update.clone()))
        .await
        .unwrap();
    assert_eq!(done.answer, Answer::Appended);
    let late = world
        .propose(id, Proposal::Update(update.clone()))
        .await
        .unwrap();
    assert_eq!((late.answer, late.records.len()), (Answer::Changed, 0));
    assert_eq!(world.state(id).await.config, Some(update.config));
}
