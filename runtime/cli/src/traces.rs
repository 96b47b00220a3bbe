//! Traces for an OpenTelemetry collector, if the program is built with the feature `otel` and a
//! variable names a collector.

#[cfg(feature = "otel")]
mod otel;

use tracing_subscriber::{Layer, Registry};

use crate::target::is_set;

#[cfg(feature = "otel")]
pub(crate) use self::otel::{adopt, end, start, warn_if_unused};

/// Layer that exports spans as traces, beside the log.
pub(crate) type TraceLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Target of the gateway's spans, which are not logged.
pub(crate) const REQUEST: &str = "trunkline_gateway::request";

/// Returns the variable that configures a collector.
fn named() -> Option<&'static str> {
    let names = [
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ];
    names.into_iter().find(|name| is_set(name))
}

#[cfg(not(feature = "otel"))]
pub(crate) fn start() -> Option<TraceLayer> {
    None
}

/// Warns that a configured collector has no effect.
#[cfg(not(feature = "otel"))]
pub(crate) fn warn_if_unused() {
    if let Some(name) = named() {
        tracing::info!("{name} has no effect: this program is built without the feature `otel`");
    }
}

#[cfg(not(feature = "otel"))]
pub(crate) fn adopt() -> Option<fn(&str, &tracing::Span)> {
    None
}

#[cfg(not(feature = "otel"))]
pub(crate) fn end() {}
