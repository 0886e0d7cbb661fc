//! Who asks, and which version of the API it speaks.

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, Method, header};
use outlast_kernel::{Identity, Kernel, WhileAway};
use outlast_protocol::{ErrorCode, Problem, id::ApiKeyId, key::Scope};

use crate::{audited::Asked, failure::Failure};

/// The versions that clients may name; the endpoints are the same under both.
const VERSIONS: [&str; 2] = ["2026-10-21", "2023-06-01"];

/// The key behind a request that passed [`require_key`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub(crate) ApiKeyId);

/// What a key is looked up with.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    pub(crate) kernel: Kernel,
    pub(crate) away: WhileAway,
}

/// Routes that operators alone may use, whatever the method.
const OPERATORS: [&str; 3] = ["/outlast/v1/audit", "/outlast/v1/keys", "/outlast/v1/vault"];

/// Routes that cost something even where nothing is changed.
const COSTLY: [&str; 1] = ["/v1/messages"];

/// Lets a request through that carries a good key of enough scope.
pub(crate) async fn require_key(
    State(desk): State<Desk>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let needed = needed(request.method(), route.map_or("", MatchedPath::as_str));
    let identity = match admit(&desk, request.headers()).await {
        Ok(identity) => identity,
        Err(problem) => return Failure(problem).into_response(),
    };
    let asked = Asked::note(&desk.kernel, identity.key, &request);
    if let Err(problem) = suffices(identity, needed) {
        return asked.refused(problem).await;
    }
    if let Err(problem) = version(request.headers()) {
        return Failure(problem).into_response();
    }
    request.extensions_mut().insert(Caller(identity.key));
    request.extensions_mut().insert(identity);
    asked.handle(request, next).await
}

/// Returns the scope that a request needs, by its method and the template of its route.
fn needed(method: &Method, route: &str) -> Scope {
    let below = |root: &&str| {
        let rest = route.strip_prefix(*root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if OPERATORS.iter().any(below) {
        return Scope::Admin;
    }
    let reads = matches!(*method, Method::GET | Method::HEAD);
    if reads && !COSTLY.iter().any(below) {
        Scope::ReadOnly
    } else {
        Scope::ReadWrite
    }
}

/// Refuses a key that may do less than is needed.
fn suffices(identity: Identity, needed: Scope) -> Result<(), Problem> {
    let scope = identity.scope;
    if scope >= needed {
        return Ok(());
    }
    let words = format!("this needs a key of scope `{needed}`; that of this request has `{scope}`");
    Err(Problem::new(ErrorCode::Permission, words))
}

/// Finds the key in either header; with both, one good key is enough.
async fn admit(desk: &Desk, headers: &HeaderMap) -> Result<Identity, Problem> {
    let mut refusal = Problem::new(
        ErrorCode::Authentication,
        "no API key; send it as `x-api-key` or as `Authorization: Bearer`",
    );
    for secret in [bearer(headers), x_api_key(headers)].into_iter().flatten() {
        match desk.kernel.authenticate(secret, desk.away).await {
            Ok(identity) => return Ok(identity),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_follow_method_and_route() {
        for (method, route, scope) in [
            (Method::GET, "/v1/sessions/{session_id}", Scope::ReadOnly),
            (Method::HEAD, "/v1/agents", Scope::ReadOnly),
            (Method::GET, "/outlast/v1/diagnosis", Scope::ReadOnly),
            (Method::GET, "/v1/models", Scope::ReadOnly),
            (Method::GET, "/v1/messages", Scope::ReadWrite),
            (Method::POST, "/v1/messages/count_tokens", Scope::ReadWrite),
            (Method::POST, "/v1/sessions", Scope::ReadWrite),
            (Method::DELETE, "/v1/files/{file_id}", Scope::ReadWrite),
            (
                Method::PUT,
                "/outlast/v1/sessions/{session_id}/deadlines",
                Scope::ReadWrite,
            ),
            (Method::OPTIONS, "/v1/agents", Scope::ReadWrite),
            (Method::GET, "/outlast/v1/keys", Scope::Admin),
            (Method::GET, "/outlast/v1/vault", Scope::Admin),
            (
                Method::POST,
                "/outlast/v1/keys/{key_id}/revoke",
                Scope::Admin,
            ),
            (Method::GET, "/outlast/v1/keysmith", Scope::ReadOnly),
            (Method::GET, "", Scope::ReadOnly),
        ] {
            assert_eq!(needed(&method, route), scope, "{method} {route}");
        }
    }
}
