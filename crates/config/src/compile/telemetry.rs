//! Where traces and metrics go.

use std::sync::Arc;

use super::Compiler;
use super::destination::destination;
use super::provider::{self, below};
use crate::Destination;
use crate::telemetry::Telemetry;
use crate::view::View;

/// Behind the address of a collector (OpenTelemetry Protocol Exporter, "Endpoint URLs for OTLP/HTTP").
const TRACES: &str = "/v1/traces";
const METRICS: &str = "/v1/metrics";

pub(super) fn compile(compiler: &mut Compiler<'_>, view: &View<'_>) -> Option<Arc<Telemetry>> {
    let otlp = view.at("otlp");
    let around = (provider::proxy(compiler, &view.at("proxy")), provider::ca(compiler, &view.at("ca")));
    let headers = provider::headers(compiler, &view.at("headers"), None);
    let mut collector = destination(compiler, "telemetry", &otlp, around)?;
    if let Some(signal) = [TRACES, METRICS].into_iter().find(|path| collector.path.path().ends_with(path)) {
        compiler.report(&otlp, format!("ends in `{signal}`, which is put behind it; leave it out"));
    }
    if let Some(provider) = Arc::get_mut(&mut collector.provider) {
        provider.headers.extend(headers);
    }
    let of = |signal| {
        // A path that HTTP can carry stays one with another behind it.
        let path = below(collector.path.as_str(), signal).parse().ok()?;
        Some(Destination { provider: collector.provider.clone(), path })
    };
    let sample = view.at("sample").number().unwrap_or(1.0);
    let gzip = view.at("compression").text_or_preset() == "gzip";
    Some(Arc::new(Telemetry { traces: of(TRACES)?, metrics: of(METRICS)?, sample, gzip }))
}
