//! Requests that are repeated are done once.
//!
//! A client that got no answer sends its request again. With an `Idempotency-Key` the key says so
//! for a day. Without one, a request with `x-stainless-retry-count` above 0 repeats the one with
//! the same bytes that was accepted in the last ten minutes with another count, unless the answer
//! of that one is known to have been written out, or an attempt with count 0 and the same bytes
//! came since: then it belongs to another chain of attempts. One with count 0 that comes within ten
//! seconds behind a repeat, whose answer is not known to have been written out, is the original,
//! which was held up on its way. An answer that was handed to the
//! kernel may still be lost on its way, and a connection that breaks right behind it says so: it
//! counts as written out once its connection has outlived it for a moment. The receipt stands in
//! the transaction that accepted the request. A repeat that meets its original at work waits for it. A request
//! that was refused left nothing behind, so a repeat of it is judged anew.

mod attempt;
mod flights;
mod marks;

use std::{sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use outlast_kernel::Kernel;
use outlast_protocol::{ErrorCode, Micros, Problem, id::SessionId};
use outlast_store::{Receipt, Reply};
use tracing::Instrument as _;

pub(crate) use self::attempt::{Attempt, Ticket};
use self::{
    attempt::Chain,
    flights::{Entrance, Flight, Flights},
    marks::{Marks, Older},
};
use crate::{
    Api,
    answer::{self, Answer},
    app::App,
    connection::Connection,
    events,
    failure::{self, overloaded},
    metric_definitions as figures,
};

/// Tells that an answer is that of an earlier request.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// How long a request without a key can be repeated.
const RETRIED: Duration = Duration::from_secs(10 * 60);

/// How long a connection must outlive an answer for it to count as written out.
///
/// A client that lost its answer has lost its connection too, and one that tries again on a new one
/// waits half a second before.
const OUTLIVED: Duration = Duration::from_secs(1);

/// How long after its repeat was accepted a first attempt may come, held up by a process that stood
/// still or a network, and is known. Longer, and somebody's next wish of the same bytes might be taken
/// for it.
const HELD_UP: Duration = Duration::from_secs(10);

/// How long an `Idempotency-Key` answers.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// What is at work now, and which answers were written out a moment ago.
#[derive(Debug)]
pub(crate) struct Once {
    flights: Arc<Flights>,
    marks: Arc<Marks>,
}

/// An attempt, and the connection that it came over, where that is known.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    pub(crate) attempt: Attempt,
    pub(crate) over: Option<Connection>,
}

/// How the answer of an accepted request is made again from its receipt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// It stands in the receipt.
    Stored,
    /// It is the session as it was created.
    Session,
    /// It is the events that were accepted.
    Events,
}

impl Once {
    pub(crate) fn new(api: &Api) -> Self {
        Self {
            flights: Arc::default(),
            marks: Arc::new(Marks::new(api)),
        }
    }
}

impl App {
    /// Does the work of a request, or answers as its original was answered.
    ///
    /// The work goes on if the client goes away; it must write the receipt of its ticket in the
    /// transaction that accepts the request, and returns the body of the answer.
    pub(crate) async fn once<W>(
        &self,
        sending: Option<Sending>,
        form: Form,
        work: impl FnOnce(Option<Ticket>) -> W + Send + 'static,
    ) -> Answer
    where
        W: Future<Output = Result<String, Problem>> + Send + 'static,
    {
        let Some(Sending { attempt, over }) = sending else {
            return Ok(answer::json(work(None).await?));
        };
        let mut flight = match self.board(&attempt).await? {
            Boarded::Landed(body) => return Ok(self.replay(&attempt, over, body)),
            Boarded::First(flight) => flight,
        };
        let counted = matches!(attempt.chain, Chain::Retry { .. });
        if counted && self.once.marks.are_full(self.bounds.attempts) {
            return Err(overloaded("too many requests ended in a way that nobody knows").into());
        }
        let since = self.since(&attempt, &flight);
        if let Some(body) = earlier(&self.kernel, &attempt, since, form).await? {
            flight.land(&body);
            return Ok(self.replay(&attempt, over, body));
        }
        // Receipts of its repeats, for a first attempt.
        let late = self.back(HELD_UP, &flight);
        let late = late.unwrap_or_else(|| self.kernel.now());
        let ticket = attempt.ticket(self.kernel.now(), since, late);
        let since = match attempt.chain {
            Chain::Retry { count: 0 } => Some(late),
            Chain::Retry { .. } | Chain::Key { .. } => since,
        };
        let work = work(Some(ticket));
        let kernel = self.kernel.clone();
        // To its end, even if its client does not wait for it.
        let flying = async move {
            flight.begin();
            let problem = match work.await {
                Ok(body) => {
                    flight.land(&body);
                    return Ok(Done::Now(body));
                }
                Err(problem) => problem,
            };
            // Another attempt may have been accepted meanwhile, or before this one that was held up.
            let away = matches!(problem.code, ErrorCode::Unavailable | ErrorCode::DiskFull);
            if away && let Ok(Some(body)) = earlier(&kernel, &attempt, since, form).await {
                flight.land(&body);
                return Ok(Done::Before(body));
            }
            flight.refuse(&problem);
            Err(problem)
        };
        let handle = self.tasks.spawn(flying.in_current_span());
        match handle.await.map_err(|fault| failure::internal(&fault))?? {
            Done::Now(body) => Ok(self.written(&attempt, over, body)),
            Done::Before(body) => Ok(self.replay(&attempt, over, body)),
        }
    }

    /// Waits for the original, if it is at work; else becomes the one that is.
    async fn board(&self, attempt: &Attempt) -> Result<Boarded, Problem> {
        loop {
            match self
                .once
                .flights
                .enter(attempt, &self.once.marks, self.kernel.now())
            {
                Entrance::First(flight) => {
                    self.once.marks.settle(attempt.fingerprint).await;
                    return Ok(Boarded::First(flight));
                }
                Entrance::Behind(waiting) => {
                    if let Some(body) = waiting.body(attempt).await? {
                        return Ok(Boarded::Landed(body));
                    }
                }
            }
        }
    }

    /// Returns from when on receipts count for an attempt; `None` if none does.
    fn since(&self, attempt: &Attempt, flight: &Flight) -> Option<Micros> {
        match attempt.chain {
            Chain::Retry { count: 0 } => None,
            Chain::Retry { .. } => self.back(RETRIED, flight),
            Chain::Key { .. } => self.back(KEPT, flight),
        }
    }

    /// Returns the moment so long ago, or the later one from which on receipts stand; `None` if none
    /// does.
    fn back(&self, long: Duration, flight: &Flight) -> Option<Micros> {
        let since = self.kernel.ago(long);
        match flight.older() {
            Older::Good => Some(since),
            Older::Since(floor) => Some(since.max(floor)),
            Older::Dead => None,
        }
    }

    fn replay(&self, attempt: &Attempt, over: Option<Connection>, body: String) -> Response {
        figures::replayed();
        let mut response = self.written(attempt, over, body);
        response
            .headers_mut()
            .insert(REPLAYED, HeaderValue::from_static("true"));
        response
    }

    /// Makes the response, and marks its receipt once the whole of it was taken to be written, and
    /// its connection did not break right afterwards.
    fn written(&self, attempt: &Attempt, over: Option<Connection>, body: String) -> Response {
        if let Chain::Key { .. } = attempt.chain {
            return answer::json(body);
        }
        let (marks, fingerprint) = (self.once.marks.clone(), attempt.fingerprint);
        let length = body.len();
        let (tasks, shutdown) = (self.tasks.clone(), self.shutdown.clone());
        let whole = futures::stream::once(async move {
            match over {
                None => marks.add(fingerprint),
                Some(connection) => {
                    let note = marks.soon(fingerprint);
                    drop(tasks.spawn(async move {
                        tokio::select! {
                            biased;
                            () = shutdown.cancelled() => {}
                            () = connection.ended() => return marks.lost(fingerprint, note),
                            () = tokio::time::sleep(OUTLIVED) => {}
                        }
                        marks.ripen(fingerprint, note);
                    }));
                }
            }
            Ok::<_, std::convert::Infallible>(Bytes::from(body))
        });
        let mut response = answer::json(Body::from_stream(whole));
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, length.into());
        response
    }
}

/// How a request was accepted.
enum Done {
    Now(String),
    /// By another attempt.
    Before(String),
}

/// What came of trying to be the one at work.
enum Boarded {
    /// The original was at work and is done.
    Landed(String),
    /// This attempt is at work now.
    First(Flight),
}

/// Returns the answer that another attempt got.
async fn earlier(
    kernel: &Kernel,
    attempt: &Attempt,
    since: Option<Micros>,
    form: Form,
) -> Result<Option<String>, Problem> {
    let Some(since) = since else { return Ok(None) };
    let found = kernel.resources().receipt(attempt.fingerprint, since).await;
    let found = found.map_err(|fault| failure::unavailable(&fault.into()))?;
    let reply = found
        .map(|receipt| attempt.answered_by(receipt))
        .transpose()?;
    match reply.flatten() {
        Some(reply) => again(kernel, reply, form).await.map(Some),
        None => Ok(None),
    }
}

/// Makes an answer again.
async fn again(kernel: &Kernel, reply: Reply, form: Form) -> Result<String, Problem> {
    match (reply, form) {
        (Reply::Body(body), Form::Stored | Form::Session | Form::Events) => Ok(body),
        (Reply::Records { session, last, .. }, Form::Stored | Form::Session) => {
            answer::text(&kernel.session_at(session, last).await?)
        }
        (
            Reply::Records {
                session,
                first,
                last,
            },
            Form::Events,
        ) => accepted(kernel, session, first, last).await,
    }
}

async fn accepted(
    kernel: &Kernel,
    session: SessionId,
    first: u64,
    last: u64,
) -> Result<String, Problem> {
    Ok(events::data(&kernel.accepted(session, first, last).await?))
}

impl Ticket {
    /// Makes the receipt of an answer that stands in it whole.
    pub(crate) fn body(self, body: &str) -> Receipt {
        self.receipt(Reply::Body(body.to_owned()))
    }

    /// Makes the receipt of an answer that is made from records; the store fills them in.
    pub(crate) fn records(self, session: SessionId) -> Receipt {
        self.receipt(Reply::Records {
            session,
            first: 0,
            last: 0,
        })
    }
}
