//! Every driver keeps the promises of the seam.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use outlast_hands::{
    conformance::{self, Deed, Fixture},
    fake::{Fakes, Reply},
    files::Abilities,
    namespace::{Namespaces, Options},
};
use outlast_protocol::CallResult;

use crate::support::Counter;

#[tokio::test(flavor = "multi_thread")]
async fn the_namespace_driver_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let number = AtomicU64::new(0);
    conformance::run(|| async {
        let dir = dir
            .path()
            .join(number.fetch_add(1, Ordering::Relaxed).to_string());
        Fixture {
            provisioner: Arc::new(Namespaces::new(Options::at(dir)).await.unwrap()),
            entropy: Arc::new(Counter),
            quick: ("bash", r#"{"command": "date +%N; echo $RANDOM$RANDOM"}"#),
            endless: ("bash", r#"{"command": "sleep 1000"}"#),
            deed: Deed::in_bash,
        }
    })
    .await;
}

/// Runs the suite over pretended hands.
async fn pretended(abilities: Abilities) {
    conformance::run(|| async {
        let number = AtomicU64::new(0);
        let fakes = Fakes::with(abilities, move |asked| match asked.name.as_str() {
            "endless" => Reply::Never,
            "deed" => Reply::Deed,
            _ => {
                let number = number.fetch_add(1, Ordering::Relaxed);
                Reply::Now(CallResult::text(number.to_string()))
            }
        });
        Fixture {
            provisioner: Arc::new(fakes),
            entropy: Arc::new(Counter),
            quick: ("quick", "{}"),
            endless: ("endless", "{}"),
            deed: Deed::pretended,
        }
    })
    .await;
}

#[tokio::test]
async fn the_pretended_driver_conforms() {
    pretended(Abilities::ALL).await;
}

#[tokio::test]
async fn a_driver_of_calls_alone_conforms() {
    pretended(Abilities::default()).await;
}
