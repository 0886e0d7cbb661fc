//! The models that agents may name: what some backend takes, with what the table says of it.

use std::sync::Arc;

use outlast_egress::Routes;
use outlast_model::{Facts, facts};
use outlast_protocol::{
    agent::Effort,
    facts::{ModelFacts, Models},
};

/// Joins backends and facts.
#[derive(Debug)]
pub(crate) struct Reachable {
    pub(crate) routes: Arc<Routes>,
    pub(crate) facts: Arc<Facts>,
}

impl Models for Reachable {
    fn facts(&self, model: &str) -> Option<ModelFacts> {
        self.routes.has(model).then(|| shown(&self.facts.of(model)))
    }
}

/// Returns what the wire's rules ask for.
fn shown(facts: &facts::ModelFacts) -> ModelFacts {
    ModelFacts {
        // The wire always shows an effort; a model without the setting shows the usual one.
        default_effort: facts.default_effort.map_or(Effort::High, effort),
        efforts: facts.efforts.iter().copied().map(effort).collect(),
        supports_speed: facts.fast,
        supports_inference_geo: facts.inference_geo,
        mid_conversation_system: facts.mid_conversation_system,
    }
}

fn effort(effort: facts::Effort) -> Effort {
    match effort {
        facts::Effort::Low => Effort::Low,
        facts::Effort::Medium => Effort::Medium,
        facts::Effort::High => Effort::High,
        facts::Effort::Xhigh => Effort::Xhigh,
        facts::Effort::Max => Effort::Max,
    }
}

#[cfg(test)]
mod tests {
    use outlast_model::Scripted;

    use super::*;

    #[test]
    fn without_an_upstream_only_the_scripted_model_is_reachable() {
        let routes = Arc::new(Routes::new(Scripted::new(), None));
        let models = Reachable {
            routes,
            facts: Arc::new(Facts::load(None).unwrap()),
        };
        let scripted = models.facts(Scripted::ID).unwrap();
        assert_eq!(scripted.efforts.len(), 5);
        assert!(models.facts("claude-opus-4-8").is_none());
    }
}
