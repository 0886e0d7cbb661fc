//! Requests of brains outside: the log has their spans and what they used, as it has those of our
//! own loop, and no brain has to be believed about either.

use axum::{body::Bytes, extract::State};
use futures::{Stream, StreamExt as _, stream::BoxStream};
use http::{HeaderValue, header, request::Parts};
use outlast_kernel::{Asker, LeaseError};
use outlast_model::{
    tap::{Form, Tap},
    upstream::{Forwarded, Part},
};
use outlast_protocol::{ErrorCode, Problem, id::EventId};
use outlast_session::Answer as Recorded;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

use super::{Answer, Front, answer::respond, asked::Asked};
use crate::{budget::Payer, guarded::Guarded, metered::Meter};

/// Tells a brain the id of the span that stands for its request.
const SPAN: &str = "outlast-span-id";

/// `POST /outlast/v1/brains/v1/messages`.
pub(super) async fn messages(State(front): State<Front>, parts: Parts, body: Bytes) -> Answer {
    let asker = front.brain(&parts.headers).await?;
    let asked = Asked::read(&body)?;
    let payer = Payer::Brain(asker);
    front.0.budget.admit(payer, &asked.model).await?;
    let kernel = &front.0.kernel;
    kernel.may_ask(asker).map_err(over)?;
    let span = EventId::mint(kernel.now(), kernel.entropy());
    let started = kernel.request_started(asker, span);
    let facts = front.0.facts.of(&asked.model);
    let meter = Meter::new(kernel.clone(), asker, span, facts);
    let sent = front.send(Part::Messages, Some(&asked), parts, body);
    // It leaves while the record of its start is being synced; nothing comes back before that is.
    let both = async { futures::join!(started, sent) };
    let (started, forwarded) = tokio::select! {
        biased;
        stop = kernel.stops(asker) => return Err(over(stop).into()),
        both = both => both,
    };
    wanted(started)?;
    let forwarded = match forwarded {
        Ok(forwarded) if forwarded.status.is_success() => metered(&front, asker, meter, forwarded),
        Ok(forwarded) => {
            meter.failed();
            forwarded
        }
        Err(problem) => {
            meter.failed();
            return Err(problem.into());
        }
    };
    let mut response = respond(forwarded).await?;
    if let Ok(span) = HeaderValue::from_str(&span.to_string()) {
        response.headers_mut().insert(SPAN, span);
    }
    Ok(response)
}

/// `POST /outlast/v1/brains/v1/messages/count_tokens`.
pub(super) async fn count_tokens(State(front): State<Front>, parts: Parts, body: Bytes) -> Answer {
    front.brain(&parts.headers).await?;
    let asked = Asked::read(&body)?;
    let forwarded = front
        .send(Part::CountTokens, Some(&asked), parts, body)
        .await?;
    respond(forwarded).await
}

/// Refuses a request that the log does not want.
fn wanted(started: Result<Recorded, LeaseError>) -> Result<(), Problem> {
    match started {
        Ok(Recorded::Appended) => Ok(()),
        Ok(answer) => {
            let words = format!("the request was not wanted: {answer:?}");
            Err(Problem::new(ErrorCode::Permission, words))
        }
        Err(error) => Err(over(error)),
    }
}

/// Returns what a brain is told whose request is not made.
fn over(error: LeaseError) -> Problem {
    let code = match &error {
        LeaseError::Unavailable(_) | LeaseError::Unsure => ErrorCode::Unavailable,
        LeaseError::Over(_) | LeaseError::Illegal(_) => ErrorCode::Permission,
        LeaseError::Broken(_) => ErrorCode::Internal,
    };
    Problem::new(code, error.to_string())
}

/// Meters an answer whose bytes go on untouched, as long as its brain may have it.
fn metered(front: &Front, asker: Asker, meter: Meter, forwarded: Forwarded) -> Forwarded {
    let kind = forwarded.headers.get(header::CONTENT_TYPE);
    let streams = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let form = if streams { Form::Stream } else { Form::Plain };
    let kernel = front.0.kernel.clone();
    let guarded = Guarded::new(kernel, asker, forwarded.body, |error| error.to_string());
    let body = Metered {
        tap: Tap::new(form),
        meter: Some(meter),
        body: guarded.boxed(),
    };
    Forwarded {
        body: body.boxed(),
        ..forwarded
    }
}

/// A body that is listened to.
struct Metered {
    tap: Tap,
    /// Gone once the end was recorded.
    meter: Option<Meter>,
    body: BoxStream<'static, Result<Bytes, String>>,
}

impl Metered {
    /// Records the end, before the reader sees it.
    fn end(&mut self) {
        if let Some(meter) = self.meter.take() {
            meter.came_to(self.tap.usage(), self.tap.is_complete());
        }
    }
}

impl Stream for Metered {
    type Item = Result<Bytes, String>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.body.poll_next_unpin(cx);
        match &next {
            Poll::Ready(Some(Ok(chunk))) => {
                self.tap.feed(chunk);
                if self.tap.is_complete() {
                    self.end();
                }
            }
            Poll::Ready(Some(Err(_))) => self.end(),
            Poll::Ready(None) => {
                self.tap.end();
                self.end();
            }
            Poll::Pending => {}
        }
        next
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.end();
    }
}
