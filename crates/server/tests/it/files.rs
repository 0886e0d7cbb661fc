//! Files through a whole server: uploaded, mounted, left by an agent, downloaded, shown to a model.

use std::{fs, path::Path, process::Command, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use outlast_hands::files::escaped;
use outlast_server::client::Client;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{Does as _, TestServer, bash, of, said, script, until};

/// Names that break what is careless.
const NAMES: [&str; 6] = [
    "plain.txt",
    "two words",
    "-rf",
    "\u{1f980} '\"$(touch x)`;",
    "line\nfeed",
    ".hidden",
];

/// Tries to change what is mounted.
const TRIES: &str = "cd /mnt/session/uploads/in && find . -type f -printf x | wc -c; \
        echo x >> plain.txt; echo x > new; rm -f plain.txt; chmod 777 plain.txt; mv -- -rf other; \
        ln plain.txt /workspace/link; mkdir -p ../dir; \
        mount -o remount,rw /mnt/session/uploads; umount /mnt/session/uploads; true";

/// Gives everything back, beside what is no file.
const COPY: &str = "cp -r /mnt/session/uploads/. /mnt/session/outputs/ && chmod -R u+w /mnt/session/outputs \
        && ln -s /etc/passwd /mnt/session/outputs/link && mkfifo /mnt/session/outputs/pipe && echo done";

pub(crate) fn id(object: &Value) -> &str {
    object["id"].as_str().unwrap()
}

/// Writes a file here and uploads it.
pub(crate) async fn upload(client: &Client, dir: &Path, name: &str, content: &[u8]) -> Value {
    let path = dir.join(name);
    fs::write(&path, content).unwrap();
    client.upload(&path, None).await.unwrap()
}

pub(crate) async fn mount(client: &Client, session: &str, file: &Value, path: &str) -> Value {
    let body = json!({"type": "file", "file_id": id(file), "mount_path": path});
    let path = format!("/v1/sessions/{session}/resources");
    client.post(&path, &body).await.unwrap()
}

/// Lists the outputs of a session by name.
pub(crate) async fn outputs(client: &Client, session: &str) -> Vec<(String, Value)> {
    let query = [("scope_id", session), ("limit", "1000")];
    let files = client.list("/v1/files", &query, 1_000).await.unwrap();
    let made = files
        .into_iter()
        .filter(|file| file["downloadable"] == true);
    let named = |file: Value| (file["filename"].as_str().unwrap().to_owned(), file);
    let mut files: Vec<_> = made.map(named).collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    files
}

pub(crate) async fn content(client: &Client, file: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.download(id(file), &mut bytes).await.unwrap();
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_content_is_lost_is_named_in_the_next_result() {
    let server = TestServer::start().await;
    let (client, here) = (server.client(), tempfile::tempdir().unwrap());
    let session = client.session("scripted").await;
    let file = upload(client, here.path(), "a.csv", b"1,2").await;
    mount(client, &session, &file, "/in/a.csv").await;
    fs::remove_file(server.dir().join("blobs/files").join(id(&file))).unwrap();
    let look = bash("ls /mnt/session/uploads/in/a.csv || echo none");
    let steps = json!([look, look, {"text": "end"}]);
    let events = server.play(&session, &[script(steps)], 1).await;
    let results = of(&events, "agent.tool_result");
    assert!(said(results[0]).contains("none"), "{events:?}");
    let words = "\"/mnt/session/uploads/in/a.csv\": its content is no longer stored";
    let told: Vec<_> = results
        .iter()
        .map(|result| {
            result["content"]
                .to_string()
                .contains(&words.replace('"', "\\\""))
        })
        .collect();
    assert_eq!(told, [true, false], "{events:?}");
    let dir = server.dir().to_string_lossy().into_owned();
    assert!(
        !format!("{results:?}").contains(&dir),
        "no place of the host"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_in_read_only_and_come_out_as_they_were() {
    let server = TestServer::start().await;
    let (client, here) = (server.client(), tempfile::tempdir().unwrap());
    let session = client.session("scripted").await;
    let binary: Vec<u8> = (0..=255_u8).cycle().take(300_000).collect();
    let mut sent = Vec::new();
    for (number, name) in NAMES.into_iter().enumerate() {
        let bytes = if number == 0 {
            Vec::new()
        } else {
            binary[number..].to_vec()
        };
        let file = upload(
            client,
            here.path(),
            name.replace('\n', "_").as_str(),
            &bytes,
        )
        .await;
        assert_eq!(file["size_bytes"], bytes.len());
        mount(client, &session, &file, &format!("/in/{name}")).await;
        sent.push((escaped(format!("in/{name}").as_bytes()), bytes));
    }
    sent.sort();
    let steps = json!([bash(TRIES), bash(COPY), {"text": "{{results}}"}]);
    let events = server.play(&session, &[script(steps)], 1).await;
    let results = of(&events, "agent.tool_result");
    let refused = said(results[0]);
    // Some of the refusals have other words; none of the tries came to anything.
    assert!(refused.starts_with(&NAMES.len().to_string()), "{refused}");
    assert!(
        refused.matches("Read-only file system").count() == 5,
        "{refused}"
    );
    assert_eq!(said(results[1]).trim(), "done", "{events:?}");
    let found = outputs(client, &session).await;
    let names: Vec<_> = found.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(
        names,
        sent.iter()
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
    );
    for ((_, file), (name, bytes)) in found.iter().zip(&sent) {
        assert_eq!(file["scope"], json!({"type": "session", "id": session}));
        assert!(content(client, file).await == *bytes, "{name}");
    }
    // What changes keeps its id; a mount comes and goes while the hand lives.
    let late = upload(client, here.path(), "late.csv", b"1,2").await;
    let late = mount(client, &session, &late, "/mnt/session/uploads/late.csv").await;
    let steps = json!([
        bash("cat /mnt/session/uploads/late.csv > /mnt/session/outputs/in/plain.txt; rm /mnt/session/outputs/in/-rf"),
        {"text": "{{results}}"},
    ]);
    server.play(&session, &[script(steps)], 2).await;
    let again = outputs(client, &session).await;
    for ((name, old), (_, new)) in found.iter().zip(&again) {
        assert_eq!(id(old), id(new), "{name}");
        let same = content(client, new).await == content(client, old).await;
        assert!(
            same && (name != "in/plain.txt" || new["size_bytes"] == 3),
            "{name}"
        );
    }
    let path = format!("/v1/sessions/{session}/resources/{}", id(&late));
    client.delete(&path).await.unwrap();
    let steps = json!([bash("ls /mnt/session/uploads"), {"text": "{{results}}"}]);
    let events = server.play(&session, &[script(steps)], 3).await;
    assert_eq!(said(of(&events, "agent.tool_result")[3]).trim(), "in");
    // All of it goes with the session; what was uploaded stays.
    client
        .delete(&format!("/v1/sessions/{session}"))
        .await
        .unwrap();
    assert_eq!(outputs(client, &session).await, []);
    assert_eq!(
        client.list("/v1/files", &[], 100).await.unwrap().len(),
        NAMES.len() + 1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_downloads_whole_and_safely() {
    let server = TestServer::start().await;
    let session = server.client().session("scripted").await;
    let make = "mkdir -p /mnt/session/outputs/sub && cd /mnt/session/outputs \
        && echo one > a && echo two > 'sub/b c'";
    server
        .play(&session, &[script(json!([bash(make), {"text": "ok"}]))], 1)
        .await;
    let here = tempfile::tempdir().unwrap();
    let (dir, url) = (here.path().join("out"), server.server().url());
    let run = async |more: &[&str]| {
        let mut arguments = vec![
            "sessions",
            "download",
            &session,
            "-o",
            dir.to_str().unwrap(),
        ];
        arguments.extend(more);
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_outlast"));
        command.args(arguments).env_clear();
        command
            .env("OUTLAST_URL", &url)
            .env("OUTLAST_API_KEY", server.key());
        command.env("HOME", here.path());
        command.output().await.unwrap()
    };
    let done = run(&[]).await;
    assert!(done.status.success(), "{done:?}");
    assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "one\n");
    assert_eq!(fs::read_to_string(dir.join("sub/b c")).unwrap(), "two\n");
    fs::write(dir.join("a"), "mine").unwrap();
    let refused = run(&[]).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "mine");
    assert!(run(&["--force"]).await.status.success());
    assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "one\n");
}

/// Begins a square picture.
fn png(side: u32) -> Vec<u8> {
    let side = side.to_be_bytes();
    [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &side, &side].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_shown_the_files_that_a_message_names() {
    let server = TestServer::start().await;
    let (client, here) = (server.client(), tempfile::tempdir().unwrap());
    let session = client.session(TestServer::UPSTREAM).await;
    let image = upload(client, here.path(), "a.png", &png(1)).await;
    let paper = upload(client, here.path(), "a.pdf", b"%PDF-1.7\n").await;
    let table = upload(client, here.path(), "a.csv", b"1,2\n").await;
    let named = |kind: &str, file: &Value| json!({"type": kind, "source": {"type": "file", "file_id": id(file)}});
    let mut blocks = vec![
        named("image", &image),
        named("document", &paper),
        named("document", &table),
    ];
    let text = json!({"script": [{"text": "seen"}]}).to_string();
    blocks.push(json!({"type": "text", "text": text}));
    let message = json!({"type": "user.message", "content": blocks});
    let events = server
        .play(&session, std::slice::from_ref(&message), 1)
        .await;
    assert_eq!(
        of(&events, "user.message")[0]["content"],
        message["content"]
    );
    assert_eq!(said(of(&events, "agent.message")[0]), "seen");
    let shown = |turn: usize| server.sent(turn)["messages"][0]["content"].clone();
    let first = shown(0);
    assert_eq!(
        first[0]["source"]["data"],
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"
    );
    assert_eq!(first[0]["source"]["media_type"], "image/png");
    assert_eq!(first[1]["source"]["media_type"], "application/pdf");
    assert_eq!(
        first[2]["source"],
        json!({"type": "text", "media_type": "text/plain", "data": "1,2\n"})
    );
    // The same bytes again, and words once the file is gone.
    let say = async |turn: usize| {
        let steps = json!([{"text": "again"}]);
        server.play(&session, &[script(steps)], turn).await;
    };
    say(2).await;
    assert_eq!(shown(1)[0]["source"], first[0]["source"]);
    client
        .delete(&format!("/v1/files/{}", id(&image)))
        .await
        .unwrap();
    say(3).await;
    let told = shown(2)[0]["text"].as_str().unwrap().to_owned();
    assert!(
        told.contains(id(&image)) && told.contains("no longer stored"),
        "{told}"
    );
    let [empty, fake, huge, no_pdf] = [
        upload(client, here.path(), "empty.png", b"").await,
        upload(client, here.path(), "fake.png", b"hi\n").await,
        upload(client, here.path(), "huge.png", &png(9_000)).await,
        upload(client, here.path(), "no.pdf", &png(1)).await,
    ];
    let path = format!("/v1/sessions/{session}/events");
    for (kind, file, word) in [
        ("image", &paper, "an image must be"),
        ("document", &image, "not found"),
        ("image", &image, "not found"),
        ("image", &empty, "is empty"),
        ("image", &fake, "is no PNG image; an image must be"),
        ("image", &huge, "has 9000 by 9000 pixels; an image must be"),
        (
            "document",
            &no_pdf,
            "is no PDF document, but a PNG image; a PDF",
        ),
    ] {
        let body = json!({"events": [{"type": "user.message", "content": [named(kind, file)]}]});
        let refused = client.post(&path, &body).await.unwrap_err().to_string();
        assert!(
            refused.contains("events.0.content.0.source.file_id"),
            "{refused}"
        );
        assert!(refused.contains(word), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_removes_its_outputs_has_no_more_of_them() {
    let server = TestServer::start().await;
    let client = server.client();
    let session = client.session("scripted").await;
    let count = async || {
        let query = [("scope_id", session.as_str()), ("limit", "1000")];
        client.list("/v1/files", &query, 5_000).await.unwrap().len()
    };
    let make = async |name: char, turn: usize| {
        let make = format!(
            "cd /mnt/session/outputs && rm -f * && for n in $(seq 600); do echo $n > {name}$n; done"
        );
        let steps = json!([bash(&make), {"text": "ok"}]);
        server.play(&session, &[script(steps)], turn).await;
    };
    make('a', 1).await;
    until("the first", async || (count().await == 600).then_some(())).await;
    let path = format!("/outlast/v1/sessions/{session}/diagnosis");
    let troubles = async || client.get(&path, &[]).await.unwrap()["troubles"].clone();
    assert_eq!(troubles().await, json!([]));
    make('b', 2).await;
    until("the rest", async || {
        let told = troubles().await[0]["kind"] == "outputs_left_out";
        told.then_some(())
    })
    .await;
    assert_eq!(count().await, 1_000);
    // A client makes room.
    let files = client.list("/v1/files", &[("scope_id", &session)], 1).await;
    let gone = format!("/v1/files/{}", id(&files.unwrap()[0]));
    client.delete(&gone).await.unwrap();
    assert_eq!(count().await, 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outputs_of_a_session_have_so_many_bytes_together() {
    let server = TestServer::start_with(|config| config.files.outputs_mib = 1).await;
    let client = server.client();
    let session = client.session("scripted").await;
    let names = async || {
        let found = outputs(client, &session).await;
        found.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let make = async |command: &str, turn: usize| {
        let command = format!("cd /mnt/session/outputs && {command}");
        let steps = json!([bash(&command), {"text": "ok"}]);
        server.play(&session, &[script(steps)], turn).await;
    };
    make(
        "head -c 600000 /dev/zero > a; head -c 300000 /dev/zero > b",
        1,
    )
    .await;
    assert_eq!(names().await, ["a", "b"]);
    // What was removed inside is kept outside, so it counts; what fits into the rest is published.
    make("rm a b; head -c 600000 /dev/zero > c; echo > d", 2).await;
    assert_eq!(names().await, ["a", "b", "d"]);
    let path = format!("/outlast/v1/sessions/{session}/diagnosis");
    let troubles = client.get(&path, &[]).await.unwrap()["troubles"].clone();
    assert_eq!(troubles[0]["kind"], "outputs_left_out", "{troubles}");
    // A client makes room.
    let (_, a) = outputs(client, &session).await.remove(0);
    client
        .delete(&format!("/v1/files/{}", id(&a)))
        .await
        .unwrap();
    assert_eq!(names().await, ["b", "c", "d"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_regular_file_is_not_uploaded() {
    let server = TestServer::start().await;
    let here = tempfile::tempdir().unwrap();
    let pipe = here.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for path in [pipe.as_path(), here.path()] {
        let upload = server.client().upload(path, None);
        let refused = timeout(Duration::from_secs(10), upload).await.unwrap();
        let words = refused.unwrap_err().to_string();
        assert!(words.contains("is no regular file"), "{words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_goes_on_when_its_file_is_deleted() {
    let server = TestServer::start().await;
    let client = server.client();
    let session = client.session("scripted").await;
    let make = "head -c 50000000 /dev/urandom | tee /mnt/session/outputs/a | sha256sum";
    let steps = json!([bash(make), {"text": "ok"}]);
    server.play(&session, &[script(steps)], 1).await;
    let file = outputs(client, &session).await.remove(0).1;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/v1/files/{}/content", server.server().url(), id(&file));
    let mut answer = http
        .get(url)
        .header("x-api-key", server.key())
        .send()
        .await
        .unwrap();
    let mut read = answer.chunk().await.unwrap().unwrap().len();
    client
        .delete(&format!("/v1/files/{}", id(&file)))
        .await
        .unwrap();
    let blobs = server.dir().join("blobs/files");
    until("the blob to go", async || (!blobs.exists()).then_some(())).await;
    while let Some(chunk) = answer.chunk().await.unwrap() {
        read += chunk.len();
    }
    assert_eq!(read, 50_000_000);
    // It was deleted, so listing again does not publish it again.
    assert_eq!(outputs(client, &session).await, []);
}

/// Returns the most memory that this process used since it was last asked, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    fs::write("/proc/self/clear_refs", "5").unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A gibibyte, mostly of zeroes, as a form.
fn large() -> (reqwest::Body, u64, blake3::Hash) {
    const CHUNK: usize = 1 << 20;
    let chunk = |number: usize| {
        let mut bytes = vec![0; CHUNK];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        Bytes::from(bytes)
    };
    let mut hasher = blake3::Hasher::new();
    for number in 0..1024 {
        hasher.update(&chunk(number));
    }
    let head = "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"big\"\r\n\r\n";
    let parts = stream::iter([Bytes::from_static(head.as_bytes())])
        .chain(stream::iter(0..1024).map(chunk))
        .chain(stream::iter([Bytes::from_static(b"\r\n--edge--\r\n")]));
    let body = reqwest::Body::wrap_stream(parts.map(Ok::<_, std::io::Error>));
    (body, 1 << 30, hasher.finalize())
}

/// Hashes what is written to it.
#[derive(Default)]
struct Hasher(blake3::Hasher);

impl tokio::io::AsyncWrite for Hasher {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        self.0.update(bytes);
        std::task::Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gibibyte_passes_through_flat_memory() {
    let server = TestServer::start().await;
    let client = server.client();
    let session = client.session("scripted").await;
    let ready = json!([bash("true"), {"text": "ready"}]);
    server.play(&session, &[script(ready)], 1).await;
    let (body, size, hash) = large();
    peak();
    let before = peak();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let made = http
        .post(format!("{}/v1/files", server.server().url()))
        .header("x-api-key", server.key())
        .header("content-type", "multipart/form-data; boundary=edge")
        .body(body)
        .send()
        .await
        .unwrap();
    let made: Value = serde_json::from_slice(&made.bytes().await.unwrap()).unwrap();
    assert_eq!(made["size_bytes"], size, "{made}");
    mount(client, &session, &made, "/big").await;
    let copy = "cp --sparse=always /mnt/session/uploads/big /mnt/session/outputs/big && echo done";
    let steps = json!([bash(copy), {"text": "{{results}}"}]);
    let events = server.play(&session, &[script(steps)], 2).await;
    assert_eq!(said(of(&events, "agent.tool_result")[1]).trim(), "done");
    let output = until("the output", async || {
        let found = outputs(client, &session).await;
        found
            .into_iter()
            .map(|(_, file)| file)
            .find(|file| file["size_bytes"] == size)
    })
    .await;
    let mut hasher = Hasher::default();
    assert_eq!(
        client.download(id(&output), &mut hasher).await.unwrap(),
        size
    );
    assert_eq!(hasher.0.finalize(), hash);
    let grown = peak().saturating_sub(before);
    assert!(grown < 128 * 1024, "memory grew by {grown} KiB");
    // Nothing is searched for in it at the end.
    client
        .delete(&format!("/v1/sessions/{session}"))
        .await
        .unwrap();
    client
        .delete(&format!("/v1/files/{}", id(&made)))
        .await
        .unwrap();
    let blobs = server.dir().join("blobs/files");
    until("the blobs to go", async || (!blobs.exists()).then_some(())).await;
}
