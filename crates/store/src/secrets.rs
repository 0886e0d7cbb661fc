//! The contract of sealed secrets, and of the objects that they are of.

use std::fmt::{self, Debug};

use async_trait::async_trait;
use outlast_protocol::Micros;
use serde::{Deserialize, Serialize};

use crate::{ReadError, Receipt, Resource, WriteError};

/// A sealed secret; what is in it only the vault can read.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
pub struct SealedSecret {
    /// What it is of: the id of a credential, or of a resource of a session.
    pub owner: String,
    /// The id of the owner's vault or session, which it goes with.
    pub parent: String,
    /// From 1, one more with every change.
    pub revision: u64,
    /// The name of the master key that wraps the record's own.
    pub master: String,
    /// The ciphertext.
    pub sealed: Vec<u8>,
}

impl Debug for SealedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedSecret")
            .field("owner", &self.owner)
            .field("parent", &self.parent)
            .field("revision", &self.revision)
            .field("master", &self.master)
            .finish_non_exhaustive()
    }
}

/// Sealed secrets, for whoever can open them.
#[async_trait]
pub trait Secrets: Debug + Send + Sync {
    /// Returns the secret of an owner, if it has one.
    async fn secret(&self, owner: &str) -> Result<Option<SealedSecret>, ReadError>;

    /// Replaces a secret at revision `new.revision - 1`, or stores an owner's first; false if it moved,
    /// or is gone.
    ///
    /// One at revision 1 is stored if its owner has none, which is for secrets of the server's own.
    /// A note that somebody refreshes it is over by that.
    async fn replace_secret(&self, new: SealedSecret) -> Result<bool, WriteError>;

    /// Replaces what a secret is wrapped in, at the same revision, if it is under the master key `from`
    /// still; false if it is not, moved or is gone. A note that somebody refreshes it stays.
    async fn rewrap_secret(&self, from: &str, new: SealedSecret) -> Result<bool, WriteError>;

    /// Removes the secret of an owner, and those of all that belong to it; none is no error.
    async fn remove_secrets(&self, id: &str) -> Result<(), WriteError>;

    /// Returns secrets of all owners behind `after`, in their order.
    async fn secrets(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SealedSecret>, ReadError>;

    /// Notes that somebody refreshes a secret of this revision until that time.
    ///
    /// False if another's note is not over at `now`, or if the secret moved or is gone. Of those who
    /// ask at once one is told true.
    async fn claim_refresh(
        &self,
        owner: &str,
        revision: u64,
        now: Micros,
        until: Micros,
    ) -> Result<bool, WriteError>;

    /// Ends the note that somebody refreshes a secret of this revision until that time: it failed, and
    /// whoever asks next need not wait. Another's note stays; none is no error.
    async fn end_refresh(
        &self,
        owner: &str,
        revision: u64,
        until: Micros,
    ) -> Result<(), WriteError>;
}

/// Objects that belong to a parent, and are written together with their secrets.
///
/// A parent that is removed by [`crate::Resources::remove`] takes its wards and their secrets with
/// it, and a ward that is removed its secret.
#[async_trait]
pub trait Wards: Debug + Send + Sync {
    /// Stores a new ward as revision 1, with its secret.
    ///
    /// Its parent is there ([`WriteError::NotFound`]) and not archived ([`WriteError::Archived`]), has
    /// no other active ward with its unique key ([`WriteError::Taken`]), and fewer than `most` active
    /// ones of its kind ([`WriteError::Full`]): all of that holds when it is written.
    async fn insert_ward(
        &self,
        new: Resource,
        secret: SealedSecret,
        most: usize,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError>;

    /// Replaces a ward at revision `new.revision - 1`, and what becomes of its secret with it.
    ///
    /// [`WriteError::Moved`] also if the secret is at another revision than the one before.
    async fn replace_ward(
        &self,
        new: Resource,
        secret: Sealing,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError>;

    /// Replaces a parent and its active wards, each at the revision before, and removes the secrets of
    /// all.
    ///
    /// [`WriteError::Moved`] if an active ward is not among these, or another than is there.
    async fn replace_family(
        &self,
        parent: Resource,
        wards: Vec<Resource>,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError>;
}

/// What becomes of the secret of an object that is replaced.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Sealing {
    /// It stays.
    Kept,
    /// Another takes its place, at the revision behind it.
    Replaced(SealedSecret),
    /// It goes.
    Purged,
}

/// Tells whether these are the wards that were expected, each at the revision before.
pub(crate) fn is_family(found: &[(String, u64)], wards: &[Resource]) -> bool {
    found.len() == wards.len()
        && found.iter().all(|(id, revision)| {
            let mut wards = wards.iter();
            wards.any(|ward| ward.id == *id && ward.revision.checked_sub(1) == Some(*revision))
        })
}
