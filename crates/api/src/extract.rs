//! What handlers take out of a request; every refusal has the API's own form.

use std::{convert::Infallible, str::FromStr, time::Duration};

use axum::{
    body::Body,
    extract::{FromRequest, FromRequestParts, RawPathParams, Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, Method, header, request::Parts};
use outlast_protocol::{
    ErrorCode, Problem,
    id::{
        AgentId, ApiKeyId, CredentialId, EnvironmentId, FileId, RequestId, ResourceId, SessionId,
        ThreadId, VaultId,
    },
    limits,
    query::Query,
    read::{self, At},
};
use outlast_vault::Purpose;
use serde_json::Value;
use tokio::time::timeout;
use zeroize::{Zeroize as _, Zeroizing};

use crate::{
    app::Shared,
    auth,
    connection::Connection,
    failure::Failure,
    intake::Held,
    observe,
    once::{Attempt, Sending},
};

/// How long a client may pause in the middle of a body.
pub(crate) const PAUSE: Duration = Duration::from_secs(60);

/// Bytes that a body gets at once when it begins to arrive.
const SMALL: usize = 64 * 1024;

/// The key behind the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub(crate) ApiKeyId);

impl FromRequestParts<Shared> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Failure> {
        caller(parts).map(Self)
    }
}

/// The id of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Id(pub(crate) RequestId);

impl FromRequestParts<Shared> for Id {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Infallible> {
        let known = parts.extensions.get::<observe::Id>().map(|id| id.0);
        Ok(Self(known.unwrap_or_else(|| {
            RequestId::mint(app.kernel.now(), app.kernel.entropy())
        })))
    }
}

fn caller(parts: &Parts) -> Result<ApiKeyId, Failure> {
    let caller = parts
        .extensions
        .get::<auth::Caller>()
        .map(|caller| caller.0);
    caller.ok_or_else(|| Problem::new(ErrorCode::Authentication, "no API key").into())
}

/// The query string; a handler takes its parameters and then refuses the rest.
#[derive(Debug)]
pub(crate) struct Params(pub(crate) Query);

impl FromRequestParts<Shared> for Params {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Failure> {
        Ok(Self(Query::parse(parts.uri.query().unwrap_or_default())?))
    }
}

/// An id in the path; one of another form names nothing, so it is as unknown as any other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<T>(pub(crate) T);

/// Something that paths name.
pub(crate) trait Noun: FromStr {
    /// Its parameter in the templates of routes.
    const PARAM: &'static str;
    /// What it is called in messages.
    const NAME: &'static str;
    /// The code of the answer if there is none of that id.
    const UNKNOWN: ErrorCode = ErrorCode::NotFound;
}

impl Noun for AgentId {
    const PARAM: &'static str = "agent_id";
    const NAME: &'static str = "agent";
}

impl Noun for ApiKeyId {
    const PARAM: &'static str = "key_id";
    const NAME: &'static str = "API key";
}

impl Noun for EnvironmentId {
    const PARAM: &'static str = "environment_id";
    const NAME: &'static str = "environment";
    const UNKNOWN: ErrorCode = ErrorCode::EnvironmentNotFound;
}

impl Noun for FileId {
    const PARAM: &'static str = "file_id";
    const NAME: &'static str = "file";
}

impl Noun for ResourceId {
    const PARAM: &'static str = "resource_id";
    const NAME: &'static str = "resource";
}

impl Noun for SessionId {
    const PARAM: &'static str = "session_id";
    const NAME: &'static str = "session";
}

impl Noun for VaultId {
    const PARAM: &'static str = "vault_id";
    const NAME: &'static str = "vault";
}

impl Noun for CredentialId {
    const PARAM: &'static str = "credential_id";
    const NAME: &'static str = "credential";
}

impl Noun for ThreadId {
    const PARAM: &'static str = "thread_id";
    const NAME: &'static str = "thread";
}

/// Makes the 404 of an object that is not there.
pub(crate) fn unknown<T: Noun>(id: impl std::fmt::Display) -> Problem {
    Problem::new(T::UNKNOWN, format!("{} `{id}` not found", T::NAME))
}

impl<T: Noun> FromRequestParts<Shared> for Named<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Failure> {
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|_| unknown::<T>("\u{fffd}"))?;
        let text = params
            .iter()
            .find_map(|(name, text)| (name == T::PARAM).then_some(text));
        let text = text.unwrap_or_default();
        match text.parse() {
            Ok(id) => Ok(Self(id)),
            Err(_) => Err(unknown::<T>(excerpt(text)).into()),
        }
    }
}

/// Cuts what a client sent to what an error message can carry.
fn excerpt(text: &str) -> String {
    let printable = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(64).map(printable).collect()
}

/// A request that changes something: who makes it, its body, and whether it repeats another.
#[derive(Debug)]
pub(crate) struct Submission {
    /// Whose request it is.
    pub(crate) by: ApiKeyId,
    /// The body, `{}` if it was empty.
    pub(crate) body: Value,
    /// What a repeat of it would look like.
    pub(crate) attempt: Option<Sending>,
    /// The memory that it takes while it is at hand.
    _held: Held,
}

impl Submission {
    /// Refuses a body that says anything.
    pub(crate) fn empty(&self) -> Result<(), Problem> {
        At::root(&self.body).object()?.finish()
    }
}

impl FromRequest<Shared> for Submission {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Failure> {
        submit(request, app, Attempt::read).await
    }
}

/// A request that may bring secrets. It cannot be printed, and what it brought is overwritten when it
/// is dropped.
pub(crate) struct Confidential(Submission);

impl Confidential {
    /// Returns the body, `{}` if it was empty.
    pub(crate) fn body(&self) -> &Value {
        &self.0.body
    }

    /// Returns whose request it is.
    pub(crate) fn by(&self) -> ApiKeyId {
        self.0.by
    }

    /// Returns what a repeat of it would look like; nothing in it tells what was brought.
    pub(crate) fn attempt(&self) -> Option<Sending> {
        self.0.attempt.clone()
    }
}

impl std::fmt::Debug for Confidential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Confidential").finish_non_exhaustive()
    }
}

impl Drop for Confidential {
    fn drop(&mut self) {
        wipe(&mut self.0.body);
    }
}

impl FromRequest<Shared> for Confidential {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Failure> {
        let key = app.vault.derive(Purpose::Receipts);
        let attempt = |headers: &HeaderMap, by, method: &Method, path: &str, body: &[u8]| match &key
        {
            Some(key) => Attempt::keyed(key, headers, by, method, path, body),
            // Then nothing can be sealed, so nothing is accepted that could be repeated.
            None => Ok(None),
        };
        submit(request, app, attempt).await.map(Self)
    }
}

/// A request that seldom brings a secret, which is then a token: only where it does it is remembered
/// under a key, so that without one all others are remembered as ever.
pub(crate) struct Discreet(pub(crate) Confidential);

impl FromRequest<Shared> for Discreet {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Failure> {
        const TOKEN: &[u8] = b"\"authorization_token\"";
        let key = app.vault.derive(Purpose::Receipts);
        let attempt = |headers: &HeaderMap, by, method: &Method, path: &str, body: &[u8]| {
            let brings = body.windows(TOKEN.len()).any(|window| window == TOKEN);
            match &key {
                Some(key) if brings => Attempt::keyed(key, headers, by, method, path, body),
                None if brings => Ok(None),
                Some(_) | None => Attempt::read(headers, by, method, path, body),
            }
        };
        let submission = submit(request, app, attempt).await?;
        Ok(Self(Confidential(submission)))
    }
}

/// Overwrites every text of a body.
fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(list) => list.iter_mut().for_each(wipe),
        Value::Object(map) => map.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Reads a request that changes something; `attempt` says what a repeat of it would look like.
async fn submit(
    request: Request,
    app: &Shared,
    attempt: impl FnOnce(&HeaderMap, ApiKeyId, &Method, &str, &[u8]) -> Result<Option<Attempt>, Problem>,
) -> Result<Submission, Failure> {
    let (parts, body) = request.into_parts();
    let by = caller(&parts)?;
    Query::parse(parts.uri.query().unwrap_or_default())?.finish()?;
    let mut held = app.intake.hold();
    let bytes = collect(&parts.headers, body, &mut held).await?;
    let attempt = attempt(&parts.headers, by, &parts.method, parts.uri.path(), &bytes)?;
    Ok(Submission {
        by,
        body: read::body(&bytes)?,
        attempt: attempt.map(|attempt| Sending {
            attempt,
            over: parts.extensions.get::<Connection>().cloned(),
        }),
        _held: held,
    })
}

/// Takes a body in under the bounds of all, for routes that want it whole.
///
/// What it takes of the memory for all is given back once nobody has its bytes any more.
pub(crate) async fn take_in(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut held = app.intake.hold();
    match collect(&parts.headers, body, &mut held).await {
        Ok(bytes) => {
            let taken = Bytes::from_owner(Taken { bytes, _held: held });
            next.run(Request::from_parts(parts, Body::from(taken)))
                .await
        }
        Err(problem) => Failure(problem).into_response(),
    }
}

/// A body, and the memory that it takes.
struct Taken {
    bytes: Zeroizing<Vec<u8>>,
    _held: Held,
}

impl AsRef<[u8]> for Taken {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns how long a body says it is.
pub(crate) fn announced(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(header::CONTENT_LENGTH)?;
    value.to_str().ok()?.parse().ok()
}

/// Reads a body up to the limit.
///
/// One that says it is longer is refused before anything of it is read: a client that waits for
/// `100 Continue` never sends it. What others are still sending is the connection's to take.
///
/// It may hold secrets, whichever request it is of, so it is overwritten when it is dropped.
async fn collect(
    headers: &HeaderMap,
    body: Body,
    held: &mut Held,
) -> Result<Zeroizing<Vec<u8>>, Problem> {
    if announced(headers).is_some_and(|size| size > limits::BODY_BYTES as u64) {
        return Err(too_large());
    }
    let mut stream = body.into_data_stream();
    // Grows as it arrives: a client that announces much and sends nothing takes nothing.
    let mut whole = Zeroizing::new(Vec::new());
    while let Some(chunk) = timeout(PAUSE, stream.next())
        .await
        .map_err(|_| too_slow())?
    {
        let chunk =
            chunk.map_err(|_| Problem::invalid("the body broke off before its announced end"))?;
        if whole.len().saturating_add(chunk.len()) > limits::BODY_BYTES {
            return Err(too_large());
        }
        held.grow(whole.len() + chunk.len())?;
        if whole.is_empty() {
            // A buffer that grows leaves what it held behind; most bodies fit at once.
            let size = announced(headers).and_then(|size| usize::try_from(size).ok());
            whole.reserve(size.unwrap_or(0).min(SMALL));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole)
}

pub(crate) fn too_slow() -> Problem {
    let words = format!("the body made no progress for {} seconds", PAUSE.as_secs());
    Problem::new(ErrorCode::Timeout, words)
}

fn too_large() -> Problem {
    let megabytes = limits::BODY_BYTES / (1024 * 1024);
    let words = format!(
        "the body must have at most {megabytes} MB ({} bytes)",
        limits::BODY_BYTES
    );
    Problem::new(ErrorCode::RequestTooLarge, words)
}
