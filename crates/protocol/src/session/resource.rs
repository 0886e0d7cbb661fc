//! The session as it is shown.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AgentSnapshot, Resource, Usage};
use crate::id::{EnvironmentId, SessionId, VaultId};
use crate::words::words;
use crate::{Metadata, Micros};

/// A session; everything in it is the fold of its log.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "session")]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// What it runs.
    pub agent: AgentSnapshot,
    /// When it was archived.
    pub archived_at: Option<Micros>,
    /// Always null: this server takes no budgets yet.
    pub budget: Option<Value>,
    /// When it was created.
    pub created_at: Micros,
    /// Always null: this server has no deployments yet.
    pub deployment_id: Option<String>,
    /// Where its hands are made.
    pub environment_id: EnvironmentId,
    /// The client's own pairs.
    pub metadata: Metadata,
    /// Always empty: this server takes no outcomes yet.
    pub outcome_evaluations: Vec<Value>,
    /// What its hands have beside the agent: repositories, then files in the order they came.
    pub resources: Vec<Resource>,
    /// Times.
    pub stats: SessionStats,
    /// What it does now.
    pub status: Status,
    /// What people call it.
    pub title: Option<String>,
    /// When it last changed.
    pub updated_at: Micros,
    /// What it used.
    pub usage: Usage,
    /// The vaults whose credentials it may use, as they were named when it was created.
    pub vault_ids: Vec<VaultId>,
}

words! {
    /// What a session or thread does.
    pub enum Status {
        /// It waits for input.
        Idle = "idle",
        /// It works.
        Running = "running",
        /// It will try again by itself.
        Rescheduling = "rescheduling",
        /// It is over.
        Terminated = "terminated",
    }
}

/// Times of a session, in seconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct SessionStats {
    /// Running time, summed over threads.
    pub active_seconds: f64,
    /// Time since creation; frozen once terminated.
    pub duration_seconds: f64,
}
