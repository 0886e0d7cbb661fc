//! Watches how a client frames its requests, where the HTTP library does not tell.
//!
//! A request with both a length and chunks can be read in two ways. The library reads the chunks and drops
//! the length, so nothing is smuggled; but who sends that means no good, and is told so. So is who names
//! another coding beside the chunks, which would go on without its name.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use tokio::io::AsyncRead;
use tokio_util::io::InspectReader;

use super::options::{HEAD_BYTES, HEAD_LINES};

/// Says that some request of a connection can be read in two ways.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubt(Arc<AtomicBool>);

impl Doubt {
    pub(crate) fn is_there(&self) -> bool {
        self.0.load(SeqCst)
    }
}

/// A stream whose requests are watched.
pub(crate) type Watched<S> = InspectReader<S, Box<dyn FnMut(&[u8]) + Send>>;

/// Watches the requests of a stream.
pub(crate) fn watched<S: AsyncRead>(stream: S, doubt: Doubt) -> Watched<S> {
    let mut part = Part::Head(Vec::new());
    let look = move |came: &[u8]| {
        if part.take(came) {
            doubt.0.store(true, SeqCst);
        }
    };
    InspectReader::new(stream, Box::new(look))
}

/// Where in its requests a client is.
#[derive(Debug, Eq, PartialEq)]
enum Part {
    /// In a head, of which that is there.
    Head(Vec<u8>),
    /// So many bytes before the next head.
    Body(u64),
    /// In the line before a chunk: its size so far, and whether that is at its end.
    Size(u64, bool),
    /// So many bytes before the line of the next chunk.
    Chunk(u64),
    /// Behind the last chunk; how long the line is so far.
    Trailer(usize),
    /// In something that the library refuses, or that is no request any more.
    Lost,
}

impl Part {
    /// Takes what was read; tells whether a head in it can be read in two ways.
    fn take(&mut self, mut bytes: &[u8]) -> bool {
        let mut doubtful = false;
        while !bytes.is_empty() && *self != Self::Lost {
            let (taken, doubt) = self.step(bytes);
            doubtful |= doubt;
            bytes = bytes.get(taken..).unwrap_or_default();
        }
        doubtful
    }

    /// Takes some of it, at least a byte.
    fn step(&mut self, bytes: &[u8]) -> (usize, bool) {
        match self {
            Self::Head(head) => {
                let (taken, next, doubt) = read_head(head, bytes);
                if let Some(next) = next {
                    *self = next;
                }
                return (taken, doubt);
            }
            Self::Body(left) | Self::Chunk(left) => {
                let here = u64::try_from(bytes.len()).unwrap_or(u64::MAX).min(*left);
                *left -= here;
                let taken = usize::try_from(here).unwrap_or(bytes.len());
                if *left == 0 {
                    let chunked = matches!(self, Self::Chunk(_));
                    *self = if chunked {
                        Self::Size(0, false)
                    } else {
                        Self::Head(Vec::new())
                    };
                }
                return (taken, false);
            }
            Self::Size(size, over) => {
                let byte = bytes.first().copied().unwrap_or_default();
                if let Some(next) = read_size(size, over, byte) {
                    *self = next;
                }
            }
            Self::Trailer(length) => match bytes.first() {
                Some(b'\n') if *length == 0 => *self = Self::Head(Vec::new()),
                Some(b'\n') => *length = 0,
                Some(b'\r') => {}
                Some(_) | None => *length += 1,
            },
            Self::Lost => return (bytes.len(), false),
        }
        (1, false)
    }
}

/// Reads one byte of the line before a chunk; returns what comes behind the line.
fn read_size(size: &mut u64, over: &mut bool, byte: u8) -> Option<Part> {
    match byte {
        b'\n' if *size == 0 => return Some(Part::Trailer(0)),
        // The chunk is followed by an end of line.
        b'\n' => return Some(size.checked_add(2).map_or(Part::Lost, Part::Chunk)),
        b';' | b'\r' | b' ' | b'\t' => *over = true,
        _ if *over => {}
        digit => {
            let digit = char::from(digit).to_digit(16).map(u64::from);
            let grown = digit.and_then(|digit| size.checked_mul(16)?.checked_add(digit));
            match grown {
                Some(grown) => *size = grown,
                None => return Some(Part::Lost),
            }
        }
    }
    None
}

/// Reads on in a head; returns what was taken, what comes next, and whether it can be read in two ways.
fn read_head(head: &mut Vec<u8>, bytes: &[u8]) -> (usize, Option<Part>, bool) {
    let before = head.len();
    head.extend_from_slice(bytes);
    // Only where a line ends empty the head can: else nothing is read again and again.
    let new = head.get(before.saturating_sub(3)..).unwrap_or_default();
    let may_end =
        new.windows(2).any(|two| two == b"\n\n") || new.windows(3).any(|three| three == b"\n\r\n");
    if !may_end {
        let next = (head.len() > HEAD_BYTES).then_some(Part::Lost);
        return (bytes.len(), next, false);
    }
    let mut lines = [httparse::EMPTY_HEADER; HEAD_LINES];
    let mut request = httparse::Request::new(&mut lines);
    match request.parse(head) {
        Ok(httparse::Status::Complete(length)) => {
            let (next, doubt) = framed(request.headers);
            (length - before, Some(next), doubt)
        }
        Ok(httparse::Status::Partial) => (bytes.len(), None, false),
        Err(_) => (bytes.len(), Some(Part::Lost), false),
    }
}

/// Returns what follows a head, and whether that can be read in two ways.
fn framed(lines: &[httparse::Header<'_>]) -> (Part, bool) {
    let all = |name: &'static str| {
        let named = lines.iter();
        let named = named.filter(move |line| line.name.eq_ignore_ascii_case(name));
        named.map(|line| line.value)
    };
    let chunked = all("transfer-encoding").next().is_some();
    let length = all("content-length").next();
    let next = match (chunked, length) {
        (true, _) => Part::Size(0, false),
        (false, None) => Part::Head(Vec::new()),
        (false, Some(length)) => {
            let length = std::str::from_utf8(length).ok();
            match length.and_then(|text| text.trim().parse().ok()) {
                Some(0) => Part::Head(Vec::new()),
                Some(length) => Part::Body(length),
                None => Part::Lost,
            }
        }
    };
    let coded =
        all("transfer-encoding").any(|value| !value.trim_ascii().eq_ignore_ascii_case(b"chunked"));
    (next, coded || chunked && length.is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn another_coding_is_doubtful() {
        let coded = "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n";
        assert!(doubtful(coded, &[]));
        let plain = "POST / HTTP/1.1\r\nTransfer-Encoding:  Chunked \r\n\r\n0\r\n\r\n";
        assert!(!doubtful(plain, &[]));
    }

    const DOUBTFUL: &str =
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";

    /// Requests that are framed in one way each.
    const CLEAR: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n\
        12\r\n\nPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\nA\r\n0123456789\r\n\
        0\r\nX: y\r\n\r\n\r\nPUT / HTTP/1.1\r\nContent-Length: 0\r\n\r\n";

    fn doubtful(text: &str, cuts: &[usize]) -> bool {
        let mut part = Part::Head(Vec::new());
        let mut rest = text.as_bytes();
        let mut found = false;
        for cut in cuts {
            let (piece, later) = rest.split_at((*cut).min(rest.len()));
            found |= part.take(piece);
            rest = later;
        }
        found | part.take(rest)
    }

    proptest! {
        #[test]
        fn a_doubtful_request_is_found_behind_others_however_they_come(
            cuts in proptest::collection::vec(0_usize..30, 0..20),
        ) {
            prop_assert!(!doubtful(CLEAR, &cuts));
            let behind = [CLEAR, DOUBTFUL].concat();
            prop_assert!(doubtful(&behind, &cuts));
            let before = [DOUBTFUL, CLEAR].concat();
            prop_assert!(doubtful(&before, &cuts));
        }

        #[test]
        fn anything_at_all_can_be_watched(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            Part::Head(Vec::new()).take(&bytes);
            let behind = [DOUBTFUL.as_bytes(), &bytes].concat();
            prop_assert!(Part::Head(Vec::new()).take(&behind));
        }
    }

    #[test]
    fn a_body_that_looks_like_a_request_is_none() {
        let length = DOUBTFUL.len();
        let text = format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{DOUBTFUL}");
        assert!(!doubtful(&text, &[]));
        assert!(doubtful(&format!("{text}{DOUBTFUL}"), &[]));
    }
}
