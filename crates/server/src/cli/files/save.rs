//! Everything that agents of a session made, in a folder here and never outside of it.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use outlast_protocol::id::{FileId, SessionId};
use serde_json::Value;
use tokio::fs;

use super::{
    target::{Saved, Target},
    text,
};
use crate::{
    cli::{
        console::{Console, Tone},
        failure::{Exit, Failure},
    },
    client::Client,
};

/// Files of one session that are looked at.
const MOST: usize = 100_000;

/// Reads a name of the server as a path that stays below where it is put.
pub(crate) fn relative(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let whole = !name.is_empty() && !name.contains('\0') && !name.ends_with('/');
    (whole && path.components().all(plain)).then(|| path.to_owned())
}

/// Says what is in the way of a file: a folder on the way must be none but a folder, since a link
/// may lead out. An earlier file of the same download is no link, but what stands here may be one.
fn obstacle(dir: &Path, inside: &Path) -> Option<String> {
    let mut at = dir.to_owned();
    let parents = inside.parent().into_iter().flat_map(Path::components);
    parents.into_iter().find_map(|part| {
        at.push(part);
        let words = match at.symlink_metadata() {
            Ok(found) if found.is_dir() => return None,
            Ok(found) if found.is_symlink() => "is a link, which is not followed".to_owned(),
            Ok(_) => "is there and is no folder".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => error.to_string(),
        };
        Some(format!("`{}` {words}", at.display()))
    })
}

/// Refuses a folder that is something else, once and not for each file; it need not be there.
fn is_folder(dir: &Path) -> Result<(), Failure> {
    let words = match dir.metadata() {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "is there and is no folder".to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => error.to_string(),
    };
    let failure = Failure::say(Exit::Failed, format!("`{}` {words}", dir.display()));
    Err(failure.hint("--output names the folder that all files go into"))
}

/// Downloads everything that agents of a session made.
pub(crate) async fn save_all(
    session: SessionId,
    (dir, force): (&Path, bool),
    client: &Client,
    console: &mut Console,
) -> Result<Exit, Failure> {
    is_folder(dir)?;
    let scope = session.to_string();
    let query = [("limit", "1000"), ("scope_id", scope.as_str())];
    let files = client.list("/v1/files", &query, MOST).await?;
    let made = |file: &&Value| file.get("downloadable") == Some(&Value::Bool(true));
    let (mut saved, mut count, mut failed) = (Saved::default(), 0_usize, 0_usize);
    for file in files.iter().filter(made) {
        match one(file, (dir, force), client, &mut saved).await {
            Ok(path) => {
                console.line(&path.display().to_string())?;
                count += 1;
            }
            Err(failure) => {
                let (name, id) = (text(file, "/filename"), text(file, "/id"));
                let words = format!("skipped `{name}` ({id}): {}", failure.words());
                console.note(Tone::Wrong, &words)?;
                failed += 1;
            }
        }
    }
    if failed > 0 {
        let words = format!("{failed} of {} files were not saved", failed + count);
        let hint = "`outlast files download ID --output FILE` saves one under another name";
        return Err(Failure::say(Exit::Failed, words).hint(hint));
    }
    if count == 0 {
        console.note(Tone::Dim, "the session has no files to download")?;
    }
    Ok(Exit::Done)
}

async fn one(
    file: &Value,
    (dir, force): (&Path, bool),
    client: &Client,
    saved: &mut Saved,
) -> Result<PathBuf, Failure> {
    let refused = |words| Failure::say(Exit::Failed, words);
    let id = FileId::parse(text(file, "/id"));
    let id = id.ok_or_else(|| refused("its id is no id of a file".to_owned()))?;
    let inside = relative(text(file, "/filename"));
    let inside = inside.ok_or_else(|| refused("no path below a folder".to_owned()))?;
    if let Some(words) = obstacle(dir, &inside) {
        return Err(refused(words));
    }
    let path = dir.join(inside);
    let target = Target::new(id, path.clone(), force, saved)?;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).await?;
    }
    Ok(target.save(client, saved).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_their_folder() {
        for good in ["a", "a/b c", "-rf", "\u{1f980}\n", "%2E%2E/a", "..."] {
            assert_eq!(relative(good), Some(PathBuf::from(good)));
        }
        for bad in ["", "/etc/passwd", "..", "../a", "a/../../b", "a/", "."] {
            assert_eq!(relative(bad), None, "{bad}");
        }
    }

    #[test]
    fn files_go_into_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        is_folder(dir.path()).unwrap();
        is_folder(&dir.path().join("new")).unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (path, words) in [
            (file.clone(), "file` is there and is no folder"),
            (file.join("below"), "below` Not a directory"),
        ] {
            let told = is_folder(&path).unwrap_err().error.to_string();
            assert!(told.contains(words), "{told}");
        }
    }

    #[test]
    fn what_is_in_the_way_is_told() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("/tmp", dir.path().join("link")).unwrap();
        for (inside, words) in [
            ("a", None),
            ("real/a", None),
            ("new/sub/a", None),
            ("link/a", Some("link` is a link")),
            ("file/a", Some("file` is there and is no folder")),
            ("file/a/b", Some("file` is there and is no folder")),
        ] {
            let told = obstacle(dir.path(), Path::new(inside));
            assert_eq!(told.is_some(), words.is_some(), "{inside}");
            let told = told.unwrap_or_default();
            assert!(told.contains(words.unwrap_or_default()), "{told}");
        }
    }
}
