//! Prints what the egress of hands costs, beside the same without it, in turns.
//!
//! `cargo run --release -p outlast-egress --example forward -- [rounds] [MiB]`. Client and host speak TLS
//! with each other, in this process, over loopback: directly, through a tunnel, and through one that is
//! opened for a credential. Lines of `small` are milliseconds of a request on a connection that is open:
//! directly, tunnelled, opened; then in plain HTTP directly and through the proxy. Lines of `large` are
//! milliseconds of a download: directly, tunnelled, opened; those of `spent` are the processor's milliseconds
//! of the same, of client, egress and host together.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that prints, whose tasks end with it"
)]

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use outlast_egress::hand::{
    Audit, Bound, Credentials, Forwarder, Held, Hosts, Network as _, Options, Unreadable, Way,
};
use outlast_protocol::{
    Micros,
    environment::Networking,
    id::{EnvironmentId, IncarnationId, SessionId},
    seam::Entropy,
};
use outlast_reach::{Resolver, Rule};
use rustix::time::{ClockId, clock_gettime};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::Instant,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use zeroize::Zeroizing;

type Fault = Box<dyn std::error::Error>;

/// The host that a credential is for, and one that none is for.
const OPENED: &str = "opened.example";
const CLOSED: &str = "closed.example";

/// Small requests of a round.
const SMALL: usize = 200;

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |other| {
        let text = arguments.next();
        text.and_then(|text| text.parse().ok()).unwrap_or(other)
    };
    let (rounds, mebibytes) = (number(5_usize), number(1_024_usize));
    let stage = Stage::start().await?;
    for _ in 0..rounds {
        stage.small().await?;
    }
    for _ in 0..rounds {
        stage.large(mebibytes << 20).await?;
    }
    Ok(())
}

struct Stage {
    _forwarder: Forwarder,
    proxy: SocketAddr,
    secure: SocketAddr,
    plain: SocketAddr,
    client: TlsConnector,
}

impl Stage {
    async fn start() -> Result<Self, Fault> {
        let names = vec![OPENED.to_owned(), CLOSED.to_owned()];
        let made = rcgen::generate_simple_self_signed(names)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let certificate = made.cert.der().clone();
        let server = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)?;
        let secure = serve(Some(TlsAcceptor::from(Arc::new(server)))).await?;
        let plain = serve(None).await?;
        let options = Options {
            rule: Rule::new(&["127.0.0.0/8"])?,
            authorities: vec![certificate.clone()],
            ..Options::default()
        };
        let forwarder = Forwarder::new(
            options,
            Arc::new(One::new()?),
            Arc::new(Loopback),
            Audit::default(),
        );
        let bound = bound();
        let authority = forwarder.dress(&bound).await?.authority.unwrap_or_default();
        let outlet = std::net::TcpListener::bind("127.0.0.1:0")?;
        let proxy = outlet.local_addr()?;
        forwarder.attach(bound, outlet).await;
        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
        let client = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            _forwarder: forwarder,
            proxy,
            secure,
            plain,
            client: TlsConnector::from(Arc::new(client)),
        })
    }

    /// Connects to the host, through a tunnel if there is a proxy, and speaks TLS.
    async fn connect(&self, name: &str, proxy: bool) -> Result<impl Stream, Fault> {
        let to = if proxy { self.proxy } else { self.secure };
        let mut stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        if proxy {
            let at = format!("{name}:{}", self.secure.port());
            let connect = format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n");
            stream.write_all(connect.as_bytes()).await?;
            head(&mut stream).await?;
        }
        let name = name.to_owned().try_into()?;
        Ok(self.client.connect(name, stream).await?)
    }

    fn request(&self, path: &str, name: &str) -> String {
        let at = format!("{name}:{}", self.secure.port());
        format!("GET {path} HTTP/1.1\r\nHost: {at}\r\n\r\n")
    }

    async fn small(&self) -> Result<(), Fault> {
        let at = format!("{CLOSED}:{}", self.plain.port());
        let (direct, proxied) = (
            format!("GET /100 HTTP/1.1\r\nHost: {at}\r\n\r\n"),
            format!("GET http://{at}/100 HTTP/1.1\r\nHost: {at}\r\n\r\n"),
        );
        let mut streams = (
            self.connect(CLOSED, false).await?,
            self.connect(CLOSED, true).await?,
            self.connect(OPENED, true).await?,
            TcpStream::connect(self.plain).await?,
            TcpStream::connect(self.proxy).await?,
        );
        let (closed, opened) = (self.request("/100", CLOSED), self.request("/100", OPENED));
        for at in 0..=SMALL {
            let line = [
                ask(&mut streams.0, &closed).await?,
                ask(&mut streams.1, &closed).await?,
                ask(&mut streams.2, &opened).await?,
                ask(&mut streams.3, &direct).await?,
                ask(&mut streams.4, &proxied).await?,
            ];
            // The first of each opens what the others use.
            if at > 0 {
                println!("small{}", written(&line));
            }
        }
        Ok(())
    }

    async fn large(&self, bytes: usize) -> Result<(), Fault> {
        let path = format!("/{bytes}");
        let (closed, opened) = (self.request(&path, CLOSED), self.request(&path, OPENED));
        let lines = [
            took(ask(&mut self.connect(CLOSED, false).await?, &closed)).await?,
            took(ask(&mut self.connect(CLOSED, true).await?, &closed)).await?,
            took(ask(&mut self.connect(OPENED, true).await?, &opened)).await?,
        ];
        println!("large{}", written(&lines.map(|(time, _)| time)));
        println!("spent{}", written(&lines.map(|(_, spent)| spent)));
        Ok(())
    }
}

/// Returns how long a download took, and how long processors were at work meanwhile.
async fn took(
    asked: impl Future<Output = Result<Duration, Fault>>,
) -> Result<(Duration, Duration), Fault> {
    let before = processor();
    let time = asked.await?;
    Ok((time, processor() - before))
}

/// Returns how long processors have been at work for this process.
fn processor() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let nanoseconds = Duration::from_nanos(time.tv_nsec.unsigned_abs());
    Duration::from_secs(time.tv_sec.unsigned_abs()) + nanoseconds
}

fn written(times: &[Duration]) -> String {
    let text = |time: &Duration| format!(" {:.4}", time.as_secs_f64() * 1e3);
    times.iter().map(text).collect()
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// Sends a request and reads its response to the end; returns how long that took.
async fn ask(stream: &mut impl Stream, request: &str) -> Result<Duration, Fault> {
    let begun = Instant::now();
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let (head, early) = head(stream).await?;
    let chunked = head.contains("transfer-encoding: chunked");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut buffer = vec![0; 256 << 10];
    let mut seen = early.len();
    let mut last = early;
    while if chunked {
        !last.ends_with(b"\r\n0\r\n\r\n")
    } else {
        seen < length
    } {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Err(format!("ended after {seen} bytes of `{head}`").into());
        }
        seen += count;
        if chunked {
            let from = count.saturating_sub(16);
            last.extend_from_slice(buffer.get(from..count).unwrap_or_default());
            last.drain(..last.len().saturating_sub(16));
        }
    }
    Ok(begun.elapsed())
}

/// Reads a head; returns it with what came behind it.
async fn head(stream: &mut impl Stream) -> Result<(String, Vec<u8>), Fault> {
    let mut bytes = Vec::with_capacity(4_096);
    loop {
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n");
        if let Some(end) = end {
            let rest = bytes.split_off(end + 4);
            return Ok((String::from_utf8(bytes)?, rest));
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err("ended in a head".into());
        }
    }
}

/// Starts a host that sends as many bytes as the path says.
async fn serve(tls: Option<TlsAcceptor>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tls = tls.clone();
            tokio::spawn(async move {
                // A client that is through closes.
                drop(stream.set_nodelay(true));
                match tls {
                    None => drop(answer(stream).await),
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            drop(answer(stream).await);
                        }
                    }
                }
            });
        }
    });
    Ok(address)
}

async fn answer(mut stream: impl Stream) -> Result<(), Fault> {
    let piece: Vec<u8> = (0..128 << 10_u32).map(|at| (at % 251) as u8).collect();
    loop {
        let (head, _) = head(&mut stream).await?;
        let path = head.split(' ').nth(1).unwrap_or_default();
        let mut left: usize = path.trim_start_matches('/').parse()?;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {left}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        while left > 0 {
            let count = left.min(piece.len());
            stream
                .write_all(piece.get(..count).unwrap_or_default())
                .await?;
            left -= count;
        }
        stream.flush().await?;
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// One credential, of twenty bytes.
#[derive(Debug)]
struct One(Arc<[Held]>);

impl One {
    fn new() -> Result<Self, Fault> {
        Ok(Self(Arc::new([Held {
            credential: "vcrd_1".to_owned(),
            vault: None,
            hosts: Hosts::These(vec![OPENED.parse()?]),
            way: Way::Swap {
                variable: "KEY".to_owned(),
                placeholder: "outlast_placeholder_0123456789abcdef0123456789abcdef".to_owned(),
                secret: "0f3a9c77e1b2d4586a90".into(),
                header: true,
                body: true,
            },
        }])))
    }
}

#[async_trait]
impl Credentials for One {
    async fn of(&self, _bound: &Bound) -> Result<Arc<[Held]>, Unreadable> {
        Ok(self.0.clone())
    }

    fn seed(&self, _life: IncarnationId) -> Option<Zeroizing<[u8; 32]>> {
        Some(Zeroizing::new([7; 32]))
    }
}

#[derive(Debug)]
struct Loopback;

#[async_trait]
impl Resolver for Loopback {
    async fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

#[derive(Debug)]
struct Ones;

impl Entropy for Ones {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(1);
    }
}

fn bound() -> Bound {
    let at = Micros(1_000_000);
    Bound {
        session: SessionId::mint(at, &Ones),
        incarnation: IncarnationId::mint(at, &Ones),
        environment: EnvironmentId::mint(at, &Ones),
        networking: Networking::Unrestricted,
        vaults: Vec::new(),
        repositories: Vec::new(),
        mcp_hosts: Vec::new(),
    }
}
