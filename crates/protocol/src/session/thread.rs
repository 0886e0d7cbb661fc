//! A thread of a session as it is shown.

use serde::{Deserialize, Serialize};

use super::{Status, ThreadAgent, Usage};
use crate::Micros;
use crate::id::{SessionId, ThreadId};

/// One thread; every session has a primary one.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "session_thread")]
pub struct Thread {
    /// Its id.
    pub id: ThreadId,
    /// What it runs.
    pub agent: ThreadAgent,
    /// When it was archived.
    pub archived_at: Option<Micros>,
    /// When it was created.
    pub created_at: Micros,
    /// Who started it; null for the primary one.
    pub parent_thread_id: Option<ThreadId>,
    /// The session.
    pub session_id: SessionId,
    /// Times; null until it first runs.
    pub stats: Option<ThreadStats>,
    /// What it does now.
    pub status: Status,
    /// When it last changed.
    pub updated_at: Micros,
    /// What it used; null until it first goes idle after running.
    pub usage: Option<Usage>,
    /// Always null: this server has no workflow runs yet.
    pub workflow_run_id: Option<String>,
}

/// Times of a thread, in seconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ThreadStats {
    /// Running time.
    pub active_seconds: f64,
    /// Time since creation; frozen once archived.
    pub duration_seconds: f64,
    /// Time from creation to the first run.
    pub startup_seconds: f64,
}
