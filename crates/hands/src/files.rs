//! What goes into a hand and comes out of it, apart from calls.

mod names;

use std::{fmt, pin::Pin};

use serde::{Deserialize, Serialize};
use tokio::io::AsyncRead;

pub use names::{escaped, unescaped};

/// Bytes on their way; read to their end once.
pub type Reader = Pin<Box<dyn AsyncRead + Send>>;

/// What a driver has beside calls.
///
/// What it does not have it refuses as [`std::io::ErrorKind::Unsupported`].
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Abilities {
    /// Uploads are shown, and outputs can be read.
    pub files: bool,
    /// Writable layers are kept, taken over, packed and laid.
    pub layers: bool,
    /// Hands have a way out where their recipe asks for one.
    #[serde(default)]
    pub outlets: bool,
}

impl Abilities {
    /// All there is.
    pub const ALL: Self = Self {
        files: true,
        layers: true,
        outlets: true,
    };
}

/// What a packed layer comes to.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Sum {
    /// Files, folders and links in the layer.
    pub entries: u64,
    /// Bytes of the pack.
    pub bytes: u64,
    /// BLAKE3 of the pack, in hex.
    pub digest: String,
}

/// A writable layer as one stream of bytes: a tar archive behind zstd.
pub struct Packed {
    /// What it comes to.
    pub sum: Sum,
    /// The pack.
    pub content: Reader,
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed")
            .field("sum", &self.sum)
            .finish_non_exhaustive()
    }
}

/// A file that a hand shows read-only.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Upload {
    /// Relative to `/mnt/session/uploads`; of plain components only.
    pub path: String,
    /// Names its content: the same id is the same bytes.
    pub id: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A regular file below `/mnt/session/outputs` that belongs to the commands' user.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Published {
    /// Relative to that folder, and [`escaped`]: a name inside is any bytes, and this is text.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Changes whenever the file may have changed: made of inode and time of change.
    pub version: String,
}

/// Bytes of a name that a file system takes.
const COMPONENT: usize = 255;

/// Tells whether a path is relative and of plain components: none empty, `.`, `..`, too long for a
/// file system, or with U+0000.
pub fn is_plain(path: &str) -> bool {
    is_below(path) && path.split('/').all(|part| part.len() <= COMPONENT)
}

/// Tells whether a path is relative and leads downwards only.
pub fn is_below(path: &str) -> bool {
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    path.split('/').all(plain)
}
