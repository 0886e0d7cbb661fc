//! Layers that are laid before their sandbox: they are held by what holds every other layer here.

use std::{fs, io::ErrorKind, path::PathBuf, sync::Arc};

use outlast_hands::{
    Hand, Keep, Limits, ProvisionError, Provisioner as _, Recipe, Requirement,
    files::{Packed, Sum},
    namespace::{Disk, Disks, Namespaces, Options},
};
use outlast_protocol::id::IncarnationId;
use tokio::io::AsyncReadExt as _;

use crate::support::{Node, bash, failed, incarnation, open, recipe, sh, text};

fn bounded(disk_mib: u64, inodes: u64) -> Limits {
    Limits {
        disk_bytes: disk_mib << 20,
        inodes,
        ..Limits::default()
    }
}

/// A node, if this host gives sandboxes disks of their own; says so if not.
async fn with_disks() -> Option<Node> {
    let node = Node::new().await;
    let verdict = node.driver.verdict();
    if verdict.disk == Disk::Image {
        return Some(node);
    }
    println!("not tried: {verdict}");
    None
}

/// The same folder, where no disks are made.
async fn without_disks(node: Node) -> Node {
    let Node { driver, dir } = node;
    driver.shutdown().await;
    drop(driver);
    let options = Options {
        disks: Disks::Never,
        ..Options::at(dir.path().join("hands"))
    };
    let driver = Namespaces::new(options).await.unwrap();
    Node { driver, dir }
}

async fn again(node: Node) -> Node {
    let Node { driver, dir } = node;
    driver.shutdown().await;
    drop(driver);
    let driver = open(dir.path().join("hands")).await;
    Node { driver, dir }
}

/// A recipe for the successor of a hand.
fn after(last: IncarnationId, limits: Limits) -> Recipe {
    Recipe {
        predecessor: Some(last),
        limits,
        require: vec![Requirement::Disk],
        ..recipe()
    }
}

async fn taken(driver: &Namespaces, incarnation: IncarnationId) -> (Sum, Vec<u8>) {
    let mut packed = driver.checkpoint(incarnation).await.unwrap();
    let mut bytes = Vec::new();
    packed.content.read_to_end(&mut bytes).await.unwrap();
    (packed.sum, bytes)
}

fn packed((sum, bytes): &(Sum, Vec<u8>)) -> Packed {
    Packed {
        sum: sum.clone(),
        content: Box::pin(std::io::Cursor::new(bytes.clone())),
    }
}

fn folder(node: &Node, incarnation: IncarnationId) -> PathBuf {
    node.hands().join(incarnation.to_string())
}

/// What stands beside journal and tree.
fn left_over(node: &Node, incarnation: IncarnationId) -> bool {
    folder(node, incarnation).join("restoring").exists()
}

/// Asserts that the kernel holds a hand to so many MiB.
async fn holds(hand: &Arc<dyn Hand>, mib: u64) {
    let words = failed(&bash(hand, "head -c 200M /dev/zero > big").await);
    assert!(words.contains("No space left"), "{words}");
    let size: u64 = sh(hand, "stat -c %s big; rm big")
        .await
        .trim()
        .parse()
        .unwrap();
    assert!(size <= (mib + 1) << 20, "{size}");
    assert!(size >= (mib - 2) << 20, "{size}");
}

fn refused(made: Result<Arc<dyn Hand>, ProvisionError>) -> String {
    made.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_layer_is_held_to_its_bounds() {
    let Some(node) = with_disks().await else {
        return;
    };
    let first = recipe();
    let hand = node.provision(&first).await;
    sh(&hand, "echo kept > file; mkdir d; ln file d/again").await;
    let pack = taken(&node.driver, first.incarnation).await;
    let limits = bounded(16, 500);
    let second = after(first.incarnation, limits);
    let other = Node::new().await;
    let restored = other
        .driver
        .restore(second.incarnation, &limits, packed(&pack));
    restored.await.unwrap();
    assert!(other.driver.holds(second.incarnation).await.unwrap());
    assert!(!left_over(&other, second.incarnation));
    let hand = other.provision(&second).await;
    assert_eq!(sh(&hand, "cat d/again").await, "kept");
    holds(&hand, 16).await;
    let words = failed(&bash(&hand, "(for i in $(seq 1000); do : > f$i || exit 7; done)").await);
    assert!(words.contains("limit of 500 files"), "{words}");
    sh(&hand, "rm f[0-9]*").await;
    // It goes through every door that another goes through.
    let pack = taken(&other.driver, second.incarnation).await;
    assert!(pack.0.entries > 3);
    let third = after(second.incarnation, limits);
    let hand = other.provision(&third).await;
    assert_eq!(sh(&hand, "cat file").await, "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_is_too_large_is_refused_and_fits_once_the_bound_is_raised() {
    let Some(node) = with_disks().await else {
        return;
    };
    let first = recipe();
    let hand = node.provision(&first).await;
    sh(&hand, "head -c 24M /dev/urandom > large; echo x > file").await;
    let pack = taken(&node.driver, first.incarnation).await;
    sh(&hand, "rm large; for i in $(seq 600); do : > f$i; done").await;
    let many = taken(&node.driver, first.incarnation).await;
    let next = recipe();
    let small = bounded(16, 500);
    for (pack, what) in [(&pack, "24 MiB"), (&many, "600 files")] {
        let restored = node.driver.restore(next.incarnation, &small, packed(pack));
        let error = restored.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{what}: {error}");
        let words = "its files need more than the 16 MiB and 500 files that a sandbox may have";
        assert_eq!(error.to_string(), words, "{what}");
        assert!(!node.driver.holds(next.incarnation).await.unwrap());
        assert!(!left_over(&node, next.incarnation));
    }
    let larger = bounded(32, 500);
    let restored = node
        .driver
        .restore(next.incarnation, &larger, packed(&pack));
    restored.await.unwrap();
    let recipe = Recipe {
        limits: larger,
        ..next
    };
    let hand = node.provision(&recipe).await;
    assert_eq!(sh(&hand, "cat file; stat -c %s large").await, "x\n25165824");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_before_is_laid_into_a_disk_or_refused() {
    let Some(node) = with_disks().await else {
        return;
    };
    let node = without_disks(node).await;
    let first = recipe();
    let hand = node.provision(&first).await;
    let make = "head -c 24M /dev/urandom > large; echo kept > file; ln -s file link; \
        rm -r /etc/skel ~/.bashrc; true";
    sh(&hand, make).await;
    let look = "md5sum large; cat link; \
        find / -xdev -maxdepth 2 ! -type d 2> /dev/null | sort | md5sum";
    let seen = sh(&hand, look).await;
    drop(hand);
    let node = again(node).await;
    // Refused with what mends it, as often as it is asked for; nothing is lost.
    let small = after(first.incarnation, bounded(16, 500));
    for _ in 0..2 {
        let words = refused(node.driver.provision(&small).await);
        assert!(
            words.contains("need more than the 16 MiB and 500 files")
                && words.contains("`hands.disk_mib`"),
            "{words}"
        );
        assert!(node.driver.holds(small.incarnation).await.unwrap());
        assert!(!left_over(&node, small.incarnation));
    }
    let larger = Recipe {
        limits: bounded(48, 500),
        ..small
    };
    let hand = node.provision(&larger).await;
    assert_eq!(sh(&hand, look).await, seen);
    sh(&hand, "rm large").await;
    holds(&hand, 48).await;
    let tree = folder(&node, larger.incarnation).join("tree");
    assert!(tree.join("disk.img").exists() && !tree.join("upper").exists());
    assert!(!left_over(&node, larger.incarnation));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_keeps_its_bounds_where_none_are_made_and_takes_new_ones_where_they_are() {
    let Some(node) = with_disks().await else {
        return;
    };
    let first = Recipe {
        limits: bounded(16, 500),
        ..recipe()
    };
    let hand = node.provision(&first).await;
    sh(&hand, "echo kept > file").await;
    drop(hand);
    let node = without_disks(node).await;
    let second = Recipe {
        predecessor: Some(first.incarnation),
        limits: bounded(64, 500),
        ..recipe()
    };
    let hand = node.provision(&second).await;
    assert_eq!(sh(&hand, "cat file").await, "kept");
    holds(&hand, 16).await;
    drop(hand);
    let node = again(node).await;
    let third = after(second.incarnation, bounded(32, 800));
    let hand = node.provision(&third).await;
    assert_eq!(sh(&hand, "cat file").await, "kept");
    holds(&hand, 32).await;
    // Smaller, with room enough.
    let fourth = after(third.incarnation, bounded(24, 400));
    let hand = node.provision(&fourth).await;
    assert_eq!(sh(&hand, "cat file").await, "kept");
    holds(&hand, 24).await;
    for incarnation in node.driver.list().await {
        node.driver.reap(incarnation, Keep::Nothing).await.unwrap();
    }
    let names = fs::read_dir(node.hands()).unwrap().count();
    assert_eq!(names, 1, "what all share");
}

/// What a host leaves that is killed while it lays a layer.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_half_laid_goes_at_the_next_start() {
    let node = Node::new().await;
    let first = recipe();
    let hand = node.provision(&first).await;
    sh(&hand, "echo kept > file").await;
    drop(hand);
    let node = again(node).await;
    let (whole, none) = (
        folder(&node, first.incarnation),
        folder(&node, incarnation()),
    );
    for folder in [&whole, &none] {
        fs::create_dir_all(folder.join("restoring/upper/workspace")).unwrap();
        fs::write(folder.join("restoring/upper/workspace/half"), "x").unwrap();
        fs::write(folder.join("restoring/disk.img"), vec![0; 8192]).unwrap();
    }
    // One that another host is at.
    let busy = folder(&node, incarnation()).join("restoring");
    fs::create_dir_all(&busy).unwrap();
    let held = fs::File::open(&busy).unwrap();
    held.lock().unwrap();
    let node = again(node).await;
    assert!(!whole.join("restoring").exists() && !none.join("restoring").exists());
    assert!(busy.exists());
    drop(held);
    let node = again(node).await;
    assert!(!busy.exists());
    let next = Recipe {
        predecessor: Some(first.incarnation),
        ..recipe()
    };
    let hand = node.provision(&next).await;
    assert_eq!(text(&bash(&hand, "cat file").await), "kept");
}
