//! Whoever has the key to a provider of models, in this process or in another.

use async_trait::async_trait;

use super::{Forward, Forwarded, Upstream};
use crate::Model;

/// Passes requests on under a key that whoever asks does not see.
#[async_trait]
pub trait Provider: Model {
    /// Passes a request on, and returns when the answer has begun, whatever its status.
    ///
    /// Dropping the future or the body ends the request.
    ///
    /// # Errors
    ///
    /// If the provider cannot be reached or does not answer, in words that may be shown.
    async fn forward(&self, forward: Forward) -> Result<Forwarded, String>;
}

#[async_trait]
impl Provider for Upstream {
    async fn forward(&self, forward: Forward) -> Result<Forwarded, String> {
        Self::forward(self, forward).await
    }
}
