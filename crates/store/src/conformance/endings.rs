//! Deleting, purging, snapshots.

use outlast_protocol::id::IncarnationId;
use outlast_session::{
    Fact, Failure, Proposal, Refusal, Step, Then, Update,
    body::{HandLost, HandWanted},
    json,
};
use serde_json::json;

use super::fixture::World;
use crate::{AppendError, INLINE, ReadError, Slice, Snapshot};

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    the_deleted_are_gone_at_once(&world().await).await;
    purging_goes_in_steps(&world().await).await;
    snapshots_are_kept_by_name(&world().await).await;
    hands_are_named_until_their_session_ends(&world().await).await;
}

async fn hands_are_named_until_their_session_ends(world: &World) {
    let hand = || IncarnationId::mint(world.pass(std::time::Duration::ZERO), &*world.entropy);
    let whose = async |hands: &[IncarnationId]| world.store.named(hands).await.unwrap();
    let named = async |hands: &[IncarnationId]| {
        let found = whose(hands).await.into_iter();
        found.map(|(hand, _)| hand).collect::<Vec<_>>()
    };
    let mut sessions = Vec::new();
    for ending in [Proposal::Archive(world.key), Proposal::Delete(world.key)] {
        let brain = world.running().await;
        let (session, epoch) = (brain.session, brain.epoch);
        let say = async |fact| {
            let key = world.event();
            let proposal = Proposal::Keyed {
                thread: 0,
                epoch,
                key,
                fact,
            };
            world.propose(session, proposal).await.unwrap();
        };
        let wanted = |incarnation, predecessor: Option<IncarnationId>, forgotten| {
            Fact::HandWanted(HandWanted {
                name: "default".to_owned(),
                incarnation,
                predecessor,
                forgotten,
                loss: None,
                networking: None,
            })
        };
        let (first, second, third, stranger) = (hand(), hand(), hand(), hand());
        let all = [first, second, third, stranger];
        assert_eq!(named(&all).await, []);
        say(wanted(first, None, Vec::new())).await;
        assert_eq!(whose(&all).await, [(first, session)]);
        let lost = |incarnation| Fact::HandLost(HandLost::of(incarnation, "killed"));
        say(lost(first)).await;
        say(wanted(second, Some(first), Vec::new())).await;
        assert_eq!(named(&all).await, [first, second]);
        say(lost(second)).await;
        say(wanted(third, Some(second), vec![first])).await;
        assert_eq!(named(&all).await, [second, third]);
        sessions.push((brain, ending, all, third));
    }
    for (mut brain, ending, all, third) in sessions {
        assert!(named(&all).await.contains(&third), "a neighbour's end");
        let failure = Failure {
            error: json(&json!({ "error": { "type": "unknown_error" } })),
            then: Then::Exhausted,
        };
        brain.say(Step::Fail(failure)).await.unwrap();
        world.propose(brain.session, ending).await.unwrap();
        assert_eq!(named(&all).await, []);
    }
}

async fn the_deleted_are_gone_at_once(world: &World) {
    let session = world.session().await;
    let config = world.state(session).await.config.clone().unwrap();
    let gone = world
        .propose(session, Proposal::Delete(world.key))
        .await
        .unwrap();
    assert!(gone.state.deleted);
    let (from, by) = (config.clone(), world.key);
    let event = json(&json!({}));
    let proposals = [
        world.message("late"),
        world.claim(),
        Proposal::Delete(world.key),
        Proposal::Archive(world.key),
        Proposal::Update(Update {
            from,
            config,
            event,
            agent: false,
            by,
        }),
    ];
    for proposal in proposals {
        let error = world.propose(session, proposal).await.unwrap_err();
        assert!(
            matches!(error, AppendError::NotFound(id) if id == session),
            "{error}"
        );
    }
    let mut new = world.create();
    new.id = session;
    let error = world
        .propose(session, Proposal::Create(Box::new(new)))
        .await
        .unwrap_err();
    assert!(
        matches!(error, AppendError::Refused(Refusal::Illegal(_))),
        "{error}"
    );
    let missing = world
        .store
        .read(session, Slice::after(0, 9))
        .await
        .unwrap_err();
    assert!(matches!(missing, ReadError::NotFound(_)), "{missing}");
    let missing = world.store.head(session).await.unwrap_err();
    assert!(matches!(missing, ReadError::NotFound(_)), "{missing}");
}

async fn purging_goes_in_steps(world: &World) {
    assert_eq!(world.store.purge(100).await.unwrap(), 0);
    let kept = world.session().await;
    world.send(kept, &"k".repeat(2 * INLINE)).await;
    for _ in 0..2 {
        let doomed = world.session().await;
        for number in 0..8 {
            let size = if number % 4 == 0 { 2 * INLINE } else { 10 };
            world.send(doomed, &"d".repeat(size)).await;
        }
        interrupt(world, doomed).await;
        world
            .propose(doomed, Proposal::Delete(world.key))
            .await
            .unwrap();
    }
    let mut steps = 0;
    loop {
        let gone = world.store.purge(3).await.unwrap();
        assert!(gone <= 3, "{gone}");
        if gone == 0 {
            break;
        }
        steps += 1;
    }
    assert!(steps >= 6, "{steps} steps");
    assert_eq!(world.log(kept).await.len(), 2, "neighbours stay");
}

/// Ends whatever a session could still do, so that it can be deleted.
async fn interrupt(world: &World, session: outlast_protocol::id::SessionId) {
    let claimed = world.propose(session, world.claim()).await.unwrap();
    let epoch = claimed.state.thread(0).unwrap().epoch;
    let last = claimed.state.tail;
    let steps = [
        Step::TakeIn { last },
        Step::Fail(Failure {
            error: json(&json!({ "error": { "type": "unknown_error" } })),
            then: Then::Exhausted,
        }),
    ];
    for (seq, step) in (1..).zip(steps) {
        let fence = outlast_session::Fence {
            epoch,
            seq,
            acked: 0,
        };
        let proposal = Proposal::Brain {
            thread: 0,
            fence,
            step,
        };
        world.propose(session, proposal).await.unwrap();
    }
}

async fn snapshots_are_kept_by_name(world: &World) {
    let session = world.session().await;
    let snapshot = |name: &str, position, text: &str| Snapshot {
        session,
        thread: 0,
        name: name.to_owned(),
        position,
        body: text.as_bytes().to_vec(),
    };
    let newest = async |thread, name| {
        let found = world.store.snapshot(session, thread, name).await.unwrap();
        found.map(|snapshot| (snapshot.position, String::from_utf8(snapshot.body).unwrap()))
    };
    assert_eq!(newest(0, "whole.1").await, None);
    world
        .store
        .save_snapshot(snapshot("whole.1", 5, "five"))
        .await
        .unwrap();
    world
        .store
        .save_snapshot(snapshot("whole.2", 3, "other"))
        .await
        .unwrap();
    world
        .store
        .save_snapshot(snapshot("whole.1", 9, "nine"))
        .await
        .unwrap();
    world
        .store
        .save_snapshot(snapshot("whole.1", 7, "late"))
        .await
        .unwrap();
    assert_eq!(newest(0, "whole.1").await, Some((9, "nine".to_owned())));
    assert_eq!(newest(0, "whole.2").await, Some((3, "other".to_owned())));
    assert_eq!(newest(1, "whole.1").await, None);
    let nobody = Snapshot {
        session: world.session_id(),
        ..snapshot("whole.1", 1, "")
    };
    let missing = world.store.save_snapshot(nobody).await.unwrap_err();
    assert!(matches!(missing, ReadError::NotFound(_)), "{missing}");
}
