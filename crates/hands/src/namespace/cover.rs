//! What leads programs out of a sandbox that has a way out: files of its incarnation alone, over
//! everything else. So they are in no workspace and in no checkpoint, and nothing inside changes them.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
};

use outlast_sandbox::{Base, Cover};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use crate::outlet::{BUNDLE, Outlet};

/// Where systems keep the authorities that they trust, in one file.
const BUNDLES: [&str; 4] = [
    BUNDLE,
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What apt reads after what anybody else says.
const APT: &str = "/etc/apt/apt.conf.d/99outlet";

/// No bundle is longer.
const LONGEST: u64 = 8 << 20;

/// Returns the files. Blocks.
pub(super) fn of(outlet: &Outlet, base: &Base, above: &[PathBuf]) -> Vec<Cover> {
    let mut files = vec![Cover {
        path: APT.to_owned(),
        content: outlet.apt().into_bytes(),
    }];
    if let Some(authority) = &outlet.authority {
        let System { mut bundle, places } = System::of(base, above);
        if !bundle.is_empty() && !bundle.ends_with(b"\n") {
            bundle.push(b'\n');
        }
        bundle.extend_from_slice(authority.as_bytes());
        files.extend(places.into_iter().map(|path| Cover {
            path,
            content: bundle.clone(),
        }));
    }
    files
}

/// What a system trusts, and where its programs look for it.
#[derive(Debug, Default)]
struct System {
    bundle: Vec<u8>,
    places: Vec<String>,
}

impl System {
    /// Looks into the trees of a sandbox, the topmost first; where they trust nobody the host's
    /// authorities are taken.
    fn of(base: &Base, above: &[PathBuf]) -> Self {
        let mut found = Self::default();
        let trees = match base {
            Base::Host => &[],
            Base::Trees(trees) => trees.as_slice(),
        };
        for tree in above.iter().chain(trees) {
            found.look(tree);
        }
        if found.bundle.is_empty() {
            let host = BUNDLES
                .iter()
                .filter_map(|path| read(File::open(path).ok()?).ok());
            found.bundle = host.into_iter().next().unwrap_or_default();
        }
        let trees = above.iter().chain(trees);
        let usual = trees.into_iter().find_map(|tree| beside(tree));
        found.add(usual.unwrap_or_else(|| BUNDLE.to_owned()));
        found
    }

    /// Takes note of the bundles of one tree.
    fn look(&mut self, tree: &Path) {
        for path in BUNDLES {
            let Ok((file, place)) = open(tree, path, OFlags::RDONLY | OFlags::NONBLOCK) else {
                continue;
            };
            self.add(place);
            if self.bundle.is_empty() {
                // What cannot be read is trusted by nobody inside either.
                self.bundle = read(file).unwrap_or_default();
            }
        }
    }

    fn add(&mut self, place: String) {
        if !self.places.contains(&place) {
            self.places.push(place);
        }
    }
}

/// Returns where the usual bundle stands in a tree that has its folder, however that is reached.
fn beside(tree: &Path) -> Option<String> {
    let (folder, name) = BUNDLE.rsplit_once('/')?;
    let (_, place) = open(tree, folder, OFlags::PATH | OFlags::DIRECTORY).ok()?;
    Some(format!("{place}/{name}"))
}

/// Opens what a path leads to in a tree, links included, and never outside of it; returns its path
/// inside too.
fn open(tree: &Path, path: &str, flags: OFlags) -> io::Result<(File, String)> {
    let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, tree, way, Mode::empty())?;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC;
    let file = File::from(openat2(&root, path, flags, Mode::empty(), within)?);
    let named = |fd: i32| fs::read_link(format!("/proc/self/fd/{fd}"));
    let (at, below) = (named(root.as_raw_fd())?, named(file.as_raw_fd())?);
    let place = below.strip_prefix(&at).map_err(io::Error::other)?;
    let place = place.to_str().ok_or(io::ErrorKind::InvalidData)?;
    Ok((file, format!("/{place}")))
}

fn read(file: File) -> io::Result<Vec<u8>> {
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn files(tree: Option<PathBuf>) -> Vec<(String, String)> {
        let outlet = Outlet {
            authority: Some("OURS\n".to_owned()),
            ..Outlet::default()
        };
        let base = tree.map_or(Base::Host, |tree| Base::Trees(vec![tree]));
        let files = of(&outlet, &base, &[]).into_iter();
        files
            .map(|file| (file.path, String::from_utf8(file.content).unwrap()))
            .collect()
    }

    #[test]
    fn an_image_trusts_what_it_did_and_ours_wherever_it_looks() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        for folder in ["etc/ssl", "etc/pki/tls/certs", "etc/pki/extracted"] {
            fs::create_dir_all(tree.join(folder)).unwrap();
        }
        fs::write(tree.join("etc/pki/extracted/all.pem"), "THEIRS").unwrap();
        symlink(
            "/etc/pki/extracted/all.pem",
            tree.join("etc/pki/tls/certs/ca-bundle.crt"),
        )
        .unwrap();
        symlink("../pki/tls/certs", tree.join("etc/ssl/certs")).unwrap();
        // No link is hidden: what it leads to is.
        let places = [
            "/etc/pki/extracted/all.pem",
            "/etc/pki/tls/certs/ca-certificates.crt",
        ];
        let both = || "THEIRS\nOURS\n".to_owned();
        let expected = places.map(|place| (place.to_owned(), both()));
        assert_eq!(files(Some(tree))[1..], expected);
    }

    #[test]
    fn a_link_out_of_an_image_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("etc/ssl")).unwrap();
        let secret = dir.path().join("secret");
        fs::write(&secret, "SECRET").unwrap();
        symlink(&secret, tree.join("etc/ssl/cert.pem")).unwrap();
        symlink("/proc/self/root/etc", tree.join("etc/ssl/certs")).unwrap();
        let [_, (place, bundle)] = &files(Some(tree))[..] else {
            panic!("one bundle");
        };
        assert_eq!(place, BUNDLE);
        assert!(bundle.ends_with("OURS\n") && !bundle.contains("SECRET"));
    }

    #[test]
    fn without_an_authority_there_is_only_the_way() {
        let host = files(None);
        assert_eq!(host[1].0, BUNDLE);
        assert!(host[1].1.ends_with("OURS\n"));
        let [only] = &of(&Outlet::default(), &Base::Host, &[])[..] else {
            panic!("nobody is to be trusted");
        };
        assert_eq!(only.path, APT);
    }
}
