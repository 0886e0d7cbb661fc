//! What one table entry says, and how entries are laid over each other.

use serde::Deserialize;

use super::{Effort, LongPrompt, ModelFacts, Prices, Thinking};

/// The window of a model nobody has described.
const WINDOW: u64 = 200_000;

/// The output of a model nobody has described: what every server is likely to allow.
const MAX_OUTPUT: u64 = 8_192;

/// The fields that an entry names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    window: Option<u64>,
    max_output: Option<u64>,
    default_effort: Option<Effort>,
    efforts: Option<Vec<Effort>>,
    thinking: Option<Thinking>,
    mid_conversation_system: Option<bool>,
    fast: Option<bool>,
    inference_geo: Option<bool>,
    cache_min: Option<u64>,
    prices: Option<Prices>,
    fast_prices: Option<Prices>,
    long_prompt: Option<LongPrompt>,
}

impl Entry {
    /// Replaces every field that `other` names.
    pub(super) fn take_over(&mut self, other: &Self) {
        fn put<T: Clone>(field: &mut Option<T>, other: Option<&T>) {
            if other.is_some() {
                *field = other.cloned();
            }
        }
        put(&mut self.window, other.window.as_ref());
        put(&mut self.max_output, other.max_output.as_ref());
        put(&mut self.default_effort, other.default_effort.as_ref());
        put(&mut self.efforts, other.efforts.as_ref());
        put(&mut self.thinking, other.thinking.as_ref());
        put(
            &mut self.mid_conversation_system,
            other.mid_conversation_system.as_ref(),
        );
        put(&mut self.fast, other.fast.as_ref());
        put(&mut self.inference_geo, other.inference_geo.as_ref());
        put(&mut self.cache_min, other.cache_min.as_ref());
        put(&mut self.fast_prices, other.fast_prices.as_ref());
        if other.prices.is_some() {
            // New prices are prices for every length unless they say otherwise.
            self.long_prompt = None;
        }
        put(&mut self.prices, other.prices.as_ref());
        put(&mut self.long_prompt, other.long_prompt.as_ref());
    }

    /// Fills in what nobody named.
    pub(super) fn resolve(self) -> ModelFacts {
        let efforts = self.efforts.unwrap_or_default();
        ModelFacts {
            window: self.window.unwrap_or(WINDOW),
            max_output: self.max_output.unwrap_or(MAX_OUTPUT),
            // An override may take the efforts away with an empty list.
            default_effort: self.default_effort.filter(|_| !efforts.is_empty()),
            efforts,
            thinking: self.thinking.unwrap_or_default(),
            mid_conversation_system: self.mid_conversation_system.unwrap_or_default(),
            fast: self.fast.unwrap_or_default(),
            inference_geo: self.inference_geo.unwrap_or_default(),
            cache_min: self.cache_min,
            prices: self.prices,
            fast_prices: self.fast_prices,
            long_prompt: self.long_prompt,
        }
    }
}
