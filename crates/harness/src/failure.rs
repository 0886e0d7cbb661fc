//! From a model's error to what the session is told and what follows.

use std::time::Duration;

use outlast_model::{Error, RetryKind};
use outlast_protocol::{
    Micros,
    event::{Body as _, ErrorKind, RetryStatus, SessionError},
    seam::Entropy,
};
use outlast_session::{Failure, Then};

/// How failures of the model are retried.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    /// Retries of one request before the turn is given up.
    pub most: u32,
    /// The wait before the first one; doubled each time.
    pub first: Duration,
    /// The longest wait of our own choice; a provider's `retry-after` may ask for more.
    pub longest: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            most: 8,
            first: Duration::from_secs(1),
            longest: Duration::from_secs(60),
        }
    }
}

impl Retries {
    /// Decides what follows the failure after `done` retries.
    pub(crate) fn failure(
        &self,
        error: &Error,
        done: u32,
        now: Micros,
        entropy: &dyn Entropy,
    ) -> Failure {
        let (kind, after) = match error {
            Error::Retry { kind, after, .. } => (named(*kind), Some(*after)),
            Error::Billing { .. } => (ErrorKind::Billing, None),
            Error::Overflow { .. }
            | Error::NoModel { .. }
            | Error::Refused { .. }
            | Error::Withdrawn { .. }
            | Error::Fatal { .. } => (ErrorKind::ModelRequestFailed, None),
        };
        let then = match after {
            Some(after) if done < self.most => {
                let wait = after.unwrap_or_default().max(self.wait(done, entropy));
                Then::Retry(now.after(wait))
            }
            Some(_) => Then::Exhausted,
            // The session's model never changes: no later turn could do better.
            None if matches!(error, Error::NoModel { .. }) => Then::Terminal,
            None => Then::Exhausted,
        };
        told(kind, &error.to_string(), then)
    }

    /// Returns the wait before the next retry: exponential, the last quarter drawn by chance.
    fn wait(&self, done: u32, entropy: &dyn Entropy) -> Duration {
        let full = self
            .first
            .saturating_mul(1_u32 << done.min(16))
            .min(self.longest);
        let mut byte = [0];
        entropy.fill(&mut byte);
        let [chance] = byte;
        full - full.mul_f64(f64::from(chance) / 1_024.0)
    }
}

/// Makes the failure of a conversation that does not fit the model.
pub(crate) fn overflow(model: &str, window: u64) -> Failure {
    let words = format!(
        "the conversation no longer fits the context window of model `{model}` ({window} tokens); \
         start a new session with what is still needed"
    );
    told(ErrorKind::ModelRequestFailed, &words, Then::Exhausted)
}

/// Makes the failure of a log that cannot be read as a conversation.
pub(crate) fn unreadable(words: &str) -> Failure {
    told(ErrorKind::Unknown, words, Then::Terminal)
}

fn told(kind: ErrorKind, words: &str, then: Then) -> Failure {
    let status = match then {
        Then::Retry(_) => RetryStatus::Retrying,
        Then::Exhausted => RetryStatus::Exhausted,
        Then::Terminal => RetryStatus::Terminal,
    };
    Failure {
        error: SessionError::new(kind, words, status).to_raw().into(),
        then,
    }
}

fn named(kind: RetryKind) -> ErrorKind {
    match kind {
        RetryKind::Overloaded => ErrorKind::ModelOverloaded,
        RetryKind::RateLimited => ErrorKind::ModelRateLimited,
        RetryKind::Failed => ErrorKind::ModelRequestFailed,
    }
}
