//! The tokens that egress adds to requests for a repository.

use std::sync::Arc;

use outlast_protocol::{id::ResourceId, session::RepositoryUrl};
use outlast_store::SealedSecret;

use crate::{Content, Failure, Secret, Vault, shelf::Revisions};

/// A token for one repository.
#[derive(Clone, Debug)]
pub struct Token {
    /// The resource that it is of.
    pub resource: ResourceId,
    /// The repository that it was sealed for.
    pub url: RepositoryUrl,
    /// The token.
    pub secret: Secret,
}

impl Vault {
    /// Returns the tokens of these repositories, as far as they have any.
    ///
    /// What another server changes is seen some seconds later; as long as nothing changes, the same `Arc` is
    /// returned. One that was changed outside the server is left out.
    ///
    /// # Errors
    ///
    /// As [`placed`](Self::placed).
    pub async fn tokens(&self, repositories: &[ResourceId]) -> Result<Arc<[Token]>, Failure> {
        if repositories.is_empty() {
            return Ok(Arc::default());
        }
        let version = self.0.tokens.version();
        let read = self.0.tokens.get(repositories);
        if let Some(fresh) = read.as_ref().and_then(|read| read.fresh(version)) {
            return Ok(fresh);
        }
        let mut found = Vec::new();
        for resource in repositories {
            let sealed = self.0.store.secret(&resource.to_string()).await?;
            found.extend(sealed.map(|sealed| (*resource, sealed)));
        }
        let of: Revisions = found
            .iter()
            .map(|(_, sealed)| (sealed.owner.clone(), sealed.revision))
            .collect();
        let tokens = match read.and_then(|read| read.of(&of)) {
            Some(same) => same,
            None => self.open_tokens(&found)?,
        };
        self.0.tokens.put(repositories, version, of, tokens.clone());
        Ok(tokens)
    }

    fn open_tokens(&self, found: &[(ResourceId, SealedSecret)]) -> Result<Arc<[Token]>, Failure> {
        let mut tokens = Vec::with_capacity(found.len());
        for (resource, sealed) in found {
            match self.open(sealed) {
                Ok(content) => tokens.extend(token(*resource, content)),
                Err(error) if error.is_of_master_key() => return Err(error.into()),
                Err(error) => tracing::error!("{error}"),
            }
        }
        Ok(tokens.into())
    }
}

/// Returns what was sealed of a token: it is for the repository that it was sealed with.
fn token(resource: ResourceId, content: Content) -> Option<Token> {
    let Content::Repository { url, token } = content else {
        return None;
    };
    Some(Token {
        resource,
        url: RepositoryUrl::parse(&url)?,
        secret: token,
    })
}
