//! One request on its way, and its response on the way back.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header, request, response};
use hyper::body::{Body as _, Incoming};

use super::{
    answer::Answer,
    body::{self, Body},
    client::Client,
    hop,
    place::{self, Place},
    swapped, upgraded,
    upstream::{Tls, Upstream},
    worn::Worn,
};
use crate::metric_definitions as metrics;

/// Sends a request to where it goes and returns what comes back.
///
/// # Errors
///
/// The answer, if nothing came back.
pub(crate) async fn forward(
    client: &Client,
    mut request: Request<Incoming>,
    place: &Place,
) -> Result<Response<Body>, Answer> {
    let opened = matches!(client.tls, Tls::Opened(_));
    let worn = client.hand.worn(place).await?;
    let way = if opened { "opened" } else { "plain" };
    ::metrics::counter!(metrics::REQUESTS_OUT, "way" => way).increment(1);
    let asked = hop::strip(request.headers_mut()).map(|_| hyper::upgrade::on(&mut request));
    let (mut parts, body) = request.into_parts();
    address(&mut parts, place, client.tls.port())?;
    frame(&mut parts.headers, &body);
    let mut body = body::through(body);
    // Nothing is put into what everybody can read, but what comes back is looked through there too.
    if opened {
        body = dress(client, place, &worn, &mut parts, body).await?;
    }
    let worn = (!worn.sweep.is_empty()).then_some(worn);
    if worn.is_some() {
        Worn::readable(&mut parts.headers);
    }
    let mut response = send(client, place, Request::from_parts(parts, body)).await?;
    let upgrade = hop::strip(response.headers_mut());
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let (Some(asked), Some(_)) = (asked, upgrade) else {
            let words = "the host changes to a protocol that nobody asked for";
            return Err(Answer::upstream(words));
        };
        let theirs = hyper::upgrade::on(&mut response);
        let sweep = worn.as_ref().map(|worn| worn.sweep.clone());
        upgraded::join(client, asked, theirs, sweep);
        client.upstream.lock().await.take();
    }
    let (mut parts, body) = response.into_parts();
    let body = body::through(body);
    let body = match worn {
        Some(worn) => sweep(&worn, &mut parts, body).await?,
        None => body,
    };
    Ok(Response::from_parts(parts, body))
}

/// Writes where a request goes as the host itself is asked.
fn address(parts: &mut request::Parts, place: &Place, usual: u16) -> Result<(), Answer> {
    parts.uri = place::path(&parts.uri);
    let authority = HeaderValue::try_from(place.authority(usual));
    let authority =
        authority.map_err(|_| Answer::bad("the host cannot be written into a request"))?;
    parts.headers.insert(header::HOST, authority);
    Ok(())
}

/// Keeps the chunks of a body whose length is not known, whatever the method.
fn frame(headers: &mut HeaderMap, body: &Incoming) {
    if !body.is_end_stream() && !headers.contains_key(header::CONTENT_LENGTH) {
        let chunked = HeaderValue::from_static("chunked");
        headers.insert(header::TRANSFER_ENCODING, chunked);
    }
}

/// Puts credentials into a request, in the places that were declared.
async fn dress(
    client: &Client,
    place: &Place,
    worn: &Arc<Worn>,
    parts: &mut request::Parts,
    body: Body,
) -> Result<Body, Answer> {
    let tell = {
        let (hand, place, worn) = (client.hand.clone(), place.clone(), worn.clone());
        move |tags: Vec<usize>| {
            for tag in tags {
                hand.allowed(&place, "credential", Some(worn.credential(tag)));
            }
        }
    };
    tell(worn.dress(&parts.uri, &mut parts.headers)?);
    let Some(table) = worn.body(&parts.headers) else {
        return Ok(body);
    };
    let replaced = swapped::replaced(&mut parts.headers, body, table, Box::new(tell)).await;
    let body = replaced.map_err(|error| Answer::bad(format!("the request's body: {error}")))?;
    if !body.is_end_stream() && !parts.headers.contains_key(header::CONTENT_LENGTH) {
        let chunked = HeaderValue::from_static("chunked");
        parts.headers.insert(header::TRANSFER_ENCODING, chunked);
    }
    Ok(body)
}

/// Takes secrets out of a response.
async fn sweep(worn: &Worn, parts: &mut response::Parts, body: Body) -> Result<Body, Answer> {
    // The reason phrase is there too, and it is the host's own words.
    parts.extensions.clear();
    let swept = || ::metrics::counter!(metrics::SWEPT).increment(1);
    if worn.sweep_headers(&mut parts.headers) {
        swept();
    }
    let unpacked = swapped::unpacked(&mut parts.headers, body).map_err(|encoding| {
        Answer::upstream(format!(
            "the host answers with `content-encoding: {encoding}`, although `identity` was asked for; \
             it cannot be looked through for secrets"
        ))
    })?;
    let found = Box::new(move |_| swept());
    let swept = swapped::replaced(&mut parts.headers, unpacked, worn.sweep.clone(), found).await;
    swept.map_err(|error| Answer::upstream(format!("the response's body: {error}")))
}

async fn send(
    client: &Client,
    place: &Place,
    request: Request<Body>,
) -> Result<Response<Incoming>, Answer> {
    let mut upstream = client.upstream.lock().await;
    let upstream = match &mut *upstream {
        Some(upstream) if upstream.leads_to(place) => upstream,
        other => other.insert(Upstream::new(
            client.hand.clone(),
            place.clone(),
            client.tls.clone(),
            None,
        )),
    };
    upstream.send(request).await
}
