//! From a folder to a hand that answers.

use std::{net::TcpListener, os::unix::net::UnixStream, path::PathBuf, sync::Arc, time::Duration};

use outlast_init::frame::{FromInit, Settings, ToInit, User, VERSION};
use outlast_protocol::id::IncarnationId;
use outlast_sandbox::{
    Base, Cgroups, Confined, Ids, Image, Launcher, Mode, Purpose, Requirement, Shown, Spec, Verdict,
};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout},
};
use tokio_util::task::TaskTracker;

use super::{
    Folder, NamespaceHand, cover,
    journal::Journal,
    link::{Link, listener},
    packages::Used,
    parts::Parts,
    uploads::{self, Uploads},
};
use crate::{Limits, Outlet, ProvisionError, Recipe, images::Images};

/// How long PID 1 may take to answer: a machine under load, not a normal one.
const HELLO: Duration = Duration::from_secs(30);

/// Makes hands.
#[derive(Debug)]
pub(super) struct Maker {
    launcher: Arc<Launcher>,
    program: Arc<Image>,
    images: Images,
    tasks: TaskTracker,
    /// This boot of the machine.
    boot: Arc<str>,
}

/// A step that failed, before it is known for whom.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) step: String,
    pub(super) reason: String,
    pub(super) mend: Option<String>,
}

impl Failed {
    /// Says for whom.
    pub(super) fn of(self, incarnation: IncarnationId) -> ProvisionError {
        let Self { step, reason, mend } = self;
        ProvisionError::Step {
            incarnation,
            step,
            reason,
            mend,
        }
    }
}

impl Failed {
    /// Names the step.
    fn at(step: &str) -> impl Fn(std::io::Error) -> Self {
        move |error| Self {
            step: step.to_owned(),
            reason: error.to_string(),
            mend: None,
        }
    }
}

impl Maker {
    /// Makes hands with a launcher.
    pub(super) fn new(
        launcher: Arc<Launcher>,
        program: Arc<Image>,
        images: Images,
        tasks: TaskTracker,
        boot: Arc<str>,
    ) -> Self {
        Self {
            launcher,
            program,
            images,
            tasks,
            boot,
        }
    }

    /// Returns what starts sandboxes.
    pub(super) fn launcher(&self) -> Arc<Launcher> {
        Arc::clone(&self.launcher)
    }

    /// Tells what this host can isolate.
    pub(super) fn verdict(&self) -> &Verdict {
        self.launcher.verdict()
    }

    /// Returns the ids that sandboxes run as.
    pub(super) fn ids(&self) -> &Ids {
        self.launcher.ids()
    }

    /// Refuses what this host cannot isolate as an operator demands.
    pub(super) fn admit(
        &self,
        incarnation: IncarnationId,
        require: &[Requirement],
    ) -> Result<(), ProvisionError> {
        let verdict = self.verdict();
        let lacking = require
            .iter()
            .find_map(|wanted| Some((*wanted, verdict.lacks(*wanted)?)));
        match lacking {
            None => Ok(()),
            Some((wanted, reason)) => Err(ProvisionError::Step {
                incarnation,
                step: format!("isolate it as `hands.require` demands ({})", wanted.name()),
                reason,
                mend: Some("`outlast check` prints the command that mends it".to_owned()),
            }),
        }
    }

    /// Removes control groups that a dead server left.
    pub(super) fn remove_leftover(&self, incarnation: IncarnationId) {
        self.launcher.remove_leftover(&incarnation.to_string());
    }

    /// Makes a hand in a folder.
    pub(super) async fn make(
        &self,
        folder: Folder,
        recipe: &Recipe,
        packages: Option<Used>,
    ) -> Result<Arc<NamespaceHand>, ProvisionError> {
        let incarnation = folder.incarnation();
        let began = Instant::now();
        let made = match self.base(recipe).await {
            Ok(base) => self.attempt(folder, base, recipe, packages).await,
            Err(failed) => Err(failed),
        };
        let took = began.elapsed();
        metrics::histogram!("outlast_hands_provision_seconds").record(took.as_secs_f64());
        match made {
            Ok(hand) => {
                tracing::debug!(%incarnation, ?took, "hand `{incarnation}` is made");
                Ok(hand)
            }
            Err(failed) => Err(failed.of(incarnation)),
        }
    }

    /// Finds what a sandbox stands on.
    pub(super) async fn base(&self, recipe: &Recipe) -> Result<Base, Failed> {
        let Some(image) = recipe.image.clone() else {
            return Ok(Base::Host);
        };
        let (images, ids, name) = (self.images.clone(), *self.ids(), image.clone());
        let found = spawn_blocking(move || images.trees(&name, &ids)).await;
        let found = found.unwrap_or_else(|error| Err(error.to_string()));
        found.map(Base::Trees).map_err(|reason| Failed {
            step: format!("find the image `{image}`"),
            reason,
            mend: Some(format!(
                "`outlast images import {image} FILE` brings it here"
            )),
        })
    }

    /// Returns the digest of the image that a recipe names.
    pub(super) async fn digest(&self, recipe: &Recipe) -> Result<Option<String>, Failed> {
        let Some(image) = recipe.image.clone() else {
            return Ok(None);
        };
        let images = self.images.clone();
        let found = spawn_blocking(move || images.digest(&image)).await;
        let found = found.map_err(std::io::Error::other).flatten();
        found.map_err(Failed::at("find the image"))
    }

    /// Starts the sandbox, greets PID 1, begins the journal.
    async fn attempt(
        &self,
        folder: Folder,
        base: Base,
        recipe: &Recipe,
        packages: Option<Used>,
    ) -> Result<Arc<NamespaceHand>, Failed> {
        let above = packages.iter().map(|used| used.tree().to_owned()).collect();
        let (confined, ours) = self.start(folder.clone(), base, above, recipe).await?;
        let mut link = Link::new(ours).map_err(Failed::at("open the channel"))?;
        let outlet = self.greet(&mut link, &confined, recipe).await?;
        let boot = Arc::clone(&self.boot);
        let journal =
            spawn_blocking(move || Journal::create(&folder, &boot).map(|made| (made, folder)));
        let (journal, folder) = journal
            .await
            .map_err(std::io::Error::other)
            .flatten()
            .map_err(Failed::at("begin the journal"))?;
        let parts = Parts {
            incarnation: folder.incarnation(),
            limits: recipe.limits,
            confined,
            journal,
            link,
            outlet,
            packages,
        };
        Ok(NamespaceHand::begin(parts, &self.tasks))
    }

    /// Tells PID 1 what it has to know; returns the listener that it hands out.
    async fn greet(
        &self,
        link: &mut Link,
        confined: &Confined,
        recipe: &Recipe,
    ) -> Result<Option<TcpListener>, Failed> {
        let hello = ToInit::Hello(self.settings(recipe));
        link.send(&hello).await.map_err(Failed::at("greet PID 1"))?;
        let greeted = timeout(HELLO, link.greeting()).await;
        let answer = greeted
            .map_err(|_| std::io::ErrorKind::TimedOut.into())
            .flatten();
        let (answer, came) = answer.map_err(Failed::at("hear from PID 1"))?;
        let reason = match answer {
            Some(FromInit::Ready { version: VERSION }) => {
                let listener = recipe.outlet.as_ref().map(|_| listener(came)).transpose();
                return listener.map_err(Failed::at("take the listener that leads out"));
            }
            Some(FromInit::Ready { version }) => format!("it speaks version {version}"),
            Some(FromInit::Unfit { reason }) => reason,
            Some(FromInit::Settled { .. } | FromInit::Struck { .. }) => {
                "it answers what was not asked".to_owned()
            }
            None => confined.wait().to_string(),
        };
        Err(Failed {
            step: "greet PID 1".to_owned(),
            reason,
            mend: None,
        })
    }

    /// Starts the sandbox; returns it with our end of its channel.
    async fn start(
        &self,
        folder: Folder,
        base: Base,
        above: Vec<PathBuf>,
        recipe: &Recipe,
    ) -> Result<(Confined, UnixStream), Failed> {
        let (launcher, program) = (Arc::clone(&self.launcher), Arc::clone(&self.program));
        let (limits, outlet) = (recipe.limits, recipe.outlet.clone());
        let started = spawn_blocking(move || {
            folder.make().map_err(Failed::at("make its folder"))?;
            let made = Uploads::of(&folder).make();
            made.map_err(Failed::at("make the folder of its uploads"))?;
            let (ours, theirs) = UnixStream::pair().map_err(Failed::at("make a channel"))?;
            let cover = outlet.map(|outlet| cover::of(&outlet, &base, &above));
            let cover = cover.unwrap_or_default();
            let spec = Spec {
                name: folder.incarnation().to_string(),
                program,
                argv: vec!["outlast-init".to_owned()],
                channel: theirs.into(),
                folder: folder.tree(),
                shown: vec![Shown {
                    from: folder.uploads(),
                    to: uploads::INSIDE.to_owned(),
                }],
                limits: bounds(&limits),
                base,
                above,
                cover,
                purpose: Purpose::Commands,
            };
            let confined = launcher.start(spec).map_err(|error| Failed {
                step: error.step,
                reason: error.source.to_string(),
                mend: error.mend,
            })?;
            Ok((confined, ours))
        });
        started
            .await
            .map_err(|error| Failed::at("start it")(std::io::Error::other(error)))?
    }

    /// Writes down what PID 1 has to know.
    fn settings(&self, recipe: &Recipe) -> Settings {
        let limits = recipe.limits;
        let variables = recipe.outlet.as_ref().map(Outlet::environment);
        let (uid, gid) = self.launcher.ids().inside();
        let counted = matches!(self.verdict().cgroups, Cgroups::None { .. });
        Settings {
            version: VERSION,
            user: match self.launcher.ids().mode {
                Mode::Privileged => Some(User { uid, gid }),
                Mode::Rootless => None,
            },
            pids: limits.pids,
            output_bytes: limits.output_bytes,
            call_ms: u64::try_from(limits.call.as_millis()).unwrap_or(u64::MAX),
            watch_memory: counted.then_some(limits.memory_bytes),
            door: !counted,
            outlet: recipe.outlet.is_some(),
            variables: variables.unwrap_or_default(),
        }
    }
}

/// Returns the bounds that a sandbox is held to from outside.
pub(super) const fn bounds(limits: &Limits) -> outlast_sandbox::Limits {
    outlast_sandbox::Limits {
        memory_bytes: limits.memory_bytes,
        pids: limits.pids,
        cpu_millis: limits.cpu_millis,
        disk_bytes: limits.disk_bytes,
        inodes: limits.inodes,
    }
}
