//! Which backend answers which model.

use std::sync::Arc;

use async_trait::async_trait;
use outlast_model::{Call, Error, Events, Model, Scripted};

/// The backends of this server: the scripted model is always there, an upstream may be.
#[derive(Debug)]
pub struct Routes {
    scripted: Scripted,
    upstream: Option<Arc<dyn Model>>,
}

impl Routes {
    /// The id of the model that is built in.
    pub const SCRIPTED: &'static str = "scripted";

    /// Makes the routes.
    pub fn new(scripted: Scripted, upstream: Option<Arc<dyn Model>>) -> Self {
        Self { scripted, upstream }
    }

    /// Tells whether some backend takes that id.
    pub fn has(&self, model: &str) -> bool {
        model == Self::SCRIPTED || self.upstream.is_some()
    }
}

#[async_trait]
impl Model for Routes {
    async fn stream(&self, call: Call) -> Result<Events, Error> {
        if call.model == Self::SCRIPTED {
            return self.scripted.stream(call).await;
        }
        match &self.upstream {
            Some(upstream) => upstream.stream(call).await,
            None => Err(Error::Fatal {
                message: format!(
                    "no backend is configured for model `{}`: set OUTLAST_UPSTREAM_API_KEY, or use \
                     model `{}`",
                    call.model,
                    Self::SCRIPTED
                ),
            }),
        }
    }
}
