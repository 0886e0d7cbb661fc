//! Samples and what is said of them.

use std::time::Duration;

use serde::Serialize;

/// Values that were measured under the same conditions, in the order they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

/// What is said of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// How many.
    pub(crate) count: usize,
    /// The least.
    pub(crate) min: f64,
    /// A quarter is below.
    pub(crate) p25: f64,
    /// The median.
    pub(crate) p50: f64,
    /// A quarter is above.
    pub(crate) p75: f64,
    /// One of twenty is above.
    pub(crate) p95: f64,
    /// One of a hundred is above.
    pub(crate) p99: f64,
}

impl Samples {
    /// Adds a value.
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Adds a time, in milliseconds.
    pub(crate) fn push_ms(&mut self, time: Duration) {
        self.push(time.as_secs_f64() * 1e3);
    }

    /// Returns other values made of these.
    pub(crate) fn map(&self, with: impl Fn(f64) -> f64) -> Self {
        Self(self.0.iter().map(|value| with(*value)).collect())
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the value below which `part` (0 to 1) of the samples lie; NaN without samples.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        // Nearest rank; both casts are of small numbers that are not negative.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank within the samples"
        )]
        let rank = (part * (sorted.len() as f64 - 1.0)).round().max(0.0) as usize;
        sorted.get(rank).copied().unwrap_or(f64::NAN)
    }

    /// Returns the median.
    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns what is said of them.
    pub(crate) fn summary(&self) -> Summary {
        Summary {
            count: self.0.len(),
            min: self.quantile(0.0),
            p25: self.quantile(0.25),
            p50: self.quantile(0.5),
            p75: self.quantile(0.75),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
        }
    }

    /// Pairs values of the same round; empty unless there are as many on both sides.
    ///
    /// What both halves of a pair suffered from at that moment drops out.
    pub(crate) fn paired(&self, other: &Self, with: impl Fn(f64, f64) -> f64) -> Self {
        if self.0.len() != other.0.len() {
            return Self::default();
        }
        Self(
            self.0
                .iter()
                .zip(&other.0)
                .map(|(a, b)| with(*a, *b))
                .collect(),
        )
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_ranks_of_the_sorted_samples() {
        let samples: Samples = [5.0, 1.0, 4.0, 2.0, 3.0].into_iter().collect();
        let summary = samples.summary();
        assert_eq!((summary.count, summary.min, summary.p50), (5, 1.0, 3.0));
        assert_eq!((summary.p25, summary.p75, summary.p99), (2.0, 4.0, 5.0));
    }

    #[test]
    fn nothing_measured_is_not_a_number() {
        assert!(Samples::default().median().is_nan());
    }

    #[test]
    fn pairs_are_of_the_same_round() {
        let (a, b) = (
            [4.0, 9.0, 2.0].into_iter().collect(),
            [2.0, 3.0, 2.0].into_iter().collect(),
        );
        let ratios = Samples::paired(&a, &b, |a, b| a / b);
        assert_eq!(ratios.median(), 2.0);
        let short: Samples = [1.0].into_iter().collect();
        assert!(a.paired(&short, |a, b| a - b).median().is_nan());
    }
}
