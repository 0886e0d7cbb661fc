//! Kills random processes at random moments.

use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;
use outlast_protocol::{Micros, id::IncarnationId, seam::Clock as _};
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{database::Database, processes, random::Random, server::Server};
use crate::SystemClock;

/// How often it is looked whether the server has ended by itself.
const LOOK: Duration = Duration::from_millis(100);

/// How long a database server may take from its death until it can be used.
const RECOVERY: Duration = Duration::from_secs(60);

/// Tries to find a victim of the kind that was drawn, before another kind is.
const TRIES: u32 = 20;

/// What is killed.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum Victim {
    /// The server
    Server,
    /// The process that sandboxes live in
    HandHost,
    /// The first process of a sandbox
    Sandbox,
    /// Sessions of the database, of a Postgres
    Backends,
    /// The database server, with --own-postgres
    Database,
}

impl Victim {
    /// Returns the word that people read.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::HandHost => "hand host",
            Self::Sandbox => "sandbox",
            Self::Backends => "database sessions",
            Self::Database => "database",
        }
    }

    /// Tells whether calls may be lost with it.
    pub(super) fn has_calls(self) -> bool {
        matches!(self, Self::HandHost | Self::Sandbox)
    }
}

/// One kill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kill {
    pub(super) victim: Victim,
    pub(super) at: Micros,
    /// The sandbox that was killed, where that can be told.
    pub(super) hand: Option<IncarnationId>,
    /// How long a database server was away: from its death until it answered again.
    pub(super) away: Option<Duration>,
}

/// What a killer did and saw.
#[derive(Debug, Default)]
pub(super) struct Killed {
    pub(super) kills: Vec<Kill>,
    /// What it did not do: endings of the server by itself, and failures to kill.
    pub(super) wrong: Vec<String>,
}

/// Whoever kills has what can be killed.
#[derive(Debug)]
pub(super) struct Killer {
    pub(super) server: Server,
    pub(super) database: Database,
    pub(super) data: PathBuf,
    pub(super) random: Random,
    /// Each kind as often as it is to be drawn.
    kinds: Vec<Victim>,
    deck: Vec<Victim>,
    killed: Killed,
}

impl Killer {
    pub(super) fn new(
        server: Server,
        database: Database,
        kinds: Vec<Victim>,
        data: PathBuf,
        random: Random,
    ) -> Self {
        Self {
            kinds,
            server,
            database,
            data,
            random,
            deck: Vec::new(),
            killed: Killed::default(),
        }
    }

    /// Kills so many times within a time, unless it is told to stop; calls `told` after each.
    pub(super) async fn rage(
        &mut self,
        kills: usize,
        time: Duration,
        stop: &CancellationToken,
        mut told: impl FnMut(usize),
    ) {
        let begin = Instant::now();
        let mut moments: Vec<_> = (0..kills).map(|_| self.random.time(time)).collect();
        moments.sort_unstable();
        for moment in moments {
            if !self.watch(begin + moment, stop).await {
                return;
            }
            self.kill_one().await;
            told(self.killed.kills.len());
        }
        self.watch(begin + time, stop).await;
    }

    /// Waits, and starts the server again if it ends by itself; tells whether to go on.
    pub(super) async fn watch(&mut self, until: Instant, stop: &CancellationToken) -> bool {
        loop {
            match self.server.revive() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    let words = self.server.last_words();
                    if !self.found_no_database(&words) {
                        let wrong = format!("the server ended by itself ({status}): {words}");
                        self.killed.wrong.push(wrong);
                    }
                }
                Err(error) => self
                    .killed
                    .wrong
                    .push(format!("the server is lost: {error}")),
            }
            let next = until.min(Instant::now() + LOOK);
            tokio::select! {
                () = sleep_until(next) => {}
                () = stop.cancelled() => return false,
            }
            if Instant::now() >= until {
                return true;
            }
        }
    }

    /// Tells whether a server that was just started ended because the database was being started
    /// too; it is for a supervisor to start it again.
    fn found_no_database(&self, words: &str) -> bool {
        let now = SystemClock::new().now();
        let mut kills = self.killed.kills.iter().rev();
        let killed = kills.find(|kill| kill.victim == Victim::Database);
        killed.is_some_and(|kill| now.since(kill.at) < RECOVERY)
            && words.contains("the database cannot be")
    }

    /// Returns what was done, and leaves the rest to whoever ends the storm.
    pub(super) fn done(self) -> (Server, Database, Killed) {
        (self.server, self.database, self.killed)
    }

    async fn kill_one(&mut self) {
        loop {
            let victim = self.draw();
            for _ in 0..TRIES {
                let (at, began) = (SystemClock::new().now(), Instant::now());
                match self.kill(victim).await {
                    Ok(Some(hand)) => {
                        let away = (victim == Victim::Database).then(|| began.elapsed());
                        let kill = Kill {
                            victim,
                            at,
                            hand,
                            away,
                        };
                        self.killed.kills.push(kill);
                        return;
                    }
                    Ok(None) => sleep(LOOK).await,
                    Err(why) => {
                        let wrong = format!("the {} cannot be killed: {why}", victim.word());
                        self.killed.wrong.push(wrong);
                        return;
                    }
                }
            }
        }
    }

    /// Kills one; `None` if there is nobody of that kind now.
    async fn kill(&mut self, victim: Victim) -> Result<Option<Option<IncarnationId>>, String> {
        let words = |error: std::io::Error| error.to_string();
        match victim {
            Victim::Server => self.server.kill().await.map_err(words)?,
            Victim::HandHost => {
                let Some(host) = processes::hand_host(&self.data) else {
                    return Ok(None);
                };
                let still = || processes::hand_host(&self.data) == Some(host);
                if !processes::kill(host, still).map_err(words)? {
                    return Ok(None);
                }
            }
            Victim::Sandbox => {
                let inits = processes::inits(&self.data);
                let Some(init) = self.random.one(&inits).copied() else {
                    return Ok(None);
                };
                let hand = processes::hand_of(init);
                let still = || processes::inits(&self.data).contains(&init);
                let killed = processes::kill(init, still).map_err(words)?;
                return Ok(killed.then_some(hand));
            }
            Victim::Backends => {
                let ended = self.database.end_sessions().await?;
                return Ok((ended > 0).then_some(None));
            }
            Victim::Database => self.database.kill().await?,
        }
        Ok(Some(None))
    }

    /// Draws a kind, each as often as it is in the deck.
    fn draw(&mut self) -> Victim {
        if self.deck.is_empty() {
            self.deck.clone_from(&self.kinds);
        }
        let at = self
            .random
            .below(u64::try_from(self.deck.len()).unwrap_or(1));
        let at = usize::try_from(at).unwrap_or(0);
        // The deck is never empty here.
        self.deck.swap_remove(at)
    }
}
