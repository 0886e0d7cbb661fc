//! The metrics of this room.

use std::time::Duration;

use outlast_session::Refusal;

use crate::AppendError;

const APPEND: &str = "outlast_store_append_seconds";
const BATCH: &str = "outlast_store_batch_writes";
const SYNC: &str = "outlast_store_sync_seconds";
const REFUSED: &str = "outlast_store_refusals_total";
const FAILED: &str = "outlast_store_failures_total";
const STAGED: &str = "outlast_store_blob_bytes_total";

/// Tells the recorder what the numbers mean; call it once, when one is installed.
pub fn describe() {
    use metrics::{Unit, describe_counter, describe_histogram};
    describe_histogram!(
        APPEND,
        Unit::Seconds,
        "From a proposal to its durable answer."
    );
    describe_histogram!(BATCH, Unit::Count, "Writes that shared one commit.");
    describe_histogram!(SYNC, Unit::Seconds, "One commit with its sync.");
    describe_counter!(REFUSED, Unit::Count, "Proposals refused, by reason.");
    describe_counter!(FAILED, Unit::Count, "Batches that could not be committed.");
    describe_counter!(STAGED, Unit::Bytes, "Bodies put into blobs.");
}

pub(crate) fn appended(took: Duration) {
    metrics::histogram!(APPEND).record(took);
}

pub(crate) fn committed(writes: usize, sync: Duration) {
    metrics::histogram!(BATCH).record(f64::from(u32::try_from(writes).unwrap_or(u32::MAX)));
    metrics::histogram!(SYNC).record(sync);
}

pub(crate) fn refused(error: &AppendError) {
    metrics::counter!(REFUSED, "reason" => reason(error)).increment(1);
}

pub(crate) fn failed() {
    metrics::counter!(FAILED).increment(1);
}

pub(crate) fn blob(bytes: usize) {
    metrics::counter!(STAGED).increment(u64::try_from(bytes).unwrap_or(u64::MAX));
}

/// Names the reason of a refusal for the metrics.
fn reason(error: &AppendError) -> &'static str {
    match error {
        AppendError::NotFound(_) => "not_found",
        AppendError::Missing(_) => "missing",
        AppendError::Dead(_) => "dead",
        AppendError::Answered => "answered",
        AppendError::Overloaded => "overloaded",
        AppendError::Crowded(_) => "crowded",
        AppendError::Unavailable(_) => "unavailable",
        AppendError::Failed(_) => "failed",
        AppendError::Refused(refusal) => match refusal {
            Refusal::Client(_) => "client",
            Refusal::Stale { .. } => "stale",
            Refusal::Gap { .. } => "gap",
            Refusal::Held { .. } => "held",
            Refusal::Illegal(_) => "illegal",
            Refusal::Fold(_) => "fold",
        },
    }
}
