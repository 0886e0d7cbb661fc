//! `outlast torture`: a storm of kills against a server of its own, and what came of it.

mod client;
mod database;
mod ear;
mod judge;
mod killer;
mod logs;
mod place;
mod processes;
mod random;
mod reader;
mod remains;
mod report;
mod resume;
mod role;
mod sdk;
mod server;
mod storm;
mod told;

use std::path::PathBuf;

use clap::{Args, value_parser};
use outlast_protocol::seam::Entropy as _;
use tokio_util::sync::CancellationToken;

use self::{
    database::{Choice, Database},
    killer::{Killer, Victim},
    place::Place,
    random::Random,
    remains::remains,
    report::Report,
    server::Server,
    storm::Storm,
};
use super::{
    console::{Console, Tone},
    failure::{Exit, Failure},
    serve::Signals,
};
use crate::{OsEntropy, config::Loaded};

#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// Make the throw-away folder in this one: its disk is tortured [default: beside the data
    /// directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep the sessions in this Postgres, in a database that is made for the storm and dropped
    /// after it; without a value in the configured one
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    database_url: Option<String>,
    /// Start a Postgres for the storm by the programs installed here, and kill that too
    #[arg(long, conflicts_with = "database_url")]
    own_postgres: bool,
    /// Sessions at work at once
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u32).range(1..=10_000))]
    sessions: u32,
    /// Processes to kill
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(0..=100_000))]
    kills: u32,
    /// Readers that are cut off again and again
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u32).range(0..=10_000))]
    readers: u32,
    /// Kill these alone; parted by commas, or said several times [default: all there are]
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    victims: Vec<Victim>,
    /// Seconds over which the kills are spread
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// What decides who is killed when, and what is sent; drawn and printed if it is not said
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Leave the throw-away folder where it is
    #[arg(long)]
    keep: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

/// How large a storm is.
#[derive(Clone, Debug)]
struct Bounds {
    sessions: usize,
    kills: usize,
    readers: usize,
    seconds: u64,
    seed: u64,
    /// Kinds that are killed alone; all if there are none.
    victims: Vec<Victim>,
}

impl Arguments {
    fn bounds(&self) -> Bounds {
        let size = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Bounds {
            sessions: size(self.sessions),
            kills: size(self.kills),
            readers: size(self.readers),
            seconds: u64::from(self.seconds),
            victims: self.victims.clone(),
            seed: self.seed.unwrap_or_else(drawn),
        }
    }

    fn choice(&self, loaded: &Loaded) -> Result<Choice, Failure> {
        match self.database_url.as_deref() {
            _ if self.own_postgres => Ok(Choice::Own),
            None => Ok(Choice::File),
            Some("") => match loaded.config.database.url() {
                Some(url) => Ok(Choice::At(url.to_owned())),
                None => Err(Failure::say(Exit::Usage, "no `database.url` is configured")
                    .hint("--database-url names a Postgres")),
            },
            Some(url) => Ok(Choice::At(url.to_owned())),
        }
    }
}

pub(super) async fn run(
    arguments: Arguments,
    loaded: &Loaded,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    let (bounds, choice) = (arguments.bounds(), arguments.choice(loaded)?);
    let mut place = Place::make(arguments.dir.as_deref(), &loaded.data_dir)?;
    if arguments.keep {
        place.keep();
    }
    let report = {
        let stop = CancellationToken::new();
        let played = play(&bounds, &choice, &place, loaded, &stop, console);
        tokio::pin!(played);
        tokio::select! {
            report = &mut played => report,
            () = signals.next() => {
                stop.cancel();
                // What was started is ended before anything else.
                played.await
            }
        }
    };
    match report {
        Ok(Some(report)) => conclude(&report, arguments.json, &mut place, console),
        Ok(None) => Ok(Exit::Interrupted),
        Err(failure) => {
            place.keep();
            let at = place.dir.display();
            console.note(Tone::Plain, &format!("what is left of it is in {at}"))?;
            Err(failure)
        }
    }
}

/// Plays a storm, and drops the database that was made for it.
async fn play(
    bounds: &Bounds,
    choice: &Choice,
    place: &Place,
    loaded: &Loaded,
    stop: &CancellationToken,
    console: &mut Console,
) -> Result<Option<Report>, Failure> {
    let http = http()?;
    let mut database = Database::make(choice, place).await?;
    let kinds = match kinds(&bounds.victims, &database) {
        Ok(kinds) => kinds,
        Err(failure) => {
            drop(database.remove().await);
            return Err(failure);
        }
    };
    let url = database.url().map(str::to_owned);
    let started = Server::start(place, &loaded.config, url.as_deref(), bounds.sessions);
    let (report, mut database) = match started {
        Ok(server) => {
            let random = Random::new(bounds.seed, "kills");
            let storm = Storm {
                bounds: bounds.clone(),
                dir: place.dir.clone(),
                data: place.data(),
                killer: Killer::new(server, database, kinds, place.data(), random),
                http,
            };
            Box::pin(storm.play(stop, console)).await
        }
        Err(error) => (Err(error.into()), database),
    };
    let removed = database.remove().await;
    drop(database);
    let mut report = report?;
    if let Some(report) = &mut report {
        console.wait("looking for what is left");
        report.violations.extend(removed.err());
        let left = remains(&place.dir, &report.hands).await;
        report.violations.extend(left);
        console.quiet();
    }
    Ok(report)
}

/// Returns what is to be killed, each as often as it is to be drawn.
fn kinds(wanted: &[Victim], database: &Database) -> Result<Vec<Victim>, Failure> {
    let mut kinds = database.victims();
    if let Some(absent) = wanted.iter().find(|kind| !kinds.contains(kind)) {
        let words = format!("--victims: there is no {} to be killed", absent.word());
        return Err(Failure::say(Exit::Usage, words));
    }
    kinds.retain(|kind| wanted.is_empty() || wanted.contains(kind));
    Ok(kinds)
}

fn conclude(
    report: &Report,
    json: bool,
    place: &mut Place,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let broken = !report.violations.is_empty();
    if broken {
        place.keep();
    }
    if json {
        let text = serde_json::to_string(report);
        console.line(&text.map_err(|error| Failure::new(Exit::Failed, error))?)?;
    } else {
        console.write(&report.text())?;
    }
    Ok(if broken { Exit::Failed } else { Exit::Done })
}

/// Makes what all clients of a storm send by.
fn http() -> Result<reqwest::Client, Failure> {
    let built = reqwest::Client::builder().no_proxy().build();
    built.map_err(|error| Failure::new(Exit::Failed, error))
}

fn drawn() -> u64 {
    let mut bytes = [0; 4];
    OsEntropy.fill(&mut bytes);
    u64::from(u32::from_be_bytes(bytes))
}
