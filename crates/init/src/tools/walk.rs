//! Walks a folder for `glob` and `grep`: no link is followed, and there is an end to it.

use std::path::Path;

use ignore::{DirEntry, WalkBuilder};

/// The most entries looked at.
pub(super) const ENTRIES: usize = 50_000;

/// Returns what lies below `root`, in the order of names, without the root itself.
pub(super) fn below(
    root: &Path,
    enter: impl Fn(&DirEntry) -> bool + Send + Sync + 'static,
) -> impl Iterator<Item = DirEntry> {
    WalkBuilder::new(root)
        .standard_filters(false)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(enter)
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.depth() > 0)
        .take(ENTRIES)
}
