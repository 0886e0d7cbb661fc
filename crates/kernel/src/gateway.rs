//! The door for whoever holds the model key: spans are not a brain's.

use outlast_protocol::id::{EventId, ProcessId, SessionId};
use outlast_session::{Answer, Fact, Proposal, body::RequestEnded};

use crate::{Kernel, LeaseError, lease::joined, life::Halt};

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
    /// Fails unless a brain may have a request made now: its process lives, as far as that can be known.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Unsure`], and [`LeaseError::Over`] if it was declared dead.
    pub fn may_ask(&self, asker: Asker) -> Result<(), LeaseError> {
        Ok(self.0.life.check(self.asking(asker))?)
    }

    /// Waits until a brain may have no request made any more; one that runs is to be dropped then.
    pub async fn stops(&self, asker: Asker) -> LeaseError {
        let process = self.asking(asker);
        let halt: Halt = self.0.life.halted(process).await;
        halt.into()
    }

    /// Returns the process that a brain's lease was claimed for; the log knows those of elsewhere.
    fn asking(&self, asker: Asker) -> ProcessId {
        let Asker {
            session,
            thread,
            epoch,
        } = asker;
        let known = self.0.leases.claimant(session, thread, epoch);
        known.unwrap_or_else(|| self.0.life.process())
    }

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
        let handle = self.0.insist((session, thread, epoch), proposal);
        async move { Ok(joined(handle).await?.answer) }
    }
}
