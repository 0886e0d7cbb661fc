//! Properties of every log, whoever wrote it in whatever order.

use outlast_session::{After, Kind, State, Status, Waker, fold};
use proptest::prelude::*;

use crate::{
    brain::Reply,
    chaos::{Chaos, op},
    world::World,
};

fn reply() -> impl Strategy<Value = Reply> {
    let call = prop_oneof![
        4 => Just(("bash", false)),
        2 => Just(("glob", false)),
        3 => Just(("write", false)),
        3 => Just(("ask", false)),
        1 => Just(("read", false)),
        1 => Just(("bash", true)),
    ];
    prop_oneof![
        6 => prop::collection::vec(call, 1..5).prop_map(Reply::Calls),
        4 => Just(Reply::Words(After::Answer)),
        1 => Just(Reply::Words(After::Pause)),
        1 => Just(Reply::Words(After::Refusal)),
        1 => Just(Reply::Busy),
        1 => Just(Reply::Gone),
    ]
}

/// A model that comes to an answer now and then.
fn model() -> impl Strategy<Value = Vec<Reply>> {
    prop::collection::vec(reply(), 0..6).prop_map(|mut replies| {
        replies.push(Reply::Words(After::Answer));
        replies
    })
}

/// Replays the log from nothing, and from where it stood at `middle`.
fn replay(world: &World, middle: usize) {
    let mut state = State::blank(world.state().id);
    for (index, kept) in world.log.iter().enumerate() {
        if index == middle {
            let text = serde_json::to_string(&state).unwrap();
            let config = state.config.take();
            state = serde_json::from_str(&text).unwrap();
            state.config = config;
        }
        fold(&mut state, &kept.entry()).unwrap();
    }
    assert_eq!(&state, world.state());
}

/// When nothing is left to do, everything has its end.
fn rests(world: &World) {
    let ledger = &world.ledger;
    if ledger.deleted {
        return;
    }
    assert!(matches!(
        world.thread().waker(),
        Waker::Input | Waker::Parked | Waker::Ended
    ));
    assert!(
        ledger.ended || ledger.waiting.is_empty(),
        "an input was never taken in"
    );
    assert!(
        ledger.spans.values().all(|ends| *ends == 1),
        "a span without an end"
    );
    ledger.all_told();
    let told = matches!(world.state().status, Status::Idle | Status::Terminated);
    assert!(told, "rests as {:?}", world.state().status);
    let arrived = |kept: &&crate::world::Kept| kept.kind == Kind::ArrivedMessage;
    let placed = |kept: &&crate::world::Kept| kept.kind == Kind::UserMessage;
    let count = |of: fn(&&crate::world::Kept) -> bool| world.log.iter().filter(of).count();
    assert!(ledger.ended || count(arrived) == count(placed));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_log_stays_whole(
        model in model(),
        ops in prop::collection::vec(op(), 1..250),
        middle in 0..400_usize,
    ) {
        let mut chaos = Chaos::new(model);
        for op in &ops {
            chaos.act(op);
        }
        chaos.finish();
        rests(&chaos.world);
        replay(&chaos.world, middle);
    }
}
