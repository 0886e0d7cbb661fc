//! Failures of the model: retried, exhausted, terminal.

use outlast_session::{Answer, Status, Step, Then, Waker};

use crate::{acts::failed, parts, turns::working, world::World};

#[test]
fn a_failure_that_is_retried_reschedules() {
    let mut world = working();
    world.start("r1");
    assert_eq!(world.retry(), Answer::Appended);
    world.appended(&[
        "span.model_request_start r1",
        "span.model_request_end r1 error",
        "session.error retrying",
        "session.status_rescheduled",
        "session.thread_status_rescheduled",
        "x.released to retry",
    ]);
    assert_eq!(world.state().shown(), Status::Rescheduling);
    assert!(matches!(world.thread().waker(), Waker::Timer(_)));
    assert_eq!(world.thread().turn.unwrap().retries, 1);
}

#[test]
fn used_up_retries_take_queued_inputs_in_unanswered() {
    let mut world = working();
    world.start("r1");
    world.send(vec![parts::message("more"), parts::system("be brief")]);
    world.skip();
    world.fail(Then::Exhausted);
    world.appended(&[
        "span.model_request_end r1 error",
        "session.error exhausted",
        "user.message more",
        "system.message be brief",
        "session.thread_status_idle retries_exhausted",
        "session.usage",
        "session.status_idle retries_exhausted",
        "x.released",
    ]);
    assert_eq!(world.thread().waker(), Waker::Input);
    world.send_claimed(vec![parts::message("again")]);
    world.take_in();
    assert_eq!(world.start("r2"), Answer::Appended);
}

#[test]
fn used_up_retries_close_what_runs() {
    let mut world = working();
    world.calls("r1", &[("a", "bash", false), ("b", "bash", false)]);
    world.settle("b");
    world.skip();
    world.fail(Then::Exhausted);
    world.appended(&[
        "session.error exhausted",
        "x.settled a interrupted",
        "agent.tool_result a",
        "agent.tool_result b",
        "session.thread_status_idle retries_exhausted",
        "session.usage",
        "session.status_idle retries_exhausted",
        "x.released",
    ]);
}

#[test]
fn a_terminal_failure_ends_the_session() {
    let mut world = working();
    world.start("r1");
    world.skip();
    world.fail(Then::Terminal);
    world.appended(&[
        "span.model_request_end r1 error",
        "session.error terminal",
        "x.released",
        "session.thread_status_terminated",
        "session.status_terminated",
    ]);
    assert_eq!(world.thread().waker(), Waker::Ended);
    assert_eq!(world.claim(), Answer::Nothing);
    assert!(world.try_send(vec![parts::message("hi")], true).is_err());
}

#[test]
fn a_brain_that_cannot_begin_says_so_in_a_turn_of_its_own() {
    let mut world = World::new();
    world.send_claimed(vec![parts::message("hi")]);
    world.skip();
    world.fail(Then::Exhausted);
    world.appended(&[
        "user.message hi",
        "session.status_running",
        "session.thread_status_running",
        "session.error exhausted",
        "session.thread_status_idle retries_exhausted",
        "session.usage",
        "session.status_idle retries_exhausted",
        "x.released",
    ]);
}

#[test]
fn a_brain_that_cannot_begin_may_try_again() {
    let mut world = World::new();
    world.send_claimed(vec![parts::message("hi")]);
    world.skip();
    world.retry();
    world.appended(&[
        "user.message hi",
        "session.status_running",
        "session.thread_status_running",
        "session.error retrying",
        "session.status_rescheduled",
        "session.thread_status_rescheduled",
        "x.released to retry",
    ]);
}

#[test]
fn a_failure_counts_until_the_next_response() {
    let mut world = working();
    for retries in 1..=2 {
        world.retry();
        assert_eq!(world.thread().turn.unwrap().retries, retries);
        world.now = world.now.after(std::time::Duration::from_secs(2));
        world.claim();
    }
    world.calls("r1", &[("a", "bash", false)]);
    assert_eq!(world.thread().turn.unwrap().retries, 0);
}

#[test]
fn a_failure_with_calls_that_wait_is_tried_again_from_there() {
    let mut world = working();
    world.calls("r1", &[("q", "ask", false)]);
    world.retry();
    world.send(vec![parts::result(world.id("q"))]);
    world.now = world.now.after(std::time::Duration::from_secs(2));
    assert_eq!(world.claim(), Answer::Appended);
    assert_eq!(world.start("r2"), Answer::Appended);
}

#[test]
fn a_session_that_rests_cannot_fail() {
    let mut world = working();
    world.answer("r1");
    world.end_turn();
    world.skip();
    assert!(world.try_step(failed(Then::Exhausted)).is_err());
    assert!(world.try_step(Step::Release).is_err());
    world.appended(&[]);
}
