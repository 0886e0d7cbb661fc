//! One request to a token endpoint.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use outlast_protocol::Micros;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::{
    ClientAuth, Refresh, Secret,
    outside::{Outside, Reply, Unanswered, Wanted},
};

/// Longer than any access token lives: a century is somebody's mistake.
const LONGEST: u64 = 10 * 366 * 86_400;

/// What a token endpoint gave.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) access_token: Secret,
    pub(crate) expires_at: Option<Micros>,
    /// Another refresh token, where they are used once.
    pub(crate) refresh_token: Option<Secret>,
}

/// What a token endpoint gave instead.
#[derive(Debug)]
pub(crate) enum Denied {
    /// The grant is gone, or the client is not known there.
    Refused(Reply),
    /// Nobody can tell: it failed, or asks to come later.
    Unsure(Reply),
    /// There was no answer.
    Unanswered(Unanswered),
}

/// An answer of RFC 6749; what else is in it does not matter.
#[derive(Deserialize)]
struct Answer {
    access_token: Option<Secret>,
    refresh_token: Option<Secret>,
    #[serde(default)]
    expires_in: Seconds,
    error: Option<serde::de::IgnoredAny>,
}

/// Seconds as a number, or as a text, as some servers write them.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(f64),
    Text(String),
    #[default]
    None,
}

/// Asks for the next access token.
pub(crate) async fn ask(
    outside: &Outside,
    refresh: &Refresh,
    now: Micros,
) -> Result<Granted, Denied> {
    let form = form(refresh);
    let make = |request: reqwest::RequestBuilder| {
        let request = request
            .header(ACCEPT, "application/json")
            .header("content-type", "application/x-www-form-urlencoded");
        let request = match basic(refresh) {
            Some(value) => request.header(AUTHORIZATION, value),
            None => request,
        };
        request.body(form.as_bytes().to_vec())
    };
    let sent = outside.post(&refresh.token_endpoint, Wanted::Body, make);
    let reply = sent.await.map_err(Denied::Unanswered)?;
    read(reply, now)
}

/// Returns the fields of the request.
fn form(refresh: &Refresh) -> Zeroizing<String> {
    let mut form = form_urlencoded::Serializer::new(String::with_capacity(16_384));
    form.append_pair("grant_type", "refresh_token");
    form.append_pair("refresh_token", refresh.refresh_token.expose());
    match &refresh.auth {
        ClientAuth::Basic(_) => {}
        ClientAuth::None => {
            form.append_pair("client_id", &refresh.client_id);
        }
        ClientAuth::Post(secret) => {
            form.append_pair("client_id", &refresh.client_id);
            form.append_pair("client_secret", secret.expose());
        }
    }
    for (name, value) in [("scope", &refresh.scope), ("resource", &refresh.resource)] {
        if let Some(value) = value {
            form.append_pair(name, value);
        }
    }
    Zeroizing::new(form.finish())
}

/// Returns the header of a client that says who it is by Basic authentication: both halves are encoded
/// as a form encodes them.
fn basic(refresh: &Refresh) -> Option<HeaderValue> {
    let ClientAuth::Basic(secret) = &refresh.auth else {
        return None;
    };
    let coded = |text: &str| {
        let coded = form_urlencoded::byte_serialize(text.as_bytes());
        Zeroizing::new(coded.collect::<String>())
    };
    let (id, secret) = (coded(&refresh.client_id), coded(secret.expose()));
    let pair = Zeroizing::new(format!("{}:{}", *id, *secret));
    let line = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
    let mut value = HeaderValue::from_str(&line).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn read(reply: Reply, now: Micros) -> Result<Granted, Denied> {
    let answer: Option<Answer> = serde_json::from_slice(&reply.body).ok();
    match (reply.status, answer) {
        (
            200..300,
            Some(Answer {
                access_token: Some(access_token),
                refresh_token,
                expires_in,
                error: None,
            }),
        ) => Ok(Granted {
            access_token,
            expires_at: expires_in.end(now),
            refresh_token: refresh_token.filter(|token| !token.expose().is_empty()),
        }),
        // Some say no with a good status.
        (200..300, Some(Answer { error: Some(_), .. })) => Err(Denied::Refused(reply)),
        (408 | 425 | 429, _) => Err(Denied::Unsure(reply)),
        (400..500, _) => Err(Denied::Refused(reply)),
        _ => Err(Denied::Unsure(reply)),
    }
}

impl Seconds {
    fn end(self, now: Micros) -> Option<Micros> {
        let seconds = match self {
            Self::Number(number) => number,
            Self::Text(text) => text.trim().parse().ok()?,
            Self::None => return None,
        };
        let seconds = Duration::try_from_secs_f64(seconds).ok()?;
        Some(now.after(seconds.min(Duration::from_secs(LONGEST))))
    }
}
