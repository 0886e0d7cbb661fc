//! Disks of their own, what is measured without them, and what a crash leaves of either.

use std::{fs, path::Path, process::Command, sync::Arc};

use outlast_hands::{
    Hand, Keep, Limits, Provisioner as _, Recipe, Requirement,
    namespace::{Cgroups, Disk, Disks, Namespaces, Options, State, survey},
};
use outlast_protocol::Outcome;
use serde_json::json;

use crate::{
    alone::{again, inner},
    support::{
        GENEROUS, Node, ask, bash, call, failed, fine, lost_of, open, recipe, sh, text, until,
    },
};

/// Whether this host gives a sandbox a disk of its own; says so if not.
fn has_disks(driver: &Namespaces) -> bool {
    let is_image = driver.verdict().disk == Disk::Image;
    if !is_image {
        println!("not tried: {}", driver.verdict());
    }
    is_image
}

fn small() -> Limits {
    Limits {
        disk_bytes: 16 << 20,
        inodes: 500,
        ..Limits::default()
    }
}

/// Loop devices whose file lies below a folder.
fn loops(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir("/sys/block").unwrap().flatten();
    let files =
        entries.filter_map(|entry| fs::read_to_string(entry.path().join("loop/backing_file")).ok());
    let folder = folder.to_string_lossy().into_owned();
    files.filter(|file| file.starts_with(&folder)).collect()
}

/// Control groups of an incarnation, in any hierarchy.
fn groups(name: &str) -> usize {
    let found = Command::new("find")
        .args(["/sys/fs/cgroup", "-type", "d", "-name"])
        .arg(format!("outlast-box-{name}"))
        .output()
        .unwrap();
    String::from_utf8_lossy(&found.stdout).lines().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_can_be_tidied_up() {
    let node = Node::new().await;
    if !has_disks(&node.driver) {
        return;
    }
    let hand = node.limited(small()).await;
    let words = failed(&bash(&hand, "head -c 40m /dev/zero > big").await);
    assert!(
        words.contains("No space left")
            && words.contains("[the sandbox's disk limit of 16 MiB was reached: remove files"),
        "{words}"
    );
    let size: u64 = sh(&hand, "stat -c %s big").await.parse().unwrap();
    assert!((14 << 20..=17 << 20).contains(&size), "{size}");
    let result = call(
        &hand,
        "write",
        json!({"file_path": "more", "content": "x".repeat(100_000)}),
    )
    .await;
    assert_eq!(result.outcome, Outcome::Limit);
    assert!(
        failed(&result).contains("disk limit of 16 MiB"),
        "{result:?}"
    );
    sh(&hand, "rm big; echo x > more").await;
    // Inodes have words of their own.
    let words = failed(&bash(&hand, "for i in $(seq 1000); do : > f$i || exit 7; done").await);
    assert!(
        words.contains("[the sandbox's limit of 500 files was reached"),
        "{words}"
    );
    fine(&call(&hand, "bash", json!({"restart": true})).await);
    let made: u64 = sh(&hand, "ls | wc -l").await.trim().parse().unwrap();
    assert!((400..=500).contains(&made), "{made}");
    sh(&hand, "rm f*; touch again").await;
    assert_eq!(sh(&hand, "cat more").await, "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_taken_over_and_leaves_nothing() {
    let node = Node::new().await;
    if !has_disks(&node.driver) {
        return;
    }
    let first = Recipe {
        limits: small(),
        ..recipe()
    };
    let hand = node.provision(&first).await;
    sh(
        &hand,
        "echo kept > file; mkdir -p a/b; ln -s file link; rm -r /var/tmp/* ~/.[a-z]*; touch ~/x; rm ~/x; true",
    )
    .await;
    assert_eq!(loops(&node.hands()).len(), 1);
    let mut last = first.incarnation;
    for _ in 0..3 {
        let next = Recipe {
            predecessor: Some(last),
            limits: small(),
            ..recipe()
        };
        let hand = node.provision(&next).await;
        assert_eq!(sh(&hand, "cat link; ls -d a/b; ls ~").await, "kept\na/b");
        last = next.incarnation;
    }
    node.driver.reap(last, Keep::Layer).await.unwrap();
    until("no device is left", || loops(&node.hands()).is_empty()).await;
    let hand = node
        .provision(&Recipe {
            predecessor: Some(last),
            ..recipe()
        })
        .await;
    assert_eq!(sh(&hand, "cat file").await, "kept");
    node.driver
        .reap(hand.incarnation(), Keep::Nothing)
        .await
        .unwrap();
    drop(hand);
    for incarnation in node.driver.list().await {
        node.driver.reap(incarnation, Keep::Nothing).await.unwrap();
    }
    until("no device is left", || loops(&node.hands()).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_disks_what_is_written_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        disks: Disks::Never,
        ..Options::at(dir.path().join("hands"))
    };
    let driver = Namespaces::new(options).await.unwrap();
    assert!(matches!(driver.verdict().disk, Disk::Measured { .. }));
    let limits = Limits {
        disk_bytes: 8 << 20,
        ..Limits::default()
    };
    let hand = driver
        .provision(&Recipe { limits, ..recipe() })
        .await
        .unwrap();
    what_is_measured_is_stopped(&hand).await;
    // What no call does ends the sandbox; its successor can tidy up.
    let first = hand.incarnation();
    // No call runs meanwhile: stopping one would stop the writer with it.
    let writer = "setsid sh -c 'while head -c 1m /dev/zero >> big; do sleep 0.2; done' & echo on";
    assert_eq!(sh(&hand, writer).await, "on");
    while driver.find(first).await.is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let lost = lost_of(ask(&hand, "bash", json!({"command": "true"})).await);
    assert!(
        lost.reason.contains("disk limit of 8 MiB was passed"),
        "{lost:?}"
    );
    let next = Recipe {
        predecessor: Some(first),
        limits,
        ..recipe()
    };
    let hand = driver.provision(&next).await.unwrap();
    sh(&hand, "rm big; echo tidy").await;
    // Files are counted too.
    let limits = Limits {
        inodes: 300,
        ..Limits::default()
    };
    let hand = driver
        .provision(&Recipe { limits, ..recipe() })
        .await
        .unwrap();
    let words = failed(&bash(&hand, "for i in $(seq 100000); do : > f$i; done").await);
    assert!(
        words.contains("[the sandbox's limit of 300 files was passed"),
        "{words}"
    );
    driver.shutdown().await;
}

/// Writes beyond eight mebibytes where that is measured.
pub(crate) async fn what_is_measured_is_stopped(hand: &Arc<dyn Hand>) {
    let endless = "while head -c 256k /dev/zero >> big; do sleep 0.02; done";
    let result = bash(hand, endless).await;
    assert_eq!(result.outcome, Outcome::Limit, "{result:?}");
    assert!(
        failed(&result).contains("[the sandbox's disk limit of 8 MiB was passed: it holds"),
        "{result:?}"
    );
    assert_eq!(sh(hand, "rm -r big; echo tidy").await, "tidy");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_demanded_and_missing_refuses_the_hand() {
    let node = Node::new().await;
    let all = [
        Requirement::Cgroups,
        Requirement::Cpu,
        Requirement::Disk,
        Requirement::OwnIds,
    ];
    for require in all {
        let recipe = Recipe {
            require: vec![require],
            ..recipe()
        };
        let made = node.driver.provision(&recipe).await;
        match node.driver.verdict().lacks(require) {
            None => drop(made.unwrap()),
            Some(reason) => {
                let words = made.unwrap_err().to_string();
                assert!(
                    words.contains(&reason) && words.contains("`outlast check`"),
                    "{words}"
                );
                assert!(
                    node.driver
                        .list()
                        .await
                        .iter()
                        .all(|left| *left != recipe.incarnation)
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_survey_says_what_the_driver_says() {
    let node = Node::new().await;
    let survey = survey(node.dir.path()).await.unwrap();
    println!("{survey}");
    assert_eq!(&survey.verdict, node.driver.verdict());
    let state = |part: &str| {
        survey
            .findings
            .iter()
            .find(|finding| finding.part == part)
            .unwrap()
            .state
    };
    if survey.verdict.refusal.is_none() {
        assert_eq!(
            [
                state("user namespaces"),
                state("other namespaces"),
                state("seccomp")
            ],
            [State::Good; 3]
        );
    }
    assert_eq!(
        state("loop devices") == State::Good,
        survey.verdict.disk == Disk::Image
    );
    assert_eq!(
        state("control groups") == State::Less,
        matches!(survey.verdict.cgroups, Cgroups::None { .. })
    );
    let left: Vec<_> = fs::read_dir(node.dir.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["hands"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_dead_server_stays() {
    let name = "disks::nothing_of_a_dead_server_stays";
    if let Some(folder) = inner(name) {
        let driver = open(folder.join("hands")).await;
        for _ in 0..3 {
            let hand = driver.provision(&recipe()).await.unwrap();
            sh(&hand, "echo x > file; sleep 500 & true").await;
        }
        fs::write(folder.join("ready"), "").unwrap();
        tokio::time::sleep(GENEROUS).await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = again(name, folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let ready = folder.path().join("ready");
    until("the inner half has sandboxes", || ready.exists()).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let driver = open(folder.path().join("hands")).await;
    let left = driver.list().await;
    assert_eq!(left.len(), 3);
    for incarnation in &left {
        until("its groups are gone", || {
            groups(&incarnation.to_string()) == 0
        })
        .await;
    }
    until("its devices are gone", || loops(folder.path()).is_empty()).await;
    let next = Recipe {
        predecessor: left.first().copied(),
        ..recipe()
    };
    let hand = driver.provision(&next).await.unwrap();
    assert_eq!(text(&bash(&hand, "cat file").await), "x");
    for incarnation in driver.list().await {
        driver.reap(incarnation, Keep::Nothing).await.unwrap();
    }
    drop(hand);
    let names: Vec<_> = fs::read_dir(folder.path().join("hands"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(names, ["shared"]);
    until("its devices are gone", || loops(folder.path()).is_empty()).await;
}
