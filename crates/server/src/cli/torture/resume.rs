//! How long sessions stood still after a kill, as their logs tell it.

use std::time::Duration;

use outlast_protocol::Micros;
use serde::Serialize;

use super::{
    killer::{Kill, Victim},
    told::Told,
};

/// Times in order, in seconds.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Times {
    /// How many there are.
    pub(super) count: usize,
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) max: f64,
}

impl Times {
    pub(super) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let index = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(index).map_or(0.0, Duration::as_secs_f64)
        };
        Self {
            count: times.len(),
            p50: at(50),
            p95: at(95),
            max: at(100),
        }
    }
}

/// Returns how long each session that a kill concerned stood still: from the kill to the next
/// record of its log.
///
/// Where another kill held it up before that record, the session is counted with that one: it stood
/// still because of both, and nobody can tell how long it would have because of the first.
pub(super) fn stood_still(kill: &Kill, kills: &[Kill], logs: &[Told]) -> Vec<Duration> {
    let concerned = logs.iter().filter(|told| concerns(kill, told));
    let waits = concerned.filter_map(|told| {
        let wait = next(told, kill.at)?;
        let mut later = kills.iter().filter(|other| other.at > kill.at);
        let again = later.any(|other| other.at.since(kill.at) < wait && holds_up(other, told));
        (!again).then_some(wait)
    });
    waits.collect()
}

/// Tells whether a session that stands still already has to wait for this one too.
fn holds_up(kill: &Kill, told: &Told) -> bool {
    match kill.victim {
        Victim::Server | Victim::Backends | Victim::Database => true,
        Victim::HandHost | Victim::Sandbox => concerns(kill, told),
    }
}

/// Tells whether a session was at work where something was killed.
fn concerns(kill: &Kill, told: &Told) -> bool {
    let at = kill.at.0;
    match kill.victim {
        Victim::Server | Victim::Backends | Victim::Database => told
            .held
            .iter()
            .any(|(from, until)| *from <= at && at < *until),
        Victim::HandHost | Victim::Sandbox => told.running.iter().any(|(from, until, hand)| {
            let one = kill.victim == Victim::HandHost || kill.hand == Some(*hand);
            one && *from <= at && at < *until
        }),
    }
}

fn next(told: &Told, after: Micros) -> Option<Duration> {
    let index = told.times.partition_point(|at| *at <= after.0);
    told.times.get(index).map(|at| Micros(*at).since(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_at_their_rank() {
        let ms = |ms| Duration::from_millis(ms);
        let times = Times::of((1..=100).rev().map(ms).collect());
        assert_eq!((times.p50, times.p95, times.max), (0.05, 0.095, 0.1));
        let one = Times::of(vec![ms(7)]);
        assert_eq!((one.count, one.p50, one.max), (1, 0.007, 0.007));
        assert_eq!(Times::of(Vec::new()).max, 0.0);
    }

    #[test]
    fn only_those_at_work_stood_still() {
        let kill = |victim| Kill {
            victim,
            at: Micros(50),
            hand: None,
            away: None,
        };
        let mut works = Told {
            times: vec![10, 40, 90],
            held: vec![(10, 90)],
            ..Told::default()
        };
        let rests = Told {
            times: vec![10, 90],
            held: vec![(10, 20)],
            ..Told::default()
        };
        works.end();
        let logs = [works, rests];
        let waited = stood_still(&kill(Victim::Server), &[], &logs);
        assert_eq!(waited, [Duration::from_micros(40)]);
        assert_eq!(
            stood_still(&kill(Victim::HandHost), &[], &logs),
            [] as [Duration; 0]
        );
    }

    #[test]
    fn one_that_is_hit_again_is_counted_from_the_last_time() {
        let kill = |at| Kill {
            victim: Victim::Server,
            at: Micros(at),
            hand: None,
            away: None,
        };
        let works = Told {
            times: vec![10, 90, 200],
            held: vec![(10, 200)],
            ..Told::default()
        };
        let (kills, logs) = ([kill(50), kill(70), kill(120)], [works]);
        let waited = |at: usize| stood_still(&kills[at], &kills, &logs);
        assert_eq!(waited(0), [] as [Duration; 0]);
        assert_eq!(waited(1), [Duration::from_micros(20)]);
        assert_eq!(waited(2), [Duration::from_micros(80)]);
    }
}
