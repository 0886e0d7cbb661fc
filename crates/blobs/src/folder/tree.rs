//! Listing a directory tree in the order of keys.

use std::{fs, io, path::Path};

use crate::Key;

/// Lists files at or below `prefix`, in the order of their keys as text.
pub(super) fn list(
    root: &Path,
    prefix: &Key,
    after: Option<&Key>,
    limit: usize,
) -> io::Result<Vec<Key>> {
    let mut found = Vec::new();
    let after = after.map_or("", Key::as_str);
    let path = root.join(prefix.as_str());
    match fs::metadata(&path) {
        Ok(meta) if meta.is_file() => push(&mut found, prefix.as_str(), after, limit),
        Ok(_) => walk(&path, prefix.as_str(), after, limit, &mut found)?,
        Err(error) if super::is_absent(&error) => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}

fn push(found: &mut Vec<Key>, text: &str, after: &str, limit: usize) {
    if text > after
        && found.len() < limit
        && let Ok(key) = Key::new(text)
    {
        found.push(key);
    }
}

/// Visits one directory; `name` is its key.
fn walk(
    path: &Path,
    name: &str,
    after: &str,
    limit: usize,
    found: &mut Vec<Key>,
) -> io::Result<()> {
    for (text, is_directory) in entries(path, name)? {
        if found.len() >= limit {
            return Ok(());
        }
        if !is_directory {
            push(found, &text, after, limit);
        } else if after <= text.as_str() || after.starts_with(&text) {
            let child = text.trim_end_matches('/');
            let part = child.rsplit('/').next().unwrap_or(child);
            walk(&path.join(part), child, after, limit, found)?;
        }
    }
    Ok(())
}

/// Returns the entries of a directory as keys in order, directories with a slash behind them.
fn entries(path: &Path, name: &str) -> io::Result<Vec<(String, bool)>> {
    let opened = match fs::read_dir(path) {
        Err(error) if super::is_absent(&error) => return Ok(Vec::new()),
        other => other?,
    };
    let mut entries = Vec::new();
    for entry in opened {
        let entry = entry?;
        let is_directory = entry.file_type()?.is_dir();
        if let Some(part) = entry.file_name().to_str() {
            let slash = if is_directory { "/" } else { "" };
            entries.push((format!("{name}/{part}{slash}"), is_directory));
        }
    }
    entries.sort();
    Ok(entries)
}
