//! The judgement: what clients, readers and ledgers saw from outside, against what the logs tell.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::Ordering,
};

use outlast_protocol::{Outcome, id::EventId};

use super::{client::Notes, killer::Kill, reader::Reader, report::Figures, sdk::Tally, told::Told};

/// What was found wrong, and what was counted.
#[derive(Debug, Default)]
pub(super) struct Judge {
    pub(super) figures: Figures,
    pub(super) wrong: Vec<String>,
}

impl Judge {
    /// Judges one session.
    pub(super) fn session(&mut self, notes: &Notes, told: &Told) {
        if let Some(why) = &notes.stuck {
            self.figures.stuck += 1;
            self.say(notes, format_args!("never came to rest: {why}"));
        }
        self.figures.turns += notes.turns;
        self.figures.turns_failed += count(&notes.failed);
        for error in &notes.failed {
            self.say(notes, format_args!("a turn was given up: {error}"));
        }
        self.inputs(notes, told);
        self.calls(notes, told);
    }

    /// Takes in what came of verifying a log.
    pub(super) fn log(&mut self, notes: &Notes, told: &Told, damage: Option<String>) {
        self.figures.records += count(&told.times);
        match damage {
            None => self.figures.verified += 1,
            Some(damage) => self.say(
                notes,
                format_args!("its log is not what was written: {damage}"),
            ),
        }
    }

    /// Nobody may say that a call may have run if nothing was killed that has calls.
    pub(super) fn kills(&mut self, kills: &[Kill]) {
        let doubtful = self.figures.outcomes.may_have_run();
        if doubtful > 0 && !kills.iter().any(|kill| kill.victim.has_calls()) {
            let words =
                format!("{doubtful} calls may have run, and nothing was killed that has calls");
            self.wrong.push(words);
        }
    }

    /// Takes in what clients sent.
    pub(super) fn sent(&mut self, tally: &Tally) {
        self.figures.requests = tally.requests.load(Ordering::Relaxed);
        self.figures.sent_again = tally.again.load(Ordering::Relaxed);
        self.figures.replayed = tally.replayed.load(Ordering::Relaxed);
    }

    /// Every event that was accepted stands in the log once and in the order it was accepted in,
    /// and there is none that nobody sent.
    fn inputs(&mut self, notes: &Notes, told: &Told) {
        self.figures.accepted += count(&notes.accepted);
        let stands: Vec<String> = told.inputs.iter().map(|(id, _)| id.to_string()).collect();
        let known: HashSet<&String> = stands.iter().collect();
        for lost in notes.accepted.iter().filter(|id| !known.contains(id)) {
            self.figures.lost += 1;
            self.say(
                notes,
                format_args!("{lost} was accepted and is not in the log"),
            );
        }
        let mut accepted = HashSet::new();
        let again = notes.accepted.iter().filter(|id| !accepted.insert(*id));
        let again: Vec<&String> = again.collect();
        for id in &again {
            self.figures.lost += 1;
            self.say(
                notes,
                format_args!("two requests were answered with {id}, so one was not done"),
            );
        }
        for (id, name) in &told.inputs {
            let unknown = name
                .as_ref()
                .is_some_and(|name| notes.unknown.contains(name));
            if !unknown && !accepted.contains(&id.to_string()) {
                self.figures.twice += 1;
                self.say(
                    notes,
                    format_args!("{id} is in the log, and nobody was told so"),
                );
            }
        }
        let order: Vec<&String> = stands.iter().filter(|id| accepted.contains(id)).collect();
        let sent: Vec<&String> = notes
            .accepted
            .iter()
            .filter(|id| known.contains(id))
            .collect();
        if again.is_empty() && order != sent {
            self.figures.disordered += 1;
            self.say(
                notes,
                format_args!("its events are in another order than they were accepted in"),
            );
        }
        self.placed(notes, told);
    }

    /// Each event has one place, and each message of a name is there once.
    fn placed(&mut self, notes: &Notes, told: &Told) {
        let mut names = HashMap::new();
        for (id, name) in &told.inputs {
            let places = told.placed.get(id).copied().unwrap_or(0);
            if places > 1 || (places == 0 && notes.stuck.is_none()) {
                self.figures.twice += u64::from(places > 1);
                self.figures.lost += u64::from(places == 0);
                self.say(notes, format_args!("{id} has {places} places in the log"));
            }
            if let Some(name) = name {
                *names.entry(name).or_insert(0_u32) += 1;
            }
        }
        for (name, times) in names.into_iter().filter(|(_, times)| *times > 1) {
            self.figures.twice += 1;
            self.say(
                notes,
                format_args!("message `{name}` is in the log {times} times"),
            );
        }
    }

    /// Each call is settled once and told once; it ran as often as its outcome allows.
    fn calls(&mut self, notes: &Notes, told: &Told) {
        let mut lines: HashMap<&str, u32> = HashMap::new();
        for line in notes.ledger.iter().flatten() {
            *lines.entry(line).or_default() += 1;
        }
        if notes.ledger.is_none() && notes.stuck.is_none() {
            self.say(notes, format_args!("its ledger could not be read"));
        }
        for (id, call) in &told.calls {
            if call.outcomes.len() != 1 || call.results != 1 {
                let (settled, results) = (call.outcomes.len(), call.results);
                if notes.stuck.is_none() {
                    self.say(
                        notes,
                        format_args!(
                            "call {id} is settled {settled} times and told {results} times"
                        ),
                    );
                }
            }
            let outcome = call.outcomes.first().copied();
            self.figures.outcomes.count(outcome);
            let Some(name) = &call.name else { continue };
            let ran = lines.remove(name.as_str()).unwrap_or(0);
            self.ran(notes, *id, outcome, ran);
        }
        for (name, _) in lines {
            self.figures.repeated += 1;
            self.say(
                notes,
                format_args!("`{name}` ran, and no such call is in the log"),
            );
        }
    }

    fn ran(&mut self, notes: &Notes, id: EventId, outcome: Option<Outcome>, ran: u32) {
        let Some(outcome) = outcome.filter(|_| notes.ledger.is_some()) else {
            return;
        };
        if ran > 1 {
            self.figures.repeated += 1;
            return self.say(notes, format_args!("call {id} ran {ran} times"));
        }
        let wrong = match outcome {
            Outcome::Done => ran == 0,
            Outcome::Denied | Outcome::NotStarted => ran == 1,
            Outcome::Limit | Outcome::Interrupted | Outcome::MayHaveRun => false,
        };
        if wrong {
            self.figures.untrue += 1;
            self.say(
                notes,
                format_args!("call {id} is told as {outcome:?}, and ran {ran} times"),
            );
        }
    }

    /// A reader saw every event that readers are to see, once, in order, up to the last one it saw.
    pub(super) fn reader(&mut self, seen: &Reader, told: &Told) {
        self.figures.readers += 1;
        self.figures.cuts += seen.cuts;
        self.figures.events_read += count(&seen.events);
        let ids: HashMap<u64, String> = told
            .shown
            .iter()
            .map(|(at, id)| (*at, id.to_string()))
            .collect();
        let mut last = 0;
        let mut missed: HashSet<u64> = ids.keys().copied().collect();
        for (position, id) in &seen.events {
            if *position <= last {
                self.figures.seen_twice += 1;
                self.wrong.push(format!(
                    "a reader of {} saw position {position} after {last}",
                    seen.session
                ));
            }
            if ids.get(position) != Some(id) {
                self.figures.gaps += 1;
                self.wrong.push(format!(
                    "a reader of {} saw {id} at {position}, and the log has another event there",
                    seen.session
                ));
            }
            missed.remove(position);
            last = last.max(*position);
        }
        for position in missed.into_iter().filter(|position| *position < last) {
            self.figures.gaps += 1;
            self.wrong.push(format!(
                "a reader of {} did not see position {position}",
                seen.session
            ));
        }
        let end = told.shown.last().map_or(0, |(position, _)| *position);
        if last < end {
            self.figures.gaps += 1;
            self.wrong.push(format!(
                "a reader of {} saw nothing after {last}, and the log goes on to {end}",
                seen.session
            ));
        }
    }

    fn say(&mut self, notes: &Notes, what: std::fmt::Arguments<'_>) {
        self.wrong.push(format!("{}: {what}", notes.session));
    }
}

fn count<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
