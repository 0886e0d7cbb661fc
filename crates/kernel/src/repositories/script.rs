//! The command that clones.

use std::time::Duration;

use outlast_protocol::session::Checkout;
use outlast_session::body::Repository;
use serde_json::{json, value::RawValue};

/// What the command says when it is through, before how it went.
pub(super) const SAYS: &str = "outlast-clone:";

/// What stands before the status line of whoever refused.
pub(super) const ANSWERED: &str = "the answer was: ";

/// Steps in words that the [verdict](super::verdict) knows. A clone is made aside and renamed, so the
/// folder is whole or not there; what an agent put there before stays.
///
/// git tells the number of a refusal alone. Which host the way out refuses, and what would allow it, stands
/// in its status line, which git only writes to a trace; no token is in there, since none is inside.
const STEPS: &str = r#"
say() { rm -f -- "$trace"; printf '\n%s%s\n' "$says" "$1"; exit 0; }
failed() {
  while IFS= read -r line; do
    case $line in *"<= Recv header: HTTP/1.1 "[45]*) why=${line#*HTTP/1.1 } ;; esac
  done 2>/dev/null <"$trace"
  [ -z "$why" ] || printf '%s%s\n' "$answered" "$why"
  rm -rf -- "$aside"
  say "$1"
}
export LC_ALL=C GIT_TERMINAL_PROMPT=0
unset GIT_ASKPASS SSH_ASKPASS
aside="$path.cloning" trace="$path.cloning.trace" why=
[ -e "$path/.git" ] && say there
if [ -e "$path" ] && ! rmdir -- "$path" 2>/dev/null; then say occupied; fi
command -v git >/dev/null || say no-git
rm -rf -- "$aside" "$trace"
mkdir -p -- "$(dirname -- "$path")" || say clone
export GIT_TRACE_CURL="$trace" GIT_TRACE_CURL_NO_DATA=1
git -c credential.helper= clone --quiet ${branch:+--branch "$branch"} ${commit:+--no-checkout} \
  -- "$url" "$aside" || failed clone
if [ -n "$commit" ]; then
  git -C "$aside" cat-file -e "$commit^{commit}" 2>/dev/null ||
    git -C "$aside" -c credential.helper= fetch --quiet origin "$commit" || failed checkout
  git -C "$aside" -c advice.detachedHead=false checkout --quiet --detach "$commit" || failed checkout
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
        ("answered", ANSWERED),
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
