//! The driver: performs what `step` decides, against a model and a lease.

use std::{sync::Arc, time::Duration};

use futures::{
    future::{join_all, try_join_all},
    join,
};
use outlast_kernel::{Lease, LeaseError, Slice};
use outlast_model::{Facts, Model};
use outlast_protocol::id::EventId;
use outlast_session::{Queued, State, Step, Stop};
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::{
    Effect,
    attach::Sources,
    context::{NAME, Unreadable, Whole},
    failure::{self, Retries},
    prefix::Prefix,
    request, step,
    stream::Request,
};

/// How long a cancelled call may take to end before the turn ends without it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Records behind a snapshot that make a new one worth its bytes.
const SNAPSHOT: u64 = 512;

/// Records that one read of the log brings.
const PAGE: usize = 1_024;

/// What a driver needs beside a lease.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) facts: Arc<Facts>,
    pub(crate) retries: Retries,
}

/// A turn on its way.
#[derive(Debug)]
pub(crate) struct Drive<'a> {
    lease: &'a Lease,
    tools: &'a Tools,
    context: Whole,
    loaded: bool,
    saved: u64,
    prefix: Option<(Arc<State>, Prefix)>,
    sources: Sources,
    /// Whether anything was done under this lease.
    worked: bool,
}

/// Why a driver stops before the turn is over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stuck {
    #[error(transparent)]
    Lease(#[from] LeaseError),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("the process does not know whether it lives")]
    Halted,
    #[error("the log did not move")]
    Still,
}

/// Whose doing it is that a driver stops.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Cause {
    /// A fault of ours, which the next brain may meet again.
    Fault,
    /// The log cannot be written or read now.
    Log,
    /// The lease is another's.
    Lease,
}

impl Stuck {
    /// Returns whose doing it is.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Self::Still
            | Self::Unreadable(_)
            | Self::Lease(LeaseError::Illegal(_) | LeaseError::Broken(_)) => Cause::Fault,
            Self::Lease(LeaseError::Unavailable(_)) => Cause::Log,
            Self::Halted | Self::Lease(LeaseError::Over(_) | LeaseError::Unsure) => Cause::Lease,
        }
    }
}

impl<'a> Drive<'a> {
    pub(crate) fn new(lease: &'a Lease, tools: &'a Tools) -> Self {
        let context = Whole::default();
        Self {
            lease,
            tools,
            context,
            loaded: false,
            saved: 0,
            prefix: None,
            sources: Sources::default(),
            worked: false,
        }
    }

    /// Works until the lease is given back.
    pub(crate) async fn run(&mut self) -> Result<(), Stuck> {
        loop {
            tokio::select! {
                biased;
                settled = self.lease.settled() => settled?,
                () = self.lease.closing() => {}
            }
            let state = self.lease.state();
            let Some(thread) = self.lease.held(&state) else {
                return Ok(());
            };
            if self.lease.is_closing() {
                self.lease.propose(Step::Release).await?;
                return Ok(());
            }
            let effect = step(thread);
            if matches!(effect, Effect::TakeIn { .. }) && self.worked && self.lease.is_wanted() {
                // A turn is over and the next one waits, and so do other sessions: they first.
                self.say(Step::Release).await?;
                return Ok(());
            }
            match self.perform(&effect, &state).await {
                // Whatever began is dropped; the same is decided again, once it may be done.
                Err(Stuck::Halted | Stuck::Lease(LeaseError::Unsure)) => continue,
                performed => performed?,
            }
            self.worked = true;
            if effect == Effect::Rest {
                return Ok(());
            }
            if self.lease.state().tail == state.tail {
                return Err(Stuck::Still);
            }
        }
    }

    async fn perform(&mut self, effect: &Effect, state: &Arc<State>) -> Result<(), Stuck> {
        match effect {
            Effect::Interrupt => self.say(Step::Interrupt).await,
            Effect::TakeIn { last } => self.take_in(state, *last).await,
            Effect::CallModel => {
                self.catch_up(state.tail).await?;
                self.ask(state, None).await
            }
            Effect::Execute(calls) => self.execute(calls).await,
            Effect::EndTurn => {
                self.snapshot().await;
                self.say(Step::EndTurn(Stop::EndTurn)).await
            }
            Effect::Refuse => self.refuse(state).await,
            Effect::Overflow => {
                let (model, window) = self.model(state);
                self.say(Step::Fail(failure::overflow(&model, window)))
                    .await
            }
            Effect::Rest => self.say(Step::Release).await,
        }
    }

    /// Appends a step; whatever the answer, the next look at the state decides.
    async fn say(&self, step: Step) -> Result<(), Stuck> {
        self.lease.propose(step).await?;
        Ok(())
    }

    /// Takes in what waits and asks the model without waiting for the log.
    ///
    /// The step is submitted once everything is read: the request is not to wait while the store
    /// is busy with it.
    async fn take_in(&mut self, state: &Arc<State>, last: u64) -> Result<(), Stuck> {
        let Some(thread) = self.lease.held(state) else {
            return Ok(());
        };
        // All at once: each read is a hop to another thread and back.
        let (lease, known) = (self.lease, self.prefix.is_some());
        let read = |queued: &Queued| lease.read(Slice::after(queued.position.saturating_sub(1), 1));
        let arrivals = try_join_all(thread.queue.iter().map(read));
        let prefix = async {
            if known {
                return Ok(None);
            }
            Prefix::recorded(lease, state).await
        };
        let (caught, arrivals, prefix) = join!(self.catch_up(state.tail), arrivals, prefix);
        caught?;
        for arrival in arrivals?.iter().flatten() {
            self.context.push_ahead(arrival)?;
        }
        if let Some(prefix) = prefix? {
            self.prefix = Some((state.clone(), prefix));
        }
        let taken = lease.propose(Step::TakeIn { last });
        self.ask(state, Some(Box::pin(taken))).await
    }

    /// Asks the model and stores what it answers.
    async fn ask(&mut self, state: &Arc<State>, taken: Option<Taken>) -> Result<(), Stuck> {
        let Some(body) = self.body(state).await? else {
            let words = "the conversation cannot be written as a request";
            return self.say(Step::Fail(failure::unreadable(words))).await;
        };
        let (model, _) = self.model(state);
        let request = Request::new(self.lease).run(&*self.tools.model, &model, body);
        let asked = async {
            let (response, taken) = futures::join!(request, async {
                match taken {
                    Some(taken) => taken.await.map(drop),
                    None => Ok(()),
                }
            });
            taken.map(|()| response)
        };
        let response = tokio::select! {
            // Nothing is lost by dropping the request: its span is closed with the interrupt.
            biased;
            () = self.lease.interrupted() => return Ok(()),
            response = asked => response?,
        };
        match response {
            Ok(response) => self.say(Step::Respond(Box::new(response))).await,
            Err(error) => self.fail(&error).await,
        }
    }

    async fn fail(&self, error: &outlast_model::Error) -> Result<(), Stuck> {
        if matches!(error, outlast_model::Error::Withdrawn { .. }) {
            return Err(Stuck::Halted);
        }
        let state = self.lease.state();
        let Some(thread) = self.lease.held(&state) else {
            return Ok(());
        };
        if matches!(error, outlast_model::Error::Overflow { .. }) {
            let (model, window) = self.model(&state);
            return self
                .say(Step::Fail(failure::overflow(&model, window)))
                .await;
        }
        let done = thread.turn.map_or(0, |turn| turn.retries);
        let kernel = self.lease.kernel();
        let failure = self
            .tools
            .retries
            .failure(error, done, kernel.now(), kernel.entropy());
        tracing::warn!(
            session.id = %state.id,
            attempt = done + 1,
            "model request for session `{}` failed: {:?}", state.id, failure.then
        );
        self.say(Step::Fail(failure)).await
    }

    async fn refuse(&mut self, state: &Arc<State>) -> Result<(), Stuck> {
        self.catch_up(state.tail).await?;
        let details = self.context.details.clone();
        let details = details.unwrap_or_else(|| RawValue::NULL.to_owned());
        self.say(Step::EndTurn(Stop::Refusal(details.into()))).await
    }

    /// Runs calls side by side; an interrupt cancels them, and the turn ends soon whatever hands do.
    async fn execute(&self, calls: &[EventId]) -> Result<(), Stuck> {
        let mut running = Box::pin(join_all(calls.iter().map(|call| self.lease.execute(*call))));
        let done = tokio::select! {
            // The calls go on in the kernel if this future is dropped.
            biased;
            done = &mut running => Some(done),
            () = self.lease.interrupted() => None,
        };
        let results = match done {
            Some(done) => done,
            None => {
                let stopped = async {
                    join_all(calls.iter().map(|call| self.lease.cancel(*call))).await;
                    running.await
                };
                // Both go on in the kernel: the log takes one result of a call, and that is the first.
                timeout(PATIENCE, stopped).await.unwrap_or_default()
            }
        };
        results.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(())
    }

    /// Reads the log up to `tail` into the conversation.
    async fn catch_up(&mut self, tail: u64) -> Result<(), Stuck> {
        if !self.loaded {
            self.loaded = true;
            // A log that is shorter than what is worth a snapshot has none.
            if tail >= SNAPSHOT
                && let Some(snapshot) = self.lease.snapshot(NAME).await?
                && let Ok(context) = serde_json::from_slice(&snapshot.body)
            {
                self.context = context;
                self.saved = snapshot.position;
            }
        }
        while self.context.position < tail {
            let slice = Slice {
                kinds: Whole::KINDS.to_vec(),
                thread: Some(self.lease.thread_number()),
                ..Slice::after(self.context.position, PAGE)
            };
            let records = self.lease.read(slice).await?;
            let full = records.len() == PAGE;
            for record in records.iter().filter(|record| record.position <= tail) {
                self.context.push(record)?;
            }
            if !full {
                self.context.position = self.context.position.max(tail);
            }
        }
        Ok(())
    }

    /// Keeps the conversation, so that the next brain need not read it record by record.
    async fn snapshot(&mut self) {
        let position = self.context.position;
        if position < self.saved + SNAPSHOT {
            return;
        }
        let Ok(body) = serde_json::to_vec(&self.context) else {
            return;
        };
        match self.lease.save(NAME, position, body).await {
            Ok(()) => self.saved = position,
            Err(fault) => tracing::warn!("cannot keep a context snapshot: {fault}"),
        }
    }

    /// Writes the request as the conversation stands.
    async fn body(&mut self, state: &Arc<State>) -> Result<Option<Arc<RawValue>>, Stuck> {
        let Some(config) = state.config.clone() else {
            return Ok(None);
        };
        let known = self
            .prefix
            .as_ref()
            .filter(|(seen, _)| seen.config == state.config);
        if known.is_none() {
            let prefix = Prefix::load(self.lease, state).await?;
            self.prefix = Some((state.clone(), prefix));
        }
        let Some((_, prefix)) = &self.prefix else {
            return Ok(None);
        };
        let model = &config.agent.model;
        let facts = self.tools.facts.of(&model.id);
        let messages = self.context.messages();
        let filled = self.sources.fill(self.lease, messages).await?;
        let messages = filled.as_deref().unwrap_or(messages);
        Ok(request::body(model, &facts, prefix, messages).map(Arc::from))
    }

    /// Returns the model's id and window.
    fn model(&self, state: &State) -> (String, u64) {
        let config = state.config.as_ref();
        let id = config
            .map(|config| config.agent.model.id.clone())
            .unwrap_or_default();
        let window = self.tools.facts.of(&id).window;
        (id, window)
    }
}

/// A step that was submitted and is not awaited yet.
type Taken =
    std::pin::Pin<Box<dyn Future<Output = Result<outlast_kernel::Outcome, LeaseError>> + Send>>;
