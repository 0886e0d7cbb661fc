//! The contract, on every implementation in this crate.

mod s3;

use std::sync::Arc;

use outlast_blobs::{Blobs, Folder, conformance};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folder_keeps_the_contract() {
    let root = tempfile::tempdir().unwrap();
    let next = std::sync::atomic::AtomicU64::new(0);
    conformance::run(async || {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = Folder::open(root.path().join(number.to_string())).unwrap();
        Arc::new(folder) as Arc<dyn Blobs>
    })
    .await;
}
