//! Interrupts in every state, as section 9.5 of the API reference orders them.

use outlast_session::{Act, Answer, Input, Step, Waker};

use crate::{calls::blocked, parts, turns::working, world::World};

const IDLE: [&str; 3] = [
    "session.thread_status_idle end_turn",
    "session.usage",
    "session.status_idle end_turn",
];

#[track_caller]
fn appended(world: &mut World, parts: &[&[&str]]) {
    world.appended(&parts.concat());
}

#[test]
fn an_idle_session_only_notes_it() {
    let mut world = World::new();
    world.send_claimed(vec![parts::interrupt()]);
    world.appended(&["x.arrived.user.interrupt", "user.interrupt"]);
    assert_eq!(world.thread().waker(), Waker::Input);
}

#[test]
fn calls_that_wait_for_the_client_are_closed() {
    let mut world = blocked(&[("w", "write", false), ("q", "ask", false)]);
    world.send_claimed(vec![parts::interrupt()]);
    let closed = [
        "x.arrived.user.interrupt",
        "user.interrupt",
        "x.settled w interrupted",
        "agent.tool_result w",
        "x.settled q interrupted",
        "agent.tool_result q",
    ];
    appended(&mut world, &[&closed, &IDLE]);
    let words = world.log[world.log.len() - 4].json()["content"][0]["text"].clone();
    assert!(
        words
            .as_str()
            .unwrap()
            .contains("interrupted before completion"),
        "{words}"
    );
    world.send_claimed(vec![parts::message("on")]);
    world.appended(&["x.arrived.user.message on", "x.claimed 2"]);
}

#[test]
fn what_was_answered_in_part_is_closed_in_the_models_order() {
    let mut world = blocked(&[
        ("u", "write", false),
        ("v", "write", false),
        ("w", "write", false),
    ]);
    world.send(vec![
        parts::deny(world.id("v"), None),
        parts::allow(world.id("w")),
    ]);
    world.skip();
    world.send(vec![parts::interrupt()]);
    let closed = [
        "x.arrived.user.interrupt",
        "user.interrupt",
        "x.settled u interrupted",
        "agent.tool_result u",
        "agent.tool_result v",
        "x.settled w interrupted",
        "agent.tool_result w",
    ];
    appended(&mut world, &[&closed, &IDLE]);
}

#[test]
fn an_interrupt_and_a_message_redirect_a_session_that_waits() {
    let mut world = blocked(&[("q", "ask", false)]);
    world.send_claimed(vec![parts::interrupt(), parts::message("instead")]);
    let closed = [
        "x.arrived.user.interrupt",
        "user.interrupt",
        "x.settled q interrupted",
        "agent.tool_result q",
    ];
    appended(
        &mut world,
        &[
            &closed,
            &IDLE,
            &["x.arrived.user.message instead", "x.claimed 2"],
        ],
    );
}

#[test]
fn an_answer_and_an_interrupt_in_one_request_are_both_done() {
    let mut world = blocked(&[("q", "ask", false), ("w", "write", false)]);
    world.send_claimed(vec![parts::result(world.id("q")), parts::interrupt()]);
    let closed = [
        "user.custom_tool_result q",
        "x.arrived.user.interrupt",
        "user.interrupt",
        "x.settled w interrupted",
        "agent.tool_result w",
    ];
    appended(&mut world, &[&closed, &IDLE]);
}

#[test]
fn an_answer_behind_an_interrupt_comes_too_late() {
    let mut world = blocked(&[("q", "ask", false)]);
    let late = world.try_send(vec![parts::interrupt(), parts::result(world.id("q"))], true);
    assert!(
        late.unwrap_err()
            .to_string()
            .contains("events.1.custom_tool_use_id")
    );
    world.appended(&[]);
}

#[test]
fn a_response_in_progress_is_dropped() {
    let mut world = working();
    world.start("r1");
    world.send_claimed(vec![parts::interrupt()]);
    world.ended("r1");
    let id = world.id("r1");
    let answer = world.try_respond(id, outlast_session::After::Answer, &[]);
    assert_eq!(answer, Ok(Answer::Interrupted));
    world.stop();
    let stopped = [
        "span.model_request_start r1",
        "x.arrived.user.interrupt",
        "x.request_ended r1",
        "user.interrupt",
        "span.model_request_end r1 error",
    ];
    appended(&mut world, &[&stopped, &IDLE, &["x.released"]]);
}

#[test]
fn running_calls_are_closed_and_held_results_told() {
    let mut world = working();
    world.calls(
        "r1",
        &[
            ("a", "bash", false),
            ("b", "glob", false),
            ("c", "bash", false),
        ],
    );
    world.intend("a");
    world.settle("b");
    world.send(vec![parts::interrupt()]);
    world.skip();
    world.stop();
    let closed = [
        "user.interrupt",
        "x.settled a interrupted",
        "agent.tool_result a",
        "agent.tool_result b",
        "x.settled c interrupted",
        "agent.tool_result c",
    ];
    appended(&mut world, &[&closed, &IDLE, &["x.released"]]);
}

#[test]
fn a_result_that_comes_while_an_interrupt_waits_counts() {
    let mut world = working();
    world.calls("r1", &[("a", "bash", false), ("b", "bash", false)]);
    world.intend("a");
    world.send(vec![parts::interrupt()]);
    world.skip();
    assert_eq!(world.settle("a"), Answer::Appended);
    assert_eq!(world.intend("b"), Answer::Interrupted);
    world.stop();
    let closed = [
        "x.settled a done",
        "agent.tool_result a",
        "user.interrupt",
        "x.settled b interrupted",
        "agent.tool_result b",
    ];
    appended(&mut world, &[&closed, &IDLE, &["x.released"]]);
    assert_eq!(world.fence.seq, 3);
}

#[test]
fn nothing_goes_on_before_an_interrupt_is_taken_in() {
    let mut world = working();
    world.answer("r1");
    world.send(vec![parts::interrupt()]);
    world.skip();
    assert_eq!(world.take_in(), Answer::Interrupted);
    assert_eq!(world.end_turn(), Answer::Interrupted);
    assert_eq!(world.retry(), Answer::Interrupted);
    assert_eq!(world.start("r2"), Answer::Interrupted);
    world.appended(&[]);
    world.stop();
    appended(&mut world, &[&["user.interrupt"], &IDLE, &["x.released"]]);
}

#[test]
fn the_end_of_the_turn_and_the_start_of_the_next_are_one_append() {
    let mut world = working();
    world.send(vec![
        parts::message("before"),
        parts::interrupt(),
        parts::message("after"),
    ]);
    world.skip();
    world.stop();
    let next = [
        "user.message before",
        "user.message after",
        "session.status_running",
        "session.thread_status_running",
    ];
    appended(&mut world, &[&["user.interrupt"], &IDLE, &next]);
    world.answer("r1");
    assert_eq!(world.end_turn(), Answer::Appended);
}

#[test]
fn several_interrupts_are_one_stop() {
    let mut world = working();
    world.send(vec![parts::interrupt(), parts::interrupt()]);
    world.send(vec![parts::interrupt()]);
    world.skip();
    world.stop();
    let all = ["user.interrupt"; 3];
    appended(&mut world, &[&all, &IDLE, &["x.released"]]);
    assert!(
        world.try_step(Step::Interrupt).is_err(),
        "the lease is over"
    );
}

#[test]
fn a_stop_without_an_interrupt_is_nothing() {
    let mut world = working();
    assert_eq!(world.stop(), Answer::Nothing);
    world.appended(&[]);
}

#[test]
fn a_retry_that_waits_is_given_up() {
    let mut world = working();
    world.retry();
    world.skip();
    world.send_claimed(vec![parts::interrupt()]);
    appended(
        &mut world,
        &[&["x.arrived.user.interrupt", "user.interrupt"], &IDLE],
    );
    assert_eq!(world.thread().waker(), Waker::Input);
}

#[test]
fn a_message_that_nobody_took_in_is_taken_in_after_it() {
    let mut world = World::new();
    world.send(vec![parts::message("hi")]);
    world.skip();
    world.send_claimed(vec![parts::interrupt()]);
    world.appended(&[
        "x.arrived.user.interrupt",
        "user.interrupt",
        "user.message hi",
        "session.status_running",
        "session.thread_status_running",
        "x.claimed 1",
    ]);
}

#[test]
fn a_session_that_waits_for_a_slot_stops_at_once() {
    let mut world = working();
    world.calls("r1", &[("a", "bash", false), ("b", "bash", false)]);
    world.intend("a");
    world.step(Step::Release);
    world.skip();
    world.send_claimed(vec![parts::interrupt()]);
    let closed = [
        "x.arrived.user.interrupt",
        "user.interrupt",
        "x.settled a interrupted",
        "agent.tool_result a",
        "x.settled b interrupted",
        "agent.tool_result b",
    ];
    appended(&mut world, &[&closed, &IDLE]);
}

#[test]
fn an_interrupt_overtakes_the_word_that_a_client_is_waited_for() {
    let mut world = working();
    world.calls("r1", &[("q", "ask", false)]);
    world.send(vec![parts::message("instead"), parts::interrupt()]);
    assert_eq!(world.end_turn(), Answer::Interrupted);
    world.skip();
    world.stop();
    let closed = [
        "user.interrupt",
        "x.settled q interrupted",
        "agent.tool_result q",
    ];
    let next = [
        "user.message instead",
        "session.status_running",
        "session.thread_status_running",
    ];
    appended(&mut world, &[&closed, &IDLE, &next]);
}

#[test]
fn a_brain_that_leaves_stops_first() {
    let mut world = working();
    world.start("r1");
    world.send(vec![parts::interrupt()]);
    world.skip();
    assert_eq!(world.step(Step::Release), Answer::Appended);
    let stopped = ["user.interrupt", "span.model_request_end r1 error"];
    appended(&mut world, &[&stopped, &IDLE, &["x.released"]]);
    assert_eq!(world.thread().waker(), Waker::Input);
}

#[test]
fn an_interrupt_that_a_dead_brain_did_not_see_is_taken_in_by_the_next() {
    let mut world = working();
    world.start("r1");
    world.send(vec![parts::interrupt()]);
    assert_eq!(world.try_claim(2, Some(1)), Ok(Answer::Appended));
    world.skip();
    assert_eq!(world.stop(), Answer::Appended);
    appended(&mut world, &[&["user.interrupt"], &IDLE, &["x.released"]]);
}

#[test]
fn a_thread_is_named_by_its_id() {
    let named = |thread| Input {
        act: Act::Interrupt {
            thread: Some(thread),
        },
        body: parts::raw(&serde_json::json!({})),
    };
    let mut world = working();
    world.send(vec![named(parts::primary())]);
    world.appended(&["x.arrived.user.interrupt"]);
    let other = outlast_protocol::id::ThreadId::parse("sthr_010000000000000000000000").unwrap();
    let unknown = world.try_send(vec![named(other)], false).unwrap_err();
    assert!(
        unknown
            .to_string()
            .starts_with("events.0.session_thread_id: no thread `")
    );
}

#[test]
fn interrupts_that_wait_are_bounded_too() {
    let mut world = working();
    world.rules.queue = 2;
    world.send(vec![parts::interrupt(), parts::interrupt()]);
    let third = world.try_send(vec![parts::interrupt()], false).unwrap_err();
    assert!(third.to_string().contains("wait already"), "{third}");
}
