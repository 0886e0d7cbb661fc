//! The contract of plain resources, in memory.

use async_trait::async_trait;
use outlast_protocol::{Micros, id::ProcessId};
use outlast_store::{
    Order, Process, Pulse, ReadError, Receipt, Resource, ResourceKind, ResourcePage, ResourceQuery,
    Resources, Trouble, Unless, WriteError,
};

use super::{Inner, Memory, word};

#[async_trait]
impl Resources for Memory {
    async fn insert(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        let mut inner = self.lock();
        if inner.answered(receipt.as_ref()) {
            return Err(WriteError::Answered);
        }
        if let Some(known) = inner.newest(new.kind, &new.id) {
            return Err(WriteError::Moved {
                id: new.id,
                revision: known.revision,
            });
        }
        inner
            .objects
            .insert((word(new.kind), new.id.clone()), vec![new]);
        inner.receipt(receipt);
        Ok(())
    }

    async fn replace(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        let mut inner = self.lock();
        if inner.answered(receipt.as_ref()) {
            return Err(WriteError::Answered);
        }
        let wanted = new.revision.checked_sub(1);
        let revisions = inner.expect(&new, wanted)?;
        revisions.push(of_the_same_age(new, revisions));
        inner.receipt(receipt);
        Ok(())
    }

    async fn amend(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        let mut inner = self.lock();
        if inner.answered(receipt.as_ref()) {
            return Err(WriteError::Answered);
        }
        let wanted = Some(new.revision);
        let revisions = inner.expect(&new, wanted)?;
        let new = of_the_same_age(new, revisions);
        revisions.pop();
        revisions.push(new);
        inner.receipt(receipt);
        Ok(())
    }

    async fn get(
        &self,
        kind: ResourceKind,
        id: &str,
        revision: Option<u64>,
    ) -> Result<Resource, ReadError> {
        let inner = self.lock();
        let revisions = inner.objects.get(&(word(kind), id.to_owned()));
        let mut newest_first = revisions.into_iter().flatten().rev();
        let found =
            newest_first.find(|object| revision.is_none_or(|wanted| wanted == object.revision));
        found
            .cloned()
            .ok_or_else(|| ReadError::NotFound(id.to_owned()))
    }

    async fn list(&self, query: &ResourceQuery) -> Result<ResourcePage, ReadError> {
        let inner = self.lock();
        let newest = inner
            .objects
            .values()
            .filter_map(|revisions| revisions.last());
        let mut items: Vec<_> = newest
            .filter(|object| fits(object, query))
            .cloned()
            .collect();
        items.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        if query.order == Order::Backwards {
            items.reverse();
        }
        Ok(page(items, query.limit))
    }

    async fn revisions(
        &self,
        kind: ResourceKind,
        id: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<ResourcePage, ReadError> {
        let inner = self.lock();
        let revisions = inner.objects.get(&(word(kind), id.to_owned()));
        let revisions = revisions
            .ok_or_else(|| ReadError::NotFound(id.to_owned()))?
            .iter()
            .rev();
        let earlier =
            revisions.filter(|object| before.is_none_or(|before| object.revision < before));
        Ok(page(earlier.cloned().collect(), limit))
    }

    async fn remove(&self, kind: ResourceKind, id: &str) -> Result<(), WriteError> {
        let mut inner = self.lock();
        let mut live = inner.logs.values().filter(|log| !log.state.deleted);
        let named = live.any(|log| {
            log.state.config.as_ref().is_some_and(|config| match kind {
                ResourceKind::Agent => config.agent.id.to_string() == id,
                ResourceKind::Environment => config.environment_id.to_string() == id,
                ResourceKind::Vault | ResourceKind::Credential => false,
            })
        });
        if named {
            return Err(WriteError::Referenced(id.to_owned()));
        }
        inner.purge(id);
        let stays = |all: &Vec<Resource>| all.iter().all(|one| one.parent.as_deref() != Some(id));
        inner.objects.retain(|_, all| stays(all));
        let gone = inner.objects.remove(&(word(kind), id.to_owned()));
        gone.map(|_| ())
            .ok_or_else(|| WriteError::NotFound(id.to_owned()))
    }

    async fn receipt(
        &self,
        fingerprint: [u8; 32],
        since: Micros,
    ) -> Result<Option<Receipt>, ReadError> {
        let inner = self.lock();
        Ok(inner
            .receipts
            .get(&fingerprint)
            .filter(|receipt| receipt.at >= since)
            .cloned())
    }

    async fn written_out(&self, fingerprint: [u8; 32]) -> Result<(), WriteError> {
        if let Some(receipt) = self.lock().receipts.get_mut(&fingerprint) {
            receipt.written = true;
        }
        Ok(())
    }

    async fn sweep_receipts(&self, before: Micros) -> Result<usize, WriteError> {
        let mut inner = self.lock();
        let count = inner.receipts.len();
        inner.receipts.retain(|_, receipt| receipt.at >= before);
        Ok(count - inner.receipts.len())
    }

    async fn register(&self, process: ProcessId, _at: Micros) -> Result<(), WriteError> {
        let mut inner = self.lock();
        let others = inner.processes.values_mut();
        let others = others.filter(|row| *row.node == *self.node && row.id != process);
        others.for_each(|row| row.dead = true);
        let row = Process {
            id: process,
            node: self.node.to_string(),
            beats: 0,
            dead: false,
        };
        inner.processes.entry(process).or_insert(row);
        Ok(())
    }

    async fn beat(&self, process: ProcessId) -> Result<Pulse, WriteError> {
        match self.lock().processes.get_mut(&process) {
            Some(row) if !row.dead => {
                row.beats += 1;
                Ok(Pulse::Alive)
            }
            Some(_) | None => Ok(Pulse::Dead),
        }
    }

    async fn processes(&self) -> Result<Vec<Process>, ReadError> {
        let mut found: Vec<Process> = self.lock().processes.values().cloned().collect();
        found.sort_by_key(|process| process.id);
        Ok(found)
    }

    async fn declare_dead(&self, process: ProcessId) -> Result<(), WriteError> {
        if let Some(row) = self.lock().processes.get_mut(&process) {
            row.dead = true;
        }
        Ok(())
    }

    async fn probe(&self) -> Result<(), WriteError> {
        Ok(())
    }

    fn trouble(&self) -> Option<Trouble> {
        None
    }
}

impl Inner {
    /// Tells whether another attempt of a request was accepted already.
    pub(super) fn answered(&self, receipt: Option<&Receipt>) -> bool {
        let known = receipt.and_then(|receipt| self.receipts.get(&receipt.fingerprint));
        known
            .zip(receipt)
            .is_some_and(|(known, receipt)| receipt.yields_to(known))
    }

    pub(super) fn receipt(&mut self, receipt: Option<Receipt>) {
        if let Some(mut receipt) = receipt {
            receipt.unless = Unless::Never;
            self.receipts.insert(receipt.fingerprint, receipt);
        }
    }

    /// Returns the revisions of an object, if the newest is the one that is wanted.
    pub(super) fn expect(
        &mut self,
        new: &Resource,
        wanted: Option<u64>,
    ) -> Result<&mut Vec<Resource>, WriteError> {
        let revisions = self.objects.get_mut(&(word(new.kind), new.id.clone()));
        let revisions = revisions.ok_or_else(|| WriteError::NotFound(new.id.clone()))?;
        match revisions.last().map(|newest| newest.revision) {
            Some(revision) if Some(revision) != wanted => Err(WriteError::Moved {
                id: new.id.clone(),
                revision,
            }),
            _ => Ok(revisions),
        }
    }
}

/// A later form of an object was made when the object was, and belongs where it does.
pub(super) fn of_the_same_age(new: Resource, revisions: &[Resource]) -> Resource {
    match revisions.first() {
        None => new,
        Some(first) => Resource {
            created_at: first.created_at,
            parent: first.parent.clone(),
            unique_key: first.unique_key.clone(),
            ..new
        },
    }
}

fn page(mut items: Vec<Resource>, limit: usize) -> ResourcePage {
    let more = items.len() > limit;
    items.truncate(limit);
    ResourcePage { items, more }
}

fn fits(object: &Resource, query: &ResourceQuery) -> bool {
    let key = (object.created_at, object.id.clone());
    object.kind == query.kind
        && (query.parent.is_none() || object.parent == query.parent)
        && query
            .created_gte
            .is_none_or(|bound| object.created_at >= bound)
        && query
            .created_lte
            .is_none_or(|bound| object.created_at <= bound)
        && (query.archived || object.archived_at.is_none())
        && query.after.as_ref().is_none_or(|after| match query.order {
            Order::Forwards => key > *after,
            Order::Backwards => key < *after,
        })
}
