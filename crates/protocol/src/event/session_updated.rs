//! `session.updated`: what an update changed.

use serde::{Deserialize, Serialize};

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
        deserialize_with = "crate::read::there",
        skip_serializing_if = "Option::is_none"
    )]
    pub title: Option<Option<String>>,
}
