//! Requests to the model: one end each, usage counted once.

use outlast_session::{After, Answer, Fact, Refusal, Step};

use crate::{acts::ended, parts, turns::working, world::World};

fn respond(world: &mut World, request: &str, calls: &[crate::acts::Wanted<'_>]) -> Answer {
    let id = world.id(request);
    world.try_respond(id, After::Answer, calls).unwrap()
}

fn input(world: &World) -> u64 {
    world.state().usage.tokens.input
}

#[test]
fn an_end_that_comes_behind_the_response_closes_the_span() {
    let mut world = working();
    world.start("r1");
    respond(&mut world, "r1", &[]);
    world.ended("r1");
    world.appended(&[
        "span.model_request_start r1",
        "x.response",
        "agent.message words",
        "x.request_ended r1",
        "span.model_request_end r1",
    ]);
    assert_eq!(world.ended("r1"), Answer::AlreadySettled);
    assert_eq!(input(&world), 100);
}

#[test]
fn results_come_behind_the_span_even_when_its_end_is_late() {
    let mut world = working();
    world.start("r1");
    respond(
        &mut world,
        "r1",
        &[("d", "read", false), ("a", "bash", false)],
    );
    world.settle("a");
    world.skip();
    world.ended("r1");
    world.appended(&[
        "x.request_ended r1",
        "span.model_request_end r1",
        "agent.tool_result d",
        "agent.tool_result a",
    ]);
}

#[test]
fn results_do_not_wait_for_an_end_that_never_comes() {
    let mut world = working();
    world.start("r1");
    respond(&mut world, "r1", &[("a", "bash", false)]);
    world.settle("a");
    world.skip();
    world.start("r2");
    world.appended(&[
        "span.model_request_end r1",
        "agent.tool_result a",
        "span.model_request_start r2",
    ]);
    world.ended("r1");
    world.ended("r2");
    assert_eq!(input(&world), 200);
}

#[test]
fn what_was_used_counts_after_an_interrupt_too() {
    let mut world = working();
    world.start("r1");
    world.send(vec![parts::interrupt()]);
    world.stop();
    world.skip();
    assert_eq!(world.ended("r1"), Answer::Appended);
    world.appended(&["x.request_ended r1"]);
    assert_eq!(world.ended("r1"), Answer::AlreadySettled);
    assert_eq!(input(&world), 100);
}

#[test]
fn what_was_used_counts_once_whoever_holds_the_lease() {
    let mut world = working();
    world.start("r1");
    world.try_claim(2, Some(1)).unwrap();
    world.start("r2");
    world.try_claim(3, Some(2)).unwrap();
    world.skip();
    for (epoch, request) in [(1, "r1"), (2, "r2")] {
        let id = world.id(request);
        let mut late = || world.try_fact(epoch, id, Fact::RequestEnded(ended(id)));
        assert_eq!(late(), Ok(Answer::Appended));
        assert_eq!(late(), Ok(Answer::AlreadySettled));
    }
    world.appended(&["x.request_ended r1", "x.request_ended r2"]);
    assert_eq!(input(&world), 200);
}

#[test]
fn a_request_that_was_never_started_is_not_counted() {
    let mut world = working();
    let id = world.named("r0");
    let unknown = world.try_fact(1, id, Fact::RequestEnded(ended(id)));
    assert_eq!(unknown, Ok(Answer::AlreadySettled));
    world.appended(&[]);
}

#[test]
fn a_start_is_repeated_without_a_second_span() {
    let mut world = working();
    world.start("r1");
    world.skip();
    let id = world.id("r1");
    let mut again = || world.try_fact(1, id, Fact::RequestStarted);
    assert_eq!(again(), Ok(Answer::AlreadySettled));
    world.send(vec![parts::interrupt(), parts::message("next")]);
    world.stop();
    world.skip();
    let late = world.try_fact(1, id, Fact::RequestStarted);
    assert_eq!(late, Ok(Answer::AlreadySettled), "its span was closed");
    world.ended("r1");
    world.skip();
    let late = world.try_fact(1, id, Fact::RequestStarted);
    assert_eq!(late, Ok(Answer::AlreadySettled), "and counted");
    world.appended(&[]);
}

#[test]
fn a_request_leaves_only_for_a_turn_whose_calls_are_settled() {
    let mut world = World::new();
    world.send_claimed(vec![parts::message("hi")]);
    let early = world.named("r0");
    let refused = world.try_fact(1, early, Fact::RequestStarted);
    assert!(
        matches!(refused, Err(Refusal::Illegal(_))),
        "nothing is taken in"
    );
    world.take_in();
    world.calls("r1", &[("a", "bash", false)]);
    let refused = world.try_fact(1, early, Fact::RequestStarted);
    assert!(
        matches!(refused, Err(Refusal::Illegal(_))),
        "a call is open"
    );
    world.settle("a");
    assert_eq!(world.start("r2"), Answer::Appended);
}

#[test]
fn a_response_names_the_open_request_once() {
    let mut world = working();
    let none = world.named("r0");
    let refused = world.try_respond(none, After::Answer, &[]);
    assert!(matches!(refused, Err(Refusal::Illegal(_))), "never started");
    world.fence.seq -= 1;
    world.answer("r1");
    let id = world.id("r1");
    let refused = world.try_respond(id, After::Answer, &[]);
    assert!(matches!(refused, Err(Refusal::Illegal(_))), "answered");
}

#[test]
fn a_request_without_a_word_of_its_end_is_closed_when_the_turn_is() {
    let mut world = working();
    world.start("r1");
    respond(&mut world, "r1", &[]);
    world.skip();
    world.end_turn();
    world.appended(&[
        "span.model_request_end r1",
        "session.thread_status_idle end_turn",
        "session.usage",
        "session.status_idle end_turn",
        "x.released",
    ]);
    world.ended("r1");
    assert_eq!(input(&world), 100);
}

#[test]
fn absurd_usage_does_not_overflow() {
    let mut world = working();
    for request in ["r1", "r2"] {
        world.start(request);
        let id = world.id(request);
        let mut ended = ended(id);
        ended.tokens.output = u64::MAX;
        ended.cost = Some(u64::MAX);
        world.try_fact(1, id, Fact::RequestEnded(ended)).unwrap();
    }
    assert_eq!(world.state().usage.tokens.output, u64::MAX);
}

#[test]
fn notes_prefixes_and_pins_are_remembered_by_position() {
    let mut world = working();
    let pinned = outlast_session::body::Pinned {
        harness: "own".to_owned(),
        strategy: "whole".to_owned(),
        version: 1,
    };
    world.step(Step::Pin(pinned));
    let tail = world.state().tail;
    assert_eq!(world.thread().pinned, Some(tail));
    world.step(Step::Prefix(parts::raw(&serde_json::json!({}))));
    assert_eq!(world.thread().prefix, Some(tail + 1));
    world.step(Step::Note(parts::raw(&serde_json::json!({}))));
    world.appended(&["x.pinned", "x.prefix", "x.noted"]);
}
