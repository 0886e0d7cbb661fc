//! What kind of archive a file is, and where its layers are.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, Read, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    digest::{self, Hashing, is_digest},
    machine::{Machine, architecture},
    tree::Tree,
};

/// Files that an archive of an image may have.
const MOST_NAMES: usize = 2_000_000;

/// The largest manifest or configuration.
const LONGEST: u64 = 16 << 20;

/// The largest archive, unpacked.
const LARGEST: u64 = 64 << 30;

/// An archive that was looked at.
#[derive(Debug)]
pub(super) struct Archive {
    source: Source,
    digest: String,
    layers: Vec<Layer>,
}

/// Where its parts are.
#[derive(Debug)]
enum Source {
    /// In a folder.
    Folder(PathBuf),
    /// In a plain archive: begin and size of each file.
    Tar(File, HashMap<String, (u64, u64)>),
}

/// One layer.
#[derive(Debug)]
struct Layer {
    /// Its name in the source; none means the source itself.
    name: Option<String>,
    /// Its digest as it lies there.
    packed: Option<String>,
    /// Its digest unpacked.
    plain: Option<String>,
}

/// The parts of an OCI layout that count.
#[derive(Debug, Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
struct Descriptor {
    digest: String,
    platform: Option<Machine>,
}

/// A manifest, or an index of more of them.
#[derive(Debug, Deserialize)]
struct Manifest {
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

/// What `docker save` writes.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    layers: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Configuration {
    #[serde(flatten)]
    machine: Machine,
    rootfs: RootFs,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

impl Archive {
    /// Looks at a file or folder; what has to be unpacked for that is put into `scratch`.
    pub(super) fn open(path: &Path, scratch: &Path) -> io::Result<Self> {
        if path.is_dir() {
            if !path.join("index.json").is_file() {
                return Err(bad(
                    "a folder must be an OCI layout, with an `index.json`; pack a root file system \
                     with `tar`",
                ));
            }
            return Self::layout(Source::Folder(path.to_owned()));
        }
        let mut file = File::open(path)?;
        let outer = digest::of(BufReader::new(&file))?;
        file.rewind()?;
        if !matches!(kind(&mut file)?, Kind::Plain) {
            let mut plain = tempfile::tempfile_in(scratch)?;
            let done = io::copy(&mut decoded(file)?.take(LARGEST + 1), &mut plain)?;
            if done > LARGEST {
                return Err(bad("it is too large"));
            }
            file = plain;
        }
        let names = names(&mut file)?;
        let has = |name: &str| names.contains_key(name);
        match (has("oci-layout") && has("index.json"), has("manifest.json")) {
            (true, _) => Self::layout(Source::Tar(file, names)),
            (false, true) => Self::saved(Source::Tar(file, names)),
            (false, false) => {
                let (name, packed, plain) = (None, None, None);
                Ok(Self {
                    source: Source::Tar(file, names),
                    digest: outer,
                    layers: vec![Layer {
                        name,
                        packed,
                        plain,
                    }],
                })
            }
        }
    }

    /// Returns its digest.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    /// Reads an OCI layout.
    fn layout(source: Source) -> io::Result<Self> {
        let index: Index = serde_json::from_slice(&source.small("index.json")?)?;
        let mut digest = chosen(&index.manifests)?;
        let mut manifest = source.manifest(&digest)?;
        // An index of platforms, once.
        if manifest.layers.is_empty() && !manifest.manifests.is_empty() {
            digest = chosen(&manifest.manifests)?;
            manifest = source.manifest(&digest)?;
        }
        if let Some(config) = manifest.config {
            let machine: Machine = serde_json::from_slice(&source.checked(&config.digest)?)?;
            machine.check()?;
        }
        let layers = manifest.layers.into_iter().map(|layer| {
            Ok(Layer {
                name: Some(blob(&layer.digest)?),
                packed: Some(layer.digest),
                plain: None,
            })
        });
        let layers = layers.collect::<io::Result<_>>()?;
        Ok(Self {
            source,
            digest,
            layers,
        })
    }

    /// Reads what `docker save` wrote.
    fn saved(source: Source) -> io::Result<Self> {
        let saved: Vec<Saved> = serde_json::from_slice(&source.small("manifest.json")?)?;
        let [saved] = saved.as_slice() else {
            return Err(bad("it holds several images; save one"));
        };
        let text = source.small(&saved.config)?;
        let digest = digest::of(text.as_slice())?;
        let said = saved.config.trim_end_matches(".json");
        let said = said.rsplit('/').next().unwrap_or(said);
        if digest != format!("sha256:{said}") {
            return Err(bad(
                "its configuration has another digest than its name says",
            ));
        }
        let configuration: Configuration = serde_json::from_slice(&text)?;
        configuration.machine.check()?;
        let plain = configuration.rootfs.diff_ids;
        if plain.len() != saved.layers.len() {
            return Err(bad("layers and their digests are not as many"));
        }
        let layers = saved.layers.iter().zip(plain).map(|(name, plain)| Layer {
            name: Some(name.clone()),
            packed: None,
            plain: Some(plain),
        });
        Ok(Self {
            layers: layers.collect(),
            source,
            digest,
        })
    }

    /// Lays all layers over each other, each checked against its digest.
    pub(super) fn apply(&self, tree: &mut Tree) -> io::Result<()> {
        for layer in &self.layers {
            // Twice: what a layer takes away is taken away before it adds anything.
            self.read(layer, |reader| tree.take_away(reader))?;
            self.read(layer, |reader| tree.add(reader))?;
        }
        if tree.size().1 == 0 {
            return Err(bad("there is nothing in it"));
        }
        Ok(())
    }

    /// Reads one layer to its end.
    fn read(
        &self,
        layer: &Layer,
        mut with: impl FnMut(&mut dyn Read) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut packed = Hashing::new(self.source.open(layer.name.as_deref())?);
        let mut plain = Hashing::new(decoded(&mut packed)?);
        with(&mut plain)?;
        let (found_plain, found_packed) = (plain.finish()?, packed.finish()?);
        for (found, wanted) in [(found_plain, &layer.plain), (found_packed, &layer.packed)] {
            if let Some(wanted) = wanted.as_ref().filter(|wanted| **wanted != found) {
                return Err(bad(&format!(
                    "a layer has the digest {found}, not {wanted}"
                )));
            }
        }
        Ok(())
    }
}

impl Source {
    /// Opens a part, or the whole.
    fn open(&self, name: Option<&str>) -> io::Result<Box<dyn Read + '_>> {
        match (self, name) {
            (Self::Folder(folder), Some(name)) => {
                Ok(Box::new(BufReader::new(File::open(folder.join(name))?)))
            }
            (Self::Folder(_), None) => Err(bad("a folder is no archive")),
            (Self::Tar(file, _), None) => {
                let mut file = file.try_clone()?;
                file.rewind()?;
                Ok(Box::new(BufReader::new(file)))
            }
            (Self::Tar(file, names), Some(name)) => {
                let missing = || bad(&format!("`{name}` is missing"));
                let (begin, size) = *names.get(name).ok_or_else(missing)?;
                let mut file = file.try_clone()?;
                file.seek(SeekFrom::Start(begin))?;
                Ok(Box::new(BufReader::new(file).take(size)))
            }
        }
    }

    /// Reads a part that is small.
    fn small(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        self.open(Some(name))?
            .take(LONGEST)
            .read_to_end(&mut text)?;
        Ok(text)
    }

    /// Reads a small part by its digest, and checks it.
    fn checked(&self, digest: &str) -> io::Result<Vec<u8>> {
        let text = self.small(&blob(digest)?)?;
        if digest::of(text.as_slice())? != digest {
            return Err(bad(
                "its manifest or configuration has another digest than its name says",
            ));
        }
        Ok(text)
    }

    fn manifest(&self, digest: &str) -> io::Result<Manifest> {
        Ok(serde_json::from_slice(&self.checked(digest)?)?)
    }
}

/// Chooses the manifest for this machine.
fn chosen(manifests: &[Descriptor]) -> io::Result<String> {
    let fits = |found: &&Descriptor| found.platform.as_ref().is_none_or(Machine::is_this);
    let mut fitting = manifests.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(one), None) => Ok(one.digest.clone()),
        (None, _) => Err(bad(&format!("it has nothing for linux/{}", architecture()))),
        (Some(_), Some(_)) => Err(bad("it holds several images; save one")),
    }
}

/// Returns the place of a blob.
fn blob(digest: &str) -> io::Result<String> {
    if !is_digest(digest) {
        return Err(bad("a digest in it is none of SHA-256"));
    }
    Ok(format!("blobs/{}", digest.replace(':', "/")))
}

/// Finds the files of a plain archive.
fn names(file: &mut File) -> io::Result<HashMap<String, (u64, u64)>> {
    let mut names = HashMap::new();
    file.rewind()?;
    let mut archive = tar::Archive::new(&*file);
    for (number, entry) in archive.entries_with_seek()?.enumerate() {
        let entry = entry.map_err(|error| unread(number, error))?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path()?.to_string_lossy().into_owned();
        let path = path.trim_start_matches("./").to_owned();
        names.insert(path, (entry.raw_file_position(), entry.size()));
        if names.len() > MOST_NAMES {
            return Err(bad("it has too many files"));
        }
    }
    Ok(names)
}

/// How bytes are packed.
enum Kind {
    Plain,
    Gzip,
    Zstd,
}

/// Looks at the first bytes, and goes back.
fn kind(file: &mut File) -> io::Result<Kind> {
    let mut magic = [0; 4];
    let mut head = (&mut *file).take(4);
    let mut got = 0;
    while got < 4 {
        match head.read(magic.get_mut(got..).unwrap_or_default())? {
            0 => break,
            more => got += more,
        }
    }
    file.rewind()?;
    Ok(of_magic(magic))
}

const fn of_magic(magic: [u8; 4]) -> Kind {
    match magic {
        [0x1f, 0x8b, ..] => Kind::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd] => Kind::Zstd,
        _ => Kind::Plain,
    }
}

/// Unpacks bytes, whatever they are packed with.
fn decoded<'a>(mut packed: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut magic = Vec::with_capacity(4);
    (&mut packed).take(4).read_to_end(&mut magic)?;
    let kind = <[u8; 4]>::try_from(magic.as_slice()).map_or(Kind::Plain, of_magic);
    let whole = io::Cursor::new(magic).chain(packed);
    Ok(match kind {
        Kind::Plain => Box::new(whole),
        Kind::Gzip => Box::new(flate2::read::MultiGzDecoder::new(whole)),
        Kind::Zstd => Box::new(zstd::Decoder::new(whole)?),
    })
}

/// Says why an entry cannot be read, the first of an archive being number 0: what begins with none
/// is none. The library's words would show what stands there instead.
pub(super) fn unread(number: usize, error: io::Error) -> io::Error {
    let of_content = matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::Other
    );
    if number == 0 && of_content {
        return bad("it is no tar archive; gzip and zstd are unpacked");
    }
    error
}

/// Says what is wrong with an archive.
pub(super) fn bad(words: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words.to_owned())
}
