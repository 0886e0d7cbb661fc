use outlast_server::client::{From, Previews};
use serde_json::json;

use crate::support::{Does as _, TestServer, bash, message, of, said, script};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_runs_a_command_and_answers() {
    let server = TestServer::start().await;
    let session = server.client().session(TestServer::UPSTREAM).await;
    let steps = json!([
        bash("echo to the sandbox > /workspace/note && cat /workspace/note"),
        {"thinking": "It worked.", "text": "It says: {{results}}"},
    ]);
    let events = server.play(&session, &[script(steps)], 1).await;
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "user.message",
            "session.status_running",
            "session.thread_status_running",
            "span.model_request_start",
            "agent.tool_use",
            "span.model_request_end",
            "agent.tool_result",
            "span.model_request_start",
            "agent.thinking",
            "agent.message",
            "span.model_request_end",
            "session.thread_status_idle",
            "session.usage",
            "session.status_idle",
        ]
    );
    assert_eq!(
        said(of(&events, "agent.tool_result")[0]).trim(),
        "to the sandbox"
    );
    assert_eq!(
        said(of(&events, "agent.message")[0]).trim(),
        "It says: to the sandbox"
    );
    // The canary was at work, so that looking for it means something.
    assert_eq!(server.asked(), 2);
    // The workspace outlives the turn.
    let steps = json!([bash("cat /workspace/note"), {"text": "{{results}}"}]);
    let events = server.play(&session, &[script(steps)], 2).await;
    assert_eq!(
        said(of(&events, "agent.message")[1]).trim(),
        "to the sandbox"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_seen_while_it_is_made_and_then_whole() {
    let server = TestServer::start().await;
    let session = server.client().session(TestServer::UPSTREAM).await;
    let mut follow = server
        .client()
        .follow(&session, From::After(0), Previews::Shown);
    follow.open().await.unwrap();
    let text = "One two three four five six seven eight nine ten eleven twelve.";
    let steps = json!([{"text": text, "pace": {"tokens": 2, "ms": 1}}]);
    server.client().send(&session, &[script(steps)]).await;
    let (mut deltas, mut pieces) = (String::new(), 0);
    loop {
        let frame = follow.next().await.unwrap().unwrap();
        server.note(&frame.text);
        match frame.kind.as_str() {
            "event_delta" => {
                deltas.push_str(frame.event["delta"]["content"]["text"].as_str().unwrap());
                pieces += 1;
            }
            "agent.message" => assert_eq!(said(&frame.event), text),
            "session.status_idle" => break,
            _ => {}
        }
    }
    assert!(
        text.starts_with(&deltas) && pieces > 1,
        "{pieces} pieces: {deltas:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_open_and_figures_need_the_key() {
    let server = TestServer::start().await;
    let session = server.client().session("scripted").await;
    server.play(&session, &[message("hello")], 1).await;
    let url = server.server().url();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    for path in ["/healthz", "/readyz"] {
        let answer = http.get(format!("{url}{path}")).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
    }
    let refused = http.get(format!("{url}/metrics")).send().await.unwrap();
    assert_eq!(refused.status(), 401);
    let key = server.key().to_owned();
    let answer = http
        .get(format!("{url}/metrics"))
        .header("x-api-key", key)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    let text = answer.text().await.unwrap();
    for name in [
        "outlast_server_info",
        "outlast_api_requests_total",
        "outlast_kernel_claims_total",
    ] {
        assert!(text.contains(name), "{name} is not in {text}");
    }
    server.note(text);
    drop(http);
}
