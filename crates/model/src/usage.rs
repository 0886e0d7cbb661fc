//! What a request used, in tokens.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// How fast a request was served.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// The usual way.
    Standard,
    /// Fast mode, at its own price.
    Fast,
}

/// The figures of one request, zero where the upstream named none.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Usage {
    /// Input tokens neither read from nor written to the cache.
    pub input_tokens: u64,
    /// Output tokens, thinking included.
    pub output_tokens: u64,
    /// Input tokens written to the cache, for both lifetimes together.
    pub cache_creation_input_tokens: u64,
    /// Input tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Of the written ones, those that live for five minutes.
    pub ephemeral_5m: u64,
    /// Of the written ones, those that live for an hour.
    pub ephemeral_1h: u64,
    /// Searches that the provider's own web tool made.
    pub web_search_requests: u64,
    /// The speed served, where the upstream says so.
    pub speed: Option<Speed>,
    /// Where inference ran, where the upstream says so.
    pub inference_geo: Option<String>,
}

impl Usage {
    /// Takes over every figure that `update` names.
    ///
    /// Figures on the wire are cumulative, so the last one named counts and nothing is added up.
    pub fn update(&mut self, update: &UsageUpdate) {
        let creation = update.cache_creation.clone().unwrap_or_default();
        let server = update.server_tool_use.clone().unwrap_or_default();
        for (field, value) in [
            (&mut self.input_tokens, update.input_tokens),
            (&mut self.output_tokens, update.output_tokens),
            (
                &mut self.cache_creation_input_tokens,
                update.cache_creation_input_tokens,
            ),
            (
                &mut self.cache_read_input_tokens,
                update.cache_read_input_tokens,
            ),
            (&mut self.ephemeral_5m, creation.ephemeral_5m_input_tokens),
            (&mut self.ephemeral_1h, creation.ephemeral_1h_input_tokens),
            (&mut self.web_search_requests, server.web_search_requests),
        ] {
            if let Some(value) = value {
                *field = value;
            }
        }
        if update.speed.is_some() {
            self.speed = update.speed;
        }
        if update.inference_geo.is_some() {
            self.inference_geo.clone_from(&update.inference_geo);
        }
    }
}

/// The figures that one event names; what it leaves out stays as it was.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
pub struct UsageUpdate {
    #[serde(default, deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation: Option<CacheCreation>,
    #[serde(default)]
    server_tool_use: Option<ServerToolUse>,
    #[serde(default, deserialize_with = "speed")]
    speed: Option<Speed>,
    #[serde(default)]
    inference_geo: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
struct CacheCreation {
    #[serde(default, deserialize_with = "count")]
    ephemeral_5m_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
struct ServerToolUse {
    #[serde(default, deserialize_with = "count")]
    web_search_requests: Option<u64>,
}

/// Reads a count; what is none is passed over, since a figure is no reason to lose an answer.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Value>::deserialize(deserializer)?.and_then(|value| value.as_u64()))
}

/// Reads a speed; an unknown word is passed over.
fn speed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Speed>, D::Error> {
    let word = Option::<Value>::deserialize(deserializer)?;
    Ok(word.and_then(|word| serde_json::from_value(word).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updated(mut usage: Usage, json: &str) -> Usage {
        usage.update(&serde_json::from_str(json).unwrap());
        usage
    }

    #[test]
    fn the_last_named_figure_counts() {
        let start = updated(
            Usage::default(),
            r#"{"input_tokens":10,"output_tokens":1,"cache_read_input_tokens":5,
                "cache_creation_input_tokens":7,
                "cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4},
                "service_tier":"standard","speed":"fast","inference_geo":"us"}"#,
        );
        let end = updated(
            start,
            r#"{"output_tokens":42,"input_tokens":null,
                "server_tool_use":{"web_search_requests":2,"web_fetch_requests":1}}"#,
        );
        assert_eq!(
            end,
            Usage {
                input_tokens: 10,
                output_tokens: 42,
                cache_creation_input_tokens: 7,
                cache_read_input_tokens: 5,
                ephemeral_5m: 3,
                ephemeral_1h: 4,
                web_search_requests: 2,
                speed: Some(Speed::Fast),
                inference_geo: Some("us".to_owned()),
            }
        );
    }

    #[test]
    fn odd_figures_are_passed_over() {
        let usage = updated(
            Usage::default(),
            r#"{"input_tokens":-1,"output_tokens":"many","speed":"warp","cache_creation":null}"#,
        );
        assert_eq!(usage, Usage::default());
    }
}
