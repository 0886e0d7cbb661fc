//! The list of models, with the one that is built in.

use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, stream};
use http::{HeaderMap, Request, header};
use outlast_model::{
    Scripted,
    upstream::{Forwarded, Part},
};
use outlast_protocol::{ErrorCode, Problem};
use serde_json::Value;

use super::Front;

/// The longest list that is read, in bytes.
const LIST: usize = 8 * 1024 * 1024;

/// Adds the scripted model behind the last model of a list; any other answer stays as it is.
pub(super) async fn with_scripted(
    mut forwarded: Forwarded,
    front: &Front,
    headers: HeaderMap,
) -> Result<Forwarded, Problem> {
    if !forwarded.status.is_success() {
        return Ok(forwarded);
    }
    let mut bytes = whole(&mut forwarded).await?;
    if let Ok(mut list) = serde_json::from_slice::<Value>(&bytes)
        && add(&mut list, front, headers).await.is_some()
    {
        bytes = list.to_string().into();
        forwarded.headers.remove(header::CONTENT_ENCODING);
    }
    forwarded.body = stream::iter([Ok(bytes)]).boxed();
    Ok(forwarded)
}

/// Adds it in the form of the version that the caller speaks.
async fn add(list: &mut Value, front: &Front, headers: HeaderMap) -> Option<()> {
    let more = list.get("has_more").and_then(Value::as_bool);
    if more == Some(true) || list.get("next_page").is_some_and(Value::is_string) {
        return None;
    }
    let data = list.get_mut("data")?.as_array_mut()?;
    if data
        .iter()
        .any(|model| model.get("id") == Some(&Scripted::ID.into()))
    {
        return None;
    }
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.headers = headers;
    let part = Part::Model(Scripted::ID.to_owned());
    let mut scripted = front.scripted(&part, parts, Bytes::new()).await;
    let scripted = whole(&mut scripted).await.ok()?;
    let scripted: Value = serde_json::from_slice(&scripted).ok()?;
    data.push(scripted);
    if let Some(last) = list.get_mut("last_id") {
        *last = Scripted::ID.into();
    }
    Some(())
}

async fn whole(forwarded: &mut Forwarded) -> Result<Bytes, Problem> {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = forwarded.body.next().await {
        let chunk = chunk.map_err(|words| Problem::new(ErrorCode::Unavailable, words))?;
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LIST {
            let words = "the model's provider lists more models than can be read";
            return Err(Problem::new(ErrorCode::Unavailable, words));
        }
    }
    Ok(bytes.freeze())
}
