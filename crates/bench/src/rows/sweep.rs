//! The sweep, as the room's own example measures it.

use anyhow::{Result, bail};
use tokio::process::Command;

use crate::{
    report::{Aim, Row},
    run::Bench,
    stats::Samples,
};

const GROUP: &str = "The sweep: 1 MB, 20 secrets";

/// Looks.
const ROUNDS: usize = 50;

/// Measures it, if the example was built.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let Some(program) = bench.options.sweep.clone() else {
        bench.lacks("the sweep: no `--sweep` was given");
        return Ok(Vec::new());
    };
    let rounds = bench.options.rounds(ROUNDS).to_string();
    let output = Command::new(&program).arg(rounds).output().await?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {words}", program.display());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = text.lines().filter_map(line).collect();
    let of = |pick: fn(&[f64; 4]) -> f64| lines.iter().map(pick).collect::<Samples>();
    let row = |what, pick: fn(&[f64; 4]) -> f64| Row::new(GROUP, what, "ms", &of(pick));
    Ok(vec![
        row("text of a build", |line| line[0]).aim(Aim::Most(2.0)),
        row("JSON in a string of JSON", |line| line[1]).aim(Aim::Most(2.0)),
        row("Base64 in lines", |line| line[2]).aim(Aim::Most(2.0)),
        row("make what finds them, once per change", |line| line[3]),
    ])
}

/// Reads a line of the example's table.
fn line(text: &str) -> Option<[f64; 4]> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_example_is_read() {
        let read = line("  0.512    1.250      1.750    3.000");
        assert_eq!(read, Some([0.512, 1.25, 1.75, 3.0]));
        assert_eq!(line("text ms  JSON ms  Base64 ms  make ms"), None);
    }
}
