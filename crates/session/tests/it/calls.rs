//! Pending calls, as section 9.4 of the API reference orders them.

use outlast_protocol::Outcome;
use outlast_session::{Answer, Fact, Refusal, Step, Stop, Waker};

use crate::{parts, turns::working, world::World};

/// A session that waits for the client's word on these calls.
pub(crate) fn blocked(calls: &[crate::acts::Wanted<'_>]) -> World {
    let mut world = working();
    world.calls("r1", calls);
    assert_eq!(world.end_turn(), Answer::Appended);
    world.skip();
    world
}

#[test]
fn calls_that_wait_for_a_client_are_named_once_nothing_else_can_run() {
    let mut world = working();
    world.calls(
        "r1",
        &[
            ("w", "write", false),
            ("a", "bash", false),
            ("q", "ask", false),
        ],
    );
    world.appended(&[
        "span.model_request_start r1",
        "x.request_ended r1",
        "x.response",
        "agent.tool_use w ask",
        "agent.tool_use a allow",
        "agent.custom_tool_use q",
        "span.model_request_end r1",
    ]);
    world.intend("a");
    world.settle("a");
    world.end_turn();
    world.appended(&[
        "x.intended a",
        "x.settled a done",
        "agent.tool_result a",
        "session.thread_status_idle requires_action w q",
        "session.usage",
        "session.status_idle requires_action w q",
        "x.released",
    ]);
    assert_eq!(
        world.thread().waker(),
        Waker::Answers(vec![world.id("w"), world.id("q")])
    );
}

#[test]
fn a_call_under_judgement_asks() {
    let mut world = blocked(&[("e", "edit", false)]);
    world.send_claimed(vec![parts::allow(world.id("e"))]);
    world.appended(&[
        "user.tool_confirmation e allow",
        "session.status_running",
        "session.thread_status_running",
        "x.claimed 2",
    ]);
    world.intend("e");
    world.settle("e");
    world.appended(&["x.intended e", "x.settled e done", "agent.tool_result e"]);
}

#[test]
fn a_partial_answer_tells_what_is_left_and_starts_nothing() {
    let mut world = blocked(&[("w", "write", false), ("q", "ask", false)]);
    world.send_claimed(vec![parts::allow(world.id("w"))]);
    world.appended(&[
        "user.tool_confirmation w allow",
        "session.usage",
        "session.status_idle requires_action q",
    ]);
    assert_eq!(world.thread().waker(), Waker::Answers(vec![world.id("q")]));
    assert_eq!(world.claim(), Answer::Nothing);
    world.send_claimed(vec![parts::result(world.id("q"))]);
    world.appended(&[
        "user.custom_tool_result q",
        "session.status_running",
        "session.thread_status_running",
        "x.claimed 2",
    ]);
    assert_eq!(world.intend("w"), Answer::Appended);
}

#[test]
fn a_denied_call_gets_its_result_when_work_goes_on() {
    let mut world = blocked(&[("w", "write", false)]);
    world.send_claimed(vec![parts::deny(world.id("w"), Some("not there"))]);
    world.appended(&[
        "user.tool_confirmation w deny",
        "x.settled w denied",
        "x.arrived.agent.tool_result w",
        "session.status_running",
        "session.thread_status_running",
        "agent.tool_result w",
        "x.claimed 2",
    ]);
    let result = world.log[world.log.len() - 2].json();
    let words = result["content"][0]["text"].as_str().unwrap();
    assert!(
        words.contains("not there") && words.contains("`write`"),
        "{words}"
    );
    assert_eq!(result["is_error"], true);
}

#[test]
fn denials_and_leaves_are_told_in_the_models_order() {
    let mut world = blocked(&[
        ("u", "write", false),
        ("v", "write", false),
        ("w", "write", false),
    ]);
    world.send(vec![parts::deny(world.id("w"), None)]);
    world.appended(&[
        "user.tool_confirmation w deny",
        "x.settled w denied",
        "x.arrived.agent.tool_result w",
        "session.usage",
        "session.status_idle requires_action u v",
    ]);
    world.send_claimed(vec![
        parts::deny(world.id("v"), None),
        parts::allow(world.id("u")),
    ]);
    world.appended(&[
        "user.tool_confirmation v deny",
        "x.settled v denied",
        "x.arrived.agent.tool_result v",
        "user.tool_confirmation u allow",
        "session.status_running",
        "session.thread_status_running",
        "x.claimed 2",
    ]);
    world.settle("u");
    world.appended(&[
        "x.settled u done",
        "agent.tool_result u",
        "agent.tool_result v",
        "agent.tool_result w",
    ]);
}

#[test]
fn results_that_come_early_are_held_for_those_of_earlier_calls() {
    let mut world = working();
    world.calls(
        "r1",
        &[
            ("a", "bash", false),
            ("b", "glob", false),
            ("c", "glob", false),
        ],
    );
    world.skip();
    world.settle("c");
    world.settle("b");
    world.settle("a");
    world.appended(&[
        "x.settled c done",
        "x.arrived.agent.tool_result c",
        "x.settled b done",
        "x.arrived.agent.tool_result b",
        "x.settled a done",
        "agent.tool_result a",
        "agent.tool_result b",
        "agent.tool_result c",
    ]);
}

#[test]
fn a_result_does_not_wait_for_a_call_that_waits_for_a_client() {
    let mut world = working();
    world.calls(
        "r1",
        &[
            ("w", "write", false),
            ("q", "ask", false),
            ("b", "glob", false),
        ],
    );
    world.skip();
    world.settle("b");
    world.appended(&["x.settled b done", "agent.tool_result b"]);
}

#[test]
fn calls_that_cannot_run_are_answered_at_once() {
    let mut world = working();
    world.calls(
        "r1",
        &[
            ("d", "read", false),
            ("n", "teleport", false),
            ("c", "bash", true),
        ],
    );
    world.appended(&[
        "span.model_request_start r1",
        "x.request_ended r1",
        "x.response",
        "agent.tool_use d deny",
        "agent.tool_use n deny",
        "agent.tool_use c deny",
        "span.model_request_end r1",
        "x.settled d denied",
        "agent.tool_result d",
        "x.settled n denied",
        "agent.tool_result n",
        "x.settled c not_started",
        "agent.tool_result c",
    ]);
    assert_eq!(world.start("r2"), Answer::Appended);
}

#[test]
fn a_call_that_cannot_run_waits_for_the_results_before_it() {
    let mut world = working();
    world.calls("r1", &[("a", "bash", false), ("d", "read", false)]);
    world.skip();
    world.settle("a");
    world.appended(&[
        "x.settled a done",
        "agent.tool_result a",
        "agent.tool_result d",
    ]);
}

#[test]
fn answers_may_come_before_the_idle_event() {
    let mut world = working();
    world.calls(
        "r1",
        &[
            ("a", "bash", false),
            ("w", "write", false),
            ("q", "ask", false),
        ],
    );
    world.skip();
    world.send_claimed(vec![
        parts::result(world.id("q")),
        parts::deny(world.id("w"), None),
    ]);
    world.appended(&[
        "user.custom_tool_result q",
        "user.tool_confirmation w deny",
        "x.settled w denied",
        "x.arrived.agent.tool_result w",
    ]);
    world.settle("a");
    world.appended(&[
        "x.settled a done",
        "agent.tool_result a",
        "agent.tool_result w",
    ]);
    assert_eq!(world.start("r2"), Answer::Appended);
}

#[test]
fn an_answer_that_races_the_end_of_the_turn_lets_the_brain_go_on() {
    let mut world = working();
    world.calls("r1", &[("w", "write", false), ("q", "ask", false)]);
    world.send(vec![parts::allow(world.id("w"))]);
    assert_eq!(world.end_turn(), Answer::InputArrived, "a call may run now");
    world.settle("w");
    world.send(vec![parts::result(world.id("q"))]);
    world.skip();
    assert_eq!(
        world.end_turn(),
        Answer::InputArrived,
        "the model is next now"
    );
    world.appended(&[]);
    assert_eq!(world.start("r2"), Answer::Appended);
}

#[test]
fn a_brain_that_dies_before_it_says_what_is_waited_for_is_replaced() {
    let mut world = working();
    world.calls("r1", &[("w", "write", false)]);
    assert_eq!(world.try_claim(2, Some(1)), Ok(Answer::Appended));
    world.skip();
    assert_eq!(world.end_turn(), Answer::Appended);
    world.appended(&[
        "session.thread_status_idle requires_action w",
        "session.usage",
        "session.status_idle requires_action w",
        "x.released",
    ]);
}

#[test]
fn a_brain_that_leaves_before_it_says_what_is_waited_for_is_replaced() {
    let mut world = working();
    world.calls("r1", &[("w", "write", false)]);
    world.step(Step::Release);
    assert_eq!(world.thread().waker(), Waker::Brain);
    assert_eq!(world.claim(), Answer::Appended);
    assert_eq!(world.end_turn(), Answer::Appended);
}

#[test]
fn a_call_is_handed_over_with_leave_only_and_settled_once() {
    let mut world = working();
    world.calls(
        "r1",
        &[
            ("a", "bash", false),
            ("w", "write", false),
            ("q", "ask", false),
        ],
    );
    let epoch = world.fence.epoch;
    for call in ["w", "q"] {
        let id = world.id(call);
        let skipped = world.try_fact(epoch, id, Fact::Intended(parts::hand(1)));
        assert!(matches!(skipped, Err(Refusal::Illegal(_))), "{skipped:?}");
        let settled = world.settled(id);
        let skipped = world.try_fact(epoch, id, settled);
        assert!(matches!(skipped, Err(Refusal::Illegal(_))), "{skipped:?}");
    }
    assert_eq!(world.intend("a"), Answer::Appended);
    assert_eq!(world.intend("a"), Answer::AlreadySettled);
    let id = world.id("a");
    let next = world.try_fact(epoch, id, Fact::Intended(parts::hand(2)));
    assert_eq!(next, Ok(Answer::Appended), "the hand before never had it");
    assert_eq!(world.settle("a"), Answer::Appended);
    world.skip();
    assert_eq!(world.settle("a"), Answer::AlreadySettled);
    assert_eq!(world.intend("a"), Answer::AlreadySettled);
    let unknown = world.named("unknown");
    let late = world.try_fact(epoch, unknown, Fact::Intended(parts::hand(1)));
    assert_eq!(
        late,
        Ok(Answer::AlreadySettled),
        "a call of a turn that is over"
    );
    world.appended(&[]);
}

#[test]
fn messages_wait_until_every_call_is_settled_and_the_model_saw_it() {
    let mut world = working();
    world.send(vec![parts::message("more")]);
    world.calls("r1", &[("q", "ask", false)]);
    assert_eq!(
        world.end_turn(),
        Answer::Appended,
        "the client is owed the ids"
    );
    world.send_claimed(vec![parts::result(world.id("q"))]);
    assert_eq!(world.take_in(), Answer::Nothing);
    world.answer("r2");
    world.skip();
    assert_eq!(world.end_turn(), Answer::InputArrived);
    world.take_in();
    world.appended(&["user.message more"]);
}

#[test]
fn a_system_message_stands_behind_its_result() {
    let mut world = blocked(&[("q", "ask", false)]);
    world.send_claimed(vec![
        parts::result(world.id("q")),
        parts::system("be brief"),
    ]);
    world.appended(&[
        "user.custom_tool_result q",
        "system.message be brief",
        "session.status_running",
        "session.thread_status_running",
        "x.claimed 2",
    ]);
}

#[test]
fn a_result_and_a_message_in_one_request_begin_one_turn_after_another() {
    let mut world = blocked(&[("q", "ask", false)]);
    world.send_claimed(vec![
        parts::result(world.id("q")),
        parts::message("and then"),
    ]);
    world.appended(&[
        "user.custom_tool_result q",
        "x.arrived.user.message and then",
        "session.status_running",
        "session.thread_status_running",
        "x.claimed 2",
    ]);
}

#[test]
fn a_refusal_of_the_model_waits_behind_calls_too() {
    let mut world = working();
    world.calls("r1", &[("q", "ask", false)]);
    world.skip();
    let details = parts::raw(&serde_json::json!({"type": "refusal"}));
    world.step(Step::EndTurn(Stop::Refusal(details)));
    world.appended(&[
        "session.thread_status_idle requires_action q",
        "session.usage",
        "session.status_idle requires_action q",
        "x.released",
    ]);
}

#[test]
fn outcomes_are_kept_with_the_call() {
    let mut world = working();
    world.calls("r1", &[("a", "bash", false), ("d", "read", false)]);
    world.settle("a");
    let outcomes: Vec<_> = world.thread().calls.iter().map(|call| call.phase).collect();
    assert_eq!(
        outcomes,
        [Outcome::Done, Outcome::Denied].map(outlast_session::Phase::Settled)
    );
}
