use tokio::io::AsyncReadExt as _;
use tokio_util::io::StreamReader;

use super::*;

const MIB: usize = 1 << 20;

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

#[tokio::test]
async fn what_a_crash_left_is_swept_and_what_was_named_stays() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::open(root.path()).unwrap();
    folder
        .put(&key("a/b"), Bytes::from_static(b"whole"))
        .await
        .unwrap();
    fs::write(root.path().join(STAGE).join("7"), "half").unwrap();

    let folder = Folder::open(root.path()).unwrap();
    assert_eq!(fs::read_dir(root.path().join(STAGE)).unwrap().count(), 0);
    assert_eq!(folder.get(&key("a/b")).await.unwrap(), "whole");
}

#[tokio::test]
async fn directories_go_with_their_last_blob() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::open(root.path()).unwrap();
    folder.put(&key("a/b/c"), Bytes::new()).await.unwrap();
    folder.put(&key("a/d"), Bytes::new()).await.unwrap();
    folder.delete(&key("a/b/c")).await.unwrap();
    assert!(!root.path().join("a/b").exists() && root.path().join("a/d").exists());
    folder
        .put(&key("a/b/c"), Bytes::from_static(b"again"))
        .await
        .unwrap();
    assert_eq!(folder.get(&key("a/b/c")).await.unwrap(), "again");
}

#[tokio::test]
async fn a_failed_put_leaves_nothing_and_harms_nothing() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::open(root.path()).unwrap();
    folder
        .put(&key("a"), Bytes::from_static(b"blob"))
        .await
        .unwrap();
    // Below a blob there is no room for another.
    let error = folder.put(&key("a/b"), Bytes::new()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(fs::read_dir(root.path().join(STAGE)).unwrap().count(), 0);
    assert_eq!(folder.get(&key("a")).await.unwrap(), "blob");
}

#[tokio::test]
async fn only_the_owner_can_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::open(root.path().join("blobs")).unwrap();
    folder.put(&key("a/b"), Bytes::new()).await.unwrap();
    let mode = |path: &str| {
        fs::metadata(root.path().join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!((mode("blobs/a"), mode("blobs/a/b")), (0o700, 0o600));
}

#[tokio::test]
async fn every_length_comes_back_as_it_went_on_every_file_system() {
    // The second is one in memory, where it is there: it may refuse to write past the page cache.
    for home in [std::env::temp_dir(), PathBuf::from("/dev/shm")] {
        let Ok(root) = tempfile::tempdir_in(home) else {
            continue;
        };
        let folder = Folder::open(root.path()).unwrap();
        for length in [0, 1, 4095, 4096, MIB - 1, MIB, MIB + 1, 3 * MIB + 17] {
            let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
            // Nothing that arrives is aligned or of one size.
            let parts = bytes
                .chunks(77_777)
                .map(|part| io::Result::Ok(Bytes::copy_from_slice(part)));
            let parts: Vec<_> = parts.collect();
            let content = StreamReader::new(futures::stream::iter(parts));
            let name = key(&format!("a/{length}"));
            let stored = folder.put_from(&name, Box::pin(content)).await.unwrap();
            assert_eq!(stored, length as u64);
            assert!(folder.get(&name).await.unwrap() == bytes, "{length} bytes");
            for from in [0, length / 2, length, length + 1] {
                let mut read = Vec::new();
                let mut reader = folder.open(&name, from as u64).await.unwrap();
                reader.read_to_end(&mut read).await.unwrap();
                assert!(
                    read == bytes.get(from..).unwrap_or_default(),
                    "{length} from {from}"
                );
            }
        }
    }
}
