//! Crash points: each scene is played once undisturbed, then once for every call that its process
//! makes of a seam, killed before it; and behind it, where it did something. The log comes out the
//! same.

mod compare;
mod scenes;
mod stage;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use outlast_protocol::id::SessionId;
use outlast_session::{Kind, Record};
use outlast_testkit::faults::{Fate, Faults};

use self::{
    compare::{Told, told},
    scenes::Scene,
    stage::{Hands, Stage},
};
use crate::{
    parallel::{each, simulate},
    sim::world::World,
};

/// Calls that do nothing: behind them is where the next one is before.
const LOOKS: [&str; 32] = [
    "head",
    "read",
    "find",
    "of_event",
    "overdue",
    "next_deadline",
    "position_at",
    "watch",
    "sessions",
    "ready",
    "next_ready",
    "unfinished",
    "named",
    "snapshot",
    "get",
    "list",
    "revisions",
    "find_key",
    "keys",
    "audit_log",
    "receipt",
    "processes",
    "file",
    "files",
    "outputs",
    "loose_blobs",
    "find_hand",
    "holds",
    "list_hands",
    "outlet",
    "dress",
    "unreachable",
];

/// Where the first process ends.
#[derive(Clone, Copy, Debug)]
struct Death {
    /// At its n-th call of any seam, from 1.
    at: u64,
    /// Whether that call is still done.
    done: bool,
}

/// What came of a scene.
struct Played {
    log: Vec<Record>,
    /// The calls that its first process made.
    calls: Vec<&'static str>,
}

/// Plays a scene.
fn play(scene: Scene, death: Option<Death>, hands: Hands) -> Result<Played, String> {
    simulate(played(scene, death, hands))
}

async fn played(scene: Scene, death: Option<Death>, hands: Hands) -> Played {
    let (faults, calls) = mortal(death);
    let mut stage = Stage::set(faults, hands, scene.stranger()).await;
    let session = scene.play(&mut stage).await;
    stage.watcher.finish(&stage.world).await;
    assert_eq!(stage.watcher.found(), [""; 0]);
    inherited(&stage.world);
    let log = log(&stage, session);
    let count = |kind| log.iter().filter(|record| record.kind == kind).count();
    assert_eq!(count(Kind::RequestStart), count(Kind::RequestEnd));
    let calls = calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Played { log, calls }
}

fn log(stage: &Stage, session: SessionId) -> Vec<Record> {
    let all = stage.watcher.sessions();
    let (_, seen) = all.into_iter().find(|(id, _)| *id == session).unwrap();
    seen.records
}

/// Makes the faults of a life that ends there, and notes its calls.
fn mortal(death: Option<Death>) -> (Arc<Faults>, Arc<Mutex<Vec<&'static str>>>) {
    let (faults, calls) = (Arc::<Faults>::default(), Arc::<Mutex<Vec<_>>>::default());
    let noted = calls.clone();
    faults.hook(move |call| {
        noted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(call.name);
        match death.filter(|death| death.at == call.number) {
            Some(Death { done: true, .. }) => Fate::Unheard,
            Some(_) => Fate::Dead,
            None => Fate::None,
        }
    });
    (faults, calls)
}

/// Every hand that was made takes over from the one that was made before it: a life that was only
/// recorded has no files, and whoever takes over from it starts with an empty workspace.
fn inherited(world: &World) {
    let mut before = None;
    for recipe in world.hands.provisioned() {
        assert_eq!(recipe.predecessor, before, "files are lost");
        before = Some(recipe.incarnation);
    }
}

/// A point at which a process is killed, and what the log is to come out as.
struct Point {
    scene: Scene,
    death: Death,
    call: &'static str,
    before: Arc<Told>,
}

/// Returns every point of a scene at which what becomes of hands matters: all of them, or those since
/// the first hand was made.
fn points(scene: Scene, hands: Hands) -> Vec<Point> {
    let undisturbed = play(scene, None, hands).unwrap();
    let before = Arc::new(told(&undisturbed.log));
    let mut points = Vec::new();
    let calls = (1_u64..).zip(undisturbed.calls);
    for (at, call) in calls.skip_while(|(_, call)| hands == Hands::Die && *call != "provision") {
        let behind = !LOOKS.contains(&call);
        for done in [false, true].into_iter().filter(|done| behind || !done) {
            let before = before.clone();
            let death = Death { at, done };
            points.push(Point {
                scene,
                death,
                call,
                before,
            });
        }
    }
    points
}

/// Kills a process at every call of every scene, and looks at what is left.
fn at_every_call(hands: Hands, look: impl Fn(Scene, &Told, &Told) + Sync) {
    let points: Vec<_> = each(&Scene::ALL, |scene| points(*scene, hands));
    let points: Vec<_> = points.into_iter().flatten().collect();
    let failed = each(&points, |point| {
        let Point {
            scene,
            death,
            call,
            before,
        } = point;
        let looked = simulate(async {
            let after = told(&played(*scene, Some(*death), hands).await.log);
            look(*scene, before, &after);
        });
        let words = looked.err()?;
        Some(format!("{scene:?}, {death:?} of `{call}`: {words}"))
    });
    let failed: Vec<_> = failed.into_iter().flatten().collect();
    let (all, few) = (points.len(), &failed[..failed.len().min(10)]);
    let many = failed.len();
    assert!(many == 0, "{many} of {all} points:\n{}", few.join("\n"));
    eprintln!("{all} points, hands {hands:?}");
    let least = if hands == Hands::Stay { 2_000 } else { 500 };
    assert!(all > least, "only {all} points");
}

/// Returns the kinds of what clients saw.
fn kinds(told: &Told) -> Vec<&str> {
    let kind = |line: &String| line.split(' ').next().map(str::len);
    let lines = told.public.iter();
    lines
        .filter_map(|line| Some(&line[..kind(line)?]))
        .collect()
}

/// Compares what clients saw.
fn compare(scene: Scene, before: &Told, after: &Told) {
    if scene == Scene::Stops {
        // An interrupt and the results of what it stops stand in the order in which they were seen.
        let sorted = |told: &Told| {
            let mut kinds: Vec<_> = kinds(told).into_iter().map(str::to_owned).collect();
            kinds.sort_unstable();
            kinds
        };
        assert_eq!(sorted(before), sorted(after));
        return;
    }
    before.assert_same(after);
}

#[test]
fn every_kind_of_record_occurs() {
    let mut found = BTreeSet::new();
    for scene in Scene::ALL {
        let log = play(scene, None, Hands::Stay).unwrap().log;
        found.extend(log.iter().map(|record| record.kind.text()));
    }
    let all = Kind::ALL.iter().map(|kind| kind.text());
    let missing: Vec<_> = all.filter(|kind| !found.contains(kind)).collect();
    assert!(
        missing.is_empty(),
        "no scene of points/scenes.rs has {missing:?}"
    );
}

#[test]
fn a_process_killed_at_any_call_changes_nothing() {
    at_every_call(Hands::Stay, compare);
}

/// A call that ran when its hand died may have run, and says so; all else is the same.
#[test]
fn hands_that_die_too_cost_no_more_than_the_calls_they_ran() {
    let lost = |told: &Told| {
        let settled = told.private.get(Kind::Settled.text()).into_iter().flatten();
        settled.filter(|line| line.contains("may_have_run")).count()
    };
    at_every_call(Hands::Die, |scene, before, after| {
        if scene == Scene::Stops {
            return compare(scene, before, after);
        }
        assert_eq!(kinds(before), kinds(after));
        // Two calls run side by side at most.
        assert!(lost(after) <= lost(before) + 2, "{after:#?}");
    });
}
