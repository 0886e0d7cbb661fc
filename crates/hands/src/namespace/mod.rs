//! The namespace driver: no daemon, no image; one Linux sandbox per incarnation.
//!
//! A sandbox is a child of this process and dies with it. Its writable layer and its journal are
//! host files of the incarnation, which nothing inside can see, and outlive it.

mod checkpoint;
mod cover;
mod fit;
mod folder;
mod hand;
mod journal;
mod layer;
mod link;
mod maker;
mod memory;
mod outputs;
mod packages;
mod parts;
mod room;
mod slots;
mod strikes;
mod survey;
#[cfg(test)]
mod testing;
mod uploads;
mod usage;
mod words;

use std::{io, net::TcpListener, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use outlast_protocol::id::{EventId, IncarnationId};
pub use outlast_sandbox::{Cgroups, Disk, Disks, Finding, Layering, Mode, State, Survey, Verdict};
use outlast_sandbox::{Image, Launcher, Layer};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};
use tokio_util::task::TaskTracker;

use crate::images::Images;
use crate::{
    Hand, Keep, Limits, ProvisionError, Provisioner, ReapError, Recalled, Recipe,
    files::{Abilities, Packed, Published, Reader, Upload},
};
use folder::{Folder, Folders};
use hand::NamespaceHand;
use maker::Maker;
use slots::Slots;
pub use survey::survey;
use uploads::{Uploads, blocking};

/// The helper that confines.
const CONFINE: &[u8] = include_bytes!(env!("OUTLAST_CONFINE"));

/// PID 1.
const INIT: &[u8] = include_bytes!(env!("OUTLAST_INIT"));

/// What the driver is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Holds a folder for each incarnation; made if it is missing. Of one server at a time.
    pub dir: PathBuf,
    /// Whether sandboxes have disks of their own.
    pub disks: Disks,
    /// What sandboxes may stand on beside this host's own programs.
    pub images: Images,
    /// Holds the layers of packages; made when one is.
    pub layers: PathBuf,
    /// How long such a layer may lie unused before it is removed.
    pub layer_unused: Duration,
}

impl Options {
    /// Makes the options for a folder, with everything that the host can do.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            images: Images::new(dir.with_file_name("images")),
            layers: dir.with_file_name("layers"),
            layer_unused: LAYER_UNUSED,
            dir,
            disks: Disks::Auto,
        }
    }
}

/// Makes hands of Linux sandboxes on this machine.
///
/// Dropping it, and every hand it gave out, ends the sandboxes; layers and journals stay.
#[derive(Debug)]
pub struct Namespaces {
    node: Arc<Node>,
}

/// What the driver's tasks share.
#[derive(Debug)]
struct Node {
    folders: Folders,
    maker: Maker,
    slots: Slots,
    layers: outputs::Layers,
    turns: checkpoint::Turns,
    tasks: TaskTracker,
    packages: Arc<packages::Store>,
    /// This boot of the machine.
    boot: Arc<str>,
}

/// How long a layer of packages may lie unused where nobody says otherwise.
const LAYER_UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);

/// How often to look whether another host has let go of an incarnation.
const LOOK: Duration = Duration::from_millis(50);

/// How long to wait for that where nothing depends on it.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is said of an incarnation that this host cannot work on.
const ELSEWHERE: &str = "another hand host, which is about to end, still has it";

/// Names the step in which something failed.
fn step(name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {name}: {error}"))
}

/// Refuses to work on the files of a sandbox that another host has.
fn elsewhere() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, ELSEWHERE)
}

impl Namespaces {
    /// Finds out what this host can isolate. Must run in a tokio runtime.
    ///
    /// A host that can isolate nothing still gives a driver: its [`verdict`](Self::verdict) and
    /// every attempt to provision say what is missing.
    ///
    /// # Errors
    ///
    /// If the folder cannot be used, or threads or memory are lacking.
    pub async fn new(options: Options) -> io::Result<Self> {
        let folders = Folders::new(&options.dir)?;
        let (shared, left) = (folders.shared(), folders.clone());
        let (dir, disks) = (options.dir, options.disks);
        let made = spawn_blocking(move || -> io::Result<_> {
            let image = |name: &str, program| {
                let made = Image::new(name, program).map(Arc::new);
                made.map_err(|error| step("keep a program of sandboxes in memory", &error))
            };
            let (helper, program) = (
                image("outlast-confine", CONFINE)?,
                image("outlast-init", INIT)?,
            );
            let dir = dir.canonicalize()?;
            let launcher = Launcher::new(outlast_sandbox::Options {
                helper,
                shared,
                disks,
            });
            let launcher = launcher
                .map_err(|error| step("find out what sandboxes this host can have", &error))?;
            // Of a server that died: the folder has one at a time.
            launcher.sweep_disks(&dir);
            left.clear();
            Ok((launcher, program))
        });
        let (launcher, program) = made.await.map_err(io::Error::other)??;
        let verdict = launcher.verdict();
        tracing::info!(?verdict, "sandboxes: {verdict}");
        let tasks = TaskTracker::new();
        let boot: Arc<str> = outlast_sandbox::boot().into();
        let launcher = Arc::new(launcher);
        let packages =
            packages::Store::new(options.layers, Arc::clone(&launcher), Arc::clone(&program));
        let packages = Arc::new(packages);
        tasks.spawn(Arc::clone(&packages).tidy(options.layer_unused));
        let maker = Maker::new(
            launcher,
            program,
            options.images,
            tasks.clone(),
            Arc::clone(&boot),
        );
        let (left, launcher) = (folders.clone(), maker.launcher());
        tasks.spawn_blocking(move || sweep_groups(&left, &launcher));
        Ok(Self {
            node: Arc::new(Node {
                folders,
                maker,
                slots: Slots::default(),
                layers: outputs::Layers::default(),
                turns: checkpoint::Turns::default(),
                tasks,
                packages,
                boot,
            }),
        })
    }

    /// Tells what isolation this host gives.
    pub fn verdict(&self) -> &Verdict {
        self.node.maker.verdict()
    }

    /// Ends every sandbox and waits until nothing of them runs. Layers and journals stay.
    pub async fn shutdown(&self) {
        self.node.tasks.close();
        self.node.packages.stop();
        for hand in self.node.slots.hands() {
            hand.kill().await;
        }
        self.node.tasks.wait().await;
    }
}

/// Removes the control groups of every incarnation that a dead server left.
fn sweep_groups(folders: &Folders, launcher: &Launcher) {
    for incarnation in folders.list() {
        // One that has not lived may be given life just now, and another host may have one.
        let folder = folders.of(incarnation);
        if folder.has_lived() && !journal::is_held(&folder) {
            launcher.remove_leftover(&incarnation.to_string());
        }
    }
}

impl Node {
    /// Returns the writable layer of an incarnation, living or not, reachable while it is held.
    ///
    /// [`io::ErrorKind::NotFound`] if this node has none.
    async fn layer(&self, incarnation: IncarnationId) -> io::Result<Arc<Layer>> {
        let living = self.slots.live(incarnation);
        if let Some(layer) = living.and_then(|hand| hand.layer()) {
            return Ok(Arc::new(layer));
        }
        if self.is_elsewhere(incarnation).await {
            return Err(elsewhere());
        }
        self.layers.of(self.folders.of(incarnation)).await
    }

    /// Makes a hand, or returns the one there is.
    async fn provision(
        self: &Arc<Self>,
        recipe: &Recipe,
    ) -> Result<Arc<NamespaceHand>, ProvisionError> {
        let incarnation = recipe.incarnation;
        self.maker.admit(incarnation, &recipe.require)?;
        if let Some(hand) = self.slots.live(incarnation) {
            return Ok(hand);
        }
        // Before the incarnation is locked: this may take long, and it may be ended meanwhile.
        let packages = self.packages(recipe).await;
        let packages = packages.map_err(|failed| failed.of(incarnation))?;
        let slot = self.slots.slot(incarnation);
        let turn = slot.turn().await;
        let folder = self.folders.of(incarnation);
        match slot.hand() {
            Some(hand) if !hand.is_lost() => return Ok(hand),
            None if !folder.has_lived() => {}
            Some(_) | None => return Err(ProvisionError::Ended { incarnation }),
        }
        if let Some(predecessor) = recipe.predecessor.filter(|old| *old != incarnation) {
            self.inherit(predecessor, &folder).await?;
        }
        self.fit(&folder, recipe.limits).await?;
        let hand = self.maker.make(folder, recipe, packages).await?;
        slot.fill(&hand, &turn);
        Ok(hand)
    }

    /// Returns the layer with the packages of a recipe, installed now if there is none.
    async fn packages(&self, recipe: &Recipe) -> Result<Option<packages::Used>, maker::Failed> {
        let wanted = recipe.packages.as_ref();
        let Some(wanted) = wanted.filter(|wanted| !wanted.packages.is_empty()) else {
            return Ok(None);
        };
        let base = self.maker.base(recipe).await?;
        let order = packages::Order {
            incarnation: recipe.incarnation,
            digest: self.maker.digest(recipe).await?,
            base: &base,
            image: recipe.image.as_deref(),
            limits: recipe.limits,
            wanted,
        };
        self.packages.ensure(order).await.map(Some)
    }

    /// Ends the predecessor and gives its layer to the successor.
    async fn inherit(&self, from: IncarnationId, to: &Folder) -> Result<(), ProvisionError> {
        let failed = |reason: String| ProvisionError::Step {
            incarnation: to.incarnation(),
            step: format!("take over the layer of `{from}`"),
            reason,
            mend: None,
        };
        // A host that drains gives it up after its calls.
        self.freed(from).await;
        self.reap(from, Keep::Layer)
            .await
            .map_err(|error| failed(error.reason))?;
        let (old, new) = (self.folders.of(from), to.clone());
        let take = move || {
            new.take_layer(&old)?;
            Uploads::of(&new).take(&Uploads::of(&old))
        };
        blocking(take)
            .await
            .map_err(|error| failed(error.to_string()))
    }

    /// Waits until no host has the sandbox of an incarnation any more.
    async fn freed(&self, incarnation: IncarnationId) {
        while self.is_elsewhere(incarnation).await {
            sleep(LOOK).await;
        }
    }

    /// Tells whether no other host has the sandbox of an incarnation, or lets go of it soon.
    async fn is_let_go(&self, incarnation: IncarnationId) -> bool {
        let until = Instant::now() + PATIENCE;
        // Looked at once at least, however slow the machine is.
        while self.is_elsewhere(incarnation).await {
            if Instant::now() >= until {
                return false;
            }
            sleep(LOOK).await;
        }
        true
    }

    /// Tells whether another host has the sandbox of an incarnation.
    async fn is_elsewhere(&self, incarnation: IncarnationId) -> bool {
        if let Some(own) = self.slots.own(incarnation) {
            if own.is_lost() {
                own.gone().await;
            }
            return false;
        }
        let folder = self.folders.of(incarnation);
        let held = spawn_blocking(move || journal::is_held(&folder)).await;
        held.unwrap_or(false)
    }

    /// Asks the journal of an incarnation that has no hand here; waits for a host that has one.
    async fn recall(&self, incarnation: IncarnationId, call: EventId) -> Recalled {
        loop {
            // Looked at first: what is noted until it is let go is read then.
            let elsewhere = self.is_elsewhere(incarnation).await;
            let (folder, boot) = (self.folders.of(incarnation), Arc::clone(&self.boot));
            let recalled = spawn_blocking(move || journal::recall(&folder, &boot, call)).await;
            let recalled = recalled.unwrap_or(Recalled::Unknown);
            let open = matches!(recalled, Recalled::Begun | Recalled::NotStarted);
            if !(open && elsewhere) {
                return recalled;
            }
            sleep(LOOK).await;
        }
    }

    /// Ends an incarnation.
    async fn reap(&self, incarnation: IncarnationId, keep: Keep) -> Result<(), ReapError> {
        let slot = self.slots.slot(incarnation);
        let turn = slot.turn().await;
        if let Some(hand) = slot.hand() {
            hand.kill().await;
        }
        if !self.is_let_go(incarnation).await {
            return Err(ReapError {
                incarnation,
                reason: ELSEWHERE.to_owned(),
            });
        }
        self.maker.remove_leftover(incarnation);
        let folder = self.folders.of(incarnation);
        let removed = spawn_blocking(move || folder.remove(keep)).await;
        // Until now it could be asked what became of its calls.
        slot.clear(&turn);
        drop(turn);
        self.slots.forget(incarnation, slot);
        removed
            .map_err(io::Error::other)
            .flatten()
            .map_err(|error| ReapError {
                incarnation,
                reason: error.to_string(),
            })
    }
}

#[async_trait]
impl Provisioner for Namespaces {
    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }

    async fn provision(&self, recipe: &Recipe) -> Result<Arc<dyn Hand>, ProvisionError> {
        let (node, recipe) = (Arc::clone(&self.node), recipe.clone());
        let incarnation = recipe.incarnation;
        // A task of its own: a caller that goes away leaves no half-made sandbox behind.
        let task = self
            .node
            .tasks
            .spawn(async move { node.provision(&recipe).await });
        let made = task.await.unwrap_or_else(|error| {
            let (step, reason) = ("make it".to_owned(), error.to_string());
            Err(ProvisionError::Step {
                incarnation,
                step,
                reason,
                mend: None,
            })
        });
        made.map(|hand| hand as Arc<dyn Hand>)
    }

    async fn find(&self, incarnation: IncarnationId) -> Option<Arc<dyn Hand>> {
        let hand = self.node.slots.live(incarnation)?;
        Some(hand as Arc<dyn Hand>)
    }

    async fn fate(&self, incarnation: IncarnationId) -> Option<String> {
        self.node.slots.own(incarnation)?.fate()
    }

    async fn outlet(&self, incarnation: IncarnationId) -> io::Result<Option<TcpListener>> {
        match self.node.slots.live(incarnation) {
            Some(hand) => hand.outlet(),
            None => self.node.packages.outlet(incarnation),
        }
    }

    async fn recall(&self, incarnation: IncarnationId, call: EventId) -> Recalled {
        if let Some(hand) = self.node.slots.hand(incarnation).await {
            return hand.recall(call);
        }
        self.node.recall(incarnation, call).await
    }

    async fn reap(&self, incarnation: IncarnationId, keep: Keep) -> Result<(), ReapError> {
        let node = Arc::clone(&self.node);
        let task = self
            .node
            .tasks
            .spawn(async move { node.reap(incarnation, keep).await });
        task.await.unwrap_or_else(|error| {
            Err(ReapError {
                incarnation,
                reason: error.to_string(),
            })
        })
    }

    async fn place(
        &self,
        incarnation: IncarnationId,
        upload: &Upload,
        content: Reader,
    ) -> io::Result<()> {
        let folder = self.node.folders.of(incarnation);
        let made = folder.clone();
        blocking(move || made.make()).await?;
        Uploads::of(&folder).place(upload.clone(), content).await
    }

    async fn unplace(&self, incarnation: IncarnationId, path: &str) -> io::Result<()> {
        let uploads = Uploads::of(&self.node.folders.of(incarnation));
        let path = path.to_owned();
        blocking(move || uploads.unplace(&path)).await
    }

    async fn uploads(&self, incarnation: IncarnationId) -> io::Result<Vec<Upload>> {
        let uploads = Uploads::of(&self.node.folders.of(incarnation));
        blocking(move || Ok(uploads.list())).await
    }

    async fn outputs(&self, incarnation: IncarnationId) -> io::Result<Vec<Published>> {
        let layer = self.node.layer(incarnation).await?;
        blocking(move || outputs::list(layer.path())).await
    }

    async fn output(&self, incarnation: IncarnationId, path: &str) -> io::Result<Reader> {
        let layer = self.node.layer(incarnation).await?;
        outputs::read(layer, path.to_owned()).await
    }

    async fn list(&self) -> Vec<IncarnationId> {
        let mut found = self.node.slots.incarnations();
        found.extend(self.node.folders.list());
        found.sort_unstable();
        found.dedup();
        found
    }

    async fn holds(&self, incarnation: IncarnationId) -> io::Result<bool> {
        let folder = self.node.folders.of(incarnation);
        let held = spawn_blocking(move || folder.has_layer());
        held.await.map_err(io::Error::other)
    }

    async fn checkpoint(&self, incarnation: IncarnationId) -> io::Result<Packed> {
        self.node.checkpoint(incarnation).await
    }

    async fn restore(
        &self,
        incarnation: IncarnationId,
        limits: &Limits,
        packed: Packed,
    ) -> io::Result<()> {
        self.node.restore(incarnation, *limits, packed).await
    }
}
