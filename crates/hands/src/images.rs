//! Root file systems that an operator imported, by name and digest. No engine is needed.
//!
//! An image is a folder `images/sha256-<hex>` with the unpacked tree, what is laid over it, and
//! what it is; a table gives names to digests. What an archive says is not trusted: digests are
//! checked, paths lead nowhere but into the tree, sizes and numbers of files are bounded, devices
//! are left out, and no file keeps a set-user-ID bit or a capability.

mod archive;
mod digest;
mod machine;
mod tree;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use outlast_sandbox::{Ids, dress, remove_tree};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use archive::Archive;

/// The table of names.
const TABLE: &str = "index.json";

/// What an image is, beside its tree.
const ABOUT: &str = "image.json";

/// The longest name of an image.
const NAME: usize = 64;

/// One imported image.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its digest: of the manifest, of the configuration, or of a root file system's archive.
    pub digest: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// Files, folders and links.
    pub entries: u64,
}

/// What an image is.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct About {
    bytes: u64,
    entries: u64,
    /// Whose files they are on this host.
    ids: String,
}

/// Why an image is not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The name cannot be one.
    #[error(
        "`{0}` cannot name an image: use at most 64 letters, digits, `.`, `_`, `-`, `:` and `/`, \
         beginning with a letter or digit"
    )]
    Name(String),
    /// It is another one than was asked for.
    #[error("the digest is {found}, not {wanted}")]
    Other {
        /// What it is.
        found: String,
        /// What it should be.
        wanted: String,
    },
    /// The archive is broken, unsafe or of a kind that is not known.
    #[error("the archive cannot be taken: {0}")]
    Archive(String),
    /// A file cannot be read or written.
    #[error("{what}: {error}")]
    File {
        /// What was done.
        what: String,
        /// What the system said.
        error: io::Error,
    },
}

impl ImportError {
    fn at(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        // What reading an archive says is of these kinds, what a disk says of others.
        let of_archive = |error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::InvalidData
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::Other
            )
        };
        move |error| {
            if of_archive(&error) {
                // Of a broken header the library shows the bytes.
                let odd = |sign: char| sign.is_control() || sign == char::REPLACEMENT_CHARACTER;
                let words = error.to_string().replace(odd, "?");
                return Self::Archive(format!("{what}: {words}"));
            }
            Self::File { what, error }
        }
    }
}

/// The images of a node.
#[derive(Clone, Debug)]
pub struct Images {
    dir: PathBuf,
}

impl Images {
    /// Opens the folder of images, which need not exist.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Lists images by name.
    ///
    /// # Errors
    ///
    /// If the table cannot be read.
    pub fn list(&self) -> io::Result<Vec<Listed>> {
        let listed = self.table()?.into_iter().map(|(name, digest)| {
            let about = self.about(&digest).ok();
            Listed {
                name,
                bytes: about.as_ref().map_or(0, |about| about.bytes),
                entries: about.map_or(0, |about| about.entries),
                digest,
            }
        });
        Ok(listed.collect())
    }

    /// Returns the names.
    ///
    /// # Errors
    ///
    /// If the table cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.table()?.into_keys().collect())
    }

    /// Unpacks an archive, and gives it a name; a name that is taken moves to it. Blocks.
    ///
    /// A root file system as tar, an OCI layout as folder or tar, or what `docker save` writes;
    /// plain or behind gzip or zstd.
    ///
    /// # Errors
    ///
    /// Nothing of it stays then.
    pub fn import(
        &self,
        name: &str,
        file: &Path,
        wanted: Option<&str>,
    ) -> Result<Listed, ImportError> {
        if !is_name(name) {
            return Err(ImportError::Name(name.to_owned()));
        }
        self.make()
            .map_err(ImportError::at("make the folder of images"))?;
        let _one = self.lock().map_err(ImportError::at("lock the images"))?;
        let shown = file.display().to_string();
        let archive = Archive::open(file, &self.dir).map_err(ImportError::at(shown))?;
        let digest = archive.digest().to_owned();
        if let Some(wanted) = wanted.filter(|wanted| *wanted != digest) {
            return Err(ImportError::Other {
                found: digest,
                wanted: wanted.to_owned(),
            });
        }
        let ids = Ids::detect();
        if self
            .about(&digest)
            .is_ok_and(|about| about.ids == ids.label())
        {
            tracing::info!("image `{digest}` is here already");
        } else {
            self.unpack(&archive, &ids)?;
        }
        let mut table = self.table().map_err(ImportError::at("read the table"))?;
        table.insert(name.to_owned(), digest.clone());
        self.write(&table)
            .map_err(ImportError::at("write the table"))?;
        let about = self
            .about(&digest)
            .map_err(ImportError::at("read the image"))?;
        Ok(Listed {
            name: name.to_owned(),
            digest,
            bytes: about.bytes,
            entries: about.entries,
        })
    }

    /// Unpacks aside, and puts it in its place whole.
    fn unpack(&self, archive: &Archive, ids: &Ids) -> Result<(), ImportError> {
        let part = self.dir.join(".import");
        let place = self.place(archive.digest());
        remove_tree(&part).map_err(ImportError::at("remove what an import left"))?;
        let done = (|| {
            fs::DirBuilder::new().mode(0o700).create(&part)?;
            let root = part.join("root");
            fs::create_dir(&root)?;
            let mut tree = tree::Tree::new(&root, ids)?;
            archive.apply(&mut tree)?;
            let (bytes, entries) = tree.size();
            dress(&root, &part.join("over"), ids)?;
            let ids = ids.label();
            let about = serde_json::to_vec(&About {
                bytes,
                entries,
                ids,
            })?;
            fs::write(part.join(ABOUT), about)?;
            rustix::fs::syncfs(File::open(&part)?)?;
            remove_tree(&place)?;
            fs::rename(&part, &place)
        })();
        if done.is_err() {
            // What went wrong is told; the next import removes what this one left.
            drop(remove_tree(&part));
        }
        done.map_err(ImportError::at("unpack it"))
    }

    /// Takes a name away, and the image with its last name. Blocks.
    ///
    /// A sandbox that stands on it loses its programs. Tells whether there was such a name.
    ///
    /// # Errors
    ///
    /// If something cannot be written or removed.
    pub fn remove(&self, name: &str) -> io::Result<bool> {
        if !self.dir.join(TABLE).exists() {
            return Ok(false);
        }
        let _one = self.lock()?;
        let mut table = self.table()?;
        let Some(digest) = table.remove(name) else {
            return Ok(false);
        };
        self.write(&table)?;
        if !table.values().any(|other| *other == digest) {
            remove_tree(&self.place(&digest))?;
        }
        Ok(true)
    }

    /// Returns the trees of an image, the topmost first.
    pub(crate) fn trees(&self, name: &str, ids: &Ids) -> Result<Vec<PathBuf>, String> {
        let table = self.table().map_err(|error| error.to_string())?;
        let Some(digest) = table.get(name) else {
            let known: Vec<_> = table.into_keys().collect();
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            return Err(format!("there is none of that name here; known: {known}"));
        };
        let about = self.about(digest).map_err(|error| error.to_string())?;
        if about.ids != ids.label() {
            return Err("it was imported by another user: import it again".to_owned());
        }
        let place = self.place(digest);
        Ok(vec![place.join("over"), place.join("root")])
    }

    /// Returns the digest behind a name.
    pub(crate) fn digest(&self, name: &str) -> io::Result<Option<String>> {
        Ok(self.table()?.remove(name))
    }

    fn place(&self, digest: &str) -> PathBuf {
        self.dir.join(digest.replace(':', "-"))
    }

    fn about(&self, digest: &str) -> io::Result<About> {
        let text = fs::read(self.place(digest).join(ABOUT))?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn table(&self) -> io::Result<BTreeMap<String, String>> {
        match fs::read(self.dir.join(TABLE)) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
    }

    fn write(&self, table: &BTreeMap<String, String>) -> io::Result<()> {
        let part = self.dir.join("index.part");
        fs::write(&part, serde_json::to_vec_pretty(table)?)?;
        File::open(&part)?.sync_all()?;
        fs::rename(part, self.dir.join(TABLE))
    }

    fn make(&self) -> io::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
    }

    /// Keeps others from importing and removing meanwhile.
    fn lock(&self) -> io::Result<File> {
        let lock = File::create(self.dir.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    }
}

/// Tells whether a text can name an image.
fn is_name(name: &str) -> bool {
    let good =
        |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '.' | '_' | '-' | ':' | '/');
    (1..=NAME).contains(&name.len())
        && name.starts_with(|sign: char| sign.is_ascii_alphanumeric())
        && name.chars().all(good)
}

#[cfg(test)]
mod tests;
