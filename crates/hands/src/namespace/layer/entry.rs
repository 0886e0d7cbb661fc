//! One entry of a layer.

/// What an entry is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// A folder; what is in it follows.
    Folder,
    /// A file of that many bytes, which follow.
    File {
        /// Its size.
        size: u64,
    },
    /// A file with holes; the map of what follows is at the head of its data.
    Sparse {
        /// Its size.
        size: u64,
    },
    /// A symbolic link.
    Symlink {
        /// What it says.
        to: Vec<u8>,
    },
    /// Another name of a file that came before.
    Link {
        /// The path of that file.
        to: Vec<u8>,
    },
    /// A named pipe.
    Fifo,
    /// The overlay's note that something below was removed.
    Whiteout,
}

/// What belongs to an entry beside its content.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Attributes {
    /// Permissions, with the three bits above them.
    pub(super) mode: u32,
    /// The owner as the sandbox sees it.
    pub(super) uid: u32,
    /// The group as the sandbox sees it.
    pub(super) gid: u32,
    /// When it was changed: seconds, and nanoseconds after them.
    pub(super) mtime: (i64, u32),
    /// Extended attributes.
    pub(super) extended: Vec<(Vec<u8>, Vec<u8>)>,
}

/// One entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    /// Its path below the layer; `.` is the layer itself.
    pub(super) path: Vec<u8>,
    /// What it is.
    pub(super) kind: Kind,
    /// What belongs to it; of a link what belongs to the file.
    pub(super) attributes: Attributes,
}

/// The path of the layer itself.
pub(super) const ROOT: &[u8] = b".";
