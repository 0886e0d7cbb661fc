//! The folder of a storm: made for it, and gone with it.

use std::{
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use outlast_protocol::seam::Entropy as _;

use crate::{
    OsEntropy,
    cli::failure::{Exit, Failure},
};

/// What its name begins with.
const NAME: &str = "outlast-torture-";

/// A folder that was not there before.
#[derive(Debug)]
pub(super) struct Place {
    /// The folder.
    pub(super) dir: PathBuf,
    keep: bool,
}

impl Place {
    /// Makes a folder below `dir`, or beside the data directory: what is tortured is that disk.
    pub(super) fn make(dir: Option<&Path>, data_dir: &Path) -> Result<Self, Failure> {
        let above = match dir {
            Some(dir) => dir.to_owned(),
            None => beside(data_dir),
        };
        let mut bytes = [0; 4];
        OsEntropy.fill(&mut bytes);
        let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let failed = |error: std::io::Error| {
            let words = format!("cannot make a folder in `{}`: {error}", above.display());
            Failure::say(Exit::Usage, words).hint("--dir names a folder that can be written")
        };
        let above = above.canonicalize().map_err(failed)?;
        let dir = above.join(format!("{NAME}{name}"));
        // A database server of the storm may run as another user, and has to pass.
        let made = fs::DirBuilder::new().mode(0o711).create(&dir);
        made.map_err(failed)?;
        Ok(Self { dir, keep: false })
    }

    /// Returns where the server keeps everything.
    pub(super) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Leaves the folder where it is: somebody may want to look.
    pub(super) fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed is looked for, and told, before this.
            drop(fs::remove_dir_all(&self.dir));
        }
    }
}

/// Returns the nearest folder above the data directory that is there.
fn beside(data_dir: &Path) -> PathBuf {
    let data_dir = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    let mut above = data_dir.ancestors().skip(1);
    let found = above.find(|dir| dir.is_dir());
    found.unwrap_or_else(|| Path::new("/")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_beside_the_data_and_goes() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let place = Place::make(None, &root.join("not/yet/there")).unwrap();
        assert_eq!(place.dir.parent(), Some(&*root));
        fs::create_dir(place.data()).unwrap();
        let dir = place.dir.clone();
        drop(place);
        assert!(!dir.exists());
        let mut place = Place::make(Some(&root), Path::new("/nowhere")).unwrap();
        place.keep();
        let dir = place.dir.clone();
        drop(place);
        assert!(dir.exists());
        assert!(Place::make(Some(&root.join("none")), &root).is_err());
    }
}
