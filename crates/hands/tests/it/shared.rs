//! Where no control group bounds memory and no disk of its own what is written: what no folder shows.

use std::{sync::Arc, time::Duration};

use outlast_hands::Provisioner as _;
use outlast_hands::{
    Hand, Limits, Recipe,
    namespace::{Disks, Namespaces, Options},
};
use outlast_protocol::Outcome;

use crate::{
    escapes::python,
    support::{bash, call, failed, fine, recipe, sh, text},
};

/// Says which bound struck, of the hands here.
const MEMORY: &str = "memory limit of 128 MiB was reached: 1 process was killed";

/// Ways to have memory that is no process's own, each some 300 MB.
const WAYS: [&str; 3] = [
    // A file without a folder, not mapped.
    "f = os.memfd_create('x')
for _ in range(300): os.write(f, bytes(1 << 20))",
    // Shared with children to come, and open nowhere.
    "import mmap
m = mmap.mmap(-1, 300 << 20)
for at in range(0, 300 << 20, 4096): m[at] = 1",
    // A file that is mapped and closed.
    "import mmap
f = os.memfd_create('x'); os.ftruncate(f, 300 << 20)
m = mmap.mmap(f, 300 << 20); os.close(f)
for at in range(0, 300 << 20, 4096): m[at] = 1",
];

/// Whoever holds too much of it is ended and told; the hand goes on.
pub(crate) async fn memory_that_no_folder_shows_is_bounded(hand: &Arc<dyn Hand>) {
    for way in WAYS {
        let held = format!("{way}\nimport time; time.sleep(30)");
        let result = bash(hand, &python(&held)).await;
        let words = failed(&result);
        assert!(words.contains(MEMORY), "{way}: {words}");
        assert_eq!(result.outcome, Outcome::Limit);
        assert_eq!(sh(hand, "echo alive").await, "alive");
    }
    // Many that share one piece have it once.
    let one = "f = os.memfd_create('x')
for _ in range(60): os.write(f, bytes(1 << 20))
made = [os.fork() for _ in range(3)]
import time; time.sleep(2)
if made[-1] and made[0] and made[1]: print('alive')";
    assert_eq!(sh(hand, &python(one)).await, "alive");
    // Between two calls it is the next that is told.
    let left = format!("{}\nimport time; time.sleep(30)", WAYS[0]);
    let left = format!("({}\n) > /dev/null 2>&1 &", python(&left));
    assert_eq!(sh(hand, &left).await, "(no output)");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let said = text(&bash(hand, "true").await);
    assert!(
        said.contains("[before this call, ") && said.contains("memory limit"),
        "{said}"
    );
    // Segments have a bound of their own, where the kernel lets it be set.
    let segment = "SIZE = 300 << 20
id = libc.shmget(0, ctypes.c_size_t(SIZE), 0o1600)
print('refused' if id < 0 else open('/proc/sys/kernel/shmall').read())";
    let said = sh(hand, &python(segment)).await;
    assert!(said == "refused" || said.len() > 12, "{said}");
}

/// A file that is deleted and held open is measured like any other.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_file_counts_as_long_as_it_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        disks: Disks::Never,
        ..Options::at(dir.path().join("hands"))
    };
    let driver = Namespaces::new(options).await.unwrap();
    let limits = Limits {
        disk_bytes: 8 << 20,
        ..Limits::default()
    };
    let hand = driver
        .provision(&Recipe { limits, ..recipe() })
        .await
        .unwrap();
    deleted_files_count(&hand).await;
    driver.shutdown().await;
}

pub(crate) async fn deleted_files_count(hand: &Arc<dyn Hand>) {
    let code = "
import time
f = open('/workspace/gone', 'wb'); os.unlink('/workspace/gone')
for _ in range(60): f.write(bytes(1 << 20)); f.flush(); time.sleep(0.2)";
    let result = bash(hand, &python(code)).await;
    let words = failed(&result);
    assert!(words.contains("disk limit of 8 MiB was passed"), "{words}");
    assert_eq!(result.outcome, Outcome::Limit);
    fine(&call(hand, "bash", serde_json::json!({"restart": true})).await);
    // It is gone with who had it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let small = "head -c 1m /dev/zero > small; sleep 1; echo fine";
    assert_eq!(sh(hand, small).await, "fine");
}
