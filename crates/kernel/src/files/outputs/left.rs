//! Which outputs are published, and what is said of the others: counts, never names.

use std::{
    collections::BTreeMap,
    fmt, io,
    sync::{Mutex, PoisonError},
};

use outlast_hands::files::Published;
use outlast_protocol::{Micros, id::SessionId};
use outlast_store::StoredFile;

/// Outputs of a session. An agent that removes files and writes others has no more of them: what was
/// published stays, and would fill the host around the bounds of the sandbox.
const MOST: usize = 1_000;

/// What outputs are allowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes of one.
    pub(super) each: u64,
    /// Bytes of all that a session has.
    pub(super) all: u64,
}

/// Sessions of which it is remembered that outputs are left out.
const REMEMBERED: usize = 1_000;

/// How many outputs are left out, and why.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Left {
    /// Beyond those that a session may have.
    pub(super) many: usize,
    /// Beyond the bytes that all of a session may have.
    pub(super) heavy: usize,
    /// Larger than a file may be.
    pub(super) large: usize,
    /// Not to be read or stored now.
    failed: usize,
    /// Why the first of these is not.
    reason: String,
}

impl Left {
    /// Counts one that cannot be read or stored now.
    pub(super) fn failed(&mut self, fault: &io::Error) {
        if self.failed == 0 {
            self.reason = fault.to_string();
        }
        self.failed += 1;
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} are beyond the {MOST} that a session may have, {} are beyond the bytes that they may \
             have together, {} are too large, {} cannot be read or stored now",
            self.many, self.heavy, self.large, self.failed
        )?;
        if self.failed > 0 {
            write!(f, " ({})", self.reason)?;
        }
        Ok(())
    }
}

/// The bytes that the outputs of a session have.
#[derive(Debug)]
pub(super) struct Weight {
    of: BTreeMap<String, u64>,
    all: u64,
}

impl Weight {
    /// Weighs what was published and is still there.
    pub(super) fn of(known: &[StoredFile]) -> Self {
        let there = known.iter().filter(|file| file.blob.is_some());
        let of: BTreeMap<_, _> = there
            .filter_map(|file| Some((file.output.as_ref()?.path.clone(), file.bytes)))
            .collect();
        let all = of
            .values()
            .fold(0, |all: u64, bytes| all.saturating_add(*bytes));
        Self { of, all }
    }

    /// Returns how many bytes an output may have now; it takes the place of what had its path.
    pub(super) fn room(&self, path: &str, bounds: Bounds) -> u64 {
        let own = self.of.get(path).copied().unwrap_or_default();
        bounds.all.saturating_sub(self.all - own).min(bounds.each)
    }

    /// Counts one that is published.
    pub(super) fn take(&mut self, path: &str, bytes: u64) {
        let own = self.of.insert(path.to_owned(), bytes).unwrap_or_default();
        self.all = (self.all - own).saturating_add(bytes);
    }
}

/// Chooses what is published of what a hand lists: what has changed, as far as there are places and
/// bytes.
pub(super) fn choose(
    listed: Vec<Published>,
    known: &[StoredFile],
    bounds: Bounds,
) -> (Vec<Published>, Left) {
    let mut weight = Weight::of(known);
    let rows = known
        .iter()
        .filter_map(|file| Some((file.output.as_ref()?, file.blob.is_some())));
    let rows: BTreeMap<_, _> = rows
        .map(|(output, there)| (output.path.as_str(), (output.version.as_str(), there)))
        .collect();
    let taken = rows.values().filter(|(_, there)| *there).count();
    let mut places = MOST.saturating_sub(taken);
    let mut left = Left::default();
    let mut chosen = Vec::new();
    for output in listed {
        let row = rows.get(output.path.as_str());
        if row.is_some_and(|(version, _)| *version == output.version) {
            continue;
        }
        let has_place = row.is_some_and(|(_, there)| *there);
        if output.bytes > bounds.each {
            left.large += 1;
        } else if !has_place && places == 0 {
            left.many += 1;
        } else if output.bytes > weight.room(&output.path, bounds) {
            left.heavy += 1;
        } else {
            places -= usize::from(!has_place);
            weight.take(&output.path, output.bytes);
            chosen.push(output);
        }
    }
    (chosen, left)
}

/// What was last said of each session.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<BTreeMap<SessionId, (Left, Micros)>>);

impl Told {
    /// Says what is left out, if that was not said before.
    pub(super) fn tell(&self, session: SessionId, left: Left, at: Micros) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if left == Left::default() {
            all.remove(&session);
            return;
        }
        if all.get(&session).is_some_and(|(said, _)| *said == left) {
            return;
        }
        tracing::warn!(session.id = %session, "outputs are not published: {left}");
        all.insert(session, (left, at));
        if all.len() > REMEMBERED {
            // That of the oldest session.
            all.pop_first();
        }
    }

    /// Returns when that was last said of a session, if it still holds.
    pub(super) fn since(&self, session: SessionId) -> Option<Micros> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&session).map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests;
