//! Files that messages name, put into a request as the bytes they are.
//!
//! The log keeps the id, so a conversation stays small; what the model is sent is the same bytes
//! with every request, as long as the file is there. One that is gone is told in words.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use outlast_kernel::{Attached, Lease, LeaseError};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use crate::context::Message;

/// What every block that names a file has in its text.
const MARK: &str = "\"file_id\"";

/// Bytes of sources that are kept between the requests of a turn.
const KEPT: usize = 64 * 1024 * 1024;

/// Sources of files that were read already; `None` of those that are gone.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    known: HashMap<String, Option<Arc<Value>>>,
    bytes: usize,
}

impl Sources {
    /// Returns the messages with the bytes of files in place of their names; `None` if they name none.
    pub(crate) async fn fill(
        &mut self,
        lease: &Lease,
        messages: &[Message],
    ) -> Result<Option<Vec<Message>>, LeaseError> {
        let marked = |block: &RawValue| block.get().contains(MARK);
        if !messages
            .iter()
            .any(|message| message.content.iter().any(|block| marked(block)))
        {
            return Ok(None);
        }
        let mut filled = Vec::with_capacity(messages.len());
        for message in messages {
            let mut content = Vec::with_capacity(message.content.len());
            for block in &message.content {
                let new = if marked(block) {
                    self.block(lease, block).await?
                } else {
                    None
                };
                content.push(new.unwrap_or_else(|| block.clone()));
            }
            filled.push(Message {
                role: message.role,
                content,
            });
        }
        Ok(Some(filled))
    }

    /// Returns a block with its files, or `None` if it names none after all.
    async fn block(
        &mut self,
        lease: &Lease,
        block: &RawValue,
    ) -> Result<Option<Box<RawValue>>, LeaseError> {
        let Ok(mut value) = serde_json::from_str::<Value>(block.get()) else {
            return Ok(None);
        };
        let mut changed = self.replace(lease, &mut value).await?;
        let is_result = value.get("type").and_then(Value::as_str) == Some("tool_result");
        if is_result && let Some(Value::Array(inner)) = value.get_mut("content") {
            for block in inner {
                changed |= self.replace(lease, block).await?;
            }
        }
        Ok(changed.then(|| to_raw_value(&value).ok()).flatten())
    }

    async fn replace(&mut self, lease: &Lease, block: &mut Value) -> Result<bool, LeaseError> {
        let Some(id) = named(block).map(str::to_owned) else {
            return Ok(false);
        };
        match self.source(lease, &id).await? {
            Some(source) => {
                if let Some(place) = block.get_mut("source") {
                    *place = Value::clone(&source);
                }
            }
            None => *block = gone(&id),
        }
        Ok(true)
    }

    async fn source(&mut self, lease: &Lease, id: &str) -> Result<Option<Arc<Value>>, LeaseError> {
        if let Some(known) = self.known.get(id) {
            return Ok(known.clone());
        }
        let attached = lease.attached(id).await?;
        let bytes = attached.as_ref().map_or(0, |file| file.bytes.len());
        let source = attached.map(|file| Arc::new(source(&file)));
        if self.bytes.saturating_add(bytes) <= KEPT {
            self.bytes = self.bytes.saturating_add(bytes);
            self.known.insert(id.to_owned(), source.clone());
        }
        Ok(source)
    }
}

/// Returns the file that an image or document names.
fn named(block: &Value) -> Option<&str> {
    let kind = block.get("type").and_then(Value::as_str)?;
    let source = block.get("source")?;
    let from_file = source.get("type").and_then(Value::as_str) == Some("file");
    let wanted = from_file && matches!(kind, "image" | "document");
    source
        .get("file_id")
        .and_then(Value::as_str)
        .filter(|_| wanted)
}

/// Writes a file as the source of a block.
fn source(file: &Attached) -> Value {
    let kind = &file.mime_type;
    if kind == "application/pdf" || kind.starts_with("image/") {
        return json!({
            "type": "base64", "media_type": kind, "data": STANDARD.encode(&file.bytes),
        });
    }
    json!({
        "type": "text", "media_type": "text/plain", "data": String::from_utf8_lossy(&file.bytes),
    })
}

fn gone(id: &str) -> Value {
    let words =
        format!("[the file `{id}` was attached here; it is no longer stored or fit to show]");
    json!({ "type": "text", "text": words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_and_documents_alone_name_files() {
        let file = json!({ "type": "file", "file_id": "f" });
        for (block, id) in [
            (json!({ "type": "image", "source": file }), Some("f")),
            (
                json!({ "type": "document", "source": file, "title": "t" }),
                Some("f"),
            ),
            (
                json!({ "type": "image", "source": { "type": "url", "file_id": "f" } }),
                None,
            ),
            (
                json!({ "type": "text", "text": "\"file_id\"", "source": file }),
                None,
            ),
            (json!("file_id"), None),
        ] {
            assert_eq!(named(&block), id, "{block}");
        }
    }

    #[test]
    fn a_source_has_the_form_of_its_type() {
        let made = |kind: &str, bytes: &[u8]| {
            source(&Attached {
                mime_type: kind.to_owned(),
                bytes: bytes.to_vec(),
            })
        };
        assert_eq!(
            made("image/png", b"\x89P"),
            json!({ "type": "base64", "media_type": "image/png", "data": "iVA=" })
        );
        assert_eq!(
            made("text/csv", b"a,\xff"),
            json!({ "type": "text", "media_type": "text/plain", "data": "a,\u{fffd}" })
        );
    }
}
