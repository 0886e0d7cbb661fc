//! The command that clones.

use std::time::Duration;

use outlast_protocol::session::Checkout;
use outlast_session::body::Repository;
use serde_json::{json, value::RawValue};

/// What the command says when it is through, before how it went.
pub(super) const SAYS: &str = "outlast-clone:";

/// Steps in words that the [verdict](super::verdict) knows. A clone is made aside and renamed, so the
/// folder is whole or not there; what an agent put there before stays.
const STEPS: &str = r#"
say() { printf '\n%s%s\n' "$says" "$1"; exit 0; }
export LC_ALL=C GIT_TERMINAL_PROMPT=0
unset GIT_ASKPASS SSH_ASKPASS
[ -e "$path/.git" ] && say there
if [ -e "$path" ] && ! rmdir -- "$path" 2>/dev/null; then say occupied; fi
command -v git >/dev/null || say no-git
aside="$path.cloning"
rm -rf -- "$aside"
mkdir -p -- "$(dirname -- "$path")" || say clone
git -c credential.helper= clone --quiet ${branch:+--branch "$branch"} ${commit:+--no-checkout} \
  -- "$url" "$aside" || { rm -rf -- "$aside"; say clone; }
if [ -n "$commit" ]; then
  git -C "$aside" cat-file -e "$commit^{commit}" 2>/dev/null ||
    git -C "$aside" -c credential.helper= fetch --quiet origin "$commit" || { rm -rf -- "$aside"; say checkout; }
  git -C "$aside" -c advice.detachedHead=false checkout --quiet --detach "$commit" ||
    { rm -rf -- "$aside"; say checkout; }
fi
mv -T -- "$aside" "$path" || say clone
say there
"#;

/// Returns the input of `bash` that clones a repository.
pub(super) fn input(repository: &Repository, longest: Duration) -> Box<RawValue> {
    let (branch, commit) = match &repository.checkout {
        None => ("", ""),
        Some(Checkout::Branch { name }) => (name.as_str(), ""),
        Some(Checkout::Commit { sha }) => ("", sha.as_str()),
    };
    let settings = [
        ("says", SAYS),
        ("url", repository.url.as_str()),
        ("path", repository.path.as_str()),
        ("branch", branch),
        ("commit", commit),
    ];
    // A shell of its own: nothing of it stays in the one that the agent works in.
    let mut command = String::from("env -u GIT_DIR -u GIT_WORK_TREE");
    for (name, value) in settings {
        command.push_str(&format!(" {name}={}", quoted(value)));
    }
    command.push_str(&format!(" bash -c {} 2>&1", quoted(STEPS)));
    let milliseconds = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
    let input = json!({"command": command, "timeout_ms": milliseconds});
    serde_json::value::to_raw_value(&input).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
