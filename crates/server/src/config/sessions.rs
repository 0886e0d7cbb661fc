//! What holds for new sessions.

use outlast_protocol::{deadlines::Deadlines, limits};
use serde::{Deserialize, Serialize};

use super::{Impossible, within};

/// Deadlines that new sessions begin with; none where nothing is said.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Sessions {
    /// How long a session may rest before it is archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u32>,
    /// How long a client's answer to a call may be waited for before the call is denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_seconds: Option<u32>,
    /// How old a session may become before it is terminated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_seconds: Option<u32>,
}

impl Sessions {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        let all = [
            ("sessions.idle_seconds", self.idle_seconds),
            ("sessions.answer_seconds", self.answer_seconds),
            ("sessions.total_seconds", self.total_seconds),
        ];
        let mut set = all
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        set.try_for_each(|(key, value)| within(key, i64::from(value), limits::DEADLINE))
    }

    /// Returns what a new session begins with.
    pub fn deadlines(&self) -> Deadlines {
        Deadlines {
            idle_seconds: self.idle_seconds,
            answer_seconds: self.answer_seconds,
            total_seconds: self.total_seconds,
        }
    }
}
