//! Files that a person gives to a run: uploaded, mounted in its session, and told to the model.
//!
//! A session has copies of its own, which stay with it, so what was uploaded goes as soon as the run
//! has begun. The server removes it within the hour where this process was killed before.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use outlast_protocol::id::SessionId;
use serde_json::{Value, json};

use crate::{
    cli::{
        console::{Console, Tone},
        failure::{Exit, Failure},
        render::text,
    },
    client::{Client, Error},
};

/// Seconds after which the server removes an upload by itself: the fewest it takes.
const EXPIRY: u64 = 3_600;

/// Where files stand in a sandbox.
const FOLDER: &str = "/mnt/session/uploads";

/// Mounts of one session that are looked through.
const MOUNTS: usize = 1_000;

/// What was given so far.
#[derive(Debug, Default)]
pub(super) struct Given {
    files: Vec<File>,
    /// Paths of the API: what was mounted in a session that was there before.
    mounted: Vec<String>,
}

#[derive(Debug)]
struct File {
    id: String,
    path: String,
    bytes: u64,
}

impl Given {
    /// Uploads files; each is told to the model by its name.
    pub(super) async fn upload(
        &mut self,
        paths: &[PathBuf],
        client: &Client,
        console: &mut Console,
    ) -> Result<(), Failure> {
        are_apart(paths)?;
        for path in paths {
            console.wait(&format!("uploading {}", path.display()));
            let file = client.upload(path, Some(EXPIRY)).await;
            console.quiet();
            let file = file?;
            let given = File {
                id: text(&file, "/id").to_owned(),
                path: format!("{FOLDER}/{}", text(&file, "/filename")),
                bytes: file.get("size_bytes").and_then(Value::as_u64).unwrap_or(0),
            };
            console.note(Tone::Dim, &format!("file     {}", given.path))?;
            self.files.push(given);
        }
        Ok(())
    }

    /// Returns what a new session mounts.
    pub(super) fn resources(&self) -> Value {
        self.files.iter().map(File::resource).collect()
    }

    /// Mounts in a session that is there; what stood at the same path goes.
    pub(super) async fn mount(&mut self, client: &Client, session: SessionId) -> Result<(), Error> {
        let path = format!("/v1/sessions/{session}/resources");
        let there = match self.files.as_slice() {
            [] => return Ok(()),
            _ => client.list(&path, &[], MOUNTS).await?,
        };
        let one = |resource: &Value| format!("{path}/{}", text(resource, "/id"));
        for file in &self.files {
            let stands = |other: &&Value| text(other, "/mount_path") == file.path;
            if let Some(old) = there.iter().find(stands) {
                client.delete(&one(old)).await?;
            }
            let new = client.post(&path, &file.resource()).await?;
            self.mounted.push(one(&new));
        }
        Ok(())
    }

    /// Returns what the model is told, if there is something.
    pub(super) fn words(&self) -> Option<String> {
        let line = |file: &File| format!("\n{} ({} bytes)", file.path, file.bytes);
        let lines: String = self.files.iter().map(line).collect();
        (!lines.is_empty()).then(|| format!("Files for this task, read-only:{lines}"))
    }

    /// Removes what was uploaded, and what was mounted for a run that did not begin.
    pub(super) async fn clear(
        &self,
        has_begun: bool,
        client: &Client,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let mounted = self.mounted.iter().filter(|_| !has_begun).cloned();
        let uploads = self
            .files
            .iter()
            .map(|file| format!("/v1/files/{}", file.id));
        for path in mounted.chain(uploads) {
            if let Err(error) = client.delete(&path).await {
                console.note(Tone::Wrong, &format!("`{path}` stays for now: {error}"))?;
            }
        }
        Ok(())
    }
}

impl File {
    fn resource(&self) -> Value {
        json!({"type": "file", "file_id": self.id, "mount_path": self.path})
    }
}

/// Refuses files that would stand at one path.
fn are_apart(paths: &[PathBuf]) -> Result<(), Failure> {
    let mut names = HashSet::new();
    let name = |path: &PathBuf| Path::file_name(path).unwrap_or_default().to_owned();
    match paths
        .iter()
        .map(name)
        .find(|name| !names.insert(name.clone()))
    {
        None => Ok(()),
        Some(name) => {
            let words = format!("two files are called `{}`", name.display());
            Err(Failure::say(Exit::Usage, words).hint("copy one of them to another name"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_of_one_name_are_refused_before_anything_is_sent() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        are_apart(&paths(&["a/x", "a/y", "-"])).unwrap();
        let refused = are_apart(&paths(&["a/x", "b/x"])).unwrap_err();
        assert_eq!(refused.error.to_string(), "two files are called `x`");
    }

    #[test]
    fn the_model_is_told_where_they_stand() {
        let mut given = Given::default();
        assert_eq!(given.words(), None);
        given.files.push(File {
            id: "file_1".to_owned(),
            path: format!("{FOLDER}/a b.csv"),
            bytes: 7,
        });
        let words = "Files for this task, read-only:\n/mnt/session/uploads/a b.csv (7 bytes)";
        assert_eq!(given.words().as_deref(), Some(words));
    }
}
