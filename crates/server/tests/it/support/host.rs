//! The process that sandboxes live in: found by its lock, ended by its pid.

use std::path::Path;

use outlast_hands::host::Place;

use super::{Output, outlast, until};

/// Returns the process that has the sandboxes of a data directory, if one has.
pub(crate) fn pid(dir: &Path) -> Option<u32> {
    let place = Place::usual(dir);
    if !place.is_held().unwrap() {
        return None;
    }
    place.holder()?.parse().ok()
}

/// Has it end as an operator does, if there is one; it may be about to end by itself.
pub(crate) async fn end(dir: &Path) {
    if pid(dir).is_none() {
        return;
    }
    let done = Output::of(outlast(dir).args(["hand-host", "--stop"])).await;
    assert!(done.code == Some(0) || pid(dir).is_none(), "{done:?}");
    gone(dir).await;
}

/// Waits until there is none.
pub(crate) async fn gone(dir: &Path) {
    until("the hand host to end", async || {
        pid(dir).is_none().then_some(())
    })
    .await;
}
