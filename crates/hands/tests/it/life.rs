//! Beginning and end of a hand: death, succession, many at once, nothing left behind.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use outlast_hands::{Keep, Provisioner as _, Recalled, Recipe, namespace::Disk};
use outlast_protocol::id::IncarnationId;
use serde_json::json;

use crate::support::{
    FENCE, Node, ask, call_id, fine, lost_of, open, raw, recipe, sh, text, until,
};

/// The host pids of what runs in the sandbox of an incarnation: those whose control group names it,
/// and every process with the marker in its command line.
fn processes(marker: &str) -> BTreeSet<String> {
    let entries = fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| {
            let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let (groups, line) = (read("cgroup"), read("cmdline"));
            [groups, line]
                .iter()
                .any(|text| String::from_utf8_lossy(text).contains(marker))
        })
        .collect()
}

/// Control group folders that carry a name.
fn groups(incarnation: IncarnationId) -> Vec<String> {
    fn below(folder: &Path, name: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().contains(name) {
                    found.push(entry.path().display().to_string());
                }
                below(&entry.path(), name, found);
            }
        }
    }
    let mut found = Vec::new();
    below(
        Path::new("/sys/fs/cgroup"),
        &incarnation.to_string(),
        &mut found,
    );
    found
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_after_reaping() {
    let before = mounts();
    let node = Node::new().await;
    let recipe = recipe();
    let hand = node.provision(&recipe).await;
    let marker = "987.654";
    sh(
        &hand,
        &format!(
            "setsid sleep {marker} & setsid -f bash -c 'trap \"\" TERM HUP; sleep {marker}'; \
             nohup sleep {marker} & mkdir -p locked/in; chmod 0 locked; sleep 0.2"
        ),
    )
    .await;
    assert_eq!(mounts(), before, "mounts are seen outside");
    assert!(processes(marker).len() >= 3);
    let folder = node.hands().join(recipe.incarnation.to_string());
    let is_image = node.driver.verdict().disk == Disk::Image;
    assert!(is_image || folder.join("tree/upper/workspace/locked").exists());
    assert_eq!(is_image, folder.join("tree/disk.img").exists());
    node.driver
        .reap(recipe.incarnation, Keep::Nothing)
        .await
        .unwrap();
    assert_eq!(processes(marker), BTreeSet::new());
    assert_eq!(processes(&recipe.incarnation.to_string()), BTreeSet::new());
    assert_eq!(groups(recipe.incarnation), Vec::<String>::new());
    assert!(!folder.exists());
    assert_eq!(mounts(), before);
    assert!(node.driver.list().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_driver_and_its_hands_ends_the_sandboxes() {
    let node = Node::new().await;
    let recipe = recipe();
    let hand = node.provision(&recipe).await;
    let marker = "987.321";
    sh(&hand, &format!("setsid sleep {marker} & sleep 0.1")).await;
    drop((node, hand));
    until("the sandbox ends", || processes(marker).is_empty()).await;
    until("its groups go", || groups(recipe.incarnation).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_somebody_removed_is_made_again() {
    use std::os::unix::fs::PermissionsExt as _;

    let node = Node::new().await;
    let (first, recipe) = (node.hand().await, recipe());
    // As often as somebody does it, in part or whole.
    for lost in ["", "shared", "shared/skeleton"] {
        fs::remove_dir_all(node.hands().join(lost)).unwrap();
        // Several at once make it once.
        let hands = (0..4).map(|_| node.hand());
        for hand in futures::future::join_all(hands).await {
            let read = sh(&hand, "echo made > file; cat file").await;
            assert_eq!(read.trim(), "made");
        }
        let mode = fs::metadata(node.hands()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "closed to other users");
    }
    node.provision(&recipe).await;
    assert!(node.driver.holds(recipe.incarnation).await.unwrap());
    drop(first);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_everything_and_keeps_layers() {
    let node = Node::new().await;
    let recipe = recipe();
    let hand = node.provision(&recipe).await;
    sh(&hand, "setsid sleep 986.1 & echo x > file").await;
    node.driver.shutdown().await;
    assert_eq!(processes("986.1"), BTreeSet::new());
    assert_eq!(node.driver.list().await, [recipe.incarnation]);
    assert!(
        ask(&hand, "bash", json!({"command": "true"}))
            .await
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_sandbox_is_lost_with_words_and_its_successor_has_the_files() {
    let node = Node::new().await;
    let first = recipe();
    let hand = node.provision(&first).await;
    sh(
        &hand,
        "echo kept > file; mkdir d; echo deep > d/e; rm -r /var/log; echo h > ~/home",
    )
    .await;
    let pid = processes(&first.incarnation.to_string());
    let (id, input) = (
        call_id(),
        raw(&json!({"command": "echo ran > ran; sleep 985.4"})),
    );
    let kill = async {
        until("the command runs", || !processes("985.4").is_empty()).await;
        // PID 1 is the oldest process of the sandbox.
        let init = init_of(&first.incarnation);
        rustix::process::kill_process(init, rustix::process::Signal::KILL).unwrap();
    };
    let (result, ()) = tokio::join!(hand.execute(FENCE, id, "bash", &input), kill);
    let lost = lost_of(result);
    assert!(lost.handed_over, "{lost}");
    assert!(lost.reason.contains("killed by signal 9"), "{lost} {pid:?}");
    let lost = lost_of(ask(&hand, "read", json!({"file_path": "file"})).await);
    assert!(!lost.handed_over, "{lost}");
    assert!(node.driver.find(first.incarnation).await.is_none());
    assert_eq!(
        node.driver.recall(first.incarnation, id).await,
        Recalled::Begun
    );

    let second = Recipe {
        predecessor: Some(first.incarnation),
        ..recipe()
    };
    let hand = node.provision(&second).await;
    assert_eq!(
        sh(&hand, "cat file d/e ran ~/home; ls -d /var/log 2>&1")
            .await
            .lines()
            .take(4)
            .collect::<Vec<_>>(),
        ["kept", "deep", "ran", "h"]
    );
    sh(&hand, "echo more >> file").await;
    // Also while the predecessor lives.
    let third = Recipe {
        predecessor: Some(second.incarnation),
        ..recipe()
    };
    let hand = node.provision(&third).await;
    assert_eq!(sh(&hand, "cat file").await, "kept\nmore");
    // And from nothing, if the predecessor is not on this machine.
    let other = Recipe {
        predecessor: Some(recipe().incarnation),
        ..recipe()
    };
    let hand = node.provision(&other).await;
    assert_eq!(sh(&hand, "ls -A").await, "(no output)");
}

/// Finds PID 1 of a sandbox from outside: the process of its group that is the first inside.
fn init_of(incarnation: &IncarnationId) -> rustix::process::Pid {
    let found = processes(&incarnation.to_string()).into_iter().find(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status
            .lines()
            .any(|line| line.starts_with("NSpid:") && line.ends_with("\t1"))
    });
    let pid = found
        .expect("the sandbox has a first process")
        .parse()
        .unwrap();
    rustix::process::Pid::from_raw(pid).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_server_finds_layer_and_journal() {
    let node = Node::new().await;
    let first = recipe();
    let hand = node.provision(&first).await;
    let (id, input) = (call_id(), raw(&json!({"command": "echo x | tee file"})));
    let result = hand.execute(FENCE, id, "bash", &input).await.unwrap();
    let dir = node.hands();
    let Node { driver, dir: keep } = node;
    driver.shutdown().await;
    drop((driver, hand));

    let next = open(dir).await;
    assert_eq!(next.list().await, [first.incarnation]);
    assert!(next.find(first.incarnation).await.is_none());
    assert_eq!(
        next.recall(first.incarnation, id).await,
        Recalled::Settled(result)
    );
    assert_eq!(
        next.recall(first.incarnation, call_id()).await,
        Recalled::NotStarted
    );
    let hand = next
        .provision(&Recipe {
            predecessor: Some(first.incarnation),
            ..recipe()
        })
        .await
        .unwrap();
    assert_eq!(sh(&hand, "cat file").await, "x");
    next.reap(first.incarnation, Keep::Nothing).await.unwrap();
    assert_eq!(next.list().await, [hand.incarnation()]);
    drop(keep);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_at_once_do_not_meet() {
    let node = Node::new().await;
    let made = futures::future::join_all((0..20).map(|_| node.hand())).await;
    let work = made.iter().enumerate().map(async |(number, hand)| {
        sh(
            hand,
            &format!("echo {number} > n; echo {number} > /tmp/n; x={number}"),
        )
        .await;
        sh(hand, "cat n /tmp/n; echo $x; ls -A; ps -e -o pid= | wc -l").await
    });
    for (number, text) in futures::future::join_all(work)
        .await
        .into_iter()
        .enumerate()
    {
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            &lines[..4],
            [
                &number.to_string(),
                &number.to_string(),
                &number.to_string(),
                "n"
            ]
        );
        assert!(
            lines[4].trim().parse::<u32>().unwrap() < 8,
            "sees others: {text}"
        );
    }
    let reaped = made
        .iter()
        .map(|hand| node.driver.reap(hand.incarnation(), Keep::Nothing));
    for result in futures::future::join_all(reaped).await {
        result.unwrap();
    }
    assert!(node.driver.list().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_repeated_at_once_run_once() {
    let node = Node::new().await;
    let hand = node.hand().await;
    let (id, input) = (
        call_id(),
        raw(&json!({"command": "echo x >> count; sleep 0.1; wc -l < count"})),
    );
    let asked = (0..20).map(|_| hand.execute(FENCE, id, "bash", &input));
    for result in futures::future::join_all(asked).await {
        assert_eq!(fine(&result.unwrap()), "1");
    }
    assert_eq!(sh(&hand, "wc -l < count").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_input_and_odd_bytes_are_carried() {
    let node = Node::new().await;
    let hand = node.hand().await;
    let content = "äöü\u{1f600}\\\"\n".repeat(600_000);
    let input = json!({"file_path": "huge", "content": content});
    let words = fine(&crate::support::call(&hand, "write", input).await);
    assert_eq!(words, format!("wrote {} bytes to huge", content.len()));
    assert_eq!(sh(&hand, "wc -c < huge").await, content.len().to_string());
    let command = format!("x='{}'; echo ${{#x}}", "y".repeat(300_000));
    assert_eq!(sh(&hand, &command).await, "300000");
    let longest = json!({"file_path": "huge", "content": "z".repeat(70 << 20)});
    let result = ask(&hand, "write", longest).await.unwrap();
    assert!(
        result.is_error && text(&result).contains("too long"),
        "{result:?}"
    );
    let hand = Arc::clone(&hand);
    assert_eq!(sh(&hand, "echo fine").await, "fine");
}
