use outlast_blobs::Away;
use outlast_protocol::Micros;
use outlast_testkit::random::Constant;

use super::*;

/// Something that waits: its session, its number, and its bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct One(u8, u32, usize);

impl Waits for One {
    fn session(&self) -> Option<SessionId> {
        (self.0 > 0).then(|| session(self.0))
    }

    fn size(&self) -> usize {
        self.2
    }

    fn held(&self) -> usize {
        self.2
    }

    fn complete(&mut self, bodies: Staged) {
        self.1 += u32::from(bodies.is_err()) * 1_000;
    }
}

fn session(number: u8) -> SessionId {
    SessionId::mint(Micros(0), &Constant(number))
}

const BOUNDS: Bounds = Bounds {
    writes: 100,
    of_one: 50,
    bytes: 1_000,
};

const BATCH: Batch = Batch {
    writes: 10,
    share: 3,
    bytes: 500,
};

fn fill(lines: &mut Lines<One>) -> Vec<(u8, u32)> {
    let mut taken = Vec::new();
    lines.fill(&mut taken, BATCH);
    taken.iter().map(|one| (one.0, one.1)).collect()
}

#[test]
fn one_that_floods_does_not_keep_others_waiting() {
    let mut lines = Lines::new(BOUNDS);
    for number in 0..40 {
        lines.push(One(1, number, 1)).unwrap();
    }
    lines.push(One(2, 0, 1)).unwrap();
    lines.push(One(0, 0, 1)).unwrap();
    let first = fill(&mut lines);
    let of_one: Vec<_> = first
        .iter()
        .filter(|one| one.0 == 1)
        .map(|one| one.1)
        .collect();
    // The others are in the first batch, behind no more than a share; what room is left is given on.
    assert_eq!(first[3..5], [(2, 0), (0, 0)]);
    assert_eq!(of_one, (0..8).collect::<Vec<_>>());
    // Who comes later is served in the next batch.
    lines.push(One(3, 0, 1)).unwrap();
    assert!(fill(&mut lines).contains(&(3, 0)));
    let mut left = Vec::new();
    while lines.is_ready() {
        left.extend(fill(&mut lines));
    }
    assert_eq!(left.last(), Some(&(1, 39)), "in order to the end");
    assert_eq!((lines.len(), lines.bytes), (0, 0));
}

#[test]
fn two_that_flood_take_turns() {
    let mut lines = Lines::new(BOUNDS);
    for number in 0..20 {
        lines.push(One(1, number, 1)).unwrap();
    }
    for number in 0..20 {
        lines.push(One(2, number, 1)).unwrap();
    }
    let mut given = [0, 0];
    for _ in 0..2 {
        for (session, number) in fill(&mut lines) {
            let given = &mut given[usize::from(session) - 1];
            assert_eq!(*given, number, "each in its order");
            *given += 1;
        }
    }
    assert!(given[0].abs_diff(given[1]) <= 3, "{given:?}");
}

#[test]
fn every_bound_turns_away_and_opens_again() {
    let mut lines = Lines::new(BOUNDS);
    for number in 0..50 {
        lines.push(One(1, number, 0)).unwrap();
    }
    assert_eq!(lines.push(One(1, 50, 0)), Err(Turned::Crowded(session(1))));
    for number in 0..50 {
        lines.push(One(0, number, 0)).unwrap();
    }
    assert_eq!(lines.push(One(2, 0, 0)), Err(Turned::Full));
    assert!(matches!(
        lines.push_staging(One(2, 0, 0)),
        Err(Turned::Full)
    ));
    fill(&mut lines);
    lines.push(One(2, 0, 0)).unwrap();

    let mut lines = Lines::new(BOUNDS);
    lines.push(One(1, 0, 5_000)).unwrap();
    assert_eq!(
        lines.push(One(2, 0, 1)),
        Err(Turned::Full),
        "bytes count too"
    );
    assert_eq!(fill(&mut lines), [(1, 0)], "one that is larger goes alone");
    lines.push(One(2, 0, 900)).unwrap();
    assert_eq!(lines.push(One(3, 0, 101)), Err(Turned::Full));
    lines.push(One(3, 0, 100)).unwrap();
}

#[test]
fn what_is_too_old_is_taken_from_the_front_of_its_line() {
    let mut lines = Lines::new(BOUNDS);
    for number in [1, 2, 9, 3] {
        lines.push(One(1, number, 1)).unwrap();
    }
    lines.push(One(2, 1, 1)).unwrap();
    let ticket = lines.push_staging(One(2, 2, 1)).unwrap();
    lines.push(One(3, 9, 1)).unwrap();
    let gone = lines.expired(|one| one.1 < 5);
    let gone: Vec<_> = gone.iter().map(|one| (one.0, one.1)).collect();
    assert_eq!(gone, [(1, 1), (1, 2), (2, 1)]);
    assert_eq!(fill(&mut lines), [(1, 9), (1, 3), (3, 9)]);
    lines.staged(ticket, Ok(Vec::new()));
    assert_eq!(fill(&mut lines), [(2, 2)]);
    assert_eq!((lines.len(), lines.bytes, lines.lines.len()), (0, 0, 0));
}

#[test]
fn what_waits_for_a_body_holds_up_its_session_alone() {
    let mut lines = Lines::new(BOUNDS);
    let first = lines.push_staging(One(1, 0, 1)).unwrap();
    lines.push(One(1, 1, 1)).unwrap();
    let second = lines.push_staging(One(1, 2, 1)).unwrap();
    lines.push(One(2, 0, 1)).unwrap();
    assert_eq!(fill(&mut lines), [(2, 0)]);
    lines.staged(second, Ok(Vec::new()));
    assert!(!lines.is_ready(), "the first is not there yet");
    lines.staged(first, Err(Away::full("no room")));
    assert_eq!(fill(&mut lines), [(1, 1_000), (1, 1), (1, 2)]);
    lines.staged(first, Ok(Vec::new()));
    assert!(!lines.is_ready() && lines.lines.is_empty());
}
