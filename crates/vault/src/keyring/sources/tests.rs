//! Files, commands and settings, and how each of them fails.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    time::Duration,
};

use super::*;
use crate::keyring::conformance;

#[derive(Debug)]
struct Fixed(u8);

impl Entropy for Fixed {
    fn fill(&self, buffer: &mut [u8]) {
        static NEXT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);
        let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        buffer.fill(self.0.wrapping_add(next));
    }
}

const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHER: &str = "100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

async fn open(source: Source) -> Arc<dyn Keyring> {
    Arc::new(Sources::open(source, Arc::new(Fixed(1))).await)
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn every_source_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let (file, own) = (dir.path().join("kept"), dir.path().join("master.key"));
    write(&file, HEX, 0o400);
    let sources = [
        Source::Set(format!("{HEX} {OTHER}").as_str().into()),
        Source::File(file),
        Source::Own(own),
        Source::Command(format!("echo {HEX}; echo {OTHER}")),
    ];
    for source in sources {
        conformance::run(|| open(source.clone())).await;
    }
}

#[tokio::test]
async fn a_file_of_our_own_is_made_once_and_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("master.key");
    let ring = open(Source::Own(path.clone())).await;
    let error = ring.names().unwrap_err().to_string();
    assert!(
        error.contains("OUTLAST_MASTER_KEY") && !path.exists(),
        "{error}"
    );
    ring.found().await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let text = fs::read_to_string(&path).unwrap();
    open(Source::Own(path.clone())).await.found().await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_file_that_others_can_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("master.key");
    for mode in [0o644, 0o640, 0o604, 0o622] {
        write(&path, HEX, mode);
        for source in [Source::Own(path.clone()), Source::File(path.clone())] {
            let ring = open(source).await;
            ring.found().await.unwrap_err();
            let error = ring.names().unwrap_err().to_string();
            assert!(
                error.contains("chmod 600") && !error.contains("0a0b"),
                "{error}"
            );
        }
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let ring = open(Source::File(path)).await;
    assert_eq!(ring.names().unwrap().len(), 1);
}

#[tokio::test]
async fn an_operators_file_is_never_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kept");
    let ring = open(Source::File(path.clone())).await;
    let error = ring.found().await.unwrap_err().to_string();
    assert!(error.contains("is not there") && !path.exists(), "{error}");
}

#[tokio::test]
async fn what_a_file_gives_later_is_learned_and_what_was_known_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kept");
    let ring = open(Source::File(path.clone())).await;
    write(&path, HEX, 0o600);
    ring.renew().await.unwrap();
    let first = ring.names().unwrap();
    write(&path, &format!("{OTHER}\n{HEX}\n"), 0o600);
    ring.renew().await.unwrap();
    assert_eq!(ring.names().unwrap()[1..], first);
    let both = ring.names().unwrap();
    fs::remove_file(&path).unwrap();
    ring.renew().await.unwrap_err();
    assert_eq!(ring.names().unwrap(), both);
}

#[tokio::test]
async fn a_command_that_fails_is_told_without_what_it_said() {
    for (line, words) in [
        ("echo hunter2; echo hunter3 >&2; exit 3", "exit status: 3"),
        ("echo hunter2", "holds no master key at place 1 of 1"),
        ("true", "holds no master key"),
        ("/not/there", "127"),
        ("printf '\\377'", "printed no text"),
        ("yes hunter2 | head -c 100000", "printed too much"),
    ] {
        let ring = open(Source::Command(line.to_owned())).await;
        let error = ring.names().unwrap_err().to_string();
        assert!(error.contains(words), "{line}: {error}");
        assert!(!error.contains("hunter"), "{error}");
    }
}

#[tokio::test]
async fn a_command_that_hangs_is_ended_with_all_that_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let line = format!("sleep 600 & echo $! > {}; wait", pid.display());
    let error = command::run(&line, Duration::from_millis(500))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("took longer"), "{error}");
    let pid = fs::read_to_string(pid).unwrap();
    let ended = async {
        // A dead process may lie there until its parent looks.
        let stat = || fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        while stat().is_ok_and(|stat| !stat.contains(") Z ")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), ended)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_command_is_given_no_secret_of_ours() {
    // The variables of a test's process are others' too, so the ones that it has are looked at.
    let line = "env | grep -c -E '^(OUTLAST|ANTHROPIC)_' | sed 's/^/seen: /'";
    let text = command::run(line, Duration::from_secs(20)).await.unwrap();
    assert_eq!(text.trim(), "seen: 0");
}
