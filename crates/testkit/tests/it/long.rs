//! A long life: thirty days, a hundred thousand events, a hundred hands lost, and two upgrades of the
//! format of records.

use std::time::Duration;

use outlast_session::{Change, Formats, Json, Kind, json};
use outlast_store::Log as _;
use outlast_testkit::memory::Era;
use serde_json::{Value, json};

use crate::{
    sim::Watcher,
    sim::world::{Life, World, stranger::Stranger},
};

/// Records that the session comes to, at least.
const EVENTS: usize = 100_000;

/// Hands that it loses.
const LOSSES: usize = 100;

/// How long it lives.
const LIFE: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The formats of the third program. Its first told of a claim who `holds` the lease, its second when
/// it calls the fence `epoch`; until the second, a message of the user was `said`.
const FORMATS: Formats = Formats::new(&[
    Change {
        kind: Kind::Claimed,
        next: |text| renamed(text, "holds", "process"),
    },
    Change {
        kind: Kind::Claimed,
        next: |text| renamed(text, "fence", "epoch"),
    },
    Change {
        kind: Kind::UserMessage,
        next: |text| renamed(text, "said", "content"),
    },
]);

fn renamed(text: &str, from: &str, to: &str) -> Result<Json, serde_json::Error> {
    let mut body: serde_json::Map<String, Value> = serde_json::from_str(text)?;
    if let Some(value) = body.remove(from) {
        body.insert(to.to_owned(), value);
    }
    Ok(json(&body))
}

/// Undoes the changes that came after a version.
fn before(version: u16, kind: Kind, body: &Json) -> (u16, Json) {
    let kind = kind.announces().unwrap_or(kind);
    let undo: &[(&str, &str)] = match (kind, version) {
        (Kind::Claimed, 1) => &[("epoch", "fence"), ("process", "holds")],
        (Kind::Claimed, 2) => &[("epoch", "fence")],
        (Kind::UserMessage, 1) => &[("content", "said")],
        _ => &[],
    };
    let old = undo.iter().fold(body.clone(), |body, (from, to)| {
        renamed(body.get(), from, to).unwrap()
    });
    (version.min(FORMATS.version(kind)), old)
}

/// The programs one after another.
const ERAS: [Era; 3] = [
    Era {
        formats: FORMATS,
        write: |kind, body| before(1, kind, body),
    },
    Era {
        formats: FORMATS,
        write: |kind, body| before(2, kind, body),
    },
    Era {
        formats: FORMATS,
        write: |kind, body| before(3, kind, body),
    },
];

/// A message, after a while.
async fn turn(world: &World, life: &Life, session: outlast_protocol::id::SessionId, pause: i64) {
    world.clock.jump(pause);
    let content = json!([{ "type": "text", "text": "go on" }]);
    let message = json!([{ "type": "user.message", "content": content }]);
    life.send(session, &message).await;
    assert!(life.rests(session).await);
}

#[tokio::test(start_paused = true)]
async fn a_month_of_work_stays_whole() {
    let mut world = World::new(11).await;
    world.stranger = Some(Stranger::Speaks(12));
    let watcher = Watcher::new(&world);
    let (memory, begin) = (
        world.memory.clone(),
        outlast_protocol::seam::Clock::now(&*world.clock),
    );
    world.memory = memory.of(ERAS[0]);
    let mut life = world.start().await;
    let session = world.session(&life).await;
    let records = || watcher.session(session).map_or(0, |state| state.tail);
    let records = || usize::try_from(records()).unwrap();
    // A turn of twelve calls has a hundred records and some more.
    let pause = i64::try_from(LIFE.as_secs()).unwrap() / i64::try_from(EVENTS / 130).unwrap();
    let (mut lost, mut era) = (0, 0);
    while records() < EVENTS || lost < LOSSES {
        turn(&world, &life, session, pause).await;
        if records() * LOSSES / EVENTS > lost {
            lost += 1;
            match lost % 4 {
                0 => world.hands.vanish(),
                _ => world.bury(),
            }
        }
        if records() * ERAS.len() / EVENTS > era && era + 1 < ERAS.len() {
            era += 1;
            life.kill().await;
            world.memory = memory.of(ERAS[era]);
            life = world.start().await;
        }
    }
    let lived = outlast_protocol::seam::Clock::now(&*world.clock).since(begin);
    assert!(lived >= LIFE, "{lived:?}");
    assert_eq!(era, 2);
    watcher.finish(&world).await;
    assert_eq!(watcher.found(), [""; 0]);
    looked_at(&world, session).await;
}

/// What was written is of all versions, and a program that does not know them says which.
async fn looked_at(world: &World, session: outlast_protocol::id::SessionId) {
    let log = world.log(session).await;
    let versions = |kind| {
        let of = log.iter().filter(|record| record.kind == kind);
        let mut versions: Vec<_> = of.map(|record| record.version).collect();
        versions.dedup();
        versions
    };
    assert_eq!(versions(Kind::Claimed), [1, 2, 3]);
    assert_eq!(versions(Kind::UserMessage), [1, 2]);
    let lost = log
        .iter()
        .filter(|record| record.kind == Kind::HandLost)
        .count();
    assert!(lost >= LOSSES - 1, "only {lost} hands were lost");
    let newest = log
        .iter()
        .rfind(|record| record.kind == Kind::Claimed)
        .unwrap();
    let written = newest.body.written().unwrap().clone();
    let refused = Formats::THIS.read(newest.kind, newest.version, written);
    let words = refused.unwrap_err().to_string();
    assert!(
        words.contains("`x.claimed` in version 3 is not known"),
        "{words}"
    );
    assert_eq!(
        world.memory.head(session).await.unwrap().tail,
        log.len() as u64
    );
}
