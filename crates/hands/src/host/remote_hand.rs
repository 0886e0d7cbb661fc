//! A hand in a host.

use std::sync::Arc;

use async_trait::async_trait;
use hyper::Method;
use outlast_protocol::{
    CallResult, Outcome,
    id::{EventId, IncarnationId},
};
use serde_json::value::RawValue;

use super::{
    client::{Ask, Client, Gone},
    remote::{body, path},
    wire::Asked,
};
use crate::{CallError, Fence, Hand, HandLost, Promise};

/// What became of a hand whose host is gone.
const ENDED: &str = "the process that ran it has ended";

/// A hand in a host. It is not bound to the process: whatever host has the place is asked.
#[derive(Debug)]
pub(super) struct RemoteHand {
    client: Arc<Client>,
    incarnation: IncarnationId,
    promise: Promise,
}

impl RemoteHand {
    pub(super) fn new(client: Arc<Client>, incarnation: IncarnationId, promise: Promise) -> Self {
        Self {
            client,
            incarnation,
            promise,
        }
    }

    fn lost(&self, reason: String, handed_over: bool) -> HandLost {
        self.client.known().forget(self.incarnation);
        HandLost {
            incarnation: self.incarnation,
            reason,
            handed_over,
        }
    }
}

#[async_trait]
impl Hand for RemoteHand {
    fn incarnation(&self) -> IncarnationId {
        self.incarnation
    }

    fn promise(&self) -> Promise {
        self.promise
    }

    async fn raise(&self, fence: Fence) -> Result<(), HandLost> {
        let mut ask = Ask::new(Method::POST, path(self.incarnation, "/fence"));
        ask.body = body(&fence).map_err(|error| self.lost(error.to_string(), false))?;
        let asked = self.client.ask::<(), HandLost>(&ask).await;
        let came = asked.map_err(|Gone(words)| self.lost(words, false))?;
        came.answer
    }

    async fn execute(
        &self,
        fence: Fence,
        call: EventId,
        name: &str,
        input: &RawValue,
    ) -> Result<CallResult, CallError> {
        let Fence { thread, epoch } = fence;
        let asked = Asked {
            thread,
            epoch,
            name: name.into(),
            input,
        };
        let mut ask = Ask::new(
            Method::POST,
            path(self.incarnation, &format!("/calls/{call}")),
        );
        ask.body = match body(&asked) {
            Ok(body) => body,
            Err(error) => {
                let words = format!("{name}: could not be sent to the sandbox: {error}");
                return Ok(CallResult::error(Outcome::NotStarted, words));
            }
        };
        let asked = self.client.ask::<CallResult, CallError>(&ask).await;
        // Nobody can say any more whether it ran.
        let came = asked.map_err(|Gone(words)| self.lost(words, true))?;
        match came.answer {
            // The next host knows the journal, and not how the one before it ended.
            Err(CallError::Lost(lost)) => {
                let reason = match came.of_another {
                    true => ENDED.to_owned(),
                    false => lost.reason,
                };
                Err(self.lost(reason, lost.handed_over).into())
            }
            answer => answer,
        }
    }

    async fn cancel(&self, call: EventId) {
        let ask = Ask::new(
            Method::POST,
            path(self.incarnation, &format!("/calls/{call}/cancel")),
        );
        if let Err(Gone(words)) = self.client.ask::<(), String>(&ask).await {
            tracing::warn!(%call, "call `{call}` is not stopped: {words}");
        }
    }
}
