//! Layers on the disk: made aside and put in their place whole, used under a lock, forgotten.
//!
//! Each has a `lock`: held alone while it is made or removed, shared by those who use it, also in
//! other processes. Its time is that of the last use.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use outlast_sandbox::remove_tree;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};

/// What a folder is named with that is no layer: one that is made, and one that goes.
const PARTS: &str = ".part-";
const GOING: &str = ".going-";

/// The lock of a layer, and what it holds.
const LOCK: &str = "lock";
const TREE: &str = "tree";

/// A layer in use; it is not removed as long as this is held.
#[derive(Clone, Debug)]
pub(crate) struct Used {
    tree: PathBuf,
    _lock: Arc<File>,
}

impl Used {
    /// Returns the layer itself.
    pub(crate) fn tree(&self) -> &Path {
        &self.tree
    }
}

/// A layer that is being made; nothing stays of one that is dropped.
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    place: PathBuf,
    name: String,
    _lock: File,
}

/// The folder of layers.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    dir: PathBuf,
}

impl Shelf {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Makes a folder that other users cannot look into.
    fn make(path: &Path) -> io::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
    }

    /// Takes a layer into use, if it is there.
    pub(super) fn take(&self, key: &str) -> io::Result<Option<Used>> {
        let path = self.dir.join(key);
        let lock = match File::open(path.join(LOCK)) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        lock.lock_shared()?;
        // It may have gone while the lock was somebody's.
        if !is_at(&lock, &path.join(LOCK)) {
            return Ok(None);
        }
        touch(&lock)?;
        Ok(Some(Used {
            tree: path.join(TREE),
            _lock: Arc::new(lock),
        }))
    }

    /// Begins to make a layer.
    pub(super) fn begin(&self, key: &str) -> io::Result<Part> {
        Self::make(&self.dir)?;
        // Not another process's who makes the same.
        let short = key.get(..16).unwrap_or(key);
        let name = format!("packages-{short}-{}", std::process::id());
        let path = self.dir.join(format!("{PARTS}{name}"));
        remove_tree(&path)?;
        Self::make(&path)?;
        let lock = File::create(path.join(LOCK))?;
        lock.lock()?;
        Ok(Part {
            place: self.dir.join(key),
            path,
            name,
            _lock: lock,
        })
    }

    /// Removes what nobody is at any more; `each` is told what the sandboxes were named.
    pub(super) fn sweep(&self, each: impl Fn(&str)) -> io::Result<()> {
        for (name, path) in self.entries()? {
            let part = name.strip_prefix(PARTS);
            if part.is_none() && !name.starts_with(GOING) {
                continue;
            }
            if let Some(_lock) = alone(&path.join(LOCK))? {
                if let Some(part) = part {
                    each(part);
                }
                remove_tree(&path)?;
            }
        }
        Ok(())
    }

    /// Removes layers that nobody uses and nobody used for so long; tells how many.
    pub(super) fn forget(&self, unused: Duration) -> io::Result<usize> {
        if !self.dir.is_dir() {
            return Ok(0);
        }
        // The file system's time, like that of the locks.
        let now = tempfile::tempfile_in(&self.dir)?.metadata()?.modified()?;
        let mut gone = 0;
        for (name, path) in self.entries()? {
            let lock = path.join(LOCK);
            if name.starts_with('.') || !lock.exists() {
                continue;
            }
            let used = fs::metadata(&lock)?.modified()?;
            if now.duration_since(used).unwrap_or_default() < unused {
                continue;
            }
            if let Some(_lock) = alone(&lock)? {
                let going = self.dir.join(format!("{GOING}{name}"));
                remove_tree(&going)?;
                fs::rename(&path, &going)?;
                remove_tree(&going)?;
                gone += 1;
            }
        }
        Ok(gone)
    }

    fn entries(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                found.push((name, entry.path()));
            }
        }
        Ok(found)
    }
}

impl Part {
    /// Returns the folder of the sandbox that makes it.
    pub(super) fn folder(&self) -> PathBuf {
        self.path.join("box")
    }

    /// Returns what the sandbox is named: no other one is.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Puts a tree in its place, durably. One that another process made meanwhile is as good.
    pub(super) fn finish(self, tree: &Path) -> io::Result<()> {
        fs::rename(tree, self.path.join(TREE))?;
        remove_tree(&self.folder())?;
        touch(&self._lock)?;
        rustix::fs::syncfs(&self._lock)?;
        match fs::rename(&self.path, &self.place) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            done => {
                done?;
                File::open(self.place.parent().unwrap_or_else(|| Path::new("/")))?.sync_all()
            }
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Not there any more if it is finished. Else the next start removes what is left.
        if let Err(error) = remove_tree(&self.path) {
            tracing::warn!("cannot remove `{}`: {error}", self.path.display());
        }
    }
}

/// Tells whether a file is the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(file), Ok(there)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    (file.ino(), file.dev()) == (there.ino(), there.dev())
}

/// Takes a lock alone, if nobody has it. A lock that is missing is nobody's.
fn alone(path: &Path) -> io::Result<Option<Option<File>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(None)),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => Ok(is_at(&file, path).then_some(Some(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Notes that it is used now.
fn touch(file: &File) -> io::Result<()> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    Ok(futimens(file, &times)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(shelf: &Shelf, key: &str) {
        let part = shelf.begin(key).unwrap();
        let tree = part.folder().join("upper");
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join("file"), key).unwrap();
        part.finish(&tree).unwrap();
    }

    #[test]
    fn a_layer_is_whole_or_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("layers"));
        assert!(shelf.take("a").unwrap().is_none());
        drop(shelf.begin("a").unwrap());
        assert!(
            shelf.entries().unwrap().is_empty(),
            "nothing half made stays"
        );
        made(&shelf, "a");
        let used = shelf.take("a").unwrap().unwrap();
        assert_eq!(fs::read_to_string(used.tree().join("file")).unwrap(), "a");
        made(&shelf, "a");
        assert_eq!(shelf.entries().unwrap().len(), 1);
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("layers"));
        assert_eq!(shelf.forget(Duration::ZERO).unwrap(), 0);
        made(&shelf, "a");
        made(&shelf, "b");
        let used = shelf.take("a").unwrap().unwrap();
        assert_eq!(shelf.forget(Duration::from_secs(3600)).unwrap(), 0);
        assert_eq!(shelf.forget(Duration::ZERO).unwrap(), 1);
        assert!(shelf.take("b").unwrap().is_none() && used.tree().exists());
        let twice = used.clone();
        drop(used);
        assert_eq!(shelf.forget(Duration::ZERO).unwrap(), 0);
        drop(twice);
        assert_eq!(shelf.forget(Duration::ZERO).unwrap(), 1);
    }

    #[test]
    fn what_a_crash_left_goes_and_what_is_made_stays() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("layers"));
        let living = shelf.begin("a").unwrap();
        for left in [".part-packages-x-1", ".going-y"] {
            fs::create_dir_all(shelf.dir.join(left).join("box/upper")).unwrap();
        }
        fs::write(shelf.dir.join(".part-packages-x-1/lock"), "").unwrap();
        let told = std::cell::RefCell::new(Vec::new());
        shelf
            .sweep(|name| told.borrow_mut().push(name.to_owned()))
            .unwrap();
        assert_eq!(*told.borrow(), ["packages-x-1"]);
        assert_eq!(shelf.entries().unwrap().len(), 1, "{living:?}");
    }
}
