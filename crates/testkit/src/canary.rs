//! Looks for secrets wherever they could have got to, in every form that they could have there.
//!
//! Whoever starts a server tells the canary each secret that it gave it; at the end everything that a
//! brain, a hand or a client could see, or that is kept, is searched. No finding quotes what was found.

mod files;
mod forms;
mod processes;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt};

use aho_corasick::{AhoCorasick, BuildError};
use outlast_protocol::seam::Entropy;

pub use files::{below, under};
pub use processes::descendants;

/// Draws a secret that nothing else looks like, of characters that every encoding writes in its own way.
///
/// It can stand in a header, a variable and a string of JSON as it is.
pub fn draw(name: &str, entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    let digits = bytes.map(|byte| format!("{byte:02x}"));
    format!("{name}-{}/?>~+=", digits.concat())
}

/// Secrets to look for.
#[derive(Clone, Default)]
pub struct Canary(Vec<(String, Vec<u8>)>);

impl Canary {
    /// Adds a secret by what it is, such as `the model's key`; one that was added before counts once.
    pub fn hide(&mut self, name: &str, secret: impl AsRef<[u8]>) {
        let secret = secret.as_ref();
        let known = self.0.iter().any(|(_, known)| known == secret);
        // What is empty stands everywhere.
        if !known && !secret.is_empty() {
            self.0.push((name.to_owned(), secret.to_vec()));
        }
    }

    /// Makes the search for all of them.
    ///
    /// # Errors
    ///
    /// If they are more than one search can take.
    pub fn search(&self) -> Result<Search, BuildError> {
        let (mut names, mut needles) = (Vec::new(), Vec::new());
        for (name, secret) in &self.0 {
            for (form, needle) in forms::of(secret) {
                names.push(format!("{name} {form}"));
                needles.push(needle);
            }
        }
        let longest = needles.iter().map(Vec::len).max().unwrap_or(0);
        let automaton = AhoCorasick::new(needles)?;
        Ok(Search {
            automaton,
            names,
            longest,
        })
    }
}

impl fmt::Debug for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_set().entries(names).finish()
    }
}

/// Looks for all forms of all secrets at once.
pub struct Search {
    automaton: AhoCorasick,
    /// What each needle is.
    names: Vec<String>,
    /// Bytes of the longest needle.
    longest: usize,
}

/// Which needles were found.
type Found = BTreeSet<usize>;

impl Search {
    /// Tells what stands in some bytes, one line each.
    pub fn bytes(&self, place: &str, bytes: &[u8]) -> Vec<String> {
        let mut found = Found::new();
        self.look(bytes, &mut found);
        self.told(place, &found)
    }

    fn look(&self, bytes: &[u8], found: &mut Found) {
        let hits = self.automaton.find_overlapping_iter(bytes);
        found.extend(hits.map(|hit| hit.pattern().as_usize()));
    }

    fn told(&self, place: &str, found: &Found) -> Vec<String> {
        let names = found.iter().filter_map(|at| self.names.get(*at));
        let told = names.map(|name| format!("a secret stands in {place}: {name}"));
        told.collect()
    }
}

impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Search({} needles)", self.names.len())
    }
}
