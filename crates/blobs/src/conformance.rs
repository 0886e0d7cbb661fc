//! What every implementation of [`Blobs`] has to do.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failure is a failed test"
)]

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

use crate::{Blobs, Error, Key, Reader};

/// Runs the whole suite on a fresh, empty instance per test.
///
/// # Panics
///
/// Where the implementation breaks the contract.
pub async fn run<F, Fut>(factory: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Arc<dyn Blobs>>,
{
    reads_back(&*factory().await).await;
    streams(&*factory().await).await;
    deletes(&*factory().await).await;
    lists(&*factory().await).await;
    deletes_in_steps(&*factory().await).await;
    concurrent_puts_leave_one_whole(factory().await).await;
    put_and_delete_may_race(factory().await).await;
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

async fn put(blobs: &dyn Blobs, name: &str, text: &str) {
    blobs
        .put(&key(name), Bytes::from(text.to_owned()))
        .await
        .unwrap();
}

async fn reads_back(blobs: &dyn Blobs) {
    let missing = blobs.get(&key("a/b")).await.unwrap_err();
    assert!(
        matches!(&missing, Error::NotFound(name) if *name == key("a/b")),
        "{missing}"
    );
    put(blobs, "a/b", "first").await;
    put(blobs, "a/b", "first").await;
    assert_eq!(blobs.get(&key("a/b")).await.unwrap(), "first");
    put(blobs, "a/b", "").await;
    assert_eq!(blobs.get(&key("a/b")).await.unwrap(), "");
    let prefix = blobs.get(&key("a")).await.unwrap_err();
    assert!(
        matches!(prefix, Error::NotFound(_)),
        "a prefix is no blob: {prefix}"
    );
    let below = blobs.get(&key("a/b/c")).await.unwrap_err();
    assert!(
        matches!(below, Error::NotFound(_)),
        "a blob has nothing below it: {below}"
    );
    let large: Bytes = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    blobs.put(&key("large"), large.clone()).await.unwrap();
    assert_eq!(blobs.get(&key("large")).await.unwrap(), large);
}

async fn streams(blobs: &dyn Blobs) {
    let missing = blobs.open(&key("a/b"), 0).await.err().unwrap();
    assert!(matches!(&missing, Error::NotFound(name) if *name == key("a/b")));
    let large: Bytes = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let size = large.len() as u64;
    assert_eq!(
        blobs.put_from(&key("a/b"), reader(&large)).await.unwrap(),
        size
    );
    assert_eq!(blobs.get(&key("a/b")).await.unwrap(), large);
    for from in [0, 1, size / 2, size - 1, size, size + 9] {
        let mut read = Vec::new();
        let mut opened = blobs.open(&key("a/b"), from).await.unwrap();
        opened.read_to_end(&mut read).await.unwrap();
        let start = usize::try_from(from.min(size)).unwrap();
        assert!(read == large[start..], "from {from}");
    }
    let prefix = blobs.open(&key("a"), 0).await.err().unwrap();
    assert!(matches!(prefix, Error::NotFound(_)), "a prefix is no blob");
    // What breaks off leaves what was there.
    let broken: Reader = Box::pin(reader(&large).chain(Broken));
    blobs.put_from(&key("a/b"), broken).await.unwrap_err();
    assert_eq!(blobs.get(&key("a/b")).await.unwrap(), large);
    let empty = Bytes::new();
    assert_eq!(
        blobs.put_from(&key("a/b"), reader(&empty)).await.unwrap(),
        0
    );
    assert_eq!(blobs.get(&key("a/b")).await.unwrap(), "");
}

fn reader(bytes: &Bytes) -> Reader {
    Box::pin(std::io::Cursor::new(bytes.clone()))
}

/// A reader that fails.
struct Broken;

impl AsyncRead for Broken {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Poll::Ready(Err(std::io::Error::other("it broke off")))
    }
}

async fn deletes(blobs: &dyn Blobs) {
    blobs.delete(&key("a/b")).await.unwrap();
    put(blobs, "a/b", "x").await;
    put(blobs, "a/c", "y").await;
    blobs.delete(&key("a/b")).await.unwrap();
    assert!(matches!(
        blobs.get(&key("a/b")).await,
        Err(Error::NotFound(_))
    ));
    blobs.delete(&key("a")).await.unwrap();
    assert_eq!(blobs.get(&key("a/c")).await.unwrap(), "y");
}

async fn lists(blobs: &dyn Blobs) {
    assert_eq!(blobs.list(&key("a"), None, 10).await.unwrap(), []);
    // `-` and `.` sort before `/`: the order is that of the texts, whatever the driver walks.
    let names = [
        "a-b", "a.b", "a/b", "a/b-c/d", "a/b.c", "a/c/d", "a/c/e", "b",
    ];
    for name in [
        "a/c/e", "a/c/d", "b", "a/b.c", "a/b", "a/b-c/d", "a.b", "a-b",
    ] {
        put(blobs, name, name).await;
    }
    let under: Vec<Key> = names[2..7].iter().map(|name| key(name)).collect();
    assert_eq!(blobs.list(&key("a"), None, 10).await.unwrap(), under);
    assert_eq!(
        blobs.list(&key("a-b"), None, 10).await.unwrap(),
        [key("a-b")]
    );
    assert_eq!(blobs.list(&key("a"), None, 2).await.unwrap(), under[..2]);
    for (at, after) in under.iter().enumerate() {
        let rest = blobs.list(&key("a"), Some(after), 10).await.unwrap();
        assert_eq!(rest, under[at + 1..], "after `{after}`");
    }
}

async fn deletes_in_steps(blobs: &dyn Blobs) {
    for number in 0..5 {
        put(blobs, &format!("s/one/{number}"), "x").await;
        put(blobs, &format!("s/one-more/{number}"), "x").await;
    }
    assert_eq!(blobs.delete_prefix(&key("s/one"), 3).await.unwrap(), 3);
    assert_eq!(blobs.delete_prefix(&key("s/one"), 3).await.unwrap(), 2);
    assert_eq!(blobs.delete_prefix(&key("s/one"), 3).await.unwrap(), 0);
    assert_eq!(blobs.list(&key("s"), None, 20).await.unwrap().len(), 5);
    assert_eq!(
        blobs.delete_prefix(&key("s/one-more/3"), 3).await.unwrap(),
        1
    );
}

async fn concurrent_puts_leave_one_whole(blobs: Arc<dyn Blobs>) {
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..16_u8 {
        let blobs = blobs.clone();
        writers.spawn(async move {
            let bytes = Bytes::from(vec![number; 100_000]);
            blobs.put(&key("c/same"), bytes).await.unwrap();
        });
    }
    let mut seen = 0;
    while !writers.is_empty() {
        match blobs.get(&key("c/same")).await {
            Ok(bytes) => whole(&bytes),
            Err(error) => assert!(seen == 0 && matches!(error, Error::NotFound(_)), "{error}"),
        }
        writers.join_next().await.unwrap().unwrap();
        seen += 1;
    }
    whole(&blobs.get(&key("c/same")).await.unwrap());
    assert_eq!(
        blobs.list(&key("c"), None, 9).await.unwrap(),
        [key("c/same")]
    );
}

fn whole(bytes: &Bytes) {
    assert_eq!(bytes.len(), 100_000);
    assert!(
        bytes.windows(2).all(|pair| pair.first() == pair.last()),
        "torn"
    );
}

/// A directory that empties while another blob is put into it costs neither call.
async fn put_and_delete_may_race(blobs: Arc<dyn Blobs>) {
    let mut racers = tokio::task::JoinSet::new();
    for number in 0..32 {
        let blobs = blobs.clone();
        racers.spawn(async move {
            let name = key(&format!("r/home/{number}"));
            for _ in 0..5 {
                blobs.put(&name, Bytes::from_static(b"x")).await.unwrap();
                assert_eq!(blobs.get(&name).await.unwrap(), "x");
                blobs.delete(&name).await.unwrap();
            }
        });
    }
    while let Some(done) = racers.join_next().await {
        done.unwrap();
    }
    assert_eq!(blobs.list(&key("r"), None, 9).await.unwrap(), []);
}
