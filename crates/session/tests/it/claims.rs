//! Leases: who may take one, and what a new brain finds.

use outlast_protocol::Micros;
use outlast_session::{Answer, Refusal, Status, Step, Waker};

use crate::{calls::blocked, parts, turns::working, world::World};

#[test]
fn a_session_without_work_is_not_claimed() {
    let mut world = World::new();
    assert_eq!(world.claim(), Answer::Nothing);
    let mut world = blocked(&[("q", "ask", false)]);
    assert_eq!(world.claim(), Answer::Nothing);
    world.appended(&[]);
}

#[test]
fn one_brain_at_most() {
    let mut world = World::new();
    world.send(vec![parts::message("hi")]);
    assert_eq!(world.try_claim(1, None), Ok(Answer::Appended));
    let holder = parts::process(1);
    let held = world.try_claim(2, None);
    assert_eq!(held, Err(Refusal::Held { holder }));
    let other_died = world.try_claim(2, Some(3));
    assert_eq!(other_died, Err(Refusal::Held { holder }));
    assert_eq!(world.thread().waker(), Waker::Lease(holder));
}

#[test]
fn the_lease_of_a_dead_process_is_taken_over_and_its_brain_fenced() {
    let mut world = working();
    let old = world.fence;
    assert_eq!(world.try_claim(2, Some(1)), Ok(Answer::Appended));
    world.appended(&["x.claimed 2"]);
    world.fence = outlast_session::Fence {
        seq: old.seq + 1,
        ..old
    };
    let stale = world.say(Step::Release);
    let (epoch, current) = (1, 2);
    assert_eq!(stale, Err(Refusal::Stale { epoch, current }));
}

#[test]
fn a_process_replaces_its_own_brain_only_when_it_says_so() {
    let mut world = working();
    assert_eq!(world.claim(), Answer::Nothing, "its brain is at work");
    assert_eq!(world.try_claim(1, Some(1)), Ok(Answer::Appended));
    assert_eq!(world.thread().epoch, 2);
}

#[test]
fn a_message_is_claimed_for_along_with_its_arrival_but_only_if_nobody_works() {
    let mut world = working();
    world.send_claimed(vec![parts::message("more")]);
    world.appended(&["x.arrived.user.message more"]);
}

#[test]
fn attempts_count_claims_without_progress() {
    let mut world = World::new();
    world.send(vec![parts::message("hi")]);
    for attempt in 1..=3 {
        world.try_claim(1, Some(1)).unwrap();
        assert_eq!(world.thread().attempts, attempt);
    }
    world.take_in();
    assert_eq!(world.thread().attempts, 0, "an input was taken in");
    world.try_claim(1, Some(1)).unwrap();
    world.calls("r1", &[("a", "bash", false)]);
    assert_eq!(world.thread().attempts, 0, "a response was stored");
    world.try_claim(1, Some(1)).unwrap();
    world.settle("a");
    assert_eq!(world.thread().attempts, 0, "a call was settled");
}

#[test]
fn claims_for_a_retry_are_no_attempts_but_counted_by_the_turn() {
    let mut world = working();
    for count in 1..=8 {
        world.retry();
        world.now = world.now.after(std::time::Duration::from_secs(2));
        world.claim();
        assert_eq!(world.thread().attempts, 1);
        assert_eq!(world.thread().turn.unwrap().retries, count);
    }
}

#[test]
fn a_new_brain_closes_the_request_of_a_dead_one() {
    let mut world = working();
    world.start("r1");
    world.skip();
    world.try_claim(2, Some(1)).unwrap();
    world.appended(&["x.claimed 2", "span.model_request_end r1 error"]);
    assert_eq!(world.start("r2"), Answer::Appended);
}

#[test]
fn a_new_brain_finds_the_calls_of_a_dead_one() {
    let mut world = working();
    world.calls("r1", &[("a", "bash", false), ("b", "bash", false)]);
    world.intend("a");
    world.try_claim(2, Some(1)).unwrap();
    world.skip();
    assert_eq!(world.intend("a"), Answer::AlreadySettled, "it may have run");
    world.settle("a");
    world.intend("b");
    world.settle("b");
    world.appended(&[
        "x.settled a done",
        "agent.tool_result a",
        "x.intended b",
        "x.settled b done",
        "agent.tool_result b",
    ]);
}

#[test]
fn a_lease_given_back_with_work_undone_can_be_taken_at_once() {
    let mut world = working();
    world.start("r1");
    world.skip();
    world.step(Step::Release);
    world.appended(&["span.model_request_end r1 error", "x.released"]);
    assert_eq!(world.thread().waker(), Waker::Brain);
    assert_eq!(world.state().shown(), Status::Running);
    world.try_claim(2, None).unwrap();
    world.appended(&["x.claimed 2"]);
}

#[test]
fn a_retry_is_claimed_when_it_is_due() {
    let mut world = working();
    world.retry();
    world.skip();
    let Waker::Timer(at) = world.thread().waker() else {
        panic!("no timer");
    };
    assert_eq!(world.claim(), Answer::Nothing);
    world.send_claimed(vec![parts::message("are you there?")]);
    assert_eq!(
        world.claim(),
        Answer::Nothing,
        "a message does not hurry the model"
    );
    world.appended(&["x.arrived.user.message are you there?"]);
    world.now = at;
    assert_eq!(world.claim(), Answer::Appended);
    world.appended(&[
        "x.claimed 2",
        "session.status_running",
        "session.thread_status_running",
    ]);
    assert_eq!(world.start("r1"), Answer::Appended);
}

#[test]
fn a_clock_that_was_set_back_keeps_no_retry_waiting() {
    let mut world = working();
    world.retry();
    world.skip();
    let now = world.now;
    world.now = Micros(now.0 - 60_000_000);
    assert_eq!(world.claim(), Answer::Nothing, "clocks of nodes differ");
    world.now = Micros(now.0 - 3_600_000_000);
    assert_eq!(world.claim(), Answer::Appended);
}

#[test]
fn a_thread_that_does_not_exist_is_not_claimed() {
    let mut world = World::new();
    let claim = outlast_session::Claim {
        process: parts::process(1),
        dead: None,
    };
    let none = world.propose(&outlast_session::Proposal::Claim { thread: 7, claim });
    assert!(matches!(none, Err(Refusal::Illegal(_))), "{none:?}");
}
