//! Checkpoints of real sandboxes: what comes back, what stands still meanwhile, and that all goes on.

use std::{
    fs, os::unix::process::CommandExt as _, path::Path, process::Command, sync::Arc, time::Duration,
};

use outlast_hands::{
    Hand, Keep, Limits, Provisioner as _, Recipe,
    files::{Packed, Sum},
    namespace::{Cgroups, Namespaces},
};
use outlast_protocol::id::IncarnationId;
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use crate::{
    alone, groups,
    support::{Node, bash, call, fine, incarnation, open, recipe, sh, text, until},
};

/// A pack in memory.
async fn taken(driver: &Namespaces, incarnation: IncarnationId) -> (Sum, Vec<u8>) {
    let mut packed = driver.checkpoint(incarnation).await.unwrap();
    let mut bytes = Vec::new();
    packed.content.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(packed.sum.bytes, bytes.len() as u64);
    (packed.sum, bytes)
}

async fn laid(driver: &Namespaces, incarnation: IncarnationId, sum: &Sum, bytes: &[u8]) {
    driver
        .restore(incarnation, &Limits::default(), packed(sum, bytes))
        .await
        .unwrap();
}

fn packed(sum: &Sum, bytes: &[u8]) -> Packed {
    Packed {
        sum: sum.clone(),
        content: Box::pin(std::io::Cursor::new(bytes.to_owned())),
    }
}

/// Tells whether a control group below `at` stands still.
fn frozen(at: &Path) -> bool {
    let read = |name: &str| fs::read_to_string(at.join(name)).unwrap_or_default();
    let here = read("freezer.state").starts_with("FR") || read("cgroup.freeze").starts_with('1');
    let ours = at.to_string_lossy().contains("outlast-box-");
    let inner = fs::read_dir(at).into_iter().flatten().flatten();
    (ours && here)
        || inner
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .any(|entry| frozen(&entry.path()))
}

/// What a session might have made, and a check of it that prints the same wherever it holds.
const MAKE: &str = r#"
mkdir -p d/e shut; echo deep > d/e/f; : > empty; chmod 4751 empty; ln d/e/f again; ln -s ../x link
printf 'x\ny' > "$(printf 'a\n\001\377 b')"; truncate -s 1G sparse; printf end >> sparse
rm -r /var/log; rm /etc/hosts 2>/dev/null; mkdir -p ~/.cache/z; mkfifo pipe
touch -d '2001-02-03 04:05:06.789' d/e/f; echo in > shut/in; chmod 0500 shut; seq 100000 > seq"#;
const LOOK: &str = r#"
find . ~ -printf '%p %m %s %l %y %n\n' | grep -v -e ' d ' | LC_ALL=C sort; stat -c %y d/e/f
stat -c '%s' sparse; tail -c 3 sparse; md5sum < seq; cat ./a*; ls -d /var/log 2>&1; [ again -ef d/e/f ] && echo same; ls -A /mnt/session"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_comes_back_on_another_node() {
    let node = Node::new().await;
    let first = recipe();
    let hand = node.provision(&first).await;
    bash(&hand, MAKE).await;
    let seen = text(&bash(&hand, LOOK).await);
    assert!(
        seen.contains("same") && seen.contains("1073741827"),
        "{seen}"
    );
    assert!(node.driver.holds(first.incarnation).await.unwrap());
    let (sum, bytes) = taken(&node.driver, first.incarnation).await;
    assert!(sum.bytes < 10 << 20 && sum.entries > 15, "{sum:?}");
    sh(&hand, "echo later > later").await;

    let other = Node::new().await;
    assert!(!other.driver.holds(first.incarnation).await.unwrap());
    let second = Recipe {
        predecessor: Some(first.incarnation),
        ..recipe()
    };
    laid(&other.driver, second.incarnation, &sum, &bytes).await;
    assert!(other.driver.holds(second.incarnation).await.unwrap());
    let hand = other.provision(&second).await;
    assert_eq!(text(&bash(&hand, LOOK).await), seen);
    // It is a workspace like any other.
    sh(&hand, "echo more >> d/e/f; mkdir /var/log; rm sparse; ls later && exit 1; chmod 0700 shut; rm -r shut").await;
    let (limits, pack) = (Limits::default(), packed(&sum, &bytes));
    let again = other.driver.restore(second.incarnation, &limits, pack);
    let error = again.await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_stands_still_while_it_is_packed_and_goes_on() {
    let node = Node::new().await;
    let recipe = recipe();
    let hand = node.provision(&recipe).await;
    // Each line goes to both files, the second after the first: at one moment they differ by one
    // line at most.
    let script = "for i in $(seq 200); do head -c 20000 /dev/urandom > pad$i; done
        (i=0; while :; do i=$((i+1)); echo $i >> a; echo $i >> z; done) > /dev/null 2>&1 &
        (while :; do kill -CONT -1; done) > /dev/null 2>&1 &";
    sh(&hand, script).await;
    sh(&hand, "until test -e z; do sleep 0.01; done").await;
    for _ in 0..3 {
        let (sum, bytes) = taken(&node.driver, recipe.incarnation).await;
        assert!(
            !frozen(Path::new("/sys/fs/cgroup")),
            "something stands still"
        );
        let other = Node::new().await;
        let copy = crate::support::recipe();
        laid(&other.driver, copy.incarnation, &sum, &bytes).await;
        let copied = other.provision(&copy).await;
        let counted = sh(&copied, "wc -l < a; wc -l < z").await;
        let (a, z) = counted.split_once('\n').unwrap();
        let (a, z): (u64, u64) = (a.parse().unwrap(), z.parse().unwrap());
        assert!(a == z || a == z + 1, "{a} and {z} lines");
        let goes_on = "n=$(stat -c %s a); until test $(stat -c %s a) -gt $n; do sleep 0.01; done";
        sh(&hand, goes_on).await;
    }
    assert_eq!(sh(&hand, "echo alive").await, "alive");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_forks_without_end_stands_still_each_time() {
    let node = Node::new().await;
    let recipe = recipe();
    let hand = node.provision(&recipe).await;
    let script = "for i in $(seq 8); do (while :; do /bin/true; done) > /dev/null 2>&1 & done";
    sh(&hand, script).await;
    for _ in 0..20 {
        // Fails if it does not stand still in the time that a checkpoint may take.
        taken(&node.driver, recipe.incarnation).await;
    }
    assert_eq!(sh(&hand, "echo alive").await, "alive");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_hand_left_is_packed_too() {
    let node = Node::new().await;
    let first = recipe();
    let hand = node.provision(&first).await;
    sh(&hand, "echo kept > file").await;
    node.driver
        .reap(first.incarnation, Keep::Layer)
        .await
        .unwrap();
    let (sum, bytes) = taken(&node.driver, first.incarnation).await;
    let other = Node::new().await;
    let second = recipe();
    laid(&other.driver, second.incarnation, &sum, &bytes).await;
    let hand = other.provision(&second).await;
    assert_eq!(sh(&hand, "cat file").await, "kept");
    node.driver
        .reap(first.incarnation, Keep::Nothing)
        .await
        .unwrap();
    let error = node.driver.checkpoint(first.incarnation).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
    assert!(!node.driver.holds(first.incarnation).await.unwrap());
    assert!(node.driver.list().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_ask_at_once_and_some_go_away() {
    let node = Node::new().await;
    let recipe = recipe();
    let hand = node.provision(&recipe).await;
    sh(&hand, "for i in $(seq 300); do echo $i > f$i; done").await;
    let asked = (0..6).map(|number| {
        let asked = node.driver.checkpoint(recipe.incarnation);
        async move {
            let patience = Duration::from_millis(if number % 2 == 0 { 60_000 } else { number });
            tokio::time::timeout(patience, asked).await
        }
    });
    let (done, answer) = tokio::join!(
        futures::future::join_all(asked),
        call(&hand, "bash", json!({"command": "echo meanwhile"}))
    );
    assert_eq!(fine(&answer), "meanwhile");
    for packed in done.into_iter().step_by(2) {
        assert!(packed.unwrap().unwrap().sum.entries > 300);
    }
    assert_eq!(sh(&hand, "echo alive").await, "alive");
    until("nothing stands still", || {
        !frozen(Path::new("/sys/fs/cgroup"))
    })
    .await;
    let folder = node.hands().join(recipe.incarnation.to_string());
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let files: Vec<_> = files.map(|entry| entry.file_name()).collect();
    assert_eq!(files, ["journal"], "no pack is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_was_stopped_by_its_own_is_packed_and_stays_stopped() {
    let node = Node::new().await;
    let recipe = recipe();
    let hand = node.provision(&recipe).await;
    let script = "echo x > file; sleep 1000 > /dev/null 2>&1 & kill -STOP $!; echo $!";
    let pid = sh(&hand, script).await;
    taken(&node.driver, recipe.incarnation).await;
    let state = format!("cut -d ' ' -f 3 /proc/{}/stat", pid.trim());
    assert_eq!(sh(&hand, &state).await, "T");
    // The shell itself: the call ends when somebody lets it go on.
    let stop = "(sleep 0.2; kill -CONT $$) > /dev/null 2>&1 & kill -STOP $$; echo on";
    let (answer, ()) = tokio::join!(bash(&hand, stop), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        taken(&node.driver, recipe.incarnation).await;
    });
    assert_eq!(fine(&answer), "on");
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_a_hand_ends_its_checkpoint() {
    let node = Node::new().await;
    let recipe = recipe();
    let hand = node.provision(&recipe).await;
    sh(&hand, "head -c 200M /dev/urandom > large").await;
    let incarnation = recipe.incarnation;
    let (packed, reaped) = tokio::join!(node.driver.checkpoint(incarnation), async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        node.driver.reap(incarnation, Keep::Nothing).await
    });
    reaped.unwrap();
    // Whichever was first; what is given out is whole.
    if let Ok(mut packed) = packed {
        let mut bytes = Vec::new();
        packed.content.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes.len() as u64, packed.sum.bytes);
    }
    assert!(node.driver.list().await.is_empty());
    until("nothing stands still", || {
        !frozen(Path::new("/sys/fs/cgroup"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_that_does_not_come_whole_leaves_a_hand_without_files() {
    let node = Node::new().await;
    let first = recipe();
    let hand = node.provision(&first).await;
    sh(&hand, "echo x > file; head -c 1M /dev/urandom > noise").await;
    let (sum, bytes) = taken(&node.driver, first.incarnation).await;
    let second = recipe();
    let half = packed(&sum, &bytes[..bytes.len() / 2]);
    node.driver
        .restore(second.incarnation, &Limits::default(), half)
        .await
        .unwrap_err();
    assert!(!node.driver.holds(second.incarnation).await.unwrap());
    laid(&node.driver, second.incarnation, &sum, &bytes).await;
    let hand = node.provision(&second).await;
    assert_eq!(sh(&hand, "cat file").await, "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_directory_goes_and_the_checkpoint_stays() {
    let node = Node::new().await;
    let first = recipe();
    let hand = node.provision(&first).await;
    sh(&hand, "echo kept > file").await;
    let (sum, bytes) = taken(&node.driver, first.incarnation).await;
    sh(&hand, "echo late >> file").await;
    let dir = node.hands();
    let Node { driver, dir: keep } = node;
    driver.shutdown().await;
    drop((driver, hand));
    fs::remove_dir_all(&dir).unwrap();
    let next = open(dir).await;
    assert!(!next.holds(first.incarnation).await.unwrap());
    let second = Recipe {
        predecessor: Some(first.incarnation),
        ..recipe()
    };
    laid(&next, second.incarnation, &sum, &bytes).await;
    let hand = next.provision(&second).await.unwrap();
    assert_eq!(sh(&hand, "cat file").await, "kept");
    drop(keep);
}

/// Packs the workspace of a hand and looks at a copy of it on the same node.
pub(crate) async fn there_and_back(driver: &Namespaces, hand: &Arc<dyn Hand>) {
    let script =
        "mkdir -p shut/in; echo x > shut/in/f; ln shut/in/f zz; chmod 0 shut/in/f; chmod 0 shut; rm -f /etc/hosts
        (i=0; while :; do i=$((i+1)); echo $i >> a; echo $i >> z; done) > /dev/null 2>&1 &
        (while :; do kill -CONT -1; done) > /dev/null 2>&1 &
        sleep 1000 > /dev/null 2>&1 & echo $! > stopped; sleep 0.3; kill -STOP $(cat stopped)";
    sh(hand, script).await;
    let (sum, bytes) = taken(driver, hand.incarnation()).await;
    let grown = "s=$(stat -c %s a); while [ $(stat -c %s a) = $s ]; do sleep 0.01; done";
    sh(hand, grown).await;
    let copy = recipe();
    laid(driver, copy.incarnation, &sum, &bytes).await;
    let copied = driver.provision(&copy).await.unwrap();
    let look = "stat -c %a shut; chmod 700 shut; chmod 600 shut/in/f; cat shut/in/f; [ shut/in/f -ef zz ] && \
        echo $(($(wc -l < a) - $(wc -l < z)))";
    let seen = sh(&copied, look).await;
    assert!(["0\nx\n0", "0\nx\n1"].contains(&seen.as_str()), "{seen}");
    driver.reap(copy.incarnation, Keep::Nothing).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_groups_everything_is_stopped_by_signals() {
    let name = "checkpoints::without_groups_everything_is_stopped_by_signals";
    if let Some(folder) = alone::inner(name) {
        let driver = open(folder.join("hands")).await;
        if driver.verdict().refusal.is_some() {
            return;
        }
        assert!(matches!(driver.verdict().cgroups, Cgroups::None { .. }));
        let recipe = recipe();
        let hand = driver.provision(&recipe).await.unwrap();
        there_and_back(&driver, &hand).await;
        let state = "cut -d ' ' -f 3 /proc/$(cat stopped)/stat";
        // Somebody inside wakes everything up again and again: then it may run.
        let state = sh(&hand, state).await;
        assert!(matches!(state.as_str(), "T" | "S" | "R"), "{state}");
        driver
            .reap(recipe.incarnation, Keep::Nothing)
            .await
            .unwrap();
        assert!(driver.list().await.is_empty());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = alone::again(name, folder.path());
    if rustix::process::geteuid().is_root() {
        command.uid(alone::NOBODY).gid(alone::NOBODY);
    }
    alone::pass(command);
}

/// What a server leaves that is killed while a sandbox stands still: processes that were killed and
/// cannot die.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_server_left_standing_still_dies_at_the_next_start() {
    let node = Node::new().await;
    let hand = node.hand().await;
    let own = hand.incarnation().to_string();
    let groups = groups::named(Path::new("/sys/fs/cgroup"), &own);
    let Some(freezer) = groups
        .iter()
        .find(|group| group.join("freezer.state").exists())
    else {
        println!("no freezer of version 1 here: a killed process dies in any group");
        return;
    };
    let left = freezer.with_file_name(format!("outlast-box-{}", incarnation()));
    fs::create_dir(&left).unwrap();
    let mut process = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    fs::write(left.join("cgroup.procs"), process.id().to_string()).unwrap();
    fs::write(left.join("freezer.state"), "FROZEN").unwrap();
    let state = || fs::read_to_string(left.join("freezer.state")).unwrap_or_default();
    until("it stands still", || state().trim() == "FROZEN").await;
    // One that was not killed is somebody's, who takes a checkpoint.
    let other = Node::new().await;
    assert_eq!(state().trim(), "FROZEN");
    process.kill().unwrap();
    assert!(process.try_wait().unwrap().is_none(), "it cannot die yet");
    drop(other);
    let _next = Node::new().await;
    process.wait().unwrap();
    // The process is gone, and its group with it or at the start after the next.
    assert!(!left.exists() || fs::remove_dir(&left).is_ok());
    assert_eq!(sh(&hand, "echo alive").await, "alive");
}

/// A small disk in memory; taken away again on drop.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "outlast-test", "-o", size]);
        assert!(mount.arg(dir.path()).status().unwrap().success());
        Self(dir)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

/// An image finds no room on the host's disk: that is named, and is no device that failed.
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_on_the_host_says_so_and_comes_once_there_is_room() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let node = Node::new().await;
    let hand = node.hand().await;
    sh(&hand, "head -c 40m /dev/urandom > noise; sync -f noise").await;
    let (sum, bytes) = taken(&node.driver, hand.incarnation()).await;
    let small = Small::mount("size=36m");
    let driver = open(small.0.path().join("hands")).await;
    let next = recipe();
    let (limits, pack) = (Limits::default(), packed(&sum, &bytes));
    let full = driver.restore(next.incarnation, &limits, pack).await;
    let full = full.unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    let words = full.to_string();
    assert!(words.contains("the host's disk is too full"), "{words}");
    let mut larger = Command::new("mount");
    larger.args(["-o", "remount,size=200m"]).arg(small.0.path());
    assert!(larger.status().unwrap().success());
    laid(&driver, next.incarnation, &sum, &bytes).await;
    let hand = driver.provision(&next).await.unwrap();
    assert_eq!(sh(&hand, "stat -c %s noise").await, "41943040");
    driver.shutdown().await;
}
