use outlast_protocol::Micros;
use outlast_testkit::random::Constant;

use super::*;
use crate::cli::torture::{killer::Victim, told::Call};

fn id(number: u8) -> EventId {
    EventId::mint(Micros(0), &Constant(number))
}

/// A session in which two messages were sent and one call ran, and all is well.
fn well() -> (Notes, Told) {
    let notes = Notes {
        session: "sesn_1".to_owned(),
        accepted: vec![id(1).to_string(), id(2).to_string()],
        turns: 2,
        ledger: Some(vec!["call-a".to_owned()]),
        ..Notes::default()
    };
    let call = Call {
        name: Some("call-a".to_owned()),
        outcomes: vec![Outcome::Done],
        results: 1,
    };
    let told = Told {
        inputs: vec![
            (id(1), Some("m1".to_owned())),
            (id(2), Some("m2".to_owned())),
        ],
        placed: [(id(1), 1), (id(2), 1)].into(),
        shown: vec![(3, id(1)), (5, id(2)), (9, id(4))],
        calls: [(id(3), call)].into(),
        ..Told::default()
    };
    (notes, told)
}

/// Judges what `change` makes of a session in which all is well.
fn judged(change: impl FnOnce(&mut Notes, &mut Told)) -> Judge {
    let (mut notes, mut told) = well();
    change(&mut notes, &mut told);
    let mut judge = Judge::default();
    judge.session(&notes, &told);
    judge
}

fn read(events: &[(u64, u8)]) -> Judge {
    let plain = crate::client::Client::new("http://127.0.0.1:1", None).unwrap();
    let ear = crate::cli::torture::ear::Ear::new(plain, "sesn_1");
    let random = crate::cli::torture::random::Random::new(1, "");
    let mut reader = Reader::new("sesn_1", ear, random);
    reader.events = events
        .iter()
        .map(|(position, number)| (*position, id(*number).to_string()))
        .collect();
    let mut judge = Judge::default();
    judge.reader(&reader, &well().1);
    judge
}

#[test]
fn what_is_well_is_no_violation() {
    let judge = judged(|_, _| {});
    assert_eq!(judge.wrong, Vec::<String>::new());
    assert_eq!((judge.figures.accepted, judge.figures.turns), (2, 2));
    assert_eq!(read(&[(3, 1), (5, 2), (9, 4)]).wrong, Vec::<String>::new());
}

#[test]
fn a_lost_a_doubled_and_a_displaced_event_are_found() {
    let judge = judged(|_, told| drop(told.inputs.pop()));
    assert_eq!((judge.figures.lost, judge.wrong.len()), (1, 1));
    let judge = judged(|_, told| {
        told.placed.remove(&id(2));
    });
    assert_eq!((judge.figures.lost, judge.wrong.len()), (1, 1));
    let judge = judged(|_, told| {
        told.placed.insert(id(2), 2);
    });
    assert_eq!((judge.figures.twice, judge.wrong.len()), (1, 1));
    let judge = judged(|notes, _| notes.accepted.push(id(2).to_string()));
    assert_eq!((judge.figures.lost, judge.wrong.len()), (1, 1));
    let judge = judged(|_, told| told.inputs.swap(0, 1));
    assert_eq!((judge.figures.disordered, judge.wrong.len()), (1, 1));
    // The same message under another id, which nobody was told.
    let judge = judged(|_, told| {
        told.inputs.push((id(7), Some("m2".to_owned())));
        told.placed.insert(id(7), 1);
    });
    assert_eq!((judge.figures.twice, judge.wrong.len()), (2, 2));
}

#[test]
fn what_a_client_never_heard_of_may_be_there_once() {
    let judge = judged(|notes, _| {
        notes.unknown = notes
            .accepted
            .pop()
            .map(|_| "m2".to_owned())
            .into_iter()
            .collect()
    });
    assert_eq!(judge.wrong, Vec::<String>::new());
}

#[test]
fn calls_run_as_often_as_they_are_told_to_have_run() {
    let ran = |times: usize, outcome| {
        judged(move |notes, told| {
            notes.ledger = Some(vec!["call-a".to_owned(); times]);
            told.calls.get_mut(&id(3)).unwrap().outcomes = vec![outcome];
        })
    };
    for (times, outcome, repeated, untrue) in [
        (0, Outcome::Done, 0, 1),
        (1, Outcome::Done, 0, 0),
        (2, Outcome::Done, 1, 0),
        (0, Outcome::MayHaveRun, 0, 0),
        (1, Outcome::MayHaveRun, 0, 0),
        (2, Outcome::MayHaveRun, 1, 0),
        (1, Outcome::NotStarted, 0, 1),
        (1, Outcome::Denied, 0, 1),
        (1, Outcome::Interrupted, 0, 0),
    ] {
        let judge = ran(times, outcome);
        let found = (judge.figures.repeated, judge.figures.untrue);
        assert_eq!(found, (repeated, untrue), "{outcome:?} {times}");
        assert_eq!(judge.wrong.is_empty(), repeated + untrue == 0);
    }
    let judge =
        judged(|notes, _| notes.ledger = Some(vec!["call-b".to_owned(), "call-a".to_owned()]));
    assert_eq!((judge.figures.repeated, judge.wrong.len()), (1, 1));
    let judge = judged(|_, told| told.calls.get_mut(&id(3)).unwrap().results = 2);
    assert_eq!(judge.wrong.len(), 1);
    let judge = judged(|notes, _| notes.ledger = None);
    assert_eq!(judge.wrong.len(), 1);
}

#[test]
fn without_a_kill_that_takes_calls_none_may_have_run() {
    let kill = |victim| Kill {
        victim,
        at: Micros(0),
        hand: None,
        away: None,
    };
    let mut judge = judged(|_, told| {
        told.calls.get_mut(&id(3)).unwrap().outcomes = vec![Outcome::MayHaveRun];
    });
    judge.kills(&[kill(Victim::Server), kill(Victim::Sandbox)]);
    assert_eq!(judge.wrong, Vec::<String>::new());
    judge.kills(&[kill(Victim::Server), kill(Victim::Database)]);
    assert_eq!(judge.wrong.len(), 1);
}

#[test]
fn gaps_and_doubles_of_readers_are_found() {
    for (events, gaps, twice) in [
        (&[(3, 1), (9, 4)][..], 1, 0),
        (&[(3, 1), (5, 2)], 1, 0),
        (&[(3, 1), (5, 2), (5, 2), (9, 4)], 0, 1),
        (&[(5, 2), (3, 1), (9, 4)], 0, 1),
        (&[(3, 1), (5, 4), (9, 4)], 1, 0),
        (&[], 1, 0),
    ] {
        let judge = read(events);
        let found = (judge.figures.gaps, judge.figures.seen_twice);
        assert_eq!(found, (gaps, twice), "{events:?}: {:?}", judge.wrong);
        assert!(!judge.wrong.is_empty());
    }
}
