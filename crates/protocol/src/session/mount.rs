//! Files that are mounted in a session's hands.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{FileId, ResourceId};
use crate::read::{At, Object, Slot};
use crate::words::words;
use crate::{ErrorCode, Micros, Problem, limits};

use super::{AddRepository, RepositoryResource};

/// The folder that all of them lie below.
pub const UPLOADS: &str = "/mnt/session/uploads";

words! {
    /// The kinds of resource.
    enum Kind {
        File = "file",
        GithubRepository = "github_repository",
        MemoryStore = "memory_store",
    }
}

words! {
    /// The one kind of a [`FileResource`].
    pub enum FileKind {
        /// A file.
        File = "file",
    }
}

/// A mounted file as it is shown.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FileResource {
    /// Always `file`.
    #[serde(rename = "type")]
    pub kind: FileKind,
    /// Its id.
    pub id: ResourceId,
    /// When it was mounted.
    pub created_at: Micros,
    /// The session's own copy of the file.
    pub file_id: FileId,
    /// Where it stands in hands.
    pub mount_path: String,
    /// When it last changed.
    pub updated_at: Micros,
}

/// A path below [`UPLOADS`]: relative, and of plain components.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct MountPath(String);

/// A checked request to mount a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AddFile {
    /// The file to copy.
    pub file_id: FileId,
    /// Where it is to stand.
    pub path: MountPath,
}

/// What a session's creation brings along.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AddResources {
    /// The files.
    pub files: Vec<AddFile>,
    /// The repositories.
    pub repositories: Vec<AddRepository>,
}

/// Anything that a session has beside its agent, as it is shown.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Resource {
    /// A mounted file.
    File(FileResource),
    /// A git repository.
    Repository(RepositoryResource),
}

impl Resource {
    /// Returns its id.
    pub fn id(&self) -> ResourceId {
        match self {
            Self::File(file) => file.id,
            Self::Repository(repository) => repository.id,
        }
    }
}

/// Reads `resources` of a session's creation; absent, null and empty are none.
pub fn parse_resources(slot: Slot<'_>) -> Result<AddResources, Problem> {
    let mut all = AddResources::default();
    if let Some(list) = slot.optional() {
        for at in &list.items(0..=limits::RESOURCES)? {
            all.read(at)?;
        }
    }
    Ok(all)
}

impl AddResources {
    /// Refuses a second token for a repository: requests for both resources look alike.
    fn one_token(&self, at: &At<'_>, new: &AddRepository) -> Result<(), Problem> {
        let same = self.repositories.iter();
        let same = same.filter(|known| known.url.is_same(&new.url));
        let mut tokens = same.filter_map(|known| known.token.as_ref());
        if tokens.all(|token| Some(token) == new.token.as_ref()) {
            return Ok(());
        }
        Err(at.refuse(format!(
            "must be the one of the other resource with `{}`: a session has one token for a \
             repository, however often it is mounted",
            new.url.as_str()
        )))
    }

    /// Reads one more, which has to stand beside those before it.
    fn read(&mut self, at: &At<'_>) -> Result<(), Problem> {
        let mut object = at.object()?;
        match kind(&mut object)? {
            Kind::GithubRepository => {
                let new = AddRepository::read(&mut object)?;
                if let Some(token) = object.field("authorization_token").optional() {
                    self.one_token(&token, &new)?;
                }
                let mut known = self.repositories.iter();
                if let Some(other) = known.find(|other| other.path.meets(&new.path)) {
                    let (new, other) = (new.path.as_str(), other.path.as_str());
                    let words = format!("cannot stand at `{new}` beside the one at `{other}`");
                    return Err(at.refuse(words));
                }
                if self.repositories.len() >= limits::REPOSITORIES {
                    let most = limits::REPOSITORIES;
                    return Err(at.refuse(format!("a session has at most {most} repositories")));
                }
                self.repositories.push(new);
            }
            Kind::File | Kind::MemoryStore => {
                let new = AddFile::read(&mut object)?;
                if let Some(other) = self.files.iter().find(|other| other.path.meets(&new.path)) {
                    return Err(at.refuse(meeting(&new.path, &other.path)));
                }
                self.files.push(new);
            }
        }
        object.finish()
    }
}

/// Reads the type of a resource that this server has.
fn kind(object: &mut Object<'_>) -> Result<Kind, Problem> {
    let kind = object.field("type").required()?;
    match kind.word(Kind::TABLE)? {
        Kind::MemoryStore => Err(kind.problem(
            ErrorCode::NotSupported,
            "not_supported: this server mounts no resource of this type yet; it has `file` and \
             `github_repository`",
        )),
        known @ (Kind::File | Kind::GithubRepository) => Ok(known),
    }
}

/// Tells whether two paths are one, or the one is below the other.
pub(super) fn meet(one: &str, other: &str) -> bool {
    let below = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    below(one, other) || below(other, one)
}

/// Says that two files cannot both be mounted.
pub(crate) fn meeting(new: &MountPath, other: &MountPath) -> String {
    format!(
        "cannot be mounted at `{}` beside the file at `{}`",
        new.absolute(),
        other.absolute()
    )
}

impl AddFile {
    /// Reads the body of `POST /v1/sessions/{id}/resources`.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let at = At::confidential(body);
        let mut object = at.object()?;
        if kind(&mut object)? == Kind::GithubRepository {
            return Err(Problem::invalid(
                "type: a repository is named when the session is created, and not later; `file` can \
                 be added",
            ));
        }
        let add = Self::read(&mut object)?;
        object.finish()?;
        Ok(add)
    }

    fn read(object: &mut Object<'_>) -> Result<Self, Problem> {
        let file_id = object.field("file_id").required()?;
        let file_id: FileId = file_id.id(ErrorCode::NotFound, "file")?;
        let path = match mount_path(object)? {
            Some(path) => path,
            None => MountPath(file_id.to_string()),
        };
        Ok(Self { file_id, path })
    }
}

fn mount_path(object: &mut Object<'_>) -> Result<Option<MountPath>, Problem> {
    object
        .field("mount_path")
        .read(|at| MountPath::parse(at.filled()?).map_err(|what| at.refuse(what)))
}

impl MountPath {
    /// Reads a path as a client writes it: absolute, with or without the folder of uploads before it.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        const COMPONENT: usize = 255;
        let Some(rooted) = text.strip_prefix('/') else {
            return Err("must be absolute, as in `/data.csv`".to_owned());
        };
        if text.ends_with('/') {
            return Err("must name a file and not a folder".to_owned());
        }
        let parts = rooted.split('/').filter(|part| !matches!(*part, "" | "."));
        let mut parts: Vec<&str> = parts.collect();
        if parts.contains(&"..") {
            return Err("must not contain `..`".to_owned());
        }
        if let [first, second, third, _, ..] = parts.as_slice()
            && UPLOADS == format!("/{first}/{second}/{third}")
        {
            parts.drain(..3);
        }
        let long = parts.iter().any(|part| part.len() > COMPONENT);
        let path = parts.join("/");
        if long || path.len() > limits::MOUNT_PATH {
            return Err(format!(
                "must have at most {} bytes, and {COMPONENT} between two slashes",
                limits::MOUNT_PATH
            ));
        }
        if path.is_empty() {
            return Err("must name a file".to_owned());
        }
        Ok(Self(path))
    }

    /// Returns the path relative to the folder of uploads.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns where it stands in hands.
    pub fn absolute(&self) -> String {
        format!("{UPLOADS}/{}", self.0)
    }

    /// Tells whether two files cannot stand side by side: at one path, or the one below the other.
    pub fn meets(&self, other: &Self) -> bool {
        meet(&self.0, &other.0)
    }

    /// Says that this one cannot be mounted beside another.
    pub fn refusal(&self, other: &Self) -> String {
        meeting(self, other)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> MountPath {
        MountPath::parse(text).unwrap()
    }

    #[test]
    fn paths_are_rooted_and_normalised() {
        for (sent, kept) in [
            ("/data.csv", "/mnt/session/uploads/data.csv"),
            ("//a//./b", "/mnt/session/uploads/a/b"),
            ("/mnt/session/uploads/a", "/mnt/session/uploads/a"),
            (
                "/mnt/session/uploads",
                "/mnt/session/uploads/mnt/session/uploads",
            ),
            ("/workspace/a", "/mnt/session/uploads/workspace/a"),
            (
                "/\u{1f980} '\n$(x)",
                "/mnt/session/uploads/\u{1f980} '\n$(x)",
            ),
        ] {
            assert_eq!(path(sent).absolute(), kept);
        }
        let (long, deep) = (format!("/{}", "x".repeat(256)), "/x".repeat(600));
        for bad in [
            "", "a", "./a", "/", "/.", "/../a", "/a/..", "/a/", &long, &deep,
        ] {
            assert!(MountPath::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn files_meet_at_one_path_and_below_each_other() {
        for (one, other, meet) in [
            ("/a", "/a", true),
            ("/a", "/a/b", true),
            ("/a/b", "/a", true),
            ("/a", "/ab", false),
            ("/a/b", "/a/c", false),
        ] {
            assert_eq!(path(one).meets(&path(other)), meet, "{one} {other}");
        }
    }

    #[test]
    fn a_request_names_a_file_and_maybe_a_path() {
        let id = "file_010000000000000000000001";
        let add = AddFile::parse(&json!({"type": "file", "file_id": id})).unwrap();
        assert_eq!(add.path.absolute(), format!("{UPLOADS}/{id}"));
        for (body, word) in [
            (json!({"file_id": id}), "type: is required"),
            (json!({"type": "file"}), "file_id: is required"),
            (json!({"type": "file", "file_id": "x"}), "file_id"),
            (
                json!({"type": "file", "file_id": id, "mount_path": "x"}),
                "mount_path: must be absolute",
            ),
            (
                json!({"type": "memory_store", "memory_store_id": "m"}),
                "not_supported",
            ),
            (
                json!({"type": "file", "file_id": id, "x": 1}),
                "x: unknown field",
            ),
        ] {
            let told = AddFile::parse(&body).unwrap_err().message;
            assert!(told.contains(word), "{told}");
        }
    }
}
