//! Many clients at once, each with a connection and sessions of its own.

use std::net::SocketAddr;

use anyhow::Result;
use bytes::Bytes;
use tokio::{
    task::JoinSet,
    time::{Duration, Instant},
};

use crate::{
    api::{Client, interrupts, message},
    model::Ask,
    stats::Samples,
};

/// Appends to one session, so that what waits in it stays short.
const EACH: usize = 20;

/// Bytes of a message.
const BODY: usize = 1_024;

/// What everybody sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A message of one kilobyte.
    Messages,
    /// An interrupt, where nothing runs.
    Interrupts,
    /// A question that no session has to answer.
    Health,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Ran {
    /// How many requests there were.
    pub(super) count: f64,
    /// Requests a second.
    pub(super) rate: f64,
    /// How long each client waited for each answer, in milliseconds.
    pub(super) waits: Samples,
}

/// One of them.
#[derive(Debug)]
struct Writer {
    client: Client,
    sessions: Vec<String>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Crowd {
    writers: Vec<Writer>,
    sessions: usize,
}

impl Crowd {
    /// Connects them.
    pub(super) async fn open(
        client: &Client,
        address: SocketAddr,
        writers: usize,
        sessions: usize,
    ) -> Result<Self> {
        let mut all = Vec::with_capacity(writers);
        for _ in 0..writers {
            all.push(Writer {
                client: client.again(address).await?,
                sessions: Vec::new(),
            });
        }
        Ok(Self {
            writers: all,
            sessions,
        })
    }

    /// Returns how many requests each of them sends in a run.
    pub(super) fn each_sends(&self) -> usize {
        self.sessions * EACH
    }

    /// Gives each of them fresh sessions.
    pub(super) async fn prepare(&mut self) -> Result<()> {
        let sessions = self.sessions;
        self.each(move |mut writer| async move {
            writer.sessions.clear();
            for _ in 0..sessions {
                writer.sessions.push(writer.client.session().await?);
            }
            Ok((writer, ()))
        })
        .await
        .map(drop)
    }

    /// Has all of them send as fast as they are answered.
    pub(super) async fn run(&mut self, what: What) -> Result<Ran> {
        let events = match what {
            What::Messages => message(Ask::Say, BODY),
            What::Interrupts => interrupts(1),
            What::Health => Bytes::new(),
        };
        let begun = Instant::now();
        let all = self
            .each(move |writer| send(writer, what, events.clone()))
            .await?;
        let took = begun.elapsed();
        let mut waits = Samples::default();
        for one in all {
            for time in one {
                waits.push_ms(time);
            }
        }
        let count = f64::from(u32::try_from(waits.len())?);
        Ok(Ran {
            count,
            rate: count / took.as_secs_f64(),
            waits,
        })
    }

    /// Runs something with each of them, all at once.
    async fn each<T, W>(&mut self, work: impl Fn(Writer) -> W) -> Result<Vec<T>>
    where
        T: Send + 'static,
        W: Future<Output = Result<(Writer, T)>> + Send + 'static,
    {
        let mut running = JoinSet::new();
        for writer in self.writers.drain(..) {
            running.spawn(work(writer));
        }
        let mut found = Vec::new();
        while let Some(done) = running.join_next().await {
            let (writer, one) = done??;
            self.writers.push(writer);
            found.push(one);
        }
        Ok(found)
    }
}

async fn send(mut writer: Writer, what: What, events: Bytes) -> Result<(Writer, Vec<Duration>)> {
    let mut waits = Vec::with_capacity(writer.sessions.len() * EACH);
    for session in &writer.sessions {
        for _ in 0..EACH {
            let begun = Instant::now();
            match what {
                What::Messages | What::Interrupts => {
                    writer.client.send(session, events.clone()).await?;
                }
                What::Health => writer.client.health().await?,
            }
            waits.push(begun.elapsed());
        }
    }
    Ok((writer, waits))
}
