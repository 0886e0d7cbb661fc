//! Files: uploads, lists, downloads, ends.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use outlast_kernel::StoredFile;
use outlast_protocol::id::FileId;
use outlast_store::{Files as _, Resources as _};
use serde_json::{Value, json};

use crate::bench::{Bench, KEY, PATIENCE, Reply, id, request};

const COUNT: &str = "x-stainless-retry-count";

/// A form with one file, as clients write it.
pub(crate) fn form(name: &str, kind: &str, content: &[u8], rest: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (part, text) in rest {
        let head = format!("--edge\r\ncontent-disposition: form-data; name=\"{part}\"\r\n\r\n");
        out.extend(head.into_bytes());
        out.extend(format!("{text}\r\n").into_bytes());
    }
    let head =
        format!("--edge\r\ncontent-disposition: form-data; name=\"file\"{name}\r\n{kind}\r\n");
    out.extend(head.into_bytes());
    out.extend_from_slice(content);
    out.extend_from_slice(b"\r\n--edge--\r\n");
    out
}

pub(crate) fn posted(body: impl Into<Body>, headers: &[(&str, &str)]) -> Request<Body> {
    let mut builder = Request::builder()
        .method(Method::POST)
        .uri("/v1/files")
        .header("authorization", format!("Bearer {KEY}"))
        .header("content-type", "multipart/form-data; boundary=edge");
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(body.into()).unwrap()
}

impl Bench {
    /// Uploads a file.
    pub(crate) async fn upload(&self, name: &str, kind: &str, content: &[u8]) -> Value {
        let name = format!("; filename=\"{name}\"");
        let kind = format!("content-type: {kind}\r\n");
        self.ask(posted(form(&name, &kind, content, &[]), &[]))
            .await
            .ok()
    }

    async fn form(&self, name: &str, kind: &str, rest: &[(&str, &str)]) -> Reply {
        self.ask(posted(form(name, kind, b"x", rest), &[])).await
    }

    /// Says that a file may be downloaded, as if an agent had made it.
    async fn release(&self, file: &Value) {
        let id = FileId::parse(&id(file)).unwrap();
        let stored = self.kernel.file(id).await.unwrap();
        let stored = StoredFile {
            downloadable: true,
            ..stored
        };
        let processes = self.store.processes().await.unwrap();
        let living = processes.iter().find(|process| !process.dead).unwrap();
        self.store.begin_blob(id.into(), living.id).await.unwrap();
        self.store.insert_file(stored, None).await.unwrap();
    }

    /// Waits until so many blobs are left.
    pub(crate) async fn blobs_left(&self, count: usize) {
        let left = async {
            while self.blobs.keys().len() != count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, left).await;
        assert!(waited.is_ok(), "{:?}", self.blobs.keys());
    }

    async fn listed(&self, query: &str) -> Vec<String> {
        let page = self.get(&format!("/v1/files{query}")).await.ok();
        page["data"].as_array().unwrap().iter().map(id).collect()
    }
}

#[tokio::test]
async fn a_file_is_uploaded_shown_and_deleted() {
    let bench = Bench::new().await;
    let made = bench.upload("dir/a b.txt", "text/plain", b"hello").await;
    let path = format!("/v1/files/{}", id(&made));
    let expected = json!({
        "type": "file", "id": id(&made), "created_at": made["created_at"], "downloadable": false,
        "expires_at": null, "filename": "a b.txt", "mime_type": "text/plain", "scope": null,
        "size_bytes": 5,
    });
    assert_eq!(made, expected);
    assert_eq!(bench.get(&path).await.ok(), made);
    let refused = bench.get(&format!("{path}/content")).await;
    assert_eq!(
        refused.json()["error"]["details"]["error_code"],
        "file_not_downloadable"
    );
    refused.refused(400);
    let gone = json!({ "id": id(&made), "type": "file_deleted" });
    assert_eq!(bench.delete(&path).await.ok(), gone);
    for reply in [
        bench.get(&path).await,
        bench.delete(&path).await,
        bench.get(&format!("{path}/content")).await,
        bench.get("/v1/files/nonsense").await,
    ] {
        assert!(reply.refused(404).contains("not found"));
    }
    bench.blobs_left(0).await;
}

#[tokio::test]
async fn names_types_and_ends_have_rules() {
    let bench = Bench::new().await;
    for (name, kind, kept, shown) in [
        (
            "; filename=\"\"",
            "content-type: image/png\r\n",
            "unnamed.png",
            "image/png",
        ),
        (
            "",
            "content-type: application/pdf\r\n",
            "unnamed.pdf",
            "application/pdf",
        ),
        ("; filename=\"a.csv\"", "", "a.csv", "text/csv"),
        (
            "; filename=\"a\"",
            "content-type: \r\n",
            "a",
            "application/octet-stream",
        ),
        (
            "; filename=\"\u{1f980} '$(x).md\"",
            "",
            "\u{1f980} '$(x).md",
            "text/markdown",
        ),
    ] {
        let made = bench.form(name, kind, &[]).await.ok();
        assert_eq!(
            (&made["filename"], &made["mime_type"]),
            (&json!(kept), &json!(shown))
        );
    }
    let ends = bench
        .form("", "", &[("expires_in_seconds", "3600")])
        .await
        .ok();
    assert!(ends["expires_at"].is_string(), "{ends}");
    for (rest, word) in [
        (
            &[("expires_in_seconds", "3599")][..],
            "from 3600 to 7776000",
        ),
        (&[("expires_in_seconds", "soon")], "must be an integer"),
        (
            &[
                ("expires_in_seconds", "3600"),
                ("expires_in_seconds", "3600"),
            ],
            "at most once",
        ),
        (&[("colour", "blue")], "colour: unknown part"),
        (&[("file", "x")], "file: must be given at most once"),
    ] {
        let told = bench.form("", "", rest).await.refused(400);
        assert!(told.contains(word), "{told}");
    }
    for (body, word) in [
        (&b"--edge--\r\n"[..], "file: is required"),
        (b"", "multipart form"),
        (
            b"--edge\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\nhalf",
            "multipart form",
        ),
    ] {
        let told = bench.ask(posted(body.to_vec(), &[])).await.refused(400);
        assert!(told.contains(word), "{told}");
    }
    let endless =
        stream::iter(0..64).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 1 << 20])));
    let told = bench
        .ask(posted(Body::from_stream(endless), &[]))
        .await
        .refused(400);
    assert!(told.contains("belongs to no part"), "{told}");
    let json = bench.post("/v1/files", json!({})).await.refused(400);
    assert!(json.contains("multipart/form-data"), "{json}");
    bench.blobs_left(6).await;
}

#[tokio::test]
async fn a_name_or_type_that_is_not_understood_is_refused() {
    let bench = Bench::new().await;
    let named = "; filename=\"plain.txt\"; filename*=UTF-8''na%C3%AFve%20%E2%82%AC.csv";
    let made = bench.form(named, "", &[]).await.ok();
    assert_eq!(
        (&made["filename"], &made["mime_type"]),
        (&json!("na\u{ef}ve \u{20ac}.csv"), &json!("text/csv"))
    );
    for (name, kind, words) in [
        (
            "; filename=\"a\"",
            "content-type: rubbish\r\n",
            "content-type must be a type such as",
        ),
        ("; filename*=a.txt", "", "`filename*` must be like"),
        ("; filename*=UTF-8''a%0Ab", "", "control characters"),
    ] {
        let told = bench.form(name, kind, &[]).await.refused(400);
        assert!(told.contains(words), "{told}");
    }
    bench.blobs_left(1).await;
}

#[tokio::test]
async fn a_file_that_is_too_large_is_told_so() {
    let bench = Bench::new().await;
    let exact = vec![7; 1 << 20];
    let made = bench.upload("a", "a/b", &exact).await;
    assert_eq!(made["size_bytes"], 1 << 20);
    let over = vec![7; (1 << 20) + 1];
    let reply = bench.ask(posted(form("", "", &over, &[]), &[])).await;
    assert!(reply.refused(413).contains("at most 1048576 bytes"));
    bench.blobs_left(1).await;
}

#[tokio::test]
async fn a_retry_with_another_boundary_is_the_same_upload() {
    let bench = Bench::new().await;
    let send = async |boundary: &str, content: &[u8], count: &str| {
        let body = form("; filename=\"a\"", "", content, &[]);
        let body = String::from_utf8(body).unwrap().replace("edge", boundary);
        let mut request = posted(body, &[(COUNT, count)]);
        let kind = format!("multipart/form-data; boundary={boundary}")
            .parse()
            .unwrap();
        request.headers_mut().insert("content-type", kind);
        // The answer is lost: nobody reads its body.
        let response = bench.raw(request).await;
        assert_eq!(response.status(), 200);
        response
    };
    drop(send("one", b"same", "0").await);
    let again = send("two", b"same", "1").await;
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(bench.listed("").await.len(), 1);
    drop(send("three", b"other", "1").await);
    assert_eq!(bench.listed("").await.len(), 2);
    bench.blobs_left(2).await;
}

#[tokio::test]
async fn lists_have_pages_and_filters() {
    let bench = Bench::new().await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.insert(0, id(&bench.upload("a", "a/b", b"x").await));
    }
    assert_eq!(bench.listed("").await, all);
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let page = bench.get(&format!("/v1/files?limit=2{next}")).await.ok();
        seen.extend(page["data"].as_array().unwrap().iter().map(id));
        match page["next_page"].as_str() {
            Some(page) => next = format!("&page={page}"),
            None => break,
        }
    }
    assert_eq!(seen, all);
    assert_eq!(
        bench.listed(&format!("?limit=2&after_id={}", all[1])).await,
        all[2..4]
    );
    assert_eq!(
        bench
            .listed(&format!("?limit=2&before_id={}", all[3]))
            .await,
        all[1..3]
    );
    let unknown = "file_010000000000000000000001";
    let old = [("anthropic-version", "2023-06-01")];
    let page = bench
        .ask(request(Method::GET, "/v1/files?limit=2", &old, ""))
        .await
        .ok();
    assert_eq!(
        (&page["first_id"], &page["last_id"]),
        (&json!(all[0]), &json!(all[1]))
    );
    assert_eq!(
        (&page["has_more"], page.get("next_page")),
        (&json!(true), None)
    );
    let (one, three) = (&all[1], &all[3]);
    let ids = format!("?ids[]={three}&ids[]={unknown}&ids%5B%5D={one}&ids={one}&ids=nonsense");
    assert_eq!(bench.listed(&ids).await, [one.clone(), three.clone()]);
    let session = bench.session().await;
    for scope in [&session, "nonsense"] {
        assert_eq!(bench.listed(&format!("?scope_id={scope}")).await, [""; 0]);
        let one = format!("?scope_id={scope}&ids[]={one}");
        assert_eq!(bench.listed(&one).await, [""; 0]);
    }
    let many: Vec<_> = (0..101).map(|n| format!("ids[]={n}")).collect();
    for (query, word) in [
        (
            format!("ids[]={one}&limit=1"),
            "limit: cannot be given together",
        ),
        (
            format!("ids[]={one}&page=x"),
            "page: cannot be given together",
        ),
        (many.join("&"), "at most 100 different values"),
        ("limit=1001".to_owned(), "from 1 to 1000"),
        ("page=page_x".to_owned(), "page: "),
        ("colour=blue".to_owned(), "colour: unknown"),
    ] {
        let told = bench.get(&format!("/v1/files?{query}")).await.refused(400);
        assert!(told.contains(word), "{told}");
    }
}

#[tokio::test]
async fn bytes_come_back_whole_and_in_part() {
    let bench = Bench::new().await;
    let content: Vec<u8> = (0..=255_u8).cycle().take(700_000).collect();
    let made = bench
        .upload("a.bin", "application/x-odd; v=1", &content)
        .await;
    bench.release(&made).await;
    let path = format!("/v1/files/{}/content", id(&made));
    let read = async |range: Option<&str>| {
        let headers: Vec<_> = range.iter().map(|range| ("range", *range)).collect();
        let response = bench.raw(request(Method::GET, &path, &headers, "")).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        assert_eq!(parts.headers["content-length"], bytes.len().to_string());
        assert_eq!(parts.headers["content-type"], "application/x-odd; v=1");
        (parts, bytes)
    };
    let (parts, whole) = read(None).await;
    assert!(parts.status == 200 && whole == content);
    let (parts, part) = read(Some("bytes=100-299")).await;
    assert!(parts.status == StatusCode::PARTIAL_CONTENT && part == content[100..300]);
    assert_eq!(parts.headers["content-range"], "bytes 100-299/700000");
    let (parts, whole) = read(Some("bytes=9-3")).await;
    assert!(parts.status == 200 && whole == content);
    let beyond = request(Method::GET, &path, &[("range", "bytes=700000-")], "");
    let beyond = bench.ask(beyond).await;
    assert_eq!(beyond.headers["content-range"], "bytes */700000");
    assert!(beyond.refused(416).contains("has 700000 bytes"));
    let empty = bench.upload("empty", "a/b", b"").await;
    bench.release(&empty).await;
    let reply = bench
        .get(&format!("/v1/files/{}/content", id(&empty)))
        .await;
    assert_eq!((reply.status, reply.text.as_str()), (StatusCode::OK, ""));
}

#[tokio::test]
async fn a_file_ends_at_its_time() {
    let bench = Bench::new().await;
    let made = bench
        .form("", "", &[("expires_in_seconds", "3600")])
        .await
        .ok();
    bench.release(&made).await;
    let path = format!("/v1/files/{}", id(&made));
    assert_eq!(bench.get(&format!("{path}/content")).await.status, 200);
    bench.clock.advance(Duration::from_secs(3_601));
    for look in ["before", "after"] {
        for path in [&path, &format!("{path}/content")] {
            let reply = bench.get(path).await;
            let code = &reply.json()["error"]["details"]["error_code"];
            assert_eq!(
                (reply.status.as_u16(), code),
                (404, &json!("file_expired")),
                "{look}"
            );
        }
        assert_eq!(bench.listed("").await, [""; 0]);
        // The second look comes when its bytes are removed.
        bench.blobs_left(0).await;
    }
    bench.clock.advance(Duration::from_secs(31 * 24 * 3_600));
    let forgotten = async {
        while bench.get(&path).await.text.contains("file_expired") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, forgotten).await.unwrap();
}

#[tokio::test]
async fn an_upload_that_breaks_off_or_meets_a_full_disk_leaves_nothing() {
    let bench = Bench::new().await;
    let whole = form("", "", &[1; 4_096], &[]);
    let broken = stream::iter([
        Ok(Bytes::copy_from_slice(&whole[..2_000])),
        Err(std::io::Error::other("gone")),
    ]);
    let reply = bench.ask(posted(Body::from_stream(broken), &[])).await;
    assert!(reply.refused(400).contains("broke off"));
    // A client that goes away in the middle: its request is dropped.
    let stalled = stream::iter([Ok::<_, std::io::Error>(Bytes::copy_from_slice(
        &whole[..2_000],
    ))]);
    let stalled = stalled.chain(stream::pending());
    let request = bench.raw(posted(Body::from_stream(stalled), &[]));
    let dropped = tokio::time::timeout(Duration::from_millis(100), request).await;
    assert!(dropped.is_err());
    bench.blobs.fail(true);
    let reply = bench.ask(posted(whole, &[])).await;
    assert!(reply.refused(503).contains("nothing was accepted"));
    bench.blobs.fail(false);
    assert_eq!(bench.listed("").await, [""; 0]);
    bench.blobs_left(0).await;
}

#[tokio::test]
async fn two_uploads_at_once_are_two_files() {
    let bench = Bench::new().await;
    let (one, two) = tokio::join!(
        bench.upload("a", "a/b", &[1; 100_000]),
        bench.upload("a", "a/b", &[2; 100_000])
    );
    for (file, byte) in [(one, 1), (two, 2)] {
        bench.release(&file).await;
        let path = format!("/v1/files/{}/content", id(&file));
        let response = bench.raw(request(Method::GET, &path, &[], "")).await;
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert!(bytes == vec![byte; 100_000]);
    }
}
