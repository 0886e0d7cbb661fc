//! Names of outputs, which an agent chooses: without the secrets of its session.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use outlast_hands::files::Published;
use outlast_scrub::Scrubber;

/// What the hand calls those outputs that are called otherwise outside of it.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    /// Puts marks in the place of secrets in the names of a list; of several that are the same by that
    /// all but the first are numbered.
    pub(super) fn sweep(scrubber: &Scrubber, listed: &mut [Published]) -> Self {
        let mut names = Self::default();
        if scrubber.is_idle() {
            return names;
        }
        let mut taken: BTreeSet<_> = listed.iter().map(|output| output.path.clone()).collect();
        for output in listed {
            let Cow::Owned(clean) = scrubber.text(&output.path) else {
                continue;
            };
            let mut free = clean.clone();
            let mut number = 2_usize;
            while !taken.insert(free.clone()) {
                free = format!("{clean} ({number})");
                number += 1;
            }
            let own = std::mem::replace(&mut output.path, free.clone());
            names.0.insert(free, own);
        }
        names
    }

    /// Returns what the hand calls an output.
    pub(super) fn inside<'n>(&'n self, path: &'n str) -> &'n str {
        self.0.get(path).map_or(path, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use outlast_protocol::Secret;

    use super::*;

    #[test]
    fn a_name_with_a_secret_is_marked_and_found_again() {
        let secret = Secret::from("a-secret/of-the-session");
        let scrubber = Scrubber::named([("secret A", &secret)]);
        let paths = [
            "a-secret/of-the-session",
            "a-secret/of-the-session.txt",
            "612d7365637265742f6f662d7468652d73657373696f6e",
            "plain",
        ];
        let listed = |path: &str| Published {
            path: path.to_owned(),
            bytes: 1,
            version: "1".to_owned(),
        };
        let mut all: Vec<_> = paths.iter().map(|path| listed(path)).collect();
        let names = Names::sweep(&scrubber, &mut all);
        let shown: Vec<_> = all.iter().map(|output| output.path.as_str()).collect();
        let expected = [
            "[secret A removed]",
            "[secret A removed].txt",
            "[secret A removed] (2)",
            "plain",
        ];
        assert_eq!(shown, expected);
        let inside: Vec<_> = shown.iter().map(|path| names.inside(path)).collect();
        assert_eq!(inside, paths);
    }
}
