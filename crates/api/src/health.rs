//! Whether the server lives, and whether it is of use. Both are open: they say nothing else.

use std::time::Duration;

use axum::extract::State;
use outlast_protocol::{ErrorCode, Problem};
use outlast_store::Away;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use crate::{
    answer::{self, Answer},
    app::Shared,
    failure,
};

/// How long an outcome of a probe stands; a probe writes, and anybody may ask.
const FRESH: Duration = Duration::from_secs(1);

/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The last probe of the store; one at a time is made.
#[derive(Debug, Default)]
pub(crate) struct Probes(Mutex<Option<(Instant, Result<(), Problem>)>>);

/// `GET /healthz`: the process answers.
pub(crate) async fn healthz() -> Answer {
    Ok(answer::json(r#"{"status":"ok"}"#))
}

/// `GET /readyz`: the store can be written and read, the egress is there, and the process is not on its way
/// out.
pub(crate) async fn readyz(State(app): State<Shared>) -> Answer {
    if app.leaving.is_cancelled() || app.shutdown.is_cancelled() {
        return Err(Problem::new(ErrorCode::Unavailable, "the server is shutting down").into());
    }
    if app.vault.away().is_some() {
        let words = "the egress process is not reached; `outlast doctor` says why";
        return Err(Problem::new(ErrorCode::Unavailable, words).into());
    }
    let mut last = app.probes.0.lock().await;
    if let Some((at, found)) = &*last
        && at.elapsed() < FRESH
    {
        found.clone()?;
    } else {
        let found = probe(&app).await;
        *last = Some((Instant::now(), found.clone()));
        found?;
    }
    Ok(answer::json(r#"{"status":"ok"}"#))
}

async fn probe(app: &Shared) -> Result<(), Problem> {
    let away = match timeout(PATIENCE, app.kernel.resources().probe()).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(fault)) => fault.into(),
        Err(_) => Away::other("it takes too long to answer"),
    };
    Err(failure::unavailable(&away))
}
