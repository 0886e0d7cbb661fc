//! What the egress of sandboxes adds, beside the same without it, as the room's own example measures
//! both in turns.

use anyhow::{Result, bail};
use tokio::process::Command;

use crate::{
    report::{Aim, Row},
    run::Bench,
    stats::Samples,
};

const GROUP: &str = "Egress of sandboxes, over loopback on the same processors";

/// Rounds; one has 200 small requests of each kind and one download of each.
const ROUNDS: usize = 6;

/// How large a download is, in MiB.
const LARGE: &str = "1024";

/// Measures it, if the example was built.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let Some(program) = bench.options.egress.clone() else {
        bench.lacks("egress: no `--egress` was given");
        return Ok(Vec::new());
    };
    let rounds = bench.options.rounds(ROUNDS).to_string();
    let output = Command::new(&program)
        .arg(rounds)
        .arg(LARGE)
        .output()
        .await?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {words}", program.display());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let column = |kind, at| column(&text, kind, at);
    let small = |name, at, floor, floor_name| {
        let (ours, floor) = (column("small", at), column("small", floor));
        let row = Row::new(GROUP, name, "ms", &ours);
        row.beside(floor_name, &ours, &floor).aim(Aim::Above(1.0))
    };
    let rate = |at| -> Samples { column("large", at).map(|ms| 1_024.0 * 1_024.0 * 1.024 / ms) };
    let large = |name, at, least| {
        let (ours, floor) = (rate(at), rate(0));
        let row = Row::new(GROUP, name, "MB/s", &ours);
        row.beside("directly", &ours, &floor).aim(Aim::Reach(least))
    };
    let spent = |name, at| {
        let (ours, floor) = (column("spent", at), column("spent", 0));
        let row = Row::new(GROUP, name, "ms", &ours);
        row.beside("directly", &ours, &floor)
    };
    Ok(vec![
        small("small request, tunnelled", 1, 0, "TLS directly"),
        small(
            "small request, opened for a credential",
            2,
            0,
            "TLS directly",
        ),
        small("small request, plain", 4, 3, "directly"),
        large("1 GiB, tunnelled", 1, 0.8),
        large("1 GiB, opened for a credential and swept", 2, 0.5),
        spent("processor time of 1 GiB, tunnelled", 1),
        spent("processor time of 1 GiB, opened", 2),
    ])
}

/// Reads a column of the lines of one kind.
fn column(text: &str, kind: &str, at: usize) -> Samples {
    let lines = text.lines().filter_map(|line| line.strip_prefix(kind));
    let numbers = lines.filter_map(|line| line.split_whitespace().nth(at)?.parse().ok());
    numbers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_example_are_read() {
        let text =
            "small 1.0 2.0 3.0 4.0 5.0\nlarge 7 8 9\nspent 4 5 6\nsmall 3.0 2.5 3 4 5\nelse 1\n";
        assert_eq!(column(text, "small", 0).median(), 3.0);
        assert_eq!(column(text, "large", 2).median(), 9.0);
        assert_eq!(column(text, "spent", 1).median(), 5.0);
        assert!(column(text, "large", 3).median().is_nan());
    }
}
