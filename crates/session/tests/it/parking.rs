//! Threads on which one brain after another comes to nothing.

use outlast_protocol::Micros;
use outlast_session::{After, Answer, Status, Step, Waker};

use crate::{parts, turns::working, world::World};

/// Claims without progress before a thread is a suspect.
const MOST: u32 = 5;

/// Lets so many brains die without getting on.
fn die(world: &mut World, times: u32) {
    for _ in 0..times {
        assert_eq!(world.claim_alone(Some(1)), Answer::Appended);
    }
}

/// A turn whose model request kills whoever makes it, as often as a thread may without being parked.
fn poisoned() -> World {
    let mut world = working();
    die(&mut world, 2 * MOST);
    world.skip();
    world
}

/// The same, once it is parked.
fn parked() -> World {
    let mut world = poisoned();
    assert_eq!(world.try_claim(1, Some(1)), Ok(Answer::Parked));
    world
}

#[test]
fn a_thread_that_came_to_nothing_often_is_worked_on_alone() {
    let mut world = working();
    for attempt in 1..=MOST {
        assert_eq!(world.try_claim(1, Some(1)), Ok(Answer::Appended));
        assert_eq!(world.thread().attempts, attempt);
    }
    world.skip();
    assert_eq!(world.try_claim(2, Some(1)), Ok(Answer::Suspect));
    world.appended(&[]);
    assert_eq!(world.claim_alone(Some(1)), Answer::Appended);
    // An answer shows that it was not this thread.
    world.answer("r1");
    assert_eq!(world.thread().attempts, 0);
    assert_eq!(world.try_claim(2, Some(1)), Ok(Answer::Appended));
}

#[test]
fn a_suspect_is_not_claimed_along_with_an_input() {
    let mut world = World::new();
    world.send_claimed(vec![parts::message("hi")]);
    die(&mut world, MOST);
    world.step(Step::Break);
    world.skip();
    world.send_claimed(vec![parts::message("more")]);
    world.appended(&["x.arrived.user.message more"]);
    assert_eq!(world.thread().waker(), Waker::Brain);
    assert_eq!(world.claim(), Answer::Suspect);
}

#[test]
fn a_lease_given_back_in_order_is_no_attempt() {
    let mut world = working();
    for _ in 0..3 * MOST {
        world.step(Step::Release);
        assert_eq!(world.claim(), Answer::Appended);
        assert_eq!(world.thread().attempts, 1);
    }
    world.step(Step::Break);
    world.skip();
    world.claim();
    assert_eq!(world.thread().attempts, 2);
}

#[test]
fn a_fault_gives_the_lease_back_and_closes_what_is_open() {
    let mut world = working();
    world.start("r1");
    world.skip();
    world.step(Step::Break);
    world.appended(&["span.model_request_end r1 error", "x.released broken"]);
}

#[test]
fn what_comes_to_nothing_alone_too_is_parked() {
    let mut world = working();
    world.calls("r1", &[("a", "bash", false)]);
    world.intend("a");
    die(&mut world, 2 * MOST);
    world.send(vec![parts::message("still there?")]);
    world.skip();
    assert_eq!(world.claim_alone(Some(1)), Answer::Parked);
    world.appended(&[
        "session.error exhausted",
        "x.settled a interrupted",
        "agent.tool_result a",
        "user.message still there?",
        "session.thread_status_idle retries_exhausted",
        "session.usage",
        "session.status_idle retries_exhausted",
        "x.parked",
    ]);
    assert_eq!(world.thread().waker(), Waker::Parked);
    assert_eq!(world.state().ready_at(0), Some(Micros::MAX));
    assert_eq!(world.state().shown(), Status::Idle);
    assert_eq!(world.thread().parked.unwrap().attempts, 10);
    assert_eq!(world.claim(), Answer::Nothing);
}

#[test]
fn what_never_began_is_seen_to_run_and_fail() {
    let mut world = World::new();
    world.send_claimed(vec![parts::message("hi")]);
    die(&mut world, 2 * MOST - 1);
    world.skip();
    assert_eq!(world.claim_alone(Some(1)), Answer::Parked);
    world.appended(&[
        "user.message hi",
        "session.status_running",
        "session.thread_status_running",
        "session.error exhausted",
        "session.thread_status_idle retries_exhausted",
        "session.usage",
        "session.status_idle retries_exhausted",
        "x.parked",
    ]);
}

#[test]
fn an_interrupt_needs_no_brain() {
    let mut world = poisoned();
    world.send(vec![parts::interrupt()]);
    world.skip();
    assert_eq!(world.claim_alone(Some(1)), Answer::Parked);
    world.appended(&[
        "user.interrupt",
        "session.thread_status_idle end_turn",
        "session.usage",
        "session.status_idle end_turn",
        "x.released",
    ]);
    assert_eq!(
        (world.thread().parked, world.thread().waker()),
        (None, Waker::Input)
    );
}

#[test]
fn the_next_input_is_tried_once() {
    let mut world = parked();
    world.send_claimed(vec![parts::message("once more")]);
    assert_eq!(world.claim(), Answer::Suspect);
    assert_eq!(world.claim_alone(None), Answer::Appended);
    world.take_in();
    assert_eq!(world.claim_alone(Some(1)), Answer::Parked);
    world.send(vec![parts::message("mended")]);
    assert_eq!(world.claim_alone(None), Answer::Appended);
    world.take_in();
    world.answer("r1");
    assert_eq!((world.thread().parked, world.thread().attempts), (None, 0));
    world.end_turn();
    assert_eq!(world.thread().waker(), Waker::Input);
}

#[test]
fn an_operator_has_it_go_on_where_it_stood() {
    let mut world = parked();
    world.skip();
    assert_eq!(world.revive(), Answer::Appended);
    world.appended(&[
        "x.claimed 12 revived",
        "session.status_running",
        "session.thread_status_running",
    ]);
    assert_eq!(world.thread().turn.unwrap().after, After::Input);
    assert_eq!((world.thread().parked, world.thread().attempts), (None, 1));
    assert_eq!(world.revive(), Answer::Nothing, "it goes on already");
    world.answer("r1");
    world.end_turn();
    world.skip();
    assert_eq!(world.revive(), Answer::Nothing, "it is at rest");
    world.appended(&[]);
}

#[test]
fn a_parked_session_can_be_archived() {
    let mut world = parked();
    let archive = outlast_session::Proposal::Archive(parts::client());
    assert_eq!(world.propose(&archive), Ok(Answer::Appended));
    assert_eq!(
        (world.revive(), world.thread().waker()),
        (Answer::Nothing, Waker::Ended)
    );
}
