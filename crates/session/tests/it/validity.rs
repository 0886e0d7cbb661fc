//! The validity table of section 9.3 of the API reference, row by row.

use outlast_protocol::{ErrorCode, id::EventId};
use outlast_session::{Input, Proposal, Refusal};

use crate::{calls::blocked, parts, turns::working, world::World};

/// The states of the table that this server has.
fn states() -> [(&'static str, World); 6] {
    let mut exhausted = working();
    exhausted.fail(outlast_session::Then::Exhausted);
    let waiting = blocked(&[("w", "write", false), ("q", "ask", false)]);
    let mut running = working();
    running.calls("r1", &[("w", "write", false), ("q", "ask", false)]);
    let mut terminated = working();
    terminated.fail(outlast_session::Then::Terminal);
    let mut archived = World::new();
    archived
        .propose(&Proposal::Archive(parts::client()))
        .unwrap();
    [
        ("idle", World::new()),
        ("exhausted", exhausted),
        ("requires_action", waiting),
        ("running", running),
        ("terminated", terminated),
        ("archived", archived),
    ]
}

/// Sends in every state and tells which states took it; the others name why and store nothing.
fn taken(inputs: impl Fn(&World) -> Vec<Input>) -> Vec<&'static str> {
    let mut taken = Vec::new();
    for (name, mut world) in states() {
        world.skip();
        match world.try_send(inputs(&world), true) {
            Ok(_) => taken.push(name),
            Err(Refusal::Client(problem)) => {
                assert_eq!(problem.code.status(), 400, "{name}: {problem}");
                world.appended(&[]);
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }
    taken
}

fn call(world: &World, name: &str) -> EventId {
    let known = world.names.iter().find(|(_, given)| *given == name);
    known.map_or_else(unknown, |(id, _)| *id)
}

fn unknown() -> EventId {
    EventId::parse("sevt_010000000000000000000000").unwrap()
}

const OPEN: [&str; 4] = ["idle", "exhausted", "requires_action", "running"];

#[test]
fn user_message() {
    let states = taken(|_| vec![parts::message("hi")]);
    assert_eq!(states, ["idle", "exhausted", "running"]);
}

#[test]
fn user_interrupt() {
    assert_eq!(taken(|_| vec![parts::interrupt()]), OPEN);
}

#[test]
fn user_tool_confirmation() {
    let asked = ["requires_action", "running"];
    assert_eq!(taken(|world| vec![parts::allow(call(world, "w"))]), asked);
    assert_eq!(
        taken(|world| vec![parts::deny(call(world, "w"), None)]),
        asked
    );
    let custom: [&str; 0] = [];
    assert_eq!(taken(|world| vec![parts::allow(call(world, "q"))]), custom);
}

#[test]
fn user_custom_tool_result() {
    let asked = ["requires_action", "running"];
    assert_eq!(taken(|world| vec![parts::result(call(world, "q"))]), asked);
    let builtin: [&str; 0] = [];
    assert_eq!(
        taken(|world| vec![parts::result(call(world, "w"))]),
        builtin
    );
}

#[test]
fn system_message() {
    let behind_message = taken(|_| vec![parts::message("hi"), parts::system("be brief")]);
    assert_eq!(behind_message, ["idle", "exhausted", "running"]);
    let behind_result = taken(|world| vec![parts::result(call(world, "q")), parts::system("so")]);
    assert_eq!(behind_result, ["requires_action", "running"]);
    let alone: [&str; 0] = [];
    assert_eq!(taken(|_| vec![parts::system("be brief")]), alone);
    assert_eq!(
        taken(|_| vec![parts::interrupt(), parts::system("be brief")]),
        alone
    );
    let twice = |_: &World| vec![parts::message("hi"), parts::system("a"), parts::system("b")];
    assert_eq!(taken(twice), alone);
    let behind_leave = taken(|world| vec![parts::allow(call(world, "w")), parts::system("so")]);
    assert_eq!(behind_leave, alone);
}

#[test]
fn a_model_without_system_messages_takes_none() {
    let mut world = World::of("another-model");
    let both = vec![parts::message("hi"), parts::system("be brief")];
    let Err(Refusal::Client(problem)) = world.try_send(both, false) else {
        panic!("accepted");
    };
    assert_eq!(
        problem.code,
        ErrorCode::ModelDoesNotSupportMidConversationSystem
    );
    world.appended(&[]);
}

#[test]
fn one_invalid_event_refuses_all() {
    let mixed = taken(|_| vec![parts::message("hi"), parts::allow(unknown())]);
    let none: [&str; 0] = [];
    assert_eq!(mixed, none);
}

#[test]
fn an_answer_is_taken_once_and_only_for_a_call_that_asks() {
    let mut world = blocked(&[("w", "write", false), ("q", "ask", false)]);
    world.calls_of_both();
    let (w, q) = (world.id("w"), world.id("q"));
    let cases = [
        (parts::allow(w), "events.0.tool_use_id"),
        (parts::deny(w, None), "events.0.tool_use_id"),
        (parts::result(q), "events.0.custom_tool_use_id"),
        (parts::allow(q), "takes no confirmation"),
        (parts::result(w), "is no custom tool call"),
        (parts::allow(unknown()), "no call"),
        (parts::result(unknown()), "no call"),
    ];
    for (input, words) in cases {
        let refused = world.try_send(vec![input], false).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    world.appended(&[]);
}

impl World {
    /// Answers one call of each kind.
    fn calls_of_both(&mut self) {
        self.send(vec![parts::allow(self.id("w"))]);
        self.send(vec![parts::result(self.id("q"))]);
        self.skip();
    }
}

#[test]
fn a_call_that_was_allowed_from_the_start_takes_no_confirmation() {
    let mut world = working();
    world.calls("r1", &[("a", "bash", false), ("d", "read", false)]);
    for name in ["a", "d"] {
        let id = world.id(name);
        assert!(world.try_send(vec![parts::allow(id)], false).is_err());
    }
}

#[test]
fn events_are_judged_on_what_those_before_them_leave() {
    let mut world = blocked(&[("q", "ask", false)]);
    let early = vec![parts::message("hi"), parts::result(world.id("q"))];
    assert!(world.try_send(early, false).is_err());
    let late = vec![parts::result(world.id("q")), parts::message("hi")];
    assert!(world.try_send(late, false).is_ok());
}
