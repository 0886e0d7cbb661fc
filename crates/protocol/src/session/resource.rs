//! The session as it is shown.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AgentSnapshot, Usage};
use crate::id::{EnvironmentId, SessionId};
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
    /// Always empty: this server mounts nothing yet.
    pub resources: Vec<Value>,
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
    /// Always empty: this server has no vaults yet.
    pub vault_ids: Vec<String>,
}

/// What a session or thread does.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It waits for input.
    Idle,
    /// It works.
    Running,
    /// It will try again by itself.
    Rescheduling,
    /// It is over.
    Terminated,
}

impl Status {
    /// The words of the wire, for filters.
    pub const TABLE: &'static [(&'static str, Self)] = &[
        ("rescheduling", Self::Rescheduling),
        ("running", Self::Running),
        ("idle", Self::Idle),
        ("terminated", Self::Terminated),
    ];

    /// Returns the word of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Rescheduling => "rescheduling",
            Self::Terminated => "terminated",
        }
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
