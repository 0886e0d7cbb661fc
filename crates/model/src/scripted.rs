//! An offline model whose conversation carries its own script.
//!
//! It understands nothing and says so. What it does with a script, what it does without one, and
//! which requests it refuses is described in `docs/scripted-model.md`. Its answers are a function
//! of the request body alone, but for scripted failures that end after a number of times: those
//! are counted in memory.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use crate::{Call, Error, Events, Failure, Model};

mod check;
mod fill;
mod free;
mod plan;
mod play;
mod request;
mod scene;
mod script;
mod sign;
mod tokens;

pub use check::Dialect;
pub use plan::Plan;

use check::Purpose;
pub(crate) use check::{BODY, too_large};
use scene::{Part, Scene};
use script::{Fault, FaultPlace};

/// The most failures remembered at once; beyond it all counters start anew.
const REMEMBERED: usize = 4_096;

/// The scripted model.
#[derive(Debug, Default)]
pub struct Scripted {
    /// How often each scripted failure has been played.
    played: Mutex<HashMap<blake3::Hash, u32>>,
}

/// A refusal in the API's own shape.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    /// The HTTP status.
    pub status: u16,
    /// `error.type`.
    pub kind: String,
    /// `error.message`.
    pub message: String,
    /// The wait to ask for.
    pub retry_after: Option<Duration>,
}

impl Rejection {
    /// Makes a 400 `invalid_request_error`.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self {
            status: 400,
            kind: "invalid_request_error".to_owned(),
            message: message.into(),
            retry_after: None,
        }
    }

    /// Returns the body, with the id of the request if there is one.
    pub fn body(&self, request_id: Option<&str>) -> String {
        let error = json!({"type": self.kind, "message": self.message});
        match request_id {
            Some(id) => json!({"type": "error", "error": error, "request_id": id}),
            None => json!({"type": "error", "error": error}),
        }
        .to_string()
    }

    /// Returns what an upstream that answered so would have come to.
    fn into_error(self) -> Error {
        Failure {
            status: Some(self.status),
            kind: Some(self.kind),
            message: self.message,
            after: self.retry_after,
            should_retry: None,
        }
        .classify()
    }
}

impl Scripted {
    /// The model id under which it is known.
    pub const ID: &'static str = "scripted";

    /// Makes one that remembers no failures yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Works out the answer to a request body.
    ///
    /// `who` keeps the counters of failures of different conversations apart where their bodies
    /// are the same.
    ///
    /// # Errors
    /// What the real API would refuse, a script that cannot be read, and scripted failures.
    pub fn answer(&self, body: &[u8], dialect: Dialect, who: &str) -> Result<Plan, Rejection> {
        let request = check::check(body, dialect, Purpose::Answer)?;
        let scene = Scene::set(&request)?;
        if request.ends_with_assistant() && !scene.is_continuation() {
            return Err(Rejection::invalid(
                "This model does not support assistant message prefill. The conversation must \
                 end with a user message.",
            ));
        }
        let Part { step, turn } = scene.part();
        match step
            .error
            .as_ref()
            .filter(|fault| self.is_due(fault, &request, who))
        {
            Some(fault) => match fault.place() {
                FaultPlace::Start => Err(fault.rejection()),
                FaultPlace::Midway => Ok(play::play(&step, turn, &scene).fail(Some(fault))),
                FaultPlace::Drop => Ok(play::play(&step, turn, &scene).fail(None)),
            },
            None => Ok(play::play(&step, turn, &scene)),
        }
    }

    /// Estimates the input tokens of a request body: about a quarter of its characters.
    ///
    /// # Errors
    /// What the real API would refuse.
    pub fn count_tokens(&self, body: &[u8], dialect: Dialect) -> Result<u64, Rejection> {
        Ok(check::check(body, dialect, Purpose::Count)?.input_tokens)
    }

    /// Tells whether a failure is to be played this time, and counts it.
    fn is_due(&self, fault: &Fault, request: &request::Request, who: &str) -> bool {
        let Some(times) = fault.times() else {
            return true;
        };
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(who.as_bytes())
            .update(&[0])
            .update(request.conversation.as_bytes());
        let key = hasher.finalize();
        let mut played = self.played.lock().unwrap_or_else(PoisonError::into_inner);
        if played.len() >= REMEMBERED && !played.contains_key(&key) {
            played.clear();
        }
        let count = played.entry(key).or_insert(0);
        if *count < times {
            *count += 1;
            return true;
        }
        // Forgotten once over, so that the same conversation can be played again.
        played.remove(&key);
        false
    }
}

#[async_trait]
impl Model for Scripted {
    async fn stream(&self, call: Call) -> Result<Events, Error> {
        let who = call.brain.session.to_string();
        let body = call.body.get().as_bytes();
        let plan = self.answer(body, Dialect::default(), &who);
        Ok(plan.map_err(Rejection::into_error)?.into_events())
    }
}

#[cfg(test)]
mod tests;
