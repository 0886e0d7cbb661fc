//! How long a session may wait or last: `GET` and `PUT /outlast/v1/sessions/{session_id}/deadlines`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Micros, Problem,
    id::SessionId,
    limits,
    read::{At, Patch, Slot},
};

/// What holds for a session, in seconds; what is absent never runs out.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Deadlines {
    /// How long it may rest before it is archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u32>,
    /// How long a client's answer to a call may be waited for before the call is denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_seconds: Option<u32>,
    /// How old it may become before it is terminated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_seconds: Option<u32>,
}

/// A change of deadlines.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct UpdateDeadlines {
    /// Of [`Deadlines::idle_seconds`].
    pub idle: Patch<u32>,
    /// Of [`Deadlines::answer_seconds`].
    pub answer: Patch<u32>,
    /// Of [`Deadlines::total_seconds`].
    pub total: Patch<u32>,
}

impl UpdateDeadlines {
    /// Reads a request body: a number sets, null removes, what is absent stays.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and where.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::root(body).object()?;
        let change = Self {
            idle: seconds(object.field("idle_seconds"))?,
            answer: seconds(object.field("answer_seconds"))?,
            total: seconds(object.field("total_seconds"))?,
        };
        object.finish()?;
        Ok(change)
    }

    /// Returns what holds afterwards.
    pub fn over(self, before: Deadlines) -> Deadlines {
        Deadlines {
            idle_seconds: self.idle.over(before.idle_seconds),
            answer_seconds: self.answer.over(before.answer_seconds),
            total_seconds: self.total.over(before.total_seconds),
        }
    }
}

fn seconds(slot: Slot<'_>) -> Result<Patch<u32>, Problem> {
    slot.patch().try_map(|at| {
        let seconds = at.int(limits::DEADLINE)?;
        u32::try_from(seconds).map_err(|_| at.refuse("is out of bounds"))
    })
}

/// Which deadline.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Deadline {
    /// The session's age: it is terminated.
    Total,
    /// A client's answer: the calls are denied.
    Answer,
    /// Its rest: it is archived.
    Idle,
}

impl Deadline {
    /// Returns the word that tables use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Answer => "answer",
            Self::Idle => "idle",
        }
    }
}

/// What runs out next.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct NextDeadline {
    /// Which.
    pub deadline: Deadline,
    /// When.
    pub at: Micros,
}

/// The deadlines of a session, as the API shows them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "session_deadlines")]
pub struct SessionDeadlines {
    /// The session.
    pub session_id: SessionId,
    /// Null where there is none.
    pub idle_seconds: Option<u32>,
    /// Null where there is none.
    pub answer_seconds: Option<u32>,
    /// Null where there is none.
    pub total_seconds: Option<u32>,
    /// What runs out next as things stand.
    pub next: Option<NextDeadline>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_sets_removes_and_keeps() {
        let before = Deadlines {
            idle_seconds: Some(60),
            answer_seconds: Some(60),
            total_seconds: None,
        };
        let change = json!({"idle_seconds": null, "total_seconds": 31_536_000});
        let after = UpdateDeadlines::parse(&change).unwrap().over(before);
        let expected = Deadlines {
            idle_seconds: None,
            answer_seconds: Some(60),
            total_seconds: Some(31_536_000),
        };
        assert_eq!(after, expected);
        assert_eq!(
            serde_json::to_value(after)
                .unwrap()
                .as_object()
                .unwrap()
                .len(),
            2
        );
    }

    #[test]
    fn what_is_no_number_of_seconds_is_refused_by_name() {
        for (body, words) in [
            (
                json!({"idle_seconds": 0}),
                "idle_seconds: must be an integer from 1 to 31536000",
            ),
            (json!({"answer_seconds": 31_536_001}), "answer_seconds: "),
            (json!({"total_seconds": 1.5}), "total_seconds: "),
            (json!({"total_seconds": "60"}), "total_seconds: "),
            (json!({"idle": 60}), "idle: unknown field"),
            (json!([]), "the body: "),
        ] {
            let problem = UpdateDeadlines::parse(&body).unwrap_err();
            assert!(problem.message.starts_with(words), "{body}: {problem:?}");
        }
        assert_eq!(
            UpdateDeadlines::parse(&json!({})).unwrap(),
            UpdateDeadlines::default()
        );
    }
}
