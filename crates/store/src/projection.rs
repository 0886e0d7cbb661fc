//! What of a state stands in columns of its own.

use outlast_protocol::{
    Micros,
    id::{AgentId, EnvironmentId, ProcessId},
};
use outlast_session::{State, Status, Thread, body::Config};

use crate::ResourceKind;

/// Writes a state or configuration as it is kept.
pub(crate) fn text(value: &impl serde::Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string(value)
}

/// Returns the stored word of a kind of objects.
pub(crate) fn kind(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Agent => "agent",
        ResourceKind::Environment => "environment",
        ResourceKind::Vault => "vault",
        ResourceKind::Credential => "credential",
    }
}

/// What sessions are listed by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Facets {
    pub(crate) created: Micros,
    pub(crate) archived: Option<Micros>,
    pub(crate) deleted: bool,
    pub(crate) status: &'static str,
    pub(crate) agent: Option<AgentId>,
    pub(crate) agent_version: u32,
    pub(crate) environment: Option<EnvironmentId>,
}

impl Facets {
    pub(crate) fn of(state: &State) -> Self {
        let config: Option<&Config> = state.config.as_deref();
        Self {
            created: state.created_at,
            archived: state.archived_at,
            deleted: state.deleted,
            status: word(state.shown()),
            agent: config.map(|config| config.agent.id),
            agent_version: config.map_or(0, |config| config.agent.version),
            environment: config.map(|config| config.environment_id),
        }
    }
}

/// Returns the stored form of an id that may not be known.
pub(crate) fn name(id: Option<impl std::fmt::Display>) -> String {
    id.map(|id| id.to_string()).unwrap_or_default()
}

/// Returns the stored word of a status.
pub(crate) fn word(status: Status) -> &'static str {
    match status {
        Status::Idle => "idle",
        Status::Running => "running",
        Status::Rescheduling => "rescheduling",
        Status::Terminated => "terminated",
    }
}

/// What stands in `threads`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lease {
    pub(crate) epoch: u64,
    pub(crate) attempts: u32,
    pub(crate) holder: Option<ProcessId>,
    pub(crate) work: bool,
    pub(crate) ready_at: Option<Micros>,
    /// When something of the session runs out; it stands with the first thread.
    pub(crate) deadline: Option<Micros>,
}

impl Lease {
    pub(crate) fn of(state: &State, number: u32, thread: &Thread) -> Self {
        Self {
            epoch: thread.epoch,
            attempts: thread.attempts,
            holder: thread.lease.as_ref().map(|lease| lease.process),
            work: thread.has_work(),
            ready_at: state.ready_at(number),
            deadline: match number {
                0 => state.next_deadline().map(|next| next.at),
                _ => None,
            },
        }
    }
}

/// Returns the fences of a state as they stand in its row.
pub(crate) fn epochs(state: &State) -> String {
    let epochs: Vec<String> = state
        .threads
        .iter()
        .map(|thread| thread.epoch.to_string())
        .collect();
    epochs.join(",")
}

/// Returns the leases that changed.
pub(crate) fn changed(before: Option<&State>, after: &State) -> Vec<(u32, Lease)> {
    let mut changed = Vec::new();
    for (number, thread) in (0_u32..).zip(&after.threads) {
        let row = Lease::of(after, number, thread);
        let known = before.and_then(|before| {
            let thread = before.thread(number)?;
            Some(Lease::of(before, number, thread))
        });
        if known != Some(row) {
            changed.push((number, row));
        }
    }
    changed
}
