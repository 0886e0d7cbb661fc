//! What a request costs by list price.

use serde::{Deserialize, Serialize};

use super::ModelFacts;
use crate::{Speed, Usage};

/// What a request pinned to a place costs more, in percent.
const PINNED_PERCENT: u128 = 110;

/// List prices in nano-dollars per token, that is thousandths of a dollar per million tokens.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Input that is neither read from nor written to the cache.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input written to the cache for five minutes.
    pub cache_write_5m: u64,
    /// Input written to the cache for an hour.
    pub cache_write_1h: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// One search of the provider's web tool, in nano-dollars; a cent unless stated.
    #[serde(default = "cent")]
    pub web_search: u64,
}

/// Other prices for prompts beyond a length.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrompt {
    /// The longest prompt, cache reads and writes included, that has the usual prices.
    pub over: u64,
    /// The prices of a longer one, for all its tokens.
    pub prices: Prices,
}

fn cent() -> u64 {
    10_000_000
}

impl ModelFacts {
    /// Returns the list cost of one request in nano-dollars; `None` where no price is known.
    ///
    /// A cache write whose lifetime the upstream does not tell counts as five minutes. A request
    /// pinned to the US costs a tenth more. Discounts and contracts are not known here.
    pub fn cost(&self, usage: &Usage) -> Option<u64> {
        let prices = self.prices_for(usage)?;
        let written_1h = usage.ephemeral_1h.min(usage.cache_creation_input_tokens);
        let written_5m = usage.cache_creation_input_tokens - written_1h;
        let tokens = [
            (usage.input_tokens, prices.input),
            (usage.output_tokens, prices.output),
            (usage.cache_read_input_tokens, prices.cache_read),
            (written_5m, prices.cache_write_5m),
            (written_1h, prices.cache_write_1h),
        ]
        .into_iter()
        .map(|(count, price)| count.saturating_mul(price))
        .fold(0, u64::saturating_add);
        let tokens = if usage.inference_geo.as_deref() == Some("us") {
            u64::try_from(u128::from(tokens) * PINNED_PERCENT / 100).unwrap_or(u64::MAX)
        } else {
            tokens
        };
        let searches = usage.web_search_requests.saturating_mul(prices.web_search);
        Some(tokens.saturating_add(searches))
    }

    fn prices_for(&self, usage: &Usage) -> Option<&Prices> {
        if usage.speed == Some(Speed::Fast) {
            return self.fast_prices.as_ref();
        }
        let prompt = usage
            .input_tokens
            .saturating_add(usage.cache_creation_input_tokens)
            .saturating_add(usage.cache_read_input_tokens);
        match &self.long_prompt {
            Some(long) if prompt > long.over => Some(&long.prices),
            Some(_) | None => self.prices.as_ref(),
        }
    }
}
