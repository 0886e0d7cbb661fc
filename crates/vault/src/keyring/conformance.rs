//! What every keyring has to do.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failure is a failed test"
)]

use std::sync::Arc;

use super::{KeyName, Keyring, Unwrapping, Wrapped};
use crate::derive::Key;

/// Runs the whole suite. The factory gives keyrings of one source, each as another process would open it;
/// the source has or makes a key.
///
/// # Panics
///
/// Where the implementation breaks the contract.
pub async fn run<F, Fut>(factory: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Arc<dyn Keyring>>,
{
    let first = factory().await;
    first.found().await.unwrap();
    let second = factory().await;
    has_the_same_keys(&*first, &*second).await;
    gives_keys_back(&*first, &*second);
    binds_the_place(&*first);
    finds_changes(&*first);
    knows_what_it_lacks(&*first);
    tells_nothing(&*first);
    turns(&*first, &factory).await;
}

fn key() -> Key {
    Key::new(std::array::from_fn(|at| u8::try_from(at).unwrap()))
}

async fn has_the_same_keys(first: &dyn Keyring, second: &dyn Keyring) {
    let names = first.names().unwrap();
    assert!(!names.is_empty());
    assert_eq!(second.names().unwrap(), names);
    first.found().await.unwrap();
    first.renew().await.unwrap();
    assert_eq!(first.names().unwrap(), names, "it has one already");
}

fn gives_keys_back(first: &dyn Keyring, second: &dyn Keyring) {
    let wrapped = first.wrap(&key(), b"here").unwrap();
    assert_eq!(wrapped.master, first.names().unwrap()[0]);
    assert_eq!(second.unwrap(&wrapped, b"here").unwrap(), key());
    let again = first.wrap(&key(), b"here").unwrap();
    assert_ne!(again.bytes, wrapped.bytes, "one key twice cannot be seen");
}

fn binds_the_place(ring: &dyn Keyring) {
    let wrapped = ring.wrap(&key(), b"here").unwrap();
    for place in [&b"there"[..], b"her", b"here ", b""] {
        assert_eq!(ring.unwrap(&wrapped, place), Err(Unwrapping::Tampered));
    }
}

fn finds_changes(ring: &dyn Keyring) {
    let wrapped = ring.wrap(&key(), b"here").unwrap();
    for at in 0..wrapped.bytes.len() {
        let mut changed = wrapped.clone();
        changed.bytes[at] ^= 0x80;
        assert_eq!(ring.unwrap(&changed, b"here"), Err(Unwrapping::Tampered));
        changed.bytes.truncate(at);
        assert_eq!(ring.unwrap(&changed, b"here"), Err(Unwrapping::Tampered));
    }
}

fn knows_what_it_lacks(ring: &dyn Keyring) {
    let stranger = Wrapped {
        master: KeyName::from("mk_0"),
        bytes: ring.wrap(&key(), b"here").unwrap().bytes,
    };
    let error = ring.unwrap(&stranger, b"here").unwrap_err();
    let known = ring.names().unwrap();
    let wanted = stranger.master;
    assert_eq!(error, Unwrapping::Unknown { wanted, known });
}

fn tells_nothing(ring: &dyn Keyring) {
    let wrapped = ring.wrap(&key(), b"here").unwrap();
    let inside = |part: &[u8]| wrapped.bytes.windows(part.len()).any(|found| found == part);
    assert!(!inside(&key()[..4]) && !inside(b"here"));
    for name in ring.names().unwrap() {
        assert!(
            format!("{ring:?}").contains(&name.to_string()),
            "names may be known"
        );
    }
}

/// What was wrapped before a turn is read after it, by this process and the next; after the old keys
/// retired it is not.
async fn turns<F, Fut>(ring: &dyn Keyring, factory: &F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Arc<dyn Keyring>>,
{
    let (before, names) = (ring.wrap(&key(), b"here").unwrap(), ring.names().unwrap());
    if !ring.turn().await.unwrap() {
        assert_eq!(ring.names().unwrap(), names, "the operator has no other");
        ring.retire().await.unwrap();
        assert_eq!(ring.names().unwrap(), names, "they are not its to forget");
        return;
    }
    assert_eq!(ring.names().unwrap()[1..], names);
    let after = ring.wrap(&key(), b"here").unwrap();
    let next = factory().await;
    for ring in [ring, &*next] {
        assert_eq!(ring.unwrap(&before, b"here").unwrap(), key());
        assert_eq!(ring.unwrap(&after, b"here").unwrap(), key());
    }
    ring.retire().await.unwrap();
    assert_eq!(ring.names().unwrap(), std::slice::from_ref(&after.master));
    let next = factory().await;
    for ring in [ring, &*next] {
        ring.unwrap(&before, b"here").unwrap_err();
        assert_eq!(ring.unwrap(&after, b"here").unwrap(), key());
    }
}
