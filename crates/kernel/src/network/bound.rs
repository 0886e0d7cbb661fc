//! Whose hand it is and what it may reach, as the log tells it.

use std::sync::Arc;

use outlast_hands::{Outlet, ProvisionError};
use outlast_protocol::{
    environment::Networking,
    id::{EnvironmentId, IncarnationId},
};
use outlast_session::{Kind, State, body::HandWanted};
use outlast_store::{Order, ReadError, ResourceKind, Slice};
use serde::Deserialize;

use super::Bound;
use crate::{calls::Job, hand::unread, kernel::Inner};

/// What of an environment says what its hands may reach.
#[derive(Deserialize)]
struct Environment {
    config: Config,
}

#[derive(Deserialize)]
struct Config {
    networking: Networking,
}

impl Job {
    /// Returns what a hand that is about to be wanted may reach, where hands have a way out.
    pub(crate) async fn allowed(
        &self,
        state: &State,
        incarnation: IncarnationId,
    ) -> Result<Option<Networking>, ProvisionError> {
        let environment = state.config.as_ref().map(|config| config.environment_id);
        let Some(environment) = environment.filter(|_| self.inner.hands.outlets.are_served())
        else {
            return Ok(None);
        };
        let found = self.inner.networking(environment).await;
        found
            .map(Some)
            .map_err(|fault| unread(incarnation, fault.to_string()))
    }

    /// Returns what a hand is bound to, where hands have a way out.
    pub(crate) async fn binding(
        &self,
        state: &State,
        incarnation: IncarnationId,
    ) -> Result<Option<Bound>, ProvisionError> {
        if !self.inner.hands.outlets.are_served() {
            return Ok(None);
        }
        let bound = self.inner.bound(state, incarnation).await;
        bound.map_err(|fault| unread(incarnation, fault.to_string()))
    }

    /// Returns what a new hand gets for its way out.
    pub(crate) async fn dress(&self, bound: &Bound) -> Result<Option<Outlet>, ProvisionError> {
        let dressed = self.inner.hands.outlets.dress(bound).await;
        dressed.map_err(|problem| ProvisionError::Step {
            incarnation: bound.incarnation,
            step: "prepare its way out".to_owned(),
            reason: problem.to_string(),
            mend: None,
        })
    }
}

impl Inner {
    /// Returns what an environment allows by now.
    pub(crate) async fn networking(
        &self,
        environment: EnvironmentId,
    ) -> Result<Networking, ReadError> {
        let id = environment.to_string();
        let get = || self.store.get(ResourceKind::Environment, &id, None);
        let found = self.patiently(get).await?;
        let read: Environment = serde_json::from_str(found.body.get())
            .map_err(|fault| ReadError::Unreadable(fault.to_string()))?;
        Ok(read.config.networking)
    }

    /// Returns what the newest hand of a session is bound to; nothing of a session without an
    /// environment.
    pub(crate) async fn bound(
        &self,
        state: &State,
        incarnation: IncarnationId,
    ) -> Result<Option<Bound>, ReadError> {
        let Some(config) = &state.config else {
            return Ok(None);
        };
        let environment = config.environment_id;
        let noted = self.noted(state, incarnation).await?;
        let networking = match noted {
            Some(noted) => noted,
            // It was wanted by a program that had no way out for it.
            None => self.networking(environment).await?,
        };
        Ok(Some(Bound {
            session: state.id,
            incarnation,
            environment,
            networking,
            vaults: config.vault_ids.clone(),
            repositories: config.repositories.iter().map(|known| known.id).collect(),
            // No agent declares any yet.
            mcp_hosts: Vec::new(),
        }))
    }

    /// Returns what was noted when the newest hand was wanted.
    async fn noted(
        &self,
        state: &State,
        incarnation: IncarnationId,
    ) -> Result<Option<Networking>, ReadError> {
        let slice = Slice {
            order: Order::Backwards,
            kinds: vec![Kind::HandWanted],
            ..Slice::after(state.tail.saturating_add(1), 1)
        };
        let read = || self.store.read(state.id, slice.clone());
        let found = self.patiently(read).await?;
        let wanted = found.iter().map(|record| record.body.text());
        let mut wanted = wanted.filter_map(|text| serde_json::from_str::<HandWanted>(text).ok());
        let of_this = wanted.find(|wanted| wanted.incarnation == incarnation);
        Ok(of_this.and_then(|wanted| wanted.networking))
    }

    /// Has the way out of a living hand served, even if nobody waits for it, unless this process closes.
    pub(crate) async fn attach(self: &Arc<Self>, bound: Bound) {
        let inner = self.clone();
        let attaching = self.tasks.spawn(async move {
            let hands = &inner.hands;
            tokio::select! {
                biased;
                () = hands.outlets.attach(hands.provisioner(), bound) => {}
                () = inner.closing.cancelled() => {}
            }
        });
        // Fails only if the runtime ends.
        drop(attaching.await);
    }
}
