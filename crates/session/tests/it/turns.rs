//! Turns as section 9.8 of the API reference orders them.

use outlast_session::{After, Answer, Refusal, Step, Stop, Waker};

use crate::{parts, world::World};

/// A session whose brain took a message in.
pub(crate) fn working() -> World {
    let mut world = World::new();
    world.send_claimed(vec![parts::message("hi")]);
    world.take_in();
    world.skip();
    world
}

#[test]
fn a_turn_without_calls() {
    let mut world = World::new();
    world.send(vec![parts::message("hi")]);
    world.appended(&["x.arrived.user.message hi"]);
    assert_eq!(world.thread().waker(), Waker::Brain);
    world.claim();
    world.take_in();
    world.appended(&[
        "x.claimed 1",
        "user.message hi",
        "session.status_running",
        "session.thread_status_running",
    ]);
    world.answer("r1");
    world.appended(&[
        "span.model_request_start r1",
        "x.request_ended r1",
        "x.response",
        "agent.message words",
        "span.model_request_end r1",
    ]);
    assert_eq!(world.end_turn(), Answer::Appended);
    world.appended(&[
        "session.thread_status_idle end_turn",
        "session.usage",
        "session.status_idle end_turn",
        "x.released",
    ]);
    assert_eq!(world.thread().waker(), Waker::Input);
}

#[test]
fn a_session_created_with_messages_begins_at_once() {
    let mut world = World::empty();
    let create = outlast_session::Create {
        id: parts::session(),
        thread: parts::primary(),
        config: parts::config("any"),
        deadlines: Default::default(),
        inputs: vec![parts::message("one"), parts::message("two")],
        by: parts::client(),
        claim: Some(outlast_session::Claim {
            process: parts::process(1),
            dead: None,
        }),
    };
    world
        .propose(&outlast_session::Proposal::Create(Box::new(create)))
        .unwrap();
    world.appended(&[
        "x.created",
        "x.arrived.user.message one",
        "x.arrived.user.message two",
        "x.claimed 1",
    ]);
}

#[test]
fn a_turn_with_calls_goes_round_until_none_is_wanted() {
    let mut world = working();
    world.calls("r1", &[("a", "bash", false), ("b", "glob", false)]);
    world.intend("a");
    world.intend("b");
    world.settle("a");
    world.settle("b");
    world.answer("r2");
    world.end_turn();
    world.appended(&[
        "span.model_request_start r1",
        "x.request_ended r1",
        "x.response",
        "agent.tool_use a allow",
        "agent.tool_use b allow",
        "span.model_request_end r1",
        "x.intended a",
        "x.intended b",
        "x.settled a done",
        "agent.tool_result a",
        "x.settled b done",
        "agent.tool_result b",
        "span.model_request_start r2",
        "x.request_ended r2",
        "x.response",
        "agent.message words",
        "span.model_request_end r2",
        "session.thread_status_idle end_turn",
        "session.usage",
        "session.status_idle end_turn",
        "x.released",
    ]);
}

#[test]
fn a_message_during_a_turn_waits_for_its_end_and_keeps_the_session_running() {
    let mut world = working();
    world.answer("r1");
    world.send_claimed(vec![parts::message("more")]);
    world.skip();
    assert_eq!(world.end_turn(), Answer::InputArrived);
    world.appended(&[]);
    assert_eq!(world.take_in(), Answer::Appended);
    world.answer("r2");
    world.end_turn();
    world.appended(&[
        "user.message more",
        "span.model_request_start r2",
        "x.request_ended r2",
        "x.response",
        "agent.message words",
        "span.model_request_end r2",
        "session.thread_status_idle end_turn",
        "session.usage",
        "session.status_idle end_turn",
        "x.released",
    ]);
}

#[test]
fn inputs_are_not_taken_in_while_the_model_is_owed_something() {
    let mut world = working();
    world.send(vec![parts::message("more")]);
    assert_eq!(world.take_in(), Answer::Nothing, "after an input");
    world.model("r1", After::Pause, &[]);
    assert_eq!(world.take_in(), Answer::Nothing, "after a pause");
    world.calls("r2", &[("a", "bash", false)]);
    assert_eq!(world.take_in(), Answer::Nothing, "while a call runs");
    world.settle("a");
    assert_eq!(
        world.take_in(),
        Answer::Nothing,
        "before the model saw the result"
    );
    world.answer("r3");
    assert_eq!(world.take_in(), Answer::Appended);
}

#[test]
fn a_paused_response_is_followed_by_another_request() {
    let mut world = working();
    world.model("r1", After::Pause, &[]);
    let early = world.try_step(Step::EndTurn(Stop::EndTurn));
    assert!(matches!(early, Err(Refusal::Illegal(_))), "{early:?}");
    world.fence.seq -= 1;
    world.answer("r2");
    assert_eq!(world.end_turn(), Answer::Appended);
}

#[test]
fn a_refusal_ends_the_turn_and_the_next_input_begins_another() {
    let details = || parts::raw(&serde_json::json!({"type": "refusal", "category": "cyber"}));
    let mut world = working();
    world.model("r1", After::Refusal, &[]);
    world.send(vec![parts::message("sorry")]);
    world.skip();
    let answer = world.step(Step::EndTurn(Stop::Refusal(details())));
    assert_eq!(answer, Answer::Appended);
    world.appended(&[
        "session.thread_status_idle refusal",
        "session.usage",
        "session.status_idle refusal",
        "user.message sorry",
        "session.status_running",
        "session.thread_status_running",
    ]);
    world.model("r2", After::Refusal, &[]);
    world.skip();
    world.step(Step::EndTurn(Stop::Refusal(details())));
    world.appended(&[
        "session.thread_status_idle refusal",
        "session.usage",
        "session.status_idle refusal",
        "x.released",
    ]);
    let idle = &world.log[world.log.len() - 2];
    assert_eq!(idle.json()["stop_details"]["category"], "cyber");
}

#[test]
fn a_system_message_takes_its_place_behind_its_message() {
    let mut world = World::new();
    world.send_claimed(vec![parts::message("hi"), parts::system("be brief")]);
    world.take_in();
    world.appended(&[
        "x.arrived.user.message hi",
        "x.arrived.system.message be brief",
        "x.claimed 1",
        "user.message hi",
        "system.message be brief",
        "session.status_running",
        "session.thread_status_running",
    ]);
}

#[test]
fn a_brain_takes_in_what_it_has_read_and_no_more() {
    let mut world = World::new();
    world.send_claimed(vec![parts::message("one"), parts::system("be brief")]);
    let one = world.state().tail - 2;
    world.send(vec![parts::message("two")]);
    world.skip();
    let mut upto = |last| world.step(Step::TakeIn { last });
    assert_eq!(upto(one - 1), Answer::Nothing);
    assert_eq!(upto(one), Answer::Appended);
    world.appended(&[
        "user.message one",
        "system.message be brief",
        "session.status_running",
        "session.thread_status_running",
    ]);
    world.answer("r1");
    world.skip();
    assert_eq!(world.end_turn(), Answer::InputArrived);
    world.take_in();
    world.appended(&["user.message two"]);
}

#[test]
fn a_turn_ends_only_after_an_answer() {
    let mut world = working();
    let early = world.try_step(Step::EndTurn(Stop::EndTurn));
    assert!(matches!(early, Err(Refusal::Illegal(_))), "{early:?}");
    world.appended(&[]);
}
