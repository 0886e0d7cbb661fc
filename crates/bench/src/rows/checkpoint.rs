//! A checkpoint of 100 MB and its way back, beside `tar` and `zstd`, as the driver's own example
//! measures them in turns.

use anyhow::{Result, bail};
use tokio::process::Command;

use crate::{
    relay::is_there,
    report::{Aim, Row},
    run::Bench,
    stats::Samples,
};

const GROUP: &str = "Checkpoints: a workspace of 100 MiB, half noise, half text";

/// Pairs.
const ROUNDS: usize = 12;

/// Measures them, if the example was built.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let Some(program) = bench.options.hands.clone() else {
        bench.lacks("checkpoints: no `--hands` was given");
        return Ok(Vec::new());
    };
    if !is_there("zstd".as_ref()) {
        bench.lacks("checkpoints: `zstd` is not installed");
        return Ok(Vec::new());
    }
    let rounds = bench.options.rounds(ROUNDS).to_string();
    let mut command = Command::new(&program);
    command.arg(&bench.dir).arg(rounds).arg("100");
    let output = command.output().await?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {words}", program.display());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = text.lines().filter_map(line).collect();
    let of = |pick: fn(&[f64; 6]) -> f64| lines.iter().map(pick).collect::<Samples>();
    let (pack, tar) = (of(|line| line[0]), of(|line| line[1]));
    let (unpack, untar) = (of(|line| line[2]), of(|line| line[3]));
    let size = of(|line| line[4] / f64::from(1 << 20)).median();
    let still = of(|line| line[5]);
    let take = Row::new(GROUP, "freeze, pack, verify, thaw, hand out", "ms", &pack);
    let give = Row::new(GROUP, "verify, unpack, sync", "ms", &unpack);
    Ok(vec![
        take.beside("tar | zstd -1", &pack, &tar)
            .aim(Aim::Times(1.5))
            .note(format!("{size:.0} MiB packed")),
        Row::new(
            GROUP,
            "of that everything inside stands still",
            "ms",
            &still,
        ),
        give.beside("zstd | tar, sync", &unpack, &untar)
            .aim(Aim::Times(1.5)),
    ])
}

/// Reads a line of the example's table.
fn line(text: &str) -> Option<[f64; 6]> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?, next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_example_is_read() {
        let read = line("  101.5         90.0      120.0         99.0  61000000  80.5");
        assert_eq!(read, Some([101.5, 90.0, 120.0, 99.0, 61_000_000.0, 80.5]));
        assert_eq!(line("pack ms  tar|zstd ms"), None);
    }
}
