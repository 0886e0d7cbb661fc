//! What comes out of hands, looked through by the egress process: texts go there, and come back swept.

use std::{io, sync::Arc};

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{Method, StatusCode, body::Frame};
use outlast_kernel::{Finder, Reader, Sweep, sweep::Apart};
use outlast_protocol::{
    CallResult,
    id::{ResourceId, SessionId, VaultId},
};
use outlast_store::{Away, ReadError};
use tokio_util::io::{ReaderStream, StreamReader};

use super::{
    Remote,
    ask::Asker,
    wire::{OF, Of},
};

/// Bytes that are read at once.
const CHUNK: usize = 256 * 1024;

#[async_trait]
impl Sweep for Remote {
    async fn of(
        &self,
        session: SessionId,
        vaults: &[VaultId],
        repositories: &[ResourceId],
    ) -> Result<Finder, ReadError> {
        Ok(Finder::Apart(Arc::new(Swept {
            asker: self.0.asker.clone(),
            of: Of {
                session,
                vaults: vaults.to_vec(),
                repositories: repositories.to_vec(),
            },
        })))
    }
}

/// Has things looked through for one session.
#[derive(Debug)]
struct Swept {
    asker: Asker,
    of: Of,
}

#[async_trait]
impl Apart for Swept {
    async fn result(&self, result: CallResult) -> Result<CallResult, ReadError> {
        let swept = self.asker.ask("/sweep/result", &(&self.of, result)).await;
        // Nobody may have looked through it, so it waits.
        swept.map_err(|error| ReadError::Unavailable(Away::other(error)))
    }

    async fn texts(&self, texts: Vec<String>) -> Result<Vec<String>, ReadError> {
        let swept = self.asker.ask("/sweep/texts", &(&self.of, texts)).await;
        swept.map_err(|error| ReadError::Unavailable(Away::other(error)))
    }

    fn reader(&self, content: Reader) -> Reader {
        let (asker, of) = (self.asker.clone(), self.of.clone());
        let opened = async move { open(asker, of, content).await };
        let chunks = futures::stream::once(opened).try_flatten().boxed();
        Box::pin(StreamReader::new(chunks))
    }
}

async fn open(
    asker: Asker,
    of: Of,
    content: Reader,
) -> io::Result<impl futures::Stream<Item = io::Result<bytes::Bytes>> + Send> {
    let chunks = ReaderStream::with_capacity(content, CHUNK).map_ok(Frame::data);
    let request = asker
        .request(Method::POST, "/sweep/bytes")
        .header(OF, serde_json::to_string(&of)?)
        .body(StreamBody::new(chunks).boxed_unsync())
        .map_err(io::Error::other)?;
    let answer = asker.send(request).await?;
    let status = answer.status();
    if status == StatusCode::OK {
        let body = axum::body::Body::new(answer.into_body());
        return Ok(TryStreamExt::map_err(
            body.into_data_stream(),
            io::Error::other,
        ));
    }
    Err(io::Error::other(format!(
        "the egress process answered {status}"
    )))
}
