//! Several nodes on one database.

use std::collections::{BTreeMap, HashSet};

use futures::future::join_all;
use outlast_protocol::id::SessionId;
use outlast_session::{Claim, Proposal, Refusal, State, fold};
use outlast_store::{
    AppendError, GONE, Pulse,
    conformance::fixture::{World, note},
    postgres::{OpenError, Postgres},
    verify,
};
use outlast_testkit::postgres::Syncs;

use super::kit::Kit;

/// Checks that a log is whole and that its head is its fold; returns how many records it has.
pub(super) async fn whole(world: &World, session: SessionId) -> u64 {
    let log = world.log(session).await;
    verify(session, &log).unwrap();
    let mut state = State::blank(session);
    for record in &log {
        fold(&mut state, &record.entry()).unwrap();
    }
    let head = world.state(session).await;
    assert_eq!(state, *head);
    log.len() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_of_two_nodes_to_one_session_are_one_log() {
    let kit = Kit::start(Syncs::None);
    let (_left, left) = kit.world("postgres", "left").await;
    let (_right, subject) = kit.subject("postgres", "right").await;
    let right = World {
        store: subject.store,
        ..left.clone()
    };
    let session = left.session().await;
    let brain = left.running().await;
    let senders = [&left, &right].map(|world| async move {
        let mut positions = BTreeMap::new();
        for number in 0..40 {
            let text = format!("{number} of one node");
            let sent = world.send(session, &text).await;
            positions.insert(sent.records[0].position, text);
            // Both nodes see what either of them wrote.
            assert!(world.state(session).await.tail >= sent.state.tail);
        }
        positions
    });
    let sent = join_all(senders).await;
    let mut all = BTreeMap::new();
    for positions in sent {
        for (position, text) in positions {
            assert_eq!(all.insert(position, text), None, "a place is given once");
        }
    }
    assert_eq!(whole(&left, session).await, 81);
    let log = right.log(session).await;
    for (position, text) in all {
        let record = &log[usize::try_from(position).unwrap() - 1];
        assert!(record.body.text().contains(&text), "{position}");
    }

    // A brain may speak through whichever node, and a repeat is known to all.
    let mut brain = brain;
    for number in 0..10 {
        brain.say(note(&number.to_string())).await.unwrap();
        let repeat = brain.at(brain.seq, note(&number.to_string()));
        let again = right.propose(brain.session, repeat).await.unwrap();
        assert!(again.records.is_empty(), "{again:?}");
    }
    whole(&right, brain.session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_know_each_other() {
    let kit = Kit::start(Syncs::None);
    // However many start at once, the schema is made once.
    let names: Vec<String> = (0..6).map(|number| format!("node-{number}")).collect();
    let opening = names.iter().map(|name| kit.open("postgres", name));
    let stores: Vec<Postgres> = join_all(opening)
        .await
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    let applied = "SELECT count(*) FROM outlast_migrations";
    assert_eq!(kit.cluster.tell(applied).unwrap(), "8");
    let held = kit.open("postgres", "node-0").await.unwrap_err();
    assert!(matches!(held, OpenError::Lock(_)), "{held}");
    for store in &stores {
        store.close().await;
    }

    processes_of_other_nodes_live(&kit).await;
    tails_are_told(&kit).await;

    // What a later version made is refused by name.
    let later = "INSERT INTO outlast_migrations (version, name) VALUES (99, '0099_later')";
    kit.cluster.tell(later).unwrap();
    let newer = kit.open("postgres", "late").await.unwrap_err();
    assert!(
        matches!(
            newer,
            OpenError::Newer {
                found: 99,
                known: 8
            }
        ),
        "{newer}"
    );
}

/// A process that starts declares dead what its own node left, and nobody else.
async fn processes_of_other_nodes_live(kit: &Kit) {
    let (first, left) = kit.world("postgres", "left").await;
    let (_second, right) = kit.world("postgres", "right").await;
    assert_eq!(left.store.beat(left.process).await.unwrap(), Pulse::Alive);
    let known = right.store.processes().await.unwrap();
    let lives = known.iter().filter(|process| !process.dead);
    let nodes: HashSet<&str> = lives.map(|process| process.node.as_str()).collect();
    assert_eq!(nodes.len(), 2, "{known:?}");

    let mut brain = left.running().await;
    right.store.declare_dead(left.process).await.unwrap();
    assert_eq!(left.store.beat(left.process).await.unwrap(), Pulse::Dead);
    let claim = Claim {
        process: right.process,
        dead: Some(left.process),
    };
    right
        .propose(brain.session, Proposal::Claim { thread: 0, claim })
        .await
        .unwrap();
    let error = brain.say(note("too late")).await.unwrap_err();
    assert!(
        matches!(error, AppendError::Refused(Refusal::Stale { .. })),
        "{error}"
    );

    // The same folder again is the same node.
    let own = right.process;
    first.close().await;
    let (_third, again) = kit.world("postgres", "left").await;
    let known = again.store.processes().await.unwrap();
    assert!(known.iter().any(|one| one.id == own && !one.dead));
}

/// Whoever watches at one node is told of what another one appends.
async fn tails_are_told(kit: &Kit) {
    let (_first, here) = kit.world("postgres", "here").await;
    let (_second, there) = kit.world("postgres", "there").await;
    let session = here.session().await;
    let mut tail = there.store.watch(session).await.unwrap();
    for number in 0..10 {
        let sent = here.send(session, &number.to_string()).await.state.tail;
        tail.wait_for(|told| *told == sent).await.unwrap();
        assert_eq!(there.state(session).await.tail, sent);
    }
    let other = here.session().await;
    let mut gone = there.store.watch(other).await.unwrap();
    here.propose(other, Proposal::Delete(here.key))
        .await
        .unwrap();
    gone.wait_for(|told| *told == GONE).await.unwrap();
    there.store.head(other).await.unwrap_err();
}
