//! Tokens of repositories: sealed by whoever can, kept beside the session, and gone with it.

use std::time::Duration;

use outlast_protocol::{
    Problem,
    id::{ApiKeyId, ResourceId, SessionId},
};
use outlast_session::{
    Proposal, State,
    body::{Config, Repository},
};
use outlast_store::{ReadError, SealedSecret};

use crate::{Kernel, clients::join, error, kernel::Inner};

/// How many sealed tokens are looked at together.
const CHUNK: usize = 100;

/// How old a token is that must have its session: it is stored shortly before.
const SETTLED: Duration = Duration::from_secs(3600);

/// A session that is about to be made.
#[derive(Debug)]
pub struct Draft {
    /// Its id.
    pub id: SessionId,
    /// What it runs with.
    pub config: Config,
    /// The sealed tokens of its repositories: of each the resource is the owner, the session the parent.
    pub tokens: Vec<SealedSecret>,
}

impl Kernel {
    /// Names a session that is to be made; it has no tokens yet.
    pub fn draft(&self, config: Config) -> Draft {
        Draft {
            id: SessionId::mint(self.now(), self.entropy()),
            config,
            tokens: Vec::new(),
        }
    }

    /// Gives a repository another token, which is sealed for the resource and the revision that it is told:
    /// for all resources of that repository.
    ///
    /// What a hand asks of the repository from now on is asked with it.
    ///
    /// # Errors
    ///
    /// If session or repository are not there, and what sealing says.
    pub async fn rotate<F>(
        &self,
        by: ApiKeyId,
        session: SessionId,
        resource: ResourceId,
        seal: impl Fn(Repository, u64) -> F,
    ) -> Result<(), Problem>
    where
        F: Future<Output = Result<SealedSecret, Problem>>,
    {
        // Decides whether it may be, before anything of it is kept.
        let noted = self
            .0
            .append(session, Proposal::Rotate { resource, by }, None, None);
        join(noted).await?;
        let state = self.0.store.head(session).await;
        let state = state.map_err(|fault| error::read(&fault))?;
        let config = state.config.as_deref();
        // In their order, since of several that differ the first one counts.
        let same = config.map_or_else(Vec::new, |config| config.same_repository(resource));
        for repository in same {
            self.0
                .replace_token(repository.id, |revision| seal(repository.clone(), revision))
                .await?;
        }
        Ok(())
    }
}

impl Inner {
    /// Replaces the token of one resource.
    async fn replace_token<F>(
        &self,
        resource: ResourceId,
        seal: impl Fn(u64) -> F,
    ) -> Result<(), Problem>
    where
        F: Future<Output = Result<SealedSecret, Problem>>,
    {
        loop {
            let known = self.store.secret(&resource.to_string()).await;
            let known = known.map_err(|fault| error::read(&fault))?;
            let revision = known.map_or(0, |known| known.revision) + 1;
            let replaced = self.store.replace_secret(seal(revision).await?).await;
            // Of two at once the later one counts.
            if replaced.map_err(|fault| error::write(&fault))? {
                return Ok(());
            }
        }
    }

    /// Stores the tokens of a session that is about to be made.
    pub(crate) async fn keep_tokens(&self, tokens: Vec<SealedSecret>) -> Result<(), Problem> {
        for token in tokens {
            let stored = self.store.replace_secret(token).await;
            stored.map_err(|fault| error::write(&fault))?;
        }
        Ok(())
    }

    /// Removes the tokens of a session; what cannot be removed now a later look finds.
    pub(crate) async fn drop_tokens(&self, session: SessionId) {
        if let Err(fault) = self.store.remove_secrets(&session.to_string()).await {
            tracing::warn!(session.id = %session, "its tokens are not removed yet: {fault}");
        }
    }

    /// Removes the tokens of a session that is over.
    pub(crate) async fn forget_tokens(&self, state: &State) {
        let config = state.config.as_deref();
        if config.is_some_and(|config| !config.repositories.is_empty()) {
            self.drop_tokens(state.id).await;
        }
    }

    /// Tells whether a session takes no more events, or never was.
    async fn is_over(&self, session: SessionId) -> bool {
        match self.store.head(session).await {
            Ok(state) => state.deleted || state.terminated_at.is_some(),
            Err(ReadError::NotFound(_)) => true,
            Err(_) => false,
        }
    }
}

/// Removes tokens of sessions that are over or never came to be, as after a crash between the two.
pub(crate) async fn tidy(inner: &Inner) {
    let mut after = "sesrsc_".to_owned();
    while let Ok(found) = inner.store.secrets(Some(&after), CHUNK).await {
        let Some(last) = found.last().map(|last| last.owner.clone()) else {
            return;
        };
        for token in &found {
            let owner = token.owner.parse::<ResourceId>();
            let (Ok(owner), Ok(session)) = (owner, token.parent.parse::<SessionId>()) else {
                // Of something else: ids are in order, so nothing of ours follows.
                return;
            };
            let old = inner.clock.now().since(owner.minted_at()) >= SETTLED;
            if old && inner.is_over(session).await {
                inner.drop_tokens(session).await;
            }
        }
        if found.len() < CHUNK || inner.closing.is_cancelled() {
            return;
        }
        after = last;
    }
}
