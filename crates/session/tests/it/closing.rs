//! Archive and delete in every state.

use outlast_protocol::ErrorCode;
use outlast_session::{Answer, Proposal, Refusal, Then, Waker};

use crate::{calls::blocked, parts, turns::working, world::World};

fn archive(world: &mut World) -> Result<Answer, Refusal> {
    world.propose(&Proposal::Archive(parts::client()))
}

fn delete(world: &mut World) -> Result<Answer, Refusal> {
    world.propose(&Proposal::Delete(parts::client()))
}

const END: [&str; 3] = [
    "session.thread_status_terminated",
    "session.status_terminated",
    "x.archived",
];

#[test]
fn an_idle_session_is_archived_once() {
    let mut world = World::new();
    assert_eq!(archive(&mut world), Ok(Answer::Appended));
    world.appended(&END);
    assert_eq!(archive(&mut world), Ok(Answer::Nothing));
    assert_eq!(world.thread().waker(), Waker::Ended);
    assert!(world.state().archived_at.is_some() && world.state().terminated_at.is_some());
}

#[test]
fn a_session_that_runs_is_neither_archived_nor_deleted() {
    let mut accepted = World::new();
    accepted.send(vec![parts::message("hi")]);
    for mut world in [working(), accepted] {
        world.skip();
        for refused in [archive(&mut world), delete(&mut world)] {
            let Err(Refusal::Client(problem)) = refused else {
                panic!("{refused:?}");
            };
            assert!(problem.message.contains("user.interrupt"));
        }
        world.appended(&[]);
    }
}

#[test]
fn calls_that_wait_are_closed_with_the_session() {
    let mut world = blocked(&[
        ("u", "write", false),
        ("w", "write", false),
        ("q", "ask", false),
    ]);
    world.send(vec![parts::deny(world.id("w"), None)]);
    world.skip();
    archive(&mut world).unwrap();
    let closed = [
        "x.settled u interrupted",
        "agent.tool_result u",
        "agent.tool_result w",
        "x.settled q interrupted",
        "agent.tool_result q",
    ];
    world.appended(&[&closed[..], &END].concat());
}

#[test]
fn a_retry_that_waits_ends_with_the_session() {
    let mut world = working();
    world.retry();
    world.send(vec![parts::message("still there?")]);
    world.skip();
    archive(&mut world).unwrap();
    world.appended(&END);
    assert_eq!(world.claim(), Answer::Nothing);
}

#[test]
fn a_session_that_a_failure_ended_can_be_archived_and_deleted() {
    let mut world = working();
    world.fail(Then::Terminal);
    world.skip();
    archive(&mut world).unwrap();
    world.appended(&["x.archived"]);
    delete(&mut world).unwrap();
    world.appended(&["x.deleted"]);
}

#[test]
fn a_deleted_session_is_gone() {
    let mut world = blocked(&[("q", "ask", false)]);
    delete(&mut world).unwrap();
    world.appended(&["x.deleted"]);
    let call = world.id("q");
    let gone = [
        world.try_send(vec![parts::result(call)], true),
        world.try_send(vec![parts::message("hi")], true),
        archive(&mut world),
    ];
    for refused in gone {
        let Err(Refusal::Client(problem)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(problem.code, ErrorCode::NotFound);
    }
    assert_eq!(delete(&mut world), Ok(Answer::Nothing));
    assert_eq!(world.claim(), Answer::Nothing);
    world.appended(&[]);
}

#[test]
fn a_deleted_session_is_not_woken_by_its_retry() {
    let mut world = working();
    world.retry();
    delete(&mut world).unwrap();
    world.now = world.now.after(std::time::Duration::from_secs(2));
    assert_eq!(world.thread().waker(), Waker::Ended);
    assert_eq!(world.claim(), Answer::Nothing);
}

#[test]
fn a_session_is_made_once_and_first() {
    let mut world = World::empty();
    assert!(matches!(archive(&mut world), Err(Refusal::Illegal(_))));
    let mut world = World::new();
    let again = Proposal::Create(Box::new(outlast_session::Create {
        id: parts::session(),
        thread: parts::primary(),
        config: parts::config("any"),
        deadlines: Default::default(),
        inputs: Vec::new(),
        by: parts::client(),
        claim: None,
    }));
    assert!(matches!(world.propose(&again), Err(Refusal::Illegal(_))));
}
