//! What goes into a hand and comes out of it: streamed, never held in memory.

use std::{io, sync::Arc};

use axum::{
    Json,
    body::Body,
    extract::{Path, Query, State},
    http::{HeaderMap, HeaderName, HeaderValue},
    response::{IntoResponse as _, Response},
};
use futures::StreamExt as _;
use outlast_protocol::id::IncarnationId;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::{
    io::{ReaderStream, StreamReader},
    task::TaskTracker,
};

use super::{
    routes::{Answer, FAILED, Shared, answer},
    wire::{Fault, LIMITS, Placed, SUM},
};
use crate::{
    Limits,
    files::{Packed, Published, Reader, Sum, Upload},
};

/// Bytes that are read at once: large enough that a gigabyte is no matter of system calls.
pub(super) const CHUNK: usize = 256 * 1024;

/// Chunks of a body that wait for who reads it.
const AHEAD: usize = 4;

/// Makes a reader of a body that is on its way; a connection that breaks is an error of it.
///
/// What nobody reads any more is taken from the connection all the same: closed with bytes unread,
/// it would lose the answer that says why.
fn reader(body: Body, tasks: &TaskTracker) -> Reader {
    let (sender, mut receiver) = mpsc::channel(AHEAD);
    let mut stream = body.into_data_stream();
    tasks.spawn(async move {
        while let Some(chunk) = stream.next().await {
            let broken = chunk.is_err();
            // An error means that nobody reads any more.
            drop(sender.send(chunk.map_err(io::Error::other)).await);
            if broken {
                return;
            }
        }
    });
    let chunks = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
    Box::pin(StreamReader::new(chunks))
}

/// Makes a body of a reader; one that fails breaks the connection, so that nobody takes it for whole.
fn body(content: Reader) -> Body {
    Body::from_stream(ReaderStream::with_capacity(content, CHUNK))
}

fn failed(error: io::Error) -> Response {
    (FAILED, Json(Fault::from(error))).into_response()
}

pub(super) async fn checkpoint(
    State(shared): State<Arc<Shared>>,
    Path(incarnation): Path<IncarnationId>,
) -> Response {
    let packed = match shared.provisioner.checkpoint(incarnation).await {
        Ok(packed) => packed,
        Err(error) => return failed(error),
    };
    match written(&packed.sum) {
        Ok(sum) => {
            let name = HeaderName::from_static(SUM);
            ([(name, sum)], body(packed.content)).into_response()
        }
        Err(error) => failed(error),
    }
}

/// Writes a sum or the bounds of a layer as a header.
pub(super) fn written(value: &impl Serialize) -> io::Result<HeaderValue> {
    let text = serde_json::to_string(value)?;
    HeaderValue::from_str(&text).map_err(io::Error::other)
}

/// Reads a sum from a header.
pub(super) fn read(headers: &HeaderMap) -> io::Result<Sum> {
    let missing = || io::Error::new(io::ErrorKind::InvalidData, "the layer came without a sum");
    let value = headers.get(SUM).ok_or_else(missing)?;
    Ok(serde_json::from_slice(value.as_bytes())?)
}

/// Reads the bounds of a layer from a header.
fn bounds(headers: &HeaderMap) -> io::Result<Limits> {
    let Some(value) = headers.get(LIMITS) else {
        // Of the version before this one; they are held when the hand is made.
        return Ok(Limits::default());
    };
    Ok(serde_json::from_slice(value.as_bytes())?)
}

pub(super) async fn restore(
    State(shared): State<Arc<Shared>>,
    Path(incarnation): Path<IncarnationId>,
    headers: HeaderMap,
    content: Body,
) -> Answer<(), Fault> {
    let asked = read(&headers).and_then(|sum| Ok((sum, bounds(&headers)?)));
    let done = match asked {
        Ok((sum, limits)) => {
            let content = reader(content, &shared.tasks);
            let packed = Packed { sum, content };
            let restoring = shared.provisioner.restore(incarnation, &limits, packed);
            restoring.await
        }
        Err(error) => Err(error),
    };
    answer(done.map_err(Fault::from))
}

pub(super) async fn place(
    State(shared): State<Arc<Shared>>,
    Path((incarnation, path)): Path<(IncarnationId, String)>,
    Query(Placed { id, bytes }): Query<Placed>,
    content: Body,
) -> Answer<(), Fault> {
    let upload = Upload { path, id, bytes };
    let done = shared
        .provisioner
        .place(incarnation, &upload, reader(content, &shared.tasks))
        .await;
    answer(done.map_err(Fault::from))
}

pub(super) async fn unplace(
    State(shared): State<Arc<Shared>>,
    Path((incarnation, path)): Path<(IncarnationId, String)>,
) -> Answer<(), Fault> {
    let done = shared.provisioner.unplace(incarnation, &path).await;
    answer(done.map_err(Fault::from))
}

pub(super) async fn uploads(
    State(shared): State<Arc<Shared>>,
    Path(incarnation): Path<IncarnationId>,
) -> Answer<Vec<Upload>, Fault> {
    let done = shared.provisioner.uploads(incarnation).await;
    answer(done.map_err(Fault::from))
}

pub(super) async fn outputs(
    State(shared): State<Arc<Shared>>,
    Path(incarnation): Path<IncarnationId>,
) -> Answer<Vec<Published>, Fault> {
    let done = shared.provisioner.outputs(incarnation).await;
    answer(done.map_err(Fault::from))
}

pub(super) async fn output(
    State(shared): State<Arc<Shared>>,
    Path((incarnation, path)): Path<(IncarnationId, String)>,
) -> Response {
    match shared.provisioner.output(incarnation, &path).await {
        Ok(content) => body(content).into_response(),
        Err(error) => failed(error),
    }
}
