//! The contract of files: what is known of them, and who still needs which blob.

use std::fmt::Debug;

use async_trait::async_trait;
use outlast_blobs::Away;
use outlast_protocol::{
    Micros,
    id::{FileId, ProcessId, SessionId},
};
use outlast_session::body::Mounted;

use crate::{Blob, Order, ReadError, Receipt, WriteError};

/// Files. Their bytes are blobs that a [`FileId`] names, and several files may share one.
///
/// A blob is loose from before it is written until a file names it, and again when the last file
/// that named it is gone. The note of a blob that is being written is the right to name it: whoever
/// names it takes the note, and whoever gives it up, or declares its writer dead, takes the right
/// away. So of a name and a removal that meet, one comes to nothing, and a blob that is listed as
/// loose is nobody's for ever. A blob is begun once.
///
/// Files that are mounted in a session are copied and removed by the append that mounts or unmounts
/// them, and all files of a session go with the append that deletes it.
///
/// Checkpoints are noted in the same way: the append that names one takes its note and loosens the one
/// before, and the append that archives or deletes a session loosens its last one.
#[async_trait]
pub trait Files: Debug + Send + Sync {
    /// Notes that a process is about to write a blob.
    async fn begin_blob(&self, blob: Blob, by: ProcessId) -> Result<(), WriteError>;

    /// Gives up a blob that was begun: nothing comes to name it from now on.
    ///
    /// Returns false if something has named it before: then it stays.
    async fn drop_blob(&self, blob: Blob) -> Result<bool, WriteError>;

    /// Stores a new file, with the receipt of its request in the same transaction.
    ///
    /// Its blob was begun; one that was given up meanwhile is [`WriteError::Unavailable`].
    async fn insert_file(
        &self,
        new: StoredFile,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError>;

    /// Stores an output of a session over an older one of the same path; returns the file's id.
    ///
    /// Its blob was begun; one that was given up meanwhile is [`WriteError::Unavailable`].
    /// The file keeps its id and its creation. One that was removed is not published again in the
    /// same version: the new blob is loose then, and `None` is returned. A session that is deleted
    /// or never was is [`WriteError::NotFound`].
    async fn publish_file(&self, new: StoredFile) -> Result<Option<FileId>, WriteError>;

    /// Returns a file; one that is past its end is there until the store forgot it.
    async fn file(&self, id: FileId) -> Result<StoredFile, ReadError>;

    /// Lists files by time of creation, those past their end left out.
    async fn files(&self, query: &FileQuery) -> Result<FilePage, ReadError>;

    /// Returns the outputs of a session, removed ones too.
    async fn outputs(&self, session: SessionId) -> Result<Vec<StoredFile>, ReadError>;

    /// Removes a file. One that is mounted is [`WriteError::Referenced`].
    async fn remove_file(&self, id: FileId) -> Result<(), WriteError>;

    /// Lets go of the bytes of some files that are past their end, and forgets files that ended
    /// before `forgotten`; returns how many files that were.
    async fn expire_files(&self, now: Micros, forgotten: Micros) -> Result<usize, WriteError>;

    /// Lists some loose blobs that nothing can come to name; those that dead processes were writing
    /// are among them from now on.
    async fn loose_blobs(&self, limit: usize) -> Result<Vec<Blob>, ReadError>;

    /// Forgets a loose blob that was listed and removed.
    async fn forget_blob(&self, blob: Blob) -> Result<(), WriteError>;
}

/// Returns the answer to whoever would name bytes that are not there for ever.
pub(crate) fn given_up(blob: FileId) -> WriteError {
    WriteError::Unavailable(Away::other(format_args!(
        "the bytes `{blob}` were given up before they had a name"
    )))
}

/// A file as it is stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredFile {
    /// Its id.
    pub id: FileId,
    /// When it was made.
    pub created_at: Micros,
    /// Its name.
    pub name: String,
    /// Its MIME type.
    pub mime_type: String,
    /// Its size.
    pub bytes: u64,
    /// Whether its bytes are given out.
    pub downloadable: bool,
    /// When it ends.
    pub expires_at: Option<Micros>,
    /// The session that it goes with.
    pub scope: Option<SessionId>,
    /// Whether it is mounted there.
    pub mounted: bool,
    /// What a hand said of it, for an output.
    pub output: Option<Output>,
    /// Its bytes; `None` once they are gone.
    pub blob: Option<FileId>,
}

/// Where an output of a session came from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Output {
    /// Its path below the folder of outputs.
    pub path: String,
    /// Another one with every change.
    pub version: String,
}

/// Which files to list.
#[derive(Clone, Debug)]
pub struct FileQuery {
    /// Of this session only.
    pub scope: Option<SessionId>,
    /// Of these ids only; `None` is all.
    pub ids: Option<Vec<FileId>>,
    /// The present moment: what ended before is left out.
    pub now: Micros,
    /// Which way.
    pub order: Order,
    /// Files behind this one in that order: (creation, id).
    pub after: Option<(Micros, FileId)>,
    /// At most so many.
    pub limit: usize,
}

/// A page of files.
#[derive(Clone, Debug)]
pub struct FilePage {
    /// The files.
    pub items: Vec<StoredFile>,
    /// Whether more follow in the same order.
    pub more: bool,
}

impl StoredFile {
    /// Describes the copy that a session has of it once it is mounted there.
    pub fn mounted_in(self, session: SessionId, mounted: &Mounted) -> Self {
        Self {
            id: mounted.file,
            created_at: mounted.at,
            expires_at: None,
            scope: Some(session),
            mounted: true,
            output: None,
            ..self
        }
    }

    /// Tells whether it has ended.
    pub fn is_past(&self, now: Micros) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}
