//! A file up and a file down, beside the disk that it goes to and comes from.

use std::{
    convert::Infallible,
    fs::{self, File},
    io::{Read as _, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{Method, Request, body::Frame, client::conn::http1::handshake};
use hyper_util::rt::TokioIo;
use rustix::fs::{Advice, fadvise};
use serde_json::Value;
use tokio::{
    net::TcpStream,
    sync::oneshot,
    task::{JoinSet, spawn_blocking},
    time::{Instant, sleep},
};

use crate::{
    api::Client,
    http::{Connection, KEY},
    model::{Ask, Endpoint},
    process::Server,
    report::{Aim, Row},
    run::Bench,
    stats::Samples,
};

const MIB: usize = 1 << 20;

/// Size in a whole run and in a quick one, in MiB.
const SIZES: (usize, usize) = (1024, 256);

/// Pairs.
const ROUNDS: usize = 3;

/// How often the server's memory is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The longest wait for a file that an agent left.
const PATIENCE: Duration = Duration::from_secs(300);

/// Measures uploads, then downloads.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut endpoint = Endpoint::start().await?;
    let setup = bench
        .setup("files")
        .with("OUTLAST_UPSTREAM_BASE_URL", endpoint.url());
    let at = setup.dir.clone();
    let server = setup.start().await?;
    let mut run = Run {
        mebibytes: if bench.options.quick {
            SIZES.1
        } else {
            SIZES.0
        },
        plain: bench.dir.join("plain.bin"),
        rounds: bench.options.rounds(ROUNDS),
        ours: Samples::default(),
        disk: Samples::default(),
        more: Samples::default(),
    };
    let group = if bench.options.quick {
        "Files of 256 MiB"
    } else {
        "Files of 1 GiB"
    };
    let up = run.up(&server).await?;
    let up = up.named(
        group,
        "upload, durable when it is answered",
        "write and fdatasync",
    );
    let mut client = Client::open(server.address).await?;
    let down = run.down(&server, &mut client, &mut endpoint, &at).await?;
    let down = down.named(
        group,
        "download, not in the page cache",
        "read, not in the page cache",
    );
    server.stop().await?;
    Ok(vec![up, down])
}

/// Rounds of one direction.
struct Run {
    mebibytes: usize,
    plain: PathBuf,
    rounds: usize,
    /// MiB a second.
    ours: Samples,
    disk: Samples,
    /// How much the server grew, in MiB.
    more: Samples,
}

/// What one direction came to.
struct Way {
    ours: Samples,
    disk: Samples,
    more: Samples,
}

impl Way {
    fn named(&self, group: &'static str, name: &'static str, floor: &'static str) -> Row {
        let more = self.more.quantile(1.0);
        Row::new(group, name, "MiB/s", &self.ours)
            .beside(floor, &self.ours, &self.disk)
            .aim(Aim::Reach(0.8))
            .note(format!(
                "the server's resident memory grew by {more:.1} MiB at most"
            ))
    }
}

impl Run {
    /// Measures uploads.
    async fn up(&mut self, server: &Server) -> Result<Way> {
        for _ in 0..self.rounds {
            let (plain, size) = (self.plain.clone(), self.mebibytes);
            let took = spawn_blocking(move || write(&plain, size)).await??;
            self.disk.push(rate(size, took));
            let (took, more) = watched(server, upload(server.address, size)).await?;
            self.ours.push(rate(size, took));
            self.more.push(more);
        }
        Ok(self.take())
    }

    /// Measures downloads of one file that an agent left.
    async fn down(
        &mut self,
        server: &Server,
        client: &mut Client,
        endpoint: &mut Endpoint,
        at: &Path,
    ) -> Result<Way> {
        let session = client.session().await?;
        endpoint.clear();
        let mebibytes = self.mebibytes;
        client.turn(&session, Ask::Make { mebibytes }).await?;
        let id = published(server.address, &session).await?;
        let blob = blob(at, mebibytes * MIB).context("no blob of that size")?;
        for _ in 0..self.rounds {
            let (plain, size) = (self.plain.clone(), self.mebibytes);
            let took = spawn_blocking(move || {
                forget(&plain)?;
                read(&plain)
            });
            self.disk.push(rate(size, took.await??));
            forget(&blob)?;
            let (took, more) = watched(server, download(server.address, &id, size * MIB)).await?;
            self.ours.push(rate(size, took));
            self.more.push(more);
        }
        client.delete(&session).await?;
        Ok(self.take())
    }

    fn take(&mut self) -> Way {
        Way {
            ours: std::mem::take(&mut self.ours),
            disk: std::mem::take(&mut self.disk),
            more: std::mem::take(&mut self.more),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand")]
fn rate(mebibytes: usize, took: Duration) -> f64 {
    mebibytes as f64 / took.as_secs_f64()
}

/// The floor of an upload.
fn write(path: &Path, mebibytes: usize) -> Result<Duration> {
    let piece = noise();
    let begun = Instant::now();
    let mut file = File::create(path)?;
    for _ in 0..mebibytes {
        file.write_all(&piece)?;
    }
    file.sync_data()?;
    Ok(begun.elapsed())
}

/// The floor of a download.
fn read(path: &Path) -> Result<Duration> {
    let mut buffer = vec![0; MIB];
    let begun = Instant::now();
    let mut file = File::open(path)?;
    while file.read(&mut buffer)? > 0 {}
    Ok(begun.elapsed())
}

/// Has the kernel forget what it holds of a file that is on the disk.
fn forget(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

/// Returns a MiB that no disk makes smaller.
fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(MIB);
    while bytes.len() < MIB {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

/// Does something and looks how far the server's memory grows meanwhile.
async fn watched(
    server: &Server,
    work: impl Future<Output = Result<Duration>>,
) -> Result<(Duration, f64)> {
    let before = server.memory()?.rss;
    let (done, mut over) = oneshot::channel::<()>();
    let watch = async {
        let mut most = before;
        while matches!(over.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
            most = server.memory()?.rss.max(most);
            sleep(LOOK).await;
        }
        anyhow::Ok(most)
    };
    let work = async {
        let took = work.await;
        drop(done);
        took
    };
    let (took, most) = tokio::join!(work, watch);
    #[expect(clippy::cast_precision_loss, reason = "a power of two")]
    Ok((took?, (most? - before) / MIB as f64))
}

/// Uploads so many MiB; returns how long it took until the answer.
async fn upload(address: SocketAddr, mebibytes: usize) -> Result<Duration> {
    const BOUNDARY: &str = "outlast-bench";
    let head = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"noise\"\r\n\
         content-type: application/octet-stream\r\n\r\n"
    );
    let tail = format!("\r\n--{BOUNDARY}--\r\n");
    let length = head.len() + mebibytes * MIB + tail.len();
    let piece = Bytes::from(noise());
    let parts = std::iter::once(Bytes::from(head))
        .chain(std::iter::repeat_n(piece, mebibytes))
        .chain([Bytes::from(tail)]);
    let frames = parts.map(|part| Ok::<_, Infallible>(Frame::data(part)));
    let request = Request::builder()
        .method(Method::POST)
        .uri("/v1/files")
        .header("host", address.to_string())
        .header("x-api-key", KEY)
        .header(
            "content-type",
            format!("multipart/form-data; boundary={BOUNDARY}"),
        )
        .header("content-length", length)
        .body(StreamBody::new(stream::iter(frames)))?;
    let begun = Instant::now();
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let mut driver = JoinSet::new();
    driver.spawn(async move { drop(connection.await) });
    let response = sender.send_request(request).await?;
    let status = response.status();
    let words = response.into_body().collect().await?.to_bytes();
    let took = begun.elapsed();
    if !status.is_success() {
        bail!("upload: {status}: {}", String::from_utf8_lossy(&words));
    }
    Ok(took)
}

/// Downloads a file and throws it away.
async fn download(address: SocketAddr, id: &str, size: usize) -> Result<Duration> {
    let begun = Instant::now();
    let mut connection = Connection::open(address).await?;
    let path = format!("/v1/files/{id}/content");
    let response = connection.send(Method::GET, &path, Bytes::new()).await?;
    let status = response.status();
    let (mut body, mut seen) = (response.into_body(), 0);
    while let Some(frame) = body.frame().await {
        seen += frame?.data_ref().map_or(0, Bytes::len);
    }
    if !status.is_success() || seen != size {
        bail!("download: {status}, {seen} bytes instead of {size}");
    }
    Ok(begun.elapsed())
}

/// Waits until the file that an agent left is listed; returns its id.
async fn published(address: SocketAddr, session: &str) -> Result<String> {
    let mut connection = Connection::open(address).await?;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let listed = connection
            .get(&format!("/v1/files?scope_id={session}"))
            .await?;
        let first = listed.get("data").and_then(|data| data.get(0));
        if let Some(id) = first
            .and_then(|file| file.get("id"))
            .and_then(Value::as_str)
        {
            return Ok(id.to_owned());
        }
        sleep(Duration::from_millis(100)).await;
    }
    bail!("what the agent left is not listed")
}

/// Finds the newest blob of a size.
fn blob(data: &Path, size: usize) -> Option<PathBuf> {
    let entries = fs::read_dir(data.join("blobs/files")).ok()?.flatten();
    let sized = entries.filter_map(|entry| {
        let about = entry.metadata().ok()?;
        let fits = usize::try_from(about.len()).ok()? == size;
        fits.then(|| Some((about.modified().ok()?, entry.path())))?
    });
    sized.max().map(|(_, path)| path)
}
