//! Requests of a sandbox, as the library of HTTP reads them.

use std::{
    cell::RefCell,
    convert::Infallible,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use futures::executor::block_on;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use url::Url;

use crate::{
    hand::{
        body::Body,
        framing::{Doubt, watched},
        hop,
        options::{BUFFER, HEAD_BYTES, HEAD_LINES},
        place::{self, HTTP, HTTPS, Place},
    },
    pieces::{Wire, cuts},
};

/// What was served of a connection.
#[derive(Default)]
struct Served {
    /// Requests, and whether it was in doubt by then how they are framed.
    requests: Vec<(Method, Uri, bool)>,
    /// How much was read when the last one was over.
    over: usize,
    /// Whether a head had both a length and chunks, or another coding.
    both: bool,
}

/// Serves a connection. Byte by byte it is known where each head ends: one that can be read in two ways is
/// always in doubt, and no other ever is. In larger pieces nothing else is served before that.
pub fn requests(data: &[u8]) {
    let mut ways = cuts(data).into_iter();
    let whole = ways.next().unwrap_or_default();
    let bytes = ways.next().unwrap_or_default();
    let alone = serve(data, &bytes, true);
    for pieces in ways.chain([whole]) {
        let served = serve(data, &pieces, false);
        let clear = served.requests.iter().take_while(|(.., doubt)| !doubt);
        for (one, other) in clear.zip(&alone.requests) {
            assert_eq!(one, other);
        }
    }
}

fn serve(data: &[u8], pieces: &[&[u8]], alone: bool) -> Served {
    let served = Rc::new(RefCell::new(Served::default()));
    let doubt = Doubt::default();
    let (wire, read) = Wire::new(pieces);
    let stream = watched(wire, doubt.clone());
    let service = service_fn(|request: Request<Incoming>| {
        let doubt = doubt.is_there();
        if alone {
            head(&mut served.borrow_mut(), data, read.load(SeqCst), doubt);
        }
        answer(served.clone(), read.clone(), request, doubt)
    });
    let connection = http1::Builder::new()
        .half_close(true)
        .preserve_header_case(true)
        .auto_date_header(false)
        .max_headers(HEAD_LINES)
        .max_header_size(HEAD_BYTES)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    // What is no HTTP breaks off.
    drop(block_on(connection));
    served.take()
}

/// Compares what is known of a head that was just read with what is said of it.
fn head(served: &mut Served, data: &[u8], end: usize, doubt: bool) {
    let head = &data[served.over..end];
    let names: Vec<&[u8]> = head
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b':').next())
        .collect();
    let has = |name: &str| {
        let mut names = names.iter();
        names.any(|other| other.eq_ignore_ascii_case(name.as_bytes()))
    };
    let coded = head.split(|byte| *byte == b'\n').any(|line| {
        let name = b"transfer-encoding:";
        let value = line.get(name.len()..).unwrap_or_default().trim_ascii();
        line.len() >= name.len()
            && line[..name.len()].eq_ignore_ascii_case(name)
            && !value.eq_ignore_ascii_case(b"chunked")
    });
    served.both |= coded || has("content-length") && has("transfer-encoding");
    let text = String::from_utf8_lossy(head);
    assert_eq!(doubt, served.both, "{text:?}");
    served.over = end;
}

async fn answer(
    served: Rc<RefCell<Served>>,
    read: Arc<AtomicUsize>,
    request: Request<Incoming>,
    doubt: bool,
) -> Result<Response<Body>, Infallible> {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    served.borrow_mut().requests.push((method, uri, doubt));
    let proxied = place::of_proxied(&request);
    let tunnel = place::of_tunnel(&request);
    if let Ok(place) = &proxied {
        agreed(&request, place);
    }
    if let Ok(place) = &tunnel {
        assert!(request.uri().scheme().is_none());
        assert!(
            place::within(&request, place, HTTPS).is_ok()
                || !request.headers().contains_key(header::HOST)
        );
    }
    stripped(request.headers().clone());
    // Whoever waits to be told to send is told.
    if request.into_body().collect().await.is_ok() {
        served.borrow_mut().over = read.load(SeqCst);
    }
    let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = match (proxied, tunnel) {
        (Err(_), Err(_)) => StatusCode::BAD_REQUEST,
        _ => StatusCode::FORBIDDEN,
    };
    Ok(response)
}

/// Where a request goes is where its URL leads for everybody else who reads it, and what is written of it
/// is read as the same place.
fn agreed<B>(request: &Request<B>, place: &Place) {
    let text = request.uri().to_string();
    if let Ok(url) = Url::parse(&text) {
        let host = url.host_str().unwrap().parse();
        assert_eq!(host.as_ref(), Ok(&place.host), "{text}");
        assert_eq!(url.port_or_known_default(), Some(place.port), "{text}");
    }
    let authority = place.authority(HTTP);
    let again = Request::builder()
        .uri(format!("http://{authority}/"))
        .header(header::HOST, &authority)
        .body(())
        .unwrap();
    assert_eq!(place::of_proxied(&again).as_ref(), Ok(place), "{text}");
    let path = place::path(request.uri());
    assert!(
        path.authority().is_none() && path.path().starts_with(['/', '*']),
        "{path}"
    );
}

/// What belongs to the connection is gone, and what says where the request goes and ends is not.
fn stripped(before: HeaderMap) {
    let mut after = before.clone();
    let upgrade = hop::strip(&mut after);
    assert_eq!(after.contains_key(header::UPGRADE), upgrade.is_some());
    assert!(!after.contains_key(header::TRANSFER_ENCODING));
    assert!(!after.contains_key(header::PROXY_AUTHORIZATION));
    for name in [header::HOST, header::CONTENT_LENGTH, header::CONTENT_TYPE] {
        let of = |headers: &HeaderMap| headers.get_all(&name).iter().cloned().collect::<Vec<_>>();
        assert_eq!(of(&before), of(&after));
    }
    let once = after.clone();
    assert_eq!(hop::strip(&mut after), upgrade);
    assert_eq!(once, after);
}
