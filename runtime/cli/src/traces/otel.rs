//! Exporter: protobuf over HTTP, in batches, on its own thread. The queue is bounded, and no
//! request waits for it.

use std::{
    collections::HashMap,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use opentelemetry::{
    KeyValue,
    propagation::TextMapPropagator,
    trace::{TraceContextExt, TracerProvider},
};
use opentelemetry_otlp::{Protocol, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    propagation::TraceContextPropagator,
    resource::{EnvResourceDetector, TelemetryResourceDetector},
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use tracing::{Span, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Layer, filter::Targets};

use super::{REQUEST, TraceLayer, named};
use crate::target::variable;

/// Target of the spans of sessions and turns. No other event of the host is exported, because some
/// contain output of an agent.
const TURN: &str = "trunkline_host::link::driver::spans";

/// Timeout for the export of queued spans at the end.
const FLUSH: Duration = Duration::from_secs(2);

/// The running exporter.
static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Starts the exporter if a collector is configured.
pub(crate) fn start() -> Option<TraceLayer> {
    named()?;
    // Ignored: another provider may be installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_http();
    let exporter = exporter.with_protocol(Protocol::HttpBinary).build().ok()?;
    let exporter = LoggedExporter {
        exporter,
        fails: AtomicBool::new(false),
    };
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource())
        .build();
    let provider = PROVIDER.get_or_init(|| provider);
    let spans = Targets::new()
        .with_target(REQUEST, LevelFilter::INFO)
        .with_target(TURN, LevelFilter::DEBUG);
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("trunkline"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false);
    Some(layer.with_filter(spans).boxed())
}

/// Warns that the configured collector cannot be used, without details, because an address may
/// contain a secret.
pub(crate) fn warn_if_unused() {
    if let (Some(name), None) = (named(), PROVIDER.get()) {
        tracing::warn!(
            "no traces are exported: {name} or another variable of OTEL_EXPORTER_OTLP is invalid"
        );
    }
}

/// Returns the function that makes the sender of a `traceparent` the parent of a request's span, if
/// traces are exported.
pub(crate) fn adopt() -> Option<fn(&str, &Span)> {
    PROVIDER.get().map(|_| adopt_sender as fn(&str, &Span))
}

fn adopt_sender(traceparent: &str, request: &Span) {
    let header = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    let sender = TraceContextPropagator::new().extract(&header);
    if sender.span().span_context().is_valid() {
        // Ignored: a span that is not recorded has no parent.
        let _ = request.set_parent(sender);
    }
}

/// Exports the queued spans, up to a timeout.
pub(crate) fn end() {
    if let Some(provider) = PROVIDER.get() {
        // Spans beyond the timeout are lost; the log reports an unreachable collector.
        let _ = provider.shutdown_with_timeout(FLUSH);
    }
}

/// Returns the service's attributes of the variables, otherwise its own name.
fn resource() -> Resource {
    let mut resource = Resource::builder_empty()
        .with_service_name("trunkline")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    if let Some(name) = variable("OTEL_SERVICE_NAME") {
        resource = resource.with_service_name(name);
    }
    resource.build()
}

/// Logs once when the collector starts to reject spans, and once when it accepts them again.
#[derive(Debug)]
struct LoggedExporter {
    exporter: opentelemetry_otlp::SpanExporter,
    fails: AtomicBool,
}

impl SpanExporter for LoggedExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.exporter.export(batch).await;
        match (
            result.is_err(),
            self.fails.swap(result.is_err(), Ordering::Relaxed),
        ) {
            (true, false) => tracing::warn!("traces are lost: the collector rejects them"),
            (false, true) => tracing::info!("the collector accepts traces again"),
            _ => {}
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
