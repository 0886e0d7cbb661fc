//! Bounds: rounds of calls, cut calls, inputs that wait.

use outlast_protocol::ErrorCode;
use outlast_session::{After, Answer, Refusal};

use crate::{parts, turns::working, world::World};

const OVER: [&str; 5] = [
    "session.error exhausted",
    "session.thread_status_idle retries_exhausted",
    "session.usage",
    "session.status_idle retries_exhausted",
    "x.released",
];

#[test]
fn a_turn_has_a_limit_of_rounds() {
    let mut world = working();
    world.rules.rounds = 2;
    for round in ["r1", "r2"] {
        assert_eq!(
            world.calls(round, &[("a", "bash", false)]),
            Answer::Appended
        );
        world.settle("a");
    }
    world.skip();
    let calls = [
        ("b", "bash", false),
        ("d", "read", false),
        ("q", "ask", false),
    ];
    assert_eq!(world.calls("r3", &calls), Answer::LimitReached);
    let limited = [
        "span.model_request_start r3",
        "x.request_ended r3",
        "x.response",
        "agent.tool_use b allow",
        "agent.tool_use d deny",
        "agent.custom_tool_use q",
        "span.model_request_end r3",
        "x.settled d denied",
        "x.arrived.agent.tool_result d",
        "x.settled b not_started",
        "agent.tool_result b",
        "agent.tool_result d",
        "x.settled q not_started",
        "agent.tool_result q",
    ];
    world.appended(&[&limited[..], &OVER].concat());
}

#[test]
fn a_limit_closes_the_request_whose_end_is_not_known() {
    let mut world = working();
    world.rules.rounds = 0;
    world.start("r1");
    world.skip();
    let id = world.id("r1");
    let calls = [("a", "bash", false)];
    let answer = world.try_respond(id, After::Calls, &calls).unwrap();
    assert_eq!(answer, Answer::LimitReached);
    let limited = [
        "x.response",
        "agent.tool_use a allow",
        "span.model_request_end r1",
        "x.settled a not_started",
        "agent.tool_result a",
    ];
    world.appended(&[&limited[..], &OVER].concat());
    assert_eq!(world.ended("r1"), Answer::Appended);
}

#[test]
fn responses_whose_only_call_is_cut_have_a_limit() {
    let mut world = working();
    world.rules.cut = 1;
    world.calls("r1", &[("a", "bash", true)]);
    world.calls("r2", &[("b", "bash", true), ("c", "glob", false)]);
    world.settle("c");
    world.calls("r3", &[("d", "bash", true)]);
    world.skip();
    assert_eq!(
        world.calls("r4", &[("e", "bash", true)]),
        Answer::LimitReached
    );
    let limited = [
        "span.model_request_start r4",
        "x.request_ended r4",
        "x.response",
        "agent.tool_use e deny",
        "span.model_request_end r4",
        "x.settled e not_started",
        "agent.tool_result e",
    ];
    world.appended(&[&limited[..], &OVER].concat());
}

#[test]
fn pauses_count_as_rounds() {
    let mut world = working();
    world.rules.rounds = 1;
    assert_eq!(world.model("r1", After::Pause, &[]), Answer::Appended);
    assert_eq!(world.model("r2", After::Pause, &[]), Answer::LimitReached);
}

#[test]
fn the_next_input_has_rounds_of_its_own_and_an_answer_is_never_too_much() {
    let mut world = working();
    world.rules.rounds = 1;
    world.calls("r1", &[("a", "bash", false)]);
    world.settle("a");
    world.rules.rounds = 0;
    assert_eq!(world.answer("r2"), Answer::Appended);
    world.rules.rounds = 1;
    world.send(vec![parts::message("more")]);
    world.take_in();
    assert_eq!(world.calls("r3", &[("b", "bash", false)]), Answer::Appended);
}

#[test]
fn inputs_that_wait_have_a_limit_and_come_all_or_none() {
    let mut world = World::new();
    world.rules.queue = 2;
    world.send(vec![parts::message("one")]);
    world.skip();
    let both = vec![parts::message("two"), parts::system("and three")];
    let Err(Refusal::Client(problem)) = world.try_send(both, false) else {
        panic!("accepted");
    };
    assert_eq!(problem.code, ErrorCode::RateLimited);
    world.appended(&[]);
    world.send(vec![parts::message("two")]);
}
