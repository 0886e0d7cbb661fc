//! What is said of a run: rows beside their floors, as a table and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{
    machine::Machine,
    stats::{Samples, Summary},
};

/// What a row is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Aim {
    /// At most so much above the floor.
    Above(f64),
    /// At most so many times the floor.
    Times(f64),
    /// At least so many times the floor.
    Reach(f64),
    /// At most this, whatever the floor.
    Most(f64),
    /// Shown to explain the others.
    None,
}

/// One thing that was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    group: &'static str,
    name: String,
    unit: &'static str,
    ours: Summary,
    floor: Option<Floor>,
    aim: Aim,
    /// Whether the aim was met at the median; nothing follows from it.
    met: Option<bool>,
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
}

/// What a row stands beside.
#[derive(Clone, Debug, Serialize)]
struct Floor {
    name: &'static str,
    value: Summary,
    /// Medians over pairs of one round, where there are pairs; else of the medians.
    ratio: f64,
    above: f64,
}

impl Row {
    /// Makes a row without floor and aim.
    pub(crate) fn new(
        group: &'static str,
        name: impl Into<String>,
        unit: &'static str,
        ours: &Samples,
    ) -> Self {
        let (ours, name) = (ours.summary(), name.into());
        Self {
            group,
            name,
            unit,
            ours,
            floor: None,
            aim: Aim::None,
            met: None,
            note: String::new(),
        }
    }

    /// Sets the floor; `ours` and `floor` are of the same rounds.
    pub(crate) fn beside(mut self, name: &'static str, ours: &Samples, floor: &Samples) -> Self {
        let value = floor.summary();
        let or = |paired: f64, plain: f64| if paired.is_nan() { plain } else { paired };
        let ratio = ours.paired(floor, |ours, floor| ours / floor).median();
        let above = ours.paired(floor, |ours, floor| ours - floor).median();
        self.floor = Some(Floor {
            name,
            value,
            ratio: or(ratio, self.ours.p50 / value.p50),
            above: or(above, self.ours.p50 - value.p50),
        });
        self.judged()
    }

    /// Sets the aim.
    pub(crate) fn aim(mut self, aim: Aim) -> Self {
        self.aim = aim;
        self.judged()
    }

    /// Says something to the row.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    fn judged(mut self) -> Self {
        let floor = self.floor.as_ref();
        self.met = match self.aim {
            Aim::Above(most) => floor.map(|floor| floor.above <= most),
            Aim::Times(most) => floor.map(|floor| floor.ratio <= most),
            Aim::Reach(least) => floor.map(|floor| floor.ratio >= least),
            Aim::Most(most) => Some(self.ours.p50 <= most),
            Aim::None => None,
        };
        self
    }

    fn aimed(&self) -> String {
        let unit = self.unit;
        match self.aim {
            Aim::Above(most) => format!("floor + {} {unit}", short(most)),
            Aim::Times(most) => format!("at most {} x floor", short(most)),
            Aim::Reach(least) => format!("at least {} x floor", short(least)),
            Aim::Most(most) => format!("at most {} {unit}", short(most)),
            Aim::None => String::new(),
        }
    }

    fn line(&self) -> String {
        let Self {
            name,
            unit,
            ours,
            floor,
            met,
            note,
            ..
        } = self;
        let spread = if ours.count > 1 {
            format!(
                " ({}-{}, p95 {})",
                short(ours.p25),
                short(ours.p75),
                short(ours.p95)
            )
        } else {
            String::new()
        };
        let floor = floor.as_ref().map_or(String::new(), |floor| {
            let (at, above) = (short(floor.value.p50), short(floor.above));
            let sign = if floor.above >= 0.0 { "+" } else { "" };
            format!(
                "{} {at}; {} x, {sign}{above}",
                floor.name,
                short(floor.ratio)
            )
        });
        let met = match met {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "",
        };
        let (ours, aim) = (short(ours.p50), self.aimed());
        format!("| {name} | {ours} {unit}{spread} | {floor} | {aim} | {met} | {note} |")
    }
}

/// A whole run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) version: String,
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    pub(crate) rows: Vec<Row>,
    /// What could not be measured, and why.
    pub(crate) missing: Vec<String>,
}

impl Report {
    /// Writes the table.
    pub(crate) fn table(&self) -> String {
        let mut out = String::new();
        // Writing to a string never fails.
        let _ = writeln!(out, "{}; {}", self.version, self.machine);
        if self.quick {
            let _ = writeln!(out, "A quick run: a quarter of the rounds.");
        }
        let mut group = "";
        for row in &self.rows {
            if row.group != group {
                group = row.group;
                let _ = write!(out, "\n### {group}\n\n");
                out.push_str("| What | Ours: median (quartiles) | Floor: median; ratio, difference | Aim | | Note |\n");
                out.push_str("| --- | --- | --- | --- | --- | --- |\n");
            }
            let _ = writeln!(out, "{}", row.line());
        }
        for words in &self.missing {
            let _ = writeln!(out, "\nNot measured: {words}");
        }
        out
    }
}

/// Writes a number with three digits that mean something.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        values.iter().copied().collect()
    }

    #[test]
    fn a_row_is_judged_by_its_pairs() {
        let (ours, floor) = (samples(&[2.0, 12.0, 3.0]), samples(&[1.0, 11.0, 1.0]));
        let row = Row::new("Appends", "one", "ms", &ours).beside("sync", &ours, &floor);
        let line = row.clone().aim(Aim::Above(1.0)).line();
        let spread = "3.00 ms (3.00-12.0, p95 12.0)";
        assert_eq!(
            line,
            format!("| one | {spread} | sync 1.00; 2.00 x, +1.00 | floor + 1.00 ms | met |  |")
        );
        assert_eq!(row.clone().aim(Aim::Times(1.5)).met, Some(false));
        assert_eq!(row.clone().aim(Aim::Reach(1.5)).met, Some(true));
        assert_eq!(row.aim(Aim::Most(2.5)).met, Some(false));
    }

    #[test]
    fn what_stands_alone_is_judged_alone() {
        let row = Row::new("Boot", "empty", "ms", &samples(&[41.0])).aim(Aim::Most(100.0));
        assert_eq!(
            row.line(),
            "| empty | 41.0 ms |  | at most 100 ms | met |  |"
        );
        let row = Row::new("Boot", "empty", "ms", &samples(&[41.0])).aim(Aim::Above(1.0));
        assert_eq!(row.met, None);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.123, 9.999, 12.34, 99.96, 1234.5].map(short),
            ["0.12", "10.0", "12.3", "100", "1234"]
        );
    }
}
