//! The bodies of private records.
//!
//! Their shapes are stored for ever: a field is only ever added, with a default.

use std::sync::Arc;

use outlast_protocol::{
    CallResult, Metadata, Micros, Outcome,
    environment::Networking,
    id::{
        CredentialId, EnvironmentId, EventId, FileId, IncarnationId, ProcessId, ResourceId,
        ThreadId, VaultId,
    },
    session::{AgentSnapshot, Checkout, MountPath, RepositoryPath, RepositoryUrl},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::After;

/// What a session was created with, or was last changed to.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Config {
    /// The agent, resolved.
    pub agent: AgentSnapshot,
    /// The environment that hands are made for.
    pub environment_id: EnvironmentId,
    /// What people call the session.
    pub title: Option<String>,
    /// The client's own pairs.
    pub metadata: Metadata,
    /// The files that are mounted in hands, in the order they came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Mounted>,
    /// The vaults whose credentials it may use; of two that fit the one before counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vault_ids: Vec<VaultId>,
    /// The git repositories of the workspace, in the order they were named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<Repository>,
}

impl Config {
    /// Returns the repositories whose requests cannot be told from those of one, itself included; none if
    /// it has no such repository.
    pub fn same_repository(&self, resource: ResourceId) -> Vec<&Repository> {
        let all = &self.repositories;
        let one = all.iter().find(|known| known.id == resource);
        let same = one.map(|one| all.iter().filter(move |known| known.url.is_same(&one.url)));
        same.into_iter().flatten().collect()
    }
}

/// A git repository of a session's workspace. Its token is in the vault, under this id.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Repository {
    /// What names it.
    pub id: ResourceId,
    /// Where it is cloned from.
    pub url: RepositoryUrl,
    /// What is checked out; absent for the default branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkout: Option<Checkout>,
    /// Where it stands.
    pub path: RepositoryPath,
    /// When it was named.
    pub at: Micros,
    /// When its token was last changed; absent if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated: Option<Micros>,
}

/// A file that is mounted in a session's hands: a copy of its own that shares the bytes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Mounted {
    /// What names the mount.
    pub id: ResourceId,
    /// The copy.
    pub file: FileId,
    /// The file that it was copied from, which may be gone.
    pub source: FileId,
    /// Where it stands below the folder of uploads.
    pub path: MountPath,
    /// When it was mounted.
    pub at: Micros,
}

/// Body of `x.resource_added`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ResourceAdded {
    /// What is mounted.
    pub resource: Mounted,
}

/// Body of `x.resource_removed`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct ResourceRemoved {
    /// What is mounted no more.
    pub resource: ResourceId,
}

/// Body of `x.resource_updated`: the token of a repository is another one.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct ResourceUpdated {
    /// Which.
    pub resource: ResourceId,
    /// Since when.
    pub at: Micros,
}

/// Body of `x.cloned`: a repository was tried in a hand.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Cloned {
    /// Which repository.
    pub resource: ResourceId,
    /// In which hand.
    pub hand: IncarnationId,
    /// For a brain of this epoch.
    pub epoch: u64,
    /// Whether it stands there now.
    pub there: bool,
}

/// Body of `x.unreachable`: all credentials that name a host which the environment does not allow.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Unreachable {
    /// Which.
    pub credentials: Vec<CredentialId>,
}

/// Body of `x.created`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Created {
    /// The configuration.
    pub config: Arc<Config>,
    /// The id of thread 0.
    pub thread: ThreadId,
}

/// Body of `x.updated`: the whole configuration as it is now.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Updated {
    /// The configuration.
    pub config: Arc<Config>,
}

/// Body of `x.claimed`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Claimed {
    /// The fence: one more than the claim before.
    pub epoch: u64,
    /// The process whose brain holds the lease.
    pub process: ProcessId,
    /// Claims since the last progress, this one included.
    pub attempt: u32,
    /// Whether an operator woke a parked thread by it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revived: bool,
}

/// Body of `x.released`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Released {
    /// The lease that ended.
    pub epoch: u64,
    /// When to try again; absent where a client or nobody is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Micros>,
    /// Whether the brain ended by a fault: then its claim stays an attempt without progress.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub broken: bool,
}

/// Body of `x.parked`: nobody works on the thread until a client sends something, or an operator
/// wakes it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Parked {
    /// Claims since the last progress.
    pub attempts: u32,
    /// The attempts that count from here on: one more without progress parks it again.
    pub left: u32,
    /// What the turn stood at that was given up.
    pub after: After,
}

/// Tokens of one request, as the model's provider counted them.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Tokens {
    /// Input that came from no cache.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to the five-minute cache.
    pub cache_5m: u64,
    /// Input written to the one-hour cache.
    pub cache_1h: u64,
    /// Searches that the provider ran.
    pub searches: u64,
}

/// Body of `x.request_ended`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RequestEnded {
    /// The request: the event id of its start.
    pub request: EventId,
    /// What it used.
    pub tokens: Tokens,
    /// List cost in nano-dollars; absent where the model has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// Whether it failed.
    #[serde(default)]
    pub failed: bool,
    /// `standard` or `fast`, where the provider said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<String>,
}

/// Body of `x.response`: what the next request sends back, and what it became.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Response {
    /// The request that it answers.
    pub request: EventId,
    /// The model's exact content blocks.
    pub blocks: Vec<Box<RawValue>>,
    /// Why the model stopped, in its own word.
    pub stop: String,
    /// More about the stop; of a refusal its category and explanation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<RawValue>>,
    /// What the turn stands at now.
    pub after: After,
    /// The calls, in the model's order.
    pub calls: Vec<Called>,
}

/// One call of a response.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Called {
    /// The event that clients refer to.
    pub call: EventId,
    /// The model's own id, which stays inside.
    pub tool_use: String,
    /// Whether its input was cut off, so that it can never run.
    #[serde(default)]
    pub cut: bool,
}

/// Body of `x.intended`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Intended {
    /// The call.
    pub call: EventId,
    /// Who is asked to run it.
    pub hand: IncarnationId,
}

/// Body of `x.settled`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Settled {
    /// The call.
    pub call: EventId,
    /// How it ended.
    pub outcome: Outcome,
}

/// Body of `x.hand_wanted`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct HandWanted {
    /// The name of the hand in the session.
    pub name: String,
    /// The life that is about to begin.
    pub incarnation: IncarnationId,
    /// The life before, whose workspace is taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<IncarnationId>,
    /// Lives of which nothing is left and nothing will be asked any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<IncarnationId>,
    /// What of the workspace the life before takes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// What it may reach, however the environment changes later; absent where hands have no way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
}

/// What of a workspace is lost with a hand.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// All of it.
    Everything,
    /// What was written after the moment of the newest checkpoint that is not known to be unreadable.
    Since(Micros),
}

/// Body of `x.checkpointed`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Checkpointed {
    /// Whose workspace it is.
    pub incarnation: IncarnationId,
    /// The key of the blob.
    pub blob: String,
    /// What it comes to.
    pub sum: Sum,
    /// What was written before this moment is in it.
    pub at: Micros,
}

/// What the blob of a checkpoint comes to.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Sum {
    /// Files, folders and links.
    pub entries: u64,
    /// Its bytes.
    pub bytes: u64,
    /// BLAKE3 of them, in hex.
    pub digest: String,
}

/// Body of `x.hand_lost`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct HandLost {
    /// The life that ended.
    pub incarnation: IncarnationId,
    /// What ended it, in words.
    pub reason: String,
    /// The moment of the checkpoint that it was to begin with, if that cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<Micros>,
}

impl HandLost {
    /// Says that a life is over.
    pub fn of(incarnation: IncarnationId, reason: &str) -> Self {
        Self {
            incarnation,
            reason: reason.to_owned(),
            unreadable: None,
        }
    }
}

/// Body of `x.erased`; the record says who and when.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Erased {
    /// Why, in the words of whoever asked for it.
    pub because: String,
    /// What was erased, by position.
    pub erased: Vec<Remains>,
}

/// What is left of a body that was erased.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Remains {
    /// The record.
    pub position: u64,
    /// What folding needs of it: nobody's words.
    pub body: Box<RawValue>,
}

/// Body of `x.archived` and `x.deleted`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Closed {}

/// Returns the words a call is answered with that no client allowed in time.
pub fn unanswered(tool: &str, seconds: u32) -> CallResult {
    let words = format!(
        "the call of `{tool}` did not run: it needed a permission, and nobody gave or refused one \
         within {seconds} seconds"
    );
    CallResult::error(Outcome::Denied, words)
}

/// Returns the words a client's own tool is answered for that gave no result in time.
pub fn no_result(tool: &str, seconds: u32) -> CallResult {
    let words = format!(
        "no result of `{tool}` came within {seconds} seconds, and none is waited for any more; the \
         call may have run in whole or in part, check before repeating it"
    );
    CallResult::error(Outcome::MayHaveRun, words)
}

/// Returns the words a closed call is answered with.
pub fn interrupted() -> CallResult {
    CallResult::error(
        Outcome::Interrupted,
        "execution was interrupted before completion; retry the call if its result is still needed",
    )
}

/// Returns the words a refused call is answered with.
pub fn denied(tool: &str, message: Option<&str>) -> CallResult {
    let words = match message {
        Some(message) => format!("permission for tool `{tool}` was denied: {message}"),
        None => format!("permission for tool `{tool}` was denied"),
    };
    CallResult::error(Outcome::Denied, words)
}

/// Returns the words a call is answered with whose input was cut off, or is broken otherwise.
pub fn cut(tool: &str) -> CallResult {
    CallResult::error(
        Outcome::NotStarted,
        format!(
            "the call of `{tool}` did not run: its input is no complete JSON object. It was cut off \
             at the output limit, then call it again with a shorter one; or it is broken, such as by \
             a number that is too large or half a surrogate pair"
        ),
    )
}

/// Body of `x.pinned`: what requests of the session are made by.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Pinned {
    /// The harness.
    pub harness: String,
    /// The context strategy.
    pub strategy: String,
    /// Its version.
    pub version: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_a_usable_input_is_told_both_reasons() {
        let result = cut("bash");
        assert_eq!(result.outcome, Outcome::NotStarted);
        let told = format!("{result:?}");
        assert!(
            told.contains("cut off") && told.contains("broken"),
            "{told}"
        );
    }
}
