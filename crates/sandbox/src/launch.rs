//! The server's side of starting a sandbox.

use std::{
    fs,
    io::{self, Seek as _, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    process::Child,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

use rustix::{
    fs::{MemfdFlags, memfd_create},
    net::{
        AddressFamily, SocketFlags, SocketType, socketpair,
        sockopt::{Timeout, set_socket_timeout},
    },
    process::Pid,
};

use serde::{Deserialize, Serialize};

use crate::{
    Base, Confined, Cover, Disk, Image, Layer, Layering, Limits, Purpose, Shown, Spec, StartError,
    Verdict,
    cgroup::{Controllers, Group},
    disk::{self, Templates},
    error::step,
    mapping::{Ids, Mode, Owner},
    plan::{self, Bind, Down, Plan, Up},
    rootfs::{self, remove_tree},
    spawner::Spawner,
};

/// How long one step of the helper may take: a machine under load, not a normal one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What a [`Launcher`] is made with.
#[derive(Debug)]
pub struct Options {
    /// The helper: this package's static binary `outlast-confine`.
    pub helper: Arc<Image>,
    /// A folder for what all sandboxes share; rebuilt where the host is another than it was made for.
    pub shared: PathBuf,
    /// Whether a sandbox may have a disk of its own.
    pub disks: Disks,
}

/// Whether sandboxes have disks of their own.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Disks {
    /// Where the host can.
    #[default]
    Auto,
    /// Nowhere: what they write is measured.
    Never,
}

/// Starts confined processes on this host.
#[derive(Debug)]
pub struct Launcher {
    pub(crate) helper: Arc<Image>,
    pub(crate) ids: Ids,
    skeleton: PathBuf,
    /// Whether the skeleton was built whole; held by whoever builds it again.
    whole: Mutex<bool>,
    shown: Vec<PathBuf>,
    controllers: Controllers,
    pub(crate) templates: Option<Templates>,
    pub(crate) spawner: Arc<Spawner>,
    verdict: Verdict,
}

impl Launcher {
    /// Finds out what this host can do, by starting a sandbox that does nothing. Blocks.
    ///
    /// A host that cannot start any gives a launcher whose [`Verdict::refusal`] says why.
    ///
    /// # Errors
    ///
    /// If the shared folder cannot be written, or no thread can be started.
    pub fn new(options: Options) -> io::Result<Self> {
        let ids = Ids::detect();
        let skeleton = options.shared.join("skeleton");
        let shown = rootfs::ensure(&skeleton, &ids)?;
        let controllers = Controllers::detect();
        let (templates, disk) = match templates(&options, &ids) {
            Ok(templates) => (Some(templates), Disk::Image),
            Err(reason) => (None, Disk::Measured { reason }),
        };
        let verdict = Verdict {
            mode: ids.mode,
            cgroups: controllers.describe(),
            layering: Layering::Overlay,
            disk,
            refusal: None,
        };
        let spawner = Arc::new(Spawner::new()?);
        let helper = options.helper;
        let mut launcher = Self {
            helper,
            ids,
            skeleton,
            whole: Mutex::new(true),
            shown,
            controllers,
            templates,
            spawner,
            verdict,
        };
        launcher.probe(&options.shared.join("trial"))?;
        Ok(launcher)
    }

    /// Returns what was found.
    pub const fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Returns the ids that sandboxes run as.
    pub const fn ids(&self) -> &Ids {
        &self.ids
    }

    /// Has loop devices let go of images below `folder` that nobody uses any more.
    pub fn sweep_disks(&self, folder: &Path) -> usize {
        disk::sweep(folder)
    }

    /// Removes control groups that a dead server left of the sandbox `name`. Blocks.
    pub fn remove_leftover(&self, name: &str) {
        self.controllers.remove_leftover(name);
    }

    /// Tries a sandbox with everything, then one without a disk of its own or an overlay.
    fn probe(&mut self, folder: &Path) -> io::Result<()> {
        // One that was here before may have had a crash.
        remove_tree(folder)?;
        let mut tried = self.trial(folder);
        if let Err(error) = &tried
            && error.step == step::DISK
        {
            let reason = error.source.to_string();
            self.templates = None;
            self.verdict.disk = Disk::Measured { reason };
            remove_tree(folder)?;
            tried = self.trial(folder);
        }
        if let Err(error) = &tried
            && error.step == step::OVERLAY
        {
            self.verdict.layering = Layering::Plain;
            tried = self.trial(folder);
        }
        self.verdict.refusal = tried.err().map(|error| error.to_string());
        remove_tree(folder)
    }

    /// Starts a sandbox whose program is the helper; it meets the end of its channel and leaves.
    fn trial(&self, folder: &Path) -> Result<(), StartError> {
        let (channel, _closed) = pair(SocketType::STREAM)?;
        let limits = Limits {
            memory_bytes: 64 << 20,
            pids: 16,
            cpu_millis: 1000,
            disk_bytes: 4 << 20,
            inodes: 1024,
        };
        let spec = Spec {
            name: crate::cgroup::trial(),
            program: Arc::clone(&self.helper),
            argv: vec!["trial".to_owned()],
            channel,
            folder: folder.to_owned(),
            shown: Vec::new(),
            limits,
            base: Base::Host,
            above: Vec::new(),
            cover: Vec::new(),
            purpose: Purpose::Commands,
        };
        self.start(spec).map(drop)
    }

    /// Starts a confined process and returns when its program runs. Blocks.
    ///
    /// # Errors
    ///
    /// Names the step that failed; nothing keeps running then, and the folder is left as it is.
    pub fn start(&self, spec: Spec) -> Result<Confined, StartError> {
        self.renew()
            .map_err(|error| prepare(&self.skeleton, error))?;
        let lowers = self.lowers(&spec);
        let has_disk = self.folders(&spec)?;
        // Both wait for the kernel most of the time: the disk for a device to come to rest, the helper
        // for its place in the control groups.
        thread::scope(|scope| {
            let laying = thread::Builder::new().name("sandbox-disk".to_owned());
            let laying = laying
                .spawn_scoped(scope, || self.lay(&spec, &lowers, has_disk))
                .map_err(StartError::at(step::HELPER))?;
            self.launch(&spec, &lowers, has_disk, laying)
        })
    }

    /// Builds the skeleton again if somebody removed it, maybe with all that lies around it.
    fn renew(&self) -> io::Result<()> {
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if *whole && self.skeleton.is_dir() {
            return Ok(());
        }
        // What is half built when this fails does not pass for whole.
        *whole = false;
        if let Some(around) = self.skeleton.parent() {
            // What is missing there was closed to other users.
            let mut make = fs::DirBuilder::new();
            make.recursive(true).mode(0o700).create(around)?;
        }
        rootfs::ensure(&self.skeleton, &self.ids)?;
        *whole = true;
        Ok(())
    }

    /// Leads a helper from its start to a program that runs.
    fn launch(
        &self,
        spec: &Spec,
        lowers: &[PathBuf],
        has_disk: bool,
        laying: Laying<'_>,
    ) -> Result<Confined, StartError> {
        let (ours, theirs) = pair(SocketType::SEQPACKET)?;
        set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE))
            .map_err(|error| StartError::new(step::HELPER, error.into()))?;
        let group = self
            .controllers
            .create(&spec.name, &spec.limits, spec.purpose)
            .map_err(StartError::at("make control groups"))?;
        let mut helper = self.spawner.spawn(&self.helper, theirs).map_err(|error| {
            group.remove();
            StartError::new(step::HELPER, error)
        })?;
        let plan = self.plan(spec, lowers.to_vec(), has_disk);
        let parts = Parts { spec, plan, laying };
        let outcome = self.guide(&helper, &ours, parts, group);
        if outcome.is_err() {
            // It may hang in a step. Fails only if it has ended.
            drop(helper.kill());
        }
        // Either it has done its part, or closing the socket makes it give up.
        drop(ours);
        helper
            .wait()
            .map_err(StartError::at("wait for the confinement helper"))?;
        outcome
    }

    /// Makes the folders of one sandbox, owned so that the mounts work; tells whether a disk belongs
    /// to them.
    fn folders(&self, spec: &Spec) -> Result<bool, StartError> {
        let folder = &spec.folder;
        self.own(folder, "", 0o700)?;
        self.own(folder, "root", 0o700)?;
        let has_image = folder.join(disk::IMAGE).exists();
        // A layer that began as a folder stays one.
        let has_disk =
            has_image || (self.templates.is_some() && !folder.join(disk::UPPER).exists());
        if has_disk {
            self.own(folder, "disk", 0o700)?;
        } else {
            self.own(folder, disk::UPPER, 0o755)?;
            self.own(folder, disk::WORK, 0o700)?;
        }
        Ok(has_disk)
    }

    /// Makes one folder of a sandbox.
    fn own(&self, folder: &Path, name: &str, mode: u32) -> Result<(), StartError> {
        let path = folder.join(name);
        let made = (|| -> io::Result<()> {
            if !path.exists() {
                fs::DirBuilder::new()
                    .recursive(true)
                    .mode(mode)
                    .create(&path)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            }
            self.ids.own(&path, Owner::Init)
        })();
        made.map_err(|error| prepare(folder, error))
    }

    /// Makes the writable layer ready, on a disk of its own where it has one.
    fn lay(
        &self,
        spec: &Spec,
        lowers: &[PathBuf],
        has_disk: bool,
    ) -> Result<(Layer, Option<Arc<disk::Disk>>), StartError> {
        let folder = &spec.folder;
        let disk = match has_disk {
            true => Some(self.disk(spec).map_err(StartError::at(step::DISK))?),
            false => None,
        };
        let layer = match &disk {
            Some(disk) => Layer::on(Arc::clone(disk)),
            None => Layer::plain(folder),
        };
        if self.verdict.layering == Layering::Plain {
            for lower in lowers {
                rootfs::fill(layer.path(), lower).map_err(|error| prepare(folder, error))?;
            }
        }
        Ok((layer, disk))
    }

    /// Mounts the disk of one sandbox.
    fn disk(&self, spec: &Spec) -> io::Result<Arc<disk::Disk>> {
        let folder = &spec.folder;
        let mounted = match &self.templates {
            Some(templates) => disk::ensure(templates, folder, &spec.limits, &self.ids),
            None => disk::Disk::open(&folder.join(disk::IMAGE)),
        };
        mounted.map(Arc::new)
    }

    /// Returns what lies below the writable layer, the topmost first.
    fn lowers(&self, spec: &Spec) -> Vec<PathBuf> {
        let mut lowers = spec.above.clone();
        match &spec.base {
            Base::Host => lowers.push(self.skeleton.clone()),
            Base::Trees(trees) => lowers.extend_from_slice(trees),
        }
        lowers
    }

    /// Leads the helper through its steps.
    fn guide(
        &self,
        helper: &Child,
        socket: &OwnedFd,
        parts: Parts<'_>,
        group: Group,
    ) -> Result<Confined, StartError> {
        let at = StartError::at;
        let Parts {
            spec,
            mut plan,
            laying,
        } = parts;
        let (mut group, mut laying) = (Some(group), Some(laying));
        let (mut confined, mut failure) = (None, None);
        let result = (|| {
            let pid = i32::try_from(helper.id()).ok().and_then(Pid::from_raw);
            let pid = pid
                .ok_or_else(|| StartError::new(step::HELPER, io::ErrorKind::InvalidData.into()))?;
            let door = group.as_ref().map_or(Ok(None), Group::door);
            let door = door.map_err(at("open the control group of the commands"))?;
            plan.door = door.is_some();
            let cover = cover(&spec.cover).map_err(at("keep the files that are shown"))?;
            let fds = [spec.channel.as_fd(), spec.program.as_fd()].into_iter();
            let fds = fds.chain(door.as_ref().map(OwnedFd::as_fd));
            let fds: Vec<_> = fds.chain(cover.as_ref().map(OwnedFd::as_fd)).collect();
            let down = Down::Plan(Box::new(plan));
            plan::send(socket.as_fd(), &down, &fds).map_err(at(step::HELPER))?;
            if let Some(group) = &group {
                // It makes no process before it hears that its ids are written.
                group.add(pid).map_err(at("enter the control groups"))?;
            }
            loop {
                let said = match plan::receive::<Up>(socket) {
                    // It ended before it read all; what it said comes after this, once.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                        confined = None;
                        continue;
                    }
                    said => said.map_err(at("hear from the helper")),
                };
                // The first failure is the cause, whatever came of it.
                let said = said.map_err(|error| failure.take().unwrap_or(error))?;
                match said {
                    Some((Up::Unshared, _)) => {
                        self.ids
                            .write_maps(pid, spec.purpose)
                            .map_err(at("give ids to the user namespace"))?;
                        let sent = plan::send(socket.as_fd(), &Down::Mapped, &[]);
                        is_heard(sent).map_err(at("hear from the helper"))?;
                    }
                    Some((Up::Born(born), _)) => {
                        let group = group.take().unwrap_or_default();
                        let born = self.adopt(born, group);
                        if failure.is_some() {
                            // It failed before it was heard of; dropping it reaps it.
                            continue;
                        }
                        let born = born?;
                        let laid = laying.take().map(joined).transpose()?;
                        if let Some((layer, disk)) = laid {
                            let mount: Vec<_> =
                                disk.iter().map(|disk| disk.mount().as_fd()).collect();
                            let sent = plan::send(socket.as_fd(), &Down::Laid, &mount);
                            if !is_heard(sent).map_err(at(step::HELPER))? {
                                // It has not begun, whatever the helper said last.
                                continue;
                            }
                            born.keep(layer);
                        }
                        confined = Some(born);
                    }
                    Some((Up::Failed { step, errno }, _)) => {
                        let error = io::Error::from_raw_os_error(errno);
                        failure.get_or_insert_with(|| StartError::new(step, error));
                    }
                    None => return failure.take().map_or(Ok(()), Err),
                }
            }
        })();
        if let Some(group) = group {
            group.remove();
        }
        let early = || StartError::new(step::HELPER, io::ErrorKind::UnexpectedEof.into());
        result.and_then(|()| confined.ok_or_else(early))
    }

    /// Becomes the owner of the process that the helper made.
    fn adopt(&self, pid: i32, group: Group) -> Result<Confined, StartError> {
        let pid = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH);
        pid.map_err(io::Error::from)
            .and_then(|pid| Confined::new(pid, group, Arc::clone(&self.spawner)))
            .map_err(StartError::at("open the new process"))
    }

    /// Writes down what the helper is to build.
    fn plan(&self, spec: &Spec, lowers: Vec<PathBuf>, disk: bool) -> Plan {
        Plan {
            argv: spec.argv.clone(),
            mode: self.ids.mode,
            layering: self.verdict.layering,
            lowers,
            folder: spec.folder.clone(),
            disk,
            shown: match spec.base {
                Base::Host => self.shown.clone(),
                Base::Trees(_) => Vec::new(),
            },
            binds: binds(&spec.shown),
            hostname: "sandbox".to_owned(),
            limits: spec.limits,
            purpose: spec.purpose,
            door: false,
            cover: spec.cover.iter().map(Cover::measure).collect(),
        }
    }
}

/// Tells whether the helper was there to hear it; one that gave up has said why before.
fn is_heard(sent: io::Result<()>) -> io::Result<bool> {
    match sent {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

impl Cover {
    fn measure(&self) -> (String, u64) {
        let bytes = u64::try_from(self.content.len()).unwrap_or(u64::MAX);
        (self.path.clone(), bytes)
    }
}

/// Keeps the bytes of files in memory for the helper, one behind the other.
fn cover(files: &[Cover]) -> io::Result<Option<OwnedFd>> {
    if files.is_empty() {
        return Ok(None);
    }
    let mut kept = fs::File::from(memfd_create("outlast-cover", MemfdFlags::CLOEXEC)?);
    for file in files {
        kept.write_all(&file.content)?;
    }
    kept.rewind()?;
    Ok(Some(kept.into()))
}

/// Writes down which folders a sandbox shows.
fn binds(shown: &[Shown]) -> Vec<Bind> {
    let bind = |shown: &Shown| Bind {
        from: shown.from.clone(),
        to: shown.to.clone(),
    };
    shown.iter().map(bind).collect()
}

/// A writable layer on its way.
type Laying<'scope> =
    ScopedJoinHandle<'scope, Result<(Layer, Option<Arc<disk::Disk>>), StartError>>;

/// Waits for a writable layer.
fn joined(laying: Laying<'_>) -> Result<(Layer, Option<Arc<disk::Disk>>), StartError> {
    let fault = || StartError::new(step::DISK, io::Error::other("its thread has ended"));
    laying.join().unwrap_or_else(|_| Err(fault()))
}

/// Names the step in which the folders of a sandbox are made.
fn prepare(folder: &Path, error: io::Error) -> StartError {
    StartError::new(format!("prepare {}", folder.display()), error)
}

/// What a sandbox is made of, once its folders are there.
struct Parts<'scope> {
    spec: &'scope Spec,
    plan: Plan,
    laying: Laying<'scope>,
}

/// Finds out whether disks can be made here, short of making one.
fn templates(options: &Options, ids: &Ids) -> Result<Templates, String> {
    match (options.disks, ids.mode) {
        (Disks::Never, _) => Err("the configuration says so".to_owned()),
        (Disks::Auto, Mode::Rootless) => Err("only root can mount an image".to_owned()),
        (Disks::Auto, Mode::Privileged) => Templates::new(&options.shared),
    }
}

/// Makes a pair of sockets that no child inherits by accident.
pub(crate) fn pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd), StartError> {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
        .map_err(|error| StartError::new("make a pair of sockets", error.into()))
}
