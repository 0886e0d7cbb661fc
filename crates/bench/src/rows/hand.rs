//! A session's first call, which starts a sandbox, and later ones, beside bubblewrap and runc.

mod peers;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use outlast_protocol::Micros;
use serde_json::Value;

use crate::{
    api::{Client, message},
    disk::Disk,
    model::{Ask, Endpoint},
    report::{Aim, Row},
    run::Bench,
    stats::Samples,
};
use peers::Peers;

const GROUP: &str = "Hands: `bash` with `true`";

/// Sessions.
const ROUNDS: usize = 40;

/// Calls of each: the first is cold.
const CALLS: usize = 8;

/// Measures a cold call, warm ones and the others in turns.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut endpoint = Endpoint::start().await?;
    let server = bench
        .setup("hand")
        .with("OUTLAST_UPSTREAM_BASE_URL", endpoint.url());
    let server = server.start().await?;
    let mut client = Client::open(server.address).await?;
    let disk = Disk::open(&bench.dir)?;
    let mut peers = Peers::find(bench).await?;
    let mut found = Found::default();
    for _ in 0..bench.options.rounds(ROUNDS) {
        if let Some(took) = peers.bubblewrap().await? {
            found.peer.push_ms(took);
        }
        if let Some(took) = peers.runc().await? {
            found.runc.push_ms(took);
        }
        found.disk.push_ms(disk.sync().await?);
        let session = client.session().await?;
        found.session(&mut client, &mut endpoint, &session).await?;
        client.delete(&session).await?;
    }
    let provision = provision(&client.metrics().await?);
    server.stop().await?;
    Ok(found.rows(provision))
}

#[derive(Debug, Default)]
struct Found {
    /// By the log: from `agent.tool_use` to `agent.tool_result`.
    cold: Samples,
    warm: Samples,
    /// By the model: from its answer to the request with the result.
    cold_whole: Samples,
    warm_whole: Samples,
    peer: Samples,
    runc: Samples,
    disk: Samples,
}

impl Found {
    async fn session(
        &mut self,
        client: &mut Client,
        endpoint: &mut Endpoint,
        session: &str,
    ) -> Result<()> {
        endpoint.clear();
        client
            .send(session, message(Ask::Call { left: CALLS }, 0))
            .await?;
        let mut asked = endpoint.next().await?.answered;
        for call in 0..CALLS {
            let seen = endpoint.next().await?;
            let whole = if call == 0 {
                &mut self.cold_whole
            } else {
                &mut self.warm_whole
            };
            whole.push_ms(seen.arrived.duration_since(asked));
            asked = seen.answered;
        }
        client.idle(session).await?;
        let events = client
            .events(session, &["agent.tool_use", "agent.tool_result"])
            .await?;
        for (call, pair) in events.chunks(2).enumerate() {
            let log = if call == 0 {
                &mut self.cold
            } else {
                &mut self.warm
            };
            log.push_ms(between(pair)?);
        }
        Ok(())
    }

    fn rows(&self, provision: Option<f64>) -> Vec<Row> {
        let (bwrap, sync) = ("bwrap /bin/true", "fdatasync of 1.2 KB");
        let cold = Row::new(GROUP, "first call, by the log", "ms", &self.cold);
        let warm = Row::new(GROUP, "later calls, by the log", "ms", &self.warm);
        let whole = Row::new(
            GROUP,
            "first call, model's answer to next request",
            "ms",
            &self.cold_whole,
        );
        let later = Row::new(
            GROUP,
            "later calls, model's answer to next request",
            "ms",
            &self.warm_whole,
        );
        let same = Row::new(GROUP, "the same first call", "ms", &self.cold);
        let mut rows = vec![
            cold.beside(bwrap, &self.cold, &self.peer)
                .aim(Aim::Most(30.0))
                .note("bwrap: no limits, disk, control groups, init or shell"),
            same.beside("runc run /bin/true", &self.cold, &self.runc)
                .note("runc: the same limits; no user namespace, overlay, disk, filter, init or shell"),
            warm.beside(sync, &self.warm, &self.disk)
                .aim(Aim::Most(2.0)),
            whole.beside(bwrap, &self.cold_whole, &self.peer),
            later.beside(sync, &self.warm_whole, &self.disk),
        ];
        if let Some(mean) = provision {
            let mean: Samples = [mean].into_iter().collect();
            let row = Row::new(GROUP, "the sandbox's start in it", "ms", &mean);
            rows.push(row.beside(bwrap, &mean, &self.peer).note("a mean"));
        }
        rows
    }
}

/// Returns the time between a call and its result.
fn between(pair: &[Value]) -> Result<Duration> {
    let [call, result] = pair else {
        bail!("a call without a result")
    };
    if result.get("is_error").and_then(Value::as_bool) == Some(true) {
        bail!("a call failed: {result}");
    }
    let at = |event: &Value| {
        let text = event.get("processed_at").and_then(Value::as_str);
        text.and_then(Micros::parse)
            .with_context(|| format!("no time in {event}"))
    };
    let micros = at(result)?.0 - at(call)?.0;
    Ok(Duration::from_micros(u64::try_from(micros)?))
}

/// Reads the mean time of a sandbox's start, in milliseconds.
fn provision(metrics: &str) -> Option<f64> {
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<f64>().ok()
    };
    let sum = value("outlast_kernel_provision_seconds_sum ")?;
    Some(sum * 1e3 / value("outlast_kernel_provision_seconds_count ")?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pair_of_events_has_a_time() {
        let at = |at: &str| json!({"processed_at": at});
        let pair = [
            at("2026-11-29T23:01:17.350271Z"),
            at("2026-11-29T23:01:17.352271Z"),
        ];
        assert_eq!(between(&pair).unwrap(), Duration::from_millis(2));
        assert!(between(&pair[..1]).is_err());
        let failed = json!({"processed_at": "2026-11-29T23:01:17Z", "is_error": true});
        assert!(between(&[pair[0].clone(), failed]).is_err());
    }

    #[test]
    fn the_mean_is_read_from_the_figures() {
        let text =
            "outlast_kernel_provision_seconds_sum 0.5\noutlast_kernel_provision_seconds_count 50\n";
        assert_eq!(provision(text), Some(10.0));
        assert_eq!(provision(""), None);
    }
}
