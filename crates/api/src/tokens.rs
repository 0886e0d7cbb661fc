//! Tokens of repositories on their way to the seal.

use outlast_kernel::Draft;
use outlast_protocol::{Problem, Secret, id::SessionId, session::AddRepository};
use outlast_session::body::Repository;
use outlast_store::SealedSecret;
use outlast_vault::{Brought, Order, Use};

use crate::{app::App, credentials::failed};

impl App {
    /// Seals the tokens that a session's creation brings, each for its repository alone.
    pub(crate) async fn tokens(
        &self,
        draft: &Draft,
        wished: &[AddRepository],
    ) -> Result<Vec<SealedSecret>, Problem> {
        let mut sealed = Vec::new();
        for (repository, wish) in draft.config.repositories.iter().zip(wished) {
            if let Some(token) = &wish.token {
                let token = self.seal_token(draft.id, repository, 1, token);
                sealed.push(token.await?);
            }
        }
        Ok(sealed)
    }

    /// Seals the token of one repository.
    pub(crate) async fn seal_token(
        &self,
        session: SessionId,
        repository: &Repository,
        revision: u64,
        token: &Secret,
    ) -> Result<SealedSecret, Problem> {
        let order = Order {
            owner: repository.id.to_string(),
            parent: session.to_string(),
            revision,
            purpose: Use::Repository(repository.url.as_str().to_owned()),
            brought: Brought::from(token),
            before: None,
        };
        let sealed = self.vault.secure(order).await;
        sealed.map_err(|fault| failed(&fault))
    }
}
