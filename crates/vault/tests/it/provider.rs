//! An OAuth provider that uses each refresh token once, and an MCP server that takes its tokens.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// What is known, and what was asked.
#[derive(Debug)]
pub(crate) struct Books {
    /// The refresh token that is good now.
    pub(crate) good: String,
    /// How many were given.
    pub(crate) given: usize,
    /// The token requests: their `authorization` header and their form.
    pub(crate) asked: Vec<(Option<String>, String)>,
    /// Answers that come first, instead of its own.
    pub(crate) instead: VecDeque<(u16, String)>,
    /// How long it takes.
    pub(crate) pause: Duration,
    /// The access token that the MCP server takes.
    pub(crate) taken: String,
    /// What the MCP server was called for.
    pub(crate) methods: Vec<String>,
    /// Answers of the MCP server that come first.
    pub(crate) refuse: VecDeque<(u16, String)>,
    /// Whether a refresh token stays.
    pub(crate) keeps: bool,
}

type Shared = Arc<Mutex<Books>>;

/// A running provider; it ends with this.
pub(crate) struct Provider {
    pub(crate) books: Shared,
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Provider {
    pub(crate) async fn start() -> Self {
        let books = Arc::new(Mutex::new(Books {
            good: "refresh-token-0".to_owned(),
            given: 0,
            asked: Vec::new(),
            instead: VecDeque::new(),
            pause: Duration::ZERO,
            taken: "access-token-0".to_owned(),
            methods: Vec::new(),
            refuse: VecDeque::new(),
            keeps: false,
        }));
        let router = Router::new()
            .route("/token", post(token))
            .route("/mcp", post(mcp))
            .with_state(books.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { books, url, task }
    }

    pub(crate) fn token(&self) -> String {
        format!("{}/token", self.url)
    }

    pub(crate) fn mcp(&self) -> String {
        format!("{}/mcp", self.url)
    }

    pub(crate) fn asked(&self) -> usize {
        self.books.lock().unwrap().asked.len()
    }

    pub(crate) fn instead(&self, status: u16, body: &str) {
        let mut books = self.books.lock().unwrap();
        books.instead.push_back((status, body.to_owned()));
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn answer(status: u16, body: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    (status, [("content-type", "application/json")], body).into_response()
}

async fn token(State(books): State<Shared>, headers: HeaderMap, body: String) -> Response {
    let pause = books.lock().unwrap().pause;
    tokio::time::sleep(pause).await;
    let mut books = books.lock().unwrap();
    let header = headers.get("authorization");
    let header = header.map(|value| value.to_str().unwrap().to_owned());
    books.asked.push((header, body.clone()));
    if let Some((status, body)) = books.instead.pop_front() {
        return answer(status, body);
    }
    let sent = body
        .split('&')
        .find_map(|pair| pair.strip_prefix("refresh_token="));
    if sent != Some(books.good.as_str()) {
        return answer(400, json!({"error": "invalid_grant"}).to_string());
    }
    books.given += 1;
    let number = books.given;
    books.taken = format!("access-token-{number}");
    let mut given = json!({
        "access_token": books.taken, "token_type": "Bearer", "expires_in": 3600,
    });
    if !books.keeps {
        books.good = format!("refresh-token-{number}");
        given["refresh_token"] = books.good.clone().into();
    }
    answer(200, given.to_string())
}

async fn mcp(State(books): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let mut books = books.lock().unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let method = message["method"].as_str().unwrap().to_owned();
    books.methods.push(method.clone());
    if let Some((status, body)) = books.refuse.pop_front() {
        return answer(status, body);
    }
    let good = format!("Bearer {}", books.taken);
    if headers
        .get("authorization")
        .is_none_or(|found| *found != good)
    {
        let sent = headers
            .get("authorization")
            .map(|found| found.to_str().unwrap().to_owned());
        return answer(401, json!({"you_sent": sent}).to_string());
    }
    let session = headers.get("mcp-session-id").is_some();
    if session != (method != "initialize") {
        return answer(404, "no session".to_owned());
    }
    let mut response = answer(
        200,
        json!({"jsonrpc": "2.0", "id": message["id"]}).to_string(),
    );
    response
        .headers_mut()
        .insert("mcp-session-id", "s-1".parse().unwrap());
    response
}
