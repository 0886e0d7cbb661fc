//! Whether a request to a model may be paid for.

use async_trait::async_trait;
use outlast_kernel::Asker;
use outlast_protocol::{Problem, id::ApiKeyId};

/// For whom a model is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Payer {
    /// A client with this key.
    Key(ApiKeyId),
    /// A brain at work.
    Brain(Asker),
}

/// Decides about requests before they leave.
#[async_trait]
pub trait Budget: std::fmt::Debug + Send + Sync {
    /// Lets a request leave, or says why it may not.
    ///
    /// It is asked before anything of the request is recorded or sent, so what it refuses has no
    /// span and cost nothing. A refused turn of a session ends as one that cannot be paid for.
    async fn admit(&self, payer: Payer, model: &str) -> Result<(), Problem>;
}

/// Pays for everything.
#[derive(Clone, Copy, Debug)]
pub struct Unbounded;

#[async_trait]
impl Budget for Unbounded {
    async fn admit(&self, _: Payer, _: &str) -> Result<(), Problem> {
        Ok(())
    }
}
