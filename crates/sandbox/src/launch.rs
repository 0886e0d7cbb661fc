//! The server's side of starting a sandbox.

use std::{
    fs, io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    process::Child,
    sync::Arc,
    time::Duration,
};

use rustix::{
    net::{
        AddressFamily, SocketFlags, SocketType, socketpair,
        sockopt::{Timeout, set_socket_timeout},
    },
    process::Pid,
};

use crate::{
    Confined, Image, Layering, Limits, Shown, Spec, StartError, Verdict,
    cgroup::{Controllers, Group},
    error::step,
    mapping::{Ids, Owner},
    plan::{self, Bind, Down, Plan, Up},
    rootfs::{self, remove_tree},
    spawner::Spawner,
};

/// How long one step of the helper may take: a machine under load, not a normal one.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a [`Launcher`] is made with.
#[derive(Debug)]
pub struct Options {
    /// The helper: this package's static binary `outlast-confine`.
    pub helper: Arc<Image>,
    /// A folder for what all sandboxes share; rebuilt where the host is another than it was made for.
    pub shared: PathBuf,
}

/// Starts confined processes on this host.
#[derive(Debug)]
pub struct Launcher {
    helper: Arc<Image>,
    ids: Ids,
    skeleton: PathBuf,
    shown: Vec<PathBuf>,
    controllers: Controllers,
    spawner: Arc<Spawner>,
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
        let verdict = Verdict {
            mode: ids.mode,
            cgroups: controllers.describe(),
            layering: Layering::Overlay,
            refusal: None,
        };
        let spawner = Arc::new(Spawner::new()?);
        let helper = options.helper;
        let mut launcher = Self {
            helper,
            ids,
            skeleton,
            shown,
            controllers,
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

    /// Removes control groups that a dead server left of the sandbox `name`. Blocks.
    pub fn remove_leftover(&self, name: &str) {
        self.controllers.remove_leftover(name);
    }

    /// Tries a sandbox with an overlay, then one without.
    fn probe(&mut self, folder: &Path) -> io::Result<()> {
        let mut tried = self.trial(folder);
        if tried
            .as_ref()
            .is_err_and(|error| error.step == step::OVERLAY)
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
        };
        let spec = Spec {
            name: crate::cgroup::trial(),
            program: Arc::clone(&self.helper),
            argv: vec!["trial".to_owned()],
            channel,
            folder: folder.to_owned(),
            shown: Vec::new(),
            limits,
        };
        self.start(spec).map(drop)
    }

    /// Starts a confined process and returns when its program runs. Blocks.
    ///
    /// # Errors
    ///
    /// Names the step that failed; nothing keeps running then, and the folder is left as it is.
    pub fn start(&self, spec: Spec) -> Result<Confined, StartError> {
        self.prepare(&spec.folder)?;
        let (ours, theirs) = pair(SocketType::SEQPACKET)?;
        set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE))
            .map_err(|error| StartError::new(step::HELPER, error.into()))?;
        let group = self
            .controllers
            .create(&spec.name, &spec.limits)
            .map_err(StartError::at("make control groups"))?;
        let mut helper = match self.spawner.spawn(&self.helper, theirs) {
            Ok(helper) => helper,
            Err(error) => {
                group.remove();
                return Err(StartError::new(step::HELPER, error));
            }
        };
        let outcome = self.guide(&helper, &ours, spec, group);
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

    /// Makes the folders of one sandbox, owned so that the mounts work.
    fn prepare(&self, folder: &Path) -> Result<(), StartError> {
        let at = |error| StartError::new(format!("prepare {}", folder.display()), error);
        let own = |path: &Path, owner, mode| -> io::Result<()> {
            if !path.exists() {
                fs::DirBuilder::new()
                    .recursive(true)
                    .mode(mode)
                    .create(path)?;
                fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
            }
            self.ids.own(path, owner)
        };
        own(folder, Owner::Init, 0o700).map_err(at)?;
        for (name, mode) in [("root", 0o700), ("upper", 0o755), ("work", 0o700)] {
            own(&folder.join(name), Owner::Init, mode).map_err(at)?;
        }
        match self.verdict.layering {
            Layering::Overlay => Ok(()),
            Layering::Plain => rootfs::fill(&folder.join("upper"), &self.skeleton).map_err(at),
        }
    }

    /// Leads the helper through its steps.
    fn guide(
        &self,
        helper: &Child,
        socket: &OwnedFd,
        spec: Spec,
        group: Group,
    ) -> Result<Confined, StartError> {
        let at = StartError::at;
        let mut group = Some(group);
        let mut confined = None;
        let result = (|| {
            let pid = i32::try_from(helper.id()).ok().and_then(Pid::from_raw);
            let pid = pid
                .ok_or_else(|| StartError::new(step::HELPER, io::ErrorKind::InvalidData.into()))?;
            if let Some(group) = &group {
                group.add(pid).map_err(at("enter the control groups"))?;
            }
            let fds = [spec.channel.as_fd(), spec.program.as_fd()];
            let down = Down::Plan(Box::new(self.plan(&spec)));
            plan::send(socket.as_fd(), &down, &fds).map_err(at(step::HELPER))?;
            loop {
                match plan::receive::<Up>(socket).map_err(at("hear from the helper"))? {
                    Some((Up::Unshared, _)) => {
                        self.ids
                            .write_maps(pid)
                            .map_err(at("give ids to the user namespace"))?;
                        plan::send(socket.as_fd(), &Down::Mapped, &[])
                            .map_err(at("hear from the helper"))?;
                    }
                    Some((Up::Born(born), _)) => {
                        confined = Some(self.adopt(born, group.take().unwrap_or_default())?);
                    }
                    Some((Up::Failed { step, errno }, _)) => {
                        return Err(StartError::new(step, io::Error::from_raw_os_error(errno)));
                    }
                    None => return Ok(()),
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
    fn plan(&self, spec: &Spec) -> Plan {
        Plan {
            argv: spec.argv.clone(),
            mode: self.ids.mode,
            layering: self.verdict.layering,
            skeleton: self.skeleton.clone(),
            folder: spec.folder.clone(),
            shown: self.shown.clone(),
            binds: binds(&spec.shown),
            hostname: "sandbox".to_owned(),
            limits: spec.limits,
        }
    }
}

/// Writes down which folders a sandbox shows.
fn binds(shown: &[Shown]) -> Vec<Bind> {
    let bind = |shown: &Shown| Bind {
        from: shown.from.clone(),
        to: shown.to.clone(),
    };
    shown.iter().map(bind).collect()
}

/// Makes a pair of sockets that no child inherits by accident.
fn pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd), StartError> {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
        .map_err(|error| StartError::new("make a pair of sockets", error.into()))
}
