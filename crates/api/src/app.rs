//! What the API is made of, and what its handlers share.

use std::{ops::Deref, sync::Arc, time::Duration};

use outlast_kernel::Kernel;
use outlast_protocol::facts::Models;
use outlast_vault::Custodian;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    health::Probes,
    intake::{Bounds, Intake},
    once::Once,
};

/// The usual [`Api::ping`].
pub const PING: Duration = Duration::from_secs(15);

/// What the API is made of.
#[derive(Clone, Debug)]
pub struct Api {
    /// The door to sessions, and to plain resources behind it.
    pub kernel: Kernel,
    /// Seals what is secret, and shows nothing of it.
    pub vault: Arc<dyn Custodian>,
    /// The models that agents may name.
    pub models: Arc<dyn Models>,
    /// Makes `/readyz` fail, once cancelled; everything else goes on.
    pub leaving: CancellationToken,
    /// Ends streams, once cancelled; other requests go on.
    pub shutdown: CancellationToken,
    /// Owns work that goes on after its client went away; wait for it before the process ends.
    pub tasks: TaskTracker,
    /// How long a stream may be silent before it sends a ping.
    pub ping: Duration,
    /// How much is taken in at once.
    pub bounds: Bounds,
}

/// The state of the router.
pub(crate) type Shared = Arc<App>;

/// What handlers share.
#[derive(Debug)]
pub(crate) struct App {
    api: Api,
    pub(crate) once: Once,
    pub(crate) probes: Probes,
    pub(crate) intake: Intake,
}

impl App {
    pub(crate) fn new(api: Api) -> Self {
        let (once, intake) = (Once::new(&api), Intake::new(api.bounds));
        Self {
            api,
            once,
            intake,
            probes: Probes::default(),
        }
    }
}

impl Deref for App {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}
