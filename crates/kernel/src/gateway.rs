//! The door for whoever holds the model key: spans are not a brain's.

use outlast_protocol::id::{EventId, SessionId};
use outlast_session::{Answer, Fact, Proposal, body::RequestEnded};

use crate::{Kernel, LeaseError, lease::joined};

/// For whom a request is made: a token worth nothing once the epoch moved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Asker {
    /// The session.
    pub session: SessionId,
    /// The thread.
    pub thread: u32,
    /// The lease.
    pub epoch: u64,
}

impl Kernel {
    /// Records that a model request leaves; submitted when called, durable when the future is done.
    ///
    /// An answer other than [`Answer::Appended`] means that the request must not be made.
    pub fn request_started(
        &self,
        asker: Asker,
        request: EventId,
    ) -> impl Future<Output = Result<Answer, LeaseError>> + Send + 'static {
        self.fact(asker, request, Fact::RequestStarted)
    }

    /// Records what a model request used; submitted when called.
    pub fn request_ended(
        &self,
        asker: Asker,
        ended: RequestEnded,
    ) -> impl Future<Output = Result<Answer, LeaseError>> + Send + 'static {
        self.fact(asker, ended.request, Fact::RequestEnded(ended))
    }

    fn fact(
        &self,
        asker: Asker,
        key: EventId,
        fact: Fact,
    ) -> impl Future<Output = Result<Answer, LeaseError>> + Send + 'static {
        let Asker {
            session,
            thread,
            epoch,
        } = asker;
        let proposal = Proposal::Keyed {
            thread,
            epoch,
            key,
            fact,
        };
        let handle = self.0.append(session, proposal, None, None);
        async move { Ok(joined(handle).await?.answer) }
    }
}
