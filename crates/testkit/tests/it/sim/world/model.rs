//! The model as one process reaches it: a dead one asks nothing more and hears no more of an answer.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use outlast_model::{Call, Error, Events, Model, RetryKind};
use outlast_testkit::faults::Faults;

/// A model that a process reaches for as long as it lives; each event of an answer is a call.
#[derive(Debug)]
pub(crate) struct ReachedModel {
    pub(crate) inner: Arc<dyn Model>,
    pub(crate) faults: Arc<Faults>,
}

fn broken() -> Error {
    Error::Retry {
        kind: RetryKind::Failed,
        after: None,
        message: "a fault was injected".to_owned(),
    }
}

#[async_trait]
impl Model for ReachedModel {
    async fn stream(&self, call: Call) -> Result<Events, Error> {
        let asked = self.inner.stream(call);
        let events = self.faults.pass("ask_model", asked, broken).await?;
        let heard = stream::unfold(Some((events, self.faults.clone())), |rest| async move {
            let (mut events, faults) = rest?;
            let next = async { events.next().await.transpose() };
            match faults.pass("hear_model", next, broken).await {
                Ok(Some(event)) => Some((Ok(event), Some((events, faults)))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(Box::pin(heard))
    }
}
