//! Server-sent events: a log from a position on, and what is being made.

mod feed;
mod frame;
mod previews;

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, header};
use outlast_protocol::{
    Problem,
    id::{SessionId, ThreadId},
    limits,
};

use self::{
    feed::Feed,
    previews::{Wanted, Watch},
};
use crate::{
    answer::Answer,
    app::{App, Shared},
    extract::{Id, Named, Params},
};

/// `GET /v1/sessions/{session_id}/events/stream`: the session's own stream, which is that of its
/// primary thread.
pub(crate) async fn session(
    State(app): State<Shared>,
    Named(session): Named<SessionId>,
    id: Id,
    params: Params,
    headers: HeaderMap,
) -> Answer {
    app.stream(session, 0, id, params, &headers).await
}

/// `GET /v1/sessions/{session_id}/threads/{thread_id}/stream`.
pub(crate) async fn thread(
    State(app): State<Shared>,
    Named(session): Named<SessionId>,
    Named(thread): Named<ThreadId>,
    id: Id,
    params: Params,
    headers: HeaderMap,
) -> Answer {
    let number = app.thread_number(session, thread).await?;
    app.stream(session, number, id, params, &headers).await
}

impl App {
    async fn stream(
        &self,
        session: SessionId,
        thread: u32,
        Id(request): Id,
        Params(mut query): Params,
        headers: &HeaderMap,
    ) -> Answer {
        let wanted = query.words("event_deltas", limits::EVENT_DELTAS, Wanted::TABLE)?;
        query.finish()?;
        let position = last_event_id(headers)?;
        // Both subscriptions stand before the head of the response leaves; previews first, so that
        // no start falls between them.
        let watch = Wanted::any(&wanted)
            .map(|wanted| Watch::new(self.kernel.previews(session, thread), wanted));
        let follower = self.kernel.follow(session, position).await?;
        let feed = Feed::new(self, (session, thread), follower, watch, request);
        Ok(response(Body::from_stream(feed.into_stream())))
    }
}

/// Reads where a client left off; absent is the head, 0 the beginning.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(position) if digits => Ok(Some(position)),
        Ok(_) | Err(_) => Err(Problem::invalid(
            "Last-Event-ID: must be the `id` of a frame of this stream, or 0 for the whole log",
        )),
    }
}

fn response(body: Body) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
