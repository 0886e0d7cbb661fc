//! Much through tunnels that stay closed: all of it, in order, to its end, and no further than it is taken.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use outlast_egress::hand::Network as _;
use outlast_protocol::environment::Networking;
use rustix::net::sockopt::set_socket_linger;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::{
    scene::{Scene, open},
    upstream::Host,
};

/// More than one buffer holds.
const MUCH: usize = 24 << 20;

/// The longest that anything takes here.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes in which a shift shows.
fn bytes(count: usize) -> Vec<u8> {
    // As many as no buffer has.
    let word = |at: u32| at.wrapping_mul(0x9e37_79b1).to_be_bytes();
    let block: Vec<u8> = (0..10_007).flat_map(word).collect();
    let mut bytes = block.repeat(count.div_ceil(block.len()));
    bytes.truncate(count);
    bytes
}

async fn scene() -> Scene {
    Scene::start(Networking::Unrestricted, open()).await
}

async fn tunnel(scene: &Scene, host: &Host) -> TcpStream {
    let at = format!("a.example:{}", host.port());
    let mut stream = TcpStream::connect(scene.proxy).await.unwrap();
    let head = format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // Not a byte further: the host may speak first.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
    stream
}

/// Reads to the end; a reset is one.
async fn to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut came = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut came)).await;
    drop(read.unwrap());
    came
}

/// Sends an echo something a few times.
async fn there_and_back(stream: &mut TcpStream, piece: &[u8]) {
    for _ in 0..8 {
        let mut came = vec![0; piece.len()];
        let (mut read, mut write) = stream.split();
        let (sent, read) = tokio::join!(write.write_all(piece), read.read_exact(&mut came));
        sent.and_then(|()| read.map(drop)).unwrap();
        assert!(came == piece);
    }
}

/// A host that takes everything, tells it, and then says how much it was.
async fn listener() -> (Host, mpsc::UnboundedReceiver<Vec<u8>>) {
    let (tell, told) = mpsc::unbounded_channel();
    let host = Host::each(move |mut stream| {
        let tell = tell.clone();
        async move {
            let came = to_end(&mut stream).await;
            drop(stream.write_all(came.len().to_string().as_bytes()).await);
            drop(tell.send(came));
        }
    });
    (host.await, told)
}

#[tokio::test]
async fn both_directions_pass_at_once() {
    let (scene, host) = (scene().await, Host::echo().await);
    let stream = tunnel(&scene, &host).await;
    let (mut read, mut write) = stream.into_split();
    let sent = bytes(MUCH);
    let send = async {
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut came = Vec::new();
    let both = async { tokio::join!(send, read.read_to_end(&mut came)) };
    timeout(PATIENCE, both).await.unwrap().1.unwrap();
    assert!(came == sent, "{} of {MUCH}", came.len());
}

#[tokio::test]
async fn what_a_client_ends_is_answered() {
    let scene = scene().await;
    let (host, mut told) = listener().await;
    let mut stream = tunnel(&scene, &host).await;
    let sent = bytes(MUCH);
    stream.write_all(&sent).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(to_end(&mut stream).await, MUCH.to_string().as_bytes());
    assert!(told.recv().await.unwrap() == sent);
}

#[tokio::test]
async fn what_a_host_ends_can_be_replied_to() {
    let scene = scene().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let host = Host::each(move |mut stream: TcpStream| {
        let tell = tell.clone();
        async move {
            stream.write_all(&bytes(MUCH)).await.unwrap();
            stream.shutdown().await.unwrap();
            drop(tell.send(to_end(&mut stream).await));
        }
    })
    .await;
    let mut stream = tunnel(&scene, &host).await;
    assert!(to_end(&mut stream).await == bytes(MUCH));
    stream.write_all(&bytes(MUCH)).await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(told.recv().await.unwrap() == bytes(MUCH));
}

#[tokio::test]
async fn much_that_was_sent_with_the_request_comes_first() {
    let scene = scene().await;
    let (host, mut told) = listener().await;
    let (at, sent) = (format!("a.example:{}", host.port()), bytes(MUCH));
    let mut stream = TcpStream::connect(scene.proxy).await.unwrap();
    let head = format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let all = [head.as_bytes(), &sent].concat();
    stream.write_all(&all).await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(told.recv().await.unwrap() == sent);
    let answer = to_end(&mut stream).await;
    assert!(answer.ends_with(format!("\r\n\r\n{MUCH}").as_bytes()));
}

#[tokio::test]
async fn who_does_not_read_holds_up_the_sender_and_loses_nothing() {
    // So many of them fit into no buffers.
    const PIECES: usize = 256;
    let (scene, piece) = (scene().await, bytes(1 << 20));
    let gone = Arc::new(AtomicUsize::new(0));
    let (counted, sent) = (gone.clone(), piece.clone());
    let host = Host::each(move |mut stream: TcpStream| {
        let (counted, sent) = (counted.clone(), sent.clone());
        async move {
            for _ in 0..PIECES {
                stream.write_all(&sent).await.unwrap();
                counted.fetch_add(1, SeqCst);
            }
        }
    })
    .await;
    let mut stream = tunnel(&scene, &host).await;
    let mut before = None;
    while before != Some(gone.load(SeqCst)) {
        before = Some(gone.load(SeqCst));
        sleep(Duration::from_millis(500)).await;
    }
    assert!(
        before < Some(PIECES),
        "all of it was taken, and nobody reads"
    );
    let mut came = vec![0; piece.len()];
    for _ in 0..PIECES {
        stream.read_exact(&mut came).await.unwrap();
        assert!(came == piece);
    }
    assert_eq!(to_end(&mut stream).await, b"");
}

#[tokio::test]
async fn a_revoked_hand_is_cut_in_the_middle() {
    let scene = scene().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let host = Host::each(move |mut stream: TcpStream| {
        let tell = tell.clone();
        async move {
            let piece = bytes(1 << 20);
            while stream.write_all(&piece).await.is_ok() {}
            let _ = tell.send(());
        }
    })
    .await;
    // One that takes all that comes, and one that takes nothing.
    let (mut taking, resting) = (tunnel(&scene, &host).await, tunnel(&scene, &host).await);
    let mut piece = vec![0; 1 << 20];
    taking.read_exact(&mut piece).await.unwrap();
    let taken = async { while taking.read(&mut piece).await.is_ok_and(|count| count > 0) {} };
    let cut = async {
        sleep(Duration::from_millis(200)).await;
        let cut = scene.forwarder.revoke(scene.bound.incarnation);
        timeout(Duration::from_secs(1), cut).await.unwrap();
        // Both hosts see it.
        told.recv().await.unwrap();
        told.recv().await.unwrap();
    };
    let both = async { tokio::join!(taken, cut) };
    timeout(PATIENCE, both).await.unwrap();
    drop(resting);
}

#[tokio::test]
async fn a_reset_of_either_side_ends_the_other() {
    let scene = scene().await;
    let host = Host::each(|mut stream: TcpStream| async move {
        stream.read_exact(&mut vec![0; 1 << 20]).await.unwrap();
        set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    })
    .await;
    let mut stream = tunnel(&scene, &host).await;
    let piece = bytes(1 << 20);
    while stream.write_all(&piece).await.is_ok() {}
    let (host, mut told) = listener().await;
    let mut stream = tunnel(&scene, &host).await;
    stream.write_all(&piece).await.unwrap();
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    let ended = timeout(PATIENCE, told.recv()).await;
    assert!(ended.unwrap().unwrap().len() <= piece.len());
}

#[tokio::test]
async fn a_tunnel_that_rested_goes_on() {
    let (scene, host) = (scene().await, Host::echo().await);
    let mut stream = tunnel(&scene, &host).await;
    for size in [11, MUCH / 8, 20 << 10, 256 << 10, 1] {
        there_and_back(&mut stream, &bytes(size)).await;
        sleep(Duration::from_millis(1_200)).await;
    }
    stream.shutdown().await.unwrap();
    assert_eq!(to_end(&mut stream).await, b"");
}

#[tokio::test]
async fn silence_is_of_both_directions_together() {
    let mut options = open();
    options.idle = Duration::from_millis(400);
    let scene = Scene::start(Networking::Unrestricted, options).await;
    let host = Host::each(|mut stream: TcpStream| async move {
        for _ in 0..8 {
            sleep(Duration::from_millis(150)).await;
            stream.write_all(b"x").await.unwrap();
        }
    })
    .await;
    // Its client says nothing, for longer than a silence may last.
    assert_eq!(to_end(&mut tunnel(&scene, &host).await).await, b"xxxxxxxx");
    let (tell, mut told) = mpsc::unbounded_channel();
    let host = Host::each(move |mut stream: TcpStream| {
        let tell = tell.clone();
        async move {
            let piece = bytes(1 << 20);
            while stream.write_all(&piece).await.is_ok() {}
            let _ = tell.send(());
        }
    })
    .await;
    // Where nothing can pass because nobody reads, nothing passes.
    let deaf = tunnel(&scene, &host).await;
    timeout(PATIENCE, told.recv()).await.unwrap().unwrap();
    drop(deaf);
}
