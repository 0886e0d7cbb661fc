//! Finds known secrets in what is shown or kept, and puts a mark in their place.
//!
//! A second line, never the guarantee: whoever has a secret can write it in a form that nobody looks for.
//! What is looked for is what happens by accident: the secret itself, in Base64 at any alignment and in
//! lines, in hex, percent-encoded, and inside the strings of JSON.

#![forbid(unsafe_code)]

mod finder;
pub mod forms;
mod stream;
mod views;

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

use outlast_protocol::Secret;

pub use finder::{Finder, Hit};
pub use stream::Stream;

/// The shortest secret that is looked for: shorter ones stand in innocent text.
pub const SHORTEST: usize = 12;

/// Finds the secrets that it was made with. Cheap to clone.
#[derive(Clone)]
pub struct Scrubber(Option<Arc<Inner>>);

struct Inner {
    /// All forms, each told as the number of its secret.
    finder: Finder,
    /// What is put in the place of each secret.
    marks: Vec<Vec<u8>>,
    /// The most bytes that one occurrence can be long.
    reach: usize,
}

/// An occurrence: where, and of which secret.
type Found = (Range<usize>, usize);

impl Scrubber {
    /// Makes one that marks all secrets alike.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        Self::named(secrets.into_iter().map(|secret| ("secret", secret)))
    }

    /// Makes one whose marks name what was there.
    pub fn named<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a Secret)>) -> Self {
        let (mut forms, mut marks) = (Vec::new(), Vec::new());
        let mut longest = 0;
        for (name, secret) in secrets {
            let bytes = secret.expose().as_bytes();
            if bytes.len() < SHORTEST {
                continue;
            }
            longest = longest.max(bytes.len());
            forms.extend(forms::of(bytes).into_iter().map(|form| (form, marks.len())));
            marks.push(format!("[{name} removed]").into_bytes());
        }
        let inner = Inner {
            finder: Finder::new(forms),
            reach: views::reach(longest),
            marks,
        };
        Self((!inner.finder.is_empty()).then(|| Arc::new(inner)))
    }

    /// Tells whether it looks for nothing.
    pub fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    /// Returns bytes without secrets.
    pub fn bytes<'t>(&self, bytes: &'t [u8]) -> Cow<'t, [u8]> {
        let Some(inner) = &self.0 else {
            return Cow::Borrowed(bytes);
        };
        let found = inner.find(bytes, &[]);
        if found.is_empty() {
            return Cow::Borrowed(bytes);
        }
        Cow::Owned(inner.marked(bytes, 0..bytes.len(), &found))
    }

    /// Returns a text without secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // No occurrence begins or ends within a character.
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// Begins with bytes that come in pieces.
    pub fn stream(&self) -> Stream {
        Stream::new(self.clone())
    }
}

impl Inner {
    /// Finds all occurrences, in order and apart from each other; `earlier` is what came before the bytes.
    fn find(&self, bytes: &[u8], earlier: &[u8]) -> Vec<Found> {
        let mut found: Vec<Found> = self.hits(bytes).collect();
        for view in views::of(bytes, earlier) {
            let hits: Vec<Found> = self.hits(view.bytes()).collect();
            found.extend(view.origins(bytes, hits));
        }
        apart(found)
    }

    fn hits<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = Found> + 'b {
        let mut from = 0;
        std::iter::from_fn(move || {
            let hit = self.finder.next(bytes, from)?;
            from = hit.end;
            Some((hit.start..hit.end, hit.tag))
        })
    }

    /// Returns a part of the bytes with marks in the place of what was found in it.
    fn marked(&self, bytes: &[u8], part: Range<usize>, found: &[Found]) -> Vec<u8> {
        let mut marked = Vec::with_capacity(part.len());
        let mut at = part.start;
        for (range, secret) in found {
            if range.start < at || range.end > part.end {
                continue;
            }
            marked.extend_from_slice(bytes.get(at..range.start).unwrap_or_default());
            if let Some(mark) = self.marks.get(*secret) {
                marked.extend_from_slice(mark);
            }
            at = range.end;
        }
        marked.extend_from_slice(bytes.get(at..part.end).unwrap_or_default());
        marked
    }
}

/// Puts occurrences in order and makes one of those that overlap.
fn apart(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by_key(|(range, _)| (range.start, range.end));
    let mut merged: Vec<Found> = Vec::with_capacity(found.len());
    for (range, secret) in found {
        match merged.last_mut() {
            Some((last, _)) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push((range, secret)),
        }
    }
    merged
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.as_ref().map_or(0, |inner| inner.marks.len());
        write!(f, "Scrubber({count} secrets)")
    }
}

#[cfg(test)]
mod tests;
