//! Credentials of sandboxes whose hosts a session's environment does not allow: told, never an end.

use outlast_protocol::{
    event::{Body as _, ErrorKind, RetryStatus, SessionError},
    id::{CredentialId, IncarnationId, VaultId},
};
use outlast_session::{Fact, Json, State};
use serde::{Deserialize, Serialize};

use crate::{LeaseError, calls::Job};

/// A credential that names hosts which a hand may not.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Unreachable {
    /// Which.
    pub credential: CredentialId,
    /// The vault it is in.
    pub vault: VaultId,
    /// Those of its hosts that the hand may not name.
    pub hosts: Vec<String>,
}

impl Unreachable {
    /// Returns the `session.error` that tells of it.
    fn error(&self) -> Json {
        let kind = ErrorKind::CredentialHostUnreachable {
            credential_id: self.credential.to_string(),
            vault_id: self.vault.to_string(),
        };
        let words = format!(
            "the environment's networking is `limited` and does not allow what this credential is for \
             ({}): add it to `allowed_hosts`; it counts for sandboxes that are made from then on",
            self.hosts.join(", ")
        );
        SessionError::new(kind, words, RetryStatus::Retrying)
            .to_raw()
            .into()
    }
}

impl Job {
    /// Tells the client of credentials that are of no use in this hand: once, until they are of use.
    pub(crate) async fn tell_unreachable(
        &self,
        state: &State,
        hand: IncarnationId,
    ) -> Result<(), LeaseError> {
        let config = state.config.as_deref();
        if config.is_none_or(|config| config.vault_ids.is_empty()) {
            return Ok(());
        }
        // What cannot be said now may be before the next call.
        let Some(found) = self.inner.hands.outlets.unreachable(hand).await else {
            return Ok(());
        };
        let ids = found.iter().map(|one| &one.credential);
        if ids.eq(&state.unreachable) {
            return Ok(());
        }
        let told = |one: &Unreachable| (one.credential, self.inner.event_id(), one.error());
        let all = Fact::Unreachable(found.iter().map(told).collect());
        self.fact(self.inner.event_id(), all).await.map(drop)
    }
}
