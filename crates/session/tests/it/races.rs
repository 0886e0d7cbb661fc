//! The races between writers that the log decides, in both orders.
//!
//! The other ones have tests of their own beside what they are about: a result before its idle in
//! `calls`, an interrupt against the end of a turn in `interrupts`, a message against it in `turns`,
//! a lost acknowledgement and a refused pipelined append in `order`, two claims in `claims`.

use outlast_protocol::id::ThreadId;
use outlast_session::{
    Context, Decision, Fence, Kind, Proposal, Rules, State, Status, Step, Stop, Thread, admit,
};

use crate::{parts, world::World};

/// A session with two threads, whose brains both have nothing left to do but to end their turns.
///
/// The first waits for a client, if it is to.
fn two(asks: bool) -> State {
    let mut world = World::new();
    world.send_claimed(vec![parts::message("words")]);
    world.take_in();
    world.answer("first");
    let second = world.thread().clone();
    let mut world = World::new();
    world.send_claimed(vec![parts::message("words")]);
    world.take_in();
    match asks {
        true => world.calls("first", &[("asked", "ask", false)]),
        false => world.answer("first"),
    };
    let mut state = world.state().clone();
    let id = ThreadId::parse("sthr_010000000000000000000002").unwrap();
    state.threads.push(Thread { id, ..second });
    state
}

/// Has the brain of a thread end its turn; returns the kinds of what follows.
fn end(state: &mut State, thread: u32) -> Vec<Kind> {
    let (mut ids, rules) = (parts::Numbered::default(), Rules::default());
    let mut context = Context {
        now: state.at,
        ids: &mut ids,
        rules: &rules,
        takes_system: &|_| true,
    };
    let holder = state.thread(thread).unwrap();
    let seq = holder.lease.as_ref().unwrap().seq + 1;
    let fence = Fence {
        epoch: holder.epoch,
        seq,
        acked: seq - 1,
    };
    let step = Step::EndTurn(Stop::EndTurn);
    let proposal = Proposal::Brain {
        thread,
        fence,
        step,
    };
    let Decision {
        drafts,
        state: after,
        ..
    } = admit(Some(state), &proposal, &mut context).unwrap();
    *state = after;
    drafts.iter().map(|draft| draft.kind).collect()
}

#[test]
fn of_two_threads_that_end_at_once_the_last_one_ends_the_session() {
    let alone = [Kind::ThreadIdle, Kind::Released];
    let last = [
        Kind::ThreadIdle,
        Kind::SessionUsage,
        Kind::SessionIdle,
        Kind::Released,
    ];
    for asks in [false, true] {
        for order in [[0, 1], [1, 0]] {
            let mut state = two(asks);
            assert_eq!(end(&mut state, order[0]), alone, "{order:?}");
            assert_eq!(state.status, Status::Running, "{order:?}");
            assert_eq!(end(&mut state, order[1]), last, "{order:?}");
            assert_eq!(state.status, Status::Idle, "{order:?}");
            // Whoever was last, a client that is asked by one of them is told by the session.
            let waiting = state.threads[0].asked().count();
            assert_eq!(waiting, usize::from(asks), "{order:?}");
        }
    }
}
