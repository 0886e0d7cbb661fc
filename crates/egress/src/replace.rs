//! Replaces texts in a stream, the same wherever its pieces begin and end.

use std::sync::Arc;

use bytes::Bytes;
use outlast_scrub::{Finder, Hit};
use zeroize::Zeroizing;

/// A text that is looked for, and what is put in its place.
pub(crate) struct Needle {
    pub(crate) find: Zeroizing<Vec<u8>>,
    pub(crate) put: Zeroizing<Vec<u8>>,
    /// Whose it is.
    pub(crate) tag: usize,
}

/// Texts that are looked for; where several begin at the same place the longest one counts.
pub(crate) struct Table {
    finder: Finder,
    /// What is put in the place of each, and whose it is.
    puts: Vec<(Zeroizing<Vec<u8>>, usize)>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({} texts)", self.puts.len())
    }
}

impl Table {
    /// Makes one; of two that are the same the first counts.
    pub(crate) fn new(needles: Vec<Needle>) -> Self {
        let (mut finds, mut puts) = (Vec::new(), Vec::new());
        for (at, needle) in needles.into_iter().enumerate() {
            finds.push((needle.find, at));
            puts.push((needle.put, needle.tag));
        }
        Self {
            finder: Finder::new(finds),
            puts,
        }
    }

    /// Tells whether nothing is looked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.finder.is_empty()
    }

    /// Replaces in something whole; none if nothing was found.
    pub(crate) fn replace(self: &Arc<Self>, text: &[u8]) -> Option<(Vec<u8>, Vec<usize>)> {
        let mut stream = Stream::new(self.clone());
        let mut out = stream.push(&Bytes::copy_from_slice(text)).to_vec();
        out.extend_from_slice(&stream.finish());
        let found = stream.found();
        (!found.is_empty()).then_some((out, found))
    }

    /// Looks for the next place at which a text stands, or may stand once more is known.
    fn next(&self, text: &[u8], from: usize) -> Next {
        let hit = self.finder.next(text, from);
        if let Some(hit) = hit
            && hit.start + self.finder.longest() <= text.len()
        {
            return Next::Found(hit);
        }
        // A longer one that begins as early, or another one before, may still come.
        match (hit, self.finder.begun(text, from)) {
            (Some(hit), begun) if begun.is_none_or(|at| hit.start < at) => Next::Found(hit),
            (_, Some(at)) => Next::Perhaps(at),
            (_, None) => Next::Nothing,
        }
    }
}

/// What comes next in a text.
enum Next {
    /// That text stands there.
    Found(Hit),
    /// Some text may begin there.
    Perhaps(usize),
    /// None begins in what there is.
    Nothing,
}

/// A stream in which texts are replaced.
///
/// What it holds back is never more than the beginning of a text that it may be; all else goes on at
/// once, so an answer that trickles still trickles.
#[derive(Debug)]
pub(crate) struct Stream {
    table: Arc<Table>,
    held: Zeroizing<Vec<u8>>,
    found: Vec<usize>,
}

impl Stream {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Self {
            table,
            held: Zeroizing::default(),
            found: Vec::new(),
        }
    }

    /// Takes a piece and returns what can go on.
    pub(crate) fn push(&mut self, piece: &Bytes) -> Bytes {
        if self.table.is_empty() {
            return piece.clone();
        }
        if self.held.is_empty() {
            // The usual case copies nothing.
            return match self.table.next(piece, 0) {
                Next::Nothing => piece.clone(),
                Next::Perhaps(at) => {
                    self.held = Zeroizing::new(piece.get(at..).unwrap_or_default().to_vec());
                    piece.slice(..at)
                }
                Next::Found(..) => self.through(Zeroizing::new(piece.to_vec())),
            };
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(piece);
        self.through(text)
    }

    fn through(&mut self, text: Zeroizing<Vec<u8>>) -> Bytes {
        let table = self.table.clone();
        let (mut out, mut from) = (Vec::with_capacity(text.len()), 0);
        loop {
            let (to, hit) = match table.next(&text, from) {
                Next::Found(hit) => (hit.start, Some(hit)),
                Next::Perhaps(at) => (at, None),
                Next::Nothing => (text.len(), None),
            };
            out.extend_from_slice(text.get(from..to).unwrap_or_default());
            let Some(hit) = hit else {
                self.held = Zeroizing::new(text.get(to..).unwrap_or_default().to_vec());
                return out.into();
            };
            self.put(&mut out, hit);
            from = hit.end;
        }
    }

    /// Returns what was held back, at the end.
    pub(crate) fn finish(&mut self) -> Bytes {
        let (text, table) = (std::mem::take(&mut self.held), self.table.clone());
        let (mut out, mut from) = (Vec::with_capacity(text.len()), 0);
        while let Some(hit) = table.finder.next(&text, from) {
            out.extend_from_slice(text.get(from..hit.start).unwrap_or_default());
            self.put(&mut out, hit);
            from = hit.end;
        }
        out.extend_from_slice(text.get(from..).unwrap_or_default());
        out.into()
    }

    fn put(&mut self, out: &mut Vec<u8>, hit: Hit) {
        let Some((put, tag)) = self.table.puts.get(hit.tag) else {
            return;
        };
        out.extend_from_slice(put);
        if !self.found.contains(tag) {
            self.found.push(*tag);
        }
    }

    /// Returns whose texts were found since this was last asked.
    pub(crate) fn found(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(pairs: &[(&str, &str)]) -> Arc<Table> {
        let needle = |(tag, (find, put)): (usize, &(&str, &str))| Needle {
            find: Zeroizing::new(find.as_bytes().to_vec()),
            put: Zeroizing::new(put.as_bytes().to_vec()),
            tag,
        };
        Arc::new(Table::new(pairs.iter().enumerate().map(needle).collect()))
    }

    fn in_pieces(table: &Arc<Table>, text: &str, cuts: &[usize]) -> String {
        let mut stream = Stream::new(table.clone());
        let mut out = Vec::new();
        let mut rest = text.as_bytes();
        for cut in cuts {
            let (piece, later) = rest.split_at((*cut).min(rest.len()));
            out.extend_from_slice(&stream.push(&Bytes::copy_from_slice(piece)));
            rest = later;
        }
        out.extend_from_slice(&stream.push(&Bytes::copy_from_slice(rest)));
        out.extend_from_slice(&stream.finish());
        String::from_utf8(out).unwrap()
    }

    /// What is replaced, read plainly: leftmost, then longest.
    fn plainly(pairs: &[(&str, &str)], mut text: &str) -> String {
        let mut out = String::new();
        while let Some(first) = text.chars().next() {
            let here = pairs.iter().filter(|(find, _)| text.starts_with(find));
            match here.max_by_key(|(find, _)| find.len()) {
                Some((find, put)) => {
                    out += put;
                    text = &text[find.len()..];
                }
                None => {
                    out.push(first);
                    text = &text[first.len_utf8()..];
                }
            }
        }
        out
    }

    const PAIRS: &[(&str, &str)] = &[
        ("abab", "1"),
        ("ababc", "22"),
        ("bb", ""),
        ("cacac", "abab"),
    ];

    #[test]
    fn every_cut_of_a_text_gives_the_same() {
        let table = table(PAIRS);
        let text = "xabababcbbacacacababcc";
        let whole = plainly(PAIRS, text);
        for first in 0..text.len() {
            for second in 0..text.len() - first {
                assert_eq!(in_pieces(&table, text, &[first, second]), whole);
            }
        }
        assert_eq!(in_pieces(&table, text, &[1; 40]), whole);
    }

    #[test]
    fn what_cannot_become_a_text_goes_on_at_once() {
        let mut stream = Stream::new(table(&[("secret", "***")]));
        assert_eq!(
            stream.push(&Bytes::from("data: hello\n\n")),
            "data: hello\n\n"
        );
        assert_eq!(stream.push(&Bytes::from("no sec")), "no ");
        assert_eq!(stream.push(&Bytes::from("urity")), "security");
        assert_eq!(stream.push(&Bytes::from("sec")), "");
        assert_eq!(stream.push(&Bytes::from("ret!")), "***!");
        assert_eq!(stream.found(), [0]);
        assert_eq!(stream.push(&Bytes::from("sec")), "");
        assert_eq!(stream.finish(), "sec");
        assert_eq!(stream.found(), Vec::<usize>::new());
    }

    #[test]
    fn nothing_is_found_where_nothing_is_looked_for() {
        let none = table(&[]);
        assert_eq!(in_pieces(&none, "abc", &[1]), "abc");
        assert!(none.replace(b"abc").is_none());
        assert!(table(&[("", "y")]).is_empty());
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(text in "[abc]{0,40}", cuts in proptest::collection::vec(0_usize..6, 0..20)) {
            prop_assert_eq!(in_pieces(&table(PAIRS), &text, &cuts), plainly(PAIRS, &text));
        }

        #[test]
        fn any_texts_are_found(
            finds in proptest::collection::vec("[ab]{2,5}", 1..5),
            text in "[ab]{0,60}",
            cuts in proptest::collection::vec(0_usize..9, 0..12),
        ) {
            let mut finds = finds;
            finds.sort();
            finds.dedup();
            let pairs: Vec<_> = finds.iter().map(|find| (find.as_str(), "-")).collect();
            prop_assert_eq!(in_pieces(&table(&pairs), &text, &cuts), plainly(&pairs, &text));
        }
    }
}
