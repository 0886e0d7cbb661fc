//! Bodies that lie in blobs.

use std::sync::Arc;

use bytes::Bytes;
use outlast_blobs::{Blobs, Error, Key};
use outlast_protocol::id::SessionId;
use outlast_session::Json;
use serde_json::value::RawValue;

/// The blobs of the bodies of sessions.
#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    blobs: Arc<dyn Blobs>,
}

/// A body as bytes that share its memory.
struct Shared(Json);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.get().as_bytes()
    }
}

impl Bodies {
    /// Keeps bodies in `blobs`.
    pub(crate) fn new(blobs: Arc<dyn Blobs>) -> Self {
        Self { blobs }
    }

    /// Stores a body under its digest.
    pub(crate) async fn put(
        &self,
        session: SessionId,
        digest: &[u8; 32],
        body: Json,
    ) -> Result<(), Error> {
        self.blobs
            .put(&key(session, digest), Bytes::from_owner(Shared(body)))
            .await
    }

    /// Loads what is stored as a body, whatever it is.
    pub(crate) async fn bytes(
        &self,
        session: SessionId,
        digest: &[u8; 32],
    ) -> Result<Bytes, Error> {
        self.blobs.get(&key(session, digest)).await
    }

    /// Loads a body; what is stored there and is no JSON is reported as missing.
    pub(crate) async fn get(&self, session: SessionId, digest: &[u8; 32]) -> Result<Json, Error> {
        let key = key(session, digest);
        let bytes = self.blobs.get(&key).await?;
        let text = String::from_utf8(bytes.into()).ok();
        let raw = text.and_then(|text| RawValue::from_string(text).ok());
        raw.map(Json::from).ok_or(Error::NotFound(key))
    }

    /// Removes a body that no record came to name; a failure leaves it to the session's purge.
    pub(crate) async fn drop(&self, session: SessionId, digest: [u8; 32]) {
        if let Err(error) = self.blobs.delete(&key(session, &digest)).await {
            tracing::debug!(%error, "a body without a record was left behind");
        }
    }

    /// Removes up to `limit` bodies of a session; returns how many went.
    pub(crate) async fn purge(&self, session: SessionId, limit: usize) -> Result<usize, Error> {
        self.blobs.delete_prefix(&prefix(session), limit).await
    }
}

#[expect(clippy::expect_used, reason = "ids and hex digits are parts of keys")]
fn prefix(session: SessionId) -> Key {
    Key::new(format!("sessions/{session}")).expect("an id is a part of a key")
}

#[expect(clippy::expect_used, reason = "ids and hex digits are parts of keys")]
pub(crate) fn key(session: SessionId, digest: &[u8; 32]) -> Key {
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Key::new(format!("sessions/{session}/{hex}")).expect("hex digits are a part of a key")
}
