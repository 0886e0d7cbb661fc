//! Git repositories of a session: named at its creation, cloned into its hand before the first call.
//!
//! Cloning is a command in the sandbox like any other, so it has the sandbox's bounds, its user and its
//! way out. It knows no token: whoever forwards its requests adds that, to this repository's alone.

mod script;
mod tokens;
mod verdict;

use std::{sync::Arc, time::Duration};

use outlast_hands::{CallError, Hand};
use outlast_protocol::{
    CallResult,
    content::Block,
    event::{Body as _, RetryStatus, SessionError},
    id::{EventId, ResourceId},
    session::AddRepository,
};
use outlast_session::{
    Fact, State,
    body::{Cloned, Repository},
};
use tokio::time::sleep;

pub use self::tokens::Draft;
pub(crate) use self::tokens::tidy;
use self::verdict::Verdict;
use crate::{Kernel, LeaseError, calls::Job, checkpoint::Use};

/// The longest that one repository may take; the bound of every call holds too.
const LONGEST: Duration = Duration::from_secs(600);

/// How often to look whether a client wants the thread stopped.
const LOOK: Duration = Duration::from_secs(1);

impl Kernel {
    /// Describes a repository that a session is to have.
    pub fn repository_of(&self, add: &AddRepository) -> Repository {
        let now = self.now();
        Repository {
            id: ResourceId::mint(now, self.entropy()),
            url: add.url.clone(),
            checkout: add.checkout.clone(),
            path: add.path.clone(),
            at: now,
            updated: None,
        }
    }
}

impl Job {
    /// Sees that the repositories of the session stand in its hand, which the state may not know yet. The
    /// caller has the turn of the session's hand.
    ///
    /// One that cannot be cloned is told to the client as `session.error` and is tried again by the
    /// next brain; the session goes on without it.
    pub(crate) async fn clone_repositories(
        &self,
        state: &Arc<State>,
        hand: &Arc<dyn Hand>,
    ) -> Result<(), LeaseError> {
        let config = state.config.as_deref();
        let Some(config) = config.filter(|config| !config.repositories.is_empty()) else {
            return Ok(());
        };
        let known = state.hand.map(|known| known.incarnation);
        let state = match known == Some(hand.incarnation()) {
            true => state.clone(),
            // It was made just now.
            false => self.state().await?,
        };
        for repository in &config.repositories {
            if !self.lacks(&state, hand, repository.id) {
                continue;
            }
            match self.clone_one(&state, hand, repository).await? {
                Some(verdict) => self.tell(hand, repository, verdict).await?,
                // The hand is gone, or somebody wants the thread stopped.
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Tells whether to try a repository in this hand: once for each brain until it is there, and
    /// again where its files were lost. What the agent removed stays removed.
    fn lacks(&self, state: &State, hand: &Arc<dyn Hand>, resource: ResourceId) -> bool {
        let hand = hand.incarnation();
        let Some(last) = state.cloned.iter().find(|last| last.resource == resource) else {
            return true;
        };
        match last.there {
            true => last.hand != hand && state.hand.is_some_and(|known| known.loss.is_some()),
            false => (last.hand, last.epoch) != (hand, self.epoch),
        }
    }

    /// Runs the clone; `None` if nothing can be said of it.
    async fn clone_one(
        &self,
        state: &State,
        hand: &Arc<dyn Hand>,
        repository: &Repository,
    ) -> Result<Option<Verdict>, LeaseError> {
        let call = self.inner.event_id();
        let input = script::input(repository, LONGEST);
        let _using = Use::begin(&self.inner, self.session, hand.incarnation()).await;
        self.inner.life.check(self.process)?;
        let cloning = hand.execute(self.fence(), call, "bash", &input);
        let done = tokio::select! {
            biased;
            done = cloning => done,
            () = self.unwanted() => {
                drop(self.inner.stop(hand.incarnation(), call));
                return Ok(None);
            }
        };
        match done {
            Ok(result) => {
                // A host may say what it was told.
                let result = self.inner.swept(state, result).await?;
                Ok(Some(Verdict::of(&text(&result))))
            }
            Err(stale @ CallError::Stale { .. }) => Err(LeaseError::Over(stale.to_string())),
            Err(CallError::Lost(_)) => Ok(None),
        }
    }

    /// Waits until a client wants the thread stopped, or this process ends.
    async fn unwanted(&self) {
        let interrupted = async {
            loop {
                sleep(LOOK).await;
                let state = self.state().await;
                let thread = state
                    .as_ref()
                    .ok()
                    .and_then(|state| state.thread(self.thread));
                if thread.is_some_and(|thread| !thread.interrupts.is_empty()) {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = interrupted => {}
            () = self.inner.life.died(self.process) => {}
            () = self.inner.closing.cancelled() => {}
        }
    }

    /// Records what came of it, with the words for the client.
    async fn tell(
        &self,
        hand: &Arc<dyn Hand>,
        repository: &Repository,
        verdict: Verdict,
    ) -> Result<(), LeaseError> {
        let cloned = Cloned {
            resource: repository.id,
            hand: hand.incarnation(),
            epoch: self.epoch,
            there: matches!(verdict, Verdict::There),
        };
        let url = repository.url.as_str();
        let error = verdict.error(url).map(|(kind, words)| {
            tracing::warn!(session.id = %self.session, "`{url}` is not cloned: {words}");
            let error = SessionError::new(kind, words, RetryStatus::Retrying);
            error.to_raw().into()
        });
        let key: EventId = self.inner.event_id();
        self.fact(key, Fact::Cloned(cloned, error)).await.map(drop)
    }
}

/// Returns what a command said.
fn text(result: &CallResult) -> String {
    let texts = result.content.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::Image { .. } | Block::Document { .. } | Block::SearchResult { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
