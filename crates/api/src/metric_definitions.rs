//! The metrics of this room.

use std::time::Duration;

const REQUESTS: &str = "outlast_api_requests_total";
const DURATION: &str = "outlast_api_request_seconds";
const STREAMS: &str = "outlast_api_streams";
const REPLAYED: &str = "outlast_api_replayed_total";

/// Tells the recorder what the numbers mean; call it once, when one is installed.
pub fn describe() {
    use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
    describe_counter!(
        REQUESTS,
        Unit::Count,
        "Requests, by route, method and status."
    );
    describe_histogram!(
        DURATION,
        Unit::Seconds,
        "From a request's head to its response's head, by route and method."
    );
    describe_gauge!(STREAMS, Unit::Count, "Event streams that are open now.");
    describe_counter!(
        REPLAYED,
        Unit::Count,
        "Repeated requests that got the first answer."
    );
}

/// Counts a request that was answered.
pub(crate) fn handled(method: &'static str, route: String, status: u16, took: Duration) {
    metrics::histogram!(DURATION, "method" => method, "route" => route.clone()).record(took);
    let status = status.to_string();
    metrics::counter!(REQUESTS, "method" => method, "route" => route, "status" => status)
        .increment(1);
}

/// Counts a repeat that was answered from its receipt.
pub(crate) fn replayed() {
    metrics::counter!(REPLAYED).increment(1);
}

/// Counts as an open stream for as long as it lives.
#[derive(Debug)]
pub(crate) struct OpenStream(());

impl OpenStream {
    pub(crate) fn new() -> Self {
        metrics::gauge!(STREAMS).increment(1.0);
        Self(())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        metrics::gauge!(STREAMS).decrement(1.0);
    }
}
