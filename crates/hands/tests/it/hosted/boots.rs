//! After another boot of the machine a journal may lack its newest lines.

use std::{fs, path::Path, sync::Arc};

use outlast_hands::{
    CallError, Hand, Keep, Provisioner as _, Recalled, Recipe,
    host::{Place, Remote},
    namespace::{Namespaces, Options},
};
use outlast_protocol::id::EventId;
use serde_json::json;

use super::{LONG, Running, options, remote};
use crate::support::{FENCE, call_id, raw, recipe, sh, text};

/// Starts a host of sandboxes and speaks to it.
async fn start(dir: &Path) -> (Running, Remote) {
    let made = Namespaces::new(Options::at(dir.join("hands"))).await;
    let host = Running::start(Place::usual(dir), Arc::new(made.unwrap()), options(LONG));
    (host, remote(dir).await)
}

/// Asks for a call of a hand that is gone; tells whether it is said that it may have run.
async fn may_have_run(hand: &Arc<dyn Hand>, call: EventId) -> bool {
    let input = raw(&json!({"command": "echo again >> file"}));
    match hand.execute(FENCE, call, "bash", &input).await {
        Err(CallError::Lost(lost)) => lost.handed_over,
        other => panic!("it ran again: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_another_boot_silence_is_not_taken_for_not_started() {
    let dir = tempfile::tempdir().unwrap();
    let (host, first) = start(dir.path()).await;
    let recipe = recipe();
    let one = recipe.incarnation;
    let hand = first.provision(&recipe).await.unwrap();
    let (done, begun, never) = (call_id(), call_id(), call_id());
    let input = raw(&json!({"command": "echo kept > file; echo done"}));
    let result = hand.execute(FENCE, done, "bash", &input).await.unwrap();
    let endless = raw(&json!({"command": "sleep 1000"}));
    let end = async {
        while first.recall(one, begun).await != Recalled::Begun {
            tokio::task::yield_now().await;
        }
        first.reap(one, Keep::Layer).await.unwrap();
    };
    let (lost, ()) = tokio::join!(hand.execute(FENCE, begun, "bash", &endless), end);
    assert!(matches!(lost, Err(CallError::Lost(_))), "{lost:?}");
    // The boot that wrote it knows.
    assert_eq!(first.recall(one, never).await, Recalled::NotStarted);
    assert!(!may_have_run(&hand, never).await);
    host.stop();

    let journal = dir
        .path()
        .join("hands")
        .join(one.to_string())
        .join("journal");
    let lines = fs::read_to_string(&journal).unwrap();
    let own = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let head = lines.lines().next().unwrap();
    assert!(head.contains(own.trim()), "{head}");
    let other = lines.replacen(own.trim(), "00000000-0000-4000-8000-000000000000", 1);
    fs::write(&journal, other).unwrap();

    let (host, second) = start(dir.path()).await;
    let recalled = [
        (done, Recalled::Settled(result.clone())),
        (begun, Recalled::Begun),
        (never, Recalled::Unknown),
    ];
    for (call, known) in recalled {
        assert_eq!(second.recall(one, call).await, known);
    }
    for call in [never, begun, call_id()] {
        assert!(may_have_run(&hand, call).await, "{call}");
    }
    let again = hand.execute(FENCE, done, "bash", &input).await.unwrap();
    assert_eq!(text(&again), text(&result));
    let predecessor = Some(one);
    let next = Recipe {
        predecessor,
        ..crate::support::recipe()
    };
    let next = second.provision(&next).await.unwrap();
    assert_eq!(sh(&next, "cat file").await, "kept");
    host.stop();
}
