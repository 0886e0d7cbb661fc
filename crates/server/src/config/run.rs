//! What `outlast run` does when it is not told.

use serde::{Deserialize, Serialize};

use super::Impossible;

/// What `outlast run` does when it is not told.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Run {
    /// The model of its agents; a paid one only if it is named here or with `--model`.
    pub model: String,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            model: outlast_model::Scripted::ID.to_owned(),
        }
    }
}

impl Run {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        if self.model.trim().is_empty() {
            return Err(Impossible::new("run.model", "must not be empty"));
        }
        Ok(())
    }
}
