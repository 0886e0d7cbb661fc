//! Everything that anybody may do, and how often.

use proptest::prelude::*;

use crate::brain::Manner;

/// One event of a client; calls are picked by number, oldest open ones first.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    Message,
    System,
    Interrupt,
    Allow(usize),
    Deny(usize),
    Result(usize),
}

/// One step of a brain, sensible or not.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    TakeIn(u64),
    Respond,
    EndTurn,
    Refuse,
    Retry,
    Exhaust,
    Terminal,
    Stop,
    Release,
    Break,
    Note,
}

/// Where a step stands in the order of its brain's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Next,
    Again,
    Gap,
    Long,
}

/// One fact of kernel or gateway.
#[derive(Clone, Debug)]
pub(crate) enum Kernel {
    Start,
    Restart,
    End(usize),
    Intend(usize, u64),
    Settle(usize),
    Want(u64),
    Lose(u64),
}

/// Anything that anybody does.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A brain does what is next; if nothing is, a client speaks.
    Work(Manner),
    /// A client answers the first call that waits for it, a custom one with a result.
    Answer(Word),
    Send(Vec<Word>, bool),
    Brain(usize, Place, Say),
    Kernel(bool, Kernel),
    Claim(u64, bool),
    Alone(bool),
    Revive,
    Wait(u64),
    Update(bool),
    Checkpoint(u64, i64),
    Deadlines(u32, u32, u32),
    Expire,
    Archive,
    Delete,
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        9 => Just(Word::Message),
        2 => Just(Word::System),
        2 => Just(Word::Interrupt),
        2 => (0..4_usize).prop_map(Word::Allow),
        2 => (0..4_usize).prop_map(Word::Deny),
        3 => (0..4_usize).prop_map(Word::Result),
    ]
}

fn say() -> impl Strategy<Value = Say> {
    prop_oneof![
        2 => (0..6_u64).prop_map(Say::TakeIn),
        3 => Just(Say::Respond),
        4 => Just(Say::EndTurn),
        2 => Just(Say::Refuse),
        2 => Just(Say::Retry),
        1 => Just(Say::Exhaust),
        1 => Just(Say::Stop),
        2 => Just(Say::Release),
        2 => Just(Say::Break),
        1 => Just(Say::Note),
    ]
}

fn kernel() -> impl Strategy<Value = Kernel> {
    prop_oneof![
        2 => Just(Kernel::Start),
        1 => Just(Kernel::Restart),
        3 => (0..4_usize).prop_map(Kernel::End),
        3 => (0..6_usize, 1..3_u64).prop_map(|(call, hand)| Kernel::Intend(call, hand)),
        4 => (0..6_usize).prop_map(Kernel::Settle),
        1 => (1..3_u64).prop_map(Kernel::Want),
        1 => (1..3_u64).prop_map(Kernel::Lose),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        12 => Just(Place::Next),
        2 => Just(Place::Again),
        1 => Just(Place::Gap),
        1 => Just(Place::Long),
    ]
}

/// Anything, with the ends of a session last and rare.
pub(crate) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1200 => Just(Op::Work(Manner::Usual)),
        300 => Just(Op::Work(Manner::Hasty)),
        120 => any::<bool>().prop_map(|yes| Op::Answer(if yes { Word::Allow(0) } else { Word::Deny(0) })),
        300 => (prop::collection::vec(word(), 1..3), any::<bool>())
            .prop_map(|(words, claim)| Op::Send(words, claim)),
        120 => (0..3_usize, place(), say()).prop_map(|(who, place, say)| Op::Brain(who, place, say)),
        100 => (prop::bool::weighted(0.2), kernel()).prop_map(|(stale, fact)| Op::Kernel(stale, fact)),
        60 => (1..4_u64, any::<bool>()).prop_map(|(by, dead)| Op::Claim(by, dead)),
        60 => any::<bool>().prop_map(Op::Alone),
        20 => Just(Op::Revive),
        60 => any::<bool>().prop_map(|claim| Op::Send(vec![Word::Message, Word::System], claim)),
        30 => (0..3_u64).prop_map(Op::Wait),
        15 => any::<bool>().prop_map(Op::Update),
        20 => (1..3_u64, 0..50_i64).prop_map(|(hand, at)| Op::Checkpoint(hand, at)),
        6 => (0..40_u32, 0..20_u32, 20..200_u32)
            .prop_map(|(idle, answer, total)| Op::Deadlines(idle, answer, total)),
        60 => Just(Op::Expire),
        2 => Just(Op::Brain(0, Place::Next, Say::Terminal)),
        4 => Just(Op::Archive),
        4 => Just(Op::Delete),
    ]
}
