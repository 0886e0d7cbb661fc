//! Repositories of a session: cloned before the first call, tried again, and not brought back.

use std::sync::{Arc, Mutex};

use outlast_hands::fake::{Asked, Fakes, Reply};
use outlast_protocol::{CallResult, id::SessionId};
use outlast_session::{Kind, body::Repository};
use outlast_store::{SealedSecret, Secrets as _};
use serde_json::{Value, json};

use crate::{
    checkpoints::{results, state, turn},
    lives::{Life, World},
};

/// What git says the next time; it is there if nothing is left.
type Sayings = Arc<Mutex<Vec<&'static str>>>;

fn is_clone(asked: &Asked) -> bool {
    asked.input.contains("outlast-clone:")
}

fn repository(life: &Life) -> Repository {
    use outlast_protocol::session::CreateSession;
    let body = json!({
        "agent": "agent_010000000000000000000001", "environment_id": "env_010000000000000000000001",
        "resources": [{
            "type": "github_repository", "url": "https://git.example/o/it's",
            "checkout": {"type": "branch", "name": "main"},
        }],
    });
    let refused = CreateSession::parse(&body).unwrap_err();
    assert!(refused.message.contains("resources.0.url"), "{refused}");
    let body = body.to_string().replace("it's", "r");
    let body: Value = serde_json::from_str(&body).unwrap();
    let new = CreateSession::parse(&body).unwrap();
    life.kernel.repository_of(&new.resources.repositories[0])
}

/// A session with a repository, of which git says these one after another.
async fn scene(sayings: &[&'static str]) -> (World, Life, SessionId) {
    let mut world = World::new(5).await;
    let left: Sayings = Arc::new(Mutex::new(sayings.iter().rev().copied().collect()));
    world.hands = Fakes::new(move |asked| {
        let said = match is_clone(asked) {
            true => left
                .lock()
                .unwrap()
                .pop()
                .unwrap_or("\noutlast-clone:there\n"),
            false => "ok",
        };
        Reply::Now(CallResult::text(said))
    });
    let life = world.start(None).await;
    let session = world.session_with(&life, repository(&life)).await;
    (world, life, session)
}

fn clones(world: &World) -> usize {
    world
        .hands
        .asked()
        .iter()
        .filter(|asked| is_clone(asked))
        .count()
}

async fn errors(world: &World, session: SessionId) -> Vec<Value> {
    let log = world.log(session).await;
    let errors = log
        .iter()
        .filter(|record| record.kind == Kind::SessionError);
    errors
        .map(|record| serde_json::from_str::<Value>(record.body.text()).unwrap()["error"].take())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn it_is_cloned_before_the_first_call_and_then_left_alone() {
    let (world, life, session) = scene(&[]).await;
    turn(&life, session).await;
    turn(&life, session).await;
    let asked = world.hands.asked();
    assert!(is_clone(&asked[0]) && asked.len() == 3, "{asked:?}");
    assert!(
        asked[0].input.contains("branch='main'"),
        "{}",
        asked[0].input
    );
    // A successor has the workspace, with whatever the agent made of it.
    let hand = state(&life, session).await.hand.unwrap();
    world.hands.kill(hand.incarnation);
    turn(&life, session).await;
    assert_eq!(clones(&world), 1);
    assert!(errors(&world, session).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_told_once_a_turn_and_tried_again_by_the_next_brain() {
    let gone = "fatal: repository 'https://git.example/o/r/' not found\noutlast-clone:clone\n";
    let (world, life, session) = scene(&[gone, gone]).await;
    for count in 1..=3 {
        turn(&life, session).await;
        assert_eq!(clones(&world), count);
    }
    turn(&life, session).await;
    assert_eq!(clones(&world), 3, "the third one came to something");
    let errors = errors(&world, session).await;
    assert_eq!(errors.len(), 2);
    assert_eq!(errors[0]["type"], "repository_not_found_error");
    assert_eq!(errors[0]["repository_url"], "https://git.example/o/r");
    assert_eq!(errors[0]["retry_status"]["type"], "retrying");
    let results = results(&world, session).await;
    assert_eq!(results.len(), 4, "the session goes on without it");
}

#[tokio::test(start_paused = true)]
async fn it_comes_back_where_all_was_lost() {
    let (world, life, session) = scene(&[]).await;
    turn(&life, session).await;
    world.hands.vanish();
    turn(&life, session).await;
    assert_eq!(clones(&world), 2);
}

#[tokio::test(start_paused = true)]
async fn tokens_go_with_their_session_and_with_one_that_never_came_to_be() {
    let world = World::new(5).await;
    let life = world.start(None).await;
    let token = |session: SessionId, repository: &Repository, revision| SealedSecret {
        owner: repository.id.to_string(),
        parent: session.to_string(),
        revision,
        master: "m".to_owned(),
        sealed: b"sealed".to_vec(),
    };
    let mut made = Vec::new();
    for _ in 0..2 {
        let repository = repository(&life);
        let mut draft = life.kernel.draft(world.config_with(repository.clone()));
        draft.tokens = vec![token(draft.id, &repository, 1)];
        let session = world.session_of(&life, draft).await;
        made.push((session, repository));
    }
    let (session, first) = made[0].clone();
    let kept = async |repository: &Repository| {
        let found = world
            .memory
            .secret(&repository.id.to_string())
            .await
            .unwrap();
        found.map(|found| found.revision)
    };
    let seal = |repository: Repository, revision| {
        std::future::ready(Ok(token(session, &repository, revision)))
    };
    life.kernel
        .rotate(life.key, session, first.id, seal)
        .await
        .unwrap();
    assert_eq!(kept(&first).await, Some(2));
    life.delete(session).await;
    assert_eq!(kept(&first).await, None);
    let (session, second) = made[1].clone();
    assert_eq!(kept(&second).await, Some(1));
    life.archive(session).await;
    assert_eq!(kept(&second).await, None);
    // A crash between token and session.
    let lost = repository(&life);
    let never = life.kernel.draft(world.config_with(lost.clone())).id;
    assert!(
        world
            .memory
            .replace_secret(token(never, &lost, 1))
            .await
            .unwrap()
    );
    tokio::time::sleep(std::time::Duration::from_secs(3 * 3600)).await;
    assert_eq!(kept(&lost).await, None);
}
