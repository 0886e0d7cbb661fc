//! Why a file that is mounted is not in a hand, in the words that the model reads.
//!
//! Kinds of causes only: what a store or a disk says may name places of the host.

use std::io;

use outlast_protocol::session::MountPath;
use outlast_store::ReadError;

/// Files that are named; the others are counted.
const NAMED: usize = 20;

/// The kind of a cause.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Why {
    /// Nothing is stored of it any more.
    Gone,
    /// It is somewhere, and nobody can read it now.
    Unreachable,
    /// Something else is stored in its place.
    Spoilt,
    /// The hand's machine is full.
    Full,
    /// The driver shows no files.
    Unsupported,
    /// It did not come to the hand's machine otherwise.
    Refused,
}

impl Why {
    /// Returns the word that an operator is told.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Unreachable => "unreachable",
            Self::Spoilt => "spoilt",
            Self::Full => "disk_full",
            Self::Unsupported => "unsupported",
            Self::Refused => "refused",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Gone => "its content is no longer stored",
            Self::Unreachable => "the place where files are stored cannot be read now",
            Self::Spoilt => "what is stored of it is not what was uploaded",
            Self::Full => "the disk of the sandbox's machine is full",
            Self::Unsupported => "this kind of sandbox takes no files",
            Self::Refused => "it could not be brought to the sandbox's machine",
        }
    }
}

impl From<&ReadError> for Why {
    fn from(fault: &ReadError) -> Self {
        match fault {
            ReadError::NotFound(_) => Self::Gone,
            ReadError::Unreadable(_) | ReadError::Overloaded | ReadError::Unavailable(_) => {
                Self::Unreachable
            }
        }
    }
}

impl From<&outlast_blobs::Error> for Why {
    fn from(fault: &outlast_blobs::Error) -> Self {
        match fault {
            outlast_blobs::Error::NotFound(_) => Self::Gone,
            outlast_blobs::Error::Unavailable { .. } => Self::Unreachable,
        }
    }
}

impl From<&io::Error> for Why {
    fn from(fault: &io::Error) -> Self {
        use io::ErrorKind::{InvalidData, QuotaExceeded, StorageFull, UnexpectedEof, Unsupported};
        let kind = fault.kind();
        if matches!(kind, InvalidData | UnexpectedEof) {
            Self::Spoilt
        } else if matches!(kind, StorageFull | QuotaExceeded) {
            Self::Full
        } else if kind == Unsupported {
            Self::Unsupported
        } else {
            Self::Refused
        }
    }
}

/// Says which files are not in a sandbox, and why; nothing of none.
pub(super) fn words<'a>(lacks: impl Iterator<Item = (&'a MountPath, Why)>) -> Option<String> {
    let lacks: Vec<_> = lacks.collect();
    if lacks.is_empty() {
        return None;
    }
    let named = lacks.iter().take(NAMED);
    // Quoted as a string is: a path may hold anything.
    let named = named.map(|(path, why)| format!("{:?}: {}", path.absolute(), why.words()));
    let mut named: Vec<_> = named.collect();
    if let Some(more @ 1..) = lacks.len().checked_sub(NAMED) {
        named.push(format!("and {more} more"));
    }
    Some(format!(
        "[Files that are mounted in this session could not be brought into the sandbox and are not \
         there: {}. It is tried again before each call.]",
        named.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> MountPath {
        MountPath::parse(name).unwrap()
    }

    #[test]
    fn each_is_named_with_its_cause_and_many_are_counted() {
        assert_eq!(words(std::iter::empty()), None);
        let (one, two) = (path("/a b\n"), path("/c"));
        let two = [(&one, Why::Gone), (&two, Why::Full)];
        assert_eq!(
            words(two.into_iter()).unwrap(),
            "[Files that are mounted in this session could not be brought into the sandbox and are \
             not there: \"/mnt/session/uploads/a b\\n\": its content is no longer stored; \
             \"/mnt/session/uploads/c\": the disk of the sandbox's machine is full. It is tried \
             again before each call.]"
        );
        let many = vec![path("/d"); NAMED + 3];
        let words = words(many.iter().map(|path| (path, Why::Refused))).unwrap();
        assert!(words.contains("; and 3 more."), "{words}");
        assert_eq!(words.matches("/mnt/session/uploads/d").count(), NAMED);
    }
}
