//! Bytes of the binary.

use std::{fs, process::Command};

use anyhow::Result;

use crate::{report::Row, run::Bench, stats::Samples};

const GROUP: &str = "Size of the binary";

const MIB: f64 = 1024.0 * 1024.0;

/// Looks at the file, and at a copy without symbols.
pub(crate) fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut rows = vec![row(
        "as built, with line tables",
        fs::metadata(&bench.options.binary)?.len(),
    )];
    let copy = bench.dir.join("stripped");
    let strip = Command::new("strip")
        .arg("-o")
        .arg(&copy)
        .arg(&bench.options.binary)
        .status();
    if strip.is_ok_and(|status| status.success()) {
        rows.push(row("stripped", fs::metadata(copy)?.len()));
    } else {
        bench.lacks("the stripped size: `strip` is not installed");
    }
    Ok(rows)
}

fn row(name: &str, bytes: u64) -> Row {
    #[expect(
        clippy::cast_precision_loss,
        reason = "files are far smaller than 2^52 bytes"
    )]
    let size: Samples = [bytes as f64 / MIB].into_iter().collect();
    Row::new(GROUP, name, "MiB", &size)
}
