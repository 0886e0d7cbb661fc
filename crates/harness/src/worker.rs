//! Takes leases from the kernel and drives a turn under each.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use outlast_kernel::{Claims, Lease};
use outlast_model::{Facts, Model};
use outlast_session::Step;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use crate::{
    drive::{Cause, Drive, Stuck, Tools},
    failure::{self, Retries},
};

/// What our loop is made of.
#[derive(Debug)]
pub struct Options {
    /// Where requests go; it must be the gateway, which writes the spans.
    pub model: Arc<dyn Model>,
    /// What is known about models.
    pub facts: Arc<Facts>,
    /// How failures are retried.
    pub retries: Retries,
}

/// Runs our loop for every lease that this process wins.
#[derive(Debug)]
pub struct Worker {
    tools: Arc<Tools>,
    turns: TaskTracker,
}

impl Worker {
    /// Makes a worker.
    pub fn new(options: Options) -> Self {
        let Options {
            model,
            facts,
            retries,
        } = options;
        Self {
            tools: Arc::new(Tools {
                model,
                facts,
                retries,
            }),
            turns: TaskTracker::new(),
        }
    }

    /// Works until the kernel is gone, then waits for the turns that run.
    ///
    /// The kernel bounds how many run at once; a turn that dies gives its lease back.
    pub async fn run(self, mut claims: Claims) {
        while let Some(lease) = claims.recv().await {
            let tools = self.tools.clone();
            self.turns.spawn(async move { turn(&lease, &tools).await });
        }
        self.turns.close();
        self.turns.wait().await;
    }
}

/// How long a lease is kept whose log cannot be written or read: whoever claims next may not be able
/// either.
const PAUSE: Duration = Duration::from_secs(1);

/// Drives one lease to its end. A brain that panics ends this turn and no other.
async fn turn(lease: &Lease, tools: &Tools) {
    let session = lease.session();
    let mut drive = Drive::new(lease, tools);
    let driven = AssertUnwindSafe(drive.run()).catch_unwind();
    let Ok(driven) = driven.await else {
        tracing::error!(session.id = %session, "a brain of session `{session}` panicked");
        return lease.broke();
    };
    match driven {
        Ok(()) => {}
        Err(Stuck::Unreadable(fault)) => {
            tracing::error!(session.id = %session, "session `{session}` is over: {fault}");
            let failure = failure::unreadable(&fault.to_string());
            if let Err(fault) = lease.propose(Step::Fail(failure)).await {
                tracing::warn!(session.id = %session, "cannot end session `{session}`: {fault}");
            }
        }
        Err(stuck) => {
            tracing::warn!(session.id = %session, "a turn of session `{session}` stopped: {stuck}");
            match stuck.cause() {
                Cause::Fault => lease.broke(),
                Cause::Log => {
                    tokio::select! {
                        biased;
                        () = sleep(PAUSE) => {}
                        () = lease.closing() => {}
                    }
                }
                Cause::Lease => {}
            }
        }
    }
}
