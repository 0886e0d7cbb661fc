//! Ways out of hands along their lives: dressed before, attached behind, revoked before the next.

use std::{sync::Arc, time::Duration};

use outlast_hands::{Outlet, packages::Rest};
use outlast_kernel::{
    Bound, Dress, HandLife, Schedule, Unreachable,
    network::fake::{Notes, Wish},
};
use outlast_protocol::{
    environment::Networking,
    id::{CredentialId, IncarnationId, SessionId, VaultId},
};
use outlast_session::Kind;
use outlast_store::{Resource, ResourceKind, Resources as _};
use serde_json::{Value, json};

use crate::{
    checkpoints::{pass, results, state, turn},
    lives::{Life, World},
    sim::world::setup::BEGIN,
};

fn limited(host: &str) -> Networking {
    Networking::Limited {
        allowed_hosts: vec![host.to_owned()],
        allow_mcp_servers: false,
        allow_package_managers: false,
    }
}

fn dress() -> Dress {
    Dress {
        variables: vec![("TOKEN".to_owned(), "placeholder".to_owned())],
        authority: Some("PEM".to_owned()),
    }
}

/// A world whose hands have a way out and outlive their server.
async fn world(change: impl FnOnce(&mut World)) -> (World, Notes) {
    let notes = Notes::new(dress());
    let mut world = World::new(31).await;
    world.network = Some(Arc::new(notes.clone()));
    world.hand_life = HandLife::OfTheirOwn;
    let mint = || VaultId::mint(BEGIN, &*world.entropy);
    world.config.vault_ids = vec![mint(), mint()];
    change(&mut world);
    allow(&world, 2, &limited("first.example")).await;
    (world, notes)
}

/// Changes what the environment allows.
async fn allow(world: &World, revision: u64, networking: &Networking) {
    set(world, revision, networking, &[]).await;
}

/// Changes what the environment allows, and which Python packages it has.
async fn set(world: &World, revision: u64, networking: &Networking, pip: &[&str]) {
    let id = world.config.environment_id.to_string();
    let config = json!({"type": "cloud", "networking": networking, "packages": {
        "type": "packages", "apt": [], "cargo": [], "gem": [], "go": [], "npm": [], "pip": pip}});
    let changed = Resource {
        kind: ResourceKind::Environment,
        body: outlast_session::json(&json!({"id": id, "config": config})),
        id,
        revision,
        created_at: BEGIN,
        archived_at: None,
        parent: None,
        unique_key: None,
    };
    world.memory.replace(changed, None).await.unwrap();
}

async fn hand(life: &Life, session: SessionId) -> IncarnationId {
    state(life, session).await.hand.unwrap().incarnation
}

fn bound(world: &World, session: SessionId, incarnation: IncarnationId, host: &str) -> Bound {
    Bound {
        session,
        incarnation,
        environment: world.config.environment_id,
        networking: limited(host),
        vaults: world.config.vault_ids.clone(),
        repositories: Vec::new(),
        mcp_hosts: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_hand_is_dressed_before_it_is_made_and_attached_behind() {
    let (world, notes) = world(|_| {}).await;
    let life = world.start(None).await;
    let session = world.session(&life).await;
    turn(&life, session).await;
    turn(&life, session).await;
    let incarnation = hand(&life, session).await;
    let bound = bound(&world, session, incarnation, "first.example");
    let expected = [Wish::Dress(bound.clone()), Wish::Attach(bound)];
    assert_eq!(notes.wishes(), expected, "once for all calls");
    let Dress {
        variables,
        authority,
    } = dress();
    let outlet = Outlet {
        variables,
        authority,
    };
    assert_eq!(world.hands.provisioned()[0].outlet, Some(outlet));
    assert_eq!(notes.served(), [incarnation]);
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_is_of_no_use_is_told_once_and_the_session_goes_on() {
    let (world, notes) = world(|_| {}).await;
    let life = world.start(None).await;
    let session = world.session(&life).await;
    let useless = |_| Unreachable {
        credential: CredentialId::mint(BEGIN, &*world.entropy),
        vault: world.config.vault_ids[0],
        hosts: vec!["api.example".to_owned()],
    };
    let all: Vec<_> = (0..2).map(useless).collect();
    let told = async || {
        turn(&life, session).await;
        let log = world.log(session).await;
        let errors = log
            .iter()
            .filter(|record| record.kind == Kind::SessionError);
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap()["error"].take();
        errors
            .map(|error| read(error.body.text()))
            .collect::<Vec<_>>()
    };
    notes.say_unreachable(all[..1].to_vec());
    let first = told().await;
    assert_eq!(first.len(), 1);
    assert_eq!(first[0]["type"], "credential_host_unreachable_error");
    assert_eq!(first[0]["credential_id"], json!(all[0].credential));
    assert_eq!(first[0]["vault_id"], json!(all[0].vault));
    let words = first[0]["message"].as_str().unwrap();
    assert!(
        words.contains("api.example") && words.contains("allowed_hosts"),
        "{words}"
    );
    // Once, whatever goes on, and of a second one alone.
    world.hands.kill(hand(&life, session).await);
    assert_eq!(told().await, first);
    notes.say_unreachable(all.clone());
    assert_eq!(told().await.len(), 2);
    notes.say_unreachable(Vec::new());
    assert_eq!(told().await.len(), 2);
    notes.say_unreachable(all);
    assert_eq!(told().await.len(), 4, "it was of use meanwhile");
    assert_eq!(results(&world, session).await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn without_a_network_hands_have_no_way_out() {
    let (world, _) = world(|world| world.network = None).await;
    let life = world.start(None).await;
    let session = world.session(&life).await;
    turn(&life, session).await;
    assert_eq!(world.hands.provisioned()[0].outlet, None);
    let log = world.log(session).await;
    let noted = log
        .iter()
        .any(|record| record.body.text().contains("networking"));
    assert!(!noted, "nothing is noted that nobody asks for");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_environment_touches_later_hands_only_also_after_a_restart() {
    let (world, notes) = world(|_| {}).await;
    let first = world.start(None).await;
    let session = world.session(&first).await;
    turn(&first, session).await;
    let old = hand(&first, session).await;
    allow(&world, 3, &limited("second.example")).await;
    turn(&first, session).await;
    first.close().await;
    drop(first);

    // The next server serves it before anybody asks for anything.
    let before = notes.wishes().len();
    let second = world.start(None).await;
    pass(5).await;
    let kept = bound(&world, session, old, "first.example");
    assert_eq!(notes.wishes()[before..], [Wish::Attach(kept)]);
    turn(&second, session).await;
    assert_eq!(notes.wishes().len(), before + 1, "and once");

    world.hands.kill(old);
    turn(&second, session).await;
    let new = hand(&second, session).await;
    let changed = bound(&world, session, new, "second.example");
    let wishes = notes.wishes();
    let made = wishes
        .iter()
        .position(|wish| *wish == Wish::Dress(changed.clone()))
        .unwrap();
    let revoked = wishes
        .iter()
        .position(|wish| *wish == Wish::Revoke(old))
        .unwrap();
    assert!(revoked < made, "revoked first: {wishes:?}");
    assert_eq!(wishes.last(), Some(&Wish::Attach(changed)));
    assert_eq!(notes.served(), [new]);
}

#[tokio::test(start_paused = true)]
async fn nothing_leaves_once_a_hand_rests_or_its_session_ends() {
    let (world, notes) = world(|world| world.hand_idle = Duration::from_secs(60)).await;
    let life = world.start(None).await;
    let session = world.session(&life).await;
    turn(&life, session).await;
    let first = hand(&life, session).await;
    pass(120).await;
    assert_eq!(notes.served(), []);
    assert!(notes.wishes().contains(&Wish::Revoke(first)));
    turn(&life, session).await;
    let second = hand(&life, session).await;
    assert_eq!(notes.served(), [second]);
    life.archive(session).await;
    assert_eq!(notes.served(), []);
    assert!(notes.wishes().contains(&Wish::Revoke(second)));
}

#[tokio::test(start_paused = true)]
async fn a_hand_that_cannot_be_dressed_is_not_made_and_the_next_call_tries_again() {
    let (world, notes) = world(|world| world.schedule = Schedule::NEVER).await;
    let life = world.start(None).await;
    let session = world.session(&life).await;
    notes.refuse(Some("the master key is missing"));
    turn(&life, session).await;
    assert_eq!(world.hands.provisioned().len(), 0);
    let told = results(&world, session).await;
    assert!(told[0].contains("the master key is missing"), "{told:?}");
    notes.refuse(None);
    turn(&life, session).await;
    assert_eq!(notes.served(), [hand(&life, session).await]);
}

#[tokio::test(start_paused = true)]
async fn what_installs_packages_has_a_way_out_of_the_same_name_and_no_credential() {
    let (world, notes) = world(|_| {}).await;
    let managers = Networking::Limited {
        allowed_hosts: Vec::new(),
        allow_mcp_servers: false,
        allow_package_managers: true,
    };
    set(&world, 3, &managers, &["six"]).await;
    world.hands.fetch_for(Duration::from_secs(5));
    let life = world.start(None).await;
    let session = world.session(&life).await;
    turn(&life, session).await;
    let incarnation = hand(&life, session).await;
    let own = Bound {
        networking: managers,
        ..bound(&world, session, incarnation, "")
    };
    let installing = Bound {
        vaults: Vec::new(),
        ..own.clone()
    };
    let expected = [
        Wish::Dress(own.clone()),
        Wish::Attach(installing),
        Wish::Attach(own),
    ];
    assert_eq!(notes.wishes(), expected);

    // Where the registries are closed nothing is fetched, whatever was set before.
    set(&world, 4, &limited("first.example"), &["six"]).await;
    world.hands.kill(incarnation);
    turn(&life, session).await;
    let recipes = world.hands.provisioned();
    let rests = recipes
        .iter()
        .map(|recipe| recipe.packages.as_ref().unwrap().rest);
    assert_eq!(rests.collect::<Vec<_>>(), [Rest::Fetched, Rest::Refused]);
}
