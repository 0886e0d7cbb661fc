//! Ways out of hands that lived before this process: whoever served them is gone.

use std::{collections::BTreeMap, sync::Arc};

use outlast_protocol::id::{IncarnationId, SessionId};
use outlast_store::ReadError;

use crate::kernel::Inner;

impl Inner {
    /// Begins to serve the ways out of all hands that live and are named, one after the other.
    pub(crate) fn adopt(self: &Arc<Self>, named: &BTreeMap<IncarnationId, SessionId>) {
        let lacking = |(incarnation, _): &(&IncarnationId, &SessionId)| {
            self.hands.outlets.lack(**incarnation) && self.hands.has(**incarnation)
        };
        let lacking = named.iter().filter(lacking);
        let lacking: Vec<_> = lacking.map(|(id, session)| (*id, *session)).collect();
        if lacking.is_empty() {
            return;
        }
        let inner = self.clone();
        self.tasks.spawn(async move {
            for (incarnation, session) in lacking {
                // Nobody makes or ends the session's hand meanwhile, and an earlier round may be here.
                let turn = inner.hands.turn(session);
                let adopting = async {
                    let _one = turn.lock().await;
                    inner.adopt_one(session, incarnation).await;
                };
                tokio::select! {
                    biased;
                    () = adopting => {}
                    () = inner.closing.cancelled() => return,
                }
            }
        });
    }

    /// Begins to serve the way out of a session's newest hand, unless it is served. The caller has the
    /// turn of that hand.
    pub(crate) async fn adopt_one(
        self: &Arc<Self>,
        session: SessionId,
        incarnation: IncarnationId,
    ) {
        if !self.hands.outlets.lack(incarnation) {
            return;
        }
        if let Err(fault) = self.attach_newest(session, incarnation).await {
            let hand = incarnation;
            tracing::error!(hand.id = %hand, "the way out of `{hand}` is not served: {fault}");
        }
    }

    async fn attach_newest(
        self: &Arc<Self>,
        session: SessionId,
        incarnation: IncarnationId,
    ) -> Result<(), ReadError> {
        let state = self.store.head(session).await?;
        let newest = state.hand.filter(|hand| !hand.lost);
        if newest.is_some_and(|hand| hand.incarnation == incarnation)
            && let Some(bound) = self.bound(&state, incarnation).await?
        {
            self.attach(bound).await;
        }
        Ok(())
    }
}
