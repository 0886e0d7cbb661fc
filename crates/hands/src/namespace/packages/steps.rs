//! How each manager is asked, and what it finds where packages are installed.
//!
//! All of it lies below one folder at the top of the tree, which ordinary hands do not have: the
//! mirrors, read-only, and what managers want to write and nobody needs afterwards. What is installed
//! goes where the commands' user finds it without any setting: below its home.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, lchown},
    path::Path,
};

use outlast_init::{
    frame::User,
    install::{Job, Step},
};
use outlast_protocol::environment::Manager;
use outlast_sandbox::{Ids, Mode, Shown};

use super::{apt, cargo, npm};
use crate::{Limits, Outlet, packages::Wanted};

/// The folder, in the layer while it is made, and inside.
const TOP: &str = ".packages";

/// The home of the commands' user, and where its programs go.
const HOME: &str = "/home/agent";
const PREFIX: &str = "/home/agent/.local";
const PROGRAMS: &str = "/home/agent/.local/bin";

/// Where programs are looked for.
const PATH: &str =
    "/home/agent/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What one installation is made of.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) job: Job,
    pub(super) shown: Vec<Shown>,
}

/// Returns where a mirror is shown.
fn mirror(manager: Manager) -> String {
    format!("/{TOP}/mirror/{}", manager.as_str())
}

/// Lays out what managers need in a layer that is to be made, and says what they are to do.
///
/// # Errors
///
/// The manager whose mirror is of no use, and why.
pub(super) fn plan(
    layer: &Path,
    ids: &Ids,
    limits: Limits,
    counted: bool,
    wanted: &Wanted,
) -> Result<Plan, (Manager, io::Error)> {
    let top = layer.join(TOP);
    let mut plan = Plan {
        job: Job {
            pids: limits.pids,
            data: (!counted).then_some(limits.memory_bytes),
            outlet: false,
            environment: pairs(&[
                ("PATH", PATH),
                ("LANG", "C.UTF-8"),
                ("TERM", "dumb"),
                ("TMPDIR", "/.packages/tmp"),
            ]),
            steps: Vec::new(),
        },
        shown: Vec::new(),
    };
    for manager in wanted.packages.managers() {
        let mut one = || -> io::Result<Step> {
            // A link is what operators change over to the next state of a mirror.
            let folder = wanted.mirrors.of(manager).map(Path::canonicalize);
            let folder = folder.transpose()?;
            fs::create_dir_all(layer.join(mirror(manager).trim_start_matches('/')))?;
            fs::create_dir_all(top.join("tmp"))?;
            let items = wanted.packages.of(manager);
            let step = step(manager, &top, folder.as_deref(), ids, items)?;
            match folder {
                Some(from) => {
                    let to = mirror(manager);
                    plan.shown.push(Shown { from, to });
                }
                None => plan.job.outlet = true,
            }
            Ok(step)
        };
        plan.job
            .steps
            .push(one().map_err(|error| (manager, error))?);
    }
    if plan.job.outlet {
        plan.job.environment.extend(Outlet::default().environment());
    }
    Ok(plan)
}

/// Gives what was laid out to whoever runs each manager, so that it can write there.
///
/// # Errors
///
/// If the disk says so.
pub(super) fn give(layer: &Path, ids: &Ids) -> io::Result<()> {
    let top = layer.join(TOP);
    let owners = |(uid, gid): (u32, u32)| ids.owners(uid, gid);
    own(&top, owners(ids.inside()))?;
    let of_init = top.join(apt::FOLDER);
    if of_init.exists() {
        own(&of_init, owners(ids.init_inside()))?;
    }
    fs::set_permissions(top.join("tmp"), fs::Permissions::from_mode(0o1777))
}

fn own(path: &Path, owners: Option<(u32, u32)>) -> io::Result<()> {
    if let Some((uid, gid)) = owners {
        lchown(path, Some(uid), Some(gid))?;
    }
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            own(&entry?.path(), owners)?;
        }
    }
    Ok(())
}

/// Removes it from a layer in which nothing runs any more; a link in its place is not followed.
///
/// # Errors
///
/// If the disk says so.
pub(super) fn clear(layer: &Path) -> io::Result<()> {
    let top = layer.join(TOP);
    match fs::symlink_metadata(&top) {
        Ok(kind) if kind.is_dir() => outlast_sandbox::remove_tree(&top),
        Ok(_) => fs::remove_file(top),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

/// Says what a manager is to do with its mirror, or without one where it looks by itself.
fn step(
    manager: Manager,
    top: &Path,
    folder: Option<&Path>,
    ids: &Ids,
    items: &[String],
) -> io::Result<Step> {
    let shown = mirror(manager);
    let mut environment = pairs(&[("HOME", HOME), ("USER", "agent"), ("LOGNAME", "agent")]);
    let mut dir = "/".to_owned();
    let mut probe = texts(&["--version"]);
    let mut programs = vec![texts(&[manager.as_str()])];
    let (uid, gid) = ids.inside();
    let runs = match manager {
        // Refused before: this version has no mirror of theirs.
        Manager::Apt => {
            apt::lay(folder, &shown, top)?;
            programs = vec![texts(&["apt-get"])];
            environment = pairs(&[
                ("HOME", "/root"),
                ("APT_CONFIG", "/.packages/apt/apt.conf"),
                ("DEBIAN_FRONTEND", "noninteractive"),
            ]);
            let mut run = texts(&["install", "--"]);
            run.extend_from_slice(items);
            vec![texts(&["update"]), run]
        }
        Manager::Cargo => {
            if let Some(folder) = folder {
                cargo::lay(folder, &shown, top)?;
            }
            environment.extend(pairs(&[
                ("CARGO_HOME", "/.packages/cargo"),
                ("CARGO_TARGET_DIR", "/.packages/tmp/cargo"),
            ]));
            let mut run = texts(&["install", "--color=never", "--root", PREFIX, "--"]);
            run.extend_from_slice(items);
            vec![run]
        }
        Manager::Gem => {
            // It has no `--`: what stands behind it goes to builds.
            let mut run = texts(&["install", "--no-document", "--user-install"]);
            if folder.is_some() {
                // It looks for gems where it runs.
                dir = shown;
                run.push("--local".to_owned());
            }
            run.extend(texts(&["--bindir", PROGRAMS]));
            run.extend_from_slice(items);
            vec![run]
        }
        Manager::Go => {
            probe = texts(&["version"]);
            if folder.is_some() {
                let proxy = format!("file://{shown}");
                environment.extend(pairs(&[("GOPROXY", &proxy), ("GOSUMDB", "off")]));
            }
            environment.extend(pairs(&[
                ("GOTOOLCHAIN", "local"),
                ("GOFLAGS", "-modcacherw"),
                ("GOPATH", "/.packages/tmp/go"),
                ("GOCACHE", "/.packages/tmp/go-build"),
                ("GOBIN", PROGRAMS),
            ]));
            items.iter().map(|item| go(item)).collect()
        }
        Manager::Npm => vec![npm(top, folder, &shown, items)?],
        Manager::Pip => {
            programs = vec![
                texts(&["python3", "-m", "pip"]),
                texts(&["pip3"]),
                texts(&["pip"]),
            ];
            environment.extend(pairs(&[("PIP_BREAK_SYSTEM_PACKAGES", "1")]));
            vec![pip(folder, &shown, items)]
        }
    };
    Ok(Step {
        manager: manager.as_str().to_owned(),
        programs,
        probe,
        runs,
        user: match (manager, ids.mode) {
            // It writes where PID 1's user alone does.
            (Manager::Apt, _) | (_, Mode::Rootless) => None,
            (_, Mode::Privileged) => Some(User { uid, gid }),
        },
        dir,
        environment,
    })
}

/// Go's: outside a module a version must be named.
fn go(item: &str) -> Vec<String> {
    let item = match item.contains('@') {
        true => item.to_owned(),
        false => format!("{item}@latest"),
    };
    let mut run = texts(&["install", "--"]);
    run.push(item);
    run
}

/// Node's: a cache that npm filled.
fn npm(
    top: &Path,
    folder: Option<&Path>,
    shown: &str,
    items: &[String],
) -> io::Result<Vec<String>> {
    let mut run = texts(&["install", "--global", "--prefix", PREFIX]);
    let registry = match folder {
        Some(folder) => {
            run.push("--offline".to_owned());
            npm::lay(folder, shown, &top.join("npm"))?
        }
        None => None,
    };
    run.extend(texts(&["--cache", "/.packages/npm", "--logs-max=0"]));
    run.extend(texts(&["--no-audit", "--no-fund", "--no-update-notifier"]));
    if let Some(registry) = registry {
        run.push(format!("--registry={registry}"));
    }
    run.push("--".to_owned());
    run.extend_from_slice(items);
    Ok(run)
}

/// Python's: a folder of files, and an index beside them if there is one.
fn pip(folder: Option<&Path>, shown: &str, items: &[String]) -> Vec<String> {
    let mut run = texts(&["install", "--user", "--no-input", "--no-cache-dir"]);
    run.extend(texts(&[
        "--disable-pip-version-check",
        "--no-warn-script-location",
    ]));
    if let Some(folder) = folder {
        match folder.join("simple").is_dir() {
            true => run.push(format!("--index-url=file://{shown}/simple")),
            false => run.push("--no-index".to_owned()),
        }
        run.push(format!("--find-links={shown}"));
    }
    run.push("--".to_owned());
    run.extend_from_slice(items);
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_stand_behind_what_ends_the_options() {
        let dir = tempfile::tempdir().unwrap();
        let items = texts(&["six==1.17.0"]);
        let run = pip(None, "/m", &items);
        assert!(!run.iter().any(|word| word.contains("/m")), "{run:?}");
        assert_eq!(run.last_chunk::<2>().unwrap(), &["--", "six==1.17.0"]);
        let run = pip(Some(dir.path()), "/m", &items);
        assert!(run.contains(&"--no-index".to_owned()), "{run:?}");
        assert_eq!(run.last_chunk::<2>().unwrap(), &["--", "six==1.17.0"]);
        fs::create_dir(dir.path().join("simple")).unwrap();
        let run = pip(Some(dir.path()), "/m", &items);
        assert!(
            run.contains(&"--index-url=file:///m/simple".to_owned()),
            "{run:?}"
        );
        assert_eq!(go("a.b/c").last().unwrap(), "a.b/c@latest");
        assert_eq!(go("a.b/c@v1.0.0").last().unwrap(), "a.b/c@v1.0.0");
    }

    #[test]
    fn a_link_where_the_folder_was_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (layer, other) = (dir.path().join("layer"), dir.path().join("other"));
        fs::create_dir_all(&layer).unwrap();
        fs::create_dir_all(other.join("kept")).unwrap();
        clear(&layer).unwrap();
        std::os::unix::fs::symlink(&other, layer.join(TOP)).unwrap();
        clear(&layer).unwrap();
        assert!(other.join("kept").is_dir() && !layer.join(TOP).exists());
    }
}
