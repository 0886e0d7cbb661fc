//! From a brain's place: with the token of a lease that stands, and with all that it could read.

use std::collections::BTreeSet;

use outlast_kernel::Asker;
use reqwest::{Client as Http, Method, RequestBuilder, StatusCode};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::routes::{DOOR, filled, paths};
use crate::support::{Does as _, TestServer, bash, message, of, script, until};

/// A brain that was taken over, in the middle of a turn.
struct Brain {
    /// Gone before the server, which waits for its connections.
    http: Http,
    server: TestServer,
    session: String,
    /// Another session, which is none of its business.
    other: String,
    token: String,
}

/// A turn that goes on until it is interrupted, after it has looked around.
fn turn() -> Value {
    script(json!([bash("env; cat /proc/self/environ"), bash("sleep 600"), {"text": "over"}]))
}

impl Brain {
    async fn new() -> Self {
        let server = TestServer::start().await;
        let client = server.client();
        let other = client.session("scripted").await;
        server.play(&other, &[message("another's words")], 1).await;
        let session = client.session(TestServer::UPSTREAM).await;
        let http = Http::builder().no_proxy().build().unwrap();
        let token = token(&server, &session, 0, 1);
        let brain = Self {
            server,
            http,
            session,
            other,
            token,
        };
        brain.begin(2).await;
        brain
    }

    /// Begins a turn, and waits until so many calls have begun.
    async fn begin(&self, calls: usize) {
        let client = self.server.client();
        client.send(&self.session, &[turn()]).await;
        until("the calls to begin", async || {
            let events = client.events(&self.session).await;
            (of(&events, "agent.tool_use").len() >= calls).then_some(())
        })
        .await;
    }

    /// Ends the turn.
    async fn interrupt(&self, turns: usize) {
        let client = self.server.client();
        let interrupt = json!({"type": "user.interrupt"});
        client.send(&self.session, &[interrupt]).await;
        client.idle(&self.session, turns).await;
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.server.server().url());
        self.http.request(method, url)
    }

    /// Asks the one door that a token opens; counting is what leaves nothing in a log.
    async fn knock(&self, token: &str) -> StatusCode {
        let body = json!({"model": "scripted", "messages": [{"role": "user", "content": "hi"}]});
        let asked = self
            .request(Method::POST, &format!("{DOOR}/v1/messages/count_tokens"))
            .header("authorization", format!("Bearer {token}"))
            .json(&body);
        let answer = asked.send().await.unwrap();
        let status = answer.status();
        self.server.note(answer.text().await.unwrap());
        status
    }

    /// Shows a token in every way that a key is shown.
    async fn shows(&self, method: Method, path: &str, token: &str) -> StatusCode {
        let asked = self
            .request(method, path)
            .header("authorization", format!("Bearer {token}"))
            .header("x-api-key", token)
            .json(&json!({}));
        let answer = asked.send().await.unwrap();
        let status = answer.status();
        self.server.note(answer.text().await.unwrap());
        status
    }

    /// Returns what an operator sees of everything that could have been changed.
    async fn state(&self) -> Vec<Value> {
        let client = self.server.client();
        let mut state = Vec::new();
        for path in ["agents", "environments", "files", "sessions", "vaults"] {
            let mut shown = client.get(&format!("/v1/{path}"), &[]).await.unwrap();
            for one in shown["data"].as_array_mut().into_iter().flatten() {
                // What only goes on with time.
                for name in ["stats", "usage"] {
                    one.as_object_mut().unwrap().remove(name);
                }
            }
            state.push(shown);
        }
        for path in ["keys", "vault", "audit"] {
            let shown = client.get(&format!("/outlast/v1/{path}"), &[]).await;
            state.push(shown.unwrap());
        }
        state.push(Value::from(client.events(&self.other).await));
        state
    }
}

fn token(server: &TestServer, session: &str, thread: u32, epoch: u64) -> String {
    let asker = Asker {
        session: session.parse().unwrap(),
        thread,
        epoch,
    };
    let token = server.server().kernel().brain_token(asker);
    token.expose_secret().to_owned()
}

/// Returns the ids that paths name, of what is really there.
async fn ids(brain: &Brain, session: &str) -> Vec<(&'static str, String)> {
    let client = brain.server.client();
    let first = async |path: &str| {
        let found = client.get(path, &[]).await.unwrap();
        found["data"][0]["id"].as_str().unwrap_or("x").to_owned()
    };
    let vault = first("/v1/vaults").await;
    let credential = first(&format!("/v1/vaults/{vault}/credentials")).await;
    vec![
        ("session", session.to_owned()),
        ("agent", first("/v1/agents").await),
        ("environment", first("/v1/environments").await),
        ("credential", credential),
        ("vault", vault),
        (
            "thread",
            first(&format!("/v1/sessions/{session}/threads")).await,
        ),
        ("key", first("/outlast/v1/keys").await),
        ("model", "scripted".to_owned()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brains_token_opens_no_path_of_the_api() {
    let brain = Brain::new().await;
    assert_eq!(brain.knock(&brain.token).await, 200, "it is a good one");
    let before = brain.state().await;
    let mut open = Vec::new();
    for session in [&brain.session, &brain.other] {
        let ids = ids(&brain, session).await;
        for path in paths() {
            let path = filled(&path, &ids);
            for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] {
                let method: Method = method.parse().unwrap();
                let is_door = path.starts_with(DOOR);
                if is_door && method == Method::POST {
                    continue;
                }
                let status = brain.shows(method.clone(), &path, &brain.token).await;
                // With another method the door is no door.
                let refused = match is_door {
                    true => vec![401, 403, 405],
                    false => vec![401, 403],
                };
                if !refused.contains(&status.as_u16()) {
                    open.push(format!("{method} {path}: {status}"));
                }
            }
        }
    }
    assert!(open.is_empty(), "not refused: {open:#?}");
    assert_eq!(brain.state().await, before, "nothing was changed");
    brain.interrupt(1).await;
}

/// Says exactly these bytes; returns the status.
async fn said(brain: &Brain, head: &str) -> u16 {
    let address = brain.server.server().address();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = format!("{head}\r\nconnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    let text = String::from_utf8_lossy(&answer);
    brain.server.note(&text);
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    assert!(status.is_some(), "{head}: {text}");
    status.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brains_token_shown_in_odd_ways_opens_nothing() {
    let brain = Brain::new().await;
    let token = &brain.token;
    let bearer = format!("host: x\r\nauthorization: Bearer {token}");
    let basic = {
        use base64::{Engine as _, prelude::BASE64_STANDARD};
        BASE64_STANDARD.encode(format!("x:{token}"))
    };
    for head in [
        format!(
            "GET /v1/sessions?x-api-key={token}&api_key={token}&token={token} HTTP/1.1\r\nhost: x"
        ),
        format!("GET /v1/sessions HTTP/1.1\r\nhost: x\r\nauthorization: {token}"),
        format!("GET /v1/sessions HTTP/1.1\r\nhost: x\r\nauthorization: Basic {basic}"),
        format!("GET /v1/sessions HTTP/1.1\r\nhost: x\r\ncookie: x-api-key={token}"),
        format!("GET /v1/sessions HTTP/1.1\r\n{bearer}\r\nx-forwarded-for: 127.0.0.1"),
        format!(
            "GET /metrics HTTP/1.1\r\n{bearer}\r\nx-original-url: /healthz\r\nx-rewrite-url: /readyz"
        ),
        format!("GET //v1/sessions HTTP/1.1\r\n{bearer}"),
        format!("GET /v1//sessions HTTP/1.1\r\n{bearer}"),
        format!("GET /V1/SESSIONS HTTP/1.1\r\n{bearer}"),
        format!("GET /v1/sessions/ HTTP/1.1\r\n{bearer}"),
        format!("GET /%76%31/sessions HTTP/1.1\r\n{bearer}"),
        format!("GET {DOOR}/../../../v1/sessions HTTP/1.1\r\n{bearer}"),
        format!("GET {DOOR}/%2e%2e/%2e%2e/%2e%2e/v1/sessions HTTP/1.1\r\n{bearer}"),
        format!("GET {DOOR}/v1/sessions HTTP/1.1\r\n{bearer}"),
        format!("GET {DOOR}/v1/models HTTP/1.1\r\n{bearer}"),
        format!("POST {DOOR}/v1/sessions HTTP/1.1\r\n{bearer}\r\ncontent-length: 0"),
        format!("GET http://127.0.0.1/v1/sessions HTTP/1.1\r\n{bearer}"),
        format!("OPTIONS /v1/sessions HTTP/1.1\r\n{bearer}"),
        format!("TRACE /v1/sessions HTTP/1.1\r\n{bearer}"),
        format!(
            "POST /v1/sessions HTTP/1.1\r\n{bearer}\r\nx-http-method-override: GET\r\ncontent-length: 0"
        ),
    ] {
        let status = said(&brain, &head).await;
        assert!([400, 401, 403].contains(&status), "{head}: {status}");
    }
    brain.interrupt(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_of_one_session_thread_and_epoch() {
    let brain = Brain::new().await;
    let (server, session) = (&brain.server, brain.session.as_str());
    assert_eq!(brain.knock(&brain.token).await, 200);
    // Made by the server itself, of what has no lease now.
    for (session, thread, epoch) in [
        (brain.other.as_str(), 0, 1),
        (session, 1, 1),
        (session, 0, 0),
        (session, 0, 2),
        ("sesn_010000000000000000000001", 0, 1),
    ] {
        let token = token(server, session, thread, epoch);
        let status = brain.knock(&token).await;
        assert_eq!(status, 403, "{session} {thread} {epoch}");
    }
    // Made up of a good one.
    for forged in [
        brain.token.replace(session, &brain.other),
        brain.token.replacen(".0.1.", ".1.1.", 1),
        brain.token.replacen(".0.1.", ".0.2.", 1),
        brain.token.replacen(".0.1.", ".00.1.", 1),
        brain.token.replacen(".0.1.", ".+0.1.", 1),
    ] {
        assert_ne!(forged, brain.token);
        assert_eq!(brain.knock(&forged).await, 401, "{forged}");
    }
    brain.interrupt(1).await;
    assert_eq!(brain.knock(&brain.token).await, 403, "its turn is over");
    brain.begin(4).await;
    assert_eq!(brain.knock(&brain.token).await, 403, "the epoch moved");
    let next = token(server, session, 0, 2);
    assert_eq!(brain.knock(&next).await, 200);
    brain.interrupt(2).await;
    let path = format!("/v1/sessions/{session}");
    server.client().delete(&path).await.unwrap();
    for token in [&brain.token, &next] {
        assert_eq!(brain.knock(token).await, 403, "the session is gone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rubbish_is_no_token() {
    let brain = Brain::new().await;
    let token = brain.token.as_bytes();
    let mut rubbish: Vec<String> = (0..token.len())
        .map(|length| brain.token[..length].to_owned())
        .collect();
    for at in 0..token.len() {
        for bit in [1, 2, 0x20] {
            let mut other = token.to_vec();
            other[at] ^= bit;
            // Elsewhere it would be no header.
            if other[at].is_ascii_graphic() {
                rubbish.push(String::from_utf8(other).unwrap());
            }
        }
    }
    rubbish.extend(["x", "0", "."].map(|more| format!("{}{more}", brain.token)));
    rubbish.push(format!("{0}{0}", brain.token));
    rubbish.push(brain.token.replace("outlast_brain_", "outlast_"));
    rubbish.push("x".repeat(8_000));
    for token in rubbish {
        assert_eq!(brain.knock(&token).await, 401, "{token}");
    }
    assert_eq!(brain.knock(&brain.token).await, 200);
    brain.interrupt(1).await;
}

/// Returns everything in a text that could be a key.
fn words(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let words = text.split(|c| !is_part(c));
    words.filter(|word| word.len() >= 16).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_brain_can_read_opens_anything() {
    let brain = Brain::new().await;
    let client = brain.server.client();
    let mut read = Value::from(client.events(&brain.session).await).to_string();
    for asked in brain.server.captured() {
        read.push_str(&String::from_utf8_lossy(&asked.body));
    }
    let words = words(&read);
    let placeholders = words
        .iter()
        .filter(|word| word.starts_with("outlast_placeholder_"));
    assert!(placeholders.count() > 0, "{words:?}");
    for word in words {
        for path in ["/v1/sessions", "/outlast/v1/keys"] {
            let status = brain.shows(Method::GET, path, word).await;
            assert_eq!(status, 401, "{word} at {path}");
        }
        assert_eq!(brain.knock(word).await, 401, "{word}");
    }
    brain.interrupt(1).await;
}
