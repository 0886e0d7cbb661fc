//! Bodies in which texts are replaced as they pass.

use std::{
    collections::VecDeque,
    io::Write as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, HeaderValue, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Frame, SizeHint};

use super::body::{Body, Broken};
use crate::replace::{Stream, Table};

/// What is held whole, so that its length is known before it goes on.
const WHOLE: u64 = 1 << 20;

/// What is unpacked at once: a thousand times as much may come of it.
const PACKED: usize = 4 << 10;

/// Is told whose texts were found.
pub(crate) type Found = Box<dyn FnMut(Vec<usize>) + Send>;

/// Replaces texts in a body, and corrects the length that its head says.
///
/// # Errors
///
/// If the body ends before its end.
pub(crate) async fn replaced(
    headers: &mut HeaderMap,
    body: Body,
    table: Arc<Table>,
    mut found: Found,
) -> Result<Body, Broken> {
    if table.is_empty() || body.is_end_stream() {
        return Ok(body);
    }
    let small = body
        .size_hint()
        .exact()
        .is_some_and(|length| length <= WHOLE);
    if !small {
        headers.remove(header::CONTENT_LENGTH);
        return Ok(Replaced::new(body, table, found).boxed_unsync());
    }
    let whole = body.collect().await?.to_bytes();
    let whole = match table.replace(&whole) {
        None => whole,
        Some((bytes, tags)) => {
            found(tags);
            bytes.into()
        }
    };
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(whole.len()));
    Ok(Full::new(whole)
        .map_err(|never| match never {})
        .boxed_unsync())
}

/// Unpacks a body that came packed although nobody asked for that, so that it can be looked through.
///
/// # Errors
///
/// The name of an encoding that is not known here.
pub(crate) fn unpacked(headers: &mut HeaderMap, body: Body) -> Result<Body, String> {
    let names: Vec<_> = headers.get_all(header::CONTENT_ENCODING).iter().collect();
    let names: Vec<_> = names
        .into_iter()
        .map(|name| name.to_str().unwrap_or("?"))
        .collect();
    let name = names.join(", ").to_ascii_lowercase();
    if body.is_end_stream() {
        return Ok(body);
    }
    let unpacking = match name.as_str() {
        "" | "identity" => return Ok(body),
        "gzip" | "x-gzip" => Unpacking::Gzip(MultiGzDecoder::new(Vec::new())),
        "deflate" => Unpacking::Zlib(ZlibDecoder::new(Vec::new())),
        _ => return Err(name),
    };
    headers.remove(header::CONTENT_ENCODING);
    headers.remove(header::CONTENT_LENGTH);
    let packed = Bytes::new();
    Ok(Unpacked {
        body,
        packed,
        unpacking,
        over: false,
    }
    .boxed_unsync())
}

/// A body in which texts are replaced as it passes.
struct Replaced {
    body: Body,
    table: Arc<Table>,
    stream: Stream,
    found: Found,
    /// What goes on before anything more is read.
    ready: VecDeque<Frame<Bytes>>,
    over: bool,
}

impl Replaced {
    fn new(body: Body, table: Arc<Table>, found: Found) -> Self {
        Self {
            body,
            stream: Stream::new(table.clone()),
            table,
            found,
            ready: VecDeque::new(),
            over: false,
        }
    }

    fn in_trailers(&mut self, mut trailers: HeaderMap) -> HeaderMap {
        for value in trailers.values_mut() {
            if let Some((bytes, tags)) = self.table.replace(value.as_bytes()) {
                *value = HeaderValue::from_bytes(&bytes)
                    .unwrap_or_else(|_| HeaderValue::from_static(""));
                (self.found)(tags);
            }
        }
        trailers
    }

    fn take(&mut self, frame: Option<Frame<Bytes>>) {
        let bytes = match frame.map(Frame::into_data) {
            Some(Ok(data)) => self.stream.push(&data),
            Some(Err(other)) => {
                let rest = self.stream.finish();
                self.ready.push_back(Frame::data(rest));
                if let Ok(trailers) = other.into_trailers() {
                    let trailers = self.in_trailers(trailers);
                    self.ready.push_back(Frame::trailers(trailers));
                }
                Bytes::new()
            }
            None => {
                self.over = true;
                self.stream.finish()
            }
        };
        if !bytes.is_empty() {
            self.ready.push_back(Frame::data(bytes));
        }
        let tags = self.stream.found();
        if !tags.is_empty() {
            (self.found)(tags);
        }
    }
}

impl hyper::body::Body for Replaced {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(frame)));
            }
            if self.over {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose() {
                Ok(frame) => self.take(frame),
                Err(error) => {
                    self.over = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

enum Unpacking {
    Gzip(MultiGzDecoder<Vec<u8>>),
    Zlib(ZlibDecoder<Vec<u8>>),
}

impl Unpacking {
    fn push(&mut self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Gzip(decoder) => {
                decoder.write_all(bytes)?;
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
            Self::Zlib(decoder) => {
                decoder.write_all(bytes)?;
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
        }
    }

    fn finish(&mut self) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Gzip(decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
            Self::Zlib(decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
        }
    }
}

/// A body that is unpacked as it passes, a little at a time.
struct Unpacked {
    body: Body,
    packed: Bytes,
    unpacking: Unpacking,
    over: bool,
}

impl Unpacked {
    fn fail(&mut self, error: std::io::Error) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.over = true;
        Poll::Ready(Some(Err(error.into())))
    }
}

impl hyper::body::Body for Unpacked {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            if self.over {
                return Poll::Ready(None);
            }
            if self.packed.is_empty() {
                match ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose()? {
                    Some(frame) => match frame.into_data() {
                        Ok(data) => self.packed = data,
                        Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                    },
                    None => {
                        let rest = self.unpacking.finish();
                        let rest = match rest {
                            Ok(rest) => rest,
                            Err(error) => return self.fail(error),
                        };
                        self.over = true;
                        return match rest.is_empty() {
                            true => Poll::Ready(None),
                            false => Poll::Ready(Some(Ok(Frame::data(rest.into())))),
                        };
                    }
                }
                continue;
            }
            let count = self.packed.len().min(PACKED);
            let piece = self.packed.split_to(count);
            match self.unpacking.push(&piece) {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes.into())))),
                Err(error) => return self.fail(error),
            }
        }
    }
}
