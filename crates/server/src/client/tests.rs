use super::*;

#[test]
fn addresses_are_checked_before_anything_is_sent() {
    for (url, good) in [
        ("http://127.0.0.1:4747", true),
        ("https://outlast.example/", true),
        ("127.0.0.1:4747", false),
        ("ftp://h", false),
        ("http://h?x=1", false),
        ("", false),
    ] {
        assert_eq!(Client::new(url, None).is_ok(), good, "{url}");
    }
    let key = "bad\nkey".into();
    assert_eq!(Client::new("http://h", Some(&key)).unwrap_err(), Error::Key);
}

#[test]
fn a_client_shows_no_key() {
    let key = "sk-canary-0123456789".into();
    let client = Client::new("http://127.0.0.1:1", Some(&key)).unwrap();
    assert!(!format!("{client:?}").contains("canary"));
}

#[tokio::test]
async fn nobody_there_is_said_at_once_without_patience() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = Client::new(&url, None)
        .unwrap()
        .get("/healthz", &[])
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::Unreachable { begun: false, .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains(&url));
}

#[test]
fn refusals_carry_words_and_the_request() {
    let body =
        br#"{"type":"error","error":{"type":"x","message":"no such thing"},"request_id":"req_1"}"#;
    let error = refusal(StatusCode::NOT_FOUND, None, None, body);
    assert_eq!(error.to_string(), "no such thing (request req_1)");
    assert!(!error.may_pass());
    let error = refusal(StatusCode::SERVICE_UNAVAILABLE, Some(2), None, b"<html>");
    assert_eq!(error.to_string(), "Service Unavailable");
    assert!(error.may_pass() && error.after() == Some(Duration::from_secs(2)));
}
