//! `session.usage`: what the session used so far, directly before it goes idle.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::session::Usage;

/// Body of `session.usage`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SessionUsage {
    /// The figures.
    pub usage: Usage,
    /// Null: this server takes no budgets yet.
    #[serde(default)]
    pub budget: Option<Value>,
}

impl SessionUsage {
    /// Makes the event of these figures.
    pub fn new(usage: Usage) -> Self {
        Self {
            usage,
            budget: None,
        }
    }
}
