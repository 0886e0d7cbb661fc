//! Whether the server lives, and whether it is of use. Both are open: they say nothing else.

use std::time::Duration;

use axum::extract::State;
use outlast_protocol::{ErrorCode, Problem};
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
pub(crate) struct Probes(Mutex<Option<(Instant, bool)>>);

/// `GET /healthz`: the process answers.
pub(crate) async fn healthz() -> Answer {
    Ok(answer::json(r#"{"status":"ok"}"#))
}

/// `GET /readyz`: the store can be written and read, and the process is not on its way out.
pub(crate) async fn readyz(State(app): State<Shared>) -> Answer {
    if app.leaving.is_cancelled() || app.shutdown.is_cancelled() {
        return Err(Problem::new(ErrorCode::Unavailable, "the server is shutting down").into());
    }
    let mut last = app.probes.0.lock().await;
    let good = match *last {
        Some((at, good)) if at.elapsed() < FRESH => good,
        Some(_) | None => probe(&app).await,
    };
    *last = Some((Instant::now(), good));
    if good {
        return Ok(answer::json(r#"{"status":"ok"}"#));
    }
    Err(Problem::new(
        ErrorCode::Unavailable,
        "the store cannot be written or read now",
    )
    .into())
}

async fn probe(app: &Shared) -> bool {
    let fault = match timeout(PATIENCE, app.kernel.resources().probe()).await {
        Ok(Ok(())) => return true,
        Ok(Err(fault)) => fault.to_string(),
        Err(_) => "it takes too long to answer".to_owned(),
    };
    drop(failure::unavailable(&fault));
    false
}
