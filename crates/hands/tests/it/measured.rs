//! Bounds of disk and files that are kept by looking: what is told, and who is stopped.

use std::{sync::Arc, time::Duration};

use outlast_hands::{
    Hand, Keep, Limits, Provisioner, Recipe,
    host::Place,
    namespace::{Disks, Namespaces, Options},
};
use outlast_protocol::{Outcome, id::IncarnationId};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    hosted::{LONG, Running, options, remote},
    support::{GENEROUS, ask, bash, failed, fine, lost_of, recipe, sh, text},
};

/// Longer than the pause between two looks at a hand that has no call.
const LOOKED: Duration = Duration::from_secs(6);

/// What a command says that says nothing.
const NOTHING: &str = "(no output)";

/// What is measured, how it grows, and what is said of it.
struct Bound {
    limits: Limits,
    /// Goes beyond it in a moment.
    quick: &'static str,
    /// Goes beyond it, and on.
    endless: &'static str,
    /// Takes away a little, for some seconds.
    tidy: &'static str,
    words: &'static str,
}

fn bounds() -> [Bound; 2] {
    let bytes = Bound {
        limits: Limits {
            disk_bytes: 8 << 20,
            ..Limits::default()
        },
        quick: "head -c 24m /dev/zero | split -a 2 -b 1m - part",
        endless: "while head -c 1m /dev/zero >> big; do sleep 0.2; done",
        tidy: "for i in parta[a-l]; do rm $i; sleep 0.2; done; echo tidy",
        words: "the sandbox's disk limit of 8 MiB was passed: it holds ",
    };
    let files = Bound {
        limits: Limits {
            inodes: 80,
            ..Limits::default()
        },
        quick: "mkdir d; cd d; touch $(seq 240)",
        endless: "while i=$((i + 40)); touch $(seq -f x%.0f $i $((i + 39))); do sleep 0.2; done",
        tidy: "cd /workspace/d; for i in $(seq 12); do rm $i; sleep 0.2; done; echo tidy",
        words: "the sandbox's limit of 80 files was passed: it has ",
    };
    [bytes, files]
}

async fn measuring(dir: &std::path::Path) -> Namespaces {
    let options = Options {
        disks: Disks::Never,
        ..Options::at(dir.join("hands"))
    };
    Namespaces::new(options).await.unwrap()
}

/// Makes a hand in which a call passed a bound in less time than lies between two looks.
async fn passed(driver: &dyn Provisioner, bound: &Bound) -> Arc<dyn Hand> {
    let limits = bound.limits;
    for _ in 0..20 {
        let hand = driver.provision(&Recipe { limits, ..recipe() }).await;
        let hand = hand.unwrap();
        let result = bash(&hand, bound.quick).await;
        if result.outcome == Outcome::Done {
            fine(&result);
            return hand;
        }
        // The machine is busy, and it took long enough to be stopped.
        removed(driver, &[hand.incarnation()]).await;
    }
    panic!("never fast enough");
}

/// A call that passes a bound in a moment is told so once, and none that only deletes is stopped.
async fn passing_is_told_and_tidying_goes_on(driver: &dyn Provisioner, bound: &Bound) {
    let hand = passed(driver, bound).await;
    sleep(LOOKED).await;
    let said = told(&hand).await;
    assert!(said.contains(bound.words), "{said}");
    assert!(said.contains("remove files before writing more"), "{said}");
    assert_eq!(sh(&hand, "sleep 0.6").await, NOTHING, "it is told once");
    assert_eq!(sh(&hand, bound.tidy).await, "tidy");
    still_held(&hand, bound).await;
    removed(driver, &[hand.incarnation()]).await;
}

/// Leaves nothing behind.
async fn removed(driver: &dyn Provisioner, hands: &[IncarnationId]) {
    for hand in hands {
        driver.reap(*hand, Keep::Nothing).await.unwrap();
    }
}

/// Makes calls until one says more than it should.
async fn told(hand: &Arc<dyn Hand>) -> String {
    let began = Instant::now();
    loop {
        let said = sh(hand, "sleep 0.1").await;
        if said != NOTHING {
            return said;
        }
        assert!(began.elapsed() < GENEROUS, "nothing is told");
    }
}

/// Who takes over a layer that is beyond its bounds can tidy it up too.
async fn an_heir_can_tidy_up(driver: &dyn Provisioner, bound: &Bound) {
    let first = driver.provision(&recipe()).await.unwrap();
    sh(&first, bound.quick).await;
    let next = Recipe {
        predecessor: Some(first.incarnation()),
        limits: bound.limits,
        ..recipe()
    };
    let hand = driver.provision(&next).await.unwrap();
    assert_eq!(sh(&hand, bound.tidy).await, "tidy");
    still_held(&hand, bound).await;
    removed(driver, &[first.incarnation(), next.incarnation]).await;
}

/// Whatever was left alone: what goes on writing beyond the bound is stopped.
async fn still_held(hand: &Arc<dyn Hand>, bound: &Bound) {
    let result = bash(hand, bound.endless).await;
    assert_eq!(result.outcome, Outcome::Limit, "{result:?}");
    let said = failed(&result);
    assert!(said.contains(bound.words), "{said}");
    assert!(said.contains("; what ran was stopped"), "{said}");
}

/// What writes in the background ends with its sandbox, and whoever asks hears why.
async fn the_background_is_stopped(driver: &dyn Provisioner, bound: &Bound) {
    let limits = bound.limits;
    let first = Recipe { limits, ..recipe() };
    let hand = driver.provision(&first).await.unwrap();
    let writer = format!(
        "cat > w <<'END'\n{}\nEND\nsetsid bash w & echo on",
        bound.endless
    );
    assert!(sh(&hand, &writer).await.contains("on"));
    let began = Instant::now();
    while driver.find(first.incarnation).await.is_some() {
        assert!(began.elapsed() < GENEROUS, "it writes for ever");
        sleep(Duration::from_millis(50)).await;
    }
    let told = |words: &str| {
        assert!(words.starts_with(bound.words), "{words}");
        let stopped = "what wrote in the background was stopped, and the sandbox with it";
        assert!(words.contains(stopped), "{words}");
    };
    told(&driver.fate(first.incarnation).await.unwrap());
    told(&lost_of(ask(&hand, "bash", json!({"command": "true"})).await).reason);
    let next = Recipe {
        predecessor: Some(first.incarnation),
        limits,
        ..recipe()
    };
    let hand = driver.provision(&next).await.unwrap();
    fine(&bash(&hand, "rm big; touch tidy; echo tidy").await);
    assert_eq!(
        driver.fate(first.incarnation).await,
        None,
        "it was taken over"
    );
    driver.reap(next.incarnation, Keep::Layer).await.unwrap();
    assert_eq!(driver.fate(next.incarnation).await, None, "it was wanted");
    removed(driver, &[first.incarnation, next.incarnation]).await;
}

/// All of it, at once: most of the time is spent between looks.
pub(crate) async fn bounds_are_held_and_told(driver: &dyn Provisioner) {
    let [bytes, files] = &bounds();
    tokio::join!(
        passing_is_told_and_tidying_goes_on(driver, bytes),
        passing_is_told_and_tidying_goes_on(driver, files),
        an_heir_can_tidy_up(driver, bytes),
        an_heir_can_tidy_up(driver, files),
        the_background_is_stopped(driver, bytes),
        the_background_is_stopped(driver, files),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_a_measured_bound_is_told_and_can_be_mended() {
    let dir = tempfile::tempdir().unwrap();
    let driver = measuring(dir.path()).await;
    bounds_are_held_and_told(&driver).await;
    driver.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_tells_what_became_of_a_hand_that_nobody_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let driver = Arc::new(measuring(dir.path()).await);
    let host = Running::start(Place::usual(dir.path()), driver, options(LONG));
    let remote = remote(dir.path()).await;
    let [bytes, _] = &bounds();
    the_background_is_stopped(&remote, bytes).await;
    let hand = remote.provision(&recipe()).await.unwrap();
    assert_eq!(remote.fate(hand.incarnation()).await, None, "it lives");
    assert_eq!(text(&bash(&hand, "echo on").await), "on");
    host.stop();
}
