//! A host that denies what confines: no sandbox then, and never one with less.
//!
//! The denial is a system call filter of the test's own around the process that has the driver.

use std::{
    collections::BTreeMap, fs, os::unix::process::CommandExt as _, path::Path, process::Command,
};

use outlast_hands::{
    Provisioner as _,
    namespace::{State, survey},
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};

use crate::{
    alone,
    support::{open, recipe},
};

/// Says what to deny to the inner half: a number, and for some the argument and its value.
const DENIED: &str = "OUTLAST_TEST_DENIED";

/// A system call, for some an argument of it and its value, and the step that must say so.
type Denial = (libc::c_long, Option<(u8, u64)>, &'static str);

/// What is denied, in turn.
const DENIALS: &[Denial] = &[
    (libc::SYS_unshare, None, "make a user namespace"),
    (
        libc::SYS_clone,
        Some((0, 0x2000_0000)),
        "make the other namespaces",
    ),
    (libc::SYS_mount, None, "mount"),
    (libc::SYS_pivot_root, None, "make the tree the root"),
    (libc::SYS_umount2, None, "let go of the host's tree"),
    (libc::SYS_mount_setattr, None, "read-only"),
    (libc::SYS_sethostname, None, "set the host name"),
    (libc::SYS_setresuid, None, "take the user of PID 1"),
    (libc::SYS_setgroups, None, "leave the host's groups"),
    (libc::SYS_capset, None, "drop capabilities"),
    // PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP and PR_SET_SECCOMP.
    (libc::SYS_prctl, Some((0, 38)), "set no_new_privs"),
    (libc::SYS_seccomp, None, "install the system call filter"),
    (libc::SYS_close_range, None, "close descriptors"),
    (libc::SYS_execveat, None, "execute the program"),
];

/// Denies a system call to every thread of this process and all that it starts, for good.
fn deny(number: libc::c_long, argument: Option<(u8, u64)>) {
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let rules = argument.map(|(index, bits)| {
        // Flags are looked for among others; other arguments are the value.
        let operator = if number == libc::SYS_clone {
            SeccompCmpOp::MaskedEq(bits)
        } else {
            SeccompCmpOp::Eq
        };
        let condition = SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, bits);
        SeccompRule::new(vec![condition.unwrap()]).unwrap()
    });
    let rules = BTreeMap::from([(number, rules.into_iter().collect())]);
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    apply_filter_all_threads(&filter).unwrap();
}

/// Returns the processes that this one started and that are still there.
fn children() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let text: String = lists.collect();
    text.split_whitespace().map(str::to_owned).collect()
}

/// The process that has the driver.
async fn inner(folder: &Path) {
    let index: usize = std::env::var(DENIED).unwrap().parse().unwrap();
    let (number, argument, step) = DENIALS[index];
    deny(number, argument);
    let driver = open(folder.join("hands")).await;
    let refusal = driver.verdict().refusal.clone();
    let refusal = refusal.unwrap_or_else(|| panic!("{step} is not needed: {}", driver.verdict()));
    assert!(refusal.contains(step), "{step}: {refusal}");
    assert!(refusal.contains("not permitted"), "{step}: {refusal}");
    println!("{refusal}");
    let recipe = recipe();
    for _ in 0..2 {
        let error = driver.provision(&recipe).await.unwrap_err().to_string();
        assert!(error.contains(step), "{step}: {error}");
        assert!(driver.find(recipe.incarnation).await.is_none());
    }
    // Nothing runs, confined or not, and nothing has lived.
    assert_eq!(children(), [""; 0], "{step}");
    let folder = folder.join("hands").join(recipe.incarnation.to_string());
    assert!(!folder.join("journal").exists(), "{step}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_denied_is_named_and_nothing_runs_with_less() {
    let name = "denied::what_is_denied_is_named_and_nothing_runs_with_less";
    if let Some(folder) = alone::inner(name) {
        return inner(&folder).await;
    }
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for index in 0..DENIALS.len() {
        let room = folder.path().join(index.to_string());
        fs::create_dir(&room).unwrap();
        let mut command = alone::here(name, &room);
        command.env(DENIED, index.to_string());
        alone::pass(command);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn user_namespaces_that_a_filter_denies_are_told_as_such() {
    let name = "denied::user_namespaces_that_a_filter_denies_are_told_as_such";
    if let Some(folder) = alone::inner(name) {
        deny(libc::SYS_unshare, None);
        let driver = open(folder.join("hands")).await;
        let refusal = driver.verdict().refusal.clone().unwrap();
        let error = driver.provision(&recipe()).await.unwrap_err().to_string();
        let words = "make a user namespace: Operation not permitted (os error 1); a system call filter around \
                     the server refuses it: ";
        for text in [refusal, error] {
            assert!(text.contains(words), "{text}");
        }
        let survey = survey(&folder).await.unwrap();
        let users = &survey.findings[0];
        assert_eq!(users.state, State::Missing, "{survey}");
        let mend = users.mend.clone().unwrap();
        assert!(mend.contains("seccomp=unconfined"), "{survey}");
        assert!(survey.left().starts_with("none: "), "{survey}");
        assert_eq!(children(), [""; 0]);
        return;
    }
    // As root, and as somebody else.
    for user in [None, Some(alone::NOBODY)] {
        let folder = tempfile::tempdir().unwrap();
        let mut command: Command = alone::again(name, folder.path());
        if let Some(user) = user.filter(|_| rustix::process::geteuid().is_root()) {
            command.uid(user).gid(user);
        }
        alone::pass(command);
    }
}
