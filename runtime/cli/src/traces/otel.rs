//! The exporter: protobuf by HTTP, in batches, on a thread of its own. What waits is bounded, and
//! no request waits for it.

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

use super::{REQUEST, Traces, named};

/// Where a host makes the spans of its sessions and turns. No other event of it is sent: some hold
/// what an agent says.
const TURN: &str = "trunkline_host::link::driver::spans";

/// For how long what waits may take to go out at the end.
const FLUSH: Duration = Duration::from_secs(2);

/// What exports, once it has begun.
static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Begins to export, where a collector is named.
pub(crate) fn start() -> Option<Traces> {
    named()?;
    // It fails where one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_http();
    let exporter = exporter.with_protocol(Protocol::HttpBinary).build().ok()?;
    let exporter = Telling {
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

/// Says that a collector is named in vain. Not what is wrong: an address may hold a secret.
pub(crate) fn tell() {
    if let (Some(name), None) = (named(), PROVIDER.get()) {
        tracing::warn!(
            "no traces are sent: {name} or another variable of OTEL_EXPORTER_OTLP is wrong"
        );
    }
}

/// Makes the sender of a `traceparent` the parent of a request's span, where there are traces.
pub(crate) fn adopt() -> Option<fn(&str, &Span)> {
    PROVIDER.get().map(|_| adopt_sender as fn(&str, &Span))
}

fn adopt_sender(traceparent: &str, request: &Span) {
    let header = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    let sender = TraceContextPropagator::new().extract(&header);
    if sender.span().span_context().is_valid() {
        // It fails for a span that no one listens to.
        let _ = request.set_parent(sender);
    }
}

/// Sends what waits, for a while.
pub(crate) fn end() {
    if let Some(provider) = PROVIDER.get() {
        // Lost is what did not go out in time, which the log has said where the collector is down.
        let _ = provider.shutdown_with_timeout(FLUSH);
    }
}

/// What the variables say of this service, and else its own name.
fn resource() -> Resource {
    let mut resource = Resource::builder_empty()
        .with_service_name("trunkline")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    if let Some(name) = std::env::var("OTEL_SERVICE_NAME")
        .ok()
        .filter(|name| !name.is_empty())
    {
        resource = resource.with_service_name(name);
    }
    resource.build()
}

/// Says once when the collector takes nothing, and once when it does again.
#[derive(Debug)]
struct Telling {
    exporter: opentelemetry_otlp::SpanExporter,
    fails: AtomicBool,
}

impl SpanExporter for Telling {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.exporter.export(batch).await;
        match (
            result.is_err(),
            self.fails.swap(result.is_err(), Ordering::Relaxed),
        ) {
            (true, false) => tracing::warn!("traces are lost: the collector does not take them"),
            (false, true) => tracing::info!("the collector takes traces again"),
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
