//! Processes: who lives, and what it means that one does not.

use outlast_session::{Claim, Proposal, Refusal};

use super::fixture::{World, note};
use crate::{AppendError, Pulse, Ready};

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    beats_are_counted(&world().await).await;
    the_declared_stay_dead(&world().await).await;
    the_dead_take_no_lease(&world().await).await;
}

async fn beats(world: &World) -> Vec<(u64, bool)> {
    let known = world.store.processes().await.unwrap();
    let own = known.iter().filter(|known| known.id == world.process);
    own.map(|known| (known.beats, known.dead)).collect()
}

async fn beats_are_counted(world: &World) {
    assert_eq!(beats(world).await, [(0, false)]);
    for count in 1..=3 {
        let pulse = world.store.beat(world.process).await.unwrap();
        assert_eq!(
            (pulse, beats(world).await),
            (Pulse::Alive, vec![(count, false)])
        );
    }
    let nobody = world.process();
    assert_eq!(world.store.beat(nobody).await.unwrap(), Pulse::Dead);
    world.store.declare_dead(nobody).await.unwrap();
    let known = world.store.processes().await.unwrap();
    assert!(
        known.iter().all(|known| known.id != nobody),
        "nobody is made up"
    );
}

async fn the_declared_stay_dead(world: &World) {
    // A lease keeps the process known.
    let mut brain = world.running().await;
    world.store.declare_dead(world.process).await.unwrap();
    world.store.declare_dead(world.process).await.unwrap();
    for _ in 0..2 {
        assert_eq!(world.store.beat(world.process).await.unwrap(), Pulse::Dead);
        assert_eq!(beats(world).await, [(0, true)]);
        world
            .store
            .register(world.process, world.clock.now())
            .await
            .unwrap();
    }

    // Its lease can be taken at once, and is its own until then.
    let left = Ready {
        session: brain.session,
        thread: 0,
        dead: Some(world.process),
    };
    let now = world.clock.now();
    assert_eq!(world.store.ready(now, 9).await.unwrap(), [left]);
    brain.say(note("not taken yet")).await.unwrap();
    let successor = world.process();
    world.store.register(successor, now).await.unwrap();
    let claim = Claim {
        process: successor,
        dead: Some(world.process),
    };
    world
        .propose(brain.session, Proposal::Claim { thread: 0, claim })
        .await
        .unwrap();
    let error = brain.say(note("too late")).await.unwrap_err();
    assert!(
        matches!(error, AppendError::Refused(Refusal::Stale { .. })),
        "{error}"
    );
    assert_eq!(world.store.ready(now, 9).await.unwrap(), []);
}

async fn the_dead_take_no_lease(world: &World) {
    let session = world.session().await;
    world.send(session, "work").await;
    let before = world.state(session).await;
    world.store.declare_dead(world.process).await.unwrap();
    let claim = Claim {
        process: world.process,
        dead: None,
    };
    let mut message = world.message("with a claim");
    if let Proposal::Send(send) = &mut message {
        send.claim = Some(claim);
    }
    for proposal in [world.claim(), message] {
        let error = world.propose(session, proposal).await.unwrap_err();
        assert!(
            matches!(error, AppendError::Dead(process) if process == world.process),
            "{error}"
        );
    }
    let mut new = world.create();
    let id = new.id;
    new.claim = Some(claim);
    let error = world
        .propose(id, Proposal::Create(Box::new(new)))
        .await
        .unwrap_err();
    assert!(matches!(error, AppendError::Dead(_)), "{error}");
    world.store.head(id).await.unwrap_err();
    assert_eq!(world.state(session).await.tail, before.tail);
    // What claims nothing is none of its business.
    world.send(session, "without a claim").await;
}
