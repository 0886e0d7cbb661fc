//! The files of an incarnation on the host.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use outlast_protocol::id::IncarnationId;
use outlast_sandbox::{Layer, remove_tree};
use rustix::{
    fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with},
    io::Errno,
};

use crate::Keep;

/// What all sandboxes share; no incarnation has such a name.
const SHARED: &str = "shared";

/// Where a layer is unpacked; only a whole one gets the name that is looked for.
const STAGE: &str = "restoring";

/// The folder of folders.
#[derive(Clone, Debug)]
pub(super) struct Folders {
    dir: PathBuf,
}

impl Folders {
    /// Makes it, closed to other users.
    pub(super) fn new(dir: &Path) -> io::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)?;
        // Absolute, because the helper looks it up from elsewhere.
        Ok(Self {
            dir: dir.canonicalize()?,
        })
    }

    /// Returns the place of what all share.
    pub(super) fn shared(&self) -> PathBuf {
        self.dir.join(SHARED)
    }

    /// Returns the folder of an incarnation, which need not exist.
    pub(super) fn of(&self, incarnation: IncarnationId) -> Folder {
        Folder {
            incarnation,
            path: self.dir.join(incarnation.to_string()),
        }
    }

    /// Lists incarnations that have left a folder.
    pub(super) fn list(&self) -> Vec<IncarnationId> {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names
            .filter_map(|name| IncarnationId::parse(&name))
            .collect()
    }
}

impl Folders {
    /// Removes what a crash left of layers on their way. Before anything is laid.
    pub(super) fn clear(&self) {
        for incarnation in self.list() {
            match self.of(incarnation).clear() {
                Ok(false) => {}
                Ok(true) => tracing::info!("a layer for `{incarnation}` was half laid: it goes"),
                Err(error) => {
                    tracing::warn!("what was half laid for `{incarnation}` stays: {error}");
                }
            }
        }
    }
}

/// The folder of one incarnation: its journal, and in `tree` what the sandbox is mounted from.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    incarnation: IncarnationId,
    path: PathBuf,
}

impl Folder {
    /// Returns whose it is.
    pub(super) const fn incarnation(&self) -> IncarnationId {
        self.incarnation
    }

    /// Makes it.
    pub(super) fn make(&self) -> io::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
    }

    /// Returns the journal, which begins when PID 1 has answered.
    pub(super) fn journal(&self) -> PathBuf {
        self.path.join("journal")
    }

    /// Returns the folder that the sandbox is mounted from.
    pub(super) fn tree(&self) -> PathBuf {
        self.path.join("tree")
    }

    /// Returns the folder that the sandbox shows read-only.
    pub(super) fn uploads(&self) -> PathBuf {
        self.path.join("uploads")
    }

    /// Returns the place of what is known of uploads, and of those on their way.
    pub(super) fn beside_uploads(&self) -> PathBuf {
        self.path.join("uploads.d")
    }

    /// Returns the folder itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Finds the writable layer of an incarnation that does not run, and mounts it if need be.
    ///
    /// The one way to it: it may be a folder or a file system in a file. Blocks.
    pub(super) fn layer(&self) -> io::Result<Option<Layer>> {
        Layer::find(&self.tree())
    }

    /// Tells whether there is a layer.
    pub(super) fn has_layer(&self) -> bool {
        Layer::is_in(&self.tree())
    }

    /// Has a layer made in a folder aside and puts it in its place, durably, instead of one that is
    /// there: whatever happens meanwhile, the one or the other is whole.
    pub(super) fn lay_layer(&self, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let stage = self.path.join(STAGE);
        remove_tree(&stage)?;
        fs::DirBuilder::new().mode(0o700).create(&stage)?;
        let opened = File::open(&stage)?;
        // Held as long as somebody works on it.
        flock(&opened, FlockOperation::NonBlockingLockExclusive)?;
        let made = make(&stage).and_then(|()| {
            rustix::fs::syncfs(&opened)?;
            self.exchange(&stage)?;
            rustix::fs::fsync(File::open(&self.path)?)?;
            Ok(())
        });
        // What went wrong is told; what cannot be removed is removed by the next attempt.
        drop(remove_tree(&stage));
        made
    }

    /// Gives what was made aside the name that is looked for; what had it before is aside then.
    fn exchange(&self, stage: &Path) -> io::Result<()> {
        let flags = if self.tree().exists() {
            RenameFlags::EXCHANGE
        } else {
            RenameFlags::NOREPLACE
        };
        Ok(renameat_with(CWD, stage, CWD, self.tree(), flags)?)
    }

    /// Removes what a crash left of a layer on its way; tells whether there was any.
    fn clear(&self) -> io::Result<bool> {
        let stage = self.path.join(STAGE);
        let opened = match File::open(&stage) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            // A host that drains is at it.
            Err(Errno::WOULDBLOCK) => return Ok(false),
            other => other?,
        }
        remove_tree(&stage).map(|()| true)
    }

    /// Returns whether a sandbox ran for this incarnation.
    pub(super) fn has_lived(&self) -> bool {
        self.journal().exists()
    }

    /// Moves the layer of a predecessor here, if it has one. Done twice it does nothing more.
    pub(super) fn take_layer(&self, from: &Self) -> io::Result<()> {
        if !from.has_layer() {
            return Ok(());
        }
        self.make()?;
        // The whole tree: its folders are owned as the sandbox needs them.
        match fs::rename(from.tree(), self.tree()) {
            // An attempt that failed before has left an empty tree here.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                remove_tree(&self.tree())?;
                fs::rename(from.tree(), self.tree())
            }
            other => other,
        }?;
        // What the kernel keeps for one mount is of no use to the next.
        remove_tree(&self.tree().join("work"))
    }

    /// Removes what is not to be kept.
    pub(super) fn remove(&self, keep: Keep) -> io::Result<()> {
        match keep {
            Keep::Layer => Ok(()),
            Keep::Nothing => remove_tree(&self.path),
        }
    }
}
