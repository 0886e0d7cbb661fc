//! Tests that need a process of their own: another user, another environment. The test starts this
//! test binary again for its inner half.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use outlast_hands::{
    Keep, Limits, Provisioner as _, Recipe, Requirement,
    namespace::{Cgroups, Layering, Mode, State, survey},
};
use serde_json::json;

use crate::outlets::of_the_life_alone;
use crate::support::{bash, call, failed, fine, open, recipe, sh, text};

/// Names the inner half, and the folder it may use.
const INNER: &str = "OUTLAST_TEST_INNER";

/// An ordinary user that no system has.
pub(crate) const NOBODY: u32 = 47_011;

/// The inner half's folder, if this is the inner half.
pub(crate) fn inner(name: &str) -> Option<PathBuf> {
    let value = std::env::var(INNER).ok()?;
    let (inner, folder) = value.split_once(' ')?;
    (inner == name).then(|| folder.into())
}

/// Prepares this binary to be started again as the test `name` in a folder that anybody may use.
pub(crate) fn again(name: &str, folder: &Path) -> Command {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    // The target folder may be closed to other users.
    let copy = folder.join("it");
    fs::copy("/proc/self/exe", &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    started(Command::new(copy), name, folder)
}

/// The same for this user, without a copy.
pub(crate) fn here(name: &str, folder: &Path) -> Command {
    started(Command::new("/proc/self/exe"), name, folder)
}

fn started(mut command: Command, name: &str, folder: &Path) -> Command {
    command
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env(INNER, format!("{name} {}", folder.display()))
        .env("TMPDIR", folder)
        .current_dir(folder);
    command
}

/// Runs the inner half, which must pass.
pub(crate) fn pass(mut command: Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    println!("{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rootless() {
    if let Some(folder) = inner("alone::rootless") {
        return rootless_inner(&folder).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = again("alone::rootless", folder.path());
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    pass(command);
}

/// Whether the host lets an ordinary user make namespaces, asked without our own code.
fn host_can() -> bool {
    Command::new("unshare")
        .args(["-Urpfmn", "--mount-proc", "true"])
        .status()
        .is_ok_and(|s| s.success())
}
/// What this user writes into its own system stays in its layer.
async fn a_changed_system_is_ones_own(
    driver: &outlast_hands::namespace::Namespaces,
    hand: &std::sync::Arc<dyn outlast_hands::Hand>,
) {
    sh(hand, "echo 10.0.0.1 elsewhere >> /etc/hosts").await;
    let other = driver.provision(&crate::support::recipe()).await.unwrap();
    let seen = "grep -c elsewhere /etc/hosts || true";
    assert_eq!(sh(&other, seen).await, "0");
    assert_eq!(sh(hand, seen).await, "1");
    driver
        .reap(other.incarnation(), Keep::Nothing)
        .await
        .unwrap();
}

async fn rootless_inner(folder: &Path) {
    let driver = open(folder.join("hands")).await;
    println!("{}", driver.verdict());
    let survey = survey(folder).await.unwrap();
    println!("{survey}");
    let uid = rustix::process::getuid().as_raw();
    assert!(survey.user.ends_with(&format!("(uid {uid})")), "{survey}");
    assert_eq!(&survey.verdict, driver.verdict());
    let left: Vec<_> = fs::read_dir(folder).unwrap().flatten().collect();
    assert!(
        !left
            .iter()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("check-")),
        "{left:?}"
    );
    disk_is_measured(&driver).await;
    let recipe = Recipe {
        limits: Limits {
            pids: 100,
            ..Limits::default()
        },
        ..recipe()
    };
    if !host_can() {
        let error = driver.provision(&recipe).await.unwrap_err().to_string();
        assert!(
            error.contains("namespace") || error.contains("/proc"),
            "{error}"
        );
        return;
    }
    assert_eq!(
        (driver.verdict().mode, &driver.verdict().refusal),
        (Mode::Rootless, &None)
    );
    of_the_life_alone(&driver).await;
    let hand = driver.provision(&recipe).await.unwrap();
    assert_eq!(
        sh(&hand, "pwd; id -u; id -un; whoami").await,
        "/workspace\n1000\nagent\nagent"
    );
    fine(&call(&hand, "write", json!({"file_path": "a/b", "content": "x"})).await);
    assert_eq!(sh(&hand, "cat a/b; stat -c %U a/b").await, "xagent");
    let status = sh(&hand, "grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status").await;
    assert!(status.contains("CapEff:\t0000000000000000") && status.contains("NoNewPrivs:\t1"));
    assert!(status.contains("CapBnd:\t0000000000000000"), "{status}");
    for command in [
        "cat /proc/1/environ",
        "cat /proc/1/mem",
        "unshare -Ur id",
        "touch /usr/x",
        "readlink /proc/1/exe",
        "mount -t tmpfs x /mnt",
    ] {
        assert!(bash(&hand, command).await.is_error, "{command}");
    }
    sh(
        &hand,
        "kill -9 1; kill 1; mkdir locked; touch locked/x; chmod 0 locked; true",
    )
    .await;
    crate::escapes::no_call_leads_out(&hand).await;
    crate::hostile::no_way_out(&hand).await;
    crate::kinds::all_are_refused(&hand, folder).await;
    crate::crashes::the_bound_of_dumps_stays(&hand).await;
    crate::abuse::all_is_ones_own_trouble(&hand).await;
    a_changed_system_is_ones_own(&driver, &hand).await;
    limits_without_groups(&driver, &hand).await;
    let next = Recipe {
        predecessor: Some(recipe.incarnation),
        ..crate::support::recipe()
    };
    let hand = driver.provision(&next).await.unwrap();
    assert_eq!(sh(&hand, "cat a/b").await, "x");
    for incarnation in [recipe.incarnation, next.incarnation] {
        driver.reap(incarnation, Keep::Nothing).await.unwrap();
    }
    assert!(driver.list().await.is_empty());
}

/// An ordinary user's sandbox has no disk of its own.
async fn disk_is_measured(driver: &outlast_hands::namespace::Namespaces) {
    if driver.verdict().refusal.is_some() {
        return;
    }
    let lacking = Recipe {
        require: vec![Requirement::Disk],
        ..recipe()
    };
    let refused = driver.provision(&lacking).await.unwrap_err().to_string();
    assert!(
        refused.contains("isolate it as `hands.require` demands (disk): a sandbox cannot have a disk of its own (only root can mount an image); `outlast check`"),
        "{refused}"
    );
    let limits = Limits {
        disk_bytes: 8 << 20,
        ..Limits::default()
    };
    let recipe = Recipe { limits, ..recipe() };
    let hand = driver.provision(&recipe).await.unwrap();
    crate::disks::what_is_measured_is_stopped(&hand).await;
    crate::measured::bounds_are_held_and_told(driver).await;
    driver
        .reap(recipe.incarnation, Keep::Nothing)
        .await
        .unwrap();
}

/// Without control groups PID 1 itself keeps the limits.
async fn limits_without_groups(
    driver: &outlast_hands::namespace::Namespaces,
    hand: &std::sync::Arc<dyn outlast_hands::Hand>,
) {
    if !matches!(driver.verdict().cgroups, Cgroups::None { .. }) {
        return;
    }
    drop(bash(hand, "f() { f | f & }; f; sleep 1; true").await);
    fine(&call(hand, "read", json!({"file_path": "a/b"})).await);
    fine(&call(hand, "bash", json!({"restart": true})).await);
    assert_eq!(sh(hand, "echo alive").await, "alive");
    let limits = crate::crowds::limits();
    let crowded = driver
        .provision(&Recipe { limits, ..recipe() })
        .await
        .unwrap();
    crate::crowds::whoever_meets_the_bound_is_told(&crowded).await;
    driver
        .reap(crowded.incarnation(), Keep::Nothing)
        .await
        .unwrap();
    let limits = Limits {
        memory_bytes: 128 << 20,
        ..Limits::default()
    };
    let hand = driver
        .provision(&Recipe { limits, ..recipe() })
        .await
        .unwrap();
    // One large process, and many that are large together.
    let one = bash(&hand, "head -c 400m /dev/zero | tail -c 300m | wc -c").await;
    assert!(!text(&one).contains("314572800"), "{one:?}");
    let many = "for i in $(seq 8); do (x=$(head -c 24m /dev/zero | tr '\\0' x); sleep 5) & done; wait; false";
    let many = bash(&hand, many).await;
    assert!(
        failed(&many).contains("memory limit of 128 MiB was reached: "),
        "{many:?}"
    );
    crate::shared::memory_that_no_folder_shows_is_bounded(&hand).await;
    driver
        .reap(hand.incarnation(), Keep::Nothing)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_the_server_is_nowhere_inside() {
    if let Some(folder) = inner("alone::a_secret_of_the_server_is_nowhere_inside") {
        return canary_inner(&folder).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = again(
        "alone::a_secret_of_the_server_is_nowhere_inside",
        folder.path(),
    );
    command.env(
        "CANARY",
        format!("canary-{}", 7_654_321_u64 * u64::from(std::process::id())),
    );
    pass(command);
}

async fn canary_inner(folder: &Path) {
    let canary = std::env::var("CANARY").unwrap();
    let held = vec![canary.clone(); 100];
    // A descriptor that a careless library left open to children.
    let secret = folder.join("secret");
    fs::write(&secret, &canary).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let leaked = fs::File::open(&secret).unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let driver = open(folder.join("hands")).await;
    let hand = driver.provision(&recipe()).await.unwrap();
    // The needle is put together inside, so that the search does not find itself.
    let (head, tail) = canary.split_at(9);
    let search = format!(
        "n='{head}'; n=\"$n\"'{tail}'; hits=0; \
         for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/maps /proc/[0-9]*/mountinfo \
           /proc/[0-9]*/fd/* /proc/[0-9]*/mem /proc/[0-9]*/root/etc/* /proc/[0-9]*/task/*/environ; do \
           case $f in /proc/$$/*|*/self/*) continue;; esac; \
           timeout 1 grep -aqF \"$n\" \"$f\" 2>/dev/null && hits=$((hits+1)) && echo \"$f\"; \
         done; env | grep -c canary; grep -raF \"$n\" /etc /tmp /run /mnt /var /home 2>/dev/null | head -3; \
         ls -l /proc/*/fd 2>/dev/null | grep -c secret; echo hits $hits"
    );
    let result = bash(&hand, &search).await;
    assert_eq!(text(&result), "0\n0\nhits 0", "{result:?}");
    assert!(
        bash(&hand, &format!("cat {}", secret.display()))
            .await
            .is_error
    );
    assert_eq!(held.len(), 100);
    drop(leaked);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_the_death_of_the_server() {
    if let Some(folder) = inner("alone::nothing_survives_the_death_of_the_server") {
        let driver = open(folder.join("hands")).await;
        let hand = driver.provision(&recipe()).await.unwrap();
        sh(
            &hand,
            "setsid sleep 976.5 & (trap '' TERM HUP; sleep 976.5) & echo x > file",
        )
        .await;
        fs::write(folder.join("ready"), "").unwrap();
        tokio::time::sleep(crate::support::GENEROUS).await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = again(
        "alone::nothing_survives_the_death_of_the_server",
        folder.path(),
    )
    .stdout(std::process::Stdio::null())
    .spawn()
    .unwrap();
    let ready = folder.path().join("ready");
    crate::support::until("the inner half has a sandbox", || ready.exists()).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let left = || {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines
            .filter(|line| String::from_utf8_lossy(line).contains("976.5"))
            .count()
    };
    crate::support::until("the sandbox ends", || left() == 0).await;
    // The next server finds the layer, and takes it over.
    let driver = open(folder.path().join("hands")).await;
    let left = driver.list().await;
    assert_eq!(left.len(), 1);
    let next = Recipe {
        predecessor: left.first().copied(),
        ..recipe()
    };
    let hand = driver.provision(&next).await.unwrap();
    assert_eq!(sh(&hand, "cat file").await, "x");
}

/// Starts the inner half behind a shell line that prepares namespaces of its own.
fn prepared(name: &str, folder: &Path, options: &str, line: &str) {
    let inner = again(name, folder);
    let mut command = Command::new("unshare");
    command.args([options, "sh", "-ec", &format!("{line}; exec \"$@\""), "sh"]);
    command
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(folder);
    for (key, value) in inner.get_envs() {
        command.env(key, value.unwrap());
    }
    pass(command);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_user_namespaces_is_told_what_would_help() {
    let name = "alone::a_host_without_user_namespaces_is_told_what_would_help";
    if let Some(folder) = inner(name) {
        let driver = open(folder.join("hands")).await;
        let refusal = driver.verdict().refusal.clone().unwrap();
        let error = driver.provision(&recipe()).await.unwrap_err().to_string();
        for text in [refusal, error] {
            assert!(
                text.contains("make a user namespace: No space left on device"),
                "{text}"
            );
            assert!(
                text.contains("; user namespaces are off for this user: as root, `sysctl -w user.max_user_namespaces=15000"),
                "{text}"
            );
        }
        let survey = survey(&folder).await.unwrap();
        let users = &survey.findings[0];
        assert_eq!(
            (users.part, users.state),
            ("user namespaces", State::Missing),
            "{survey}"
        );
        assert_eq!(
            users.mend.as_deref(),
            Some("sysctl -w user.max_user_namespaces=15000"),
            "{survey}"
        );
        assert!(survey.left().starts_with("none: "), "{survey}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    prepared(
        name,
        folder.path(),
        "-Ur",
        "echo 0 > /proc/sys/user/max_user_namespaces",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_carry_an_overlay_serves_plainly() {
    let name = "alone::a_folder_that_cannot_carry_an_overlay_serves_plainly";
    if let Some(folder) = inner(name) {
        let driver = open(folder.join("merged/hands")).await;
        let verdict = driver.verdict();
        assert_eq!(
            (verdict.layering, &verdict.refusal),
            (Layering::Plain, &None)
        );
        let first = recipe();
        let hand = driver.provision(&first).await.unwrap();
        sh(
            &hand,
            "echo x > file; test -w /workspace; test ! -w /usr; cat /etc/hostname",
        )
        .await;
        assert!(bash(&hand, "touch /usr/x").await.is_error);
        let next = Recipe {
            predecessor: Some(first.incarnation),
            ..recipe()
        };
        let hand = driver.provision(&next).await.unwrap();
        assert_eq!(sh(&hand, "cat file; hostname").await, "x\nsandbox");
        crate::checkpoints::there_and_back(&driver, &hand).await;
        driver.reap(next.incarnation, Keep::Nothing).await.unwrap();
        of_the_life_alone(&driver).await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let overlay = "mkdir lower upper work merged; \
                   mount -t overlay o -o lowerdir=lower,upperdir=upper,workdir=work,userxattr merged";
    prepared(name, folder.path(), "-Urm", overlay);
}
