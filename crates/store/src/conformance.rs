//! What every store has to do.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failure is a failed test"
)]

mod audit_log;
mod brains;
mod checkpoints;
mod crowd;
mod endings;
mod erasing;
mod files;
pub mod fixture;
mod intake;
mod keys;
mod listing;
mod logs;
mod processes;
mod reads;
mod receipts;
mod resources;
mod secrets;
mod waking;
mod wards;
mod watching;

use std::sync::Arc;

use self::fixture::{Subject, World};
use crate::{Intake, Trim};

/// Runs the whole suite, each part on a fresh, empty store.
///
/// # Panics
///
/// Where the store breaks its contract.
pub async fn run<F, Fut>(factory: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Subject>,
{
    let world = async || World::new(factory().await).await;
    logs::run(&world).await;
    brains::run(&world).await;
    receipts::run(&world).await;
    reads::run(&world).await;
    watching::run(&world).await;
    listing::run(&world).await;
    resources::run(&world).await;
    keys::run(&world).await;
    secrets::run(&world).await;
    wards::run(&world).await;
    audit_log::run(&world).await;
    endings::run(&world).await;
    erasing::run(&world).await;
    files::run(&world).await;
    checkpoints::run(&world).await;
    waking::run(&world).await;
    processes::run(&world).await;
    crowd::run(&world).await;
}

/// Runs the suite of what operators alone do: whole logs that come from elsewhere are taken in, old
/// entries of the audit log taken out.
///
/// # Panics
///
/// Where the store breaks its contract.
pub async fn run_intake<S, F, Fut>(factory: F)
where
    S: Intake + Trim,
    F: Fn() -> Fut,
    Fut: Future<Output = (Subject, Arc<S>)>,
{
    let world = async || {
        let (subject, store) = factory().await;
        (World::new(subject).await, store)
    };
    intake::run(&world).await;
    audit_log::run_trim(&world).await;
}
