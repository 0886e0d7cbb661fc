//! The contract on a real S3-compatible server, which `scripts/test s3` starts.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use outlast_blobs::{Blobs, Error, Key, S3, conformance, s3};
use tokio::io::AsyncReadExt as _;

/// A key that the server takes.
const SECRET: &str = "canary-4c7f09";

fn options(prefix: &str) -> s3::Options {
    s3::Options {
        url: format!("s3://outlast-test/{prefix}"),
        // `scripts/test s3` says where it is.
        endpoint: std::env::var("OUTLAST_TEST_S3").ok(),
        region: None,
        access_key_id: Some("test".to_owned()),
        secret_access_key: Some(SECRET.into()),
        session_token: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: scripts/test s3"]
async fn s3_keeps_the_contract() {
    let next = AtomicU64::new(0);
    conformance::run(async || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let bucket = S3::new(&options(&format!("contract/{number}"))).unwrap();
        Arc::new(bucket) as Arc<dyn Blobs>
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: scripts/test s3"]
async fn s3_takes_large_blobs_in_parts() {
    let bucket = S3::new(&options("parts")).unwrap();
    let part = 16 << 20;
    // Around the borders of parts: the empty one, one byte less, exactly, one byte more.
    for size in [0, part - 1, part, part + 1, 3 * part, 3 * part + 7] {
        let key = Key::new(format!("size/{size}")).unwrap();
        let bytes: Bytes = (0..=250).cycle().take(size).collect();
        let content = Box::pin(std::io::Cursor::new(bytes.clone()));
        let stored = bucket.put_from(&key, content).await.unwrap();
        assert_eq!(stored, size as u64);
        assert!(bucket.get(&key).await.unwrap() == bytes, "{size}");
        let from = size / 2;
        let mut read = Vec::new();
        let mut opened = bucket.open(&key, from as u64).await.unwrap();
        opened.read_to_end(&mut read).await.unwrap();
        assert!(read == bytes[from..], "{size} from {from}");
        bucket.delete(&key).await.unwrap();
    }
    let other = S3::new(&options("other")).unwrap();
    let all = Key::new("size").unwrap();
    assert_eq!(other.list(&all, None, 9).await.unwrap(), []);
}

#[tokio::test]
#[ignore = "needs a server: scripts/test s3"]
async fn what_s3_refuses_is_said_without_the_secret() {
    let missing = s3::Options {
        url: "s3://no-such-bucket".to_owned(),
        ..options("")
    };
    let key = Key::new("a").unwrap();
    let bucket = S3::new(&missing).unwrap();
    let error = bucket
        .put(&key, Bytes::from_static(b"x"))
        .await
        .unwrap_err();
    let words = format!("{error} {error:?}");
    assert!(!words.contains(SECRET), "{words}");
    let gone = s3::Options {
        // Nobody listens there.
        endpoint: Some("http://127.0.0.1:1".to_owned()),
        ..options("")
    };
    let bucket = S3::new(&gone).unwrap();
    let error = bucket.get(&key).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(!format!("{error:?}").contains(SECRET));
}
