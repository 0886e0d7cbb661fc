//! What is known about models, as far as the wire's rules ask for it.

use std::fmt;

use crate::agent::Effort;

/// The facts of one model.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ModelFacts {
    /// The effort of a request that names none.
    pub default_effort: Effort,
    /// The efforts it takes; empty where it has no such setting.
    pub efforts: Vec<Effort>,
    /// Whether it has a fast mode.
    pub supports_speed: bool,
    /// Whether its requests can be pinned to a region.
    pub supports_inference_geo: bool,
    /// Whether it takes `role: "system"` turns after the first message.
    pub mid_conversation_system: bool,
}

/// Knows the models that this server can reach.
pub trait Models: fmt::Debug + Send + Sync {
    /// Returns the facts of a model; `None` if no configured backend takes that id.
    fn facts(&self, model: &str) -> Option<ModelFacts>;
}
