//! Appends as they wait.

use outlast_protocol::id::SessionId;
use tokio::{sync::oneshot, time::Instant};

use crate::{
    Append, AppendError,
    staging::{Done, Staged},
};

/// A proposal that waits.
#[derive(Debug)]
pub(crate) struct AppendJob {
    pub(crate) session: SessionId,
    pub(crate) append: Append,
    /// Its large bodies, once they are in blobs.
    pub(crate) staged: Staged,
    /// Bytes of its bodies that will stand in rows.
    pub(crate) size: usize,
    pub(crate) since: Instant,
    pub(crate) reply: oneshot::Sender<Result<Done, AppendError>>,
}

impl AppendJob {
    /// Answers the proposer, if it is still there.
    pub(crate) fn answer(self, answer: Result<Done, AppendError>) {
        crate::metric_definitions::appended(self.since.elapsed());
        // A proposer that went away withdrew nothing and misses nothing.
        drop(self.reply.send(answer));
    }
}

/// Why a write cannot wait here.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Turned {
    #[error("the store is closed")]
    Closed,
    #[error("too many writes wait")]
    Full,
}
