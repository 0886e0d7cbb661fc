//! Vaults.

use axum::extract::State;
use outlast_protocol::{
    Problem,
    credential::Credential,
    id::VaultId,
    limits,
    query::TimeRange,
    vault::{CreateVault, UpdateVault, Vault},
};
use outlast_store::{Order, Resource, ResourceKind, ResourceQuery, WriteError};

use crate::{
    answer::{self, Answer},
    app::{App, Shared},
    extract::{Named, Params, Submission},
    once::Form,
    plain,
};

/// `POST /v1/vaults`.
pub(crate) async fn create(State(app): State<Shared>, request: Submission) -> Answer {
    let new = CreateVault::parse(&request.body)?;
    let now = app.kernel.now();
    let vault = new.resolve(VaultId::mint(now, app.kernel.entropy()), now);
    let work = app.clone();
    let work = |ticket| async move { work.insert(&vault, ticket).await };
    app.once(request.attempt, Form::Stored, work).await
}

/// `GET /v1/vaults`, newest first.
pub(crate) async fn list(State(app): State<Shared>, Params(query): Params) -> Answer {
    app.list::<Vault>(query, TimeRange::default()).await
}

/// `GET /v1/vaults/{vault_id}`.
pub(crate) async fn retrieve(
    State(app): State<Shared>,
    Named(id): Named<VaultId>,
    Params(query): Params,
) -> Answer {
    query.finish()?;
    answer::view(&app.newest::<Vault>(id).await?.1)
}

/// `POST /v1/vaults/{vault_id}`.
pub(crate) async fn update(
    State(app): State<Shared>,
    Named(id): Named<VaultId>,
    request: Submission,
) -> Answer {
    let change = UpdateVault::parse(&request.body)?;
    let (work, now) = (app.clone(), app.kernel.now());
    let work = move |ticket| async move {
        let step = |current: &Vault| change.clone().apply(current, now);
        work.change(id, ticket, step).await
    };
    app.once(request.attempt, Form::Stored, work).await
}

/// `POST /v1/vaults/{vault_id}/archive`; its credentials go with it, and repeating it changes nothing.
pub(crate) async fn archive(
    State(app): State<Shared>,
    Named(id): Named<VaultId>,
    request: Submission,
) -> Answer {
    request.empty()?;
    Ok(answer::json(app.archive_vault(id).await?))
}

/// `DELETE /v1/vaults/{vault_id}`; its credentials go with it.
pub(crate) async fn delete(
    State(app): State<Shared>,
    Named(id): Named<VaultId>,
    request: Submission,
) -> Answer {
    request.empty()?;
    let resources = app.kernel.resources();
    let removed = resources.remove(ResourceKind::Vault, &id.to_string()).await;
    removed.map_err(|fault| plain::write::<Vault>(&fault))?;
    app.vault.outdate().await;
    app.kernel.scrub_soon();
    Ok(answer::json(answer::deleted(&id, "vault_deleted")))
}

impl App {
    /// Archives a vault and all of its credentials at once, and removes their secrets.
    async fn archive_vault(&self, id: VaultId) -> Result<String, Problem> {
        let now = self.kernel.now();
        for _ in 0..plain::TRIES {
            let (revision, current) = self.newest::<Vault>(id).await?;
            let Some(next) = current.archive(now) else {
                return answer::text(&current);
            };
            let mut wards = Vec::new();
            for found in self.active(id).await? {
                let credential = plain::decode::<Credential>(&found)?.archive(now);
                let revision = found.revision.saturating_add(1);
                let ward = credential.map(|ward| plain::resource(&ward, revision));
                wards.extend(ward.transpose()?);
            }
            let text = answer::text(&next)?;
            let parent = plain::resource(&next, revision.saturating_add(1))?;
            match self
                .kernel
                .wards()
                .replace_family(parent, wards, None)
                .await
            {
                Ok(()) => {
                    self.vault.outdate().await;
                    self.kernel.scrub_soon();
                    return Ok(text);
                }
                Err(WriteError::Moved { .. }) => {}
                Err(fault) => return Err(plain::write::<Vault>(&fault)),
            }
        }
        Err(plain::contended::<Vault>(id))
    }

    /// Returns the credentials of a vault that are not archived; there are never many.
    async fn active(&self, vault: VaultId) -> Result<Vec<Resource>, Problem> {
        let query = ResourceQuery {
            kind: ResourceKind::Credential,
            parent: Some(vault.to_string()),
            created_gte: None,
            created_lte: None,
            archived: false,
            order: Order::Forwards,
            after: None,
            limit: limits::CREDENTIALS,
        };
        let found = self.kernel.resources().list(&query).await;
        Ok(found.map_err(|fault| plain::failed(&fault))?.items)
    }
}
