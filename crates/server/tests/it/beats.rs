//! Two servers on one Postgres, of which one is stopped and goes on: others take over, it begins
//! nothing, and nothing is doubled.

use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

use outlast_model::wire::Tape;
use outlast_testkit::postgres::{Cluster, Syncs};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::support::{
    Binary, Does as _, TestServer, bash, leftovers::inits, model, of, said, script, signal, until,
};

/// Seconds after which a process that does not beat is declared dead.
const BOUND: u64 = 3;

/// Long enough for a process that was stopped to be declared dead, and for another to go on.
const LONG: Duration = Duration::from_secs(2 * BOUND);

const KEY: &str = "the-key-of-both-servers";

/// What calls have written, by sandbox and word: sandboxes come and go.
#[derive(Default)]
struct Runs(HashMap<(u32, String), usize>);

impl Runs {
    /// Looks into every sandbox that lives.
    fn look(&mut self, pair: &Pair) {
        for pid in pair.dirs.iter().flat_map(|dir| inits(dir.path())) {
            let path = format!("/proc/{pid}/root/workspace/count");
            let mut counts: HashMap<_, usize> = HashMap::new();
            for word in std::fs::read_to_string(path).unwrap_or_default().lines() {
                *counts.entry((pid, word.to_owned())).or_default() += 1;
            }
            self.0.extend(counts);
        }
    }

    /// Goes on looking for a while.
    async fn look_for(&mut self, pair: &Pair, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.look(pair);
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn times(&self, word: &str) -> usize {
        let own = self.0.iter().filter(|((_, known), _)| known == word);
        own.map(|(_, times)| times).sum()
    }

    fn check(&self) {
        for (_, word) in self.0.keys() {
            let times = self.times(word);
            assert_eq!(times, 1, "call {word} ran {times} times");
        }
    }
}

/// Two servers, their database and their model.
struct Pair {
    nodes: [Binary; 2],
    dirs: [TempDir; 2],
    tape: Arc<Tape>,
    model: JoinHandle<()>,
    _cluster: Cluster,
}

impl Pair {
    /// Starts both; a process that does not beat for so many seconds is declared dead.
    async fn start(bound: u64) -> Self {
        let cluster = Cluster::start(Syncs::None);
        let tape = Arc::new(Tape::default());
        let (url, model) = model("canary", tape.clone()).await;
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let start = async |dir: &Path| {
            let mut command = Binary::command(dir);
            command
                .env("OUTLAST_DATABASE_URL", cluster.url("postgres"))
                .env("OUTLAST_API_KEY", KEY)
                .env("OUTLAST_UPSTREAM_BASE_URL", &url)
                .env("OUTLAST_UPSTREAM_API_KEY", "canary")
                .env("OUTLAST__KERNEL__PROCESS_SECONDS", bound.to_string());
            Binary::start_as(&mut command, dir, Some(KEY)).await
        };
        let nodes = [start(dirs[0].path()).await, start(dirs[1].path()).await];
        Self {
            nodes,
            dirs,
            tape,
            model,
            _cluster: cluster,
        }
    }

    /// Begins a turn by the first server, which takes it.
    async fn begin(&self, steps: Value) -> String {
        let client = &self.nodes[0].client;
        let session = client.session(TestServer::UPSTREAM).await;
        client.send(&session, &[script(steps)]).await;
        session
    }

    /// Waits until the second server shows so many events of a kind.
    async fn shows(&self, session: &str, kind: &str, count: usize) {
        until(&format!("{count} of {kind}"), async || {
            let events = self.nodes[1].client.events(session).await;
            (of(&events, kind).len() >= count).then_some(())
        })
        .await;
    }

    async fn stop(&self) {
        signal(self.nodes[0].pid(), "STOP").await;
    }

    async fn go_on(&self) {
        signal(self.nodes[0].pid(), "CONT").await;
    }

    /// Returns the id that the process of a server has.
    async fn process(&self, node: usize) -> String {
        let client = &self.nodes[node].client;
        let known = client.get("/outlast/v1/diagnosis", &[]).await.unwrap();
        known["process_id"].as_str().unwrap().to_owned()
    }

    /// Checks what both servers show of a session, and how often its model was asked.
    async fn check(&self, session: &str, stops: usize) -> Vec<Value> {
        let events = self.nodes[0].client.events(session).await;
        assert_eq!(events, self.nodes[1].client.events(session).await);
        let mut ids: Vec<_> = events.iter().map(|event| event["id"].to_string()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), events.len(), "an event is there twice");
        let count = |kind| of(&events, kind).len();
        let starts = count("span.model_request_start");
        assert_eq!(starts, count("span.model_request_end"));
        assert_eq!(count("agent.tool_use"), count("agent.tool_result"));
        assert_eq!(of(&events, "session.error"), Vec::<&Value>::new());
        // A request leaves while its start is being written: one that was refused may have left.
        let asked = self.tape.captured().len();
        assert!(
            starts <= asked && asked <= starts + stops,
            "{asked} for {starts}"
        );
        events
    }

    async fn end(self) {
        for node in self.nodes {
            assert!(node.stop().await.success());
        }
        self.model.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_stopped_in_a_model_request_is_replaced_and_does_nothing_more() {
    let pair = Pair::start(BOUND).await;
    let was = pair.process(0).await;
    let steps = json!([{"content": [{"text": "first"}, {"pause_ms": 2_000}, {"text": "last"}]}]);
    let session = pair.begin(steps).await;
    pair.shows(&session, "span.model_request_start", 1).await;
    pair.stop().await;
    pair.nodes[1].client.idle(&session, 1).await;
    assert_eq!(pair.tape.captured().len(), 2);
    pair.go_on().await;
    until("it to go on under another id", async || {
        (pair.process(0).await != was).then_some(())
    })
    .await;
    let events = pair.check(&session, 0).await;
    assert_eq!(of(&events, "agent.message").len(), 1);
    // It works again.
    let session = pair.begin(json!([{"text": "again"}])).await;
    pair.nodes[0].client.idle(&session, 1).await;
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_stopped_in_a_call_runs_it_no_second_time() {
    let pair = Pair::start(BOUND).await;
    let steps = json!([
        bash("echo once >> /workspace/count; sleep 600"),
        {"text": "{{results}}"},
    ]);
    let session = pair.begin(steps).await;
    let mut runs = Runs::default();
    until("the call to run", async || {
        runs.look(&pair);
        (runs.times("once") == 1).then_some(())
    })
    .await;
    pair.stop().await;
    let events = pair.nodes[1].client.idle(&session, 1).await;
    let result = of(&events, "agent.tool_result")[0];
    assert!(said(result).contains("may have run"), "{result}");
    pair.go_on().await;
    // What nobody waits for any more does not go on for ten minutes.
    until("the call to be stopped", async || {
        (!is_running(pair.dirs[0].path(), "sleep")).then_some(())
    })
    .await;
    runs.look(&pair);
    assert_eq!(runs.times("once"), 1);
    pair.check(&session, 0).await;
    pair.end().await;
}

/// Tells whether a program runs in a sandbox of a data directory.
fn is_running(dir: &Path, program: &str) -> bool {
    let pids = crate::support::leftovers::processes(dir);
    let mut names = pids.iter().filter_map(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(name.trim().to_owned())
    });
    names.any(|name| name == program)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_stopped_anywhere_doubles_nothing() {
    let pair = Pair::start(BOUND).await;
    let mut steps: Vec<_> = (0..60)
        .map(|n| {
            bash(&format!(
                "echo {n} >> /workspace/count; sleep 0.1; echo did {n}"
            ))
        })
        .collect();
    steps.push(json!({"text": "done"}));
    let session = pair.begin(json!(steps)).await;
    let mut stops = 0;
    // Whoever has it: the first server is stopped at moments that have nothing to do with the turn.
    let mut runs = Runs::default();
    for moment in [700, 450, 1_150] {
        runs.look_for(&pair, Duration::from_millis(moment)).await;
        pair.stop().await;
        runs.look_for(&pair, LONG).await;
        pair.go_on().await;
        stops += 1;
    }
    let events = until("the turn to end", async || {
        runs.look(&pair);
        let events = pair.nodes[1].client.events(&session).await;
        (!of(&events, "session.status_idle").is_empty()).then_some(events)
    })
    .await;
    runs.check();
    let results = of(&events, "agent.tool_result");
    assert_eq!(results.len(), 60);
    for (n, result) in results.iter().enumerate() {
        // Before it may stand that the files of another sandbox are lost.
        let blocks = result["content"].as_array().unwrap();
        let text = blocks.last().unwrap()["text"].as_str().unwrap();
        let told = text.trim() == format!("did {n}");
        if told {
            assert_eq!(runs.times(&n.to_string()), 1, "call {n}");
        }
        assert!(told || text.contains("may have run"), "{n}: {result}");
    }
    pair.check(&session, stops).await;
    pair.end().await;
}

/// Keeps a processor busy until it is dropped.
fn busy() -> Child {
    let mut command = Command::new("sh");
    command
        .args(["-c", "while :; do :; done"])
        .kill_on_drop(true);
    command.spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_starved_beats_and_doubles_nothing() {
    let pair = Pair::start(15).await;
    let before = [pair.process(0).await, pair.process(1).await];
    let hogs: Vec<_> = (0..16).map(|_| busy()).collect();
    let mut sessions = Vec::new();
    for n in 0..6 {
        let step = |m| bash(&format!("echo {n}-{m} >> /workspace/count; echo did"));
        let steps: Vec<_> = (0..10).map(step).chain([json!({"text": "done"})]).collect();
        sessions.push(pair.begin(json!(steps)).await);
    }
    for session in &sessions {
        let events = pair.nodes[1].client.idle(session, 1).await;
        assert_eq!(of(&events, "agent.tool_result").len(), 10);
        assert_eq!(of(&events, "session.error"), Vec::<&Value>::new());
    }
    let mut runs = Runs::default();
    runs.look(&pair);
    runs.check();
    drop(hogs);
    let after = [pair.process(0).await, pair.process(1).await];
    assert_eq!(before, after, "a process was declared dead that was alive");
    pair.end().await;
}
