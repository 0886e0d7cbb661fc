//! The environment, read once.

use std::{collections::BTreeMap, env, fmt};

use zeroize::Zeroizing;

/// What our own variables of the layered form begin with.
pub(super) const PREFIX: &str = "OUTLAST__";

/// The variables that stand for one key each, by name.
pub(super) const ALIASES: [(&str, &str); 6] = [
    ("OUTLAST_API_KEY", "server.api_key"),
    ("OUTLAST_DATABASE_URL", "database.url"),
    ("OUTLAST_DATA_DIR", "server.data_dir"),
    ("OUTLAST_MASTER_KEY", "vault.master_key"),
    ("OUTLAST_UPSTREAM_API_KEY", "upstream.api_key"),
    ("OUTLAST_UPSTREAM_BASE_URL", "upstream.base_url"),
];

/// The variables of ours that are no keys.
pub(super) const OTHERS: [&str; 2] = ["OUTLAST_CONFIG", "OUTLAST_URL"];

/// A snapshot of the environment: what the process was started with, or what a test says.
///
/// Values may be secrets: they are wiped when it goes, and no debug output shows them.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, Zeroizing<String>>);

impl Environment {
    /// Reads the variables of this process; those that are no Unicode do not exist.
    pub fn of_process() -> Self {
        let variables = env::vars_os().filter_map(|(name, value)| {
            Some((
                name.into_string().ok()?,
                Zeroizing::new(value.into_string().ok()?),
            ))
        });
        Self(variables.collect())
    }

    /// Returns a variable; an empty one counts as not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(|value| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Returns the variables of the layered form, by key: `server.listen`.
    pub(super) fn layered(&self) -> impl Iterator<Item = (&str, String, &str)> {
        self.0.iter().filter_map(|(name, value)| {
            let key = name.strip_prefix(PREFIX)?.to_lowercase().replace("__", ".");
            Some((name.as_str(), key, value.as_str()))
        })
    }

    /// Returns the variables that set something, by name.
    pub fn set(&self) -> Vec<&str> {
        let aliases = ALIASES.iter().map(|(name, _)| *name);
        let aliases = aliases.filter(|name| self.get(name).is_some());
        aliases
            .chain(self.layered().map(|(name, ..)| name))
            .collect()
    }

    /// Returns variables that look like ours and mean nothing: most often typing mistakes.
    pub fn strangers(&self) -> Vec<&str> {
        let known =
            |name: &str| ALIASES.iter().any(|(alias, _)| *alias == name) || OTHERS.contains(&name);
        let ours = |name: &&str| name.starts_with("OUTLAST_") && !name.starts_with(PREFIX);
        self.0
            .keys()
            .map(String::as_str)
            .filter(ours)
            .filter(|name| !known(name))
            .collect()
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        let own = |(name, value): (&str, &str)| (name.to_owned(), Zeroizing::new(value.to_owned()));
        Self(variables.map(own).into())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
