//! Debian's mirror is a repository in files; apt is told of it in its own configuration, and of places
//! to write to that nobody needs afterwards. Without a mirror it has the sources of the image.

use std::{fs, io, path::Path};

/// What apt keeps while it works, and its configuration.
pub(super) const FOLDER: &str = "apt";

/// The configuration. `root` writes as itself: there is nobody else who could.
const CONFIGURATION: &str = r#"
Dir::State::Lists "/.packages/apt/lists";
Dir::Cache "/.packages/apt/cache";
Dir::Log "/.packages/apt/log";
APT::Sandbox::User "root";
APT::Get::Assume-Yes "true";
APT::Install-Recommends "false";
DPkg::Use-Pty "false";
DPkg::Options { "--force-confdef"; "--force-confold"; };
"#;

/// What has it see the mirror alone.
const MIRROR: &str = r#"
Dir::Etc::SourceList "/.packages/apt/sources.list";
Dir::Etc::SourceParts "/.packages/apt/none";
"#;

/// Writes the configuration into apt's folder below `top`, for a repository that is `shown` there, or
/// for none.
///
/// # Errors
///
/// If the mirror is no repository.
pub(super) fn lay(mirror: Option<&Path>, shown: &str, top: &Path) -> io::Result<()> {
    let sources = mirror.map(|mirror| sources(mirror, shown)).transpose()?;
    let home = top.join(FOLDER);
    for name in ["none", "lists/partial", "cache/archives/partial", "log"] {
        fs::create_dir_all(home.join(name))?;
    }
    let mut configuration = CONFIGURATION.to_owned();
    if let Some(sources) = sources {
        fs::write(home.join("sources.list"), sources)?;
        configuration.push_str(MIRROR);
    }
    fs::write(home.join("apt.conf"), configuration)
}

/// Lists a repository: one that is flat, or every release that is in it with all its parts.
fn sources(mirror: &Path, shown: &str) -> io::Result<String> {
    let line = |rest: &str| format!("deb [trusted=yes] file:{shown} {rest}\n");
    if has_index(mirror) {
        return Ok(line("./"));
    }
    let mut text = String::new();
    for release in names(&mirror.join("dists"))? {
        let folder = mirror.join("dists").join(&release);
        let parts = names(&folder)?
            .into_iter()
            .filter(|name| has_index_below(&folder.join(name)));
        let parts: Vec<_> = parts.collect();
        if !parts.is_empty() {
            text.push_str(&line(&format!("{release} {}", parts.join(" "))));
        }
    }
    if text.is_empty() {
        let words = "the mirror of apt packages is no repository: it has neither a file `Packages`, as \
                     `dpkg-scanpackages` writes it, nor a folder `dists`";
        return Err(io::Error::new(io::ErrorKind::NotFound, words));
    }
    Ok(text)
}

/// Tells whether a part of a release has packages of some architecture.
fn has_index_below(part: &Path) -> bool {
    let names = names(part).unwrap_or_default();
    let mut builds = names.iter().filter(|name| name.starts_with("binary-"));
    builds.any(|name| has_index(&part.join(name)))
}

fn has_index(folder: &Path) -> bool {
    let ends = ["", ".gz", ".xz"].iter();
    ends.map(|end| folder.join(format!("Packages{end}")))
        .any(|file| file.is_file())
}

/// Returns the names in a folder, in order; none if it is not there. Names that a line of sources
/// could not hold are left out.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        found.extend(entry?.file_name().into_string().ok());
    }
    let plain = |name: &String| {
        let plain = |sign: char| sign.is_ascii_alphanumeric() || "._-+~".contains(sign);
        name.chars().all(plain)
    };
    found.retain(plain);
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_flat_or_has_releases() {
        let dir = tempfile::tempdir().unwrap();
        let mirror = dir.path();
        let refused = sources(mirror, "/m").unwrap_err().to_string();
        assert!(refused.contains("is no repository"), "{refused}");
        for folder in [
            "dists/stable/main/binary-amd64",
            "dists/stable/extra/binary-all",
            "dists/stable/empty",
            "dists/odd name/main/binary-all",
        ] {
            fs::create_dir_all(mirror.join(folder)).unwrap();
            if folder != "dists/stable/empty" {
                fs::write(mirror.join(folder).join("Packages.gz"), "").unwrap();
            }
        }
        let line = "deb [trusted=yes] file:/m stable extra main\n";
        assert_eq!(sources(mirror, "/m").unwrap(), line);
        fs::write(mirror.join("Packages"), "").unwrap();
        assert_eq!(
            sources(mirror, "/m").unwrap(),
            "deb [trusted=yes] file:/m ./\n"
        );
        lay(Some(mirror), "/m", &mirror.join("top")).unwrap();
        assert!(mirror.join("top/apt/lists/partial").is_dir());
        lay(None, "/m", &mirror.join("other")).unwrap();
        let alone = fs::read_to_string(mirror.join("other/apt/apt.conf")).unwrap();
        assert!(!alone.contains("SourceList"), "{alone}");
    }
}
