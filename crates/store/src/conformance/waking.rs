//! Which threads want a brain, and when.

use std::time::Duration;

use outlast_protocol::{
    Micros,
    deadlines::UpdateDeadlines,
    id::{ProcessId, SessionId},
    read::Patch,
};
use outlast_session::{Answer, Claim, Failure, Proposal, Step, Stop, Then, json};
use serde_json::json;

use super::fixture::{Brain, World};
use crate::Ready;

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    work_is_found_in_order(&world().await).await;
    timers_come_due(&world().await).await;
    a_clock_that_was_set_back_delays_no_timer(&world().await).await;
    the_dead_leave_their_threads(&world().await).await;
    who_owes_a_word_is_woken(&world().await).await;
    the_unfinished_are_known(&world().await).await;
    what_runs_out_is_known(&world().await).await;
}

async fn what_runs_out_is_known(world: &World) {
    let second = Duration::from_secs(1);
    let overdue = async || world.store.overdue(world.clock.now(), 10).await.unwrap();
    let next = async || world.store.next_deadline(world.clock.now()).await.unwrap();
    let begin = world.clock.now();
    let set = async |session: SessionId, idle: Patch<u32>| {
        let by = world.key;
        let change = UpdateDeadlines {
            idle,
            ..UpdateDeadlines::default()
        };
        let proposal = Proposal::SetDeadlines { change, by };
        world.propose(session, proposal).await.unwrap()
    };
    let (one, two, none) = (
        world.session().await,
        world.session().await,
        world.session().await,
    );
    assert_eq!((overdue().await, next().await), (Vec::new(), None));
    set(one, Patch::Set(20)).await;
    set(two, Patch::Set(10)).await;
    assert_eq!(next().await, Some(begin.after(10 * second)));
    world.clock.set(begin.after(20 * second));
    assert_eq!(overdue().await, [two, one], "the longest ago first");
    assert_eq!(
        world.store.overdue(world.clock.now(), 1).await.unwrap(),
        [two]
    );
    assert_eq!(next().await, None, "what has run out is not next");
    // A clock that is set back hides what is not due by it.
    world.clock.set(begin.after(15 * second));
    assert_eq!(
        (overdue().await, next().await),
        (vec![two], Some(begin.after(20 * second)))
    );
    let ended = world.propose(two, Proposal::Expire).await.unwrap();
    assert!(ended.state.archived_at.is_some());
    let early = world.propose(one, Proposal::Expire).await.unwrap();
    assert_eq!(early.answer, Answer::Nothing);
    let nothing = world.propose(none, Proposal::Expire).await.unwrap();
    assert_eq!(nothing.answer, Answer::Nothing);
    assert_eq!(overdue().await, []);
    // Work takes it away, and rest brings it back with a new time.
    world.send(one, "work").await;
    assert_eq!(next().await, None);
    let mut brain = world.brain(one).await;
    world.pass(7 * second);
    brain
        .say(Step::Fail(failure(Then::Exhausted)))
        .await
        .unwrap();
    assert_eq!(next().await, Some(world.clock.now().after(20 * second)));
    set(one, Patch::Clear).await;
    assert_eq!(next().await, None);
}

/// A failure of the model.
fn failure(then: Then) -> Failure {
    let error = json(&json!({"error": {"type": "unknown_error", "message": "no",
        "retry_status": {"type": "exhausted"}}}));
    Failure { error, then }
}

fn waits(session: SessionId) -> Ready {
    Ready {
        session,
        thread: 0,
        dead: None,
    }
}

fn left(session: SessionId, by: ProcessId) -> Ready {
    Ready {
        session,
        thread: 0,
        dead: Some(by),
    }
}

async fn ready(world: &World) -> Vec<Ready> {
    world.store.ready(world.clock.now(), 100).await.unwrap()
}

async fn work_is_found_in_order(world: &World) {
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(world.session().await);
    }
    assert_eq!(ready(world).await, []);
    // The third first, then the first, then the last; the second has nothing to do.
    for at in [2, 0, 3] {
        world.pass(Duration::from_secs(1));
        world.send(waiting[at], "work").await;
    }
    world.pass(Duration::from_secs(1));
    // More work does not send a session to the back of the line.
    world.send(waiting[2], "more work").await;
    let order = [waits(waiting[2]), waits(waiting[0]), waits(waiting[3])];
    assert_eq!(ready(world).await, order);
    assert_eq!(
        world.store.ready(world.clock.now(), 2).await.unwrap(),
        order[..2]
    );
    assert_eq!(
        world.store.next_ready(world.clock.now()).await.unwrap(),
        None
    );

    // A clock that jumped back hides nothing.
    let now = world.clock.now();
    world.clock.set(Micros(now.0 - 3_600_000_000));
    assert_eq!(ready(world).await, order);
    world.clock.set(now);

    // Who is claimed for is not waiting; who came to an end is not either.
    world.propose(waiting[0], world.claim()).await.unwrap();
    assert_eq!(ready(world).await, [waits(waiting[2]), waits(waiting[3])]);
}

/// Has a brain set a timer.
async fn fails(world: &World, brain: &mut Brain<'_>, wait: Duration) -> Micros {
    let due = world.clock.now().after(wait);
    let error = json(&json!({ "error": { "type": "model_overloaded_error" } }));
    let failure = Failure {
        error,
        then: Then::Retry(due),
    };
    brain.say(Step::Fail(failure)).await.unwrap();
    due
}

async fn a_clock_that_was_set_back_delays_no_timer(world: &World) {
    let wait = Duration::from_secs(30);
    let mut brain = world.running().await;
    let due = fails(world, &mut brain, wait).await;
    world.clock.set(Micros(due.0 - 60_000_000));
    assert_eq!(ready(world).await, [], "clocks of nodes differ a little");
    world.clock.set(Micros(due.0 - 3_600_000_000));
    assert_eq!(ready(world).await, [waits(brain.session)]);
    let claimed = world.propose(brain.session, world.claim()).await.unwrap();
    assert_eq!(claimed.answer, Answer::Appended);
    assert_eq!(ready(world).await, []);
    // A timer of that clock waits as long as it should.
    brain.epoch += 1;
    brain.seq = 0;
    let due = fails(world, &mut brain, wait).await;
    assert_eq!(ready(world).await, []);
    world.clock.set(due);
    assert_eq!(ready(world).await, [waits(brain.session)]);
}

async fn timers_come_due(world: &World) {
    let mut brain = world.running().await;
    assert_eq!(ready(world).await, []);
    let due = fails(world, &mut brain, Duration::from_secs(30)).await;
    assert_eq!(ready(world).await, []);
    assert_eq!(
        world.store.next_ready(world.clock.now()).await.unwrap(),
        Some(due)
    );
    world.clock.set(due);
    assert_eq!(ready(world).await, [waits(brain.session)]);
    assert_eq!(world.store.next_ready(due).await.unwrap(), None);

    // Whoever has waited longer comes first, at once or due.
    world.pass(Duration::from_secs(1));
    let fresh = world.session().await;
    world.send(fresh, "work").await;
    assert_eq!(ready(world).await, [waits(brain.session), waits(fresh)]);
}

async fn the_dead_leave_their_threads(world: &World) {
    let brain = world.running().await;
    let mut done = world.running().await;
    assert_eq!(ready(world).await, [], "their holder lives");

    // A turn that came to its end leaves nothing behind.
    let error = json(&json!({ "error": { "type": "unknown_error" } }));
    done.say(Step::Fail(Failure {
        error,
        then: Then::Exhausted,
    }))
    .await
    .unwrap();

    let successor = world.process();
    world
        .store
        .register(successor, world.clock.now())
        .await
        .unwrap();
    let dead = world.process;
    assert_eq!(ready(world).await, [left(brain.session, dead)]);
    // The dead stay dead.
    world
        .store
        .register(successor, world.clock.now())
        .await
        .unwrap();
    assert_eq!(ready(world).await, [left(brain.session, dead)]);

    let claim = Claim {
        process: successor,
        dead: Some(dead),
    };
    world
        .propose(brain.session, Proposal::Claim { thread: 0, claim })
        .await
        .unwrap();
    assert_eq!(ready(world).await, []);

    // A process that nobody knows does not live either.
    let stranger = world.session().await;
    world.send(stranger, "work").await;
    let nobody = world.process();
    let claim = Claim {
        process: nobody,
        dead: None,
    };
    world
        .propose(stranger, Proposal::Claim { thread: 0, claim })
        .await
        .unwrap();
    assert_eq!(ready(world).await, [left(stranger, nobody)]);
}

/// A brain that ended between a response that asks the client and telling so leaves work behind.
async fn who_owes_a_word_is_woken(world: &World) {
    let mut gone = world.running().await;
    world.asks(&mut gone).await;
    gone.say(Step::Release).await.unwrap();
    assert_eq!(ready(world).await, [waits(gone.session)]);

    let mut dead = world.running().await;
    world.asks(&mut dead).await;
    let successor = world.process();
    world
        .store
        .register(successor, world.clock.now())
        .await
        .unwrap();
    let by = world.process;
    let found = ready(world).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.contains(&waits(gone.session)) && found.contains(&left(dead.session, by)));

    let claim = Claim {
        process: successor,
        dead: Some(by),
    };
    let claim = Proposal::Claim { thread: 0, claim };
    let epoch = world
        .propose(dead.session, claim)
        .await
        .unwrap()
        .state
        .threads[0]
        .epoch;
    let mut next = dead;
    (next.epoch, next.seq) = (epoch, 0);
    next.say(Step::EndTurn(Stop::EndTurn)).await.unwrap();
    assert_eq!(
        ready(world).await,
        [waits(gone.session)],
        "a client's answer is waited for now"
    );
}

/// Sessions at rest are not among the unfinished; all others are.
async fn the_unfinished_are_known(world: &World) {
    let rests = world.session().await;
    assert_eq!(world.store.unfinished(10).await.unwrap(), []);
    let waits = world.session().await;
    world.send(waits, "work").await;
    let held = world.running().await;
    let mut asks = world.running().await;
    world.asks(&mut asks).await;
    asks.say(Step::EndTurn(Stop::EndTurn)).await.unwrap();
    let mut later = world.running().await;
    let due = world.clock.now().after(Duration::from_secs(3_600));
    let error = json(&json!({ "error": { "type": "model_overloaded_error" } }));
    let then = Then::Retry(due);
    later
        .say(Step::Fail(Failure { error, then }))
        .await
        .unwrap();

    let mut found = world.store.unfinished(10).await.unwrap();
    found.sort_unstable();
    for (session, there) in [
        (rests, false),
        (waits, true),
        (held.session, true),
        (asks.session, false),
        (later.session, true),
    ] {
        assert_eq!(found.contains(&session), there, "{session}");
    }
    assert_eq!(world.store.unfinished(2).await.unwrap().len(), 2);
}
