//! Git repositories that stand in a session's workspace.

use serde::{Deserialize, Serialize};

use crate::id::ResourceId;
use crate::read::{At, Object};
use crate::words::words;
use crate::{Micros, Problem, Secret, host, limits};

use super::mount::meet;

/// The folder that all of them lie below.
pub const WORKSPACE: &str = "/workspace";

words! {
    /// The one kind of a [`RepositoryResource`].
    pub enum RepositoryKind {
        /// A git repository, of whatever host.
        GithubRepository = "github_repository",
    }
}

/// A repository as it is shown: never with its token.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RepositoryResource {
    /// Always `github_repository`.
    #[serde(rename = "type")]
    pub kind: RepositoryKind,
    /// Its id.
    pub id: ResourceId,
    /// What is checked out; null for the default branch.
    pub checkout: Option<Checkout>,
    /// When it was named.
    pub created_at: Micros,
    /// Where it stands in hands.
    pub mount_path: String,
    /// When its token was last changed.
    pub updated_at: Micros,
    /// Where it is cloned from, as it was sent.
    pub url: String,
}

/// What is checked out of a repository.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Checkout {
    /// The tip of a branch.
    Branch {
        /// Its name.
        name: String,
    },
    /// One commit.
    Commit {
        /// Its whole id: 40 hexadecimal digits, or 64 where the repository has such ids.
        sha: String,
    },
}

/// Where a repository is cloned from: `https`, a host, maybe a port, and a path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct RepositoryUrl(String);

/// Where a repository stands: an absolute path below [`WORKSPACE`], of plain components.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct RepositoryPath(String);

/// A checked request to clone a repository.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AddRepository {
    /// Where from.
    pub url: RepositoryUrl,
    /// What opens it; without one it is asked for openly.
    pub token: Option<Secret>,
    /// What is checked out; absent for the default branch.
    pub checkout: Option<Checkout>,
    /// Where it is to stand.
    pub path: RepositoryPath,
}

words! {
    /// The kinds of checkout.
    enum CheckoutKind {
        Branch = "branch",
        Commit = "commit",
    }
}

impl AddRepository {
    /// Reads the fields of a resource whose type was read.
    pub(super) fn read(object: &mut Object<'_>) -> Result<Self, Problem> {
        let url = RepositoryUrl::read(&object.field("url").required()?)?;
        let token = object.field("authorization_token").read(token)?;
        let checkout = object.field("checkout").read(Checkout::read)?;
        let given = object.field("mount_path");
        let given = given.read(RepositoryPath::read)?;
        let path = match given {
            Some(path) => path,
            None => url.usual_path(),
        };
        Ok(Self {
            url,
            token,
            checkout,
            path,
        })
    }
}

/// Reads the body of `POST /v1/sessions/{id}/resources/{id}`: another token.
pub fn parse_rotation(body: &serde_json::Value) -> Result<Secret, Problem> {
    let mut object = At::confidential(body).object()?;
    let token = token(&object.field("authorization_token").required()?)?;
    object.finish()?;
    Ok(token)
}

/// Reads a token, which never is in the words of a refusal.
fn token(at: &At<'_>) -> Result<Secret, Problem> {
    let Some(text) = at.raw().as_str() else {
        return Err(at.refuse("must be a string"));
    };
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || text.len() > limits::TOKEN || !plain {
        return Err(at.refuse(format!(
            "must have 1 to {} visible ASCII characters",
            limits::TOKEN
        )));
    }
    Ok(Secret::new(text.to_owned()))
}

impl Checkout {
    fn read(at: &At<'_>) -> Result<Self, Problem> {
        let mut object = at.object()?;
        let checkout = match object.field("type").required()?.word(CheckoutKind::TABLE)? {
            CheckoutKind::Branch => {
                let name = object.field("name").required()?;
                Self::Branch {
                    name: branch(&name)?,
                }
            }
            CheckoutKind::Commit => {
                let sha = object.field("sha").required()?;
                Self::Commit { sha: commit(&sha)? }
            }
        };
        object.finish()?;
        Ok(checkout)
    }
}

/// Reads the name of a branch by the rules of `git check-ref-format --branch`.
fn branch(at: &At<'_>) -> Result<String, Problem> {
    let name = at.text(1..=limits::BRANCH)?;
    let bad_sign = |sign: char| sign.is_control() || " ~^:?*[\\".contains(sign);
    let bad_part = |part: &str| {
        part.is_empty() || part.starts_with('.') || part.ends_with('.') || part.ends_with(".lock")
    };
    let bad = name.starts_with('-')
        || name == "@"
        || name == "HEAD"
        || name.contains("..")
        || name.contains("@{")
        || name.contains(bad_sign)
        || name.split('/').any(bad_part);
    if bad {
        return Err(at.refuse("is no name that git takes for a branch"));
    }
    Ok(name.to_owned())
}

fn commit(at: &At<'_>) -> Result<String, Problem> {
    let sha = at.text(1..=64)?;
    if !matches!(sha.len(), 40 | 64) || !sha.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(at.refuse("must be the whole id of a commit: 40 or 64 hexadecimal digits"));
    }
    Ok(sha.to_owned())
}

impl RepositoryUrl {
    fn read(at: &At<'_>) -> Result<Self, Problem> {
        let text = at.text(1..=limits::REPOSITORY_URL)?;
        match wrong(text) {
            Some(why) => Err(at.refuse(why)),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// Reads one that was checked before.
    pub fn parse(text: &str) -> Option<Self> {
        wrong(text).is_none().then(|| Self(text.to_owned()))
    }

    /// Returns it as it was sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns host and port.
    pub fn host(&self) -> (&str, u16) {
        split(&self.0).map_or(("", 443), |(host, port, _)| (host, port.unwrap_or(443)))
    }

    /// Returns its path, without a slash or `.git` at the end: what git asks for begins with it.
    pub fn base(&self) -> &str {
        let path = split(&self.0).map_or("", |(_, _, path)| path);
        let path = path.trim_end_matches('/');
        path.strip_suffix(".git").unwrap_or(path)
    }

    /// Tells whether requests to both cannot be told apart, so that one token has to open both.
    pub fn is_same(&self, other: &Self) -> bool {
        let ((host, port), (other_host, other_port)) = (self.host(), other.host());
        host.eq_ignore_ascii_case(other_host) && port == other_port && self.base() == other.base()
    }

    /// Returns where it stands if nothing else is said: below the workspace, by its own name.
    fn usual_path(&self) -> RepositoryPath {
        let name = self.base().rsplit('/').next().unwrap_or("repository");
        RepositoryPath(format!("{WORKSPACE}/{name}"))
    }
}

/// Splits an address into host, port and path.
fn split(text: &str) -> Option<(&str, Option<u16>, &str)> {
    let rest = text.strip_prefix("https://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.split_once(':') {
        None => Some((authority, None, path)),
        // Rust reads a leading plus sign, URLs have none.
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            let port = port.parse().ok().filter(|port| *port > 0)?;
            Some((host, Some(port), path))
        }
        Some(_) => None,
    }
}

/// Says what is wrong with an address.
fn wrong(text: &str) -> Option<&'static str> {
    const FORM: &str = "must look like `https://github.com/owner/repository`";
    if !text.starts_with("https://") {
        return Some("must begin with `https://`; other ways to git are not taken");
    }
    let Some((name, _, path)) = split(text) else {
        return Some(FORM);
    };
    if name.contains('@') {
        return Some("must hold no user and no password; send `authorization_token`");
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/+".contains(&byte);
    if !host::is_name(name) && name.parse::<std::net::Ipv4Addr>().is_err() {
        return Some(FORM);
    }
    if !path.bytes().all(plain) {
        return Some(
            "must have a path of letters, digits and `-._~+/` alone, and nothing behind it",
        );
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut parts = path.split('/').skip(1).peekable();
    let named = parts.peek().is_some();
    // A repository is named without its `.git`, and stands in a folder of that name.
    let bad = |part: &str| matches!(part.strip_suffix(".git").unwrap_or(part), "" | "." | "..");
    if !named || parts.any(bad) {
        return Some(FORM);
    }
    None
}

impl RepositoryPath {
    fn read(at: &At<'_>) -> Result<Self, Problem> {
        const COMPONENT: usize = 255;
        let text = at.text(1..=limits::MOUNT_PATH)?;
        let below = text
            .strip_prefix(WORKSPACE)
            .and_then(|rest| rest.strip_prefix('/'));
        let below = below.map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        let Some(below) = below.filter(|below| !below.is_empty()) else {
            return Err(
                at.refuse("must be a folder below `/workspace`, as in `/workspace/project`")
            );
        };
        let wrong = |part: &str| {
            matches!(part, "" | "." | "..")
                || part.len() > COMPONENT
                || part.contains(char::is_control)
        };
        if below.split('/').any(wrong) {
            return Err(at.refuse("must consist of plain names, without `.`, `..` and empty ones"));
        }
        Ok(Self(format!("{WORKSPACE}/{below}")))
    }

    /// Returns it, absolute.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether two cannot stand side by side: at one path, or the one below the other.
    pub fn meets(&self, other: &Self) -> bool {
        meet(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(body: &Value) -> Result<AddRepository, Problem> {
        let mut object = At::root(body).object()?;
        let add = AddRepository::read(&mut object)?;
        object.finish()?;
        Ok(add)
    }

    #[test]
    fn a_repository_stands_below_the_workspace_by_its_name() {
        for (url, path, host, base) in [
            (
                "https://github.com/o/r",
                "/workspace/r",
                ("github.com", 443),
                "/o/r",
            ),
            (
                "https://git.example.com:8443/a/b/c.git",
                "/workspace/c",
                ("git.example.com", 8443),
                "/a/b/c",
            ),
            (
                "https://127.0.0.1/r/",
                "/workspace/r",
                ("127.0.0.1", 443),
                "/r",
            ),
        ] {
            let add = read(&json!({"url": url})).unwrap();
            assert_eq!((add.url.as_str(), add.path.as_str()), (url, path));
            assert_eq!((add.url.host(), add.url.base()), (host, base));
        }
        let add = read(&json!({"url": "https://h.io/r", "mount_path": "/workspace/a b/"})).unwrap();
        assert_eq!(add.path.as_str(), "/workspace/a b");
    }

    #[test]
    fn addresses_are_the_same_where_requests_cannot_be_told_apart() {
        let url = |text: &str| RepositoryUrl::parse(text).unwrap();
        let one = url("https://git.example/o/r");
        for same in [
            "https://git.example/o/r",
            "https://GIT.example:443/o/r.git",
            "https://git.example/o/r/",
        ] {
            assert!(one.is_same(&url(same)), "{same}");
        }
        for other in [
            "https://git.example:8443/o/r",
            "https://git.example/o/R",
            "https://git.example/o/r/s",
            "https://other.example/o/r",
        ] {
            assert!(!one.is_same(&url(other)), "{other}");
        }
    }

    #[test]
    fn addresses_that_lead_elsewhere_are_refused() {
        for url in [
            "",
            "github.com/o/r",
            "http://github.com/o/r",
            "git@github.com:o/r",
            "ssh://g.com/o/r",
            "https://github.com",
            "https://github.com/",
            "https://u:p@github.com/o/r",
            "https:///o/r",
            "https://github.com/o/../r",
            "https://github.com/o//r",
            "https://github.com/o/r?x=1",
            "https://github.com/o/r#x",
            "https://github.com/o/%2e%2e/r",
            "https://github.com:x/o/r",
            "https://github.com:99999/o/r",
            "https://git hub.com/o/r",
            "https://[::1]/o/r",
            "https://github.com/o/.git",
            "https://github.com/o/..git",
            "https://github.com/o/...git",
            "https://github.com:+443/o/r",
            "https://github.com:0/o/r",
            "https://256.1.1.1/o/r",
            "https://github.com/-\n",
        ] {
            let told = read(&json!({ "url": url })).unwrap_err().message;
            assert!(told.starts_with("url: "), "{url}: {told}");
        }
    }

    #[test]
    fn what_is_checked_out_is_a_branch_or_a_whole_commit() {
        let add = |checkout: &Value| read(&json!({"url": "https://h.io/r", "checkout": checkout}));
        for checkout in [
            json!({"type": "branch", "name": "feature/a-1"}),
            json!({"type": "commit", "sha": "a".repeat(40)}),
        ] {
            let kept = add(&checkout).unwrap().checkout.unwrap();
            assert_eq!(serde_json::to_value(kept).unwrap(), checkout);
        }
        for checkout in [
            json!({"type": "branch", "name": "--upload-pack=x"}),
            json!({"type": "branch", "name": "a..b"}),
            json!({"type": "branch", "name": "a/.b"}),
            json!({"type": "branch", "name": "a b"}),
            json!({"type": "branch", "name": "a.lock"}),
            json!({"type": "branch"}),
            json!({"type": "commit", "sha": "abc"}),
            json!({"type": "commit", "sha": "g".repeat(40)}),
            json!({"type": "tag", "name": "v1"}),
            json!({"type": "branch", "name": "a", "sha": "b"}),
        ] {
            assert!(
                add(&checkout).unwrap_err().message.starts_with("checkout."),
                "{checkout}"
            );
        }
    }

    #[test]
    fn a_token_is_in_no_words() {
        let secret = "canary-token";
        let body = json!({"url": "https://h.io/r", "authorization_token": secret});
        let add = read(&body).unwrap();
        assert_eq!(add.token.as_ref().map(Secret::expose), Some(secret));
        assert!(!format!("{add:?}").contains(secret));
        for bad in ["with space", "line\nbreak", "", "caf\u{e9}"] {
            let told = parse_rotation(&json!({"authorization_token": bad})).unwrap_err();
            assert!(
                bad.is_empty() || !told.message.contains(bad),
                "{}",
                told.message
            );
        }
        assert_eq!(
            parse_rotation(&json!({"authorization_token": secret}))
                .unwrap()
                .expose(),
            secret
        );
    }

    #[test]
    fn paths_outside_the_workspace_are_refused() {
        for path in [
            "/workspace",
            "/workspace/",
            "/workspaces/a",
            "/etc",
            "a",
            "/workspace/../etc",
            "/workspace//a",
        ] {
            let body = json!({"url": "https://h.io/r", "mount_path": path});
            assert!(
                read(&body).unwrap_err().message.starts_with("mount_path: "),
                "{path}"
            );
        }
    }
}
