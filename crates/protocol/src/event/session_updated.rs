//! `session.updated`: what an update changed.

use serde::{Deserialize, Deserializer, Serialize};

use super::{Body, Kind};
use crate::{Metadata, session::AgentSnapshot};

/// Body of `session.updated`: only what changed is there.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct SessionUpdated {
    /// The whole agent after the update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentSnapshot>,
    /// All pairs after the update; absent also when the update removed the last one.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// The new title; the inner `None` is sent as null: the title was cleared.
    #[serde(
        default,
        deserialize_with = "there",
        skip_serializing_if = "Option::is_none"
    )]
    pub title: Option<Option<String>>,
}

/// Keeps a null apart from an absent field.
fn there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl Body for SessionUpdated {
    fn kind(&self) -> Kind {
        Kind::SessionUpdated
    }
}
