//! `session.deleted`: the last frame of a live stream; never in a list.

use serde::{Deserialize, Serialize};

use super::{Body, Kind};

/// Body of `session.deleted`: nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct SessionDeleted {}

impl Body for SessionDeleted {
    fn kind(&self) -> Kind {
        Kind::SessionDeleted
    }
}
