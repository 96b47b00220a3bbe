//! Taps of a link's traffic.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use trunkline_process::{AgentDirection, AgentWireEvent};
use trunkline_wirelog::{Wire, WireDirection, WireEvent, WireSink};

/// Receiver of the traffic of a host's links.
#[derive(Debug)]
pub(crate) struct Taps {
    pub(crate) sink: Arc<dyn WireSink>,
    /// Number of runs of adapters.
    runs: AtomicU32,
}

impl Taps {
    pub(crate) fn new(sink: Arc<dyn WireSink>) -> Self {
        Self {
            sink,
            runs: AtomicU32::new(0),
        }
    }

    /// The tap of one more run of an adapter.
    pub(crate) fn tap(self: &Arc<Self>, agent: Arc<str>) -> Tap {
        let process = self.runs.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        Tap {
            taps: self.clone(),
            agent,
            process,
        }
    }
}

/// The tap of one run of an adapter.
#[derive(Clone)]
pub(crate) struct Tap {
    taps: Arc<Taps>,
    agent: Arc<str>,
    process: u32,
}

impl Tap {
    pub(crate) fn take(&self, event: WireEvent<'_>) {
        if !self.wants(event.direction()) {
            return;
        }
        self.taps.sink.take(Wire {
            agent: &self.agent,
            process: self.process,
            event,
        });
    }
}

impl Tap {
    /// Returns true if the sink takes what passes in this direction.
    pub(crate) fn wants(&self, direction: WireDirection) -> bool {
        self.taps.sink.wants(direction)
    }

    /// Takes what passed between the adapter and an agent that it wraps.
    pub(crate) fn take_agent_line(&self, agent_process: u32, event: AgentWireEvent<'_>) {
        self.take(match event {
            AgentWireEvent::Line {
                direction: AgentDirection::ToAgent,
                line,
                omitted,
            } => WireEvent::ToAgent {
                agent_process,
                line,
                omitted,
            },
            AgentWireEvent::Line {
                direction: AgentDirection::FromAgent,
                line,
                omitted,
            } => WireEvent::FromAgent {
                agent_process,
                line,
                omitted,
            },
            AgentWireEvent::Lost(lines) => WireEvent::AgentLinesLost {
                agent_process,
                lines,
            },
        });
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap")
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}
