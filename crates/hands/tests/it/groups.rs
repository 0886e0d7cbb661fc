//! Control groups as the host sees them: bounds, standing still, and what a dead server leaves.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use outlast_hands::{
    Limits, Provisioner as _, Recipe,
    namespace::{Cgroups, Verdict},
};
use outlast_protocol::Outcome;
use serde_json::json;

use crate::{
    alone,
    escapes::python,
    support::{Node, bash, call, failed, fine, incarnation, open, recipe, sh, until},
};

/// Names the controllers that there must be, as a verdict does; without it, what there is counts.
const DEMANDED: &str = "OUTLAST_TEST_CGROUPS";

/// Where every distribution mounts control groups.
const MOUNTS: &str = "/sys/fs/cgroup";

/// Describes the groups of a host.
fn described(verdict: &Verdict) -> String {
    match &verdict.cgroups {
        Cgroups::V1 { controllers } => format!("v1 {}", controllers.join(" ")),
        Cgroups::V2 { controllers } => format!("v2 {}", controllers.join(" ")),
        Cgroups::None { .. } => "none".to_owned(),
    }
}

/// Finds the groups below `at` whose names hold this.
pub(crate) fn named(at: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(at).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(named(&entry.path(), name));
            if entry.file_name().to_string_lossy().contains(name) {
                found.push(entry.path());
            }
        }
    }
    found
}

/// Reads a control file of one of the groups.
fn read(groups: &[PathBuf], file: &str) -> Option<String> {
    let text = groups
        .iter()
        .find_map(|group| fs::read_to_string(group.join(file)).ok())?;
    Some(text.trim().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_has_the_groups_that_the_verdict_says_with_its_bounds() {
    let node = Node::new().await;
    let found = described(node.driver.verdict());
    println!("{}", node.driver.verdict());
    if let Ok(demanded) = std::env::var(DEMANDED) {
        assert_eq!(found, demanded, "{}", node.driver.verdict());
    }
    let limits = Limits {
        memory_bytes: 96 << 20,
        pids: 40,
        cpu_millis: 500,
        ..Limits::default()
    };
    let recipe = Recipe { limits, ..recipe() };
    let hand = node.provision(&recipe).await;
    sh(&hand, "(sleep 600 &) > /dev/null 2>&1").await;
    let groups = named(Path::new(MOUNTS), &recipe.incarnation.to_string());
    let (version, controllers) = found.split_once(' ').unwrap_or((&found, ""));
    let files = match version {
        "v1" => ["memory.limit_in_bytes", "pids.max", "cpu.cfs_quota_us"],
        "v2" => ["memory.max", "pids.max", "cpu.max"],
        _ => return assert!(groups.is_empty(), "{groups:?}"),
    };
    // Room for PID 1 to act stands beside the commands' own processes.
    for (file, value) in files.iter().zip(["100663296", "56", "50000"]) {
        let controller = file.split('.').next().unwrap();
        let there = read(&groups, file).map(|text| text.starts_with(value));
        let wanted = controllers.contains(controller).then_some(true);
        assert_eq!(there, wanted, "{file}: {:?}", read(&groups, file));
    }
    // All of it is in there, commands in a group of their own, and no more is seen of it inside.
    let count = |below: &str| {
        let lists = groups
            .iter()
            .map(|group| fs::read_to_string(group.join(below).join("cgroup.procs")));
        let lengths = lists.filter_map(|list| Some(list.ok()?.lines().count()));
        lengths.max().unwrap()
    };
    let (apart, beside) = match version {
        "v1" => ("/\n/commands", 3),
        _ => ("/\n/../commands", 0),
    };
    assert!(count("commands") >= 2 && count("") >= beside);
    let own = groups.iter().find_map(|group| {
        let own = fs::read_to_string(group.join("commands/pids.max"));
        own.ok()
    });
    assert_eq!(own.unwrap().trim(), "40");
    let seen = "cut -d: -f3 /proc/self/cgroup /proc/1/cgroup | sort -u";
    assert_eq!(sh(&hand, seen).await, apart);
    node.driver.shutdown().await;
    drop(hand);
    let left = || named(Path::new(MOUNTS), &recipe.incarnation.to_string());
    until("its groups are gone", || left().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_and_processes_are_bounded_and_told() {
    let node = Node::new().await;
    if matches!(node.driver.verdict().cgroups, Cgroups::None { .. }) {
        return;
    }
    let limits = Limits {
        memory_bytes: 96 << 20,
        pids: 40,
        ..Limits::default()
    };
    let hand = node.limited(limits).await;
    let bomb = python("print(len(b'x' * (300 << 20)))");
    let result = bash(&hand, &bomb).await;
    let words = failed(&result);
    assert_eq!(result.outcome, Outcome::Limit, "{words}");
    assert!(
        words.contains("memory limit of 96 MiB was reached: 1 process was killed"),
        "{words}"
    );
    let bomb = "
import signal
made = []
try:
    while len(made) < 500:
        made.append(os.fork())
        if made[-1] == 0: signal.pause()
except OSError as error: print('fork:', error.strerror, errno.errorcode[error.errno], len(made))
for pid in made: os.kill(pid, 9)
raise SystemExit(1)";
    let words = failed(&bash(&hand, &python(bomb)).await);
    assert!(words.contains("EAGAIN 3"), "{words}");
    assert!(
        words.contains("limit of 40 processes was reached"),
        "{words}"
    );
    assert_eq!(sh(&hand, "echo alive").await, "alive");
}

#[tokio::test(flavor = "multi_thread")]
async fn processor_time_is_held_back_and_told() {
    let node = Node::new().await;
    if !described(node.driver.verdict()).contains("cpu") {
        return;
    }
    let limits = Limits {
        cpu_millis: 200,
        ..Limits::default()
    };
    let hand = node.limited(limits).await;
    let busy = "for i in 1 2 3 4; do while :; do :; done & done; wait";
    let busy = json!({"command": busy, "timeout_ms": 4_000});
    let result = call(&hand, "bash", busy).await;
    assert_eq!(result.outcome, Outcome::Limit, "{result:?}");
    let words = failed(&result);
    assert!(
        words.contains("limit of 0.2 processors held it back for "),
        "{words}"
    );
    fine(&call(&hand, "bash", json!({"restart": true})).await);
}

/// A server that is killed while its sandbox stands still: no process of it lives on, and the next
/// server removes its groups.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_stood_still_does_not_outlive_its_server() {
    let name = "groups::a_sandbox_that_stood_still_does_not_outlive_its_server";
    if let Some(folder) = alone::inner(name) {
        let driver = open(folder.join("hands")).await;
        let recipe = recipe();
        let hand = driver.provision(&recipe).await.unwrap();
        sh(
            &hand,
            "head -c 20M /dev/urandom > noise; (sleep 731.5 &) > /dev/null 2>&1",
        )
        .await;
        fs::write(folder.join("ready"), "").unwrap();
        loop {
            drop(driver.checkpoint(recipe.incarnation).await);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut inner = alone::here(name, folder.path());
    let mut inner = inner.stdout(Stdio::null()).spawn().unwrap();
    let ready = folder.path().join("ready");
    until("the inner half has a sandbox", || ready.exists()).await;
    let hands = folder.path().join("hands");
    let one = fs::read_dir(&hands).unwrap().flatten();
    let one = one.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let one = one
        .into_iter()
        .find(|name| name.starts_with("hand_"))
        .unwrap();
    // Most of the time it stands still; a moment at which it surely does cannot be had from outside.
    tokio::time::sleep(Duration::from_millis(300)).await;
    inner.kill().unwrap();
    inner.wait().unwrap();
    let left = || {
        let groups = named(Path::new(MOUNTS), &one);
        let read = |group: &PathBuf| fs::read_to_string(group.join("cgroup.procs"));
        groups
            .iter()
            .filter_map(|group| read(group).ok())
            .any(|text| !text.is_empty())
    };
    let driver = open(hands).await;
    until("its processes are gone", || !left()).await;
    let next = Recipe {
        predecessor: driver.list().await.first().copied(),
        ..Recipe::new(incarnation())
    };
    let hand = driver.provision(&next).await.unwrap();
    assert_eq!(sh(&hand, "stat -c %s noise").await, "20971520");
    driver.shutdown().await;
    // The next server removes what was still dying.
    let driver = open(folder.path().join("hands")).await;
    until("its groups are gone", || {
        named(Path::new(MOUNTS), &one).is_empty()
    })
    .await;
    drop(driver);
}
