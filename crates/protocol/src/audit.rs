//! The audit log: who did what. `GET /outlast/v1/audit`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

use crate::{
    Micros,
    id::{ApiKeyId, RequestId, SessionId},
    words::words,
};

/// Who did something.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Actor {
    /// Whoever has this key.
    Key(ApiKeyId),
    /// A brain or hand of this session.
    Session(SessionId),
    /// Whoever has the data directory: the command line without a server.
    Cli,
    /// The server itself, as it is configured.
    Server,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => id.fmt(f),
            Self::Session(id) => id.fmt(f),
            Self::Cli => f.write_str("cli"),
            Self::Server => f.write_str("server"),
        }
    }
}

/// A text names nobody.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be the id of an API key or of a session, `cli` or `server`")]
pub struct Nobody;

impl FromStr for Actor {
    type Err = Nobody;

    fn from_str(text: &str) -> Result<Self, Nobody> {
        match text {
            "cli" => Ok(Self::Cli),
            "server" => Ok(Self::Server),
            text => ApiKeyId::parse(text)
                .map(Self::Key)
                .or_else(|| SessionId::parse(text).map(Self::Session))
                .ok_or(Nobody),
        }
    }
}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

words! {
    /// What came of it.
    pub enum AuditOutcome {
        /// It was done.
        Done = "done",
        /// It was refused, and changed nothing.
        Refused = "refused",
        /// It failed; what it was to change may have been changed.
        Failed = "failed",
    }
}

/// What somebody did.
///
/// It holds ids, names of operations, hosts and rules: no words of users, and no secret.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Entry {
    /// When it began.
    pub at: Micros,
    /// Who.
    pub actor: Actor,
    /// The operation: `POST /v1/sessions` of the API, or a word such as `keys.create`.
    pub action: String,
    /// What it was done to.
    pub subject_id: Option<String>,
    /// The request that asked for it.
    pub request_id: Option<RequestId>,
    /// What came of it; null if nobody lived to say.
    pub outcome: Option<AuditOutcome>,
    /// The HTTP status that was answered.
    pub status: Option<u16>,
    /// What else belongs to it.
    pub details: Map<String, Value>,
}

impl Entry {
    /// Makes an entry that says no more than who and what.
    pub fn new(at: Micros, actor: Actor, action: impl Into<String>) -> Self {
        Self {
            at,
            actor,
            action: action.into(),
            subject_id: None,
            request_id: None,
            outcome: None,
            status: None,
            details: Map::new(),
        }
    }

    /// Says what it was done to.
    #[must_use]
    pub fn of(self, subject: impl fmt::Display) -> Self {
        Self {
            subject_id: Some(subject.to_string()),
            ..self
        }
    }

    /// Says what came of it.
    #[must_use]
    pub fn came_to(self, outcome: AuditOutcome) -> Self {
        Self {
            outcome: Some(outcome),
            ..self
        }
    }

    /// Adds what else belongs to it.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }
}

/// What came of a request whose entry was written before it began.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Which request.
    pub request_id: RequestId,
    /// What came of it.
    pub outcome: AuditOutcome,
    /// The HTTP status that was answered.
    pub status: u16,
    /// What it made.
    pub subject_id: Option<String>,
}

/// An entry in its place, as the API shows it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "audit_entry")]
pub struct AuditEntry {
    /// Its place: entries that were written later have greater ones.
    pub position: u64,
    /// What it says.
    #[serde(flatten)]
    pub entry: Entry,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::seam::Entropy;

    #[derive(Debug)]
    struct Zeroes;

    impl Entropy for Zeroes {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(0);
        }
    }

    #[test]
    fn actors_have_names() {
        let (at, zeroes) = (Micros(0), Zeroes);
        for actor in [
            Actor::Key(ApiKeyId::mint(at, &zeroes)),
            Actor::Session(SessionId::mint(at, &zeroes)),
            Actor::Cli,
            Actor::Server,
        ] {
            assert_eq!(actor.to_string().parse(), Ok(actor));
        }
        assert_eq!("root".parse::<Actor>(), Err(Nobody));
    }

    #[test]
    fn an_entry_is_one_flat_object() {
        let entry = Entry::new(Micros(0), Actor::Cli, "keys.create")
            .of("apikey_1")
            .came_to(AuditOutcome::Done)
            .with("scope", "admin");
        let shown = AuditEntry { position: 7, entry };
        let value = serde_json::to_value(&shown).unwrap();
        assert_eq!(
            value,
            json!({
                "type": "audit_entry", "position": 7, "at": "1970-01-01T00:00:00.000000Z",
                "actor": "cli", "action": "keys.create", "subject_id": "apikey_1",
                "request_id": null, "outcome": "done", "status": null,
                "details": {"scope": "admin"},
            })
        );
        assert_eq!(serde_json::from_value::<AuditEntry>(value).unwrap(), shown);
    }
}
