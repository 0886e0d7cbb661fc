//! Passes on all that two sockets say to each other, as it is.
//!
//! `splice` would spare both copies. Measured over loopback it took more of the processors' time than they do.

use std::{
    io,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ::metrics::Counter;
use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    time::{Instant, sleep_until, timeout},
};

use super::options::{BUFFER, FIRST, QUIET};
use crate::metric_definitions as metrics;

/// Relays both ways until both sides are through, or nothing passed for so long; `early` was read before.
///
/// # Errors
///
/// If one of them breaks off, which ends both ways, or at a silence.
pub(crate) async fn relay(
    early: BytesMut,
    mut client: TcpStream,
    mut host: TcpStream,
    most: Duration,
) -> io::Result<()> {
    let passed = Passed(Mutex::new(Instant::now()));
    let ((from_client, to_client), (from_host, to_host)) = (client.split(), host.split());
    let way = |from, to, direction| Way {
        from,
        to,
        passed: &passed,
        bytes: ::metrics::counter!(metrics::BYTES, "direction" => direction),
    };
    let (out, back) = (
        way(from_client, to_host, "out"),
        way(from_host, to_client, "in"),
    );
    tokio::select! {
        biased;
        ended = async { futures::try_join!(out.carry(early), back.carry(BytesMut::new())) } => ended.map(drop),
        () = passed.silence(most) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// When something passed last, in whichever direction.
struct Passed(Mutex<Instant>);

impl Passed {
    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Waits until nothing has passed for so long.
    async fn silence(&self, most: Duration) {
        loop {
            let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner) + most;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// One direction.
struct Way<'s> {
    from: ReadHalf<'s>,
    to: WriteHalf<'s>,
    passed: &'s Passed,
    bytes: Counter,
}

impl Way<'_> {
    /// Carries all that comes, and the end of it.
    async fn carry(mut self, early: BytesMut) -> io::Result<()> {
        self.give(&early).await?;
        drop(early);
        loop {
            // A tunnel that rests holds no memory.
            self.from.readable().await?;
            if self.carry_on().await? {
                return self.to.shutdown().await;
            }
        }
    }

    /// Carries what comes until nothing does for a while; tells whether that was all.
    async fn carry_on(&mut self) -> io::Result<bool> {
        let mut bytes = Vec::with_capacity(FIRST);
        while let Ok(read) = timeout(QUIET, self.from.read_buf(&mut bytes)).await {
            if read? == 0 {
                return Ok(true);
            }
            self.give(&bytes).await?;
            if bytes.len() == bytes.capacity() && bytes.capacity() < BUFFER {
                bytes = Vec::with_capacity(BUFFER);
            }
            bytes.clear();
        }
        Ok(false)
    }

    async fn give(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.to.write(bytes).await?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.passed.note();
            self.bytes
                .increment(u64::try_from(count).unwrap_or(u64::MAX));
            bytes = bytes.get(count..).unwrap_or_default();
        }
        Ok(())
    }
}
