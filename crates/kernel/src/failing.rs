//! What this process knows of a store that takes nothing.

use outlast_protocol::{Micros, diagnosis::StoreFailure};
use outlast_store::Lack;

use crate::kernel::Inner;

/// The newest failure, and since when there was nothing else.
#[derive(Debug, Default)]
pub(crate) struct Failing {
    last: Option<(Lack, Micros)>,
    /// Since when appends have failed, one after another.
    since: Option<Micros>,
}

impl Failing {
    pub(crate) fn failed(&mut self, lack: Lack, at: Micros) {
        self.last = Some((lack, at));
        self.since.get_or_insert(at);
    }

    /// Notes what was missing elsewhere than for an append.
    pub(crate) fn met(&mut self, lack: Lack, at: Micros) {
        self.last = Some((lack, at));
    }

    /// Notes that an append succeeded.
    pub(crate) fn ended(&mut self) {
        self.since = None;
    }

    /// Returns it in the words of a diagnosis.
    fn told(&self) -> Option<StoreFailure> {
        let (lack, at) = self.last?;
        Some(failure(lack, at, self.since))
    }
}

fn failure(lack: Lack, at: Micros, since: Option<Micros>) -> StoreFailure {
    let kind = match lack {
        Lack::Room => StoreFailure::FULL,
        Lack::Other => "unavailable",
    };
    StoreFailure {
        kind: kind.to_owned(),
        at,
        since,
    }
}

/// Puts together what two know: the newest failure, and the longest time without anything else.
fn both(one: Option<StoreFailure>, other: Option<StoreFailure>) -> Option<StoreFailure> {
    let all: Vec<StoreFailure> = one.into_iter().chain(other).collect();
    let since = all.iter().filter_map(|failure| failure.since).min();
    let newest = all.into_iter().max_by_key(|failure| failure.at)?;
    Some(StoreFailure { since, ..newest })
}

impl Inner {
    /// Returns how the store, or the place for files, failed last, and whether it still does: of
    /// whatever write, for whomever.
    pub(crate) fn store_failure(&self) -> Option<StoreFailure> {
        let of_the_store = self.store.trouble().map(|trouble| {
            let since = trouble.lasts.map(|lasts| self.ago(lasts));
            failure(trouble.lack, self.ago(trouble.ago), since)
        });
        both(self.failing().told(), of_the_store)
    }

    /// Notes that there was no room for a blob; what else is wrong with one may be its content.
    pub(crate) fn lacked(&self, fault: Option<&outlast_blobs::Error>) {
        if let Some(outlast_blobs::Error::Unavailable { reason, .. }) = fault
            && reason.is_full()
        {
            self.failing().met(reason.lack, self.clock.now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_failure_is_told_and_since_when_nothing_else_happened() {
        let mut failing = Failing::default();
        assert_eq!(failing.told(), None);
        failing.failed(Lack::Other, Micros(1));
        failing.failed(Lack::Room, Micros(2));
        let told = |since: Option<i64>| {
            Some(StoreFailure {
                kind: "disk_full".to_owned(),
                at: Micros(2),
                since: since.map(Micros),
            })
        };
        assert_eq!(failing.told(), told(Some(1)));
        failing.ended();
        assert_eq!(failing.told(), told(None));
        failing.met(Lack::Other, Micros(3));
        let met = failing.told().unwrap();
        assert_eq!((&*met.kind, met.since), ("unavailable", None));
    }

    #[test]
    fn of_two_the_newest_is_told_and_the_longest() {
        let of = |at, since: Option<i64>| Some(failure(Lack::Room, Micros(at), since.map(Micros)));
        assert_eq!(both(None, None), None);
        assert_eq!(both(of(1, None), None), of(1, None));
        assert_eq!(both(of(1, None), of(2, Some(1))), of(2, Some(1)));
        assert_eq!(both(of(5, Some(3)), of(2, Some(1))), of(5, Some(1)));
    }
}
