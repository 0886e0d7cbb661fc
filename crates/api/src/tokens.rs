//! Tokens of repositories on their way to the seal.

use outlast_kernel::Draft;
use outlast_protocol::{Problem, Secret, id::SessionId, session::AddRepository};
use outlast_session::body::Repository;
use outlast_store::SealedSecret;
use outlast_vault::Content;

use crate::{app::App, credentials::locked};

impl App {
    /// Seals the tokens that a session's creation brings, each for its repository alone.
    pub(crate) fn tokens(
        &self,
        draft: &Draft,
        wished: &[AddRepository],
    ) -> Result<Vec<SealedSecret>, Problem> {
        let repositories = draft.config.repositories.iter().zip(wished);
        let sealed = repositories.filter_map(|(repository, wish)| {
            let token = wish.token.as_ref()?;
            Some(self.seal_token(draft.id, repository, 1, token))
        });
        sealed.collect()
    }

    /// Seals the token of one repository.
    pub(crate) fn seal_token(
        &self,
        session: SessionId,
        repository: &Repository,
        revision: u64,
        token: &Secret,
    ) -> Result<SealedSecret, Problem> {
        let content = Content::Repository {
            url: repository.url.as_str().to_owned(),
            token: token.clone(),
        };
        let (owner, parent) = (repository.id.to_string(), session.to_string());
        let sealed = self.vault.seal(&owner, &parent, revision, &content);
        sealed.map_err(|fault| locked(&fault))
    }
}
