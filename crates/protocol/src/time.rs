//! Moments as integer microseconds UTC, RFC 3339 with six digits on the wire.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A moment: microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Micros(pub i64);

impl Micros {
    /// A moment that never comes.
    pub const MAX: Self = Self(i64::MAX);

    /// Reads an RFC 3339 moment with any offset; digits below a microsecond are cut.
    pub fn parse(text: &str) -> Option<Self> {
        let moment: jiff::Timestamp = text.parse().ok()?;
        Some(Self(moment.as_microsecond()))
    }

    /// Returns whole milliseconds, never negative.
    pub fn millis(self) -> u64 {
        u64::try_from(self.0 / 1_000).unwrap_or(0)
    }

    /// Returns the time from `earlier` to this moment, zero if it lies behind.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns the moment that lies `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)),
        )
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(moment) => write!(f, "{moment:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl Serialize for Micros {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Micros {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not an RFC 3339 time"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_six_digits_and_reads_offsets() {
        assert_eq!(Micros(1).to_string(), "1970-01-01T00:00:00.000001Z");
        assert_eq!(Micros::parse("1970-01-01T01:00:00+01:00"), Some(Micros(0)));
        assert_eq!(Micros::parse("yesterday"), None);
    }
}
