//! Logs and metrics: nothing here is installed unless it is asked for, once per process.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::{
    Layer as _, fmt::MakeWriter, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::config::{Format, Impossible, Log};

/// Upper bounds of histogram buckets, in seconds: from a quick append to a slow model.
const BUCKETS: [f64; 16] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0,
    300.0,
];

static METRICS: OnceLock<PrometheusHandle> = OnceLock::new();

/// Installs the log of this process; a second call is refused by `tracing` and changes nothing.
///
/// # Errors
///
/// If the level cannot be read.
pub fn install_log<W>(log: &Log, terminal: bool, writer: W) -> Result<(), Impossible>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let json = match log.format {
        Format::Json => true,
        Format::Text => false,
        Format::Auto => !terminal,
    };
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_target(true);
    let layer = if json {
        layer
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .boxed()
    } else {
        layer.with_ansi(terminal && colours()).compact().boxed()
    };
    let registry = tracing_subscriber::registry().with(layer.with_filter(log.filter()?));
    // Whoever embeds the server may have installed a log of its own: that one counts.
    drop(registry.try_init());
    Ok(())
}

/// Installs the metrics of this process, once; later calls return the same handle.
///
/// # Errors
///
/// If another recorder is installed.
pub fn install_metrics() -> Result<PrometheusHandle, BuildError> {
    let is_new = METRICS.get().is_none();
    let handle = install_figures()?;
    if is_new {
        describe();
    }
    Ok(handle)
}

/// Installs metrics without a word of the server, for a process whose figures the server shows.
///
/// # Errors
///
/// If another recorder is installed.
pub(crate) fn install_figures() -> Result<PrometheusHandle, BuildError> {
    if let Some(handle) = METRICS.get() {
        return Ok(handle.clone());
    }
    let handle = PrometheusBuilder::new()
        .set_buckets(&BUCKETS)?
        .install_recorder()?;
    Ok(METRICS.get_or_init(|| handle).clone())
}

/// Returns the metrics of this process, if they are installed.
pub fn metrics() -> Option<PrometheusHandle> {
    METRICS.get().cloned()
}

/// Writes the metrics of this process; nothing if they are not installed.
pub(crate) fn render() -> String {
    let text = metrics().map(|handle| {
        handle.run_upkeep();
        handle.render()
    });
    text.unwrap_or_default()
}

fn describe() {
    outlast_api::describe();
    let version = env!("CARGO_PKG_VERSION");
    metrics::describe_gauge!("outlast_server_info", "What runs; always 1.");
    metrics::gauge!("outlast_server_info", "version" => version).set(1.0);
}

/// Tells whether people want colours where there is a terminal.
pub(crate) fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
