//! What a tool call comes to, whoever answered it.

use serde::{Deserialize, Serialize};

use crate::content::Block;

/// How a call ended, apart from what it returned.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It ran to its own end, in success or failure.
    Done,
    /// A limit ended it: time, memory, processes or output.
    Limit,
    /// Somebody stopped it.
    Interrupted,
    /// Policy or a person refused it; it never ran.
    Denied,
    /// It never ran, and the one who would have run it says so.
    NotStarted,
    /// It was handed over and nobody can say whether it ran.
    MayHaveRun,
}

/// What the model reads of a finished call.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CallResult {
    /// Text, images or documents, never empty.
    pub content: Vec<Block>,
    /// Whether the model should take it as a failure.
    pub is_error: bool,
    /// How the call ended.
    pub outcome: Outcome,
}

impl CallResult {
    /// Makes a successful result of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![Block::text(text)],
            is_error: false,
            outcome: Outcome::Done,
        }
    }

    /// Makes an error result of one text.
    pub fn error(outcome: Outcome, text: impl Into<String>) -> Self {
        Self {
            content: vec![Block::text(text)],
            is_error: true,
            outcome,
        }
    }
}
