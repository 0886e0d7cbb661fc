//! What git said, as one of the errors that clients know.

use outlast_protocol::event::ErrorKind;

use super::script::SAYS;

/// How much of what git said is told.
const CHARACTERS: usize = 500;

/// What came of a clone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// It is there.
    There,
    /// It is not, and this is why.
    Failed(Cause, String),
}

/// Why a repository could not be cloned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Cause {
    /// No token, or not this one.
    Authentication,
    /// The token does not reach so far.
    Forbidden,
    /// There is no such repository.
    NotFound,
    /// It has no such branch or commit.
    Checkout,
    /// Anything else.
    Clone,
}

/// What git says, in lower case, and what it means; the first one that occurs counts. The words of git
/// and of curl below it, as they are without a translation.
const SAYINGS: &[(&str, Cause)] = &[
    // Of the way out, before it comes to the repository at all.
    ("from proxy", Cause::Clone),
    ("connect tunnel failed", Cause::Clone),
    ("authentication failed", Cause::Authentication),
    ("could not read username", Cause::Authentication),
    ("could not read password", Cause::Authentication),
    ("returned error: 401", Cause::Authentication),
    ("returned error: 403", Cause::Forbidden),
    ("returned error: 404", Cause::NotFound),
    ("repository not found", Cause::NotFound),
    ("' not found", Cause::NotFound),
    ("remote branch", Cause::Checkout),
    ("not our ref", Cause::Checkout),
    ("couldn't find remote ref", Cause::Checkout),
];

impl Verdict {
    /// Reads what the command said.
    pub(super) fn of(said: &str) -> Self {
        let Some((before, word)) = said.rsplit_once(SAYS) else {
            return Self::Failed(Cause::Clone, excerpt(said));
        };
        let word = word.lines().next().unwrap_or_default().trim();
        match word {
            "there" => Self::There,
            "occupied" => {
                let words = "something else stands at its place, which is not an empty folder";
                Self::Failed(Cause::Clone, words.to_owned())
            }
            "no-git" => Self::Failed(Cause::Clone, "the sandbox has no git".to_owned()),
            word => Self::Failed(cause(before, word), excerpt(before)),
        }
    }

    /// Returns the error for the client; none if it is there.
    pub(super) fn error(self, url: &str) -> Option<(ErrorKind, String)> {
        let Self::Failed(cause, words) = self else {
            return None;
        };
        let repository_url = Some(url.to_owned());
        let (kind, what) = match cause {
            Cause::Authentication => (
                ErrorKind::RepositoryAuthentication { repository_url },
                "the git server asks for a token, or refuses the one that it got",
            ),
            Cause::Forbidden => (
                ErrorKind::RepositoryForbidden { repository_url },
                "the git server forbids it with this token",
            ),
            Cause::NotFound => (
                ErrorKind::RepositoryNotFound { repository_url },
                "the git server knows no such repository, or none that this token may see",
            ),
            Cause::Checkout => (
                ErrorKind::RepositoryCheckout { repository_url },
                "the repository has no such branch or commit",
            ),
            Cause::Clone => (
                ErrorKind::RepositoryClone { repository_url },
                "the repository could not be cloned",
            ),
        };
        let words = match words.is_empty() {
            true => what.to_owned(),
            false => format!("{what}: {words}"),
        };
        Some((kind, words))
    }
}

fn cause(said: &str, word: &str) -> Cause {
    let said = said.to_lowercase();
    let known = SAYINGS.iter().find(|(saying, _)| said.contains(saying));
    match known {
        Some((_, cause)) => *cause,
        None if word == "checkout" => Cause::Checkout,
        None => Cause::Clone,
    }
}

/// Returns the end of what was said, on one line: the reason stands last.
fn excerpt(said: &str) -> String {
    let lines = said.lines().map(str::trim);
    let (mut kept, mut left) = (Vec::new(), CHARACTERS);
    for line in lines.filter(|line| !line.is_empty()).rev() {
        let length = line.chars().count();
        if length > left && !kept.is_empty() {
            break;
        }
        kept.push(line.chars().take(left).collect::<String>());
        left = left.saturating_sub(length);
    }
    kept.reverse();
    let plain = |sign: char| if sign.is_control() { ' ' } else { sign };
    kept.join("; ").chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_the_end_in_whole_lines() {
        let (long, last) = ("x".repeat(CHARACTERS - 5), "fatal: it ends");
        assert_eq!(excerpt(&format!("{long}\n\n{last}\n")), last);
        assert_eq!(excerpt("one\n two\u{7}\nthree"), "one; two ; three");
        let all = excerpt(&"y".repeat(2 * CHARACTERS));
        assert_eq!(all.len(), CHARACTERS);
    }

    fn cause_of(said: &str) -> Option<Cause> {
        match Verdict::of(said) {
            Verdict::There => None,
            Verdict::Failed(cause, _) => Some(cause),
        }
    }

    #[test]
    fn what_git_says_is_one_of_five_errors() {
        for (said, cause) in [
            (
                "fatal: Authentication failed for 'https://h/o/r/'\n",
                Cause::Authentication,
            ),
            (
                "fatal: could not read Username for 'https://h': terminal prompts disabled",
                Cause::Authentication,
            ),
            (
                "fatal: unable to access 'https://h/o/r/': The requested URL returned error: 403",
                Cause::Forbidden,
            ),
            (
                "fatal: repository 'https://h/o/r/' not found",
                Cause::NotFound,
            ),
            ("remote: Repository not found.\nfatal: x", Cause::NotFound),
            (
                "warning: Could not find remote branch x to clone.\nfatal: Remote branch x not found in upstream origin",
                Cause::Checkout,
            ),
            (
                "fatal: unable to access 'https://h/': Received HTTP code 403 from proxy after CONNECT",
                Cause::Clone,
            ),
            (
                "fatal: unable to access 'https://h/': CONNECT tunnel failed, response 403",
                Cause::Clone,
            ),
            (
                "fatal: unable to access: Could not resolve proxy",
                Cause::Clone,
            ),
        ] {
            assert_eq!(
                cause_of(&format!("{said}\n{SAYS}clone\n")),
                Some(cause),
                "{said}"
            );
        }
        assert_eq!(cause_of(&format!("\n{SAYS}there\n")), None);
        assert_eq!(cause_of(&format!("{SAYS}checkout")), Some(Cause::Checkout));
        assert_eq!(
            cause_of("the call ran for 600 seconds and was stopped"),
            Some(Cause::Clone)
        );
        assert_eq!(
            cause_of(&format!("{SAYS}there\n{SAYS}no-git")),
            Some(Cause::Clone)
        );
    }

    #[test]
    fn words_of_a_server_are_bounded_and_plain() {
        let said = format!("{}\u{1b}[31mred\n{SAYS}clone", "x".repeat(10_000));
        let (_, words) = Verdict::of(&said).error("https://h/o/r").unwrap();
        assert!(words.len() < 700 && !words.contains('\u{1b}'), "{words}");
        assert_eq!(Verdict::There.error("https://h/o/r"), None);
    }
}
