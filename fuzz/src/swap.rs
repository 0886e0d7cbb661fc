//! Texts that are replaced as they pass.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::{executor::block_on, stream};
use http::{HeaderMap, HeaderValue, header};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use zeroize::Zeroizing;

use crate::{
    hand::{body::Body, swapped},
    pieces::cuts,
    replace::{Needle, Stream, Table},
};

/// What is looked for, and what is put in its place.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// Reads `find>put|find>put`, and behind the end of that line the text. However it is cut, it has to
/// become what it becomes when it is read plainly.
pub fn swap(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n');
    let (first, text) = data.split_at(end.unwrap_or(data.len()));
    let text = text.get(1..).unwrap_or_default();
    let pairs = pairs(first);
    let needles = pairs.iter().enumerate().map(|(tag, (find, put))| Needle {
        find: Zeroizing::new(find.to_vec()),
        put: Zeroizing::new(put.to_vec()),
        tag,
    });
    let table = Arc::new(Table::new(needles.collect()));
    let wanted = plainly(&pairs, text);
    for pieces in cuts(text) {
        assert_eq!(streamed(&table, &pairs, &pieces), wanted);
        assert_eq!(body(&table, &pieces, None).as_ref(), Some(&wanted));
    }
    let whole = table.replace(text);
    let whole = whole.unwrap_or_else(|| (text.to_vec(), Vec::new()));
    assert_eq!(whole, wanted);
    packed(&table, text, &wanted);
}

fn pairs(line: &[u8]) -> Vec<Pair<'_>> {
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    for pair in line.split(|byte| *byte == b'|').take(8) {
        let Some(at) = pair.iter().position(|byte| *byte == b'>') else {
            continue;
        };
        let (find, put) = (&pair[..at], &pair[at + 1..]);
        if find.len() >= 2 && pairs.iter().all(|(other, _)| *other != find) {
            pairs.push((find, put));
        }
    }
    pairs
}

/// Reads a text as it is meant: the leftmost counts, and of those the longest. Says whose were found.
fn plainly(pairs: &[Pair<'_>], mut text: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let (mut out, mut found) = (Vec::new(), Vec::new());
    while let Some((first, rest)) = text.split_first() {
        let here = pairs.iter().enumerate();
        let here = here.filter(|(_, (find, _))| text.starts_with(find));
        match here.max_by_key(|(_, (find, _))| find.len()) {
            Some((tag, (find, put))) => {
                out.extend_from_slice(put);
                text = &text[find.len()..];
                if !found.contains(&tag) {
                    found.push(tag);
                }
            }
            None => {
                out.push(*first);
                text = rest;
            }
        }
    }
    (out, found)
}

fn streamed(table: &Arc<Table>, pairs: &[Pair<'_>], pieces: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
    let longest = pairs.iter().map(|(find, _)| find.len()).max();
    let mut stream = Stream::new(table.clone());
    let (mut out, mut found, mut came) = (Vec::new(), Vec::new(), 0);
    for piece in pieces {
        came += piece.len();
        out.extend_from_slice(&stream.push(&Bytes::copy_from_slice(piece)));
        merge(&mut found, stream.found());
        // What cannot become one of the texts any more is never held back.
        let held = came.saturating_sub(out.len());
        assert!(!found.is_empty() || held < longest.unwrap_or(1), "{held}");
    }
    out.extend_from_slice(&stream.finish());
    merge(&mut found, stream.found());
    (out, found)
}

fn merge(all: &mut Vec<usize>, more: Vec<usize>) {
    for tag in more {
        if !all.contains(&tag) {
            all.push(tag);
        }
    }
}

/// Sends pieces through a body, packed in a way or not; none if it is not packed in that way.
fn body(
    table: &Arc<Table>,
    pieces: &[&[u8]],
    encoding: Option<&'static str>,
) -> Option<(Vec<u8>, Vec<usize>)> {
    let frames = pieces.iter();
    let frames = frames.map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece))));
    let frames: Vec<_> = frames.collect();
    let body = StreamBody::new(stream::iter(frames)).boxed_unsync();
    through(table, body, encoding)
}

fn through(
    table: &Arc<Table>,
    body: Body,
    encoding: Option<&'static str>,
) -> Option<(Vec<u8>, Vec<usize>)> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let told = found.clone();
    let tell = Box::new(move |tags| merge(&mut told.lock().unwrap(), tags));
    let mut headers = HeaderMap::new();
    if let Some(encoding) = encoding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    let out = block_on(async {
        let body = swapped::unpacked(&mut headers, body).unwrap();
        let body = swapped::replaced(&mut headers, body, table.clone(), tell).await;
        body.ok()?.collect().await.ok()
    })?;
    let out = out.to_bytes().to_vec();
    if let Some(length) = headers.get(header::CONTENT_LENGTH) {
        assert_eq!(length.to_str().unwrap(), out.len().to_string());
    }
    let found = found.lock().unwrap().clone();
    Some((out, found))
}

/// What comes packed is the same text; what says that it is and is not breaks off.
fn packed(table: &Arc<Table>, text: &[u8], wanted: &(Vec<u8>, Vec<usize>)) {
    let whole = Full::new(Bytes::copy_from_slice(text)).map_err(|never| match never {});
    let whole = through(table, whole.boxed_unsync(), None);
    assert_eq!(whole.as_ref(), Some(wanted));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut encoder, text).unwrap();
    let gzip = encoder.finish().unwrap();
    for pieces in cuts(&gzip).iter().skip(2) {
        assert_eq!(body(table, pieces, Some("gzip")).as_ref(), Some(wanted));
    }
    for encoding in ["gzip", "deflate"] {
        body(table, &[text], Some(encoding));
    }
}
