//! What is known about models, where it differs from the embedded table.

use std::path::PathBuf;

use outlast_model::{Facts, facts::BadFacts};
use serde::{Deserialize, Serialize};

/// Model facts that replace or add to the embedded table, field by field.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Models {
    /// A file in the form of the embedded table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Of ids that no entry matches.
    #[serde(skip_serializing_if = "toml::Table::is_empty")]
    pub default: toml::Table,
    /// By model id, or by the beginning of one with a `*` behind it.
    #[serde(skip_serializing_if = "toml::Table::is_empty")]
    pub facts: toml::Table,
}

/// The facts cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The file cannot be read.
    #[error("`models.file` `{}` cannot be read: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file, or what the configuration lays over it, says what cannot be.
    #[error("`{}`: {error}", source_name(.path.as_ref()))]
    Facts {
        /// The file; `None` for the configuration's own tables.
        path: Option<PathBuf>,
        /// What is wrong.
        error: BadFacts,
    },
}

fn source_name(path: Option<&PathBuf>) -> String {
    path.map_or_else(|| "models".to_owned(), |path| path.display().to_string())
}

impl Models {
    /// Reads the table: the embedded one, the file over it, the configuration's own over both.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or one of them says what cannot be.
    pub fn load(&self) -> Result<Facts, Unusable> {
        let mut table = toml::Table::new();
        if let Some(path) = &self.file {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| Unusable::File {
                path: path.clone(),
                error,
            })?;
            // Checked alone first, so that an error names the file and its line.
            let checked = Facts::load(Some(&text));
            checked.map_err(|error| Unusable::Facts {
                path: Some(path.clone()),
                error,
            })?;
            table = toml::from_str(&text).unwrap_or_default();
        }
        let mut own = toml::Table::new();
        own.insert("default".to_owned(), self.default.clone().into());
        own.insert("models".to_owned(), self.facts.clone().into());
        lay(&mut table, own);
        Facts::load(Some(&table.to_string())).map_err(|error| Unusable::Facts { path: None, error })
    }
}

/// Lays one table over another, deeply.
fn lay(under: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(toml::Value::Table(under)), toml::Value::Table(over)) => lay(under, over),
            (_, value) => drop(under.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_inline_facts_are_laid_over_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("facts.toml");
        std::fs::write(&path, "[models.local]\nwindow = 5000\nmax_output = 100\n").unwrap();
        let facts = toml::from_str("local = { max_output = 200 }").unwrap();
        let models = Models {
            file: Some(path),
            default: toml::Table::new(),
            facts,
        };
        let local = models.load().unwrap().of("local");
        assert_eq!((local.window, local.max_output), (5000, 200));
    }

    #[test]
    fn errors_name_where_they_come_from() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("facts.toml");
        std::fs::write(&path, "[models.local]\nwindo = 5000\n").unwrap();
        let models = Models {
            file: Some(path),
            ..Models::default()
        };
        let error = models.load().unwrap_err().to_string();
        assert!(
            error.contains("facts.toml") && error.contains("windo"),
            "{error}"
        );
        let facts = toml::from_str("local = { windo = 1 }").unwrap();
        let error = Models {
            facts,
            ..Models::default()
        }
        .load()
        .unwrap_err()
        .to_string();
        assert!(
            error.contains("`models`") && error.contains("windo"),
            "{error}"
        );
        let models = Models {
            file: Some(dir.path().join("none")),
            ..Models::default()
        };
        assert!(matches!(models.load(), Err(Unusable::File { .. })));
    }
}
