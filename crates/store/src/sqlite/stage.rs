//! Large bodies go to blobs before their append is decided, away from the writer thread.

use std::sync::Arc;

use outlast_protocol::{id::SessionId, seam::Entropy};
use outlast_session::{Json, Proposal};

use super::{
    job::{Staged, bodies, is_large},
    queue::{Queue, Ticket},
};
use crate::{Material, bodies::Bodies, metric_definitions as metrics};

/// Returns the bodies of a proposal that have to go to blobs.
pub(super) fn large(proposal: &Proposal) -> Vec<Json> {
    bodies(proposal)
        .into_iter()
        .filter(|body| is_large(body.get()))
        .cloned()
        .collect()
}

/// Returns the bytes of the bodies that will stand in rows.
pub(super) fn small(proposal: &Proposal) -> usize {
    let sizes = bodies(proposal).into_iter().map(|body| body.get().len());
    sizes.filter(|size| *size <= crate::INLINE).sum()
}

/// Puts bodies into blobs.
pub(super) async fn stage(
    session: SessionId,
    large: Vec<Json>,
    blobs: Bodies,
    entropy: Arc<dyn Entropy>,
) -> Staged {
    let mut staged = Vec::with_capacity(large.len());
    for body in large {
        let (source, entropy) = (body.clone(), entropy.clone());
        let digesting =
            tokio::task::spawn_blocking(move || Material::fresh(&source, &*entropy)).await;
        let material = digesting.map_err(|error| error.to_string())?;
        let put = blobs.put(session, &material.digest, body.clone()).await;
        put.map_err(|error| error.to_string())?;
        metrics::blob(body.get().len());
        staged.push((body, material));
    }
    Ok(staged)
}

/// Lets an append go on when its staging ends, even by a fault of its own.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) queue: Arc<Queue>,
    pub(super) ticket: Ticket,
    pub(super) staged: Staged,
}

impl Staging {
    /// Lets the append go on with what came of putting its bodies away.
    pub(super) async fn end(mut self, work: impl Future<Output = Staged>) {
        self.staged = work.await;
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let staged = std::mem::replace(&mut self.staged, Ok(Vec::new()));
        self.queue.staged(self.ticket, staged);
    }
}
