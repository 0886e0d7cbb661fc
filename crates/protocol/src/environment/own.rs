//! Keys of metadata that mean something to this server.
//!
//! All other metadata is the client's own, and nobody reads it. So a key that looks like one of these and
//! is none is a mistake, and would do nothing without a word.

use crate::{Problem, read::excerpt};

/// The image that sandboxes of the environment stand on.
pub const IMAGE: &str = "outlast.image";

/// The mark of what `outlast run` makes for itself.
pub const RUN: &str = "outlast.run";

/// What all of them begin with.
const PREFIX: &str = "outlast.";

const KNOWN: [&str; 2] = [IMAGE, RUN];

/// Refuses keys of the server's that there are none of.
pub(super) fn check<'a>(keys: impl IntoIterator<Item = &'a String>) -> Result<(), Problem> {
    let mut keys = keys.into_iter();
    match keys.find(|key| key.starts_with(PREFIX) && !KNOWN.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(Problem::invalid(format!(
            "metadata.{}: unknown key; of those that begin with `{PREFIX}` there are {}",
            excerpt(key),
            KNOWN.join(", ")
        ))),
    }
}
