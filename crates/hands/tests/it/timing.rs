//! Cold start and warm call, printed and never asserted: machines differ in load.

use std::time::Duration;

use outlast_hands::{
    Keep, Outlet, Provisioner as _, Recipe,
    namespace::{Disks, Namespaces, Options},
};
use serde_json::json;
use tokio::time::Instant;

use crate::support::{Node, call, recipe, sh};

fn report(what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let (median, p95) = (took[took.len() / 2], took[took.len() * 95 / 100]);
    println!(
        "{what}: median {median:.2?}, p95 {p95:.2?}, of {}",
        took.len()
    );
}

/// In turns, so that the same load is on both.
#[tokio::test(flavor = "multi_thread")]
async fn cold_start_with_a_disk_and_without() {
    let dir = tempfile::tempdir().unwrap();
    let (mut starts, mut reaps) = ([vec![], vec![]], [vec![], vec![]]);
    let mut drivers = Vec::new();
    for (name, disks) in [("with", Disks::Auto), ("without", Disks::Never)] {
        let options = Options::at(dir.path().join(name));
        let driver = Namespaces::new(Options { disks, ..options }).await.unwrap();
        // The first one makes the template.
        let first = recipe();
        driver.provision(&first).await.unwrap();
        driver.reap(first.incarnation, Keep::Nothing).await.unwrap();
        drivers.push(driver);
    }
    for round in 0..60 {
        let (at, recipe) = (round % 2, recipe());
        let began = Instant::now();
        let hand = drivers[at].provision(&recipe).await.unwrap();
        starts[at].push(began.elapsed());
        sh(&hand, "echo x > file").await;
        let began = Instant::now();
        drivers[at]
            .reap(recipe.incarnation, Keep::Nothing)
            .await
            .unwrap();
        reaps[at].push(began.elapsed());
    }
    for (at, name) in ["with a disk", "without"].into_iter().enumerate() {
        report(&format!("cold start {name}"), starts[at].clone());
        report(&format!("reap {name}"), reaps[at].clone());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cold_start_and_warm_calls() {
    let began = Instant::now();
    let node = Node::new().await;
    println!("new driver, with its trial: {:.2?}", began.elapsed());
    let (mut cold, mut first, mut reap) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..30 {
        let recipe = recipe();
        let began = Instant::now();
        let hand = node.provision(&recipe).await;
        cold.push(began.elapsed());
        let began = Instant::now();
        sh(&hand, "true").await;
        first.push(began.elapsed());
        let began = Instant::now();
        node.driver
            .reap(recipe.incarnation, Keep::Nothing)
            .await
            .unwrap();
        reap.push(began.elapsed());
    }
    report("cold start", cold);
    report("first bash (starts the shell)", first);
    report("reap", reap);

    let hand = node.hand().await;
    sh(&hand, "echo x > file").await;
    let (mut bash, mut read) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let began = Instant::now();
        sh(&hand, "true").await;
        bash.push(began.elapsed());
        let began = Instant::now();
        call(&hand, "read", json!({"file_path": "file"})).await;
        read.push(began.elapsed());
    }
    report("warm bash", bash);
    report("warm read", read);
}

/// In turns too; an authority is a bundle of authorities to write.
#[tokio::test(flavor = "multi_thread")]
async fn cold_start_with_a_way_out_and_without() {
    let node = Node::new().await;
    node.hand().await;
    let mut starts = [vec![], vec![], vec![]];
    for round in 0..90 {
        let outlet = match round % 3 {
            0 => None,
            1 => Some(Outlet::default()),
            _ => Some(Outlet {
                authority: Some("-----BEGIN CERTIFICATE-----\n".repeat(20)),
                ..Outlet::default()
            }),
        };
        let recipe = Recipe { outlet, ..recipe() };
        let began = Instant::now();
        let hand = node.provision(&recipe).await;
        sh(&hand, "true").await;
        starts[round % 3].push(began.elapsed());
        let reaped = node.driver.reap(recipe.incarnation, Keep::Nothing).await;
        reaped.unwrap();
    }
    let names = ["without a way out", "with one", "with one and an authority"];
    for (took, name) in starts.into_iter().zip(names) {
        report(&format!("cold start and first call {name}"), took);
    }
}
