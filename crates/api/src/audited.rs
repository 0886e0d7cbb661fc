//! Every request that may change something is in the audit log before it begins.

use std::borrow::Cow;

use axum::{
    body::{Body, HttpBody as _, to_bytes},
    extract::{MatchedPath, Request},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{Method, StatusCode, Uri};
use outlast_kernel::Kernel;
use outlast_protocol::{
    ErrorCode, Problem,
    audit::{Actor, AuditOutcome, Ended, Entry},
    id::{ApiKeyId, RequestId},
};
use serde::Deserialize;

use crate::{failure::Failure, observe};

/// The longest answer that is looked through for the id of what was made, in bytes.
const LOOKED: u64 = 1024 * 1024;

/// Characters of a path, or of an id in it, that an entry keeps.
const KEPT: usize = 256;

/// What is known of a request before it is handled.
pub(crate) struct Asked {
    kernel: Kernel,
    entry: Entry,
    request: Option<RequestId>,
    reads: bool,
}

impl Asked {
    /// Notes who asks for what.
    pub(crate) fn note(kernel: &Kernel, key: ApiKeyId, request: &Request) -> Self {
        let id = request.extensions().get::<observe::Id>().map(|id| id.0);
        let route = request.extensions().get::<MatchedPath>();
        let route = route.map_or(observe::UNMATCHED, MatchedPath::as_str);
        let method = request.method();
        let action = format!("{} {route}", observe::word(method));
        let mut entry = Entry::new(kernel.now(), Actor::Key(key), action);
        entry.request_id = id;
        entry.subject_id = subject(route, request.uri()).map(|id| excerpt(&id));
        entry = entry.with("path", excerpt(request.uri().path()));
        Self {
            kernel: kernel.clone(),
            entry,
            request: id,
            reads: matches!(*method, Method::GET | Method::HEAD),
        }
    }

    /// Adds the entry of a request that was refused for want of scope, whatever it asked for.
    pub(crate) async fn refused(self, problem: Problem) -> Response {
        let mut entry = self.entry.came_to(AuditOutcome::Refused);
        entry.status = Some(problem.code.status());
        match self.kernel.audit(entry).await {
            Ok(()) => Failure(problem).into_response(),
            Err(problem) => Failure(problem).into_response(),
        }
    }

    /// Handles the request, between its entry and what came of it.
    pub(crate) async fn handle(self, request: Request, next: Next) -> Response {
        if self.reads {
            return next.run(request).await;
        }
        if let Err(problem) = self.kernel.audit(self.entry.clone()).await {
            return Failure(problem).into_response();
        }
        let response = next.run(request).await;
        let (response, made) = made(response).await;
        let status = response.status().as_u16();
        if let Some(request_id) = self.request {
            self.kernel.audit_ended(Ended {
                request_id,
                outcome: outcome(status),
                status,
                subject_id: made.filter(|id| self.entry.subject_id.as_ref() != Some(id)),
            });
        }
        response
    }
}

fn outcome(status: u16) -> AuditOutcome {
    // What is told as unavailable or overloaded was not accepted.
    let refused = [ErrorCode::Unavailable, ErrorCode::Overloaded].map(ErrorCode::status);
    match status {
        ..400 => AuditOutcome::Done,
        400..500 => AuditOutcome::Refused,
        status if refused.contains(&status) => AuditOutcome::Refused,
        _ => AuditOutcome::Failed,
    }
}

/// Returns the last id that a path names.
fn subject<'a>(route: &str, uri: &'a Uri) -> Option<Cow<'a, str>> {
    let segments = uri.path().split('/').zip(route.split('/'));
    let named = segments.filter(|(_, name)| name.starts_with('{'));
    named.last().map(|(id, _)| Cow::Borrowed(id))
}

/// Cuts what a client sent to what an entry can carry.
fn excerpt(text: &str) -> String {
    let printable = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(KEPT).map(printable).collect()
}

/// What names an object in an answer.
#[derive(Deserialize)]
struct Made {
    id: String,
}

/// Finds the id of the object that an answer shows.
async fn made(response: Response) -> (Response, Option<String>) {
    let short = response
        .body()
        .size_hint()
        .exact()
        .is_some_and(|size| size <= LOOKED);
    if response.status() != StatusCode::OK || !short {
        return (response, None);
    }
    let (parts, body) = response.into_parts();
    let most = usize::try_from(LOOKED).unwrap_or(usize::MAX);
    match to_bytes(body, most).await {
        Ok(bytes) => {
            let made = serde_json::from_slice::<Made>(&bytes).ok();
            let made = made.map(|made| excerpt(&made.id));
            (Response::from_parts(parts, Body::from(bytes)), made)
        }
        // Bodies of a known size are at hand: they do not break.
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR.into_response(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_id_of_a_path_is_the_subject() {
        for (route, path, id) in [
            ("/v1/agents", "/v1/agents", None),
            (
                "/v1/agents/{agent_id}",
                "/v1/agents/agent_1",
                Some("agent_1"),
            ),
            (
                "/v1/agents/{agent_id}/archive",
                "/v1/agents/agent_1/archive",
                Some("agent_1"),
            ),
            (
                "/v1/sessions/{session_id}/resources/{resource_id}",
                "/v1/sessions/sesn_1/resources/sesrsc_1",
                Some("sesrsc_1"),
            ),
        ] {
            let uri: Uri = path.parse().unwrap();
            assert_eq!(subject(route, &uri).as_deref(), id);
        }
    }

    #[test]
    fn outcomes_follow_the_status() {
        for (status, expected) in [
            (200, AuditOutcome::Done),
            (400, AuditOutcome::Refused),
            (503, AuditOutcome::Refused),
            (529, AuditOutcome::Refused),
            (500, AuditOutcome::Failed),
        ] {
            assert_eq!(outcome(status), expected, "{status}");
        }
    }
}
