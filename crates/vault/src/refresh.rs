//! Refreshes access tokens: one request for all who ask, in this process and in others.
//!
//! A refresh token may be good for one use. So one of all who want the next access token asks for it,
//! after the store noted that nobody else does; it goes on if nobody waits any more; and what it was
//! given is written down even over a change that came meanwhile.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use outlast_protocol::{credential::HttpResponse, id::CredentialId};
use tokio::time::{Instant, sleep};

use crate::{
    Content, Opening, Refresh, Sealing, Secret, Vault,
    oauth::{self, Denied, Granted},
};

/// How long the store keeps others from refreshing: longer than a request and what follows may take.
const NOTE: Duration = Duration::from_secs(45);

/// How long another process is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often the store is asked whether another process is done.
const POLL: Duration = Duration::from_millis(200);

/// How long a refusal is repeated to whoever asks again with the same refresh token.
const REPEATED: Duration = Duration::from_secs(30);

/// How often it is tried to write down what was given: nobody gives it again.
const TRIES: usize = 30;

/// How long between two tries while the store is away.
const PAUSE: Duration = Duration::from_secs(1);

/// Why there is no token.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The secret cannot be opened.
    #[error(transparent)]
    Locked(#[from] Opening),
    /// It cannot be sealed anew.
    #[error(transparent)]
    Unsealed(#[from] Sealing),
    /// The store cannot be read or written.
    #[error("the store failed: {0}")]
    Store(String),
    /// The credential was archived or deleted meanwhile.
    #[error("the credential `{credential}` is gone")]
    Gone {
        /// Which.
        credential: CredentialId,
    },
    /// The server refused the token, and there is no way to another.
    #[error("the token of `{credential}` was refused, and it has no refresh token")]
    NotRenewable {
        /// Which.
        credential: CredentialId,
    },
    /// The token endpoint refused.
    #[error(
        "the token endpoint refused to refresh `{credential}` (status {}): it has to be authorized anew",
        response.status_code
    )]
    Refused {
        /// Which.
        credential: CredentialId,
        /// What it said, without secrets.
        response: Box<HttpResponse>,
    },
    /// The token endpoint failed, or asked to come later.
    #[error("the token endpoint of `{credential}` failed (status {})", response.status_code)]
    Unsure {
        /// Which.
        credential: CredentialId,
        /// What it said, without secrets.
        response: Box<HttpResponse>,
    },
    /// The token endpoint did not answer.
    #[error("the token endpoint of `{credential}` was not reached: {reason}")]
    Unreached {
        /// Which.
        credential: CredentialId,
        /// Why.
        reason: String,
    },
    /// Another process refreshes it, and is not done.
    #[error("another server has been refreshing `{credential}` for too long")]
    Busy {
        /// Which.
        credential: CredentialId,
    },
}

impl Failure {
    /// Tells whether the token endpoint gave nothing, or there is none.
    fn is_of_endpoint(&self) -> bool {
        match self {
            Self::NotRenewable { .. }
            | Self::Refused { .. }
            | Self::Unsure { .. }
            | Self::Unreached { .. } => true,
            Self::Locked(_)
            | Self::Unsealed(_)
            | Self::Store(_)
            | Self::Gone { .. }
            | Self::Busy { .. } => false,
        }
    }
}

/// What a refresh gave: the content, and its revision.
pub(crate) type Renewed = (Content, u64);

/// Refreshes that are on their way or failed a moment ago, by credential.
#[derive(Debug, Default)]
pub(crate) struct Flights(Mutex<HashMap<CredentialId, Arc<Flight>>>);

/// One at a time: the rest wait, and then see what it came to.
#[derive(Debug, Default)]
struct Flight {
    turn: tokio::sync::Mutex<Option<Failed>>,
}

/// A refusal, of the secret of that revision.
#[derive(Debug)]
struct Failed {
    revision: u64,
    at: Instant,
    why: Failure,
}

impl Flights {
    fn of(&self, credential: CredentialId) -> Arc<Flight> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody holds and that tell nothing any more.
        all.retain(|_, flight| {
            let idle = Arc::strong_count(flight) == 1;
            let told = |failed: &Failed| failed.at.elapsed() < REPEATED;
            let tells = flight
                .turn
                .try_lock()
                .is_ok_and(|failed| failed.as_ref().is_some_and(told));
            !idle || tells
        });
        all.entry(credential).or_default().clone()
    }
}

impl Vault {
    /// Returns the content behind `revision`, for which it is refreshed unless somebody did already.
    pub(crate) async fn refresh(
        &self,
        credential: CredentialId,
        revision: u64,
    ) -> Result<Renewed, Failure> {
        let vault = self.clone();
        let flight = self.0.flights.of(credential);
        let task = self.0.tasks.spawn(async move {
            let mut failed = flight.turn.lock().await;
            let known = failed
                .as_ref()
                .filter(|known| known.revision == revision && known.at.elapsed() < REPEATED);
            if let Some(known) = known {
                return Err(known.why.clone());
            }
            let outcome = vault.renew(credential, revision).await;
            *failed = outcome.as_ref().err().and_then(|why| {
                let is_last = matches!(why, Failure::Refused { .. });
                let (at, why) = (Instant::now(), why.clone());
                is_last.then_some(Failed { revision, at, why })
            });
            outcome
        });
        task.await
            .unwrap_or_else(|error| Err(Failure::Store(format!("the refresh died: {error}"))))
    }

    /// Waits for whoever refreshes it, or does.
    async fn renew(&self, credential: CredentialId, revision: u64) -> Result<Renewed, Failure> {
        let owner = credential.to_string();
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let found = self.0.store.secret(&owner).await?;
            let sealed = found.ok_or(Failure::Gone { credential })?;
            let content = self.open(&sealed)?;
            if sealed.revision > revision {
                return Ok((content, sealed.revision));
            }
            let now = self.0.clock.now();
            let note = now.after(NOTE);
            let claim = self.0.store.claim_refresh(&owner, revision, now, note);
            if claim.await.map_err(written)? {
                let asked = self.ask(credential, content, revision).await;
                if asked.as_ref().is_err_and(Failure::is_of_endpoint) {
                    // Nothing was given, so whoever asks next may ask at once. If this is not written the
                    // note ends by itself.
                    drop(self.0.store.end_refresh(&owner, revision, note).await);
                }
                return asked;
            }
            sleep(POLL).await;
        }
        Err(Failure::Busy { credential })
    }

    /// Asks the token endpoint, and writes down what it gave.
    async fn ask(
        &self,
        credential: CredentialId,
        content: Content,
        revision: u64,
    ) -> Result<Renewed, Failure> {
        let Content::McpOauth {
            refresh: Some(refresh),
            ..
        } = &content
        else {
            return Err(Failure::NotRenewable { credential });
        };
        let asked = oauth::ask(&self.0.outside, refresh, self.0.clock.now()).await;
        let shown = |reply: crate::outside::Reply| Box::new(reply.shown(&content.secrets()));
        let granted = asked.map_err(|denied| match denied {
            Denied::Refused(reply) => Failure::Refused {
                credential,
                response: shown(reply),
            },
            Denied::Unsure(reply) => Failure::Unsure {
                credential,
                response: shown(reply),
            },
            Denied::Unanswered(error) => Failure::Unreached {
                credential,
                reason: error.to_string(),
            },
        });
        let used = refresh.refresh_token.clone();
        match granted {
            Ok(granted) => {
                self.write(credential, content, revision, &used, granted)
                    .await
            }
            Err(failure) => {
                tracing::warn!(credential.id = %credential, "a token was not refreshed: {failure}");
                Err(failure)
            }
        }
    }

    /// Writes what was given: over what was there, or over a change that came meanwhile and left the
    /// refresh token as it was. One that brought another refresh token counts instead.
    async fn write(
        &self,
        credential: CredentialId,
        mut content: Content,
        mut revision: u64,
        used: &Secret,
        granted: Granted,
    ) -> Result<Renewed, Failure> {
        let mut failed = Failure::Busy { credential };
        for _ in 0..TRIES {
            match self
                .put(credential, &mut content, &mut revision, used, &granted)
                .await
            {
                Ok(true) => return Ok((content, revision)),
                // It moved: what is there now is looked at.
                Ok(false) => {}
                Err(error @ Failure::Store(_)) => {
                    failed = error;
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        tracing::error!(credential.id = %credential, "a new token was not kept: {failed}");
        Err(failed)
    }

    /// Tries once; false if it moved meanwhile.
    async fn put(
        &self,
        credential: CredentialId,
        content: &mut Content,
        revision: &mut u64,
        used: &Secret,
        granted: &Granted,
    ) -> Result<bool, Failure> {
        let owner = credential.to_string();
        let found = self.0.store.secret(&owner).await?;
        let sealed = found.ok_or(Failure::Gone { credential })?;
        *content = self.open(&sealed)?;
        *revision = sealed.revision;
        if !takes(content, used, granted) {
            return Ok(true);
        }
        let new = self.seal(&owner, &sealed.parent, *revision + 1, content)?;
        let written = self.0.store.replace_secret(new).await.map_err(written)?;
        *revision += u64::from(written);
        Ok(written)
    }
}

/// Puts what was given into a content that still has the refresh token it was given for.
fn takes(content: &mut Content, used: &Secret, granted: &Granted) -> bool {
    let Content::McpOauth {
        access_token,
        expires_at,
        refresh: Some(Refresh { refresh_token, .. }),
        ..
    } = content
    else {
        return false;
    };
    if refresh_token.expose() != used.expose() {
        return false;
    }
    *access_token = granted.access_token.clone();
    *expires_at = granted.expires_at;
    if let Some(next) = &granted.refresh_token {
        *refresh_token = next.clone();
    }
    true
}

fn written(error: outlast_store::WriteError) -> Failure {
    Failure::Store(error.to_string())
}
