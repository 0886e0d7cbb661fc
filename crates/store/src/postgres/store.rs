//! The contracts of plain resources and files, on Postgres.

use async_trait::async_trait;
use outlast_protocol::{
    Micros,
    id::{FileId, ProcessId, SessionId},
};

use super::{
    Postgres, files, loose, pool, processes, receipts,
    resources::{self, Former},
    secrets,
};
use crate::{
    Blob, FilePage, FileQuery, Files, Process, Pulse, ReadError, Receipt, Resource, ResourceKind,
    ResourcePage, ResourceQuery, Resources, SealedSecret, Sealing, Secrets, StoredFile, Trouble,
    Wards, WriteError,
};

#[async_trait]
impl Resources for Postgres {
    async fn insert(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        pool::write!(self.pool, |tx| resources::insert(
            tx,
            &new,
            receipt.as_ref()
        ))
    }

    async fn replace(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        pool::write!(self.pool, |tx| resources::replace(
            tx,
            &new,
            Former::Kept,
            receipt.as_ref()
        ))
    }

    async fn amend(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        pool::write!(self.pool, |tx| resources::replace(
            tx,
            &new,
            Former::Replaced,
            receipt.as_ref()
        ))
    }

    async fn get(
        &self,
        kind: ResourceKind,
        id: &str,
        revision: Option<u64>,
    ) -> Result<Resource, ReadError> {
        resources::get(&*self.pool.get().await?, kind, id, revision).await
    }

    async fn list(&self, query: &ResourceQuery) -> Result<ResourcePage, ReadError> {
        resources::list(&*self.pool.get().await?, query).await
    }

    async fn revisions(
        &self,
        kind: ResourceKind,
        id: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<ResourcePage, ReadError> {
        resources::revisions(&*self.pool.get().await?, kind, id, before, limit).await
    }

    async fn remove(&self, kind: ResourceKind, id: &str) -> Result<(), WriteError> {
        pool::write!(self.pool, |tx| resources::remove(tx, kind, id))
    }

    async fn receipt(
        &self,
        fingerprint: [u8; 32],
        since: Micros,
    ) -> Result<Option<Receipt>, ReadError> {
        receipts::find(&*self.pool.get().await?, fingerprint, since).await
    }

    async fn written_out(&self, fingerprint: [u8; 32]) -> Result<(), WriteError> {
        let connection = self.room.hasty.get().await?;
        Ok(receipts::written_out(&connection, fingerprint).await?)
    }

    async fn sweep_receipts(&self, before: Micros) -> Result<usize, WriteError> {
        let mut gone = 0;
        loop {
            let chunk = receipts::sweep(&*self.pool.get().await?, before).await?;
            gone += chunk;
            if chunk < receipts::CHUNK {
                return Ok(gone);
            }
        }
    }

    async fn register(&self, process: ProcessId, at: Micros) -> Result<(), WriteError> {
        let node = &self.room.node;
        pool::write!(self.pool, |tx| processes::register(tx, process, node, at))
    }

    async fn beat(&self, process: ProcessId) -> Result<Pulse, WriteError> {
        Ok(self.heart.beat(process).await?)
    }

    async fn processes(&self) -> Result<Vec<Process>, ReadError> {
        processes::list(&*self.pool.get().await?).await
    }

    async fn declare_dead(&self, process: ProcessId) -> Result<(), WriteError> {
        Ok(processes::declare(&*self.pool.get().await?, process).await?)
    }

    async fn probe(&self) -> Result<(), WriteError> {
        let text = "UPDATE probes SET count = count + 1 WHERE no = 0";
        self.pool.get().await?.run(text, &[]).await?;
        Ok(())
    }

    fn trouble(&self) -> Option<Trouble> {
        self.room.connector.troubles().told()
    }
}

#[async_trait]
impl Files for Postgres {
    async fn begin_blob(&self, blob: Blob, by: ProcessId) -> Result<(), WriteError> {
        Ok(loose::begin(&*self.pool.get().await?, &blob, by).await?)
    }

    async fn drop_blob(&self, blob: Blob) -> Result<bool, WriteError> {
        Ok(loose::drop_blob(&*self.pool.get().await?, &blob).await?)
    }

    async fn insert_file(
        &self,
        new: StoredFile,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        pool::write!(self.pool, |tx| files::insert(tx, &new, receipt.as_ref()))
    }

    async fn publish_file(&self, new: StoredFile) -> Result<Option<FileId>, WriteError> {
        pool::write!(self.pool, |tx| files::publish(tx, &new))
    }

    async fn file(&self, id: FileId) -> Result<StoredFile, ReadError> {
        files::get(&*self.pool.get().await?, id).await
    }

    async fn files(&self, query: &FileQuery) -> Result<FilePage, ReadError> {
        files::list(&*self.pool.get().await?, query).await
    }

    async fn outputs(&self, session: SessionId) -> Result<Vec<StoredFile>, ReadError> {
        files::outputs(&*self.pool.get().await?, session).await
    }

    async fn remove_file(&self, id: FileId) -> Result<(), WriteError> {
        pool::write!(self.pool, |tx| files::remove(tx, id))
    }

    async fn expire_files(&self, now: Micros, forgotten: Micros) -> Result<usize, WriteError> {
        pool::write!(self.pool, |tx| files::expire(tx, now, forgotten))
    }

    async fn loose_blobs(&self, limit: usize) -> Result<Vec<Blob>, ReadError> {
        loose::list(&*self.pool.get().await?, limit).await
    }

    async fn forget_blob(&self, blob: Blob) -> Result<(), WriteError> {
        Ok(loose::forget(&*self.pool.get().await?, &blob).await?)
    }
}

#[async_trait]
impl Secrets for Postgres {
    async fn secret(&self, owner: &str) -> Result<Option<SealedSecret>, ReadError> {
        secrets::get(&*self.pool.get().await?, owner).await
    }

    async fn replace_secret(&self, new: SealedSecret) -> Result<bool, WriteError> {
        Ok(secrets::replace(&*self.pool.get().await?, &new).await?)
    }

    async fn rewrap_secret(&self, from: &str, new: SealedSecret) -> Result<bool, WriteError> {
        Ok(secrets::rewrap(&*self.pool.get().await?, from, &new).await?)
    }

    async fn remove_secrets(&self, id: &str) -> Result<(), WriteError> {
        Ok(secrets::purge(&*self.pool.get().await?, id).await?)
    }

    async fn secrets(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SealedSecret>, ReadError> {
        secrets::list(&*self.pool.get().await?, after, limit).await
    }

    async fn claim_refresh(
        &self,
        owner: &str,
        revision: u64,
        now: Micros,
        until: Micros,
    ) -> Result<bool, WriteError> {
        Ok(secrets::claim(&*self.pool.get().await?, owner, revision, now, until).await?)
    }

    async fn end_refresh(
        &self,
        owner: &str,
        revision: u64,
        until: Micros,
    ) -> Result<(), WriteError> {
        Ok(secrets::unclaim(&*self.pool.get().await?, owner, revision, until).await?)
    }
}

#[async_trait]
impl Wards for Postgres {
    async fn insert_ward(
        &self,
        new: Resource,
        secret: SealedSecret,
        most: usize,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        let receipt = receipt.as_ref();
        pool::write!(self.pool, |tx| secrets::insert_ward(
            tx, &new, &secret, most, receipt
        ))
    }

    async fn replace_ward(
        &self,
        new: Resource,
        secret: Sealing,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        let receipt = receipt.as_ref();
        pool::write!(self.pool, |tx| secrets::replace_ward(
            tx, &new, &secret, receipt
        ))
    }

    async fn replace_family(
        &self,
        parent: Resource,
        wards: Vec<Resource>,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        let receipt = receipt.as_ref();
        pool::write!(self.pool, |tx| secrets::replace_family(
            tx, &parent, &wards, receipt
        ))
    }
}
