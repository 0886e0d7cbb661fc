//! The order of a brain's appends: repeats, gaps, stale epochs, seqs used up by answers.

use outlast_protocol::{Micros, id::EventId};
use outlast_session::{Answer, Fence, RECENT, Refusal, Step, Stop};

use crate::{parts, turns::working, world::World};

fn note() -> Step {
    Step::Note(parts::raw(&serde_json::json!({})))
}

fn at(world: &mut World, seq: u64, acked: u64) -> Result<Answer, Refusal> {
    let epoch = world.fence.epoch;
    world.fence = Fence { epoch, seq, acked };
    world.say(note())
}

#[test]
fn a_repeat_returns_the_first_outcome() {
    let mut world = working();
    assert_eq!(world.step(note()), Answer::Appended);
    let tail = world.state().tail;
    let (first, last) = (tail, tail);
    assert_eq!(world.say(note()), Ok(Answer::Repeated { first, last }));
    assert_eq!(
        at(&mut world, 1, 0),
        Ok(Answer::Repeated { first: 4, last: 6 }),
        "the take-in"
    );
    assert_eq!(world.state().tail, tail);
}

#[test]
fn appends_can_follow_without_waiting() {
    let mut world = working();
    for seq in 2..=5 {
        assert_eq!(at(&mut world, seq, 1), Ok(Answer::Appended));
    }
}

#[test]
fn a_gap_is_refused() {
    let mut world = working();
    assert_eq!(at(&mut world, 3, 1), Err(Refusal::Gap { seq: 3, last: 1 }));
    assert_eq!(at(&mut world, 0, 1), Err(Refusal::Gap { seq: 0, last: 1 }));
}

#[test]
fn absurd_numbers_are_only_refused() {
    let mut world = working();
    assert!(at(&mut world, u64::MAX, u64::MAX - 2).is_err());
    assert!(at(&mut world, 1_000, 998).is_err());
    assert!(at(&mut world, 0, u64::MAX).is_err());
    assert_eq!(at(&mut world, 2, u64::MAX), Ok(Answer::Appended));
}

#[test]
fn seqs_that_were_used_up_by_answers_are_no_gap() {
    let mut world = working();
    assert_eq!(world.stop(), Answer::Nothing);
    assert_eq!(world.stop(), Answer::Nothing);
    assert_eq!(world.step(note()), Answer::Appended);
    assert_eq!(world.fence.seq, 4);
    assert_eq!(
        at(&mut world, 3, 2),
        Err(Refusal::Gap { seq: 3, last: 4 }),
        "long past"
    );
}

#[test]
fn an_append_that_is_no_longer_remembered_is_refused() {
    let mut world = working();
    let recent = u64::try_from(RECENT).unwrap();
    for _ in 0..recent {
        world.step(note());
    }
    let last = recent + 1;
    assert!(matches!(
        at(&mut world, 2, last),
        Ok(Answer::Repeated { .. })
    ));
    assert_eq!(at(&mut world, 1, last), Err(Refusal::Gap { seq: 1, last }));
}

#[test]
fn an_append_that_gave_the_lease_back_can_be_repeated() {
    let mut world = working();
    world.answer("r1");
    let first = world.state().tail + 1;
    assert_eq!(world.end_turn(), Answer::Appended);
    let last = world.state().tail;
    let again = || Step::EndTurn(Stop::EndTurn);
    assert_eq!(world.say(again()), Ok(Answer::Repeated { first, last }));
    let (epoch, current) = (1, 1);
    assert_eq!(
        world.try_step(again()),
        Err(Refusal::Stale { epoch, current })
    );
}

#[test]
fn an_append_that_ended_the_session_can_be_repeated() {
    let mut world = working();
    let first = world.state().tail + 1;
    world.fail(outlast_session::Then::Terminal);
    let last = world.state().tail;
    let again = crate::acts::failed(outlast_session::Then::Terminal);
    assert_eq!(world.say(again), Ok(Answer::Repeated { first, last }));
}

#[test]
fn a_repeat_after_the_next_claim_is_stale() {
    let mut world = working();
    world.answer("r1");
    world.end_turn();
    let old = world.fence;
    world.send_claimed(vec![parts::message("more")]);
    world.fence = old;
    let (epoch, current) = (1, 2);
    let stale = world.say(Step::EndTurn(Stop::EndTurn));
    assert_eq!(stale, Err(Refusal::Stale { epoch, current }));
}

#[test]
fn facts_of_a_stale_epoch_are_refused() {
    use outlast_session::{
        Fact,
        body::{HandLost, HandWanted},
    };
    let mut world = working();
    world.calls("r1", &[("a", "bash", false)]);
    world.try_claim(2, Some(1)).unwrap();
    world.skip();
    let call: EventId = world.id("a");
    let settled = world.settled(call);
    let incarnation = parts::hand(1);
    let wanted = HandWanted {
        name: "default".to_owned(),
        incarnation,
        predecessor: None,
        forgotten: Vec::new(),
        loss: None,
        networking: None,
    };
    let lost = HandLost::of(incarnation, "gone");
    let facts = [
        Fact::RequestStarted,
        Fact::Intended(incarnation),
        settled,
        Fact::HandWanted(wanted),
        Fact::HandLost(lost),
    ];
    for fact in facts {
        let stale = world.try_fact(1, call, fact);
        let (epoch, current) = (1, 2);
        assert_eq!(stale, Err(Refusal::Stale { epoch, current }));
    }
    world.appended(&[]);
}

#[test]
fn a_hand_is_wanted_once_until_it_is_lost() {
    use outlast_session::{
        Fact,
        body::{HandLost, HandWanted},
    };
    let mut world = working();
    let want = |number| {
        Fact::HandWanted(HandWanted {
            name: "default".to_owned(),
            incarnation: parts::hand(number),
            predecessor: None,
            forgotten: Vec::new(),
            loss: None,
            networking: None,
        })
    };
    let lose = |number| Fact::HandLost(HandLost::of(parts::hand(number), "gone"));
    let key = world.named("key");
    let mut fact = |fact| world.try_fact(1, key, fact).unwrap();
    assert_eq!(fact(lose(1)), Answer::AlreadySettled, "there is none");
    assert_eq!(fact(want(1)), Answer::Appended);
    assert_eq!(fact(want(1)), Answer::AlreadySettled);
    assert_eq!(fact(want(2)), Answer::AlreadySettled);
    assert_eq!(fact(lose(2)), Answer::AlreadySettled, "another one");
    assert_eq!(fact(lose(1)), Answer::Appended);
    assert_eq!(fact(lose(1)), Answer::AlreadySettled);
    assert_eq!(
        fact(want(1)),
        Answer::AlreadySettled,
        "a late repeat wakes no dead hand"
    );
    assert_eq!(fact(want(2)), Answer::Appended);
    assert_eq!(world.state().hand.unwrap().incarnation, parts::hand(2));
}

#[test]
fn the_newest_checkpoint_of_the_newest_hand_is_known() {
    use outlast_session::{
        Fact, Proposal,
        body::{HandLost, HandWanted},
    };
    let mut world = working();
    let take = |world: &mut World, number, at| {
        world.propose(&Proposal::Checkpoint(parts::checkpoint(number, at)))
    };
    let want = |world: &mut World, number| {
        let wanted = HandWanted {
            name: "default".to_owned(),
            incarnation: parts::hand(number),
            predecessor: None,
            forgotten: Vec::new(),
            loss: None,
            networking: None,
        };
        let key = world.named("key");
        world.try_fact(1, key, Fact::HandWanted(wanted)).unwrap()
    };
    assert_eq!(take(&mut world, 1, 5), Ok(Answer::Nothing), "no hand");
    assert_eq!(want(&mut world, 1), Answer::Appended);
    assert_eq!(take(&mut world, 1, 5), Ok(Answer::Appended));
    assert_eq!(take(&mut world, 1, 5), Ok(Answer::Nothing), "a repeat");
    assert_eq!(take(&mut world, 1, 4), Ok(Answer::Nothing), "an older one");
    assert_eq!(take(&mut world, 2, 9), Ok(Answer::Nothing), "another hand");
    let lost = HandLost::of(parts::hand(1), "gone");
    let key = world.named("key");
    world.try_fact(1, key, Fact::HandLost(lost)).unwrap();
    assert_eq!(
        take(&mut world, 1, 6),
        Ok(Answer::Appended),
        "of what a lost one left"
    );
    assert_eq!(want(&mut world, 2), Answer::Appended);
    assert_eq!(take(&mut world, 1, 9), Ok(Answer::Nothing), "of an old one");
    let known = world.state().checkpoint();
    assert_eq!(known, Some(&parts::checkpoint(1, 6)), "it stays known");
}

#[test]
fn two_checkpoints_are_kept_and_what_cannot_be_read_gives_way() {
    use outlast_session::{
        Fact, Proposal,
        body::{HandLost, HandWanted, Loss},
    };
    let mut world = working();
    let fact = |world: &mut World, fact| {
        let key = world.named("key");
        assert_eq!(world.try_fact(1, key, fact), Ok(Answer::Appended));
    };
    let want = |number, loss| {
        Fact::HandWanted(HandWanted {
            name: "default".to_owned(),
            incarnation: parts::hand(number),
            predecessor: None,
            forgotten: Vec::new(),
            loss,
            networking: None,
        })
    };
    let lose = |number, at: Option<i64>| {
        let lost = HandLost::of(parts::hand(number), "gone");
        let unreadable = at.map(Micros);
        Fact::HandLost(HandLost { unreadable, ..lost })
    };
    let take = |world: &mut World, number, at| {
        let taken = world.propose(&Proposal::Checkpoint(parts::checkpoint(number, at)));
        assert_eq!(taken, Ok(Answer::Appended));
    };
    // The moments that are known, the newest first, and which of them is to be used.
    let known = |world: &World| {
        let state = world.state();
        let all = state.checkpoints.iter().map(|known| known.taken.at.0);
        let good = state.checkpoint().map(|known| known.at.0);
        (
            all.collect::<Vec<_>>(),
            good,
            state.unreadable().map(|at| at.0),
        )
    };
    fact(&mut world, want(1, None));
    for at in [5, 6, 7] {
        take(&mut world, 1, at);
    }
    assert_eq!(known(&world), (vec![7, 6], Some(7), None));
    fact(&mut world, lose(1, None));
    fact(&mut world, want(2, Some(Loss::Since(Micros(7)))));
    assert_eq!(world.state().hand.unwrap().unreadable, None);
    fact(&mut world, lose(2, Some(7)));
    assert_eq!(known(&world), (vec![7, 6], Some(6), Some(7)));
    fact(&mut world, want(3, Some(Loss::Since(Micros(6)))));
    assert_eq!(world.state().hand.unwrap().unreadable, Some(Micros(7)));
    fact(&mut world, lose(3, Some(6)));
    assert_eq!(known(&world), (vec![7, 6], None, Some(7)));
    fact(&mut world, want(4, Some(Loss::Everything)));
    take(&mut world, 4, 8);
    assert_eq!(known(&world), (vec![8], Some(8), None));
    // What the model was not told of is told by the next one.
    fact(&mut world, lose(4, None));
    fact(&mut world, want(5, Some(Loss::Everything)));
    assert_eq!(world.state().hand.unwrap().unreadable, Some(Micros(7)));
    fact(&mut world, lose(5, None));
    fact(&mut world, want(6, None));
    assert_eq!(world.state().hand.unwrap().unreadable, None);
}

#[test]
fn a_loss_is_told_by_the_first_result_of_the_new_hand() {
    use outlast_session::{
        Fact,
        body::{HandWanted, Loss},
    };
    let mut world = working();
    world.calls("r1", &[("a", "bash", false), ("b", "bash", false)]);
    let loss = Some(Loss::Everything);
    let incarnation = parts::hand(1);
    let wanted = HandWanted {
        name: "default".to_owned(),
        incarnation,
        predecessor: None,
        forgotten: Vec::new(),
        loss,
        networking: None,
    };
    let key = world.named("key");
    world.try_fact(1, key, Fact::HandWanted(wanted)).unwrap();
    let hand = |world: &World| world.state().hand.unwrap();
    assert_eq!((hand(&world).begun, hand(&world).loss), (false, loss));
    let (a, b) = (world.id("a"), world.id("b"));
    let settled = world.settled(b);
    world.try_fact(1, b, settled).unwrap();
    assert_eq!(hand(&world).loss, loss, "it did not run there");
    world.try_fact(1, a, Fact::Intended(incarnation)).unwrap();
    assert_eq!((hand(&world).begun, hand(&world).loss), (true, loss));
    let settled = world.settled(a);
    world.try_fact(1, a, settled).unwrap();
    assert_eq!(hand(&world).loss, None);
}
