//! Rust's mirror is a folder of unpacked crates, as `cargo vendor` makes, or a registry in files;
//! cargo is told of it in its own configuration, so that the public registry is replaced for what a
//! crate needs too.

use std::{fs, io, path::Path};

/// What cargo keeps while it works, and its configuration.
const HOME: &str = "cargo";

/// Writes the configuration into cargo's folder below `top`, for a mirror that is `shown` there.
///
/// # Errors
///
/// If the mirror is neither of the two.
pub(super) fn lay(mirror: &Path, shown: &str, top: &Path) -> io::Result<()> {
    let kind = kind(mirror)?;
    let home = top.join(HOME);
    fs::create_dir_all(&home)?;
    let text = format!(
        "[source.crates-io]\nreplace-with = \"mirror\"\n\n[source.mirror]\n{kind} = \"{shown}\"\n\n\
         [net]\noffline = true\n"
    );
    fs::write(home.join("config.toml"), text)
}

/// Tells how cargo calls such a folder.
fn kind(mirror: &Path) -> io::Result<&'static str> {
    if mirror.join("index").is_dir() {
        return Ok("local-registry");
    }
    for entry in fs::read_dir(mirror)? {
        if entry?.path().join(".cargo-checksum.json").is_file() {
            return Ok("directory");
        }
    }
    let words = "the mirror of cargo packages has neither a crate with a `.cargo-checksum.json`, as \
                 `cargo vendor` makes them, nor a folder `index`";
    Err(io::Error::new(io::ErrorKind::NotFound, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_is_one_of_two_kinds() {
        let dir = tempfile::tempdir().unwrap();
        let (mirror, top) = (dir.path().join("mirror"), dir.path().join("top"));
        fs::create_dir_all(mirror.join("crate-1.0.0")).unwrap();
        let refused = lay(&mirror, "/m", &top).unwrap_err().to_string();
        assert!(refused.contains("`cargo vendor`"), "{refused}");
        fs::write(mirror.join("crate-1.0.0/.cargo-checksum.json"), "{}").unwrap();
        lay(&mirror, "/m", &top).unwrap();
        let written = || fs::read_to_string(top.join(HOME).join("config.toml")).unwrap();
        assert!(written().contains("directory = \"/m\"\n"), "{}", written());
        fs::create_dir(mirror.join("index")).unwrap();
        lay(&mirror, "/m", &top).unwrap();
        assert!(written().contains("local-registry = \"/m\"\n"));
    }
}
