//! The contracts of sealed secrets and what they are of, in memory.

use async_trait::async_trait;
use outlast_protocol::Micros;
use outlast_store::{
    ReadError, Receipt, Resource, ResourceKind, SealedSecret, Sealing, Secrets, Wards, WriteError,
};

use super::{Inner, Memory, resources::of_the_same_age, word};

/// A secret, and until when somebody refreshes it.
#[derive(Debug)]
pub(super) struct Held {
    secret: SealedSecret,
    refreshing: Option<Micros>,
}

#[async_trait]
impl Secrets for Memory {
    async fn secret(&self, owner: &str) -> Result<Option<SealedSecret>, ReadError> {
        let inner = self.lock();
        Ok(inner.secrets.get(owner).map(|held| held.secret.clone()))
    }

    async fn replace_secret(&self, new: SealedSecret) -> Result<bool, WriteError> {
        let mut inner = self.lock();
        let fits = inner.is_next(&new);
        if fits {
            inner.seal(new);
        }
        Ok(fits)
    }

    async fn rewrap_secret(&self, from: &str, new: SealedSecret) -> Result<bool, WriteError> {
        let mut inner = self.lock();
        let held = inner.secrets.get_mut(&new.owner);
        let held =
            held.filter(|held| held.secret.revision == new.revision && held.secret.master == from);
        Ok(held.is_some_and(|held| {
            held.secret = new;
            true
        }))
    }

    async fn remove_secrets(&self, id: &str) -> Result<(), WriteError> {
        self.lock().purge(id);
        Ok(())
    }

    async fn secrets(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SealedSecret>, ReadError> {
        let inner = self.lock();
        let behind = inner
            .secrets
            .iter()
            .filter(|(owner, _)| after.is_none_or(|after| owner.as_str() > after));
        let found = behind.take(limit).map(|(_, held)| held.secret.clone());
        Ok(found.collect())
    }

    async fn claim_refresh(
        &self,
        owner: &str,
        revision: u64,
        now: Micros,
        until: Micros,
    ) -> Result<bool, WriteError> {
        let mut inner = self.lock();
        let held = inner.secrets.get_mut(owner);
        let free = held.filter(|held| {
            held.secret.revision == revision && held.refreshing.is_none_or(|until| until <= now)
        });
        Ok(free.is_some_and(|held| {
            held.refreshing = Some(until);
            true
        }))
    }

    async fn end_refresh(
        &self,
        owner: &str,
        revision: u64,
        until: Micros,
    ) -> Result<(), WriteError> {
        let mut inner = self.lock();
        let held = inner.secrets.get_mut(owner);
        let own =
            held.filter(|held| held.secret.revision == revision && held.refreshing == Some(until));
        if let Some(held) = own {
            held.refreshing = None;
        }
        Ok(())
    }
}

#[async_trait]
impl Wards for Memory {
    async fn insert_ward(
        &self,
        new: Resource,
        secret: SealedSecret,
        most: usize,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        let mut inner = self.lock();
        if inner.answered(receipt.as_ref()) {
            return Err(WriteError::Answered);
        }
        inner.takes(&new, most)?;
        if let Some(known) = inner.newest(new.kind, &new.id) {
            let revision = known.revision;
            return Err(WriteError::Moved {
                id: new.id,
                revision,
            });
        }
        let place = (word(new.kind), new.id.clone());
        inner.objects.insert(place, vec![new]);
        inner.seal(secret);
        inner.receipt(receipt);
        Ok(())
    }

    async fn replace_ward(
        &self,
        new: Resource,
        secret: Sealing,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        let mut inner = self.lock();
        if inner.answered(receipt.as_ref()) {
            return Err(WriteError::Answered);
        }
        inner.expect(&new, new.revision.checked_sub(1))?;
        match secret {
            Sealing::Kept => {}
            Sealing::Replaced(secret) if inner.is_next(&secret) => inner.seal(secret),
            Sealing::Replaced(secret) => {
                let (id, revision) = (secret.owner, secret.revision);
                return Err(WriteError::Moved { id, revision });
            }
            Sealing::Purged => inner.purge(&new.id),
        }
        inner.push(new);
        inner.receipt(receipt);
        Ok(())
    }

    async fn replace_family(
        &self,
        parent: Resource,
        wards: Vec<Resource>,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        let mut inner = self.lock();
        if inner.answered(receipt.as_ref()) {
            return Err(WriteError::Answered);
        }
        inner.expect(&parent, parent.revision.checked_sub(1))?;
        let active = inner.active(&parent.id).count();
        let known = wards.iter().all(|ward| {
            let mut active = inner.active(&parent.id);
            active.any(|found| found.id == ward.id && found.revision + 1 == ward.revision)
        });
        if active != wards.len() || !known {
            let (id, revision) = (parent.id, parent.revision - 1);
            return Err(WriteError::Moved { id, revision });
        }
        inner.purge(&parent.id);
        wards.into_iter().for_each(|ward| inner.push(ward));
        inner.push(parent);
        inner.receipt(receipt);
        Ok(())
    }
}

impl Inner {
    /// Returns what belongs to an object and is not archived.
    fn active(&self, parent: &str) -> impl Iterator<Item = &Resource> {
        let newest = self.objects.values().filter_map(|all| all.last());
        newest.filter(move |found| {
            found.parent.as_deref() == Some(parent) && found.archived_at.is_none()
        })
    }

    /// Tells whether the parent of a new ward takes it.
    fn takes(&self, new: &Resource, most: usize) -> Result<(), WriteError> {
        let id = new.parent.clone().unwrap_or_default();
        let kind = new.kind.parent();
        let parent = kind.and_then(|kind: ResourceKind| self.newest(kind, &id));
        let parent = parent.ok_or_else(|| WriteError::NotFound(id.clone()))?;
        if parent.archived_at.is_some() {
            return Err(WriteError::Archived(id));
        }
        let taken =
            |other: &&Resource| other.unique_key.is_some() && other.unique_key == new.unique_key;
        if let Some(other) = self.active(&id).find(taken) {
            return Err(WriteError::Taken(other.id.clone()));
        }
        let of_kind = self.active(&id).filter(|other| other.kind == new.kind);
        if of_kind.count() >= most {
            return Err(WriteError::Full(most));
        }
        Ok(())
    }

    fn is_next(&self, new: &SealedSecret) -> bool {
        let known = self.secrets.get(&new.owner);
        known.map_or(0, |held| held.secret.revision) + 1 == new.revision
    }

    fn seal(&mut self, secret: SealedSecret) {
        let held = Held {
            secret,
            refreshing: None,
        };
        self.secrets.insert(held.secret.owner.clone(), held);
    }

    /// Removes the secret of an owner, and those of all that belong to it.
    pub(super) fn purge(&mut self, id: &str) {
        let stays = |held: &Held| held.secret.owner != id && held.secret.parent != id;
        self.secrets.retain(|_, held| stays(held));
    }

    /// Adds a revision to an object that is there.
    fn push(&mut self, new: Resource) {
        if let Some(all) = self.objects.get_mut(&(word(new.kind), new.id.clone())) {
            all.push(of_the_same_age(new, all));
        }
    }
}
