//! Files that messages name: fit to be shown to a model, and read when one is asked.

use std::collections::BTreeSet;

use outlast_media::Format;
use outlast_protocol::{
    ErrorCode, Problem,
    content::{Block, Source},
    event::ClientEvent,
    id::FileId,
    limits, mime,
};
use outlast_store::{ReadError, StoredFile};
use tokio::io::AsyncReadExt as _;

use super::key;
use crate::{Kernel, Lease, LeaseError, error, kernel::Inner};

/// The bytes of a file that a message names.
#[derive(Debug)]
pub struct Attached {
    /// Its MIME type, without parameters.
    pub mime_type: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Kernel {
    /// Refuses events that name files which are not there or which no model takes; `list` is the
    /// field that they came in.
    pub(crate) async fn check_sources(
        &self,
        list: &str,
        events: &[ClientEvent],
    ) -> Result<(), Problem> {
        // One file may be named in a thousand blocks.
        let mut fit = BTreeSet::new();
        for (number, event) in events.iter().enumerate() {
            for (index, block) in event.blocks().iter().enumerate() {
                let image = matches!(block, Block::Image { .. });
                if let Some(id) = named(block).filter(|id| fit.insert((image, *id))) {
                    let field = format!("{list}.{number}.content.{index}.source.file_id");
                    self.check_source(&field, block, id).await?;
                }
            }
        }
        Ok(())
    }

    async fn check_source(&self, field: &str, block: &Block, id: &str) -> Result<(), Problem> {
        let placed =
            |problem: Problem| Problem::new(problem.code, format!("{field}: {}", problem.message));
        let parsed = FileId::parse(id);
        let parsed = parsed.ok_or_else(|| Problem::not_found(format_args!("file `{id}`")));
        let file = self.file(parsed.map_err(placed)?).await.map_err(placed)?;
        let refused = |words: String| {
            let words = format!("{field}: file `{id}` {words}");
            Problem::new(ErrorCode::InvalidRequest, words)
        };
        fits(block, &file).map_err(refused)?;
        let Some((format, blob)) = format(&file).zip(file.blob) else {
            return Ok(());
        };
        let begin = self.0.bytes(blob, file.bytes.min(format.telling())).await;
        let begin = begin.map_err(|fault| placed(error::read(&fault)))?;
        let checked = outlast_media::check(format, &begin);
        checked.map_err(|unfit| refused(unfit.to_string()))
    }
}

/// Returns the format that a file's bytes must have; text may be any.
fn format(file: &StoredFile) -> Option<Format> {
    Format::of_type(mime::essence(&file.mime_type))
}

fn named(block: &Block) -> Option<&str> {
    match block {
        Block::Image {
            source: Source::File { file_id },
        }
        | Block::Document {
            source: Source::File { file_id },
            ..
        } => Some(file_id),
        Block::Text { .. }
        | Block::Image { .. }
        | Block::Document { .. }
        | Block::SearchResult { .. } => None,
    }
}

/// Says what keeps a file from being shown to a model as that block.
fn fits(block: &Block, file: &StoredFile) -> Result<(), String> {
    let kind = mime::essence(&file.mime_type);
    let (good, most, allowed) = match block {
        Block::Image { .. } => (
            Format::of_type(kind).is_some_and(Format::is_image),
            limits::IMAGE_FILE,
            "an image must be JPEG, PNG, GIF or WebP",
        ),
        Block::Document { .. } | Block::Text { .. } | Block::SearchResult { .. } => (
            is_document(kind),
            limits::DOCUMENT_FILE,
            "a document must be PDF or text",
        ),
    };
    if !good {
        return Err(format!("is of type `{kind}`; {allowed}"));
    }
    if file.bytes == 0 {
        return Err("is empty".to_owned());
    }
    if file.bytes > most {
        return Err(format!(
            "has {} bytes; at most {most} are allowed",
            file.bytes
        ));
    }
    Ok(())
}

fn is_document(kind: &str) -> bool {
    kind == "application/pdf" || kind == "application/json" || kind.starts_with("text/")
}

impl Lease {
    /// Reads a file that a message names; `None` if it is gone, or is not fit for a model any more.
    ///
    /// # Errors
    ///
    /// If it cannot be read now.
    pub async fn attached(&self, id: &str) -> Result<Option<Attached>, LeaseError> {
        let Some(id) = FileId::parse(id) else {
            return Ok(None);
        };
        let find = || self.inner.store.file(id);
        let file = match self.inner.patiently(find).await {
            Ok(file) => file,
            Err(ReadError::NotFound(_)) => return Ok(None),
            Err(fault) => return Err(fault.into()),
        };
        // An output that was named may have been written anew since.
        let usable = file.bytes > 0 && file.bytes <= limits::DOCUMENT_FILE;
        let Some(blob) = file
            .blob
            .filter(|_| usable && !file.is_past(self.inner.clock.now()))
        else {
            return Ok(None);
        };
        let read = || self.inner.bytes(blob, file.bytes);
        let bytes = match self.inner.patiently(read).await {
            Ok(bytes) => bytes,
            Err(ReadError::NotFound(_)) => return Ok(None),
            Err(fault) => {
                let words = format!("file `{id}` cannot be read: {fault}");
                return Err(LeaseError::Unavailable(words));
            }
        };
        let fit = |format| outlast_media::check(format, &bytes).is_ok();
        Ok(format(&file).is_none_or(fit).then(|| Attached {
            mime_type: mime::essence(&file.mime_type).to_owned(),
            bytes,
        }))
    }
}

impl Inner {
    /// Reads the first `size` bytes of a file, or all there are.
    async fn bytes(&self, blob: FileId, size: u64) -> Result<Vec<u8>, ReadError> {
        let opened = self.blobs.open(&key(blob), 0).await;
        let content = opened.map_err(|fault| match fault {
            outlast_blobs::Error::NotFound(_) => ReadError::NotFound(blob.to_string()),
            outlast_blobs::Error::Unavailable { .. } => ReadError::Unavailable(fault.into()),
        })?;
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        let mut content = content.take(size);
        let read = content.read_to_end(&mut bytes).await;
        read.map_err(|fault| ReadError::Unavailable(fault.into()))?;
        Ok(bytes)
    }
}
