//! The suite that every store has to pass.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use outlast_store::conformance;

use crate::kit::Kit;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_contract() {
    let root = tempfile::tempdir().unwrap();
    let next = AtomicU64::new(0);
    conformance::run(async || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let dir = root.path().join(number.to_string());
        Kit::open(&dir, number).await.unwrap().subject()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_takes_in_whole_logs() {
    let root = tempfile::tempdir().unwrap();
    let next = AtomicU64::new(0);
    conformance::run_intake(async || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let dir = root.path().join(number.to_string());
        let kit = Kit::open(&dir, number).await.unwrap();
        (kit.subject(), Arc::new(kit.store))
    })
    .await;
}
