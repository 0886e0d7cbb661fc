//! The suite that every store has to pass.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use outlast_store::conformance;
use outlast_testkit::postgres::Syncs;

use super::kit::Kit;

/// Empties every table but that of the migrations, and the row of `probes`.
const EMPTY: &str = "DO $$ DECLARE names text; BEGIN \
                     SELECT string_agg(quote_ident(tablename), ', ') INTO names FROM pg_tables \
                     WHERE schemaname = 'public' \
                     AND tablename NOT IN ('outlast_migrations', 'probes'); \
                     EXECUTE 'TRUNCATE ' || names || ' RESTART IDENTITY'; END $$";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_keeps_the_contract() {
    let kit = Kit::start(Syncs::None);
    let next = AtomicU64::new(0);
    conformance::run(async || {
        // Each part has the database to itself, and a node of its own.
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number > 0 {
            kit.cluster.tell(EMPTY).unwrap();
        }
        kit.subject("postgres", &format!("node-{number}")).await.1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_takes_in_whole_logs() {
    let kit = Kit::start(Syncs::None);
    let next = AtomicU64::new(0);
    conformance::run_intake(async || {
        // Each has a database of its own: a log comes out of one and goes into others.
        let number = next.fetch_add(1, Ordering::Relaxed);
        let database = format!("intake_{number}");
        let made = kit.cluster.tell(&format!("CREATE DATABASE {database}"));
        made.unwrap();
        let (store, subject) = kit.subject(&database, &database).await;
        (subject, Arc::new(store))
    })
    .await;
}
