//! Credentials of hands: the variables of their session's vaults, and the tokens of its repositories.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use outlast_kernel::Bound;
use outlast_protocol::id::{CredentialId, IncarnationId};
use outlast_reach::Pattern;
use outlast_vault::{Failure, Placed, Token, Vault};
use zeroize::Zeroizing;

use super::credentials::{Credentials, Held, Hosts, Unreadable, Way};

/// Hands of which it is kept what was made for them.
const KEPT: usize = 1_024;

/// The user in whose name a token is shown: what hosts of repositories take with any token.
const USER: &str = "x-access-token";

/// What every placeholder begins with, so that a person who meets one knows what it is.
const PLACEHOLDER: &str = "outlast_placeholder_";

/// Credentials that are read from a vault as they are needed.
#[derive(Debug)]
pub struct Vaulted {
    vault: Vault,
    kept: Mutex<HashMap<IncarnationId, Kept>>,
}

/// What was made for a hand, and of what.
#[derive(Debug)]
struct Kept {
    placed: Arc<[Placed]>,
    tokens: Arc<[Token]>,
    held: Arc<[Held]>,
}

impl Vaulted {
    /// Makes one over a vault.
    pub fn new(vault: Vault) -> Self {
        Self {
            vault,
            kept: Mutex::default(),
        }
    }

    fn make(&self, life: IncarnationId, placed: &[Placed], tokens: &[Token]) -> Arc<[Held]> {
        let variables = placed.iter().filter_map(|one| self.variable(life, one));
        variables.chain(tokens.iter().flat_map(basic)).collect()
    }

    /// Returns a variable with what stands for it in one life of one hand.
    fn variable(&self, life: IncarnationId, placed: &Placed) -> Option<Held> {
        Some(Held {
            credential: placed.credential.to_string(),
            vault: Some(placed.vault),
            hosts: hosts(&placed.hosts),
            way: Way::Swap {
                variable: placed.name.clone(),
                placeholder: self.placeholder(life, placed.credential)?,
                secret: placed.value.clone(),
                header: placed.header,
                body: placed.body,
            },
        })
    }

    /// Returns what stands for a credential: the same as long as the life lasts, also after a restart.
    fn placeholder(&self, life: IncarnationId, credential: CredentialId) -> Option<String> {
        let context = format!("{life} {credential}");
        let derived = self.vault.derive("placeholder", context.as_bytes())?;
        let mut text = PLACEHOLDER.to_owned();
        for byte in derived.iter().take(16) {
            // Writing to a text cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Some(text)
    }
}

#[async_trait]
impl Credentials for Vaulted {
    async fn of(&self, bound: &Bound) -> Result<Arc<[Held]>, Unreadable> {
        let unreadable = |error: Failure| Unreadable(error.to_string());
        let placed = self.vault.placed(&bound.vaults).await;
        let placed = placed.map_err(unreadable)?;
        let tokens = self.vault.tokens(&bound.repositories).await;
        let tokens = tokens.map_err(unreadable)?;
        let life = bound.incarnation;
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = all.get(&life)
            && same(&kept.placed, &placed)
            && same(&kept.tokens, &tokens)
        {
            return Ok(kept.held.clone());
        }
        if all.len() >= KEPT {
            all.clear();
        }
        let held = self.make(life, &placed, &tokens);
        let kept = Kept {
            placed,
            tokens,
            held: held.clone(),
        };
        all.insert(life, kept);
        Ok(held)
    }

    fn seed(&self, life: IncarnationId) -> Option<Zeroizing<[u8; 32]>> {
        self.vault.derive("authority", life.to_string().as_bytes())
    }
}

/// Tells whether nothing changed between two looks.
fn same<T>(one: &Arc<[T]>, other: &Arc<[T]>) -> bool {
    Arc::ptr_eq(one, other) || one.is_empty() && other.is_empty()
}

/// Returns where a variable may go; what is no host leads nowhere.
fn hosts(hosts: &outlast_vault::Hosts) -> Hosts {
    match hosts {
        outlast_vault::Hosts::Unrestricted => Hosts::Any,
        outlast_vault::Hosts::Limited(names) => {
            let patterns = names.iter().filter_map(|name| name.parse::<Pattern>().ok());
            Hosts::These(patterns.collect())
        }
    }
}

/// Returns the token of a repository for its own host, port and paths: with and without the `.git` that git may add.
fn basic(token: &Token) -> Vec<Held> {
    let (host, port) = token.url.host();
    let Ok(pattern) = host.parse::<Pattern>() else {
        return Vec::new();
    };
    let base = token.url.base();
    let paths = [base.to_owned(), format!("{base}.git")];
    let held = paths.map(|path| Held {
        credential: token.resource.to_string(),
        vault: None,
        hosts: Hosts::These(vec![pattern.clone()]),
        way: Way::Basic {
            port,
            path,
            user: USER.to_owned(),
            secret: token.secret.clone(),
        },
    });
    held.into()
}
