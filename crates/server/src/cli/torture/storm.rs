//! A storm from its first session to its last look: clients, readers and a killer side by side.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use outlast_protocol::id::SessionId;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Bounds,
    client::{Client, Notes},
    database::Database,
    ear::Ear,
    judge::Judge,
    killer::{Killed, Killer, Victim},
    logs::Logs,
    random::Random,
    reader::Reader,
    report::Report,
    resume::{Times, stood_still},
    role::Role,
    sdk::{Repeats, Sdk, Tally},
    server::Server,
    told::Told,
};
use crate::{
    cli::{
        console::Console,
        failure::{Exit, Failure},
    },
    client,
    hand_host::stop,
};

/// How long clients go on trying while nobody answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often the sign of life is renewed.
const LOOK: Duration = Duration::from_millis(200);

/// What a storm is made of.
pub(super) struct Storm {
    pub(super) bounds: Bounds,
    pub(super) data: PathBuf,
    pub(super) dir: PathBuf,
    pub(super) killer: Killer,
    pub(super) http: reqwest::Client,
}

/// What everybody saw from outside.
struct Outside {
    notes: Vec<Notes>,
    seen: Vec<Reader>,
    killed: Killed,
    stuck: Vec<String>,
    database: Database,
    seconds: f64,
}

/// What clients and readers saw.
#[derive(Default)]
struct Saw {
    notes: Vec<Notes>,
    seen: Vec<Reader>,
    stuck: Vec<String>,
}

impl Storm {
    /// Plays it to its end; there is no report if it was told to stop before.
    pub(super) async fn play(
        self,
        stop_now: &CancellationToken,
        console: &mut Console,
    ) -> (Result<Option<Report>, Failure>, Database) {
        let (bounds, data, dir) = (self.bounds.clone(), self.data.clone(), self.dir.clone());
        let tally = Arc::new(Tally::default());
        let (outside, failed) = self.rage(&tally, stop_now, console).await;
        let report = match failed {
            Some(failure) => Err(failure),
            None if stop_now.is_cancelled() => Ok(None),
            None => {
                console.wait("comparing what everybody saw with the logs");
                let report = judged(&bounds, &dir, &data, &outside, &tally).await;
                report.map(Some)
            }
        };
        console.quiet();
        (report, outside.database)
    }

    /// Has everybody at it, brings it to rest, and ends the server, whatever happened.
    async fn rage(
        mut self,
        tally: &Arc<Tally>,
        stop_now: &CancellationToken,
        console: &mut Console,
    ) -> (Outside, Option<Failure>) {
        let began = Instant::now();
        let played = tokio::select! {
            played = self.everybody(tally, stop_now, console) => played,
            () = stop_now.cancelled() => Ok(Saw::default()),
        };
        let (saw, failed) = match played {
            Ok(saw) => (saw, None),
            Err(failure) => (Saw::default(), Some(failure)),
        };
        console.wait("ending the server");
        let (server, database, mut killed) = self.killer.done();
        ended(server, &self.data, &mut killed).await;
        let outside = Outside {
            notes: saw.notes,
            seen: saw.seen,
            stuck: saw.stuck,
            killed,
            database,
            seconds: began.elapsed().as_secs_f64(),
        };
        (outside, failed)
    }

    async fn everybody(
        &mut self,
        tally: &Arc<Tally>,
        stop_now: &CancellationToken,
        console: &mut Console,
    ) -> Result<Saw, Failure> {
        let plain = self.plain()?;
        console.wait("waiting for the server");
        let agents = self.agents(tally).await?;
        self.probe(&agents, tally, &plain).await?;
        let sessions = self.sessions(&agents, tally).await?;
        let (over, end) = (stop_now.child_token(), stop_now.child_token());
        let mut clients = JoinSet::new();
        for (number, session) in sessions.iter().enumerate() {
            let client = self.client(number, session, tally, plain.clone());
            clients.spawn(client.play(over.clone()));
        }
        let mut readers = JoinSet::new();
        for (number, session) in (0..self.bounds.readers).zip(sessions.iter().cycle()) {
            let random = Random::new(self.bounds.seed, &format!("reader {number}"));
            let reader = Reader::new(session, Ear::new(plain.clone(), session), random);
            readers.spawn(reader.read(plain.clone(), end.clone()));
        }
        let kills = self.bounds.kills;
        let time = Duration::from_secs(self.bounds.seconds);
        let told = |done| console.wait(&format!("{done} of {kills} kills"));
        self.killer.rage(kills, time, stop_now, told).await;
        over.cancel();
        console.wait("bringing every session to rest");
        let notes = self.rest(&mut clients, stop_now).await;
        let stuck = stuck(&plain, &notes).await;
        end.cancel();
        let seen = readers.join_all().await;
        Ok(Saw { notes, seen, stuck })
    }

    /// Has one command run, so that a machine without sandboxes is told so at once.
    async fn probe(
        &self,
        agents: &Agents,
        tally: &Arc<Tally>,
        plain: &client::Client,
    ) -> Result<(), Failure> {
        let number = Role::ALL.iter().position(|role| *role == Role::Calls);
        let session = self.session(number.unwrap_or(0), agents, tally).await?;
        let client = self.client(number.unwrap_or(0), &session, tally, plain.clone());
        client.probe().await.map_err(|why| {
            let words = format!("the storm cannot begin, no command can be run: {why}");
            Failure::say(Exit::Failed, words).hint("`outlast check` says what this host lacks")
        })
    }

    /// Waits for the clients, and looks after the server meanwhile.
    async fn rest(&mut self, clients: &mut JoinSet<Notes>, stop: &CancellationToken) -> Vec<Notes> {
        let mut notes = Vec::new();
        while !clients.is_empty() && !stop.is_cancelled() {
            tokio::select! {
                joined = clients.join_next() => notes.extend(joined.into_iter().flatten()),
                _on = self.killer.watch(Instant::now() + LOOK, stop) => {}
            }
        }
        clients.shutdown().await;
        notes
    }

    fn plain(&self) -> Result<client::Client, Failure> {
        let server = &self.killer.server;
        let plain = client::Client::new(&server.url, Some(&server.key))?;
        Ok(plain.patient(PATIENCE))
    }

    fn sdk(&self, number: usize, tally: &Arc<Tally>) -> Sdk {
        // One interrupt is like another: a count alone cannot tell a repeat from the next one.
        let keyed = number.is_multiple_of(3) || Role::of(number) == Role::Interrupted;
        let repeats = if keyed {
            Repeats::ByKey
        } else {
            Repeats::ByCount
        };
        let server = &self.killer.server;
        let at = (server.url.as_str(), &server.key);
        Sdk::new(self.http.clone(), at, repeats, PATIENCE, tally.clone())
    }

    fn client(
        &self,
        number: usize,
        session: &str,
        tally: &Arc<Tally>,
        plain: client::Client,
    ) -> Client {
        Client {
            sdk: self.sdk(number, tally),
            ear: Ear::new(plain, session),
            role: Role::of(number),
            number,
            random: Random::new(self.bounds.seed, &format!("client {number}")),
            notes: Notes {
                session: session.to_owned(),
                ..Notes::default()
            },
            denies: true,
        }
    }

    /// Makes an environment, and an agent of each role.
    async fn agents(&self, tally: &Arc<Tally>) -> Result<Agents, Failure> {
        let mut random = Random::new(self.bounds.seed, "agents");
        let sdk = self.sdk(0, tally);
        let body = json!({"name": "storm"});
        let environment = made(&sdk, "/v1/environments", &body, &mut random).await?;
        let mut agents = Vec::new();
        for role in Role::ALL {
            let body = json!({"name": "storm", "model": "scripted", "tools": role.tools()});
            agents.push(made(&sdk, "/v1/agents", &body, &mut random).await?);
        }
        Ok(Agents {
            environment,
            agents,
        })
    }

    async fn sessions(&self, agents: &Agents, tally: &Arc<Tally>) -> Result<Vec<String>, Failure> {
        let mut sessions = Vec::new();
        for number in 0..self.bounds.sessions {
            sessions.push(self.session(number, agents, tally).await?);
        }
        Ok(sessions)
    }

    async fn session(
        &self,
        number: usize,
        agents: &Agents,
        tally: &Arc<Tally>,
    ) -> Result<String, Failure> {
        let mut random = Random::new(self.bounds.seed, &format!("session {number}"));
        let agent = agents.agents.get(number % Role::ALL.len());
        let body = json!({"agent": agent, "environment_id": agents.environment});
        made(&self.sdk(number, tally), "/v1/sessions", &body, &mut random).await
    }
}

/// What sessions are made of: the agent of each role.
struct Agents {
    environment: String,
    agents: Vec<String>,
}

/// Makes something, and returns its id.
async fn made(sdk: &Sdk, path: &str, body: &Value, random: &mut Random) -> Result<String, Failure> {
    let made = sdk.post(path, body, random).await;
    let made = made.map_err(|given_up| {
        let words = format!("the storm cannot begin: {path}: {}", given_up.why);
        Failure::say(Exit::Failed, words)
    })?;
    let id = made.get("id").and_then(Value::as_str);
    id.map(str::to_owned)
        .ok_or_else(|| Failure::say(Exit::Failed, format!("{path} answered without an id")))
}

/// Asks the server what it thinks of each session, once nobody wants anything more of it.
async fn stuck(plain: &client::Client, notes: &[Notes]) -> Vec<String> {
    let mut found = Vec::new();
    let all = match plain.get("/outlast/v1/diagnosis", &[]).await {
        Ok(all) => all,
        Err(error) => return vec![format!("the server gives no diagnosis: {error}")],
    };
    let unfinished = all.get("sessions").and_then(Value::as_array);
    for one in unfinished.into_iter().flatten() {
        found.push(format!("unfinished in the end: {one}"));
    }
    for note in notes.iter().filter(|note| note.stuck.is_some()) {
        let path = format!("/outlast/v1/sessions/{}/diagnosis", note.session);
        let said = plain.get(&path, &[]).await;
        let words = said.map_or_else(|error| error.to_string(), |said| said.to_string());
        found.push(format!("diagnosis: {words}"));
    }
    found
}

/// Ends the server and its sandboxes in good order.
async fn ended(mut server: Server, data: &Path, killed: &mut Killed) {
    match server.stop().await {
        Ok(status) if status.success() => {}
        Ok(status) => killed
            .wrong
            .push(format!("the server did not end in order: {status}")),
        Err(error) => killed
            .wrong
            .push(format!("the server cannot be ended: {error}")),
    }
    if let Err(error) = stop(data).await {
        killed
            .wrong
            .push(format!("the hand host cannot be ended: {error}"));
    }
}

/// Reads every log, and compares.
async fn judged(
    bounds: &Bounds,
    dir: &Path,
    data: &Path,
    outside: &Outside,
    tally: &Tally,
) -> Result<Report, Failure> {
    let mut judge = Judge::default();
    let logs = Logs::open(&outside.database, data).await?;
    let mut told = Vec::new();
    for notes in &outside.notes {
        told.push(one(&logs, notes, &mut judge)?);
    }
    let at = |session: &str| {
        outside
            .notes
            .iter()
            .position(|notes| notes.session == session)
    };
    for seen in &outside.seen {
        if let Some(told) = at(&seen.session).and_then(|at| told.get(at)) {
            judge.reader(seen, told);
        }
    }
    judge.wrong.extend(outside.killed.wrong.iter().cloned());
    judge.wrong.extend(outside.stuck.iter().cloned());
    judge.sent(tally);
    judge.kills(&outside.killed.kills);
    Ok(report(bounds, dir, outside, judge, &told))
}

/// Reads one log, and judges its session.
fn one(logs: &Logs, notes: &Notes, judge: &mut Judge) -> Result<Told, Failure> {
    let mut told = Told::default();
    let Some(session) = SessionId::parse(&notes.session) else {
        judge
            .wrong
            .push(format!("`{}` is no id of a session", notes.session));
        return Ok(told);
    };
    let damage = logs.along(session, &mut |record| told.take(record))?;
    told.end();
    judge.log(notes, &told, damage);
    judge.session(notes, &told);
    Ok(told)
}

fn report(bounds: &Bounds, dir: &Path, outside: &Outside, judge: Judge, told: &[Told]) -> Report {
    let mut kills: BTreeMap<Victim, u64> = BTreeMap::new();
    let mut after: BTreeMap<Victim, Vec<Duration>> = BTreeMap::new();
    for kill in &outside.killed.kills {
        *kills.entry(kill.victim).or_default() += 1;
        let still = stood_still(kill, &outside.killed.kills, told);
        after.entry(kill.victim).or_default().extend(still);
    }
    let all = after.values().flatten().copied().collect();
    let away = outside.killed.kills.iter().filter_map(|kill| kill.away);
    Report {
        seed: bounds.seed,
        sessions: bounds.sessions,
        seconds: outside.seconds,
        database: outside.database.words(),
        dir: dir.display().to_string(),
        kills,
        resumed: Times::of(all),
        database_away: Times::of(away.collect()),
        resumed_after: after
            .into_iter()
            .map(|(victim, times)| (victim, Times::of(times)))
            .collect(),
        figures: judge.figures,
        hands: told
            .iter()
            .flat_map(|told| told.hands.iter().copied())
            .collect(),
        violations: judge.wrong,
    }
}
