//! Keeps the bound of memory where no control group does, also for what processes share: by looking.
//!
//! PID 1 looks more often, and sees what each process has for itself.

use std::{sync::Weak, time::Duration};

use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::NamespaceHand;

/// How often is looked while a call runs.
const BUSY: Duration = Duration::from_millis(250);

/// How often is looked while none does.
const IDLE: Duration = Duration::from_secs(1);

/// Looking may take this part of the time.
const SHARE: u32 = 10;

/// Looks until the sandbox has ended, and ends the largest process when all together are too large.
pub(super) async fn keep(hand: Weak<NamespaceHand>) {
    let (mut looked, mut pause) = (Instant::now(), BUSY);
    loop {
        sleep(pause).await;
        let Some(alive) = hand.upgrade().filter(|hand| !hand.is_lost()) else {
            return;
        };
        pause = BUSY;
        if alive.running().0.is_empty() && looked.elapsed() < IDLE {
            continue;
        }
        looked = Instant::now();
        let (confined, limit) = (alive.confined(), alive.limits().memory_bytes);
        // A failure to look is nobody's fault inside.
        let relieved = spawn_blocking(move || confined.relieve(limit)).await;
        if let Ok(Ok(Some(bytes))) = relieved {
            tracing::info!(
                bytes,
                limit,
                "a process of a sandbox was ended: too much memory"
            );
        }
        pause = BUSY.max(looked.elapsed() * SHARE);
    }
}
