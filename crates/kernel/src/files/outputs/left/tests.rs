//! Tests of what is chosen, and of what is said of the rest.

use outlast_protocol::id::FileId;
use outlast_store::Output;
use outlast_testkit::random::Constant;

use super::*;

const BOUNDS: Bounds = Bounds {
    each: 10,
    all: 10_000,
};

fn session(number: usize) -> SessionId {
    SessionId::mint(Micros(i64::try_from(number).unwrap() * 1_000), &Constant(0))
}

fn listed(path: &str, version: &str, bytes: u64) -> Published {
    Published {
        path: path.to_owned(),
        bytes,
        version: version.to_owned(),
    }
}

/// Makes the row of an output, of one that a client removed without a blob.
fn row(path: &str, there: bool) -> StoredFile {
    let id = FileId::mint(Micros(1), &Constant(0));
    StoredFile {
        id,
        created_at: Micros(0),
        name: path.to_owned(),
        mime_type: "text/plain".to_owned(),
        bytes: 1,
        downloadable: true,
        expires_at: None,
        scope: None,
        mounted: false,
        output: Some(Output {
            path: path.to_owned(),
            version: "1".to_owned(),
        }),
        blob: there.then_some(id),
    }
}

fn names(chosen: &[Published]) -> Vec<&str> {
    chosen.iter().map(|output| output.path.as_str()).collect()
}

#[test]
fn what_was_published_keeps_its_place_though_its_file_is_gone() {
    let known: Vec<_> = (0..998).map(|n| row(&format!("old{n}"), true)).collect();
    let new = (0..300).map(|n| listed(&format!("new{n}"), "1", 1));
    let new = new.chain([listed("old3", "2", 1), listed("old4", "1", 1)]);
    let (chosen, left) = choose(new.collect(), &known, BOUNDS);
    assert_eq!(names(&chosen), ["new0", "new1", "old3"]);
    assert_eq!((left.many, left.large, left.failed), (298, 0, 0));
}

#[test]
fn what_a_client_removed_or_is_too_large_takes_no_place() {
    let mut known: Vec<_> = (0..999).map(|n| row(&format!("old{n}"), true)).collect();
    known.push(row("removed", false));
    let new = vec![
        listed("large", "1", 11),
        listed("removed", "1", 1),
        listed("a", "1", 10),
        listed("old0", "2", 11),
        listed("removed", "2", 1),
    ];
    let (chosen, left) = choose(new, &known, BOUNDS);
    assert_eq!(names(&chosen), ["a"]);
    assert_eq!((left.many, left.large), (1, 2));
}

#[test]
fn all_together_have_so_many_bytes() {
    let known = [row("old", true), row("gone", true), row("removed", false)];
    let bounds = Bounds { each: 10, all: 15 };
    // Two bytes are taken; what is written anew takes the place of what it was.
    let new = vec![
        listed("a", "1", 9),
        listed("b", "1", 5),
        listed("old", "2", 5),
        listed("c", "1", 1),
        listed("removed", "2", 1),
    ];
    let (chosen, left) = choose(new, &known, bounds);
    assert_eq!(names(&chosen), ["a", "old"]);
    assert_eq!((left.heavy, left.many, left.large), (3, 0, 0));
    let mut weight = Weight::of(&known);
    assert_eq!(weight.room("old", bounds), 10);
    weight.take("a", 10);
    assert_eq!(
        (weight.room("old", bounds), weight.room("b", bounds)),
        (4, 3)
    );
    // A bound that was lowered leaves what there is.
    let lower = Bounds { each: 10, all: 5 };
    assert_eq!((weight.room("a", lower), weight.room("b", lower)), (3, 0));
}

#[test]
fn it_is_said_in_counts_and_remembered_until_it_is_over() {
    let (told, session) = (Told::default(), session(1));
    let mut left = Left {
        many: 202,
        heavy: 3,
        large: 1,
        ..Left::default()
    };
    let words = "202 are beyond the 1000 that a session may have, 3 are beyond the bytes that they may \
                 have together, 1 are too large, 0 cannot be read or stored now";
    assert_eq!(left.to_string(), words);
    left.failed(&io::Error::other("disk full"));
    left.failed(&io::Error::other("other"));
    let end = "2 cannot be read or stored now (disk full)";
    assert!(left.to_string().ends_with(end), "{left}");
    told.tell(session, left.clone(), Micros(1));
    told.tell(session, left, Micros(2));
    assert_eq!(told.since(session), Some(Micros(1)));
    told.tell(session, Left::default(), Micros(3));
    assert_eq!(told.since(session), None);
}

#[test]
fn no_more_sessions_are_remembered_than_some() {
    let told = Told::default();
    for n in 0..=REMEMBERED {
        let left = Left {
            many: 1,
            ..Left::default()
        };
        told.tell(session(n), left, Micros(1));
    }
    assert_eq!(told.since(session(0)), None);
    assert_eq!(told.since(session(REMEMBERED)), Some(Micros(1)));
}
