//! The contracts of plain resources and files, on `SQLite`.

use async_trait::async_trait;
use outlast_protocol::{
    Micros,
    id::{FileId, ProcessId, SessionId},
};
use rusqlite::Connection;

use super::{
    Sqlite, files,
    job::Task,
    loose, processes, receipts,
    resources::{self, Written},
    secrets,
};
use crate::{
    Blob, FilePage, FileQuery, Files, Process, Pulse, ReadError, Receipt, Resource, ResourceKind,
    ResourcePage, ResourceQuery, Resources, SealedSecret, Sealing, Secrets, StoredFile, Trouble,
    Wards, WriteError, waiting::Turned,
};

#[async_trait]
impl Resources for Sqlite {
    async fn insert(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        self.write(move |tx| with_receipt(tx, receipt.as_ref(), || resources::insert(tx, &new)))
            .await
    }

    async fn replace(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        self.write(move |tx| with_receipt(tx, receipt.as_ref(), || resources::replace(tx, &new)))
            .await
    }

    async fn amend(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        self.write(move |tx| with_receipt(tx, receipt.as_ref(), || resources::amend(tx, &new)))
            .await
    }

    async fn get(
        &self,
        kind: ResourceKind,
        id: &str,
        revision: Option<u64>,
    ) -> Result<Resource, ReadError> {
        let id = id.to_owned();
        self.readers
            .read(move |tx| resources::get(tx, kind, &id, revision))
            .await
    }

    async fn list(&self, query: &ResourceQuery) -> Result<ResourcePage, ReadError> {
        let query = query.clone();
        self.readers
            .read(move |tx| resources::list(tx, &query))
            .await
    }

    async fn revisions(
        &self,
        kind: ResourceKind,
        id: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<ResourcePage, ReadError> {
        let id = id.to_owned();
        self.readers
            .read(move |tx| resources::revisions(tx, kind, &id, before, limit))
            .await
    }

    async fn remove(&self, kind: ResourceKind, id: &str) -> Result<(), WriteError> {
        let id = id.to_owned();
        self.write(move |tx| resources::remove(tx, kind, &id)).await
    }

    async fn receipt(
        &self,
        fingerprint: [u8; 32],
        since: Micros,
    ) -> Result<Option<Receipt>, ReadError> {
        self.readers
            .read(move |tx| Ok(receipts::find(tx, fingerprint, since)?))
            .await
    }

    async fn written_out(&self, fingerprint: [u8; 32]) -> Result<(), WriteError> {
        let (job, answer) = Task::job(move |tx| receipts::written_out(tx, fingerprint));
        self.queue.push_rider(job)?;
        answer.await.map_err(|_| WriteError::from(Turned::Closed))?
    }

    async fn sweep_receipts(&self, before: Micros) -> Result<usize, WriteError> {
        let mut gone = 0;
        loop {
            let chunk = self
                .background(move |tx| receipts::sweep(tx, before))
                .await?;
            gone += chunk;
            if chunk < receipts::CHUNK {
                return Ok(gone);
            }
        }
    }

    async fn register(&self, process: ProcessId, at: Micros) -> Result<(), WriteError> {
        self.write(move |tx| processes::register(tx, process, at))
            .await
    }

    async fn beat(&self, process: ProcessId) -> Result<Pulse, WriteError> {
        self.write(move |tx| processes::beat(tx, process)).await
    }

    async fn processes(&self) -> Result<Vec<Process>, ReadError> {
        self.readers.read(processes::list).await
    }

    async fn declare_dead(&self, process: ProcessId) -> Result<(), WriteError> {
        self.write(move |tx| processes::declare(tx, process)).await
    }

    async fn probe(&self) -> Result<(), WriteError> {
        self.readers
            .read(|tx| Ok(tx.query_row("SELECT count FROM probes", [], |_| Ok(()))?))
            .await
            .map_err(|error| WriteError::Unavailable(error.into()))?;
        self.write(resources::probe).await
    }

    fn trouble(&self) -> Option<Trouble> {
        self.room.troubles.told()
    }
}

#[async_trait]
impl Files for Sqlite {
    async fn begin_blob(&self, blob: Blob, by: ProcessId) -> Result<(), WriteError> {
        self.write(move |tx| loose::note(tx, &blob, Some(by)).map(Ok))
            .await
    }

    async fn drop_blob(&self, blob: Blob) -> Result<bool, WriteError> {
        self.write(move |tx| loose::drop_blob(tx, &blob).map(Ok))
            .await
    }

    async fn insert_file(
        &self,
        new: StoredFile,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        self.write(move |tx| files::insert(tx, &new, receipt.as_ref()))
            .await
    }

    async fn publish_file(&self, new: StoredFile) -> Result<Option<FileId>, WriteError> {
        self.write(move |tx| files::publish(tx, &new)).await
    }

    async fn file(&self, id: FileId) -> Result<StoredFile, ReadError> {
        self.readers.read(move |tx| files::get(tx, id)).await
    }

    async fn files(&self, query: &FileQuery) -> Result<FilePage, ReadError> {
        let query = query.clone();
        self.readers.read(move |tx| files::list(tx, &query)).await
    }

    async fn outputs(&self, session: SessionId) -> Result<Vec<StoredFile>, ReadError> {
        self.readers
            .read(move |tx| files::outputs(tx, session))
            .await
    }

    async fn remove_file(&self, id: FileId) -> Result<(), WriteError> {
        self.write(move |tx| files::remove(tx, id)).await
    }

    async fn expire_files(&self, now: Micros, forgotten: Micros) -> Result<usize, WriteError> {
        self.background(move |tx| files::expire(tx, now, forgotten))
            .await
    }

    async fn loose_blobs(&self, limit: usize) -> Result<Vec<Blob>, ReadError> {
        if self.readers.read(loose::has_orphans).await? {
            self.background(|tx| loose::give_up(tx).map(Ok)).await?;
        }
        self.readers.read(move |tx| loose::list(tx, limit)).await
    }

    async fn forget_blob(&self, blob: Blob) -> Result<(), WriteError> {
        self.background(move |tx| loose::forget(tx, &blob).map(Ok))
            .await
    }
}

#[async_trait]
impl Secrets for Sqlite {
    async fn secret(&self, owner: &str) -> Result<Option<SealedSecret>, ReadError> {
        let owner = owner.to_owned();
        self.readers.read(move |tx| secrets::get(tx, &owner)).await
    }

    async fn replace_secret(&self, new: SealedSecret) -> Result<bool, WriteError> {
        self.write(move |tx| secrets::replace(tx, &new).map(Ok))
            .await
    }

    async fn rewrap_secret(&self, from: &str, new: SealedSecret) -> Result<bool, WriteError> {
        let from = from.to_owned();
        self.write(move |tx| secrets::rewrap(tx, &from, &new).map(Ok))
            .await
    }

    async fn remove_secrets(&self, id: &str) -> Result<(), WriteError> {
        let id = id.to_owned();
        self.write(move |tx| secrets::purge(tx, &id).map(Ok)).await
    }

    async fn secrets(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SealedSecret>, ReadError> {
        let after = after.map(str::to_owned);
        self.readers
            .read(move |tx| secrets::list(tx, after.as_deref(), limit))
            .await
    }

    async fn claim_refresh(
        &self,
        owner: &str,
        revision: u64,
        now: Micros,
        until: Micros,
    ) -> Result<bool, WriteError> {
        let owner = owner.to_owned();
        self.write(move |tx| secrets::claim(tx, &owner, revision, now, until).map(Ok))
            .await
    }

    async fn end_refresh(
        &self,
        owner: &str,
        revision: u64,
        until: Micros,
    ) -> Result<(), WriteError> {
        let owner = owner.to_owned();
        self.write(move |tx| secrets::unclaim(tx, &owner, revision, until).map(Ok))
            .await
    }
}

#[async_trait]
impl Wards for Sqlite {
    async fn insert_ward(
        &self,
        new: Resource,
        secret: SealedSecret,
        most: usize,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        self.write(move |tx| {
            with_receipt(tx, receipt.as_ref(), || {
                secrets::insert_ward(tx, &new, &secret, most)
            })
        })
        .await
    }

    async fn replace_ward(
        &self,
        new: Resource,
        secret: Sealing,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        self.write(move |tx| {
            with_receipt(tx, receipt.as_ref(), || {
                secrets::replace_ward(tx, &new, &secret)
            })
        })
        .await
    }

    async fn replace_family(
        &self,
        parent: Resource,
        wards: Vec<Resource>,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        self.write(move |tx| {
            with_receipt(tx, receipt.as_ref(), || {
                secrets::replace_family(tx, &parent, &wards)
            })
        })
        .await
    }
}

/// Does a write with the receipt of its request, unless another attempt was accepted already.
pub(super) fn with_receipt(
    transaction: &Connection,
    receipt: Option<&Receipt>,
    work: impl FnOnce() -> Written<()>,
) -> Written<()> {
    if receipts::answered(transaction, receipt)? {
        return Ok(Err(WriteError::Answered));
    }
    let done = work()?;
    if let (Ok(()), Some(receipt)) = (&done, receipt) {
        receipts::put(transaction, receipt)?;
    }
    Ok(done)
}
