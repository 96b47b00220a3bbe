//! Spans for a collector of OpenTelemetry: where the program is built for it, which the feature
//! `otel` says, and a variable names a collector.

#[cfg(feature = "otel")]
mod otel;

use tracing_subscriber::{Layer, Registry};

#[cfg(feature = "otel")]
pub(crate) use self::otel::{adopt, end, start, tell};

/// What makes traces of spans, beside the log.
pub(crate) type Traces = Box<dyn Layer<Registry> + Send + Sync>;

/// The target of the gateway's spans, of which the log has nothing.
pub(crate) const REQUEST: &str = "trunkline_gateway::request";

/// Whether a variable names a collector, and which.
fn named() -> Option<&'static str> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    [
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ]
    .into_iter()
    .find(is_set)
}

#[cfg(not(feature = "otel"))]
pub(crate) fn start() -> Option<Traces> {
    None
}

/// Says that a collector is named in vain.
#[cfg(not(feature = "otel"))]
pub(crate) fn tell() {
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
