//! Files of pretended hands: what they show, and what their workspaces hold.

use std::{collections::BTreeMap, io};

use outlast_protocol::{CallResult, Outcome};
use tokio::io::AsyncReadExt as _;

use crate::{
    conformance::Deed,
    files::{Published, Reader, Sum, Upload, escaped, is_below, is_plain},
};

/// Where uploads stand inside.
const UPLOADS: &str = "/mnt/session/uploads";

/// Where outputs stand inside.
const OUTPUTS: &str = "/mnt/session/outputs";

/// Stands between the calls and the files of a pack.
const BETWEEN: u8 = 0;

/// A pretended workspace.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    /// A line for each call that ran in it, or in one that it took over.
    pub(super) calls: String,
    /// By path, escaped: names are of any bytes.
    nodes: BTreeMap<String, Node>,
    /// Numbers changes.
    changes: u64,
}

/// What is at a path; a folder is there while something is in it.
#[derive(Clone, Debug)]
enum Node {
    File {
        bytes: Vec<u8>,
        mode: u32,
        version: u64,
    },
    Link(String),
}

/// What a pretended hand shows, by path.
#[derive(Debug, Default)]
pub(super) struct Uploads(BTreeMap<String, (Upload, Vec<u8>)>);

impl Uploads {
    /// Puts a file that was read whole into its place.
    pub(super) fn place(&mut self, upload: &Upload, bytes: Vec<u8>) -> io::Result<()> {
        let path = &upload.path;
        let is_above = |above: &str, below: &str| {
            let rest = below.strip_prefix(above);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        let mut others = self.0.keys();
        if others.any(|other| is_above(other, path) || is_above(path, other)) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        self.0.insert(path.clone(), (upload.clone(), bytes));
        Ok(())
    }

    pub(super) fn unplace(&mut self, path: &str) {
        self.0.remove(path);
    }

    pub(super) fn list(&self) -> Vec<Upload> {
        let uploads = self.0.values();
        uploads.map(|(upload, _)| upload.clone()).collect()
    }

    /// Says what is at a path below the folder.
    fn look(&self, path: &str) -> String {
        let folder = format!("{path}/");
        match self.0.get(path) {
            Some((_, bytes)) => Deed::file(0o444, bytes),
            None if self.0.keys().any(|other| other.starts_with(&folder)) => "folder".to_owned(),
            None => "absent".to_owned(),
        }
    }
}

/// Reads an upload to its end; it must be what was announced.
pub(super) async fn read(upload: &Upload, mut content: Reader) -> io::Result<Vec<u8>> {
    plain(&upload.path)?;
    let mut bytes = Vec::new();
    content.read_to_end(&mut bytes).await?;
    if bytes.len() as u64 == upload.bytes {
        Ok(bytes)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// Refuses what is no path below a folder, of names that may be escaped.
pub(super) fn below(path: &str) -> io::Result<()> {
    accept(is_below(path))
}

/// Refuses what is no path below a folder.
pub(super) fn plain(path: &str) -> io::Result<()> {
    accept(is_plain(path))
}

fn accept(good: bool) -> io::Result<()> {
    if good {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

fn missing(path: &str) -> CallResult {
    CallResult::error(Outcome::Done, format!("{path}: no such file"))
}

impl Layer {
    /// Does what a call asks for.
    pub(super) fn act(&mut self, deed: Deed, uploads: Option<&Uploads>) -> CallResult {
        let at = match &deed {
            Deed::Write { path, .. }
            | Deed::Lines { path, .. }
            | Deed::Hole { path, .. }
            | Deed::Link { path, .. }
            | Deed::Twin { path, .. }
            | Deed::Rename { path, .. }
            | Deed::Remove { path }
            | Deed::Look { path } => path.clone(),
            Deed::Say { .. } | Deed::Variable { .. } => {
                return CallResult::error(Outcome::Done, "that is no matter of files");
            }
        };
        if let Some(below) = at.strip_prefix(UPLOADS) {
            return match deed {
                Deed::Look { .. } => {
                    let below = below.trim_start_matches('/');
                    let seen = uploads.map(|uploads| uploads.look(below));
                    CallResult::text(seen.unwrap_or_else(|| "absent".to_owned()))
                }
                Deed::Write { .. }
                | Deed::Lines { .. }
                | Deed::Hole { .. }
                | Deed::Link { .. }
                | Deed::Twin { .. }
                | Deed::Rename { .. }
                | Deed::Remove { .. }
                | Deed::Say { .. }
                | Deed::Variable { .. } => {
                    CallResult::error(Outcome::Done, format!("{at}: read-only file system"))
                }
            };
        }
        self.alter(escaped(at.as_bytes()), deed)
    }

    /// Does it in the workspace.
    fn alter(&mut self, at: String, deed: Deed) -> CallResult {
        let done = CallResult::text("");
        match deed {
            Deed::Write { bytes, mode, .. } => self.write(at, bytes, mode),
            Deed::Lines { count, .. } => self.write(at, Deed::lines(count), 0o644),
            Deed::Hole { bytes, .. } => {
                let mut content = vec![0; usize::try_from(bytes).unwrap_or(0)];
                content.extend_from_slice(Deed::END);
                self.write(at, content, 0o644);
            }
            Deed::Link { target, .. } => {
                self.nodes.insert(at, Node::Link(target));
            }
            Deed::Twin { of, .. } => match self.nodes.get(&escaped(of.as_bytes())).cloned() {
                Some(node) => drop(self.nodes.insert(at, node)),
                None => return missing(&of),
            },
            Deed::Rename { name, .. } => {
                let folder = at.rsplit_once('/').map_or("", |(folder, _)| folder);
                let new = format!("{folder}/{}", escaped(&name));
                match self.nodes.remove(&at) {
                    Some(node) => drop(self.nodes.insert(new, node)),
                    None => return missing(&at),
                }
            }
            Deed::Remove { .. } => {
                let (before, below) = (self.nodes.len(), format!("{at}/"));
                self.nodes
                    .retain(|path, _| *path != at && !path.starts_with(&below));
                if self.nodes.len() == before {
                    return missing(&at);
                }
            }
            Deed::Look { .. } => return CallResult::text(self.look(&at)),
            Deed::Say { .. } | Deed::Variable { .. } => {}
        }
        done
    }

    fn write(&mut self, path: String, bytes: Vec<u8>, mode: u32) {
        self.changes += 1;
        let version = self.changes;
        self.nodes.insert(
            path,
            Node::File {
                bytes,
                mode,
                version,
            },
        );
    }

    fn look(&self, path: &str) -> String {
        let below = format!("{path}/");
        match self.nodes.get(path) {
            Some(Node::File { bytes, mode, .. }) => Deed::file(*mode, bytes),
            Some(Node::Link(target)) => format!("link {target}"),
            None if self.nodes.keys().any(|other| other.starts_with(&below)) => "folder".to_owned(),
            None => "absent".to_owned(),
        }
    }

    /// Lists the files below the folder of outputs.
    pub(super) fn outputs(&self) -> Vec<Published> {
        let output = |(path, node): (&String, &Node)| {
            let path = path.strip_prefix(OUTPUTS)?.strip_prefix('/')?.to_owned();
            match node {
                Node::File { bytes, version, .. } => Some(Published {
                    path,
                    bytes: bytes.len() as u64,
                    version: version.to_string(),
                }),
                Node::Link(_) => None,
            }
        };
        self.nodes.iter().filter_map(output).collect()
    }

    /// Opens one of them.
    pub(super) fn output(&self, path: &str) -> io::Result<Reader> {
        match self.nodes.get(&format!("{OUTPUTS}/{path}")) {
            Some(Node::File { bytes, .. }) => Ok(Box::pin(io::Cursor::new(bytes.clone()))),
            Some(Node::Link(_)) | None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Packs it: the calls as they are, and the files, if there are any, behind them.
    pub(super) fn pack(&self) -> io::Result<(Sum, Vec<u8>)> {
        let mut pack = self.calls.clone().into_bytes();
        if !self.nodes.is_empty() {
            pack.push(BETWEEN);
            pack.extend(zstd::encode_all(self.archive()?.as_slice(), 1)?);
        }
        let sum = Sum {
            entries: self.entries(),
            bytes: pack.len() as u64,
            digest: blake3::hash(&pack).to_hex().to_string(),
        };
        Ok((sum, pack))
    }

    /// Returns what all of it takes.
    pub(super) fn bytes(&self) -> u64 {
        let node = |node: &Node| match node {
            Node::File { bytes, .. } => bytes.len() as u64,
            Node::Link(target) => target.len() as u64,
        };
        self.calls.len() as u64 + self.nodes.values().map(node).sum::<u64>()
    }

    fn entries(&self) -> u64 {
        (self.calls.lines().count() + self.nodes.len()) as u64
    }

    fn archive(&self) -> io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, node) in &self.nodes {
            // An archive knows relative paths alone.
            let path = path.trim_start_matches('/');
            let mut header = tar::Header::new_gnu();
            match node {
                Node::File {
                    bytes,
                    mode,
                    version,
                } => {
                    header.set_mode(*mode);
                    header.set_mtime(*version);
                    header.set_size(bytes.len() as u64);
                    archive.append_data(&mut header, path, bytes.as_slice())?;
                }
                Node::Link(target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_mode(0o777);
                    header.set_mtime(0);
                    header.set_size(0);
                    archive.append_link(&mut header, path, target)?;
                }
            }
        }
        archive.into_inner()
    }

    /// Unpacks it; what does not come to its sum is refused.
    pub(super) fn unpack(sum: &Sum, pack: &[u8]) -> io::Result<Self> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let digest = blake3::hash(pack).to_hex();
        if sum.bytes != pack.len() as u64 || sum.digest != digest.as_str() {
            return Err(wrong());
        }
        let mut parts = pack.splitn(2, |byte| *byte == BETWEEN);
        let calls = parts.next().unwrap_or_default().to_vec();
        let mut layer = Self {
            calls: String::from_utf8(calls).map_err(io::Error::other)?,
            ..Self::default()
        };
        if let Some(files) = parts.next() {
            layer.read(zstd::Decoder::new(files)?)?;
        }
        if layer.entries() == sum.entries {
            Ok(layer)
        } else {
            Err(wrong())
        }
    }

    fn read(&mut self, archive: impl io::Read) -> io::Result<()> {
        for entry in tar::Archive::new(archive).entries()? {
            let mut entry = entry?;
            let path = format!("/{}", entry.path()?.to_string_lossy());
            let header = entry.header();
            let (mode, version) = (header.mode()?, header.mtime()?);
            let node = match entry.link_name()? {
                Some(target) => Node::Link(target.to_string_lossy().into_owned()),
                None => {
                    let mut bytes = Vec::new();
                    io::Read::read_to_end(&mut entry, &mut bytes)?;
                    Node::File {
                        bytes,
                        mode,
                        version,
                    }
                }
            };
            self.changes = self.changes.max(version);
            self.nodes.insert(path, node);
        }
        Ok(())
    }
}
