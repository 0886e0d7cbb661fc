//! Names of outputs, which an agent chooses: without the secrets of its session.

use std::collections::{BTreeMap, BTreeSet};

use outlast_hands::files::Published;
use outlast_store::ReadError;

use crate::sweep::Finder;

/// What the hand calls those outputs that are called otherwise outside of it.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    /// Puts marks in the place of secrets in the names of a list; of several that are the same by that
    /// all but the first are numbered.
    pub(super) async fn sweep(
        finder: &Finder,
        listed: &mut [Published],
    ) -> Result<Self, ReadError> {
        let mut names = Self::default();
        let own: Vec<_> = listed.iter().map(|output| output.path.clone()).collect();
        let mut taken: BTreeSet<_> = own.iter().cloned().collect();
        for (output, clean) in listed.iter_mut().zip(finder.texts(own).await?) {
            if clean == output.path {
                continue;
            }
            let mut free = clean.clone();
            let mut number = 2_usize;
            while !taken.insert(free.clone()) {
                free = format!("{clean} ({number})");
                number += 1;
            }
            let own = std::mem::replace(&mut output.path, free.clone());
            names.0.insert(free, own);
        }
        Ok(names)
    }

    /// Returns what the hand calls an output.
    pub(super) fn inside<'n>(&'n self, path: &'n str) -> &'n str {
        self.0.get(path).map_or(path, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use outlast_protocol::Secret;
    use outlast_scrub::Scrubber;

    use super::*;

    #[tokio::test]
    async fn a_name_with_a_secret_is_marked_and_found_again() {
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
        let names = Names::sweep(&Finder::Here(scrubber), &mut all)
            .await
            .unwrap();
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
