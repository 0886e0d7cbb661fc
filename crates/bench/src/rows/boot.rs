//! From the start of the process to the first good `/readyz`.

use std::process::Stdio;

use anyhow::Result;
use tokio::{process::Command, time::Instant};

use super::fill;
use crate::{
    api::Client,
    report::{Aim, Row},
    run::Bench,
    stats::Samples,
};

const GROUP: &str = "Boot to serving";

/// Starts of each kind.
const ROUNDS: usize = 20;

/// Sessions at rest.
const SESSIONS: usize = 10_000;

/// Measures starts on a new directory, on one that was used, and on one with many sessions.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let (used, full) = (bench.setup("boot-used"), bench.setup("boot-full"));
    used.start().await?.stop().await?;
    let server = full.start().await?;
    let mut client = Client::scripted(server.address).await?;
    fill::sessions(&mut client, server.address, SESSIONS).await?;
    server.stop().await?;
    let new = Samples::default;
    let (mut first, mut again, mut many, mut floor) = (new(), new(), new(), new());
    for round in 0..bench.options.rounds(ROUNDS) {
        floor.push_ms(version(bench).await?);
        let fresh = bench.setup(&format!("boot-{round}"));
        for (setup, samples) in [
            (&fresh, &mut first),
            (&used, &mut again),
            (&full, &mut many),
        ] {
            let server = setup.start().await?;
            samples.push_ms(server.boot);
            server.stop().await?;
        }
    }
    let row = |name: &str, ours: &Samples| {
        let row = Row::new(GROUP, name, "ms", ours);
        row.beside("`outlast --version`", ours, &floor)
            .aim(Aim::Most(100.0))
    };
    Ok(vec![
        row("on a new data directory", &first),
        row("on an empty one", &again),
        row("on one with 10,000 sessions", &many),
    ])
}

/// Starts the program for nothing.
async fn version(bench: &Bench) -> Result<std::time::Duration> {
    let begun = Instant::now();
    let mut command = Command::new(&bench.options.binary);
    command
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .await?;
    Ok(begun.elapsed())
}
