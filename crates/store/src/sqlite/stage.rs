//! Large bodies go to blobs before their append is decided, away from the writer thread.

use std::sync::Arc;

use super::queue::Queue;
use crate::{lines::Ticket, staging::Staged};

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
