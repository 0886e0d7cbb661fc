//! Who asks, and which version of the API it speaks.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, header};
use outlast_kernel::Kernel;
use outlast_protocol::{ErrorCode, Problem, id::ApiKeyId};

use crate::failure::Failure;

/// The versions that clients may name; the endpoints are the same under both.
const VERSIONS: [&str; 2] = ["2026-10-21", "2023-06-01"];

/// The key behind a request that passed [`require_key`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub(crate) ApiKeyId);

/// Lets a request through that carries a good key.
pub(crate) async fn require_key(
    State(kernel): State<Kernel>,
    mut request: Request,
    next: Next,
) -> Response {
    match admit(&kernel, request.headers()).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => Failure(problem).into_response(),
    }
}

/// Finds the key in either header; with both, one good key is enough.
async fn admit(kernel: &Kernel, headers: &HeaderMap) -> Result<Caller, Problem> {
    let mut refusal = Problem::new(
        ErrorCode::Authentication,
        "no API key; send it as `x-api-key` or as `Authorization: Bearer`",
    );
    for secret in [bearer(headers), x_api_key(headers)].into_iter().flatten() {
        match kernel.authenticate(secret).await {
            Ok(id) => return version(headers).map(|()| Caller(id)),
            Err(problem) => refusal = problem,
        }
    }
    Err(refusal)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

fn x_api_key(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get("x-api-key")?.to_str().ok()?;
    Some(value.trim())
}

/// Refuses a version that this server does not know; none is fine.
fn version(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(value) = headers.get("anthropic-version") else {
        return Ok(());
    };
    if VERSIONS.iter().any(|known| value == known) {
        return Ok(());
    }
    let [new, old] = VERSIONS;
    Err(Problem::invalid(format!(
        "anthropic-version: must be `{new}` or `{old}`, or absent"
    )))
}
