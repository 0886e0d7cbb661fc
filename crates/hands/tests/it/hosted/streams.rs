//! What goes into a hand and comes out of it, carried.

use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    sync::{Arc, LazyLock, Mutex},
    task::{Context, Poll},
};

use async_trait::async_trait;
use outlast_hands::{
    Hand, Keep, Limits, ProvisionError, Provisioner, ReapError, Recalled, Recipe,
    fake::Fakes,
    files::{Abilities, Packed, Published, Reader, Sum, Upload},
    host::Place,
};
use outlast_protocol::id::{EventId, IncarnationId};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

use super::{LONG, Running, fakes, options, remote};
use crate::support::incarnation;

/// As large as a stream must be to be sure that nobody holds it in memory by accident.
const LARGE: u64 = 200 << 20;

/// Gives bytes that depend on their position, and fails at its end if it is to.
struct Pattern {
    at: u64,
    end: u64,
    fails: bool,
}

impl AsyncRead for Pattern {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.at == self.end && self.fails {
            return Poll::Ready(Err(io::Error::other("the disk is on fire")));
        }
        let room = (self.end - self.at).min(buffer.remaining() as u64);
        let mut room = usize::try_from(room).unwrap();
        while room > 0 {
            let part = at(self.at);
            let part = &part[..part.len().min(room)];
            buffer.put_slice(part);
            self.at += part.len() as u64;
            room -= part.len();
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the bytes from a position on, as many as are at hand; they repeat after a prime number.
fn at(position: u64) -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let bytes = (0_u64..65_521).map(|at| (at ^ (at >> 8)).to_le_bytes()[0]);
        bytes.collect()
    });
    &BYTES[usize::try_from(position % 65_521).unwrap()..]
}

fn pattern(end: u64) -> Reader {
    let (at, fails) = (0, false);
    Box::pin(Pattern { at, end, fails })
}

fn failing(end: u64) -> Reader {
    let (at, fails) = (0, true);
    Box::pin(Pattern { at, end, fails })
}

/// Reads to the end; returns how much it was, which must be the pattern.
async fn check(mut content: Reader) -> io::Result<u64> {
    let (mut at, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        let read = content.read(&mut buffer).await?;
        if read == 0 {
            return Ok(at);
        }
        let mut found = &buffer[..read];
        while !found.is_empty() {
            let wanted = self::at(at);
            let length = wanted.len().min(found.len());
            assert!(found[..length] == wanted[..length], "at {at}");
            at += length as u64;
            found = &found[length..];
        }
    }
}

/// A driver that has files and layers, as far as they are carried.
#[derive(Debug)]
struct Full {
    hands: Fakes,
    restored: Mutex<Vec<(Sum, u64)>>,
    placed: Mutex<BTreeMap<String, Upload>>,
}

fn sum(bytes: u64) -> Sum {
    Sum {
        entries: 3,
        bytes,
        digest: "d".repeat(64),
    }
}

fn bounds() -> Limits {
    Limits {
        disk_bytes: 12_345,
        ..Limits::default()
    }
}

#[async_trait]
impl Provisioner for Full {
    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }

    async fn provision(&self, recipe: &Recipe) -> Result<Arc<dyn Hand>, ProvisionError> {
        self.hands.provision(recipe).await
    }

    async fn find(&self, incarnation: IncarnationId) -> Option<Arc<dyn Hand>> {
        self.hands.find(incarnation).await
    }

    async fn recall(&self, incarnation: IncarnationId, call: EventId) -> Recalled {
        self.hands.recall(incarnation, call).await
    }

    async fn reap(&self, incarnation: IncarnationId, keep: Keep) -> Result<(), ReapError> {
        self.hands.reap(incarnation, keep).await
    }

    async fn list(&self) -> Vec<IncarnationId> {
        self.hands.list().await
    }

    async fn holds(&self, _: IncarnationId) -> io::Result<bool> {
        Ok(true)
    }

    async fn checkpoint(&self, _: IncarnationId) -> io::Result<Packed> {
        let (sum, content) = (sum(LARGE), pattern(LARGE));
        Ok(Packed { sum, content })
    }

    async fn restore(&self, _: IncarnationId, limits: &Limits, packed: Packed) -> io::Result<()> {
        assert_eq!(*limits, bounds());
        let sum = packed.sum.clone();
        if sum.entries == 0 {
            // Refused before any of it was read.
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it lives"));
        }
        let bytes = check(packed.content).await?;
        self.restored.lock().unwrap().push((sum, bytes));
        Ok(())
    }

    async fn place(&self, _: IncarnationId, upload: &Upload, content: Reader) -> io::Result<()> {
        if upload.path.starts_with("..") {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not below"));
        }
        let bytes = check(content).await?;
        assert_eq!(bytes, upload.bytes);
        let mut placed = self.placed.lock().unwrap();
        placed.insert(upload.path.clone(), upload.clone());
        Ok(())
    }

    async fn unplace(&self, _: IncarnationId, path: &str) -> io::Result<()> {
        self.placed.lock().unwrap().remove(path);
        Ok(())
    }

    async fn uploads(&self, _: IncarnationId) -> io::Result<Vec<Upload>> {
        Ok(self.placed.lock().unwrap().values().cloned().collect())
    }

    async fn outputs(&self, _: IncarnationId) -> io::Result<Vec<Published>> {
        let published = Published {
            path: "a/\u{fc} b".to_owned(),
            bytes: 5,
            version: "7-9".to_owned(),
        };
        Ok(vec![published])
    }

    async fn output(&self, _: IncarnationId, path: &str) -> io::Result<Reader> {
        match path {
            "a/\u{fc} b" => Ok(pattern(5)),
            "broken" => Ok(failing(1 << 20)),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such output")),
        }
    }
}

fn full() -> Arc<Full> {
    Arc::new(Full {
        hands: fakes(),
        restored: Mutex::default(),
        placed: Mutex::default(),
    })
}

/// Returns the largest amount of memory that this process ever had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    let kib = line.split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread")]
async fn layers_are_carried_both_ways_and_not_held_in_memory() {
    let (dir, driver) = (tempfile::tempdir().unwrap(), full());
    let host = Running::start(Place::usual(dir.path()), driver.clone(), options(LONG));
    let remote = remote(dir.path()).await;
    let hand = incarnation();
    let before = peak();
    assert!(remote.holds(hand).await.unwrap());
    let packed = remote.checkpoint(hand).await.unwrap();
    assert_eq!(packed.sum, sum(LARGE));
    assert_eq!(check(packed.content).await.unwrap(), LARGE);
    let (content, packed) = (pattern(LARGE), sum(LARGE));
    let packed = Packed {
        sum: packed,
        content,
    };
    remote.restore(hand, &bounds(), packed).await.unwrap();
    assert_eq!(*driver.restored.lock().unwrap(), [(sum(LARGE), LARGE)]);
    let grown = peak() - before;
    assert!(grown < LARGE / 4, "{grown} bytes");
    // What fails here or there is told, and nothing is taken for whole.
    let content = failing(3 << 20);
    let broken = Packed {
        sum: sum(1),
        content,
    };
    let error = remote.restore(hand, &bounds(), broken).await.unwrap_err();
    assert!(error.to_string().contains("on fire"), "{error}");
    assert_eq!(driver.restored.lock().unwrap().len(), 1);
    let content = pattern(LARGE);
    let refused = Packed {
        sum: Sum {
            entries: 0,
            ..sum(1)
        },
        content,
    };
    let error = remote.restore(hand, &bounds(), refused).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{error}");
    host.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_carried_under_any_name() {
    let (dir, driver) = (tempfile::tempdir().unwrap(), full());
    let host = Running::start(Place::usual(dir.path()), driver.clone(), options(LONG));
    let remote = remote(dir.path()).await;
    let hand = incarnation();
    let paths = [
        "plain.txt",
        "deep/er/file",
        "\u{e4} \u{1f600}",
        "a%2Fb?c#d&e=f+g",
        "line\nbreak",
        "\u{7f}",
    ];
    let mut uploads: Vec<_> = paths
        .iter()
        .zip(0_u64..)
        .map(|(path, number)| Upload {
            path: (*path).to_owned(),
            id: format!("file_{number}&\u{e4}"),
            bytes: number * 100_000,
        })
        .collect();
    for upload in &uploads {
        let content = pattern(upload.bytes);
        remote.place(hand, upload, content).await.unwrap();
    }
    uploads.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(remote.uploads(hand).await.unwrap(), uploads);
    for path in paths {
        remote.unplace(hand, path).await.unwrap();
    }
    assert_eq!(remote.uploads(hand).await.unwrap(), []);
    let refuse = async |path: &str| {
        let upload = Upload {
            path: path.to_owned(),
            id: "x".to_owned(),
            bytes: 9 << 20,
        };
        let refused = remote.place(hand, &upload, pattern(9 << 20)).await;
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    };
    refuse("").await;
    refuse("../up").await;
    let listed = remote.outputs(hand).await.unwrap();
    let content = remote.output(hand, &listed[0].path).await.unwrap();
    assert_eq!(check(content).await.unwrap(), listed[0].bytes);
    let missing = remote.output(hand, "nothing").await.err().unwrap();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let broken = remote.output(hand, "broken").await.unwrap();
    check(broken).await.unwrap_err();
    host.stop();
}
