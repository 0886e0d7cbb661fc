//! Sessions that end whoever works on them: parked in the end, and harmless to all others.

use std::time::Duration;

use outlast_kernel::HandLife;
use outlast_protocol::{diagnosis::WaitsFor, id::SessionId};
use outlast_session::{Kind, Proposal, Record, Rules};
use outlast_testkit::faulty::Fault;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::lives::{Life, POISON, World, told};

/// Processes that a poisoned session may end, and some more.
const LIVES: usize = 40;

fn message(text: &str) -> Value {
    json!([{"type": "user.message", "content": [{"type": "text", "text": text}]}])
}

/// A turn of three requests, each of which takes a while.
fn patient() -> Value {
    let slow = |text: &str| json!({"content": [{"text": text}, {"pause_ms": 300}, {"text": "."}]});
    let call = json!({"calls": [{"name": "read", "input": {"file_path": "f"}}]});
    message(&json!({"script": [call, call, slow("done")]}).to_string())
}

async fn begin(world: &World, life: &Life, events: &Value) -> SessionId {
    let session = world.session(life).await;
    life.send(session, events).await;
    session
}

/// Returns how many brains came to nothing, if the session is parked.
async fn parked(life: &Life, session: SessionId) -> Option<u32> {
    let found = life.kernel.diagnose(session).await.unwrap();
    let WaitsFor::Operator { attempts, .. } = found.threads[0].waits_for else {
        return None;
    };
    Some(attempts)
}

fn errors(records: &[Record]) -> usize {
    let errors = records.iter().filter(|one| one.kind == Kind::SessionError);
    errors.count()
}

fn claims(records: &[Record]) -> usize {
    let claims = records.iter().filter(|one| one.kind == Kind::Claimed);
    claims.count()
}

#[tokio::test(start_paused = true)]
async fn a_brain_that_panics_ends_its_turn_and_no_other() {
    let world = World::under(7, Rules::default()).await;
    let life = world.start(None).await;
    let neighbour = begin(&world, &life, &patient()).await;
    let session = begin(&world, &life, &message(POISON)).await;
    assert!(life.rests(session).await && life.rests(neighbour).await);
    let attempts = 2 * Rules::default().attempts;
    assert_eq!(parked(&life, session).await, Some(attempts));
    assert_eq!(errors(&world.log(session).await), 1);
    assert_eq!(errors(&world.log(neighbour).await), 0);
    // The server says so to an operator who does not know which session to ask for.
    let server = life.kernel.diagnose_server().await.unwrap();
    assert_eq!(server.waiting["operator"], 1);
    assert_eq!(server.sessions[0].session_id, session);

    // Whatever is sent is tried once.
    let before = claims(&world.log(session).await);
    life.send(session, &message(POISON)).await;
    assert!(life.rests(session).await);
    assert_eq!(claims(&world.log(session).await), before + 1);
    assert!(parked(&life, session).await.is_some());

    // Mended, it goes on with what was given up, once somebody wants it.
    world.model.mend();
    let woken = life.kernel.wake(session).await.unwrap();
    assert!(woken.threads[0].woken, "{woken:?}");
    assert!(life.rests(session).await);
    assert_eq!(parked(&life, session).await, None);
    let lines = told(&world.log(session).await);
    assert!(
        lines.iter().any(|line| line.starts_with("agent.message")),
        "{lines:#?}"
    );
    let woken = life.kernel.wake(session).await.unwrap();
    assert!(!woken.threads[0].woken, "it is at rest: {woken:?}");
}

/// Starts a process that dies of the first word of a brain of that session.
async fn cursed(world: &World, session: SessionId) -> Life {
    let curse = move |of: SessionId, proposal: &Proposal| {
        let brain = matches!(proposal, Proposal::Brain { .. } | Proposal::Keyed { .. });
        (of == session && brain).then_some(Fault::Dead)
    };
    world.start_cursed(curse).await
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_its_process_is_parked_and_its_neighbours_are_served() {
    let world = World::under(7, Rules::default()).await;
    let mut life = world.start(None).await;
    let mut neighbours = Vec::new();
    for _ in 0..5 {
        neighbours.push(begin(&world, &life, &patient()).await);
    }
    let session = begin(&world, &life, &patient()).await;
    let mut lives = 0;
    let attempts = loop {
        lives += 1;
        assert!(lives < LIVES, "it is never parked");
        life.kill();
        life = cursed(&world, session).await;
        let over = async {
            while !life.is_dead() && parked(&life, session).await.is_none() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(600), over)
            .await
            .unwrap();
        if let Some(attempts) = parked(&life, session).await {
            break attempts;
        }
    };
    assert_eq!(attempts, 2 * Rules::default().attempts);
    for neighbour in neighbours {
        assert!(life.rests(neighbour).await);
        let records = world.log(neighbour).await;
        assert_eq!(errors(&records), 0, "{:#?}", told(&records));
        assert!(told(&records).iter().any(|line| line.contains("done")));
    }
}

/// A server that is stopped and started again and again is no fault of the turns it hands back.
#[tokio::test(start_paused = true)]
async fn turns_that_are_handed_back_are_never_parked() {
    let mut world = World::under(7, Rules::default()).await;
    world.hand_life = HandLife::OfTheirOwn;
    let mut life = world.start(None).await;
    let call = json!({"calls": [{"name": "bash", "input": {"command": "c", "wait_ms": 60_000}}]});
    let script = json!({"script": [call, {"text": "done"}]}).to_string();
    let session = begin(&world, &life, &message(&script)).await;
    for _ in 0..3 * Rules::default().attempts {
        sleep(Duration::from_millis(500)).await;
        life.close().await;
        life = world.start(None).await;
    }
    assert!(life.rests(session).await);
    let records = world.log(session).await;
    assert_eq!(errors(&records), 0, "{:#?}", told(&records));
    let call = records.iter().find(|one| one.kind == Kind::AgentToolUse);
    assert_eq!(world.hands.executions(call.unwrap().event.unwrap()), 1);
    assert_eq!(claims(&records), 16);
}
