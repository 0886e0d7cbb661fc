//! `glob`: paths that match a pattern, newest first.

use std::{path::Path, time::SystemTime};

use globset::GlobBuilder;

use super::{
    paths::{Roots, Want, resolve},
    walk,
};
use crate::input::Fields;

/// The most paths in one answer.
const PATHS: usize = 200;

/// Runs the tool.
pub(super) fn run(input: &str, roots: &Roots) -> Result<String, String> {
    let mut fields = Fields::parse("glob", input)?;
    let pattern = fields.path("pattern")?;
    let path = fields.optional_path("path")?;
    if pattern.starts_with('/') {
        return Err(
            "glob: absolute pattern not permitted; pass a relative pattern (and optionally \
             path)"
                .to_owned(),
        );
    }
    if pattern.split('/').any(|part| part == "..") {
        return Err("glob: '..' is not permitted in the pattern".to_owned());
    }
    let matcher = GlobBuilder::new(pattern.trim_start_matches("./"))
        .literal_separator(true)
        .build()
        .map_err(|error| format!("glob: pattern: {}", error.kind()))?
        .compile_matcher();
    let given = path.as_deref().unwrap_or(".");
    let place = resolve("glob", given, Want::Read, roots)?;
    let root = place.real();
    if !root
        .metadata()
        .map_err(|error| place.says(&error))?
        .is_dir()
    {
        return Err(format!("glob: {given}: not a directory"));
    }
    let matches = |path: &Path| {
        path.strip_prefix(&root)
            .is_ok_and(|path| matcher.is_match(path))
    };
    let mut found: Vec<_> = walk::below(&root, |_| true)
        .filter(|entry| matches(entry.path()))
        .map(|entry| {
            let changed = entry
                .metadata()
                .ok()
                .and_then(|metadata| metadata.modified().ok());
            (changed.unwrap_or(SystemTime::UNIX_EPOCH), entry.into_path())
        })
        .collect();
    // Names decide among files of one moment: the walk came in their order.
    found.sort_by_key(|(changed, _)| std::cmp::Reverse(*changed));
    let shown: Vec<_> = found
        .iter()
        .take(PATHS)
        .map(|(_, path)| path.to_string_lossy())
        .collect();
    Ok(if shown.is_empty() {
        "no matches".to_owned()
    } else {
        shown.join("\n")
    })
}
