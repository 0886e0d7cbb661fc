//! Two hosts on one folder of hands, with real locks: the old one drains, the new one waits for it
//! and never works on what the old one has.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use outlast_hands::{
    Keep, Provisioner as _, Recalled, Recipe,
    host::{Ended, Found, Place, Remote, Starter, VERSION},
    namespace::{self, Namespaces},
};
use outlast_protocol::id::IncarnationId;
use serde_json::json;

use super::{LONG, Running, options, remote, troubles};
use crate::support::{FENCE, call, call_id, fine, raw, recipe, sh, text};

async fn sandboxes(dir: &Path) -> Arc<Namespaces> {
    let options = namespace::Options::at(dir.join("hands"));
    Arc::new(Namespaces::new(options).await.unwrap())
}

/// Starts hosts of sandboxes on the same folder in this process.
#[derive(Debug, Default)]
struct Beside(Mutex<Vec<(String, Running)>>);

#[async_trait]
impl Starter for Beside {
    async fn start(&self, place: &Place) -> std::io::Result<()> {
        let driver = sandboxes(place.dir()).await;
        let host = Running::start(place.clone(), driver, options(LONG));
        self.0.lock().unwrap().push((place.stem().to_owned(), host));
        Ok(())
    }
}

fn after(predecessor: &Recipe) -> Recipe {
    Recipe {
        predecessor: Some(predecessor.incarnation),
        ..recipe()
    }
}

/// Waits for what is so in the end, by asking again and again.
async fn until<F: Future<Output = bool>>(what: &str, mut so: impl FnMut() -> F) {
    let waiting = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let done = tokio::time::timeout(crate::support::GENEROUS, waiting).await;
    assert!(done.is_ok(), "never: {what}");
}

/// Tells the host that runs to drain, and has one start beside it.
async fn drained(dir: &Path) -> (Arc<Beside>, Arc<Remote>) {
    let said = troubles::ask(&Place::usual(dir).socket(), "POST /v1/host/drain").await;
    assert!(said.contains("200 OK"), "{said}");
    let starter = Arc::new(Beside::default());
    let opened = Remote::open(dir, Some(starter.clone() as Arc<dyn Starter>)).await;
    let (second, found) = opened.unwrap();
    assert_eq!((found, second.about().draining), (Found::Beside, false));
    (starter, Arc::new(second))
}

/// The new host refuses to work on what the old one has; the old one itself does.
async fn what_is_had_is_left_alone(first: &Remote, second: &Remote, busy: IncarnationId) {
    for keep in [Keep::Layer, Keep::Nothing] {
        let error = second.reap(busy, keep).await.unwrap_err();
        assert!(error.reason.contains("another hand host"), "{error}");
    }
    let error = second.checkpoint(busy).await.err().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy, "{error}");
    let error = second.outputs(busy).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy, "{error}");
    assert!(second.list().await.contains(&busy));
    assert!(first.checkpoint(busy).await.is_ok());
    assert_eq!(first.outputs(busy).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_host_waits_for_what_the_old_one_has() {
    let dir = tempfile::tempdir().unwrap();
    let driver = sandboxes(dir.path()).await;
    let old = Running::start(Place::usual(dir.path()), driver, options(LONG));
    let first = remote(dir.path()).await;
    let (busy, idle) = (recipe(), recipe());
    let hand = first.provision(&busy).await.unwrap();
    let other = first.provision(&idle).await.unwrap();
    sh(&other, "echo idle > file").await;
    let (running, never) = (call_id(), call_id());
    let script = raw(&json!({"command":
        "echo early > file; until [ -e go ]; do sleep 0.02; done; echo late >> file; echo done"}));
    let asked = hand.execute(FENCE, running, "bash", &script);

    let meanwhile = async {
        until("the call runs", async || {
            first.recall(busy.incarnation, running).await == Recalled::Begun
        })
        .await;
        let (starter, second) = drained(dir.path()).await;

        // The old one takes no new hand, and ends the one without calls.
        let refused = first.provision(&recipe()).await.unwrap_err().to_string();
        assert!(refused.contains("takes no new hand"), "{refused}");
        until("the idle hand ends", async || {
            first.find(idle.incarnation).await.is_none()
        })
        .await;
        let taken = second.provision(&after(&idle)).await.unwrap();
        assert_eq!(sh(&taken, "cat file").await, "idle");
        // The other goes on, and is asked for nothing by the new one.
        assert!(first.find(busy.incarnation).await.is_some());
        assert!(second.find(busy.incarnation).await.is_none());
        let ask = |call| {
            let (second, busy) = (second.clone(), busy.incarnation);
            #[expect(clippy::disallowed_methods, reason = "ends with the test")]
            tokio::spawn(async move { second.recall(busy, call).await })
        };
        let (result, silent) = (ask(running), ask(never));
        let (node, next) = (second.clone(), after(&busy));
        let successor = next.clone();
        #[expect(clippy::disallowed_methods, reason = "ends with the test")]
        let made = tokio::spawn(async move { node.provision(&successor).await });
        what_is_had_is_left_alone(&first, &second, busy.incarnation).await;
        assert!(!result.is_finished() && !silent.is_finished() && !made.is_finished());
        assert_eq!(
            first.recall(busy.incarnation, running).await,
            Recalled::Begun
        );

        // Somebody lets the call come to its end.
        let go = json!({"file_path": "go", "content": ""});
        fine(&call(&hand, "write", go).await);
        let Recalled::Settled(settled) = result.await.unwrap() else {
            panic!("it is settled");
        };
        assert_eq!(text(&settled), "done");
        assert_eq!(silent.await.unwrap(), Recalled::NotStarted);
        let made = made.await.unwrap().unwrap();
        assert_eq!(sh(&made, "cat file").await, "early\nlate");
        assert_eq!(second.find(next.incarnation).await.map(|_| ()), Some(()));
        second.reap(busy.incarnation, Keep::Nothing).await.unwrap();
        starter
    };
    let (done, starter) = tokio::join!(asked, meanwhile);
    // Who asked the old one has the answer from it.
    assert_eq!(text(&done.unwrap()), "done");
    let ended = tokio::task::spawn_blocking(|| old.thread.join().unwrap());
    assert_eq!(ended.await.unwrap(), Some(Ended::Drained));
    assert!(!Place::usual(dir.path()).is_held().unwrap());
    let hosts = std::mem::take(&mut *starter.0.lock().unwrap());
    for (stem, host) in hosts {
        assert_eq!(stem, format!("hand-host-v{VERSION}"));
        host.stop();
    }
}
