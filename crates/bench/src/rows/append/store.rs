//! The store alone, as its own example measures it: what HTTP, authentication and JSON add is the
//! difference.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use super::{GROUP, PEER};
use crate::{
    report::{Aim, Row},
    run::{Bench, say},
    stats::Samples,
};

/// Times that the example is run.
const ROUNDS: usize = 4;

/// Seconds for each number of writers.
const SECONDS: &str = "1";

/// What the example says of one number of writers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    writers: usize,
    pub(crate) rate: f64,
    pub(crate) wait: f64,
}

/// Measures it, if it was built; `peers` are the peer's rates by writers.
pub(super) async fn measure(bench: &mut Bench, peers: &[(usize, Samples)]) -> Result<Vec<Row>> {
    let Some(program) = bench.options.store.clone() else {
        bench.lacks("the store alone: no `--store` was given");
        return Ok(Vec::new());
    };
    say("  the store alone");
    let mut lines = Vec::new();
    for _ in 0..bench.options.rounds(ROUNDS) {
        lines.extend(run(&program, &bench.dir, None).await?);
    }
    peers
        .iter()
        .map(|(writers, peer)| row(*writers, peer, &lines))
        .collect()
}

/// Runs the example in a folder or on a database, with one number of writers or with its own.
pub(crate) async fn run(program: &Path, place: &Path, writers: Option<usize>) -> Result<Vec<Line>> {
    let output = Command::new(program)
        .arg(place)
        .arg(SECONDS)
        .args(writers.map(|number| number.to_string()))
        .output()
        .await?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{}: {words}", program.display());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(line).collect())
}

fn row(writers: usize, peer: &Samples, lines: &[Line]) -> Result<Row> {
    let of = lines.iter().filter(|line| line.writers == writers);
    let rates: Samples = of.clone().map(|line| line.rate).collect();
    let waits: Samples = of.map(|line| line.wait).collect();
    if rates.len() == 0 {
        return Err(anyhow::anyhow!("no line"))
            .context(format!("the store with {writers} writers"));
    }
    let row = Row::new(
        GROUP,
        format!("the store alone, {writers} writers"),
        "/s",
        &rates,
    );
    let note = format!("wait {:.2} ms", waits.median());
    Ok(row
        .beside(PEER, &rates, peer)
        .aim(Aim::Reach(1.0))
        .note(note))
}

/// Reads a line of the example's table: writers, appends a second, medians and more.
fn line(text: &str) -> Option<Line> {
    let mut words = text.split_whitespace();
    let writers = words.next()?.parse().ok()?;
    let mut number = || words.next()?.parse().ok();
    Some(Line {
        writers,
        rate: number()?,
        wait: number()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_example_is_understood() {
        assert_eq!(line("writers  appends/s  p50 ms  p99 ms"), None);
        let read = line("     64      31200    1.88    5.10");
        assert_eq!(
            read,
            Some(Line {
                writers: 64,
                rate: 31_200.0,
                wait: 1.88
            })
        );
    }
}
