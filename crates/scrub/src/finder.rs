//! Finds texts without looking at every byte.
//!
//! A text of twelve bytes holds whole groups of four at nine places, one after the other. So of what is
//! looked through only every ninth group has to be looked up: if any text stands there, its groups are
//! met once. Which groups the texts have is kept in a table of bits that stays in the nearest cache;
//! only where one is met are texts compared. The texts lie in memory that is wiped, which is why no
//! library has them.

use std::fmt;

use crate::forms::Form;

/// Bytes that are looked up at once, if the shortest text has as many.
const GROUP: usize = 4;

/// Words in the table of bits.
const WORDS: usize = 1 << 10;

/// Texts that are looked for. Where several begin at the same place the longest one counts.
pub struct Finder {
    /// In order of their bytes.
    texts: Vec<Form>,
    /// What each text was given as.
    tags: Vec<usize>,
    /// One bit for each group that is looked up for some text; none where there are no texts.
    bits: Box<[u64]>,
    places: Vec<Place>,
    /// Which bytes of a word are its group.
    mask: u32,
    group: usize,
    stride: usize,
    longest: usize,
}

/// Where a group stands in a text.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
struct Place {
    slot: u16,
    text: usize,
    offset: usize,
}

/// Where a text stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hit {
    /// Its first byte.
    pub start: usize,
    /// The byte behind it.
    pub end: usize,
    /// What it was given as.
    pub tag: usize,
}

impl fmt::Debug for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Finder({} texts)", self.texts.len())
    }
}

impl Finder {
    /// Makes one of texts and what each is told as; of two that are the same the first counts, and empty
    /// ones are left out.
    pub fn new(texts: impl IntoIterator<Item = (Form, usize)>) -> Self {
        let mut all: Vec<(Form, usize)> = texts.into_iter().collect();
        all.retain(|(text, _)| !text.is_empty());
        all.sort_by(|(one, _), (other, _)| one.as_slice().cmp(other));
        all.dedup_by(|(later, _), (first, _)| later == first);
        let (texts, tags): (Vec<Form>, Vec<usize>) = all.into_iter().unzip();
        let lengths = || texts.iter().map(|text| text.len());
        let shortest = lengths().min().unwrap_or(GROUP);
        let group = shortest.min(GROUP);
        let mut finder = Self {
            longest: lengths().max().unwrap_or_default(),
            mask: u32::MAX >> (8 * (GROUP - group)),
            group,
            stride: shortest - group + 1,
            bits: Box::default(),
            places: Vec::new(),
            texts,
            tags,
        };
        finder.note();
        finder
    }

    /// Notes the groups of all texts.
    fn note(&mut self) {
        let mut places = Vec::with_capacity(self.texts.len() * self.stride);
        for (text, bytes) in self.texts.iter().enumerate() {
            for offset in 0..self.stride {
                let slot = self.slot(bytes, offset);
                places.extend(slot.map(|slot| Place { slot, text, offset }));
            }
        }
        if places.is_empty() {
            return;
        }
        places.sort_unstable();
        self.bits = vec![0; WORDS].into_boxed_slice();
        for place in &places {
            if let Some(word) = self.bits.get_mut(usize::from(place.slot >> 6)) {
                *word |= 1 << (place.slot & 63);
            }
        }
        self.places = places;
    }

    /// Tells whether nothing is looked for.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns how long the longest text is.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Finds the first text that stands in the bytes from there on.
    pub fn next(&self, bytes: &[u8], from: usize) -> Option<Hit> {
        if self.is_empty() {
            return None;
        }
        // A text that begins at `from` or up to a stride behind it has its group here.
        let first = from + self.stride - 1;
        for at in (first..bytes.len()).step_by(self.stride) {
            let slot = self.slot(bytes, at)?;
            if self.has(slot)
                && let Some(hit) = self.around(bytes, from, at, slot)
            {
                return Some(hit);
            }
        }
        None
    }

    /// Finds the first place from there on at which a text may stand once more is known.
    pub fn begun(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let tail = bytes.len().saturating_sub(self.longest.saturating_sub(1));
        (tail.max(from)..bytes.len()).find(|at| self.may_begin(bytes, *at))
    }

    fn may_begin(&self, bytes: &[u8], at: usize) -> bool {
        // Few places are left by this.
        if self.slot(bytes, at).is_some_and(|slot| !self.has(slot)) {
            return false;
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let after = self.texts.partition_point(|text| text.as_slice() <= rest);
        let next = self.texts.get(after);
        next.is_some_and(|text| text.starts_with(rest))
    }

    /// Finds the first text, of these the longest, that has a group at that place.
    fn around(&self, bytes: &[u8], from: usize, at: usize, slot: u16) -> Option<Hit> {
        let begin = self.places.partition_point(|place| place.slot < slot);
        let places = self.places.get(begin..).unwrap_or_default();
        let places = places.iter().take_while(|place| place.slot == slot);
        let hits = places.filter_map(|place| {
            let start = at
                .checked_sub(place.offset)
                .filter(|start| *start >= from)?;
            let text = self.texts.get(place.text)?;
            let stands = bytes.get(start..)?.starts_with(text);
            let (end, tag) = (start + text.len(), *self.tags.get(place.text)?);
            stands.then_some(Hit { start, end, tag })
        });
        hits.min_by_key(|hit| (hit.start, std::cmp::Reverse(hit.end)))
    }

    /// Returns where the group at a place of bytes is noted; none if there are not enough bytes.
    fn slot(&self, bytes: &[u8], at: usize) -> Option<u16> {
        let rest = bytes.get(at..)?;
        let word = match rest.first_chunk::<GROUP>() {
            Some(word) => u32::from_le_bytes(*word),
            None if rest.len() < self.group => return None,
            None => rest
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u32::from(*byte)),
        };
        // The golden ratio of the numbers that there are spreads them over the upper half.
        let spread = (word & self.mask).wrapping_mul(0x9e37_79b1);
        u16::try_from(spread >> 16).ok()
    }

    fn has(&self, slot: u16) -> bool {
        let word = self.bits.get(usize::from(slot >> 6)).copied();
        word.is_some_and(|word| word >> (slot & 63) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zeroize::Zeroizing;

    use super::*;

    fn finder(texts: &[String]) -> Finder {
        let texts = texts.iter().enumerate();
        Finder::new(texts.map(|(tag, text)| (Zeroizing::new(text.clone().into_bytes()), tag)))
    }

    /// What is found, read plainly: leftmost, then longest.
    fn plainly(texts: &[String], bytes: &str, from: usize) -> Option<Hit> {
        (from..bytes.len()).find_map(|start| {
            let here = texts
                .iter()
                .filter(|text| bytes[start..].starts_with(*text));
            let text = here.max_by_key(|text| text.len())?;
            let tag = texts.iter().position(|one| one == text)?;
            Some(Hit {
                start,
                end: start + text.len(),
                tag,
            })
        })
    }

    fn begun_plainly(texts: &[String], bytes: &str, from: usize) -> Option<usize> {
        (from..bytes.len()).find(|at| {
            let rest = &bytes[*at..];
            texts
                .iter()
                .any(|text| text.len() > rest.len() && text.starts_with(rest))
        })
    }

    #[test]
    fn nothing_is_found_where_nothing_is_looked_for() {
        let none = finder(&[String::new()]);
        assert!(none.is_empty());
        assert_eq!((none.next(b"abc", 0), none.begun(b"abc", 0)), (None, None));
    }

    #[test]
    fn nothing_of_a_text_is_printed() {
        assert_eq!(
            format!("{:?}", finder(&["abc".to_owned()])),
            "Finder(1 texts)"
        );
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_plainly_stands_there(
            texts in prop::collection::vec("[ab]{1,7}|[ab]{5,20}", 1..6),
            bytes in "[ab]{0,70}",
            from in 0..80_usize,
        ) {
            let finder = finder(&texts);
            prop_assert_eq!(finder.next(bytes.as_bytes(), from), plainly(&texts, &bytes, from));
            prop_assert_eq!(finder.begun(bytes.as_bytes(), from), begun_plainly(&texts, &bytes, from));
        }

        #[test]
        fn long_texts_are_found_wherever_they_stand(
            texts in prop::collection::vec("[ -~]{12,60}", 1..12),
            before in "[ -~]{0,40}",
            after in "[ -~]{0,40}",
            which in 0..12_usize,
        ) {
            let text = &texts[which % texts.len()];
            let bytes = format!("{before}{text}{after}");
            prop_assert_eq!(finder(&texts).next(bytes.as_bytes(), 0), plainly(&texts, &bytes, 0));
        }
    }
}
