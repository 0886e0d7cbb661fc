//! What both sides of a request agreed to become: bytes, both ways.

use std::{io, sync::Arc};

use bytes::BytesMut;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{
    AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, copy, copy_bidirectional, split,
};

use super::client::Client;
use crate::{
    metric_definitions as metrics,
    replace::{Stream, Table},
};

/// What is read at once.
const PIECE: usize = 64 << 10;

/// Relays both ways until both sides are through.
///
/// What comes back is looked through if there is something to look for. Bytes cannot be replaced in a
/// protocol that counts them, so what has a secret in it is cut off before it.
pub(crate) fn join(client: &Client, ours: OnUpgrade, theirs: OnUpgrade, sweep: Option<Arc<Table>>) {
    let slot = client.slot.clone();
    client.hand.spawn(async move {
        if let (Ok(ours), Ok(theirs)) = futures::join!(ours, theirs) {
            let (ours, theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
            if let Err(error) = relay(ours, theirs, sweep).await {
                tracing::debug!(%error, "an upgraded connection of a hand broke off: {error}");
            }
        }
        drop(slot);
    });
}

async fn relay(
    mut ours: TokioIo<Upgraded>,
    mut theirs: TokioIo<Upgraded>,
    sweep: Option<Arc<Table>>,
) -> io::Result<()> {
    let Some(table) = sweep else {
        return copy_bidirectional(&mut ours, &mut theirs).await.map(drop);
    };
    let ((read, write), (their_read, mut their_write)) = (split(ours), split(theirs));
    let out = async {
        let mut read = read;
        copy(&mut read, &mut their_write).await?;
        their_write.shutdown().await
    };
    futures::try_join!(out, looked_through(their_read, write, table)).map(drop)
}

async fn looked_through(
    mut from: ReadHalf<TokioIo<Upgraded>>,
    mut to: WriteHalf<TokioIo<Upgraded>>,
    table: Arc<Table>,
) -> io::Result<()> {
    let mut stream = Stream::new(table);
    let mut buffer = BytesMut::with_capacity(PIECE);
    loop {
        buffer.reserve(PIECE);
        let count = from.read_buf(&mut buffer).await?;
        let out = match count {
            0 => stream.finish(),
            _ => stream.push(&buffer.split().freeze()),
        };
        if !stream.found().is_empty() {
            ::metrics::counter!(metrics::SWEPT).increment(1);
            return Err(io::Error::other("a secret came back"));
        }
        to.write_all(&out).await?;
        to.flush().await?;
        if count == 0 {
            return to.shutdown().await;
        }
    }
}
