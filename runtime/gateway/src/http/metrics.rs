//! Metrics for Prometheus: agents, requests, streams, webhooks.

use std::collections::BTreeMap;

use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
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

impl Metrics {
    pub(crate) fn new() -> Self {
        let registry = Registry::new();
        let requests = IntCounterVec::new(
            Opts::new(
                "trunkline_http_requests_total",
                "Requests that were answered.",
            ),
            &["route", "method", "status"],
        );
        let took = HistogramVec::new(
            HistogramOpts::new(
                "trunkline_http_request_seconds",
                "How long requests took until their answer began.",
            )
            .buckets(vec![0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0]),
            &["route"],
        );
        let streams = IntGauge::new("trunkline_http_streams", "Event streams that are open.");
        let deliveries = IntCounterVec::new(
            Opts::new(
                "trunkline_webhook_deliveries_total",
                "Deliveries of webhooks, by their result.",
            ),
            &["hook", "result"],
        );
        let deliveries = deliveries.expect(FIXED);
        let (requests, took) = (requests.expect(FIXED), took.expect(FIXED));
        let streams = streams.expect(FIXED);
        for own in [
            Box::new(requests.clone()) as Box<dyn prometheus::core::Collector>,
            Box::new(took.clone()),
            Box::new(streams.clone()),
            Box::new(deliveries.clone()),
        ] {
            registry.register(own).expect(FIXED);
        }
        Self {
            registry,
            requests,
            took,
            streams,
            deliveries,
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
        let gauge = |name: &str, help: &str| {
            let gauge = IntGaugeVec::new(Opts::new(name, help), &["agent"]).expect(FIXED);
            now.register(Box::new(gauge.clone())).expect(FIXED);
            gauge
        };
        let info = IntGaugeVec::new(
            Opts::new("trunkline_build_info", "The version of this daemon."),
            &["version"],
        )
        .expect(FIXED);
        now.register(Box::new(info.clone())).expect(FIXED);
        info.with_label_values(&[version]).set(1);
        let stored = IntGauge::new(
            "trunkline_journal_sessions",
            "Sessions that the journal has.",
        )
        .expect(FIXED);
        now.register(Box::new(stored.clone())).expect(FIXED);
        stored.set(int(sessions as u64));

        let up = gauge("trunkline_agent_up", "1 while a process of the agent runs.");
        let open = gauge(
            "trunkline_agent_sessions",
            "Sessions that are open with the agent.",
        );
        let turns = gauge("trunkline_agent_turns", "Turns that run.");
        let requests = gauge(
            "trunkline_agent_requests",
            "Requests that wait for an answer.",
        );
        let queued = gauge(
            "trunkline_agent_queued_bytes",
            "Bytes that wait for the agent to read.",
        );
        let spooled = gauge(
            "trunkline_agent_spooled_bytes",
            "Bytes from the agent that wait on disk.",
        );
        let counted = IntCounterVec::new(
            Opts::new(
                "trunkline_agent_counted_total",
                "Old form of the counters with a name of their own.",
            ),
            &["agent", "name"],
        )
        .expect(FIXED);
        now.register(Box::new(counted.clone())).expect(FIXED);
        let mut counters: BTreeMap<&str, IntCounterVec> = BTreeMap::new();
        for agent in agents {
            let id = [agent.agent.as_str()];
            up.with_label_values(&id)
                .set(i64::from(agent.liveness() != Liveness::Down));
            open.with_label_values(&id).set(int(agent.sessions as u64));
            turns
                .with_label_values(&id)
                .set(int(agent.running_turns as u64));
            requests
                .with_label_values(&id)
                .set(int(agent.open_requests as u64));
            queued
                .with_label_values(&id)
                .set(int(agent.counters.queued_bytes));
            spooled
                .with_label_values(&id)
                .set(int(agent.counters.spooled_bytes));
            for (name, count) in agent.counters.counts() {
                let counter = counters.entry(name).or_insert_with(|| {
                    let counted = name.replace('_', " ");
                    let help = format!("Counted since the agent's process began: {counted}.");
                    let name = format!("trunkline_{name}_total");
                    let counter = IntCounterVec::new(Opts::new(name, help), &["agent"]);
                    let counter = counter.expect(FIXED);
                    now.register(Box::new(counter.clone())).expect(FIXED);
                    counter
                });
                counter.with_label_values(&id).inc_by(count);
                counted
                    .with_label_values(&[&*agent.agent, name])
                    .inc_by(count);
            }
        }
        for (name, count) in cluster {
            let help = format!(
                "What this host counted of its cluster: {}.",
                name.replace('_', " ")
            );
            let counter =
                IntCounter::new(format!("trunkline_cluster_{name}_total"), help).expect(FIXED);
            now.register(Box::new(counter.clone())).expect(FIXED);
            counter.inc_by(*count);
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
    let gauge = |name: &str, help: &str, label: &str| {
        let gauge = IntGaugeVec::new(Opts::new(name, help), &[label]).expect(FIXED);
        now.register(Box::new(gauge.clone())).expect(FIXED);
        gauge
    };
    let states = gauge(
        "trunkline_cluster_hosts",
        "Hosts of the cluster, by what they do.",
        "state",
    );
    for (name, state) in [
        ("up", HostPhase::Up),
        ("draining", HostPhase::Draining),
        ("lost", HostPhase::Lost),
    ] {
        let count = hosts.iter().filter(|host| host.state == state).count();
        states.with_label_values(&[name]).set(int(count as u64));
    }
    let sessions = gauge(
        "trunkline_cluster_host_sessions",
        "Sessions of a host, as it said last.",
        "host",
    );
    for host in hosts.iter().take(HOSTS) {
        sessions
            .with_label_values(&[&host.id])
            .set(int(host.sessions));
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
            "# HELP trunkline_cluster_rows_refused_total What this host counted of its cluster: rows refused.",
            "# TYPE trunkline_cluster_rows_refused_total counter",
            "trunkline_cluster_rows_refused_total 3",
            "trunkline_cluster_letters_dropped_total 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
