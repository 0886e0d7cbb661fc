//! One seed: a world, what disturbs it, and what must be so at the end.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use http::Method;
use outlast_kernel::Schedule;
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    client::{Client, Shared},
    net::Net,
    node::{self, Weather},
    reader::{self, Reader},
    twist::Twist,
    verdict,
    watch::Watcher,
    world::{World, setup, spawn},
};

/// Clients, each with a session.
const CLIENTS: u64 = 3;

/// What each of them does.
const ACTIONS: u64 = 14;

/// How long readers may take to see the end once nothing disturbs them any more: they look again once
/// in twenty seconds at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came of a seed.
#[derive(Default)]
pub(crate) struct Report {
    /// What must not be and is.
    pub(crate) wrong: Vec<String>,
    /// All logs and all that readers saw, as text.
    pub(crate) told: Vec<String>,
    /// How much happened: appends, processes, hands, frames.
    pub(crate) figures: [usize; 4],
}

/// A world, and what goes on in it.
struct Sim {
    world: Arc<World>,
    watcher: Watcher,
    net: Net,
    weather: Arc<Weather>,
    /// Ends readers.
    stop: CancellationToken,
}

/// Runs a seed.
pub(crate) async fn run(seed: u64, twist: Twist) -> Report {
    let sim = Sim::new(seed, twist).await;
    let shared = sim.shared().await;
    twist.begin(&sim.world, &sim.watcher);
    let (node, readers) = (sim.node(), sim.readers());
    let mut clients = sim.clients(&shared).await;
    sim.calm(node, &mut clients).await;
    let readers = readers.await.unwrap();
    verdict::look(&sim.world, &sim.watcher, &shared, &readers).await;
    sim.report(&readers)
}

impl Sim {
    async fn new(seed: u64, twist: Twist) -> Self {
        let mut world = World::new(seed).await;
        world.schedule = Schedule {
            at_rest: Some(Duration::from_secs(5)),
            within_turns: Some(Duration::from_secs(2)),
        };
        twist.prepare(&mut world);
        Self {
            watcher: Watcher::new(&world),
            world: Arc::new(world),
            net: Net::default(),
            weather: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Makes what all clients share: an agent and an environment, by a process of its own.
    async fn shared(&self) -> Shared {
        let life = Arc::new(self.world.start().await);
        self.net.join(&life);
        let agent = json!({ "name": "agent", "model": "scripted", "tools": setup::tools() });
        let agent = self.made("/v1/agents", &agent).await;
        let environment = json!({ "name": "home" });
        let environment = self.made("/v1/environments", &environment).await;
        self.net.leave(&life);
        life.kill().await;
        Shared {
            net: self.net.clone(),
            watcher: self.watcher.clone(),
            sent: Arc::default(),
            agent,
            environment,
        }
    }

    async fn made(&self, path: &str, body: &Value) -> String {
        let (chance, body) = (self.world.branch(path), body.to_string());
        let asked = self.net.ask(&chance, Method::POST, path, &[], &body);
        let reply = asked.await.unwrap();
        let made: Value = serde_json::from_str(&reply.text).unwrap();
        made["id"].as_str().expect(&reply.text).to_owned()
    }

    /// Lets processes come and go, and the weather disturb them.
    fn node(&self) -> JoinHandle<()> {
        let (world, net, weather) = (&self.world, &self.net, &self.weather);
        let chance = world.branch("weather");
        spawn(weather.clone().blow(world.clone(), net.clone(), chance));
        let chance = world.branch("node");
        task(node::run(
            world.clone(),
            net.clone(),
            weather.clone(),
            chance,
        ))
    }

    /// Lets every session have two readers until they are to stop.
    fn readers(&self) -> JoinHandle<Vec<Reader>> {
        let chance = self.world.branch("readers");
        let (net, watcher, stop) = (self.net.clone(), self.watcher.clone(), self.stop.clone());
        task(reader::of_all(net, watcher, chance, stop))
    }

    /// Lets clients do what they like; returns them with what they left undone.
    async fn clients(&self, shared: &Shared) -> Vec<Client> {
        let clients = (0..CLIENTS).map(async |number| {
            let chance = self.world.branch(&format!("client {number}"));
            let mut client = Client::new(shared.clone(), chance, number.to_string());
            client.act(ACTIONS).await;
            client
        });
        join_all(clients).await
    }

    /// Ends all disturbances, and waits until everybody rests and has read to the end.
    async fn calm(&self, node: JoinHandle<()>, clients: &mut [Client]) {
        self.weather.calm();
        node.await.unwrap();
        self.net.lose(0);
        let life = Arc::new(self.world.start().await);
        self.net.join(&life);
        spawn(verdict::stuck(life, self.watcher.clone()));
        join_all(clients.iter_mut().map(Client::settle)).await;
        sleep(PATIENCE).await;
        self.stop.cancel();
    }

    fn report(&self, readers: &[Reader]) -> Report {
        let sessions = self.watcher.sessions();
        let records = sessions.iter().flat_map(|(_, seen)| &seen.records);
        let mut told: Vec<_> = records.map(|record| format!("{record:?}")).collect();
        let (records, hands) = (told.len(), self.world.hands.provisioned().len());
        let frames = readers.iter().map(Reader::frames).sum();
        told.extend(readers.iter().map(Reader::told));
        Report {
            wrong: self.watcher.found(),
            told,
            figures: [records, self.world.lives(), hands, frames],
        }
    }
}

/// Starts a task whose end is waited for.
fn task<T: Send + 'static>(doing: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    TaskTracker::new().spawn(doing)
}
