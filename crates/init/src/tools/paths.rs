//! Which paths the file tools may reach, and the words for what goes wrong.

use std::{
    fs::{self, File},
    io,
    path::{Component, Path, PathBuf},
};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, openat2};

/// How many links in a row are followed to something that does not exist yet.
const LINKS: usize = 40;

/// Names are resolved below a root, through no link and no `/proc` trick: links were followed before.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// The folders that tools may work in.
#[derive(Clone, Debug)]
pub struct Roots {
    /// Relative paths begin here.
    pub working: PathBuf,
    /// Folders to read and write.
    pub writable: Vec<PathBuf>,
    /// Folders to read only.
    pub readable: Vec<PathBuf>,
}

impl Roots {
    /// The roots inside a sandbox: the workspace, what is delivered, scratch space and the home
    /// folder; other folders of the session may be read.
    pub fn inside() -> Self {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        Self {
            working: PathBuf::from("/workspace"),
            writable: paths(&[
                "/workspace",
                "/mnt/session/outputs",
                "/tmp",
                "/var/tmp",
                "/home/agent",
            ]),
            readable: paths(&["/mnt/session"]),
        }
    }
}

/// What a path is wanted for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Want {
    /// To look at.
    Read,
    /// To change.
    Write,
}

/// A path after following links: a root, and what is below it.
#[derive(Debug)]
pub(super) struct Place<'a> {
    tool: &'a str,
    given: &'a str,
    root: &'a Path,
    below: PathBuf,
}

/// Follows links and checks that the result lies in a root.
pub(super) fn resolve<'a>(
    tool: &'a str,
    given: &'a str,
    want: Want,
    roots: &'a Roots,
) -> Result<Place<'a>, String> {
    let fail = |error: &io::Error| says(tool, given, error);
    let real = follow(&roots.working.join(given)).map_err(|error| fail(&error))?;
    let within = |root: &&PathBuf| real.starts_with(root);
    let writable = roots.writable.iter().find(within);
    let found = match (want, writable, roots.readable.iter().find(within)) {
        (_, Some(root), _) | (Want::Read, None, Some(root)) => root,
        (Want::Write, None, Some(root)) => {
            return Err(format!(
                "{tool}: {given} is inside read-only folder {}",
                root.display()
            ));
        }
        (_, None, None) => return Err(outside(tool, given)),
    };
    let below = real
        .strip_prefix(found)
        .map(Path::to_path_buf)
        .unwrap_or_default();
    Ok(Place {
        tool,
        given,
        root: found,
        below,
    })
}

/// Resolves all links of a path whose end need not exist yet.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    let mut missing: Vec<std::ffi::OsString> = Vec::new();
    let mut links = 0;
    loop {
        match fs::canonicalize(&path) {
            Ok(real) => {
                return Ok(missing
                    .iter()
                    .rev()
                    .fold(real, |path, name| path.join(name)));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(error) => {
                let parent = path.parent().map(Path::to_path_buf);
                let (Some(Component::Normal(name)), Some(parent)) =
                    (path.components().next_back(), parent)
                else {
                    return Err(error);
                };
                let name = name.to_owned();
                match fs::read_link(&path) {
                    Ok(target) if links < LINKS => {
                        links += 1;
                        path = parent.join(target);
                    }
                    Ok(_) => return Err(io::Error::from(rustix::io::Errno::LOOP)),
                    Err(_) => {
                        missing.push(name);
                        path = parent;
                    }
                }
            }
        }
    }
}

impl Place<'_> {
    /// Returns the path with all links followed.
    pub(super) fn real(&self) -> PathBuf {
        self.root.join(&self.below)
    }

    /// Turns a system error into words.
    pub(super) fn says(&self, error: &io::Error) -> String {
        if error.raw_os_error() == Some(rustix::io::Errno::XDEV.raw_os_error()) {
            return outside(self.tool, self.given);
        }
        says(self.tool, self.given, error)
    }

    /// Opens it; nothing is followed any more, whatever was changed since.
    fn open(&self, below: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, self.root, folder, Mode::empty())?;
        let below = if below.as_os_str().is_empty() {
            Path::new(".")
        } else {
            below
        };
        // Without O_NONBLOCK a FIFO would hold the call until somebody opens the other end.
        let wait = match flags.contains(OFlags::PATH) {
            true => OFlags::empty(),
            false => OFlags::NONBLOCK | OFlags::NOCTTY,
        };
        let flags = flags | OFlags::CLOEXEC | wait;
        Ok(openat2(root, below, flags, mode, BENEATH)?.into())
    }

    /// Opens a regular file to read, and returns its size.
    pub(super) fn open_regular(&self) -> Result<(File, u64), String> {
        let file = self.open(&self.below, OFlags::RDONLY, Mode::empty());
        let file = file.map_err(|error| self.says(&error))?;
        let size = self.regular(&file)?;
        Ok((file, size))
    }

    /// Opens a regular file to write, and makes it if it is missing.
    pub(super) fn open_to_write(&self) -> Result<File, String> {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = self.open(&self.below, flags, Mode::from_raw_mode(0o666));
        let file = file.map_err(|error| match error.raw_os_error() {
            // A FIFO nobody reads, or a socket.
            Some(code) if code == rustix::io::Errno::NXIO.raw_os_error() => self.not_regular(),
            _ => self.says(&error),
        })?;
        self.regular(&file)?;
        Ok(file)
    }

    /// Makes the folders above it, as far as they are missing.
    pub(super) fn make_parents(&self) -> Result<(), String> {
        let Some(parent) = self.below.parent() else {
            return Ok(());
        };
        let mut done = PathBuf::new();
        for name in parent.components() {
            let above = self.open(&done, OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
            let above = above.map_err(|error| self.says(&error))?;
            match rustix::fs::mkdirat(&above, name.as_os_str(), Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => done.push(name),
                Err(error) => return Err(self.says(&error.into())),
            }
        }
        Ok(())
    }

    /// Checks that an open file is a regular one, and returns its size.
    fn regular(&self, file: &File) -> Result<u64, String> {
        let stat = rustix::fs::fstat(file).map_err(|error| self.says(&error.into()))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(u64::try_from(stat.st_size).unwrap_or(0)),
            FileType::Directory => Err(format!("{}: {}: is a directory", self.tool, self.given)),
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Err(self.not_regular()),
        }
    }

    /// Says that it is something else than a file.
    fn not_regular(&self) -> String {
        format!("{}: {}: not a regular file", self.tool, self.given)
    }
}

/// Says that a path leads out.
fn outside(tool: &str, given: &str) -> String {
    format!(
        "{tool}: path {given:?} is outside the session's working directory and its other \
         permitted directories"
    )
}

/// Puts tool and path before the usual words for an error.
fn says(tool: &str, given: &str, error: &io::Error) -> String {
    format!("{tool}: {given}: {}", reason(error))
}

/// Returns the usual words for an error, the same everywhere.
fn reason(error: &io::Error) -> String {
    use rustix::io::Errno;
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    let words = match code {
        Some(Errno::NOENT) => "no such file or directory",
        Some(Errno::NOTDIR) => "not a directory",
        Some(Errno::ISDIR) => "is a directory",
        Some(Errno::ACCESS | Errno::PERM) => "permission denied",
        Some(Errno::EXIST) => "file already exists",
        Some(Errno::LOOP) => "too many levels of symbolic links",
        Some(Errno::NAMETOOLONG) => "file name too long",
        Some(Errno::NOSPC | Errno::DQUOT) => "no space left",
        Some(Errno::ROFS) => "read-only file system",
        _ => return error.to_string(),
    };
    words.to_owned()
}
