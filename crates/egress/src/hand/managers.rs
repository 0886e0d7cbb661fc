//! The package registries that `allow_package_managers` opens.

use std::sync::Arc;

use outlast_reach::{Host, HostError, Pattern};

/// The table where no operator says otherwise.
const TABLE: &str = include_str!("managers.txt");

/// Hosts of package registries.
#[derive(Clone, Debug)]
pub struct Managers(Arc<[Pattern]>);

impl Managers {
    /// Reads a table of an operator's own.
    ///
    /// # Errors
    ///
    /// The first entry that is neither a host nor `*.` and a name.
    pub fn new<S: AsRef<str>>(hosts: &[S]) -> Result<Self, (String, HostError)> {
        let read = |text: &S| {
            let text = text.as_ref();
            text.parse().map_err(|error| (text.to_owned(), error))
        };
        let patterns = hosts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(Self(patterns.into()))
    }

    /// Tells whether hosts that a pattern means are among them.
    pub(crate) fn meet(&self, other: &Pattern) -> bool {
        self.0.iter().any(|pattern| pattern.meets(other))
    }

    /// Tells whether a host is one of them.
    pub(crate) fn has(&self, host: &Host) -> bool {
        self.0.iter().any(|pattern| pattern.matches(host))
    }
}

impl Default for Managers {
    fn default() -> Self {
        let lines = TABLE.lines().map(str::trim);
        let hosts = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        // A test reads every line.
        Self(hosts.filter_map(|host| host.parse().ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_host() {
        let lines = TABLE.lines().map(str::trim);
        let hosts: Vec<_> = lines
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect();
        let read = Managers::new(&hosts).unwrap();
        assert_eq!(read.0.len(), Managers::default().0.len());
        assert!(read.0.len() > 30);
    }

    #[test]
    fn an_entry_that_is_no_host_is_named() {
        let (entry, _) = Managers::new(&["pypi.org", "https://pypi.org"]).unwrap_err();
        assert_eq!(entry, "https://pypi.org");
    }
}
