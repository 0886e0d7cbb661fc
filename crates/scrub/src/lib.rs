//! Finds known secrets in what is shown or kept, and puts a mark in their place.
//!
//! A second line, never the guarantee: whoever has a secret can write it in a form that nobody looks for.
//! What is looked for is what happens by accident: the secret itself, in Base64 at any alignment and in
//! lines, in hex, percent-encoded, and inside the strings of JSON.

#![forbid(unsafe_code)]

pub mod forms;
mod stream;
mod views;

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use outlast_protocol::Secret;

pub use stream::Stream;

/// The shortest secret that is looked for: shorter ones stand in innocent text.
pub const SHORTEST: usize = 12;

/// States of an automaton above which a smaller, slower one is made.
const MANY: usize = 40_000;

/// Finds the secrets that it was made with. Cheap to clone.
///
/// What it was made with stays in its memory as long as it lives.
#[derive(Clone)]
pub struct Scrubber(Option<Arc<Inner>>);

struct Inner {
    automaton: AhoCorasick,
    /// The secret that each form is of.
    of: Vec<usize>,
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
        let (mut forms, mut of, mut marks) = (Vec::new(), Vec::new(), Vec::new());
        let mut longest = 0;
        for (name, secret) in secrets {
            let bytes = secret.expose().as_bytes();
            if bytes.len() < SHORTEST {
                continue;
            }
            longest = longest.max(bytes.len());
            let all = forms::of(bytes);
            of.extend(std::iter::repeat_n(marks.len(), all.len()));
            forms.extend(all);
            marks.push(format!("[{name} removed]").into_bytes());
        }
        Self(automaton(&forms).map(|automaton| {
            Arc::new(Inner {
                automaton,
                of,
                marks,
                reach: views::reach(longest),
            })
        }))
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
        let found = inner.find(bytes);
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

/// Makes the automaton; `None` if there is nothing to look for.
fn automaton(forms: &[forms::Form]) -> Option<AhoCorasick> {
    if forms.is_empty() {
        return None;
    }
    let states: usize = forms.iter().map(|form| form.len()).sum();
    let kind = if states < MANY {
        AhoCorasickKind::DFA
    } else {
        AhoCorasickKind::ContiguousNFA
    };
    let mut builder = AhoCorasick::builder();
    builder
        .match_kind(MatchKind::LeftmostLongest)
        .kind(Some(kind));
    let made = builder.build(forms);
    // Only more forms than fit into its numbers are refused: then nothing is said to be clean.
    Some(made.unwrap_or_else(|error| unreachable!("{error}")))
}

impl Inner {
    /// Finds all occurrences, in order and apart from each other.
    fn find(&self, bytes: &[u8]) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        for hit in self.automaton.find_iter(bytes) {
            found.push((hit.range(), self.secret(hit.pattern().as_usize())));
        }
        for view in views::of(bytes) {
            for hit in self.automaton.find_iter(&view.bytes) {
                let range = view.origin(hit.range());
                found.push((range, self.secret(hit.pattern().as_usize())));
            }
        }
        apart(found)
    }

    fn secret(&self, form: usize) -> usize {
        self.of.get(form).copied().unwrap_or_default()
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
