//! The contract of files, in memory.

use async_trait::async_trait;
use outlast_protocol::{
    Micros,
    id::{FileId, ProcessId, SessionId},
};
use outlast_session::{State, body::Mounted};
use outlast_store::{
    Away, Blob, FilePage, FileQuery, Files, Order, ReadError, Receipt, StoredFile, WriteError,
};

use super::{Inner, Memory};

/// Files that end in one call.
const CHUNK: usize = 500;

#[async_trait]
impl Files for Memory {
    async fn begin_blob(&self, blob: Blob, by: ProcessId) -> Result<(), WriteError> {
        self.lock().loose.insert(blob, Some(by));
        Ok(())
    }

    async fn drop_blob(&self, blob: Blob) -> Result<bool, WriteError> {
        let mut inner = self.lock();
        let note = inner.loose.get_mut(&blob);
        Ok(note.is_some_and(|by| {
            *by = None;
            true
        }))
    }

    async fn insert_file(
        &self,
        new: StoredFile,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        let mut inner = self.lock();
        if inner.answered(receipt.as_ref()) {
            return Err(WriteError::Answered);
        }
        inner.take(&new)?;
        inner.files.insert(new.id, new);
        inner.receipt(receipt);
        Ok(())
    }

    async fn publish_file(&self, new: StoredFile) -> Result<Option<FileId>, WriteError> {
        let mut inner = self.lock();
        if new.scope.is_none_or(|scope| inner.live(scope).is_none()) {
            let scope = new.scope.map(|id| id.to_string());
            return Err(WriteError::NotFound(scope.unwrap_or_default()));
        }
        inner.take(&new)?;
        let path = |file: &StoredFile| file.output.as_ref().map(|output| output.path.clone());
        let same = |old: &&StoredFile| old.scope == new.scope && path(old) == path(&new);
        let Some(old) = inner.files.values().find(same).cloned() else {
            let id = new.id;
            inner.files.insert(id, new);
            return Ok(Some(id));
        };
        if old.blob.is_none() && old.output == new.output {
            inner.release(new.blob);
            return Ok(None);
        }
        inner.files.remove(&old.id);
        let next = if old.blob.is_some() {
            StoredFile {
                id: old.id,
                created_at: old.created_at,
                ..new
            }
        } else {
            new
        };
        let id = next.id;
        inner.files.insert(id, next);
        inner.release(old.blob);
        Ok(Some(id))
    }

    async fn file(&self, id: FileId) -> Result<StoredFile, ReadError> {
        let inner = self.lock();
        let found = inner.files.get(&id);
        let known = found.filter(|file| file.blob.is_some() || file.expires_at.is_some());
        known
            .cloned()
            .ok_or_else(|| ReadError::NotFound(id.to_string()))
    }

    async fn files(&self, query: &FileQuery) -> Result<FilePage, ReadError> {
        let inner = self.lock();
        let fitting = inner.files.values().filter(|file| fits(file, query));
        let mut items: Vec<_> = fitting.cloned().collect();
        items.sort_by_key(|file| (file.created_at, file.id));
        if query.order == Order::Backwards {
            items.reverse();
        }
        let more = items.len() > query.limit;
        items.truncate(query.limit);
        Ok(FilePage { items, more })
    }

    async fn outputs(&self, session: SessionId) -> Result<Vec<StoredFile>, ReadError> {
        let inner = self.lock();
        let own = |file: &&StoredFile| file.scope == Some(session) && file.output.is_some();
        Ok(inner.files.values().filter(own).cloned().collect())
    }

    async fn remove_file(&self, id: FileId) -> Result<(), WriteError> {
        let mut inner = self.lock();
        let found = inner.files.get(&id).filter(|file| file.blob.is_some());
        let Some(file) = found.cloned() else {
            return Err(WriteError::NotFound(id.to_string()));
        };
        if file.mounted {
            return Err(WriteError::Referenced(id.to_string()));
        }
        let blob = file.blob;
        inner.files.remove(&id);
        if file.output.is_some() {
            inner.files.insert(id, StoredFile { blob: None, ..file });
        }
        inner.release(blob);
        Ok(())
    }

    async fn expire_files(&self, now: Micros, forgotten: Micros) -> Result<usize, WriteError> {
        let mut inner = self.lock();
        let over = |file: &&StoredFile| {
            let gone = file.blob.is_none();
            file.is_past(now) && (!gone || file.is_past(forgotten))
        };
        let ended: Vec<_> = inner
            .files
            .values()
            .filter(over)
            .take(CHUNK)
            .cloned()
            .collect();
        for file in &ended {
            inner.files.remove(&file.id);
            if !file.is_past(forgotten) {
                let blob = None;
                inner.files.insert(
                    file.id,
                    StoredFile {
                        blob,
                        ..file.clone()
                    },
                );
            }
            inner.release(file.blob);
        }
        Ok(ended.len())
    }

    async fn loose_blobs(&self, limit: usize) -> Result<Vec<Blob>, ReadError> {
        let mut inner = self.lock();
        let Inner {
            loose, processes, ..
        } = &mut *inner;
        let lives = |by: &ProcessId| processes.get(by).is_some_and(|row| !row.dead);
        for by in loose.values_mut() {
            *by = by.filter(lives);
        }
        let free = loose.iter().filter(|(_, by)| by.is_none());
        Ok(free.map(|(blob, _)| blob.clone()).take(limit).collect())
    }

    async fn forget_blob(&self, blob: Blob) -> Result<(), WriteError> {
        self.lock()
            .loose
            .retain(|known, by| *known != blob || by.is_some());
        Ok(())
    }
}

fn fits(file: &StoredFile, query: &FileQuery) -> bool {
    let key = (file.created_at, file.id);
    file.blob.is_some()
        && !file.is_past(query.now)
        && query.scope.is_none_or(|scope| file.scope == Some(scope))
        && query.ids.as_ref().is_none_or(|ids| ids.contains(&file.id))
        && query.after.is_none_or(|after| match query.order {
            Order::Forwards => key > after,
            Order::Backwards => key < after,
        })
}

impl Inner {
    /// Takes the note of the blob that a new file is to name.
    fn take(&mut self, new: &StoredFile) -> Result<(), WriteError> {
        let Some(blob) = new.blob.map(Blob::from) else {
            return Ok(());
        };
        if self.is_begun(&blob) {
            self.loose.remove(&blob);
            return Ok(());
        }
        Err(WriteError::Unavailable(Away::other(format_args!(
            "`{blob}` was given up"
        ))))
    }

    /// Tells whether a blob can be named.
    pub(super) fn is_begun(&self, blob: &Blob) -> bool {
        matches!(self.loose.get(blob), Some(Some(_)))
    }

    /// Loosens a blob that no file names any more.
    fn release(&mut self, blob: Option<FileId>) {
        if let Some(blob) = blob
            && self.files.values().all(|file| file.blob != Some(blob))
        {
            self.loose.insert(blob.into(), None);
        }
    }

    /// Takes the note of a checkpoint that a log has come to name, and loosens what it needs no more.
    pub(super) fn checkpoints(&mut self, before: Option<&State>, after: &State) {
        for new in Blob::needed_only_by(after, before) {
            self.loose.remove(&new);
        }
        let Some(before) = before else { return };
        for old in Blob::needed_only_by(before, Some(after)) {
            self.loose.insert(old, None);
        }
    }

    /// Tells which source of newly mounted files cannot be copied.
    pub(super) fn missing(&self, mounted: &[Mounted], now: Micros) -> Option<FileId> {
        let there = |id: &FileId| {
            let found = self.files.get(id);
            found.is_some_and(|file| file.blob.is_some() && !file.is_past(now))
        };
        let mut sources = mounted.iter().map(|new| new.source);
        sources.find(|id| !there(id))
    }

    /// Copies files that were mounted, and removes those that are not any more.
    pub(super) fn mounts(&mut self, before: Option<&State>, after: &State) {
        if after.deleted {
            let own = |file: &StoredFile| file.scope == Some(after.id);
            let gone: Vec<_> = self
                .files
                .values()
                .filter(|file| own(file))
                .cloned()
                .collect();
            self.files.retain(|_, file| !own(file));
            gone.iter().for_each(|file| self.release(file.blob));
            return;
        }
        let known = before.map_or(&[][..], mounted_in);
        let now = mounted_in(after);
        let lacks = |list: &[Mounted], new: &Mounted| list.iter().all(|other| other.id != new.id);
        for new in now.iter().filter(|new| lacks(known, new)) {
            if let Some(source) = self.files.get(&new.source).cloned() {
                let copy = source.mounted_in(after.id, new);
                self.files.insert(copy.id, copy);
            }
        }
        for old in known.iter().filter(|old| lacks(now, old)) {
            let copy = self.files.remove(&old.file);
            self.release(copy.and_then(|copy| copy.blob));
        }
    }
}

fn mounted_in(state: &State) -> &[Mounted] {
    let config = state.config.as_deref();
    config.map_or(&[], |config| &config.resources)
}
