//! What the tests of several files share.

use proptest::prelude::*;
use serde_json::Value;

use crate::agent::Effort;
use crate::facts::{ModelFacts, Models};

/// Any JSON, with the words of the API among its keys and texts.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        prop::sample::select(vec![
            "type",
            "events",
            "content",
            "text",
            "user.message",
            "system.message",
            "image",
            "source",
            "base64",
            "data",
            "document",
            "title",
            "tool_use_id",
            "result",
            "deny",
            "agent",
            "id",
            "model",
            "tools",
            "agent_toolset_20260401",
            "configs",
            "name",
            "web_fetch",
            "allowed_domains",
            "url_sources",
            "custom",
            "input_schema",
            "object",
            "properties",
            "metadata",
            "config",
            "cloud",
            "networking",
            "limited",
            "allowed_hosts",
            "environment_id",
            "initial_events",
            "default_config",
            "permission_policy",
            "effort",
            "sevt_010000000000000000000007",
            "agent_010000000000000000000001",
            "env_010000000000000000000001",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// One model with every setting, `plain` with none; no other id is known.
#[derive(Debug)]
pub(crate) struct TwoModels;

impl Models for TwoModels {
    fn facts(&self, model: &str) -> Option<ModelFacts> {
        let full = match model {
            "full" => true,
            "plain" => false,
            _ => return None,
        };
        let efforts = if full {
            vec![Effort::Low, Effort::Medium, Effort::High]
        } else {
            Vec::new()
        };
        Some(ModelFacts {
            default_effort: if full { Effort::Medium } else { Effort::High },
            efforts,
            supports_speed: full,
            supports_inference_geo: full,
            mid_conversation_system: full,
        })
    }
}
