//! Packages that a hand has: installed once, shown to all who want them, and what goes wrong.
//!
//! By the managers of this machine, from mirrors that are made here.

mod debian;
mod managers;
mod online;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use outlast_hands::{
    Hand, Keep, Limits, ProvisionError, Provisioner as _, Recipe,
    namespace::{Namespaces, Options},
    packages::{Mirrors, Rest, Wanted},
};
use outlast_protocol::environment::Packages;

use crate::support::{Node, bash, failed, open, recipe, sh, until};

/// The longest installation.
const GENEROUS: Duration = Duration::from_secs(600);

/// Writes wheels: `greet`, which needs `base-greet` and brings a program.
const WHEELS: &str = r#"
import sys, zipfile
def wheel(name, version, files, needs=(), scripts=""):
    info = f"{name}-{version}.dist-info/"
    with zipfile.ZipFile(f"{sys.argv[1]}/{name}-{version}-py3-none-any.whl", "w") as out:
        for path, text in files.items():
            out.writestr(path, text)
        needs = "".join(f"Requires-Dist: {need}\n" for need in needs)
        out.writestr(info + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        out.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        if scripts:
            out.writestr(info + "entry_points.txt", f"[console_scripts]\n{scripts}\n")
        out.writestr(info + "RECORD", "")
wheel("base_greet", "1.0", {"base_greet.py": "WORD = 'hello'\n"})
for version in ["1.0", "2.0"]:
    wheel("greet", version, {"greet.py": f"import base_greet\ndef main(): print(base_greet.WORD, '{version}')\n"},
          ["base-greet>=1"], "greet = greet:main")
"#;

/// Writes a source distribution that never gets built.
const STUCK: &str = r#"
import io, sys, tarfile
def add(out, path, text):
    info = tarfile.TarInfo(path); info.size = len(text)
    out.addfile(info, io.BytesIO(text.encode()))
with tarfile.open(f"{sys.argv[1]}/{sys.argv[2]}-1.0.tar.gz", "w:gz") as out:
    add(out, f"{sys.argv[2]}-1.0/PKG-INFO", f"Metadata-Version: 2.1\nName: {sys.argv[2]}\nVersion: 1.0\n")
    add(out, f"{sys.argv[2]}-1.0/pyproject.toml", "[build-system]\nrequires = []\nbuild-backend = 'odd'\nbackend-path = ['.']\n")
    add(out, f"{sys.argv[2]}-1.0/odd.py", sys.argv[3])
"#;

fn python(program: &str, arguments: &[&str]) {
    let python = "/usr/bin/python3";
    let done = Command::new(python)
        .args(["-c", program])
        .args(arguments)
        .status();
    assert!(done.unwrap().success());
}

/// A mirror of Python packages.
fn wheels(node: &Node) -> PathBuf {
    let dir = node.dir.path().join("mirror");
    fs::create_dir_all(&dir).unwrap();
    python(WHEELS, &[dir.to_str().unwrap()]);
    dir
}

fn wanted(mirror: &Path, pip: &[&str]) -> Wanted {
    Wanted {
        packages: Packages {
            pip: pip.iter().map(|item| (*item).to_owned()).collect(),
            ..Packages::default()
        },
        mirrors: Mirrors {
            pip: Some(mirror.to_owned()),
            ..Mirrors::default()
        },
        rest: Rest::Refused,
        limit: GENEROUS,
    }
}

fn with(wanted: Wanted) -> Recipe {
    Recipe {
        packages: Some(wanted),
        ..recipe()
    }
}

/// What stands in the folder of layers.
fn layers(node: &Node) -> Vec<String> {
    let entries = fs::read_dir(node.dir.path().join("layers"));
    let names = entries.into_iter().flatten();
    names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// When the one layer was made.
fn made(node: &Node) -> std::time::SystemTime {
    let [layer] = &layers(node)[..] else {
        panic!("{:?}", layers(node))
    };
    let tree = node.dir.path().join("layers").join(layer).join("tree");
    fs::metadata(tree).unwrap().modified().unwrap()
}

#[track_caller]
fn refused(made: Result<Arc<dyn Hand>, ProvisionError>) -> String {
    match made {
        Err(error @ ProvisionError::Step { .. }) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn packages_are_there_for_the_commands_without_a_setting() {
    let node = Node::new().await;
    let mirror = wheels(&node);
    let first = with(wanted(&mirror, &["greet==1.0"]));
    let hand = node.provision(&first).await;
    assert_eq!(
        sh(&hand, "python3 -c 'import greet; greet.main()'").await,
        "hello 1.0"
    );
    assert_eq!(sh(&hand, "greet; pwd").await, "hello 1.0\n/workspace");
    failed(&bash(&hand, "ls /.packages").await);
    // What is shared is not what is written to.
    sh(&hand, "rm ~/.local/bin/greet; echo 'WORD = 1' > $(python3 -c 'import base_greet as b; print(b.__file__)')").await;
    let when = made(&node);
    let other = node
        .provision(&with(wanted(&mirror, &["greet==1.0"])))
        .await;
    assert_eq!(sh(&other, "greet").await, "hello 1.0");
    assert_eq!(made(&node), when, "it was installed once");
    failed(&bash(&hand, "greet").await);
    // Another list is another layer, over the same workspace.
    sh(&other, "echo mine > file").await;
    let next = Recipe {
        predecessor: Some(other.incarnation()),
        ..with(wanted(&mirror, &["greet==2.0"]))
    };
    let next = node.provision(&next).await;
    assert_eq!(sh(&next, "cat file; greet").await, "mine\nhello 2.0");
    assert_eq!(layers(&node).len(), 2);
    let plain = node.hand().await;
    failed(&bash(&plain, "greet").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_want_the_same_wait_for_one_installation() {
    let node = Node::new().await;
    let mirror = wheels(&node);
    let recipes: Vec<_> = (0..6).map(|_| with(wanted(&mirror, &["greet"]))).collect();
    let hands = recipes.iter().map(|recipe| node.driver.provision(recipe));
    let hands = futures::future::join_all(hands).await;
    for hand in hands {
        assert_eq!(sh(&hand.unwrap(), "greet").await, "hello 2.0");
    }
    made(&node);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_is_used_again_by_the_next_driver_and_no_checkpoint_has_it() {
    let mut node = Node::new().await;
    let mirror = wheels(&node);
    let recipe = with(wanted(&mirror, &["greet"]));
    let hand = node.provision(&recipe).await;
    sh(&hand, "greet > file").await;
    let when = made(&node);
    let packed = node.driver.checkpoint(recipe.incarnation).await.unwrap();
    assert!(packed.sum.entries < 20, "{:?}", packed.sum);
    drop(hand);
    node.driver.shutdown().await;
    node.driver = open(node.hands()).await;
    let next = Recipe {
        predecessor: Some(recipe.incarnation),
        ..with(wanted(&mirror, &["greet"]))
    };
    let hand = node.provision(&next).await;
    assert_eq!(sh(&hand, "cat file; greet").await, "hello 2.0\nhello 2.0");
    assert_eq!(made(&node), when);
    // A machine that has nothing: the checkpoint brings the files, the mirror the packages.
    let far = Node::new().await;
    let there = with(wanted(&mirror, &["greet"]));
    far.driver
        .restore(there.incarnation, &there.limits, packed)
        .await
        .unwrap();
    let hand = far.provision(&there).await;
    assert_eq!(sh(&hand, "cat file; greet").await, "hello 2.0\nhello 2.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_says_why_leaves_nothing_and_can_be_tried_again() {
    let node = Node::new().await;
    let mirror = wheels(&node);
    let dir = mirror.to_str().unwrap();
    let odd = with(wanted(&mirror, &["nowhere"]));
    let words = refused(node.driver.provision(&odd).await);
    assert!(words.contains("install the pip packages"), "{words}");
    assert!(
        words.contains("No matching distribution found for nowhere"),
        "{words}"
    );
    assert!(layers(&node).is_empty(), "{:?}", layers(&node));
    // The same life is begun by the next call.
    python(STUCK, &[dir, "nowhere", "raise SystemExit('no luck')"]);
    let words = refused(node.driver.provision(&odd).await);
    assert!(words.contains("no luck"), "{words}");
    let good = Recipe {
        packages: Some(wanted(&mirror, &["greet"])),
        ..odd
    };
    let hand = node.provision(&good).await;
    sh(&hand, "greet").await;
    // No mirror, and one that is gone.
    let mut unset = wanted(&mirror, &["greet==1.0"]);
    unset.mirrors = Mirrors::default();
    let words = refused(node.driver.provision(&with(unset)).await);
    assert!(
        words.contains("add `pip = \"/path/of/a/folder\"` to `[hands.packages]`"),
        "{words}"
    );
    fs::remove_dir_all(&mirror).unwrap();
    let words = refused(
        node.driver
            .provision(&with(wanted(&mirror, &["greet==1.0"])))
            .await,
    );
    assert!(
        words.contains("is not there; mend the line `pip = "),
        "{words}"
    );
    // What is installed does not need it.
    let hand = node.provision(&with(wanted(&mirror, &["greet"]))).await;
    sh(&hand, "greet").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn installations_have_bounds() {
    let node = Node::new().await;
    let mirror = wheels(&node);
    let dir = mirror.to_str().unwrap();
    python(STUCK, &[dir, "slow", "import time; time.sleep(9999)"]);
    let mut slow = wanted(&mirror, &["slow"]);
    slow.limit = Duration::from_secs(5);
    let words = refused(node.driver.provision(&with(slow)).await);
    assert!(
        words.contains("longer than the 5 s of `hands.packages.install_seconds`"),
        "{words}"
    );
    python(
        STUCK,
        &[
            dir,
            "large",
            "open('/var/tmp/x', 'wb').write(bytes(64 << 20)); import time; time.sleep(9999)",
        ],
    );
    let large = Recipe {
        limits: Limits {
            disk_bytes: 32 << 20,
            ..Limits::default()
        },
        ..with(wanted(&mirror, &["large"]))
    };
    let words = refused(node.driver.provision(&large).await);
    assert!(
        words.contains("more than the 32 MiB of `hands.disk_mib`"),
        "{words}"
    );
    assert!(layers(&node).is_empty(), "{:?}", layers(&node));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_sees_no_network_and_no_host() {
    let node = Node::new().await;
    let mirror = wheels(&node);
    let dir = mirror.to_str().unwrap();
    let look = format!(
        "import os, socket\n\
         seen = [p for p in ['{dir}', '/root/.ssh', '/proc/1/root/etc'] if os.path.exists(p)]\n\
         try: socket.create_connection(('192.0.2.1', 80), 1); seen.append('network')\n\
         except OSError: pass\n\
         try: open('/.packages/mirror/pip/x', 'w'); seen.append('mirror')\n\
         except OSError: pass\n\
         raise SystemExit(f'seen {{seen}} {{sorted(os.environ)}}')\n"
    );
    python(STUCK, &[dir, "curious", &look]);
    let words = refused(
        node.driver
            .provision(&with(wanted(&mirror, &["curious"])))
            .await,
    );
    assert!(words.contains("seen []"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_death_left_goes_and_what_nobody_used_goes() {
    let mut node = Node::new().await;
    let mirror = wheels(&node);
    python(
        STUCK,
        &[
            mirror.to_str().unwrap(),
            "slow",
            "import time; time.sleep(9999)",
        ],
    );
    let recipe = with(wanted(&mirror, &["slow"]));
    let waiting = node.driver.provision(&recipe);
    tokio::select! {
        made = waiting => panic!("{made:?}"),
        () = until("it installs", || !layers(&node).is_empty()) => {}
    }
    // The one who asked is gone, the installation is not; it ends with the driver.
    node.driver.shutdown().await;
    assert!(layers(&node).is_empty(), "{:?}", layers(&node));
    let left = node.dir.path().join("layers/.part-packages-x-1/box/upper");
    fs::create_dir_all(&left).unwrap();
    let layers_at = node.dir.path().join("layers");
    node.driver = open(node.hands()).await;
    until("it is swept", || {
        fs::read_dir(&layers_at).unwrap().next().is_none()
    })
    .await;
    let used = with(wanted(&mirror, &["greet==1.0"]));
    node.provision(&used).await;
    let unused = with(wanted(&mirror, &["greet==2.0"]));
    node.provision(&unused).await;
    node.driver
        .reap(unused.incarnation, Keep::Nothing)
        .await
        .unwrap();
    assert_eq!(layers(&node).len(), 2);
    let second = Namespaces::new(Options {
        layer_unused: Duration::ZERO,
        ..Options::at(node.hands())
    });
    let second = second.await.unwrap();
    until("one is gone", || {
        fs::read_dir(&layers_at).unwrap().count() == 1
    })
    .await;
    second.shutdown().await;
}
