//! A peer of durable appends: NATS `JetStream` on the same disk, told to sync every message before it
//! acknowledges it.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream},
    net::TcpStream,
    process::{Child, Command},
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{postgres::Measured, relay::free, stats::Samples};

/// Bytes of a message.
const BODY: usize = 1_024;

/// Looks before a start counts as failed.
const LOOKS: u32 = 1_000;

/// A running server with one stream.
#[derive(Debug)]
pub(crate) struct Nats {
    address: SocketAddr,
    /// What it calls itself.
    pub(crate) version: String,
    _server: Child,
}

impl Nats {
    /// Starts the server, and makes a file-backed stream that takes what every client publishes.
    pub(crate) async fn start(binary: &Path, dir: PathBuf) -> Result<Self> {
        fs::create_dir_all(&dir)?;
        let address = free()?;
        let config = dir.join("nats.conf");
        let kept = dir.join("kept");
        let text = format!(
            "listen: \"{address}\"\njetstream {{ store_dir: {:?}, sync_interval: always }}\n",
            kept.display().to_string()
        );
        fs::write(&config, text)?;
        let said = Command::new(binary).arg("--version").output().await?;
        let log = File::create(dir.join("log"))?;
        let server = Command::new(binary)
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the NATS server")?;
        let own = Self {
            address,
            version: String::from_utf8_lossy(&said.stdout).trim().to_owned(),
            _server: server,
        };
        let mut client = own.first().await?;
        let stream = r#"{"name":"records","subjects":["records.*"],"storage":"file"}"#;
        let made = client
            .ask("$JS.API.STREAM.CREATE.records", stream.as_bytes())
            .await?;
        acknowledged(&made)?;
        Ok(own)
    }

    /// Connects to a server that is only just starting.
    async fn first(&self) -> Result<Client> {
        for _ in 0..LOOKS {
            match Client::connect(self.address).await {
                Ok(client) => return Ok(client),
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
        bail!("the NATS server does not answer; see its log")
    }

    /// Has so many clients publish that many messages each, waiting for every acknowledgement.
    pub(crate) async fn publish(&self, clients: usize, messages: usize) -> Result<Measured> {
        let mut ready = Vec::with_capacity(clients);
        for _ in 0..clients {
            ready.push(Client::connect(self.address).await?);
        }
        let begun = Instant::now();
        let mut running = JoinSet::new();
        for (number, client) in ready.into_iter().enumerate() {
            running.spawn(client.fill(format!("records.{number}"), messages));
        }
        let mut waits = Samples::default();
        while let Some(done) = running.join_next().await {
            for time in done?? {
                waits.push_ms(time);
            }
        }
        let count = f64::from(u32::try_from(waits.len())?);
        let rate = count / begun.elapsed().as_secs_f64();
        Ok(Measured { rate, waits })
    }
}

/// A connection with an inbox.
#[derive(Debug)]
struct Client {
    stream: BufStream<TcpStream>,
    inbox: String,
}

impl Client {
    async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let inbox = format!("_INBOX.{}", stream.local_addr()?.port());
        let stream = BufStream::new(stream);
        let mut own = Self { stream, inbox };
        own.line().await?;
        let hello = format!(
            "CONNECT {{\"verbose\":false,\"pedantic\":false}}\r\nSUB {} 1\r\nPING\r\n",
            own.inbox
        );
        own.stream.write_all(hello.as_bytes()).await?;
        own.stream.flush().await?;
        let said = own.line().await?;
        if said != "PONG" {
            bail!("the NATS server says {said}")
        }
        Ok(own)
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            bail!("the NATS server closed a connection")
        }
        Ok(line.trim_end().to_owned())
    }

    /// Publishes, and returns what comes back to the inbox.
    async fn ask(&mut self, subject: &str, body: &[u8]) -> Result<Vec<u8>> {
        let head = format!("PUB {subject} {} {}\r\n", self.inbox, body.len());
        self.stream.write_all(head.as_bytes()).await?;
        self.stream.write_all(body).await?;
        self.stream.write_all(b"\r\n").await?;
        self.stream.flush().await?;
        loop {
            let line = self.line().await?;
            if line == "PING" {
                self.stream.write_all(b"PONG\r\n").await?;
                self.stream.flush().await?;
                continue;
            }
            let size = line
                .strip_prefix("MSG ")
                .and_then(|rest| rest.rsplit(' ').next());
            let size: usize = size
                .and_then(|size| size.parse().ok())
                .with_context(|| format!("the NATS server says {line}"))?;
            let mut answer = vec![0; size + 2];
            self.stream.read_exact(&mut answer).await?;
            answer.truncate(size);
            return Ok(answer);
        }
    }

    async fn fill(mut self, subject: String, messages: usize) -> Result<Vec<Duration>> {
        let body = vec![b'x'; BODY];
        let mut waits = Vec::with_capacity(messages);
        for _ in 0..messages {
            let begun = Instant::now();
            let answer = self.ask(&subject, &body).await?;
            waits.push(begun.elapsed());
            acknowledged(&answer)?;
        }
        Ok(waits)
    }
}

/// Checks that an answer of `JetStream` is not an error.
fn acknowledged(answer: &[u8]) -> Result<()> {
    let said: Value = serde_json::from_slice(answer)?;
    match said.get("error") {
        Some(error) => bail!("JetStream says {error}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_no_acknowledgement() {
        acknowledged(br#"{"stream":"records","seq":1}"#).unwrap();
        let full = br#"{"error":{"code":400,"description":"maximum bytes exceeded"}}"#;
        assert!(
            acknowledged(full)
                .unwrap_err()
                .to_string()
                .contains("maximum bytes")
        );
    }
}
