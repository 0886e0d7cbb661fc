//! Tokens of repositories on their way to the seal.

use outlast_kernel::Draft;
use outlast_protocol::{
    Problem, Secret,
    id::{ResourceId, SessionId},
    session::AddRepository,
};
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
            let url = repository.url.as_str();
            Some(self.seal_token(draft.id, repository.id, url, 1, token))
        });
        sealed.collect()
    }

    /// Seals the token of one repository.
    pub(crate) fn seal_token(
        &self,
        session: SessionId,
        resource: ResourceId,
        url: &str,
        revision: u64,
        token: &Secret,
    ) -> Result<SealedSecret, Problem> {
        let content = Content::Repository {
            url: url.to_owned(),
            token: token.clone(),
        };
        let (owner, parent) = (resource.to_string(), session.to_string());
        let sealed = self.vault.seal(&owner, &parent, revision, &content);
        sealed.map_err(|fault| locked(&fault))
    }
}
