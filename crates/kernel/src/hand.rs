//! The life of hands: wanted when first needed, replaced when lost, let go when unused.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use outlast_hands::{Hand, Keep, Provisioner, Recalled, Recipe};
use outlast_protocol::{
    CallResult, Outcome,
    id::{EventId, IncarnationId, SessionId},
};
use outlast_session::{Answer, Fact, State, body::HandWanted};
use tokio::{sync::Mutex as Turn, time::Instant};

use crate::{LeaseError, calls::Job, metric_definitions as metrics};

/// The name of the hand that the standard tools use.
const DEFAULT: &str = "default";

/// The hands of this node.
#[derive(Debug)]
pub(crate) struct Hands {
    provisioner: Arc<dyn Provisioner>,
    /// One at a time makes a session's hand.
    turns: Mutex<HashMap<SessionId, Weak<Turn<()>>>>,
    used: Mutex<HashMap<IncarnationId, Instant>>,
}

impl Hands {
    pub(crate) fn new(provisioner: Arc<dyn Provisioner>) -> Self {
        Self {
            provisioner,
            turns: Mutex::default(),
            used: Mutex::default(),
        }
    }

    /// Returns a hand that lives.
    pub(crate) async fn find(&self, incarnation: IncarnationId) -> Option<Arc<dyn Hand>> {
        self.provisioner.find(incarnation).await
    }

    /// Asks what became of a call of a hand that may be dead.
    pub(crate) async fn recall(&self, incarnation: IncarnationId, call: EventId) -> Recalled {
        self.provisioner.recall(incarnation, call).await
    }

    /// Notes that a hand was used just now.
    pub(crate) fn used(&self, incarnation: IncarnationId) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.insert(incarnation, Instant::now());
    }

    /// Lets go of hands that nobody used for `idle`; their workspaces stay.
    pub(crate) async fn rest(&self, idle: Duration) {
        let expired: Vec<_> = {
            let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            used.iter()
                .filter(|(_, at)| at.elapsed() >= idle)
                .map(|(id, _)| *id)
                .collect()
        };
        for incarnation in expired {
            self.reap(incarnation, Keep::Layer).await;
        }
    }

    /// Removes the hand of a session that is over, with its workspace.
    pub(crate) async fn forget(&self, state: &State) {
        if let Some(hand) = state.hand {
            self.reap(hand.incarnation, Keep::Nothing).await;
        }
    }

    /// Ends every hand; workspaces stay.
    pub(crate) async fn close(&self) {
        for incarnation in self.provisioner.list().await {
            if self.find(incarnation).await.is_some() {
                self.reap(incarnation, Keep::Layer).await;
            }
        }
    }

    async fn reap(&self, incarnation: IncarnationId, keep: Keep) {
        self.used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&incarnation);
        if let Err(fault) = self.provisioner.reap(incarnation, keep).await {
            tracing::warn!(hand.id = %incarnation, "cannot reap `{incarnation}`: {fault}");
        }
    }

    fn turn(&self, session: SessionId) -> Arc<Turn<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(&session).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(Turn::new(()));
        turns.insert(session, Arc::downgrade(&turn));
        turn
    }
}

impl Job {
    /// Returns the session's hand, made now if there is none.
    ///
    /// The inner error is what the model reads: no hand could be made.
    pub(crate) async fn hand(&self) -> Result<Result<Arc<dyn Hand>, CallResult>, LeaseError> {
        let turn = self.inner.hands.turn(self.session);
        let _one = turn.lock().await;
        let state = self.state().await?;
        if let Some(hand) = state.hand.filter(|hand| !hand.lost) {
            if let Some(found) = self.inner.hands.find(hand.incarnation).await {
                self.inner.hands.used(hand.incarnation);
                return Ok(Ok(found));
            }
            self.lost(hand.incarnation, "it is not running any more".to_owned())
                .await?;
        }
        self.make(state.hand.map(|hand| hand.incarnation)).await
    }

    /// Makes the next incarnation; recorded before it exists, so that none is ever unknown.
    async fn make(
        &self,
        predecessor: Option<IncarnationId>,
    ) -> Result<Result<Arc<dyn Hand>, CallResult>, LeaseError> {
        let (clock, entropy) = (&self.inner.clock, &self.inner.entropy);
        let incarnation = IncarnationId::mint(clock.now(), &**entropy);
        let wanted = HandWanted {
            name: DEFAULT.to_owned(),
            incarnation,
            predecessor,
        };
        let answer = self
            .fact(self.inner.event_id(), Fact::HandWanted(wanted))
            .await?;
        if answer != Answer::Appended {
            return Err(LeaseError::Illegal(
                "another hand was wanted meanwhile".to_owned(),
            ));
        }
        let recipe = Recipe {
            incarnation,
            predecessor,
            limits: self.inner.options.limits,
        };
        let started = Instant::now();
        let made = self.inner.hands.provisioner.provision(&recipe).await;
        ::metrics::histogram!(metrics::PROVISION).record(started.elapsed().as_secs_f64());
        match made {
            Ok(hand) => {
                self.inner.hands.used(incarnation);
                Ok(Ok(hand))
            }
            Err(fault) => {
                tracing::error!(session.id = %self.session, "cannot make a hand: {fault}");
                self.lost(incarnation, fault.to_string()).await?;
                let words = format!("no sandbox could be started, the call did not run: {fault}");
                Ok(Err(CallResult::error(Outcome::NotStarted, words)))
            }
        }
    }
}
