//! Every race that two writers of a log can run, at every point at which they can meet.
//!
//! A turn is played once for each append that is made in it, and the other writer comes right behind
//! that append. Whoever is first, nothing is lost, nothing is told twice, and the session comes to
//! rest: the watcher looks at every append. The two orders of each pair are tried on the judge
//! itself by the tests of `outlast-session`.

use std::{sync::Arc, time::Duration};

use outlast_kernel::LeaseError;
use outlast_protocol::id::SessionId;
use outlast_session::{Kind, Record};
use outlast_testkit::faults::{Fate, Faults};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::sim::{
    Watcher,
    world::{Life, World, spawn, stranger::Stranger},
};

/// A world in which a turn is played.
struct Ring {
    world: World,
    watcher: Watcher,
    life: Arc<Life>,
    session: SessionId,
}

impl Ring {
    async fn new() -> Self {
        let world = World::new(3).await;
        let watcher = Watcher::new(&world);
        let life = Arc::new(world.begin(Arc::<Faults>::default()).await.unwrap());
        let session = world.session(&life).await;
        Self {
            world,
            watcher,
            life,
            session,
        }
    }

    /// Begins a turn that reads, thinks, runs commands and asks for leave.
    async fn begin(&self, ask: bool) {
        let read = json!({"name": "read", "input": {"file_path": "f", "wait_ms": 4}});
        let grep = json!({"name": "grep", "input": {"pattern": "p", "wait_ms": 2}});
        let custom = json!({"name": "ask_client", "input": {"question": "?"}});
        let bash = json!({"name": "bash", "input": {"command": "c", "wait_ms": 3}});
        let first = if ask {
            json!([read, custom, grep])
        } else {
            json!([read, grep])
        };
        let steps = json!([
            {"thinking": "hm", "text": "a", "calls": first}, {"calls": [bash]}, {"text": "b"},
        ]);
        let text = json!({ "script": steps }).to_string();
        let content = json!([{ "type": "text", "text": text }]);
        let message = json!([{ "type": "user.message", "content": content }]);
        self.life.send(self.session, &message).await;
    }

    /// Has a writer come right behind the n-th append from now on.
    fn meet<F>(&self, n: u64, other: impl FnOnce(Arc<Life>, SessionId) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        let at = self.life.faults.appends() + n;
        let met = Arc::new(Notify::new());
        let tell = met.clone();
        self.life.faults.hook(move |call| {
            if call.append.is_some_and(|(number, _, _)| number == at) {
                tell.notify_one();
            }
            Fate::None
        });
        let (life, session) = (self.life.clone(), self.session);
        spawn(async move {
            met.notified().await;
            other(life, session).await;
        });
    }

    /// Waits for the end, and looks at what came of it.
    async fn end(self, at: u64) -> Vec<Record> {
        assert!(self.life.rests(self.session).await);
        // What is asked for is never answered if nobody does.
        tokio::time::sleep(Duration::from_secs(60)).await;
        self.watcher.finish(&self.world).await;
        assert_eq!(self.watcher.found(), [""; 0], "behind append {at}");
        self.world.log(self.session).await
    }
}

/// Counts the appends of a turn to which nothing happens.
async fn appends(ask: bool) -> u64 {
    let ring = Ring::new().await;
    let before = ring.life.faults.appends();
    ring.begin(ask).await;
    assert!(ring.life.rests(ring.session).await);
    ring.life.faults.appends() - before
}

fn count(log: &[Record], kind: Kind) -> usize {
    log.iter().filter(|record| record.kind == kind).count()
}

fn interrupt() -> Value {
    json!([{ "type": "user.interrupt" }])
}

fn message(text: &str) -> Value {
    json!([{ "type": "user.message", "content": [{ "type": "text", "text": text }] }])
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_against_every_step_of_a_turn_and_its_end() {
    for at in 1..=appends(false).await {
        let ring = Ring::new().await;
        ring.meet(at, |life, session| async move {
            life.send(session, &interrupt()).await;
        });
        ring.begin(false).await;
        let log = ring.end(at).await;
        assert_eq!(count(&log, Kind::UserInterrupt), 1, "behind append {at}");
        let (calls, results) = (
            count(&log, Kind::AgentToolUse),
            count(&log, Kind::AgentToolResult),
        );
        assert_eq!(calls, results, "behind append {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_against_every_step_of_a_turn_and_its_end() {
    for at in 1..=appends(false).await {
        let ring = Ring::new().await;
        ring.meet(at, |life, session| async move {
            life.send(session, &message("and more")).await;
        });
        ring.begin(false).await;
        let log = ring.end(at).await;
        assert_eq!(count(&log, Kind::UserMessage), 2, "behind append {at}");
        let last = |kind| log.iter().rposition(|record| record.kind == kind);
        assert!(
            last(Kind::UserMessage) < last(Kind::AgentMessage),
            "it was never answered"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_before_its_idle_and_behind_it() {
    let mut early = 0;
    for at in 1..=appends(true).await {
        let ring = Ring::new().await;
        let watcher = ring.watcher.clone();
        ring.meet(at, move |life, session| async move {
            // As soon as it is there to be answered.
            loop {
                let state = watcher.session(session).unwrap();
                if let Some(call) = state.threads[0].asked().next() {
                    let result = json!([{"type": "user.custom_tool_result",
                        "custom_tool_use_id": call.id, "content": []}]);
                    return life.send(session, &result).await;
                }
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
        });
        ring.begin(true).await;
        let log = ring.end(at).await;
        assert_eq!(
            count(&log, Kind::UserCustomToolResult),
            1,
            "behind append {at}"
        );
        assert!(
            count(&log, Kind::AgentMessage) == 2,
            "behind append {at}: it never went on"
        );
        let first = |kind| log.iter().position(|record| record.kind == kind);
        early += usize::from(first(Kind::UserCustomToolResult) < first(Kind::SessionIdle));
    }
    assert!(early > 0, "no result was early");
}

#[tokio::test(start_paused = true)]
async fn a_lost_acknowledgement_of_every_append() {
    for fault in [Fate::Before, Fate::After] {
        for at in 1..=appends(false).await {
            let ring = Ring::new().await;
            let nth = ring.life.faults.appends() + 1 + at;
            ring.life.faults.hook(move |call| match call.append {
                Some((number, _, _)) if number == nth => fault,
                _ => Fate::None,
            });
            ring.begin(false).await;
            let log = ring.end(at).await;
            assert_eq!(
                count(&log, Kind::AgentMessage),
                2,
                "{fault:?} at append {at}"
            );
            let (calls, told) = (
                count(&log, Kind::AgentToolUse),
                count(&log, Kind::AgentToolResult),
            );
            assert_eq!((calls, told), (3, 3), "{fault:?} at append {at}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_against_every_step_of_a_turn() {
    for at in 1..=appends(false).await {
        for delete in [false, true] {
            let ring = Ring::new().await;
            ring.meet(at, move |life, session| async move {
                let client =
                    outlast_protocol::id::ApiKeyId::mint(life.kernel.now(), life.kernel.entropy());
                match delete {
                    true => drop(life.kernel.delete(client, session).await),
                    false => drop(life.kernel.archive(client, session).await),
                }
            });
            ring.begin(false).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            ring.watcher.finish(&ring.world).await;
            assert_eq!(ring.watcher.found(), [""; 0], "behind append {at}");
        }
    }
}

/// A brain does not wait for an append before it makes the next: what follows a refused one is
/// refused too, and the next brain goes on from what is there.
#[tokio::test(start_paused = true)]
async fn a_refused_append_takes_along_what_was_pipelined_behind_it() {
    use outlast_kernel::Claims;
    use outlast_session::{Step, Stop};
    async fn refused(mut claims: Claims) -> Vec<bool> {
        let lease = claims.recv().await.unwrap();
        // No turn is open: the first is refused, and the two behind it are submitted already.
        let note = || Step::Note(outlast_session::json(&json!({ "note": 1 })));
        let first = lease.propose(Step::EndTurn(Stop::EndTurn));
        let (second, third) = (lease.propose(note()), lease.propose(note()));
        let done = futures::join!(first, second, third);
        let illegal = |done: Result<_, LeaseError>| matches!(done, Err(LeaseError::Illegal(_)));
        vec![illegal(done.0), illegal(done.1), illegal(done.2)]
    }
    let mut world = World::new(3).await;
    let watcher = Watcher::new(&world);
    let (kernel, claims) = world.kernel(&Arc::default()).await.unwrap();
    let session = world.made(&kernel).await;
    let (refused, ()) = futures::join!(refused(claims), world.say(&kernel, session, "hello"));
    assert_eq!(refused, [true; 3]);
    let log = world.log(session).await;
    assert_eq!(count(&log, Kind::Noted), 0);
    // The lease was dropped with its brain; another one takes the message in.
    drop(kernel);
    world.stranger = Some(Stranger::Speaks(0));
    let life = world.start().await;
    assert!(life.rests(session).await);
    watcher.finish(&world).await;
    assert_eq!(watcher.found(), [""; 0]);
    assert_eq!(count(&world.log(session).await, Kind::AgentMessage), 1);
}
