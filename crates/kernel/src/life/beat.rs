//! Says again and again that this process lives.

use std::{io, sync::Arc, thread, time::Duration};

use outlast_store::{Pulse, Store};
use tokio::{
    runtime::Builder,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{Beater, Beats, Halt, Life, PARTS};
use crate::metric_definitions as metrics;

/// Beats until the life ends, if anybody could declare it over.
///
/// # Errors
///
/// If there is no thread to be had.
pub(crate) fn start(life: &Arc<Life>, store: Arc<dyn Store>) -> io::Result<()> {
    let Some(beats) = life.beats else {
        return Ok(());
    };
    // What beats does not keep the life: it ends with the last of those who do.
    let (weak, stop) = (Arc::downgrade(life), life.stop.clone());
    let beating = async move {
        let mut sure = true;
        while let Some(life) = weak.upgrade() {
            beat(&life, &*store, beats).await;
            sure = tell(&life, sure);
            drop(life);
            if is_over(&stop, beats.bound / PARTS).await {
                return;
            }
        }
    };
    match beats.by {
        Beater::Task => drop(life.tasks.spawn(beating)),
        Beater::Thread => {
            let beating = life.tasks.track_future(beating);
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let thread = thread::Builder::new().name("outlast-beat".to_owned());
            drop(thread.spawn(move || runtime.block_on(beating))?);
        }
    }
    Ok(())
}

async fn is_over(stop: &CancellationToken, pause: Duration) -> bool {
    tokio::select! {
        biased;
        () = stop.cancelled() => true,
        () = sleep(pause) => false,
    }
}

/// Beats once. An answer that takes long is not waited for: the next beat may find another way.
async fn beat(life: &Life, store: &dyn Store, beats: Beats) {
    let process = life.process();
    if !life.is(process) {
        return;
    }
    // Before it is sent: what a peer sees is never older than what is noted here.
    let sent = life.clock.uptime();
    let answer = timeout(beats.bound / PARTS * 2, store.beat(process)).await;
    let outcome = match answer {
        Ok(Ok(Pulse::Alive)) => {
            life.confirm(process, sent);
            "alive"
        }
        Ok(Ok(Pulse::Dead)) => {
            life.declared(process);
            "dead"
        }
        Ok(Err(fault)) => {
            tracing::debug!(%fault, "a beat failed: {fault}");
            "failed"
        }
        Err(_) => "failed",
    };
    ::metrics::counter!(metrics::BEATS, "outcome" => outcome).increment(1);
}

/// Says in the log when certainty comes and goes; tells whether it is there.
fn tell(life: &Life, before: bool) -> bool {
    let now = life.check(life.process()) != Err(Halt::Unsure);
    match (before, now) {
        (true, false) => tracing::error!(
            "no beat was confirmed for long: until one is, no model request and no call begins"
        ),
        (false, true) => tracing::info!("a beat is confirmed again"),
        (true, true) | (false, false) => {}
    }
    now
}
