//! Where traces and metrics go.

use super::{assert_problems, sound};

#[test]
fn a_collector_s_address_stands_before_the_paths_of_both_signals() {
    let of = |otlp: &str| {
        let telemetry = sound(&format!("telemetry: {{ otlp: '{otlp}' }}")).snapshot.general.telemetry.clone().unwrap();
        let place = |to: &crate::Destination| format!("{}{}", to.provider.origin.authority(), to.path);
        (place(&telemetry.traces), place(&telemetry.metrics), telemetry.traces.provider.origin.tls)
    };
    let told = |traces: &str, metrics: &str, tls| (traces.to_owned(), metrics.to_owned(), tls);
    assert_eq!(of("http://c:4318"), told("c:4318/v1/traces", "c:4318/v1/metrics", false));
    assert_eq!(
        of("https://o.example.com/otlp/"),
        told("o.example.com/otlp/v1/traces", "o.example.com/otlp/v1/metrics", true)
    );
    assert!(sound("environment: e").snapshot.general.telemetry.is_none());
}

#[test]
fn a_collector_gets_its_headers_and_nobody_sees_their_values() {
    let loaded = sound(
        "telemetry: { otlp: 'http://c:4318', sample: 0.25, headers: { authorization: Bearer abc, x-tenant: rag } }",
    );
    let telemetry = loaded.snapshot.general.telemetry.as_ref().unwrap();
    let headers = &telemetry.metrics.provider.headers;
    let written: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    assert_eq!(written, [("authorization", "Bearer abc"), ("x-tenant", "rag")]);
    assert!(headers.iter().all(|(_, value)| value.is_sensitive()));
    assert!((telemetry.sample - 0.25).abs() < f64::EPSILON);
    assert!(!telemetry.gzip);
    assert!(!format!("{telemetry:?}").contains("abc"));
}

#[test]
fn what_is_posted_is_compressed_where_that_is_written() {
    let loaded = sound("telemetry: { otlp: 'http://c:4318', compression: gzip }");
    assert!(loaded.snapshot.general.telemetry.as_ref().unwrap().gzip);
}

#[test]
fn what_cannot_be_a_collector_is_told() {
    assert_problems(
        "telemetry: { otlp: 'http://c:4318/v1/traces' }",
        "gateway.yaml:1:20: telemetry.otlp: ends in `/v1/traces`, which is put behind it; leave it out",
    );
    assert_problems(
        "telemetry: { otlp: 'http://c:4318', sample: 1.5 }",
        "gateway.yaml:1:45: telemetry.sample: `1.5` is not a number from 0 to 1",
    );
    assert_problems(
        "telemetry: { otlp: 'http://c:4318', headers: { host: c, X-A: 'one', x-a: two } }",
        "gateway.yaml:1:54: telemetry.headers.host: is a header that the gateway sets itself; remove it\n\
         gateway.yaml:1:74: telemetry.headers.x-a: is written twice (header names do not tell case); keep one",
    );
}
