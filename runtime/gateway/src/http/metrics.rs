//! Metrics for Prometheus: agents, requests, streams, webhooks.

use std::collections::BTreeMap;

use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder, core::Collector,
};
use trunkline_host::AgentHealth;
use trunkline_protocol::Liveness;

use crate::peers::{HostPhase, HostState};

/// Maximum number of hosts with a metric of their own; a further metric counts all hosts.
const HOSTS: usize = 256;

/// Metrics of the gateway itself.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// Requests by route, method and status.
    pub(crate) requests: IntCounterVec,
    /// Time until the answer began, in seconds.
    pub(crate) took: HistogramVec,
    /// Open streams.
    pub(crate) streams: IntGauge,
    /// Deliveries of webhooks, by webhook and result.
    pub(crate) deliveries: IntCounterVec,
}

/// Adds a metric to a registry.
fn register<M: Collector + Clone + 'static>(
    registry: &Registry,
    metric: prometheus::Result<M>,
) -> M {
    let metric = metric.expect(FIXED);
    registry.register(Box::new(metric.clone())).expect(FIXED);
    metric
}

fn gauges(registry: &Registry, name: &str, help: &str, label: &str) -> IntGaugeVec {
    register(registry, IntGaugeVec::new(Opts::new(name, help), &[label]))
}

fn counters(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    register(registry, IntCounterVec::new(Opts::new(name, help), labels))
}

/// Gauges of each agent: their name, their help, and the value.
type AgentGauge = (&'static str, &'static str, fn(&AgentHealth) -> u64);

const AGENT_GAUGES: [AgentGauge; 6] = [
    ("up", "1 while a process of the agent runs.", |agent| {
        u64::from(agent.liveness() != Liveness::Down)
    }),
    (
        "sessions",
        "Sessions that are open with the agent.",
        |agent| agent.sessions as u64,
    ),
    ("turns", "Turns that run.", |agent| {
        agent.running_turns as u64
    }),
    ("requests", "Requests that wait for an answer.", |agent| {
        agent.open_requests as u64
    }),
    (
        "queued_bytes",
        "Bytes that wait for the agent to read.",
        |agent| agent.counters.queued_bytes,
    ),
    (
        "spooled_bytes",
        "Bytes from the agent that wait on disk.",
        |agent| agent.counters.spooled_bytes,
    ),
];

impl Metrics {
    pub(crate) fn new() -> Self {
        let registry = Registry::new();
        let took = HistogramOpts::new(
            "trunkline_http_request_seconds",
            "Time until the answers to requests began.",
        )
        .buckets(vec![0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0]);
        Self {
            requests: counters(
                &registry,
                "trunkline_http_requests_total",
                "Requests that were answered.",
                &["route", "method", "status"],
            ),
            took: register(&registry, HistogramVec::new(took, &["route"])),
            streams: register(
                &registry,
                IntGauge::new("trunkline_http_streams", "Event streams that are open."),
            ),
            deliveries: counters(
                &registry,
                "trunkline_webhook_deliveries_total",
                "Deliveries of webhooks, by their result.",
                &["hook", "result"],
            ),
            registry,
        }
    }

    /// Renders all metrics in the text format of Prometheus.
    pub(crate) fn text(
        &self,
        version: &str,
        sessions: usize,
        agents: &[AgentHealth],
        hosts: &[HostState],
        cluster: &[(&'static str, u64)],
    ) -> Vec<u8> {
        let now = Registry::new();
        count_hosts(&now, hosts);
        let help = "The version of this daemon.";
        let info = gauges(&now, "trunkline_build_info", help, "version");
        info.with_label_values(&[version]).set(1);
        let help = "Sessions that the journal has.";
        register(&now, IntGauge::new("trunkline_journal_sessions", help)).set(int(sessions as u64));
        for (name, help, value) in AGENT_GAUGES {
            let gauge = gauges(&now, &format!("trunkline_agent_{name}"), help, "agent");
            for agent in agents {
                gauge
                    .with_label_values(&[&agent.agent])
                    .set(int(value(agent)));
            }
        }
        let mut by_name: BTreeMap<&str, IntCounterVec> = BTreeMap::new();
        for agent in agents {
            for (name, count) in agent.counters.counts() {
                let counter = by_name.entry(name).or_insert_with(|| {
                    let words = name.replace('_', " ");
                    let help = format!("Counted since the agent's process began: {words}.");
                    counters(&now, &format!("trunkline_{name}_total"), &help, &["agent"])
                });
                counter.with_label_values(&[&agent.agent]).inc_by(count);
            }
        }
        for (name, count) in cluster {
            let words = name.replace('_', " ");
            let help = format!("Counted by this host about its cluster: {words}.");
            let name = format!("trunkline_cluster_{name}_total");
            register(&now, IntCounter::new(name, help)).inc_by(*count);
        }
        let mut families = self.registry.gather();
        families.extend(now.gather());
        let mut text = Vec::new();
        // Empty families are left out.
        families.retain(|family| !family.get_metric().is_empty());
        let _ = TextEncoder::new().encode(&families, &mut text);
        text
    }
}

/// Adds the hosts of a cluster, as this daemon sees them.
fn count_hosts(now: &Registry, hosts: &[HostState]) {
    if hosts.is_empty() {
        return;
    }
    let help = "Hosts of the cluster, by their state.";
    let states = gauges(now, "trunkline_cluster_hosts", help, "state");
    for (name, state) in [
        ("up", HostPhase::Up),
        ("draining", HostPhase::Draining),
        ("lost", HostPhase::Lost),
    ] {
        let count = hosts.iter().filter(|host| host.state == state).count();
        states.with_label_values(&[name]).set(int(count as u64));
    }
    let help = "Sessions of a host, by its last report.";
    let sessions = gauges(now, "trunkline_cluster_host_sessions", help, "host");
    for host in hosts.iter().take(HOSTS) {
        let count = int(host.sessions);
        sessions.with_label_values(&[&host.id]).set(count);
    }
}

const FIXED: &str = "names and labels are fixed and well formed";

fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_of_the_cluster_is_shown() {
        let text = Metrics::new().text(
            "1",
            0,
            &[],
            &[],
            &[("rows_refused", 3), ("letters_dropped", 0)],
        );
        let text = String::from_utf8(text).unwrap();
        for line in [
            "# HELP trunkline_cluster_rows_refused_total Counted by this host about its cluster: rows refused.",
            "# TYPE trunkline_cluster_rows_refused_total counter",
            "trunkline_cluster_rows_refused_total 3",
            "trunkline_cluster_letters_dropped_total 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
