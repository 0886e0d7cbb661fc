//! The body of an upload: a form whose file goes to its place while it arrives.

mod sent;

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderMap, header};
use multer::{Field, Multipart};
use outlast_kernel::{Kernel, Received};
use outlast_protocol::{ErrorCode, Problem, file, limits, mime};
use tokio::time::timeout;
use tokio_util::io::StreamReader;

use crate::{
    extract::{self, PAUSE, too_slow},
    intake::Intake,
};

/// Bytes after which the form's reader is made to stop and hand on what it has.
///
/// It would otherwise go on reading, into memory, for as long as something is there to be read.
const BREATH: usize = 256 * 1024;

/// Bytes of a body that may be read and not handed on: boundaries, names, what is being looked at.
const HELD: u64 = 8 * 1024 * 1024;

/// An upload that arrived whole.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) received: Received,
    pub(crate) name: String,
    pub(crate) mime_type: String,
    pub(crate) expiry: Option<Duration>,
}

/// A body on its way, and why it ended early.
#[derive(Clone)]
struct Arriving {
    body: Arc<tokio::sync::Mutex<BodyDataStream>>,
    fault: Arc<Mutex<Option<Problem>>>,
    /// Bytes of the body that were read and not handed on.
    held: Arc<AtomicU64>,
}

impl Upload {
    /// Reads the form and stores its file.
    pub(crate) async fn read(
        kernel: &Kernel,
        intake: &Intake,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Self, Problem> {
        let most = kernel.options().file_bytes;
        // What is around a file in a form is less, so the file alone is too large.
        if extract::announced(headers).is_some_and(|size| size > most.saturating_add(HELD)) {
            return Err(too_large(most));
        }
        let arriving = Arriving {
            body: Arc::new(tokio::sync::Mutex::new(body.into_data_stream())),
            fault: Arc::default(),
            held: Arc::default(),
        };
        let _place = intake.upload()?;
        let read = form(kernel, headers, &arriving).await;
        // Of a failure in the middle only the reason of the body's own end says what happened.
        let own = arriving.fault();
        match (read, own) {
            (Ok(upload), _) => Ok(upload),
            (Err(_), Some(problem)) | (Err(problem), None) => Err(problem),
        }
    }

    /// Returns what makes two uploads the same, in place of their bytes.
    pub(crate) fn sum(&self) -> Bytes {
        let expiry = self.expiry.map(|expiry| expiry.as_secs());
        let Received { bytes, digest, .. } = &self.received;
        format!(
            "{digest:?} {bytes} {expiry:?} {:?} {:?}",
            self.name, self.mime_type
        )
        .into()
    }
}

async fn form(
    kernel: &Kernel,
    headers: &HeaderMap,
    arriving: &Arriving,
) -> Result<Upload, Problem> {
    let kind = headers.get(header::CONTENT_TYPE);
    let boundary = kind
        .and_then(|kind| kind.to_str().ok())
        .and_then(|kind| multer::parse_boundary(kind).ok());
    let boundary = boundary.ok_or_else(|| {
        Problem::invalid("the body must be multipart/form-data with a part named `file`")
    })?;
    let mut form = Multipart::new(arriving.chunks(), boundary);
    let (mut received, mut expiry) = (None, None);
    while let Some(field) = form.next_field().await.map_err(|fault| broken(&fault))? {
        match field.name().unwrap_or_default() {
            "file" if received.is_none() => received = Some(part(kernel, arriving, field).await?),
            "expires_in_seconds" if expiry.is_none() => {
                expiry = Some(file::expiry(text(field).await?.trim())?);
            }
            name @ ("file" | "expires_in_seconds") => {
                return Err(Problem::invalid(format!(
                    "{name}: must be given at most once"
                )));
            }
            name => {
                let name: String = name.chars().take(64).collect();
                return Err(Problem::invalid(format!(
                    "{}: unknown part; allowed: file, expires_in_seconds",
                    name.escape_debug()
                )));
            }
        }
    }
    let (received, name, mime_type) =
        received.ok_or_else(|| Problem::invalid("file: is required"))?;
    Ok(Upload {
        received,
        name,
        mime_type,
        expiry,
    })
}

/// Stores the part that is the file.
async fn part(
    kernel: &Kernel,
    arriving: &Arriving,
    field: Field<'static>,
) -> Result<(Received, String, String), Problem> {
    let (sent, kind) = (sent::name(field.headers())?, sent::kind(field.headers())?);
    let kind =
        kind.unwrap_or_else(|| mime::of_name(sent.as_deref().unwrap_or_default()).to_owned());
    let name = file::name(sent.as_deref(), &kind)?;
    let bounded = Bounded {
        content: field
            .map_err(|fault| io::Error::other(fault.to_string()))
            .boxed(),
        left: kernel.options().file_bytes,
        most: kernel.options().file_bytes,
        arriving: arriving.clone(),
    };
    let received = kernel.receive(Box::pin(StreamReader::new(bounded))).await;
    // A reader that fails looks like a disk that fails; but for the body's own end it is the form.
    let received = match (received, arriving.fault()) {
        (Err(_), Some(problem)) => return Err(problem),
        (received, _) => received?,
    };
    Ok((received, name, kind))
}

/// Reads a part that is a short text.
async fn text(mut field: Field<'static>) -> Result<String, Problem> {
    let name = field.name().unwrap_or_default().to_owned();
    let mut whole = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(|fault| broken(&fault))? {
        whole.extend_from_slice(&chunk);
        if whole.len() > limits::FORM_FIELD {
            return Err(Problem::invalid(format!("{name}: is too long")));
        }
    }
    String::from_utf8(whole).map_err(|_| Problem::invalid(format!("{name}: must be text")))
}

fn too_large(most: u64) -> Problem {
    let words = format!("file: must have at most {most} bytes");
    Problem::new(ErrorCode::RequestTooLarge, words)
}

fn broken(fault: &multer::Error) -> Problem {
    Problem::invalid(format!("the body is not a valid multipart form: {fault}"))
}

impl Arriving {
    fn fault(&self) -> Option<Problem> {
        self.fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Notes why the body ends here.
    fn fail(&self, problem: Problem) -> io::Error {
        let words = problem.message.clone();
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
        io::Error::other(words)
    }

    fn chunks(&self) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        stream::unfold((self.clone(), 0), |(arriving, mut run)| async move {
            if run >= BREATH {
                run = 0;
                tokio::task::yield_now().await;
            }
            let next = {
                let mut body = arriving.body.lock().await;
                timeout(PAUSE, body.next()).await
            };
            let item = match next {
                Ok(None) => return None,
                Ok(Some(Ok(chunk))) => {
                    run += chunk.len();
                    arriving.hold(chunk)
                }
                Ok(Some(Err(_))) => Err(arriving.fail(Problem::invalid(
                    "the body broke off before its announced end",
                ))),
                Err(_) => Err(arriving.fail(too_slow())),
            };
            Some((item, (arriving, run)))
        })
    }

    /// Counts what is read; a form that is all boundaries and names is refused.
    fn hold(&self, chunk: Bytes) -> io::Result<Bytes> {
        let size = chunk.len() as u64;
        let held = self.held.fetch_add(size, Ordering::Relaxed) + size;
        if held <= HELD.max(size) {
            return Ok(chunk);
        }
        Err(self.fail(Problem::invalid(
            "the body is not a valid multipart form: too much of it belongs to no part",
        )))
    }

    /// Counts what was handed on.
    fn pass(&self, size: u64) {
        self.held.fetch_sub(size, Ordering::Relaxed);
    }
}

/// A file that may have so many bytes.
struct Bounded {
    content: stream::BoxStream<'static, io::Result<Bytes>>,
    left: u64,
    most: u64,
    arriving: Arriving,
}

impl Stream for Bounded {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.content.as_mut().poll_next(cx);
        let chunk = match polled {
            Poll::Ready(Some(Ok(chunk))) => chunk,
            Poll::Ready(Some(Err(fault))) => {
                // Unless the body itself has ended, its form is broken.
                if self.arriving.fault().is_none() {
                    let words = format!("the body is not a valid multipart form: {fault}");
                    return Poll::Ready(Some(Err(self.arriving.fail(Problem::invalid(words)))));
                }
                return Poll::Ready(Some(Err(fault)));
            }
            other @ (Poll::Ready(None) | Poll::Pending) => return other,
        };
        self.arriving.pass(chunk.len() as u64);
        match self.left.checked_sub(chunk.len() as u64) {
            Some(left) => {
                self.left = left;
                Poll::Ready(Some(Ok(chunk)))
            }
            None => Poll::Ready(Some(Err(self.arriving.fail(too_large(self.most))))),
        }
    }
}
