//! Credentials of vaults: what is shown of them, and their secrets on the way to the seal.

mod seals;

pub(crate) use seals::failed;

use axum::extract::State;
use http::{HeaderName, HeaderValue};
use outlast_protocol::{
    ErrorCode, Micros, Problem,
    credential::{CreateCredential, Credential, Kind, UpdateCredential},
    id::{CredentialId, VaultId},
    limits,
    query::TimeRange,
    vault::Vault,
};
use outlast_store::{ResourceKind, SealedSecret, Sealing, WriteError};
use outlast_vault::Brought;

use crate::{
    answer::{self, Answer},
    app::{App, Shared},
    extract::{Confidential, Named, Params, Submission, unknown},
    once::{Form, Ticket},
    plain,
};

/// `POST /v1/vaults/{vault_id}/credentials`.
pub(crate) async fn create(
    State(app): State<Shared>,
    Named(vault): Named<VaultId>,
    request: Confidential,
) -> Answer {
    let new = CreateCredential::parse(request.body())?;
    let now = app.kernel.now();
    let id = CredentialId::mint(now, app.kernel.entropy());
    let credential = new.resolve(id, vault, now)?;
    let secret = app
        .seal(&credential, Brought::from(&new.auth), None)
        .await?;
    let work = app.clone();
    let work = |ticket| async move { work.keep(&credential, secret, ticket).await };
    app.once(request.attempt(), Form::Stored, work).await
}

/// `GET /v1/vaults/{vault_id}/credentials`, newest first.
pub(crate) async fn list(
    State(app): State<Shared>,
    Named(vault): Named<VaultId>,
    Params(query): Params,
) -> Answer {
    let parent = Some(vault.to_string());
    let all = TimeRange::default();
    let (items, next) = app.page::<Credential>(query, all, parent).await?;
    if items.is_empty() {
        app.newest::<Vault>(vault).await?;
    }
    let mut data = Vec::with_capacity(items.len());
    for item in &items {
        let shown = app.renewed(plain::decode(item)?).await?;
        data.push(answer::text(&shown)?);
    }
    Ok(answer::json(answer::page(&data, &[("next_page", next)])))
}

/// `GET /v1/vaults/{vault_id}/credentials/{credential_id}`.
pub(crate) async fn retrieve(
    State(app): State<Shared>,
    Named(vault): Named<VaultId>,
    Named(id): Named<CredentialId>,
    Params(query): Params,
) -> Answer {
    query.finish()?;
    let (_, credential) = app.credential(vault, id).await?;
    answer::view(&app.renewed(credential).await?)
}

/// `POST /v1/vaults/{vault_id}/credentials/{credential_id}`.
pub(crate) async fn update(
    State(app): State<Shared>,
    Named(vault): Named<VaultId>,
    Named(id): Named<CredentialId>,
    request: Confidential,
) -> Answer {
    let change = UpdateCredential::parse(request.body())?;
    let (work, now) = (app.clone(), app.kernel.now());
    let work =
        move |ticket| async move { work.change_kept((vault, id), &change, now, ticket).await };
    app.once(request.attempt(), Form::Stored, work).await
}

/// `POST /v1/vaults/{vault_id}/credentials/{credential_id}/archive`; its secret goes, its key is free,
/// and repeating it changes nothing.
pub(crate) async fn archive(
    State(app): State<Shared>,
    Named(vault): Named<VaultId>,
    Named(id): Named<CredentialId>,
    request: Submission,
) -> Answer {
    request.empty()?;
    Ok(answer::json(app.archive_kept(vault, id).await?))
}

/// `DELETE /v1/vaults/{vault_id}/credentials/{credential_id}`.
pub(crate) async fn delete(
    State(app): State<Shared>,
    Named(vault): Named<VaultId>,
    Named(id): Named<CredentialId>,
    request: Submission,
) -> Answer {
    request.empty()?;
    app.credential(vault, id).await?;
    let resources = app.kernel.resources();
    let name = id.to_string();
    let removed = resources.remove(ResourceKind::Credential, &name).await;
    removed.map_err(|fault| plain::write::<Credential>(&fault))?;
    app.vault.outdate().await;
    app.kernel.scrub_soon();
    Ok(answer::json(answer::deleted(
        &id,
        "vault_credential_deleted",
    )))
}

/// `POST /v1/vaults/{vault_id}/credentials/{credential_id}/mcp_oauth_validate`: tries it now.
pub(crate) async fn validate(
    State(app): State<Shared>,
    Named(vault): Named<VaultId>,
    Named(id): Named<CredentialId>,
    request: Submission,
) -> Answer {
    request.empty()?;
    let (_, credential) = app.credential(vault, id).await?;
    if credential.archived_at.is_some() {
        let words = format!("credential `{id}` is archived; its secret is gone");
        return Err(Problem::invalid(words).into());
    }
    let kind = credential.auth.kind();
    if kind != Kind::McpOauth {
        let kind = kind.as_str();
        let words = format!("credential `{id}` is `{kind}`; `mcp_oauth` alone can be validated");
        return Err(Problem::invalid(words).into());
    }
    let tried = app.vault.validate(vault, id).await;
    let tried = tried.map_err(|fault| seals::failed(&fault))?;
    let mut answer = answer::view(&tried)?;
    if let Some(why) = &tried.unreached {
        tracing::warn!(credential.id = %id, "credential `{id}` could not be tried: {why}");
        let line: String = why.chars().map(printable).take(REASON).collect();
        if let Ok(line) = HeaderValue::from_str(&line) {
            answer.headers_mut().insert(WHY, line);
        }
    }
    Ok(answer)
}

/// Why a credential could not be tried; the object of the API has no field for it.
const WHY: HeaderName = HeaderName::from_static("outlast-reason");

/// The most characters of that.
const REASON: usize = 1_000;

/// Keeps what can stand in a header.
fn printable(c: char) -> char {
    if c == ' ' || c.is_ascii_graphic() {
        c
    } else {
        '?'
    }
}

impl App {
    /// Returns a credential of a vault, as it is stored, and the revision it is at.
    pub(crate) async fn credential(
        &self,
        vault: VaultId,
        id: CredentialId,
    ) -> Result<(u64, Credential), Problem> {
        let (revision, found) = self.newest::<Credential>(id).await?;
        if found.vault_id == vault {
            Ok((revision, found))
        } else {
            Err(unknown::<CredentialId>(id))
        }
    }

    /// Stores a new credential with its secret; returns its text.
    async fn keep(
        &self,
        new: &Credential,
        secret: SealedSecret,
        ticket: Option<Ticket>,
    ) -> Result<String, Problem> {
        let text = answer::text(new)?;
        let receipt = ticket.map(|ticket| ticket.body(&text));
        let object = plain::resource(new, 1)?;
        let wards = self.kernel.wards();
        let done = wards.insert_ward(object, secret, limits::CREDENTIALS, receipt);
        done.await.map_err(|fault| refused(new, &fault))?;
        self.vault.outdate().await;
        Ok(text)
    }

    /// Changes a credential as it is by then, and its secret with it; returns its text.
    async fn change_kept(
        &self,
        (vault, id): (VaultId, CredentialId),
        change: &UpdateCredential,
        now: Micros,
        ticket: Option<Ticket>,
    ) -> Result<String, Problem> {
        for _ in 0..plain::TRIES {
            let (revision, stored) = self.credential(vault, id).await?;
            // What is refused is refused before anything is opened.
            change.clone().apply(&stored, now)?;
            let (current, held) = self.opened(stored, change.auth.is_some()).await?;
            let next = change.clone().apply(&current, now)?;
            if next == current {
                return answer::text(&current);
            }
            let sealing = match (held, &change.auth) {
                (Some(held), Some(auth)) => {
                    let secret = self.seal(&next, Brought::from(auth), Some(held)).await?;
                    Sealing::Replaced(secret)
                }
                _ => Sealing::Kept,
            };
            let text = answer::text(&next)?;
            let receipt = ticket.map(|ticket| ticket.body(&text));
            let object = plain::resource(&next, revision.saturating_add(1))?;
            match self
                .kernel
                .wards()
                .replace_ward(object, sealing, receipt)
                .await
            {
                Ok(()) => {
                    self.vault.outdate().await;
                    return Ok(text);
                }
                Err(WriteError::Moved { .. }) => {}
                Err(fault) => return Err(plain::write::<Credential>(&fault)),
            }
        }
        Err(plain::contended::<Credential>(id))
    }

    async fn archive_kept(&self, vault: VaultId, id: CredentialId) -> Result<String, Problem> {
        let now = self.kernel.now();
        for _ in 0..plain::TRIES {
            let (revision, stored) = self.credential(vault, id).await?;
            let current = self.renewed(stored).await?;
            let Some(next) = current.archive(now) else {
                return answer::text(&current);
            };
            let object = plain::resource(&next, revision.saturating_add(1))?;
            let wards = self.kernel.wards();
            match wards.replace_ward(object, Sealing::Purged, None).await {
                Ok(()) => {
                    self.vault.outdate().await;
                    self.kernel.scrub_soon();
                    return answer::text(&next);
                }
                Err(WriteError::Moved { .. }) => {}
                Err(fault) => return Err(plain::write::<Credential>(&fault)),
            }
        }
        Err(plain::contended::<Credential>(id))
    }
}

/// Returns what a client is told of a credential that its vault does not take.
fn refused(new: &Credential, fault: &WriteError) -> Problem {
    let vault = new.vault_id;
    match fault {
        WriteError::NotFound(_) => unknown::<VaultId>(vault),
        WriteError::Archived(_) => Problem::invalid(format!(
            "vault `{vault}` is archived and takes no new credentials"
        )),
        WriteError::Taken(other) => Problem::new(
            ErrorCode::Conflict,
            format!(
                "auth.{}: credential `{other}` of this vault has it already; update that one, or archive \
                 it first",
                new.auth.key_field()
            ),
        ),
        WriteError::Full(most) => Problem::invalid(format!(
            "vault `{vault}` has {most} active credentials, and more there may not be; archive one first"
        )),
        WriteError::Moved { .. }
        | WriteError::Referenced(_)
        | WriteError::Answered
        | WriteError::Overloaded
        | WriteError::Unavailable(_) => plain::write::<Credential>(fault),
    }
}
