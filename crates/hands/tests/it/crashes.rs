//! A program that crashes inside is nobody's business outside: no helper of the host runs for it.

use std::{fs, path::Path, process::Command, sync::Arc};

use outlast_hands::Hand;

use crate::{
    escapes::python,
    support::{Node, bash, sh, until},
};

/// Set where the test may change how the whole machine handles crashes.
const ALLOWED: &str = "OUTLAST_TEST_CORE_PATTERN";

const PATTERN: &str = "/proc/sys/kernel/core_pattern";

/// Changes the bound of dumps in every way, then crashes.
const CRASHES: &str = r"
import resource
core = resource.RLIMIT_CORE
for bound in ((0, 0), (0, 1), (1, 1)):
    resource.setrlimit(core, bound)
both = (ctypes.c_ulong * 2)(0, 0); old = (ctypes.c_ulong * 2)()
for new, back in ((both, None), (both, old)):
    got = libc.prlimit(0, core, new, back)
    print(got, errno.errorcode.get(ctypes.get_errno()) if got else '-')
print(resource.getrlimit(core), flush=True)
os.kill(os.getpid(), 11)";

/// Tries it in a hand; the bound of dumps stays, and programs that lower it are content.
pub(crate) async fn the_bound_of_dumps_stays(hand: &Arc<dyn Hand>) {
    let told = sh(hand, &format!("({}\n) || true", python(CRASHES))).await;
    assert!(told.contains("0 -\n-1 EPERM\n(1, 1)"), "{told}");
    sh(
        hand,
        "ulimit -c 0; (ulimit -S -c 0; kill -SEGV $BASHPID) || true",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_helper_of_the_host_runs_for_a_crash() {
    let node = Node::new().await;
    let hand = node.hand().await;
    the_bound_of_dumps_stays(&hand).await;
    if std::env::var_os(ALLOWED).is_none() {
        return;
    }
    let marks = tempfile::tempdir().unwrap();
    fs::write(
        PATTERN,
        format!("|/usr/bin/touch {}/%i", marks.path().display()),
    )
    .unwrap();
    // It works: what crashes outside leaves a mark.
    let crash = |line: &str| Command::new("bash").args(["-c", line]).status().unwrap();
    crash("ulimit -c 0; kill -SEGV $$");
    let marks = || names(marks.path());
    until("the helper runs", || marks().len() == 1).await;
    for _ in 0..3 {
        the_bound_of_dumps_stays(&hand).await;
        drop(bash(&hand, "kill -ABRT $$").await);
        drop(crate::support::call(&hand, "bash", serde_json::json!({"restart": true})).await);
    }
    // And once more outside, so that nothing is still on its way.
    crash("kill -SEGV $$");
    until("the helper runs again", || marks().len() > 1).await;
    let seen = marks();
    fs::write(PATTERN, "core").unwrap();
    assert_eq!(seen.len(), 2, "{seen:?}");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
