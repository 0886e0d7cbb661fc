//! Deadlines: what runs out, when, and what follows.

use std::time::Duration;

use outlast_protocol::{
    Micros,
    deadlines::{Deadline, Deadlines, NextDeadline, UpdateDeadlines},
    read::Patch,
};
use outlast_session::{Answer, Proposal, Refusal, Waker};

use crate::{calls::blocked, parts, turns::working, world::World};

fn set(world: &mut World, change: UpdateDeadlines) -> Result<Answer, Refusal> {
    let by = parts::client();
    world.propose(&Proposal::SetDeadlines { change, by })
}

/// Sets deadlines of so many seconds; 0 is none.
fn with(world: &mut World, [idle, answer, total]: [u32; 3]) {
    let patch = |seconds: u32| match seconds {
        0 => Patch::Keep,
        seconds => Patch::Set(seconds),
    };
    let change = UpdateDeadlines {
        idle: patch(idle),
        answer: patch(answer),
        total: patch(total),
    };
    assert_eq!(set(world, change), Ok(Answer::Appended));
    world.skip();
}

fn expire(world: &mut World) -> Answer {
    world.propose(&Proposal::Expire).unwrap()
}

/// Lets the clock stand exactly where the next deadline is, less some time.
fn before(world: &mut World, left: Duration) {
    let next = world.state().next_deadline().unwrap();
    let micros = i64::try_from(left.as_micros()).unwrap();
    world.now = Micros(next.at.0 - micros);
}

#[test]
fn what_runs_out_follows_from_what_the_session_does() {
    let second = Duration::from_secs(1);
    let next = |world: &World| world.state().next_deadline().map(|next| next.deadline);
    let mut world = World::new();
    assert_eq!(next(&world), None, "nothing is set");
    let created = world.state().created_at;
    with(&mut world, [10, 20, 100]);
    let idle = NextDeadline {
        deadline: Deadline::Idle,
        at: created.after(10 * second),
    };
    assert_eq!(
        world.state().next_deadline(),
        Some(idle),
        "it rests since it was made"
    );
    world.send(vec![parts::message("hi")]);
    assert_eq!(next(&world), Some(Deadline::Total), "it has work");
    let mut world = working();
    with(&mut world, [10, 20, 100]);
    assert_eq!(next(&world), Some(Deadline::Total));
    let mut world = blocked(&[("w", "write", false)]);
    let asked = world.state().at;
    with(&mut world, [10, 20, 0]);
    let answer = NextDeadline {
        deadline: Deadline::Answer,
        at: asked.after(20 * second),
    };
    assert_eq!(
        world.state().next_deadline(),
        Some(answer),
        "its rest does not count"
    );
    with(&mut world, [0, 0, 1]);
    assert_eq!(
        next(&world),
        Some(Deadline::Total),
        "the earliest one counts"
    );
    world.propose(&Proposal::Archive(parts::client())).unwrap();
    assert_eq!(next(&world), None, "it is over");
}

#[test]
fn a_deadline_is_kept_at_its_moment_and_not_before() {
    let mut world = World::new();
    with(&mut world, [10, 0, 0]);
    before(&mut world, Duration::from_micros(1));
    assert_eq!(expire(&mut world), Answer::Nothing);
    world.appended(&[]);
    before(&mut world, Duration::ZERO);
    assert_eq!(expire(&mut world), Answer::Appended);
    world.appended(&[
        "session.thread_status_terminated",
        "session.status_terminated",
        "x.archived",
    ]);
    assert_eq!(expire(&mut world), Answer::Nothing);
    assert_eq!(world.thread().waker(), Waker::Ended);
}

#[test]
fn calls_that_nobody_answers_are_denied_and_the_turn_goes_on() {
    let mut world = blocked(&[("w", "write", false), ("q", "ask", false)]);
    with(&mut world, [0, 20, 0]);
    before(&mut world, Duration::ZERO);
    assert_eq!(expire(&mut world), Answer::Appended);
    world.appended(&[
        "x.settled w denied",
        "x.arrived.agent.tool_result w",
        "x.settled q may_have_run",
        "x.arrived.agent.tool_result q",
        "session.status_running",
        "session.thread_status_running",
        "agent.tool_result w",
        "agent.tool_result q",
    ]);
    let results = world.log.iter().rev().take(2);
    for result in results {
        let words = result.json()["content"][0]["text"].to_string();
        assert!(words.contains("within 20 seconds"), "{words}");
    }
    assert_eq!(
        world.thread().waker(),
        Waker::Brain,
        "a brain tells the model"
    );
    // A client that comes late is told, and changes nothing.
    let late = world.try_send(vec![parts::allow(world.id("w"))], false);
    assert!(matches!(late, Err(Refusal::Client(_))), "{late:?}");
    assert_eq!(world.claim(), Answer::Appended);
}

#[test]
fn an_answer_that_was_faster_leaves_nothing_to_do() {
    let mut world = blocked(&[("q", "ask", false)]);
    with(&mut world, [0, 20, 0]);
    before(&mut world, Duration::ZERO);
    world.send(vec![parts::result(world.id("q"))]);
    world.skip();
    assert_eq!(expire(&mut world), Answer::Nothing);
    world.appended(&[]);
    // One of two calls that was answered starts no new time for the other.
    let mut world = blocked(&[("w", "write", false), ("q", "ask", false)]);
    with(&mut world, [0, 20, 0]);
    let at = world.state().next_deadline();
    world.now = world.now.after(Duration::from_secs(15));
    world.send(vec![parts::allow(world.id("w"))]);
    assert_eq!(world.state().next_deadline(), at);
}

#[test]
fn a_session_that_is_too_old_is_interrupted_and_ended() {
    let end = [
        "session.error terminal",
        "session.thread_status_terminated",
        "session.status_terminated",
    ];
    let mut rests = World::new();
    let mut waits = blocked(&[("w", "write", false)]);
    let mut works = working();
    works.start("r1");
    let closed = [
        "x.settled w interrupted",
        "agent.tool_result w",
        "session.error terminal",
        "session.thread_status_terminated",
        "session.status_terminated",
    ];
    let stopped = [
        "span.model_request_end r1 error",
        "session.error terminal",
        "x.released",
        "session.thread_status_terminated",
        "session.status_terminated",
    ];
    for (world, expected) in [
        (&mut rests, &end[..]),
        (&mut waits, &closed[..]),
        (&mut works, &stopped[..]),
    ] {
        with(world, [0, 0, 100]);
        before(world, Duration::ZERO);
        assert_eq!(expire(world), Answer::Appended);
        world.appended(expected);
        assert_eq!(world.thread().waker(), Waker::Ended);
        assert!(
            world.state().archived_at.is_none(),
            "its log can be read and archived"
        );
        let more = world.try_send(vec![parts::message("more")], false);
        assert!(matches!(more, Err(Refusal::Client(_))), "{more:?}");
    }
    // A brain that did not hear of it is refused.
    let late = works.try_step(outlast_session::Step::Release);
    assert!(matches!(late, Err(Refusal::Stale { .. })), "{late:?}");
}

#[test]
fn a_clock_that_is_set_back_ends_nothing_twice() {
    let mut world = World::new();
    with(&mut world, [10, 0, 0]);
    let at = world.now;
    before(&mut world, Duration::ZERO);
    world.send(vec![parts::message("just in time")]);
    world.now = at;
    assert_eq!(expire(&mut world), Answer::Nothing);
    // The time of the log never goes back, so neither does what follows from it.
    assert!(world.state().at > at);
}

#[test]
fn what_holds_is_recorded_and_changed_by_parts() {
    let mut world = World::new();
    with(&mut world, [10, 20, 0]);
    let change = UpdateDeadlines {
        idle: Patch::Clear,
        total: Patch::Set(30),
        ..UpdateDeadlines::default()
    };
    assert_eq!(set(&mut world, change), Ok(Answer::Appended));
    world.appended(&["x.deadlines"]);
    let expected = Deadlines {
        idle_seconds: None,
        answer_seconds: Some(20),
        total_seconds: Some(30),
    };
    assert_eq!(world.state().deadlines, expected);
    assert_eq!(set(&mut world, change), Ok(Answer::Nothing));
    world.propose(&Proposal::Archive(parts::client())).unwrap();
    let clear = UpdateDeadlines {
        total: Patch::Clear,
        ..UpdateDeadlines::default()
    };
    assert!(matches!(set(&mut world, clear), Err(Refusal::Client(_))));
}
