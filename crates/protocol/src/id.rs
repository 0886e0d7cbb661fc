//! Identifiers: a prefix, `01`, and a version 7 UUID as 22 base62 digits.
//!
//! An id sorts by the millisecond it was made in. Clients must treat it as opaque.

use crate::{Micros, base62, seam::Entropy};

/// Draws a version 7 UUID as a number.
fn draw(at: Micros, entropy: &dyn Entropy) -> u128 {
    let mut random = [0; 10];
    entropy.fill(&mut random);
    uuid::Builder::from_unix_timestamp_millis(at.millis(), &random)
        .into_uuid()
        .as_u128()
}

/// Declares an id type with its prefix.
macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name(u128);

        impl $name {
            /// What the text form begins with.
            pub const PREFIX: &'static str = $prefix;

            /// Makes a new id of the moment `at`.
            pub fn mint(at: Micros, entropy: &dyn Entropy) -> Self {
                Self(draw(at, entropy))
            }

            /// Returns the moment it was made, to the millisecond; only ever a hint.
            pub fn minted_at(&self) -> Micros {
                let millis = i64::try_from(self.0 >> 80).unwrap_or(0);
                Micros(millis.saturating_mul(1_000))
            }

            /// Reads the text form; `None` if it is not one of this type.
            pub fn parse(text: &str) -> Option<Self> {
                let digits = text.strip_prefix($prefix)?.strip_prefix("01")?;
                base62::decode(digits).map(Self)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}01{}", $prefix, base62::encode(self.0))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                Self::parse(text).ok_or(NotAnId { prefix: $prefix })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// A text is not an id of the expected type.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not an id: `{prefix}01` and 22 letters or digits are expected")]
pub struct NotAnId {
    /// The prefix that was expected.
    pub prefix: &'static str,
}

id_type!(
    /// An agent: a versioned configuration.
    AgentId, "agent_"
);
id_type!(
    /// An API key, as an actor; not the secret.
    ApiKeyId, "apikey_"
);
id_type!(
    /// A credential of a vault.
    CredentialId, "vcrd_"
);
id_type!(
    /// An environment.
    EnvironmentId, "env_"
);
id_type!(
    /// An event of a session's log; its arrival and its place share one.
    EventId, "sevt_"
);
id_type!(
    /// A file; blobs of files are named by such ids too.
    FileId, "file_"
);
id_type!(
    /// One life of a hand, from provisioning to its end.
    IncarnationId, "hand_"
);
id_type!(
    /// One life of a server process.
    ProcessId, "proc_"
);
id_type!(
    /// An HTTP request.
    RequestId, "req_"
);
id_type!(
    /// What is mounted in a session.
    ResourceId, "sesrsc_"
);
id_type!(
    /// A session.
    SessionId, "sesn_"
);
id_type!(
    /// A thread of a session.
    ThreadId, "sthr_"
);
id_type!(
    /// A vault.
    VaultId, "vlt_"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Ones;

    impl Entropy for Ones {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(1);
        }
    }

    #[test]
    fn an_id_has_prefix_version_and_22_digits() {
        let id = SessionId::mint(Micros(1_700_000_000_000_000), &Ones);
        let text = id.to_string();
        assert_eq!(text.len(), "sesn_01".len() + 22);
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(AgentId::parse(&text), None);
    }

    #[test]
    fn later_ids_sort_later() {
        let early = EventId::mint(Micros(1_000_000), &Ones);
        let late = EventId::mint(Micros(2_000_000), &Ones);
        assert!(early < late && early.to_string() < late.to_string());
    }
}
