//! `step` by table.

use outlast_protocol::{
    Outcome,
    id::{IncarnationId, ThreadId},
};
use outlast_session::{Kind, Queued, Route, Turn};

use super::*;

fn event(n: u64) -> EventId {
    EventId::parse(&format!("sevt_01{n:022}")).unwrap()
}

fn thread(after: Option<After>) -> Thread {
    let mut thread = Thread::new(ThreadId::parse("sthr_010000000000000000000000").unwrap());
    thread.turn = after.map(|after| Turn {
        since: 1,
        rounds: 0,
        cut: 0,
        retries: 0,
        after,
        retry_at: None,
    });
    thread
}

fn queued(position: u64, kind: Kind) -> Queued {
    Queued {
        position,
        event: event(position),
        kind,
    }
}

fn call(n: u64, name: &str, phase: Phase) -> Call {
    let (id, name, route) = (event(n), name.to_owned(), Route::Hand);
    Call {
        id,
        position: n,
        name,
        route,
        phase,
        held: None,
    }
}

#[test]
fn a_turn_goes_from_input_to_its_end() {
    for (after, effect) in [
        (After::Input, Effect::CallModel),
        (After::Pause, Effect::CallModel),
        (After::Calls, Effect::CallModel),
        (After::Answer, Effect::EndTurn),
        (After::Refusal, Effect::Refuse),
        (After::Overflow, Effect::Overflow),
    ] {
        assert_eq!(step(&thread(Some(after))), effect, "{after:?}");
    }
    assert_eq!(step(&thread(None)), Effect::Rest);
}

#[test]
fn what_waits_is_taken_in_between_turns_alone() {
    for (after, effect) in [
        (None, Effect::TakeIn { last: 9 }),
        (Some(After::Answer), Effect::TakeIn { last: 9 }),
        (Some(After::Input), Effect::CallModel),
        (Some(After::Calls), Effect::CallModel),
    ] {
        let mut thread = thread(after);
        thread
            .queue
            .extend([queued(4, Kind::UserMessage), queued(9, Kind::UserMessage)]);
        assert_eq!(step(&thread), effect, "{after:?}");
    }
}

#[test]
fn an_interrupt_goes_before_everything() {
    for after in [
        None,
        Some(After::Input),
        Some(After::Calls),
        Some(After::Answer),
    ] {
        let mut thread = thread(after);
        thread.interrupts.push_back(queued(3, Kind::UserInterrupt));
        thread.calls.push(call(1, "bash", Phase::Allowed));
        assert_eq!(step(&thread), Effect::Interrupt);
    }
}

#[test]
fn readers_run_together_and_others_one_by_one() {
    let names = ["read", "grep", "bash", "read", "write"];
    let mut thread = thread(Some(After::Calls));
    thread.calls = names
        .iter()
        .zip(1..)
        .map(|(name, n)| call(n, name, Phase::Allowed))
        .collect();
    let mut groups = Vec::new();
    while let Effect::Execute(group) = step(&thread) {
        for call in thread
            .calls
            .iter_mut()
            .filter(|call| group.contains(&call.id))
        {
            call.phase = Phase::Settled(Outcome::Done);
        }
        groups.push(group.len());
    }
    assert_eq!(groups, [2, 1, 1, 1]);
    assert_eq!(step(&thread), Effect::CallModel);
}

#[test]
fn so_many_readers_run_together_and_no_more() {
    let mut thread = thread(Some(After::Calls));
    thread.calls = (1..=40).map(|n| call(n, "read", Phase::Allowed)).collect();
    let Effect::Execute(group) = step(&thread) else {
        panic!("calls are open")
    };
    assert_eq!(group.len(), TOGETHER);
}

#[test]
fn a_call_of_a_dead_brain_is_asked_for_again() {
    let hand = IncarnationId::parse("hand_010000000000000000000000").unwrap();
    let mut thread = thread(Some(After::Calls));
    thread.calls = vec![call(1, "bash", Phase::Intended(hand))];
    assert_eq!(step(&thread), Effect::Execute(vec![event(1)]));
}

#[test]
fn the_client_is_waited_for_only_when_nothing_else_runs() {
    let mut thread = thread(Some(After::Calls));
    thread.calls = vec![
        call(1, "bash", Phase::Asked),
        call(2, "bash", Phase::Allowed),
    ];
    assert_eq!(step(&thread), Effect::Execute(vec![event(2)]));
    thread.calls[1].phase = Phase::Settled(Outcome::Done);
    assert_eq!(step(&thread), Effect::EndTurn);
    thread.calls[0].phase = Phase::Settled(Outcome::Denied);
    assert_eq!(step(&thread), Effect::CallModel);
}
