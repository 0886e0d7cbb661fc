use super::*;

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
