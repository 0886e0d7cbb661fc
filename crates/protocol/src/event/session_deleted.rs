//! `session.deleted`: the last frame of a live stream; never in a list.

use serde::{Deserialize, Serialize};

/// Body of `session.deleted`: nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct SessionDeleted {}
