//! Files that a sandbox shows read-only: a host folder of the incarnation, written from outside only.
//!
//! A file is written aside and renamed to its place, so that inside it is whole or not there. Which
//! content stands where is noted in an index beside the folder, behind the rename: what a crash
//! leaves between the two counts as not placed and is placed again. Nothing is synced; after a crash
//! of the machine the next incarnation gets everything anew.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Folder;
use crate::files::{Reader, Upload, is_plain};

/// Where they stand inside.
pub(super) const INSIDE: &str = "/mnt/session/uploads";

/// Bytes that are held while a file is written.
const CHUNK: usize = 1 << 20;

/// Numbers what is written aside.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// One at a time moves files to their places and notes them.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the index says of a path.
#[derive(Debug, Deserialize, Serialize)]
struct Noted {
    id: String,
    bytes: u64,
}

/// By path.
type Index = BTreeMap<String, Noted>;

/// The uploads of one incarnation.
#[derive(Clone, Debug)]
pub(super) struct Uploads {
    shown: PathBuf,
    aside: PathBuf,
}

/// A file on its way, which goes unless it got its place.
struct Staged(PathBuf);

impl Drop for Staged {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

impl Uploads {
    pub(super) fn of(folder: &Folder) -> Self {
        Self {
            shown: folder.uploads(),
            aside: folder.beside_uploads(),
        }
    }

    /// Makes the folders.
    pub(super) fn make(&self) -> io::Result<()> {
        for (path, mode) in [(&self.shown, 0o755), (&self.aside, 0o700)] {
            directory(path, mode)?;
        }
        Ok(())
    }

    /// Writes a file and puts it into its place.
    pub(super) async fn place(&self, upload: Upload, content: Reader) -> io::Result<()> {
        if !is_plain(&upload.path) {
            return Err(bad_path(&upload.path));
        }
        let uploads = self.clone();
        blocking(move || uploads.make()).await?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let staged = Staged(self.aside.join(format!("{}-{number}", std::process::id())));
        write(&staged.0, content, upload.bytes).await?;
        let uploads = self.clone();
        blocking(move || uploads.settle(&staged, upload)).await
    }

    /// Gives a file that is whole its place.
    fn settle(&self, staged: &Staged, upload: Upload) -> io::Result<()> {
        let _turn = turn();
        let target = self.shown.join(&upload.path);
        for parent in parents(&self.shown, &target) {
            directory(&parent, 0o755)?;
        }
        fs::rename(&staged.0, &target)?;
        let mut index = self.index();
        let (id, bytes) = (upload.id, upload.bytes);
        index.insert(upload.path, Noted { id, bytes });
        self.note(&index)
    }

    /// Removes a file, and the folders that are empty without it.
    pub(super) fn unplace(&self, path: &str) -> io::Result<()> {
        if !is_plain(path) {
            return Err(bad_path(path));
        }
        let _turn = turn();
        let target = self.shown.join(path);
        match fs::remove_file(&target) {
            Err(error) if is_absent(&error) => {}
            other => other?,
        }
        for parent in parents(&self.shown, &target).into_iter().rev() {
            if fs::remove_dir(&parent).is_err() {
                break;
            }
        }
        let mut index = self.index();
        if index.remove(path).is_some() {
            self.note(&index)?;
        }
        Ok(())
    }

    /// Lists what was placed and stands there.
    pub(super) fn list(&self) -> Vec<Upload> {
        let there = |(path, noted): (String, Noted)| {
            let found = fs::symlink_metadata(self.shown.join(&path)).ok()?;
            let whole = found.is_file() && found.len() == noted.bytes;
            let Noted { id, bytes } = noted;
            whole.then_some(Upload { path, id, bytes })
        };
        self.index().into_iter().filter_map(there).collect()
    }

    /// Moves the uploads of a predecessor here, where there are none yet.
    pub(super) fn take(&self, from: &Self) -> io::Result<()> {
        let _turn = turn();
        if self.shown.exists() || !from.shown.exists() {
            return Ok(());
        }
        // The index first: a file without a note is placed again, a note without a file as well.
        for (old, new) in [(&from.aside, &self.aside), (&from.shown, &self.shown)] {
            if old.exists() && !new.exists() {
                fs::rename(old, new)?;
            }
        }
        Ok(())
    }

    /// Reads the index; one that is missing or broken is empty.
    fn index(&self) -> Index {
        let text = fs::read(self.aside.join("index")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn note(&self, index: &Index) -> io::Result<()> {
        let next = self.aside.join("index.next");
        fs::write(&next, serde_json::to_vec(index)?)?;
        fs::rename(&next, self.aside.join("index"))
    }
}

/// Writes a file that everybody may read, of exactly so many bytes.
async fn write(path: &Path, content: Reader, bytes: u64) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = tokio::fs::OpenOptions::from(options).open(path).await?;
    file.set_max_buf_size(CHUNK);
    // One more than there should be is enough to know that it is another content.
    let content = content.take(bytes.saturating_add(1));
    let mut content = tokio::io::BufReader::with_capacity(CHUNK, content);
    let written = tokio::io::copy_buf(&mut content, &mut file).await?;
    file.flush().await?;
    if written != bytes {
        let words = format!("the content has {written} bytes where {bytes} were announced");
        return Err(io::Error::new(io::ErrorKind::InvalidData, words));
    }
    file.set_permissions(fs::Permissions::from_mode(0o444))
        .await
}

/// Returns the folders between `root` and `target`, the outermost first.
fn parents(root: &Path, target: &Path) -> Vec<PathBuf> {
    let above = target.ancestors().skip(1);
    let mut parents: Vec<_> = above
        .take_while(|path| *path != root)
        .map(Path::to_owned)
        .collect();
    parents.reverse();
    parents
}

/// Makes one folder with exactly these rights, whatever the umask.
fn directory(path: &Path, mode: u32) -> io::Result<()> {
    match fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn bad_path(path: &str) -> io::Error {
    let words = format!("`{}` is no path below {INSIDE}", path.escape_debug());
    io::Error::new(io::ErrorKind::InvalidInput, words)
}

/// Runs blocking work where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uploads(root: &Path, name: &str) -> Uploads {
        let home = root.join(name);
        fs::create_dir_all(&home).unwrap();
        Uploads {
            shown: home.join("uploads"),
            aside: home.join("uploads.d"),
        }
    }

    fn upload(path: &str, id: &str, bytes: u64) -> Upload {
        Upload {
            path: path.to_owned(),
            id: id.to_owned(),
            bytes,
        }
    }

    async fn place(uploads: &Uploads, path: &str, id: &str, content: &'static [u8]) {
        let new = upload(path, id, content.len() as u64);
        uploads.place(new, Box::pin(content)).await.unwrap();
    }

    #[tokio::test]
    async fn a_file_is_placed_replaced_listed_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let uploads = uploads(root.path(), "one");
        assert_eq!(uploads.list(), []);
        place(&uploads, "a/b/c.txt", "file_1", b"one").await;
        place(&uploads, "a/b/c.txt", "file_2", b"other").await;
        place(&uploads, "strange \u{1f980}\n'", "file_3", b"").await;
        assert_eq!(
            uploads.list(),
            [
                upload("a/b/c.txt", "file_2", 5),
                upload("strange \u{1f980}\n'", "file_3", 0)
            ]
        );
        let file = uploads.shown.join("a/b/c.txt");
        assert_eq!(fs::read(&file).unwrap(), b"other");
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o444
        );
        uploads.unplace("a/b/c.txt").unwrap();
        uploads.unplace("a/b/c.txt").unwrap();
        assert!(!uploads.shown.join("a").exists());
        assert_eq!(uploads.list().len(), 1);
    }

    #[tokio::test]
    async fn what_breaks_off_or_leads_out_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let uploads = uploads(root.path(), "one");
        for path in [
            "", "/a", "../a", "a/../b", "a//b", "a/", ".", "a/./b", "a\0b",
        ] {
            let refused = uploads
                .place(upload(path, "x", 0), Box::pin(&b""[..]))
                .await;
            assert_eq!(
                refused.unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{path:?}"
            );
            assert!(uploads.unplace(path).is_err(), "{path:?}");
        }
        for bytes in [2, 4] {
            let wrong = uploads
                .place(upload("a", "x", bytes), Box::pin(&b"abc"[..]))
                .await;
            assert_eq!(wrong.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        place(&uploads, "dir/file", "y", b"y").await;
        assert!(
            uploads
                .place(upload("dir", "x", 0), Box::pin(&b""[..]))
                .await
                .is_err()
        );
        assert!(
            uploads
                .place(upload("dir/file/x", "x", 0), Box::pin(&b""[..]))
                .await
                .is_err()
        );
        assert_eq!(uploads.list(), [upload("dir/file", "y", 1)]);
        let aside: Vec<_> = fs::read_dir(&uploads.aside).unwrap().collect();
        assert_eq!(aside.len(), 1, "only the index: {aside:?}");
    }

    #[tokio::test]
    async fn a_successor_takes_them_over() {
        let root = tempfile::tempdir().unwrap();
        let (one, two) = (uploads(root.path(), "one"), uploads(root.path(), "two"));
        place(&one, "a", "file_1", b"one").await;
        two.take(&one).unwrap();
        two.take(&one).unwrap();
        assert_eq!(two.list(), [upload("a", "file_1", 3)]);
        assert_eq!(one.list(), []);
    }
}
