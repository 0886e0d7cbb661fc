//! Prints how long a checkpoint of a workspace takes, and its way back, beside `tar` and `zstd`.
//!
//! `cargo run --release -p outlast-hands --example checkpoints -- [directory] [rounds] [MiB]`.
//! The workspace is half noise and half text, in files of 64 KiB. The sandbox stands still while it is
//! packed and read back, which the tools do not do; for how long is the last column.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use metrics::{
    Counter as Count, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use outlast_hands::{
    Fence, Limits, Provisioner as _, Recipe,
    files::{Packed, Sum},
    namespace::{Namespaces, Options},
};
use outlast_protocol::{
    Micros,
    id::{EventId, IncarnationId},
    seam::Entropy,
};
use serde_json::value::RawValue;
use tokio::time::Instant;

type Fault = Box<dyn std::error::Error>;

/// Makes a folder of so many files, of 64 KiB each, every other one noise.
const MAKE: &str = "mkdir -p d && cd d && for i in $(seq $COUNT); do \
    if [ $((i % 2)) = 0 ]; then head -c 65536 /dev/urandom; else seq $i $((i + 20000)) | head -c 65536; fi > f$i; \
    done";

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let mut arguments = std::env::args().skip(1);
    let home = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let mut number = |other| {
        let text = arguments.next();
        text.and_then(|text| text.parse().ok()).unwrap_or(other)
    };
    let (rounds, mebibytes) = (number(5_u64), number(100_u64));
    metrics::set_global_recorder(Figures)?;
    let room = tempfile::tempdir_in(home)?;
    let driver = Namespaces::new(Options::at(room.path().join("hands"))).await?;
    let recipe = recipe();
    let script = MAKE.replace("$COUNT", &(mebibytes * 16).to_string());
    let hand = driver.provision(&recipe).await?;
    let input = serde_json::to_string(&serde_json::json!({ "command": script }))?;
    let fence = Fence {
        thread: 0,
        epoch: 1,
    };
    let (call, input) = (EventId::mint(NOW, &Counter), RawValue::from_string(input)?);
    let made = hand.execute(fence, call, "bash", &input).await?;
    if made.is_error {
        return Err(format!("{made:?}").into());
    }
    let plain = room.path().join("plain");
    std::fs::create_dir(&plain)?;
    run(Command::new("bash")
        .args(["-c", &script])
        .current_dir(&plain))?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "pack ms  tar|zstd ms  unpack ms  zstd|tar ms  bytes  still ms"
    )?;
    for _ in 0..rounds {
        let pack = room.path().join("pack");
        let (took, sum) = take(&driver, recipe.incarnation, &pack).await?;
        let theirs = room.path().join("theirs");
        let tar = shell(
            &plain,
            &format!("tar -cf - . | zstd -q -1 -o {}", theirs.display()),
        )?;
        let (new, back) = give(&driver, &pack, &sum).await?;
        let to = room.path().join("back");
        std::fs::create_dir(&to)?;
        let untar = shell(
            &to,
            &format!("zstd -q -dc {} | tar -xf -; sync -f .", theirs.display()),
        )?;
        std::fs::remove_dir_all(&to)?;
        std::fs::remove_file(&theirs)?;
        driver.reap(new, outlast_hands::Keep::Nothing).await?;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        writeln!(
            out,
            "{:7.1}  {:11.1}  {:9.1}  {:11.1}  {}  {:.1}",
            ms(took),
            ms(tar),
            ms(back),
            ms(untar),
            sum.bytes,
            f64::from_bits(STILL.load(Ordering::Relaxed)) * 1e3
        )?;
    }
    driver.shutdown().await;
    Ok(())
}

/// How long the sandbox stood still for the last checkpoint: the bits of seconds.
static STILL: AtomicU64 = AtomicU64::new(0);

/// Keeps the one figure that is asked for.
#[derive(Debug)]
struct Figures;

impl HistogramFn for Figures {
    fn record(&self, value: f64) {
        STILL.store(value.to_bits(), Ordering::Relaxed);
    }
}

impl Recorder for Figures {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Count {
        Count::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match key.name() {
            "outlast_hands_frozen_seconds" => Histogram::from_arc(Arc::new(Self)),
            _ => Histogram::noop(),
        }
    }
}

/// Takes a checkpoint into a file.
async fn take(
    driver: &Namespaces,
    incarnation: IncarnationId,
    to: &Path,
) -> Result<(Duration, Sum), Fault> {
    let began = Instant::now();
    let Packed { sum, mut content } = driver.checkpoint(incarnation).await?;
    let mut file = tokio::fs::File::create(to).await?;
    tokio::io::copy(&mut content, &mut file).await?;
    Ok((began.elapsed(), sum))
}

/// Lays a checkpoint for a new life.
async fn give(
    driver: &Namespaces,
    from: &Path,
    sum: &Sum,
) -> Result<(IncarnationId, Duration), Fault> {
    let new = recipe().incarnation;
    let began = Instant::now();
    let content = Box::pin(tokio::fs::File::open(from).await?);
    let sum = sum.clone();
    driver
        .restore(new, &Limits::default(), Packed { sum, content })
        .await?;
    Ok((new, began.elapsed()))
}

/// Runs a line of a shell and says how long it took.
fn shell(at: &Path, line: &str) -> Result<Duration, Fault> {
    let began = Instant::now();
    run(Command::new("bash")
        .args(["-c", &format!("set -o pipefail; {line}")])
        .current_dir(at))?;
    Ok(began.elapsed())
}

fn run(command: &mut Command) -> Result<(), Fault> {
    let status = command.stdin(Stdio::null()).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?} ended with {status}").into())
    }
}

/// The moment that ids are drawn at.
const NOW: Micros = Micros(1_700_000_000_000_000);

fn recipe() -> Recipe {
    Recipe::new(IncarnationId::mint(NOW, &Counter))
}

/// Counts up.
#[derive(Debug)]
struct Counter;

impl Entropy for Counter {
    fn fill(&self, buffer: &mut [u8]) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        buffer.fill(0);
        for (slot, byte) in buffer.iter_mut().zip(next.to_be_bytes()) {
            *slot = byte;
        }
    }
}
