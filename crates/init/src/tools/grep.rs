//! `grep`: lines that match a regular expression.

use std::{fs::File, io, path::Path};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use rustix::fs::{Mode, OFlags};

use super::{
    paths::{Roots, Want, resolve},
    walk,
};
use crate::input::Fields;

/// The most bytes of one answer; the beginning is kept.
const OUTPUT_BYTES: usize = 100 * 1024;

/// Longer lines are left out: generated code and data nobody reads.
const LINE_BYTES: usize = 2000;

/// A file whose lines need more memory is left out.
const HEAP_BYTES: usize = 16 << 20;

/// Folders that are not searched.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// Runs the tool.
pub(super) fn run(input: &str, roots: &Roots) -> Result<String, String> {
    let mut fields = Fields::parse("grep", input)?;
    let pattern = fields.required("pattern")?;
    let path = fields.optional_path("path")?;
    let matcher = RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .build(&pattern)
        .map_err(|error| format!("grep: invalid regex: {error}"))?;
    let place = resolve("grep", path.as_deref().unwrap_or("."), Want::Read, roots)?;
    let root = place.real();
    let kind = root.metadata().map_err(|error| place.says(&error))?;
    let mut search = Search::new(matcher);
    if kind.is_dir() {
        search.folder(&root);
    } else {
        let (file, _) = place.open_regular()?;
        // A file that cannot be read to its end shows what was found before.
        drop(search.file(&file, &root));
    }
    Ok(search.found.text())
}

/// A search on its way.
struct Search {
    matcher: RegexMatcher,
    searcher: Searcher,
    found: Found,
}

impl Search {
    /// Begins with nothing found.
    fn new(matcher: RegexMatcher) -> Self {
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP_BYTES))
            .build();
        Self {
            matcher,
            searcher,
            found: Found::default(),
        }
    }

    /// Searches every file below a folder until the answer is full.
    fn folder(&mut self, root: &Path) {
        let enter = |entry: &ignore::DirEntry| {
            entry.depth() == 0 || !SKIPPED.iter().any(|name| entry.file_name() == *name)
        };
        for entry in walk::below(root, enter) {
            if self.found.full {
                return;
            }
            if entry.file_type().is_some_and(|kind| kind.is_file()) {
                // Files that vanish or may not be read are passed over.
                drop(self.named(entry.path()));
            }
        }
    }

    /// Searches one file of a walk, if it still is one.
    fn named(&mut self, path: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        if file.metadata()?.is_file() {
            self.file(&file, path)
        } else {
            Ok(())
        }
    }

    /// Searches an open file.
    fn file(&mut self, file: &File, path: &Path) -> io::Result<()> {
        let sink = Lines {
            path,
            found: &mut self.found,
        };
        self.searcher.search_file(&self.matcher, file, sink)
    }
}

/// What was found so far.
#[derive(Default)]
struct Found {
    text: String,
    full: bool,
}

impl Found {
    /// Adds a line; the first that does not fit any more fills the answer.
    fn push(&mut self, line: &str) {
        if self.text.len() + line.len() + 1 > OUTPUT_BYTES {
            self.full = true;
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(line);
    }

    /// Returns the answer.
    fn text(mut self) -> String {
        if self.text.is_empty() && !self.full {
            return "no matches".to_owned();
        }
        if self.full {
            self.text
                .push_str(&format!("\n[output truncated at {OUTPUT_BYTES} bytes]"));
        }
        self.text
    }
}

/// Takes the matching lines of one file.
struct Lines<'a> {
    path: &'a Path,
    found: &'a mut Found,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        let bytes = line.bytes();
        if bytes.len() <= LINE_BYTES {
            let text = String::from_utf8_lossy(bytes);
            let number = line.line_number().unwrap_or(0);
            let text = text.trim_end_matches(['\n', '\r']);
            self.found
                .push(&format!("{}:{number}:{text}", self.path.display()));
        }
        Ok(!self.found.full)
    }
}
