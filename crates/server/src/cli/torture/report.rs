//! What a storm came to, for people and for machines.

use std::collections::BTreeMap;

use outlast_protocol::{Outcome, id::IncarnationId};
use serde::Serialize;

use super::{killer::Victim, resume::Times};

/// Violations that people are shown; machines get all.
const SHOWN: usize = 20;

/// What was counted.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    pub(super) turns: u64,
    /// Turns that ended in an error, after whatever kills.
    pub(super) turns_failed: u64,
    /// Events of clients that were accepted.
    pub(super) accepted: u64,
    /// Of these, those that are not in their log, or not taken in.
    pub(super) lost: u64,
    /// Events that are in a log once too often.
    pub(super) twice: u64,
    /// Sessions whose events are in another order.
    pub(super) disordered: u64,
    pub(super) requests: u64,
    /// Sendings of a request beyond its first.
    pub(super) sent_again: u64,
    /// Answers that were those of an earlier sending.
    pub(super) replayed: u64,
    pub(super) outcomes: Outcomes,
    /// Calls that ran more than once, or that no log has.
    pub(super) repeated: u64,
    /// Calls that did not run as often as they are told to have run.
    pub(super) untrue: u64,
    pub(super) readers: u64,
    pub(super) events_read: u64,
    /// Connections that readers broke themselves.
    pub(super) cuts: u64,
    /// Events that a reader did not see.
    pub(super) gaps: u64,
    /// Events that a reader saw again.
    pub(super) seen_twice: u64,
    /// Logs that were verified.
    pub(super) verified: u64,
    pub(super) records: u64,
    /// Sessions that did not come to rest.
    pub(super) stuck: u64,
}

/// How calls ended.
#[derive(Debug, Default, Serialize)]
pub(super) struct Outcomes {
    done: u64,
    limit: u64,
    interrupted: u64,
    denied: u64,
    not_started: u64,
    may_have_run: u64,
    never: u64,
}

impl Outcomes {
    pub(super) fn may_have_run(&self) -> u64 {
        self.may_have_run
    }

    pub(super) fn count(&mut self, outcome: Option<Outcome>) {
        let one = match outcome {
            Some(Outcome::Done) => &mut self.done,
            Some(Outcome::Limit) => &mut self.limit,
            Some(Outcome::Interrupted) => &mut self.interrupted,
            Some(Outcome::Denied) => &mut self.denied,
            Some(Outcome::NotStarted) => &mut self.not_started,
            Some(Outcome::MayHaveRun) => &mut self.may_have_run,
            None => &mut self.never,
        };
        *one += 1;
    }
}

/// What came of a storm.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) seed: u64,
    pub(super) sessions: usize,
    pub(super) seconds: f64,
    pub(super) database: String,
    pub(super) dir: String,
    pub(super) kills: BTreeMap<Victim, u64>,
    /// How long sessions at work stood still, in seconds.
    pub(super) resumed: Times,
    pub(super) resumed_after: BTreeMap<Victim, Times>,
    /// How long a database server that was killed was away itself, in seconds: nothing goes on sooner.
    pub(super) database_away: Times,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Every hand that there was.
    #[serde(skip)]
    pub(super) hands: Vec<IncarnationId>,
    /// Everything that must not be; empty if nothing was lost.
    pub(super) violations: Vec<String>,
}

impl Report {
    /// Writes it for people.
    pub(super) fn text(&self) -> String {
        let figures = &self.figures;
        let mut out = format!(
            "torture: {} sessions on {} for {:.0} s, seed {}\n",
            self.sessions, self.database, self.seconds, self.seed
        );
        let mut line = |name: &str, words: String| out.push_str(&format!("  {name:<12}{words}\n"));
        line("kills", self.kills());
        line(
            "events",
            format!(
                "{} accepted, {} lost, {} twice, {} sessions out of order",
                figures.accepted, figures.lost, figures.twice, figures.disordered
            ),
        );
        line(
            "requests",
            format!(
                "{}, sent again {} times, {} answered from a receipt",
                figures.requests, figures.sent_again, figures.replayed
            ),
        );
        let ends = &figures.outcomes;
        line(
            "calls",
            format!(
                "{} done, {} may have run, {} not started, {} interrupted, {} denied, {} at a limit",
                ends.done,
                ends.may_have_run,
                ends.not_started,
                ends.interrupted,
                ends.denied,
                ends.limit
            ),
        );
        line(
            "",
            format!(
                "{} repeated, {} told untruly",
                figures.repeated, figures.untrue
            ),
        );
        line(
            "turns",
            format!(
                "{}, {} given up, {} sessions stuck",
                figures.turns, figures.turns_failed, figures.stuck
            ),
        );
        line(
            "readers",
            format!(
                "{} of {} events, cut off by themselves {} times: {} gaps, {} seen twice",
                figures.readers,
                figures.events_read,
                figures.cuts,
                figures.gaps,
                figures.seen_twice
            ),
        );
        line(
            "logs",
            format!("{} verified, {} records", figures.verified, figures.records),
        );
        line("resumed", times(&self.resumed));
        for (victim, after) in &self.resumed_after {
            line("", format!("after {}: {}", victim.word(), times(after)));
        }
        if self.database_away.count > 0 {
            let words = format!("the database itself: {}", times(&self.database_away));
            line("", words);
        }
        self.verdict(&mut out);
        out
    }

    fn kills(&self) -> String {
        let sum: u64 = self.kills.values().sum();
        let each = self.kills.iter();
        let each: Vec<_> = each
            .map(|(victim, count)| format!("{} {count}", victim.word()))
            .collect();
        format!("{sum}: {}", each.join(", "))
    }

    fn verdict(&self, out: &mut String) {
        if self.violations.is_empty() {
            out.push_str("nothing was lost\n");
            return;
        }
        out.push_str(&format!("{} violations:\n", self.violations.len()));
        for words in self.violations.iter().take(SHOWN) {
            out.push_str(&format!("  {words}\n"));
        }
        if self.violations.len() > SHOWN {
            out.push_str("  ... --json has all\n");
        }
        out.push_str(&format!("what is left of it is in {}\n", self.dir));
    }
}

fn times(times: &Times) -> String {
    let Times {
        count,
        p50,
        p95,
        max,
    } = times;
    format!("p50 {p50:.2} s, p95 {p95:.2} s, max {max:.2} s ({count} times)")
}
