//! Requests that create and update vaults.

use serde_json::Value;

use super::Vault;
use crate::id::VaultId;
use crate::metadata::{self, EmptyValue, MetadataPatch};
use crate::read::At;
use crate::{Metadata, Micros, Problem, limits};

/// A checked request to create a vault.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateVault {
    display_name: String,
    metadata: Metadata,
}

impl CreateVault {
    /// Reads the body of `POST /v1/vaults`.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::confidential(body).object()?;
        let create = Self {
            display_name: name(&object.field("display_name").required()?)?,
            metadata: metadata::create(object.field("metadata"))?,
        };
        object.finish()?;
        Ok(create)
    }

    /// Makes the vault.
    pub fn resolve(self, id: VaultId, now: Micros) -> Vault {
        Vault {
            id,
            archived_at: None,
            created_at: now,
            display_name: self.display_name,
            metadata: self.metadata,
            updated_at: now,
        }
    }
}

/// A checked request to update a vault; null means the same as leaving a field out.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateVault {
    display_name: Option<String>,
    metadata: MetadataPatch,
}

impl UpdateVault {
    /// Reads the body of `POST /v1/vaults/{id}`.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::confidential(body).object()?;
        let update = Self {
            display_name: object.field("display_name").read(name)?,
            metadata: metadata::patch(object.field("metadata"), EmptyValue::Kept)?,
        };
        object.finish()?;
        Ok(update)
    }

    /// Makes the vault as it is afterwards, or `None` if the update changes nothing.
    ///
    /// Refuses an archived vault.
    pub fn apply(self, current: &Vault, now: Micros) -> Result<Option<Vault>, Problem> {
        if current.archived_at.is_some() {
            return Err(Problem::invalid(format!(
                "vault `{}` is archived and cannot be changed",
                current.id
            )));
        }
        let mut next = current.clone();
        next.display_name = self.display_name.unwrap_or(next.display_name);
        next.metadata = self.metadata.apply(&next.metadata)?;
        if next == *current {
            return Ok(None);
        }
        next.updated_at = now;
        Ok(Some(next))
    }
}

fn name(at: &At<'_>) -> Result<String, Problem> {
    at.string(1..=limits::DISPLAY_NAME)
}
