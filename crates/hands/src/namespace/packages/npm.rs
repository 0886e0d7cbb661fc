//! npm's mirror is a cache that npm itself filled; npm wants to write to it and asks it by address.

use std::{fs, io, os::unix::fs::symlink, path::Path};

use serde::Deserialize;

/// Where a cache keeps what it knows, and the bytes.
const INDEX: &str = "_cacache/index-v5";
const CONTENT: &str = "_cacache/content-v2";

/// How many entries are looked at for an address.
const LOOKED: usize = 1_000;

/// What stands before an address in a key.
const KEY: &str = "make-fetch-happen:request-cache:";

/// Makes at `to` a cache that can be written to, with all that is in the one at `mirror`.
///
/// What it knows is copied, the bytes are a link to where the mirror is shown. Returns the registry
/// that it was filled from.
pub(super) fn lay(mirror: &Path, shown: &str, to: &Path) -> io::Result<Option<String>> {
    let index = mirror.join(INDEX);
    if !index.is_dir() {
        let words =
            "the mirror of npm packages is no cache of npm's: it has no `_cacache/index-v5`";
        return Err(io::Error::new(io::ErrorKind::NotFound, words));
    }
    let mut look = Look {
        registry: None,
        left: LOOKED,
    };
    look.copy(&index, &to.join(INDEX))?;
    symlink(format!("{shown}/{CONTENT}"), to.join(CONTENT))?;
    fs::create_dir(to.join("_cacache/tmp"))?;
    Ok(look.registry)
}

struct Look {
    registry: Option<String>,
    left: usize,
}

impl Look {
    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if entry.file_type()?.is_dir() {
                self.copy(&from, &to)?;
            } else {
                let text = fs::read(&from)?;
                fs::write(to, &text)?;
                self.look(&text);
            }
        }
        Ok(())
    }

    /// Looks for the address of a registry in an entry.
    fn look(&mut self, entry: &[u8]) {
        if self.registry.is_some() || self.left == 0 {
            return;
        }
        self.left -= 1;
        let text = String::from_utf8_lossy(entry);
        self.registry = text.lines().find_map(registry);
    }
}

/// Finds the registry in one line of an entry: a sum, a tab, and what is known.
fn registry(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Known {
        key: String,
    }
    let known: Known = serde_json::from_str(line.split_once('\t')?.1).ok()?;
    let address = known.key.strip_prefix(KEY)?;
    let (package, _) = address.split_once("/-/")?;
    let (above, _) = package.rsplit_once('/')?;
    // A package with a scope has it as a folder.
    let registry = match above.rsplit_once('/') {
        Some((registry, scope)) if scope.starts_with('@') => registry,
        _ => above,
    };
    let is_address = registry.starts_with("https://") || registry.starts_with("http://");
    let is_clean = !registry.contains(|sign: char| sign.is_whitespace() || sign.is_control());
    (is_address && is_clean).then(|| format!("{registry}/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_found_in_an_entry() {
        let line = |address: &str| {
            format!("sum\t{{\"key\":\"{KEY}{address}\",\"integrity\":\"sha512-x\",\"time\":1}}")
        };
        for (address, found) in [
            (
                "https://npm.example/is-odd/-/is-odd-3.0.1.tgz",
                Some("https://npm.example/"),
            ),
            (
                "http://npm.example:4873/a/@types/node/-/node-1.0.0.tgz",
                Some("http://npm.example:4873/a/"),
            ),
            ("https://npm.example/is-odd", None),
            ("file:///is-odd/-/is-odd-3.0.1.tgz", None),
        ] {
            assert_eq!(registry(&line(address)).as_deref(), found, "{address}");
        }
        assert_eq!(registry("nonsense"), None);
    }

    #[test]
    fn a_cache_is_copied_but_for_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let (mirror, to) = (dir.path().join("mirror"), dir.path().join("to"));
        assert!(lay(&mirror, "/m", &to).is_err());
        fs::create_dir_all(mirror.join(INDEX).join("ab/cd")).unwrap();
        fs::write(mirror.join(INDEX).join("ab/cd/entry"), "\nx").unwrap();
        assert_eq!(lay(&mirror, "/m", &to).unwrap(), None);
        assert_eq!(
            fs::read(to.join(INDEX).join("ab/cd/entry")).unwrap(),
            b"\nx"
        );
        assert_eq!(
            fs::read_link(to.join(CONTENT)).unwrap(),
            Path::new("/m").join(CONTENT)
        );
    }
}
