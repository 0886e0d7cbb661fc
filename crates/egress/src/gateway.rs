//! The model gateway: fences a request by its epoch, forwards it, records what it used.

use std::sync::Arc;

use async_trait::async_trait;
use outlast_kernel::{Asker, Kernel, LeaseError};
use outlast_model::{Call, Error, Events, Facts, Model, RetryKind};
use outlast_session::Answer;
use tokio::time::Instant;

use crate::{
    budget::{Budget, Payer, Unbounded},
    guarded::Guarded,
    metered::Meter,
    metric_definitions as metrics,
};

/// A model behind the gateway.
#[derive(Debug)]
pub struct Gateway {
    kernel: Kernel,
    upstream: Arc<dyn Model>,
    facts: Arc<Facts>,
    budget: Arc<dyn Budget>,
}

impl Gateway {
    /// Puts `upstream` behind the kernel's record of requests.
    pub fn new(kernel: Kernel, upstream: Arc<dyn Model>, facts: Arc<Facts>) -> Self {
        Self {
            kernel,
            upstream,
            facts,
            budget: Arc::new(Unbounded),
        }
    }

    /// Asks a budget before anything leaves.
    #[must_use]
    pub fn under(self, budget: Arc<dyn Budget>) -> Self {
        Self { budget, ..self }
    }
}

#[async_trait]
impl Model for Gateway {
    /// Forwards a request whose epoch still holds the lease.
    ///
    /// The request leaves while the record of its start is being synced; no event of the answer
    /// is handed on before that record is durable. Where the brain's process may have been declared
    /// dead nothing leaves, and what runs is dropped.
    async fn stream(&self, call: Call) -> Result<Events, Error> {
        let brain = call.brain;
        let asker = Asker {
            session: brain.session,
            thread: brain.thread,
            epoch: brain.epoch,
        };
        self.kernel.may_ask(asker).map_err(refused)?;
        let admitted = self.budget.admit(Payer::Brain(asker), &call.model).await;
        admitted.map_err(|problem| Error::Billing {
            message: problem.message,
        })?;
        let started = self.kernel.request_started(asker, call.request);
        let facts = self.facts.of(&call.model);
        let meter = Meter::new(self.kernel.clone(), asker, call.request, facts);
        let begun = Instant::now();
        let asked = async { futures::join!(started, self.upstream.stream(call)) };
        let (started, answer) = tokio::select! {
            biased;
            stop = self.kernel.stops(asker) => return Err(refused(stop)),
            both = asked => both,
        };
        allowed(started)?;
        match answer {
            Ok(events) => {
                let waited = begun.elapsed().as_secs_f64();
                ::metrics::histogram!(metrics::FIRST_EVENT).record(waited);
                let guarded = Guarded::new(self.kernel.clone(), asker, events, refused);
                Ok(meter.over(Box::pin(guarded)))
            }
            Err(error) => {
                meter.failed();
                Err(error)
            }
        }
    }
}

/// Refuses a request that the log does not want.
fn allowed(started: Result<Answer, LeaseError>) -> Result<(), Error> {
    match started {
        Ok(Answer::Appended) => Ok(()),
        Ok(answer) => Err(Error::Refused {
            message: format!("the request was not wanted: {answer:?}"),
        }),
        Err(error) => Err(refused(error)),
    }
}

/// Returns what a brain is told whose request is not made.
fn refused(error: LeaseError) -> Error {
    match error {
        LeaseError::Unavailable(message) => Error::Retry {
            kind: RetryKind::Failed,
            after: None,
            message,
        },
        LeaseError::Unsure => Error::Withdrawn {
            message: error.to_string(),
        },
        LeaseError::Over(_) | LeaseError::Illegal(_) | LeaseError::Broken(_) => Error::Refused {
            message: error.to_string(),
        },
    }
}
