//! The environment as it is stored and shown.

use serde::{Deserialize, Serialize};

use super::{Networking, Packages};
use crate::id::EnvironmentId;
use crate::words::words;
use crate::{Metadata, Micros};

/// An environment; many sessions may share one.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "environment")]
pub struct Environment {
    /// Its id.
    pub id: EnvironmentId,
    /// When it was archived; an archived environment never changes again.
    pub archived_at: Option<Micros>,
    /// What hands are made like.
    pub config: Config,
    /// When it was created.
    pub created_at: Micros,
    /// What it is for, for people.
    pub description: Option<String>,
    /// The client's own pairs.
    pub metadata: Metadata,
    /// What people call it.
    pub name: String,
    /// Who sees it.
    pub scope: Option<Scope>,
    /// When it last changed.
    pub updated_at: Micros,
}

/// What hands of an environment are made like.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Config {
    /// The server makes the hands.
    Cloud {
        /// What they may reach.
        networking: Networking,
        /// What is installed in them.
        packages: Packages,
    },
}

words! {
    /// Who sees an environment.
    pub enum Scope {
        /// Every key of this server.
        Organization = "organization",
    }
}
