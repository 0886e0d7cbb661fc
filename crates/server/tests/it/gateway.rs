//! The Messages API of the server itself: for clients with a key, for brains with a token.

use std::time::Duration;

use outlast_kernel::Asker;
use reqwest::{Method, RequestBuilder, Response};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use crate::support::{Does as _, TestServer};

/// Asks the server as any program does.
fn ask(server: &TestServer, method: Method, path: &str) -> RequestBuilder {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = http.request(method, format!("{}{path}", server.server().url()));
    request
        .header("x-api-key", server.key())
        .header("anthropic-version", "2023-06-01")
}

fn body(model: &str, text: &str, stream: bool) -> Value {
    json!({
        "model": model, "max_tokens": 100, "stream": stream,
        "messages": [{"role": "user", "content": text}],
    })
}

fn says(text: &str) -> String {
    json!({"script": [{"text": text}]}).to_string()
}

async fn json_of(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    (status, response.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_moves_its_address_keeps_both_apis() {
    let server = TestServer::start().await;
    for model in [TestServer::UPSTREAM, "scripted"] {
        let plain = body(model, &says("Hello."), false);
        let sent = ask(&server, Method::POST, "/v1/messages").json(&plain);
        let answer = sent.send().await.unwrap();
        let id = answer.headers()["request-id"].to_str().unwrap().to_owned();
        assert!(id.starts_with("req_scripted_"), "the provider's own: {id}");
        let own = answer.headers()["outlast-request-id"].to_str().unwrap();
        assert!(own.starts_with("req_01"), "{own}");
        let (status, message) = json_of(answer).await;
        assert_eq!(status, 200, "{message}");
        assert_eq!(message["content"][0]["text"], "Hello.");
        let sent = ask(&server, Method::POST, "/v1/messages/count_tokens").json(&plain);
        let (status, counted) = json_of(sent.send().await.unwrap()).await;
        assert_eq!(status, 200, "{counted}");
        assert!(counted["input_tokens"].as_u64().unwrap() > 0);
        let streamed = body(model, &says("Hello."), true);
        let sent = ask(&server, Method::POST, "/v1/messages").json(&streamed);
        let answer = sent.send().await.unwrap();
        let kind = answer.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        assert!(kind.starts_with("text/event-stream"), "{kind}");
        let text = answer.text().await.unwrap();
        server.note(&text);
        assert!(text.starts_with("event: message_start\n") && text.contains("message_stop"));
    }
    // Each of them but for the scripted ones, with the server's key and without the client's.
    assert_eq!(server.asked(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_and_betas_pass_as_they_are() {
    let server = TestServer::start().await;
    let text = says("Hi.").replace('"', "\\\"");
    // Odd, and not how any serializer would write it.
    let odd = format!(
        "{{ \"model\":\"{}\",\"max_tokens\":100,\n \"future_key\": [1.0, 1e2, \"\\u00e4\"], \
         \"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]}}",
        TestServer::UPSTREAM
    );
    let sent = ask(&server, Method::POST, "/v1/messages?beta=true")
        .header("anthropic-beta", "one-1,two-2")
        .header("anthropic-beta", "three-3")
        .header("authorization", format!("Bearer {}", server.key()))
        .header("cookie", "a=b")
        .header("content-type", "application/json")
        .body(odd.clone());
    let (_, answer) = json_of(sent.send().await.unwrap()).await;
    let captured = server.captured();
    let [asked] = &captured[..] else {
        panic!("{answer}: {captured:?}");
    };
    assert_eq!(asked.body, odd.as_bytes());
    assert_eq!(asked.path, "/v1/messages?beta=true");
    let betas: Vec<_> = asked.headers.get_all("anthropic-beta").iter().collect();
    assert_eq!(betas, ["one-1,two-2", "three-3"]);
    for name in ["authorization", "cookie"] {
        assert!(!asked.headers.contains_key(name), "{name}");
    }
    let all = format!("{:?}", asked.headers);
    assert!(!all.contains(server.key()), "the client's key stays here");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_the_form_of_the_api() {
    let server = TestServer::start().await;
    let refused = async |request: RequestBuilder| {
        let (status, body) = json_of(request.send().await.unwrap()).await;
        server.note(&body);
        assert_eq!(body["type"], "error", "{body}");
        assert!(body["request_id"].is_string(), "{body}");
        (status, body["error"]["type"].as_str().unwrap().to_owned())
    };
    let messages = || ask(&server, Method::POST, "/v1/messages");
    let invalid = "invalid_request_error".to_owned();
    assert_eq!(refused(messages().body("{")).await, (400, invalid.clone()));
    assert_eq!(
        refused(messages().json(&json!({}))).await,
        (400, invalid.clone())
    );
    // This one is the provider's own.
    let wanting = json!({"model": TestServer::UPSTREAM, "max_tokens": 10});
    assert_eq!(refused(messages().json(&wanting)).await, (400, invalid));
    let unknown = ask(&server, Method::GET, "/v1/models/nothing");
    assert_eq!(refused(unknown).await, (404, "not_found_error".to_owned()));
    let elsewhere = ask(&server, Method::GET, "/v1/models/..%2f..%2fsecret");
    assert_eq!(refused(elsewhere).await.0, 404);
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let without = http.post(format!("{}/v1/messages", server.server().url()));
    assert_eq!(refused(without.json(&wanting)).await.0, 401);
    let large = format!("{{\"model\":\"{}\"", "x".repeat(33 << 20));
    let large = refused(messages().body(large)).await;
    assert_eq!(large, (413, "request_too_large".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_thirty_megabytes_passes() {
    let server = TestServer::start().await;
    let text = says("Read.");
    let filler = "x".repeat(30 << 20);
    let large = json!({
        "model": TestServer::UPSTREAM, "max_tokens": 100, "system": filler,
        "messages": [{"role": "user", "content": text}],
    });
    let large = large.to_string();
    let sent = ask(&server, Method::POST, "/v1/messages").body(large.clone());
    sent.send().await.unwrap();
    let captured = server.captured();
    // Not compared by a macro, which would print them.
    assert!(captured.len() == 1 && captured[0].body == large.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_those_of_the_provider_and_the_scripted_one() {
    let server = TestServer::start().await;
    let (_, list) = json_of(
        ask(&server, Method::GET, "/v1/models")
            .send()
            .await
            .unwrap(),
    )
    .await;
    let data = list["data"].as_array().unwrap();
    assert_eq!(data.len(), 1, "the provider's is the scripted one: {list}");
    let one = ask(&server, Method::GET, "/v1/models/scripted");
    let (status, one) = json_of(one.send().await.unwrap()).await;
    assert_eq!((status, &one["id"]), (200, &json!("scripted")));
    let alone = TestServer::start_with(|config| {
        config.upstream.base_url = None;
        config.upstream.api_key = None;
    })
    .await;
    let (_, list) = json_of(ask(&alone, Method::GET, "/v1/models").send().await.unwrap()).await;
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
    let nobody = ask(&alone, Method::POST, "/v1/messages").json(&body("claude-x", "hi", false));
    let (status, words) = json_of(nobody.send().await.unwrap()).await;
    assert_eq!(status, 404, "{words}");
    assert!(
        words["error"]["message"]
            .as_str()
            .unwrap()
            .contains("`scripted`")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_server_that_the_provider_does_not_take_is_no_fault_of_the_client() {
    let server = TestServer::start_with(|config| {
        config.upstream.api_key = Some("sk-wrong-0123456789".into());
    })
    .await;
    let sent = ask(&server, Method::POST, "/v1/messages").json(&body("m", "hi", false));
    let (status, words) = json_of(sent.send().await.unwrap()).await;
    assert_eq!(status, 503, "{words}");
    assert!(!words.to_string().contains("sk-wrong"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_key_asks_no_model() {
    let server = TestServer::start().await;
    let wanted = json!({"name": "reader", "scope": "read-only"});
    let made = server
        .client()
        .post("/outlast/v1/keys", &wanted)
        .await
        .unwrap();
    let with = |method, path: &str| {
        ask(&server, method, path)
            .header(
                "authorization",
                format!("Bearer {}", made["key"].as_str().unwrap()),
            )
            .header("x-api-key", "none")
    };
    let sent = with(Method::POST, "/v1/messages").json(&body("scripted", "hi", false));
    assert_eq!(sent.send().await.unwrap().status(), 403);
    let listed = with(Method::GET, "/v1/models").send().await.unwrap();
    assert_eq!(listed.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_brain_opens_one_door_while_its_lease_stands() {
    let server = TestServer::start().await;
    let session = server.client().session("scripted").await;
    let kernel = server.server().kernel();
    let asker = Asker {
        session: session.parse().unwrap(),
        thread: 0,
        epoch: 1,
    };
    let token = kernel.brain_token(asker);
    let token = token.expose_secret();
    let with = |method, path: &str, token: &str| {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = http.request(method, format!("{}{path}", server.server().url()));
        request
            .header("authorization", format!("Bearer {token}"))
            .json(&body(TestServer::UPSTREAM, "hi", false))
            .send()
    };
    let forged = token.replacen(".1.", ".2.", 1);
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        let path = format!("/outlast/v1/brains{path}");
        for (token, status) in [
            (token, 403),
            (forged.as_str(), 401),
            (server.key(), 401),
            ("outlast_brain_", 401),
        ] {
            let refused = with(Method::POST, &path, token).await.unwrap();
            let (found, body) = json_of(refused).await;
            server.note(&body);
            assert_eq!(found, status, "{body}");
            assert_eq!(body["type"], "error");
        }
    }
    for path in [
        "/v1/sessions",
        "/v1/models",
        "/v1/messages",
        "/outlast/v1/keys",
    ] {
        let refused = with(Method::GET, path, token).await.unwrap();
        assert_eq!(refused.status(), 401, "{path}");
    }
    assert_eq!(server.asked(), 0, "nothing that was refused left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_the_request() {
    let provider = Provider::start().await;
    let server = TestServer::start_with(|config| {
        config.upstream.base_url = Some(provider.url.clone());
    })
    .await;
    for stream in [true, false] {
        let sent = ask(&server, Method::POST, "/v1/messages").json(&body("slow", "hi", stream));
        // Gone while the head is waited for.
        let gone = sent.timeout(Duration::from_millis(300)).send().await;
        assert!(gone.unwrap_err().is_timeout());
        provider.hears_the_end().await;
    }
}

/// A provider that takes requests and never answers.
struct Provider {
    url: String,
    ended: tokio::sync::Mutex<tokio::sync::mpsc::Receiver<()>>,
    task: tokio::task::JoinHandle<()>,
}

impl Provider {
    async fn start() -> Self {
        use tokio::io::AsyncReadExt as _;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (told, ended) = tokio::sync::mpsc::channel(8);
        #[expect(clippy::disallowed_methods, reason = "ended with the test")]
        let task = tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut buffer = [0; 65_536];
                // Reads until the other end is closed, or breaks.
                while let Ok(1..) = socket.read(&mut buffer).await {}
                let _gone = told.send(()).await;
            }
        });
        let ended = tokio::sync::Mutex::new(ended);
        Self { url, ended, task }
    }

    async fn hears_the_end(&self) {
        let ended = async { self.ended.lock().await.recv().await };
        let heard = tokio::time::timeout(Duration::from_secs(10), ended).await;
        heard.expect("the request ends with its client").unwrap();
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}
