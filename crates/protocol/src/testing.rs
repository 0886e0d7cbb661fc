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

/// Puts a text into each place of a body: for each value, as the name of each field, as a field beside
/// them, and within a list and an object in place of a value.
pub(crate) fn misplaced(body: &Value, text: &str) -> Vec<Value> {
    let mut all = vec![
        Value::from(text),
        Value::from(vec![text]),
        Value::Object([(text.to_owned(), Value::from(text))].into_iter().collect()),
    ];
    match body {
        Value::Object(map) => {
            let mut more = map.clone();
            more.insert(text.to_owned(), Value::Null);
            all.push(Value::Object(more));
            for (name, value) in map {
                let mut renamed = map.clone();
                renamed.shift_remove(name);
                renamed.insert(text.to_owned(), value.clone());
                all.push(Value::Object(renamed));
                let mut put = |value| {
                    let mut map = map.clone();
                    map.insert(name.clone(), value);
                    all.push(Value::Object(map));
                };
                misplaced(value, text).into_iter().for_each(&mut put);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                for value in misplaced(value, text) {
                    let mut list = list.clone();
                    list.splice(index..=index, [value]);
                    all.push(Value::Array(list));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    all
}
