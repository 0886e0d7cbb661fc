//! API keys: `/outlast/v1/keys`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Micros, Problem, id::ApiKeyId, limits, read::At};

/// What a key may do; each scope may do all that the ones before it may.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Read.
    ReadOnly,
    /// Change what users have: sessions, agents, files, vaults; and ask models.
    ReadWrite,
    /// Everything, keys and the audit log included.
    Admin,
}

impl Scope {
    /// Every scope by its word.
    pub const WORDS: [(&'static str, Self); 3] = [
        ("read-only", Self::ReadOnly),
        ("read-write", Self::ReadWrite),
        ("admin", Self::Admin),
    ];

    /// Returns the word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::ReadWrite => "read-write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A text is no scope.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be `read-only`, `read-write` or `admin`")]
pub struct NoScope;

impl FromStr for Scope {
    type Err = NoScope;

    fn from_str(text: &str) -> Result<Self, NoScope> {
        let known = Self::WORDS.into_iter().find(|(word, _)| *word == text);
        known.map(|(_, scope)| scope).ok_or(NoScope)
    }
}

/// A key that is wanted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CreateKey {
    /// What people call it; several may have one name.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// After how many seconds it is valid no more.
    pub expires_in_seconds: Option<u32>,
}

impl CreateKey {
    /// Reads a request body.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and where.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::root(body).object()?;
        let name = object.field("name").required()?;
        let name = name.string(1..=limits::KEY_NAME)?;
        let scope = object.field("scope").required()?.word(&Scope::WORDS)?;
        let expiry = object.field("expires_in_seconds");
        let expires_in_seconds = expiry.read(|at| {
            let seconds = at.int(limits::KEY_EXPIRY)?;
            u32::try_from(seconds).map_err(|_| at.refuse("is out of bounds"))
        })?;
        object.finish()?;
        Ok(Self {
            name,
            scope,
            expires_in_seconds,
        })
    }
}

/// A key as the API shows it: never its secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "api_key")]
pub struct Key {
    /// Its id.
    pub id: ApiKeyId,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// When it was made.
    pub created_at: Micros,
    /// From when on it is valid no more; null if it does not expire.
    pub expires_at: Option<Micros>,
    /// When it was revoked; null if it was not.
    pub revoked_at: Option<Micros>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scopes_are_ordered_and_have_words() {
        assert!(Scope::ReadOnly < Scope::ReadWrite && Scope::ReadWrite < Scope::Admin);
        for (word, scope) in Scope::WORDS {
            assert_eq!((scope.word(), word.parse()), (word, Ok(scope)));
            assert_eq!(serde_json::to_value(scope).unwrap(), json!(word));
        }
        assert_eq!("root".parse::<Scope>(), Err(NoScope));
    }

    #[test]
    fn a_request_names_a_key_and_its_scope() {
        let read = |body: Value| CreateKey::parse(&body);
        let wanted = read(json!({
            "name": "ci", "scope": "read-write", "expires_in_seconds": 86_400,
        }));
        let expected = CreateKey {
            name: "ci".to_owned(),
            scope: Scope::ReadWrite,
            expires_in_seconds: Some(86_400),
        };
        assert_eq!(wanted, Ok(expected));
        for (body, words) in [
            (json!({"scope": "admin"}), "name: is required"),
            (
                json!({"name": "", "scope": "admin"}),
                "name: must have 1 to 256",
            ),
            (json!({"name": "x"}), "scope: is required"),
            (
                json!({"name": "x", "scope": "root"}),
                "scope: must be `read-only`, `read-write` or `admin`, not `root`",
            ),
            (
                json!({"name": "x", "scope": "admin", "expires_in_seconds": 0}),
                "expires_in_seconds: must be an integer from 1 to",
            ),
            (
                json!({"name": "x", "scope": "admin", "key": "mine"}),
                "key: unknown field",
            ),
        ] {
            let problem = read(body.clone()).unwrap_err();
            assert!(problem.message.starts_with(words), "{body}: {problem:?}");
        }
    }
}
