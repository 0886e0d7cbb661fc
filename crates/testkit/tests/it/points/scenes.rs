//! What is played: every kind of record occurs in one of the scenes.

use std::sync::Arc;

use outlast_kernel::{Unreachable, network::fake::Notes};
use outlast_protocol::id::{CredentialId, SessionId, VaultId};
use outlast_session::{Phase, Thread};
use serde_json::{Value, json};

use super::stage::{Stage, message, script};
use crate::sim::world::{setup::BEGIN, stranger::Stranger};

/// A scene that is played once undisturbed, and once for each point at which its process dies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scene {
    /// Calls side by side and one after another; results that come early.
    Calls,
    /// Calls that ask for leave or are a client's to answer, and one that there is no tool for.
    Asks,
    /// Pauses, a message that waits, an operator's turn, a refusal.
    Turns,
    /// A model that fails until its turn is given up.
    Fails,
    /// A hand that dies of a call, and the next one.
    Dies,
    /// A call and a response that are interrupted.
    Stops,
    /// Outputs, uploads, mounts, a checkpoint.
    Files,
    /// A session that begins with a message, is changed and archived.
    Ends,
    /// A session that is deleted.
    Goes,
    /// A session that runs out.
    Expires,
    /// Events that lose their words.
    Redacts,
    /// A repository, another token for it, a way out and a credential that is of no use there.
    Lends,
    /// A harness that is not ours.
    Stranger,
    /// One that comes to nothing again and again.
    Parks,
}

impl Scene {
    pub(crate) const ALL: [Self; 14] = [
        Self::Calls,
        Self::Asks,
        Self::Turns,
        Self::Fails,
        Self::Dies,
        Self::Stops,
        Self::Files,
        Self::Ends,
        Self::Goes,
        Self::Expires,
        Self::Redacts,
        Self::Lends,
        Self::Stranger,
        Self::Parks,
    ];

    /// Returns the harness that it is played with, if that is not ours.
    pub(crate) fn stranger(self) -> Option<Stranger> {
        match self {
            Self::Stranger => Some(Stranger::Speaks(1)),
            Self::Parks => Some(Stranger::Breaks),
            Self::Calls
            | Self::Asks
            | Self::Turns
            | Self::Fails
            | Self::Dies
            | Self::Stops
            | Self::Files
            | Self::Ends
            | Self::Goes
            | Self::Expires
            | Self::Redacts
            | Self::Lends => None,
        }
    }

    /// Plays it to its end.
    pub(crate) async fn play(self, stage: &mut Stage) -> SessionId {
        let first = if matches!(self, Self::Ends) {
            script(&json!([{ "text": "first" }]))
        } else {
            Value::Null
        };
        let session = if self == Self::Lends {
            lending(stage).await
        } else {
            stage.session(json!({ "initial_events": first })).await
        };
        match self {
            Self::Calls => calls(stage, session).await,
            Self::Asks => asks(stage, session).await,
            Self::Turns => turns(stage, session).await,
            Self::Fails => stage.play(session, &json!([{ "error": 529 }])).await,
            Self::Dies => dies(stage, session).await,
            Self::Stops => stops(stage, session).await,
            Self::Files => files(stage, session).await,
            Self::Ends => ends(stage, session).await,
            Self::Goes => goes(stage, session).await,
            Self::Expires => expires(stage, session).await,
            Self::Redacts => redacts(stage, session).await,
            Self::Lends => lends(stage, session).await,
            Self::Stranger | Self::Parks => {
                stage.send(session, &message("hello")).await;
                stage.rests(session).await;
            }
        }
        session
    }
}

fn bash(input: &Value) -> Value {
    json!({ "name": "bash", "input": input })
}

async fn calls(stage: &mut Stage, session: SessionId) {
    let steps = json!([
        {"thinking": "hm", "text": "Three at once.", "calls": [
            {"name": "read", "input": {"file_path": "a", "wait_ms": 20}},
            {"name": "grep", "input": {"pattern": "b", "wait_ms": 5}},
            bash(&json!({"command": "c"})),
        ]},
        {"calls": [bash(&json!({"command": "{{results.1}}", "wait_ms": 10}))]},
        {"text": "First: {{results}}"},
    ]);
    stage.play(session, &steps).await;
}

async fn asks(stage: &mut Stage, session: SessionId) {
    let write = json!({"name": "write", "input": {"file_path": "x", "content": "y"}});
    let steps = json!([
        {"calls": [
            write, {"name": "ask_client", "input": {"question": "?"}},
            {"name": "read", "input": {"file_path": "z"}}, {"name": "no_such_tool", "input": {}},
        ]},
        {"calls": [write]},
        {"text": "Second: {{results}}"},
    ]);
    stage.play(session, &steps).await;
    let confirmed = |result: &str| json!({"type": "user.tool_confirmation", "result": result});
    stage.answer(session, confirmed("allow")).await;
    let content = json!([{"type": "text", "text": "client says"}]);
    let result = json!({"type": "user.custom_tool_result", "content": content});
    stage.answer(session, result).await;
    stage.answer(session, confirmed("deny")).await;
}

async fn turns(stage: &mut Stage, session: SessionId) {
    let steps = json!([{"stop": "pause_turn", "text": "wait"}, {"text": "on"}]);
    let mut events = script(&steps);
    let all = events.as_array_mut().unwrap();
    all.extend(message("and more").as_array().unwrap().clone());
    all.push(json!({"type": "system.message", "content": [{"type": "text", "text": "mind"}]}));
    stage.send(session, &events).await;
    stage.rests(session).await;
    let steps = json!([{"refusal": {"category": "cyber", "explanation": "no"}}]);
    stage.play(session, &steps).await;
}

async fn dies(stage: &mut Stage, session: SessionId) {
    let steps = json!([
        {"calls": [bash(&json!({"command": "exit", "die": true}))]},
        {"calls": [bash(&json!({"command": "c"}))]},
        {"text": "done"},
    ]);
    stage.play(session, &steps).await;
}

async fn stops(stage: &mut Stage, session: SessionId) {
    let interrupt = json!([{"type": "user.interrupt"}]);
    let hangs = script(&json!([{"calls": [bash(&json!({"command": "c", "hang": true}))]}]));
    stage.send(session, &hangs).await;
    let runs = |thread: &Thread| {
        let intended = |call: &outlast_session::Call| matches!(call.phase, Phase::Intended(_));
        thread.calls.iter().any(intended)
    };
    stage.until(session, |state| runs(&state.threads[0])).await;
    stage.send(session, &interrupt).await;
    stage.rests(session).await;
    stage
        .send(session, &script(&json!([{"pause_ms": 600_000}])))
        .await;
    stage
        .until(session, |state| state.threads[0].request.is_some())
        .await;
    stage.send(session, &interrupt).await;
    stage.rests(session).await;
}

async fn files(stage: &mut Stage, session: SessionId) {
    let file = stage.upload().await;
    let path = format!("/v1/sessions/{session}/resources");
    let mount = json!({"type": "file", "file_id": file, "mount_path": "/in/f"});
    let mounted = stage.post(&path, &mount).await;
    let look = json!({"Look": {"path": "/mnt/session/uploads/in/f"}});
    let write = json!({"Write": {"path": "/mnt/session/outputs/o", "bytes": [1], "mode": 420}});
    let steps =
        json!([{"calls": [bash(&look)]}, {"calls": [bash(&write)]}, {"text": "{{results}}"}]);
    stage.play(session, &steps).await;
    stage
        .until(session, |state| state.checkpoint().is_some())
        .await;
    let mounted = mounted["id"].as_str().unwrap();
    stage.delete(&format!("{path}/{mounted}")).await;
    let steps = json!([{"calls": [bash(&look)]}, {"text": "{{results}}"}]);
    stage.play(session, &steps).await;
    stage.pass(10).await;
}

async fn ends(stage: &mut Stage, session: SessionId) {
    stage.rests(session).await;
    let path = format!("/v1/sessions/{session}");
    stage.post(&path, &json!({ "title": "another" })).await;
    stage.post(&format!("{path}/archive"), &Value::Null).await;
}

async fn goes(stage: &mut Stage, session: SessionId) {
    stage
        .play(
            session,
            &json!([{"calls": [bash(&json!({"command": "c"}))]}, {"text": "x"}]),
        )
        .await;
    stage.delete(&format!("/v1/sessions/{session}")).await;
    stage.pass(10).await;
}

async fn expires(stage: &mut Stage, session: SessionId) {
    stage.play(session, &json!([{"text": "x"}])).await;
    let path = format!("/outlast/v1/sessions/{session}/deadlines");
    stage.put(&path, &json!({ "idle_seconds": 60 })).await;
    stage
        .until(session, |state| state.archived_at.is_some())
        .await;
}

async fn redacts(stage: &mut Stage, session: SessionId) {
    stage.play(session, &json!([{"text": "a secret"}])).await;
    let spoken = stage.watcher.spoken(session);
    let path = format!("/outlast/v1/sessions/{session}/redact");
    let wish = json!({ "event_ids": spoken, "because": "a leak" });
    stage.post(&path, &wish).await;
    stage.play(session, &json!([{"text": "go on"}])).await;
}

/// Makes a session with a repository, whose vault has a credential that its environment makes useless.
async fn lending(stage: &mut Stage) -> SessionId {
    let notes = Notes::default();
    stage.world.network = Some(Arc::new(notes.clone()));
    let vault = stage
        .post("/v1/vaults", &json!({"display_name": "mine"}))
        .await;
    let vault = vault["id"].as_str().unwrap();
    notes.say_unreachable(vec![Unreachable {
        credential: CredentialId::mint(BEGIN, &stage.world.branch("credential")),
        vault: VaultId::parse(vault).unwrap(),
        hosts: vec!["api.example".to_owned()],
    }]);
    let repository = json!({"type": "github_repository", "url": "https://git.example/o/r",
        "authorization_token": "a-token-of-it"});
    stage
        .session(json!({"vault_ids": [vault], "resources": [repository]}))
        .await
}

async fn lends(stage: &mut Stage, session: SessionId) {
    let steps = json!([{"calls": [bash(&json!({"command": "c"}))]}, {"text": "{{results}}"}]);
    stage.play(session, &steps).await;
    let resource = stage.repository(session);
    let path = format!("/v1/sessions/{session}/resources/{resource}");
    let token = json!({"authorization_token": "another-token-of-it"});
    stage.post(&path, &token).await;
    stage.play(session, &steps).await;
}
