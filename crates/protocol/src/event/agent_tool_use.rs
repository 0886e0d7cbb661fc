//! `agent.tool_use`: a call of a built-in tool, with what policy says of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{agent::tools::Policy, id::ThreadId, words::words};

/// Body of `agent.tool_use`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AgentToolUse {
    /// The tool.
    pub name: String,
    /// Its input, keys in the model's order.
    pub input: Map<String, Value>,
    /// What becomes of the call.
    pub evaluated_permission: Permission,
    /// Which policy said so; absent where the call was refused before any applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Evaluation>,
    /// The child thread of a copy on the primary's stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_thread_id: Option<ThreadId>,
}

words! {
    /// What becomes of a call.
    pub enum Permission {
        /// It runs.
        Allow = "allow",
        /// It waits for a `user.tool_confirmation`.
        Ask = "ask",
        /// It never runs.
        Deny = "deny",
    }
}

/// Which policy decided, and how.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Evaluation {
    /// The policy was `always_allow`.
    AlwaysAllow,
    /// The policy was `always_ask`.
    AlwaysAsk,
    /// The policy was `auto`.
    Auto {
        /// The judgement of this call.
        evaluated_permission: AutoPermission,
    },
}

/// The judgement of one call under `auto`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AutoPermission {
    /// Judged safe.
    Allow,
    /// No judgement: a person decides.
    Ask {
        /// `indeterminate`.
        reason_code: String,
    },
    /// Judged dangerous, or no judgement and nobody to ask.
    Deny {
        /// `high_risk` or `indeterminate`.
        reason_code: String,
    },
}

impl Evaluation {
    /// Evaluates a policy for one call.
    ///
    /// This server has no judge, so `auto` asks, with the reason `indeterminate`.
    pub fn of(policy: Policy) -> (Permission, Self) {
        match policy {
            Policy::AlwaysAllow => (Permission::Allow, Self::AlwaysAllow),
            Policy::AlwaysAsk => (Permission::Ask, Self::AlwaysAsk),
            Policy::Auto => (
                Permission::Ask,
                Self::Auto {
                    evaluated_permission: AutoPermission::Ask {
                        reason_code: "indeterminate".to_owned(),
                    },
                },
            ),
        }
    }
}
