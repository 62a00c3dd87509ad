//! Traces and metrics as a collector receives them: read by the types that OpenTelemetry's own project makes.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::{HistogramDataPoint, metric::Data};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use prost::Message;
use testkit::{Ask, Host, Reply, Script, chat, embeddings, get, rerank, story};

use crate::stage::{KEY, Stage, USUAL, pleasant};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// The usual gateway, telling the collector at `otel:4318`.
fn told(more: &str) -> String {
    format!("telemetry: {{ otlp: 'http://otel:4318'{more} }}\n{USUAL}")
}

fn taken() -> Reply {
    Reply::pieces([Vec::new()]).header("content-type", "application/x-protobuf")
}

/// A gateway that tells a collector, which takes everything, and the hosts `a` and `b`, which answer pleasantly.
fn stage() -> (Stage, Host, [Host; 2]) {
    let stage = Stage::set(&told(""));
    let collector = stage.host("otel:4318", taken());
    stage.export();
    let hosts = ["a", "b"].map(|name| stage.host(name, pleasant()));
    (stage, collector, hosts)
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// What was posted to a path, read by the protocol's own types.
fn posted<M: Message + Default>(collector: &Host, path: &str) -> Vec<M> {
    let of_path = |call: &testkit::Call| call.request.path == path;
    let calls = collector.calls().into_iter().filter(of_path);
    calls.map(|call| M::decode(call.request.body.clone()).expect("it is the protocol's")).collect()
}

fn spans(collector: &Host) -> Vec<Span> {
    let requests: Vec<ExportTraceServiceRequest> = posted(collector, "/v1/traces");
    let resources = requests.into_iter().flat_map(|request| request.resource_spans);
    resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
}

fn value(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::BoolValue(flag) => flag.to_string(),
        _ => panic!("{key} is of no kind that is sent"),
    })
}

/// Asserts what attributes say; `""` stands for one that is not there.
fn says(attributes: &[KeyValue], wanted: &[(&str, &str)]) {
    for (key, text) in wanted {
        assert_eq!(value(attributes, key).unwrap_or_default(), *text, "{key} among {attributes:?}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_kind(spans: &[Span], kind: SpanKind) -> Vec<&Span> {
    spans.iter().filter(|span| span.kind == kind as i32).collect()
}

fn question() -> Ask {
    chat("chat").user("What is the secret of the house?")
}

#[test]
fn a_call_is_a_span_and_each_of_its_tries_is_a_child_of_it() {
    story(async {
        let (stage, collector, [a, b]) = stage();
        a.play(Reply::status(500).after(Duration::from_millis(30)));
        let answer = stage.ask(question().header("x-request-id", "r-1")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        seconds(2).await;
        let spans = spans(&collector);
        let [server] = of_kind(&spans, SpanKind::Server)[..] else { panic!("one call: {spans:?}") };
        assert_eq!(
            (server.name.as_str(), server.trace_id.len(), server.span_id.len()),
            ("POST /v1/chat/completions", 16, 8)
        );
        assert!(server.parent_span_id.is_empty() && server.status.as_ref().is_none_or(|status| status.code == 0));
        says(
            &server.attributes,
            &[
                ("http.request.method", "POST"),
                ("url.scheme", "http"),
                ("http.route", "/v1/chat/completions"),
                ("http.response.status_code", "200"),
                ("error.type", ""),
                ("mai.request_id", "r-1"),
                ("mai.route", "chat"),
                ("mai.client", "app"),
                ("mai.outcome", "ok"),
                ("mai.upstream", "b/model-b"),
            ],
        );
        let tries = of_kind(&spans, SpanKind::Client);
        let [first, .., last] = tries[..] else { panic!("several tries: {tries:?}") };
        for span in &tries {
            assert_eq!((&span.trace_id, &span.parent_span_id), (&server.trace_id, &server.span_id));
            assert!(span.start_time_unix_nano >= server.start_time_unix_nano);
            assert!(span.end_time_unix_nano <= server.end_time_unix_nano);
        }
        assert_eq!(first.end_time_unix_nano - first.start_time_unix_nano, 30_000_000);
        assert_eq!((first.name.as_str(), first.status.as_ref().unwrap().code), ("chat model-a", 2));
        says(
            &first.attributes,
            &[
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.provider.name", "openai"),
                ("gen_ai.request.model", "model-a"),
                ("gen_ai.usage.input_tokens", ""),
                ("server.address", "a"),
                ("server.port", "80"),
                ("http.response.status_code", "500"),
                ("error.type", "status"),
            ],
        );
        assert_eq!(last.name, "chat model-b");
        let line = stage.last_line().await;
        says(
            &last.attributes,
            &[
                ("error.type", ""),
                ("mai.outcome", "ok"),
                ("gen_ai.usage.input_tokens", &line["tokens_in"].to_string()),
                ("gen_ai.usage.output_tokens", &line["tokens_out"].to_string()),
            ],
        );
        // The upstreams are told which try was theirs.
        let sent = |host: &Host| host.calls().last().unwrap().request.header("traceparent").unwrap().to_owned();
        assert_eq!(sent(&b), format!("00-{}-{}-03", hex(&last.trace_id), hex(&last.span_id)));
        assert!(sent(&a).starts_with(&format!("00-{}-", hex(&last.trace_id))));
        assert_ne!(sent(&a), sent(&b));
    });
}

#[test]
fn a_try_says_which_model_has_answered_where_the_answer_names_one() {
    story(async {
        let (stage, collector, [a, _]) = stage();
        let delta = |model: &str| {
            format!(
                r#"{{"id":"c","object":"chat.completion.chunk","created":1,{model}"choices":[{{"index":0,"delta":{{"content":"Hi"}},"finish_reason":"stop"}}]}}"#
            )
        };
        let whole = |model: &str| {
            Reply::pieces([format!(r#"{{"id":"c","object":"chat.completion","created":1,{model}"choices":[{{"index":0,"message":{{"role":"assistant","content":"Hi"}},"finish_reason":"stop"}}]}}"#)])
                .header("content-type", "application/json")
        };
        let dated = r#""model":"model-a-2026-11","#;
        for (reply, ask) in [
            (Reply::sse([delta(dated), "[DONE]".to_owned()]), question().stream()),
            (whole(dated), question()),
            (whole(""), question()),
        ] {
            a.play(reply);
            assert_eq!(stage.ask(ask).await.status, 200);
        }
        seconds(2).await;
        let spans = spans(&collector);
        let tries = of_kind(&spans, SpanKind::Client);
        let told: Vec<String> =
            tries.iter().map(|span| value(&span.attributes, "gen_ai.response.model").unwrap_or_default()).collect();
        assert_eq!(told, ["model-a-2026-11", "model-a-2026-11", ""]);
        tries.iter().for_each(|span| says(&span.attributes, &[("gen_ai.request.model", "model-a")]));
    });
}

#[test]
fn who_sends_and_how_is_what_the_protocol_asks_for() {
    story(async {
        let stage =
            Stage::set(&told(", headers: { x-tenant: rag }").replace("telemetry", "environment: staging\ntelemetry"));
        let collector = stage.host("otel:4318", taken());
        stage.host("a", pleasant());
        stage.export();
        stage.ask(question()).await;
        seconds(20).await;
        let calls = collector.calls();
        assert_eq!(calls.len(), 2);
        for call in &calls {
            assert_eq!(call.request.method, "POST");
            assert_eq!(call.request.header("content-type"), Some("application/x-protobuf"));
            assert_eq!(call.request.header("x-tenant"), Some("rag"));
        }
        let traces: Vec<ExportTraceServiceRequest> = posted(&collector, "/v1/traces");
        let metrics: Vec<ExportMetricsServiceRequest> = posted(&collector, "/v1/metrics");
        let resources = [&traces[0].resource_spans[0].resource, &metrics[0].resource_metrics[0].resource];
        let [of_traces, of_metrics] =
            resources.map(|resource: &Option<Resource>| &resource.as_ref().unwrap().attributes);
        assert_eq!(of_traces, of_metrics);
        says(of_traces, &[("service.name", "mai-gateway"), ("deployment.environment.name", "staging")]);
        assert_eq!(value(of_traces, "service.instance.id").unwrap().len(), 36);
    });
}

#[test]
fn what_is_posted_is_compressed_where_that_is_asked_for() {
    story(async {
        let stage = Stage::set(&told(", compression: gzip"));
        // The first is taken at the second try.
        let collector = stage.host("otel:4318", Script::always(taken()).on_call(1, Reply::status(503)));
        stage.host("a", pleasant());
        stage.export();
        stage.ask(question()).await;
        seconds(20).await;
        let calls = collector.calls();
        assert!(calls.len() >= 3);
        for call in &calls {
            assert_eq!(call.request.header("content-encoding"), Some("gzip"), "{}", call.request.path);
            assert_eq!(call.request.header("content-type"), Some("application/x-protobuf"));
        }
        let unpacked = |call: &testkit::Call| {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&call.request.body[..]), &mut bytes).unwrap();
            bytes
        };
        let of = |path: &str| calls.iter().filter(|call| call.request.path == path).map(unpacked).collect::<Vec<_>>();
        let traces = of("/v1/traces").pop().unwrap();
        let traces = ExportTraceServiceRequest::decode(&traces[..]).unwrap();
        assert_eq!(traces.resource_spans[0].scope_spans[0].spans.len(), 2);
        assert!(ExportMetricsServiceRequest::decode(&of("/v1/metrics")[0][..]).is_ok());
        assert_eq!(dropped(&stage, "given_up"), 0.0);
    });
}

#[test]
fn one_trace_joins_all_the_calls_of_a_question() {
    story(async {
        let (stage, collector, [a, _]) = stage();
        let calls = [
            embeddings("embedding", "What is the secret of the house?"),
            rerank("rerank", "What is the secret of the house?", ["one", "two"]),
            question().stream(),
        ];
        for ask in calls {
            let answer = stage.ask(ask.header("traceparent", PARENT).header("tracestate", "app=q1,other=2")).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        seconds(2).await;
        let spans = spans(&collector);
        assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:?}");
        let calls = of_kind(&spans, SpanKind::Server);
        let parents: Vec<String> = calls.iter().map(|span| hex(&span.parent_span_id)).collect();
        assert_eq!(parents, ["b7ad6b7169203331"; 3]);
        assert!(calls.iter().all(|span| span.trace_state == "app=q1,other=2"));
        let mut names: Vec<&str> = of_kind(&spans, SpanKind::Client).iter().map(|span| span.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["chat model-a", "embeddings embed", "rerank rank"]);
        for call in a.calls() {
            let parent = call.request.header("traceparent").unwrap();
            assert!(parent.starts_with(&format!("00-{TRACE}-")) && parent.ends_with("-01") && parent != PARENT);
            assert_eq!(call.request.header("tracestate"), Some("app=q1,other=2"));
        }
        let ids: std::collections::HashSet<_> = spans.iter().map(|span| span.span_id.clone()).collect();
        assert_eq!(ids.len(), 6, "no two spans have one id");
    });
}

#[test]
fn a_trace_that_its_caller_does_not_record_goes_on_and_is_not_told() {
    story(async {
        let (stage, collector, [a, _]) = stage();
        stage.ask(question().header("traceparent", UNSAMPLED)).await;
        seconds(2).await;
        assert!(spans(&collector).is_empty());
        let sent = a.calls()[0].request.header("traceparent").unwrap().to_owned();
        assert!(sent.starts_with(&format!("00-{TRACE}-")) && sent.ends_with("-00") && sent != UNSAMPLED, "{sent}");
    });
}

#[test]
fn a_context_that_is_none_begins_a_new_trace_and_takes_its_state_with_it() {
    story(async {
        let (stage, collector, [a, _]) = stage();
        let twice = question().header("traceparent", PARENT).header("traceparent", PARENT);
        let unsound = question().header("traceparent", PARENT.replace("00-0a", "00-0A"));
        for ask in [twice, unsound] {
            stage.ask(ask.header("tracestate", "app=q1")).await;
        }
        seconds(2).await;
        let spans = spans(&collector);
        assert_eq!(spans.len(), 4);
        assert!(spans.iter().all(|span| hex(&span.trace_id) != TRACE && span.trace_state.is_empty()), "{spans:?}");
        assert_ne!(spans[0].trace_id, spans[2].trace_id);
        for call in a.calls() {
            assert_eq!(call.request.header("tracestate"), None);
        }
    });
}

#[test]
fn without_telemetry_a_sound_context_goes_through_as_it_came() {
    story(async {
        let stage = Stage::usual();
        let a = stage.host("a", pleasant());
        stage.ask(question().header("traceparent", PARENT).header("tracestate", "app=q1")).await;
        stage.ask(question().header("tracestate", "app=q1")).await;
        let sent = |at: usize, name: &str| a.calls()[at].request.header(name).map(str::to_owned);
        assert_eq!(
            (sent(0, "traceparent").as_deref(), sent(0, "tracestate").as_deref()),
            (Some(PARENT), Some("app=q1"))
        );
        assert_eq!((sent(1, "traceparent"), sent(1, "tracestate")), (None, None));
    });
}

#[test]
fn nothing_that_a_caller_sent_is_told_but_its_trace_and_its_request_s_id() {
    story(async {
        let (stage, collector, [a, _]) = stage();
        a.play(Reply::status(400));
        stage.ask(question().with("user", "mallory").header("x-mai-tag", "eval")).await;
        stage.ask(get("/v1/no/such/path")).await;
        stage.ask(question().method("BREW")).await;
        stage.caller().ask(&question().key("sk-nobody")).await;
        seconds(20).await;
        assert_eq!(of_kind(&spans(&collector), SpanKind::Server).len(), 4);
        for call in collector.calls() {
            let text = String::from_utf8_lossy(&call.request.body).into_owned();
            for secret in ["secret of the house", "mallory", "eval", "no/such", "BREW", "sk-", "nobody"] {
                assert!(!text.contains(secret), "{secret}");
            }
        }
        let names: Vec<String> =
            of_kind(&spans(&collector), SpanKind::Server).iter().map(|span| span.name.clone()).collect();
        assert_eq!(
            names,
            ["POST /v1/chat/completions", "GET", "_OTHER /v1/chat/completions", "POST /v1/chat/completions"]
        );
    });
}

fn points(collector: &Host, name: &str) -> Vec<HistogramDataPoint> {
    let requests: Vec<ExportMetricsServiceRequest> = posted(collector, "/v1/metrics");
    let last = requests.into_iter().next_back().expect("metrics were sent");
    let scopes = last.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
    let found = scopes.flat_map(|scope| scope.metrics).find(|metric| metric.name == name);
    match found.and_then(|metric| metric.data) {
        Some(Data::Histogram(histogram)) => {
            assert_eq!(histogram.aggregation_temporality, 2, "cumulative");
            histogram.data_points
        }
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn metrics_are_those_of_the_conventions_and_only_grow() {
    story(async {
        let (stage, collector, [a, _]) = stage();
        a.play(Reply::default().after(Duration::from_millis(50)));
        stage.ask(question().stream().usage()).await;
        seconds(16).await;
        let first = points(&collector, "gen_ai.client.operation.duration");
        stage.ask(question().stream().usage()).await;
        seconds(16).await;
        let [operation] = &points(&collector, "gen_ai.client.operation.duration")[..] else { panic!("one series") };
        says(
            &operation.attributes,
            &[
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.provider.name", "openai"),
                ("gen_ai.request.model", "model-a"),
                ("server.address", "a"),
                ("mai.route", "chat"),
                ("error.type", ""),
            ],
        );
        assert_eq!((first[0].count, operation.count), (1, 2));
        assert_eq!(first[0].start_time_unix_nano, operation.start_time_unix_nano);
        assert!(operation.time_unix_nano > operation.start_time_unix_nano);
        assert_eq!(operation.bucket_counts.len(), operation.explicit_bounds.len() + 1);
        assert_eq!(operation.bucket_counts.iter().sum::<u64>(), 2);
        assert_eq!(operation.explicit_bounds[..3], [0.01, 0.02, 0.04]);
        let tokens = points(&collector, "gen_ai.client.token.usage");
        let kinds: std::collections::BTreeSet<_> =
            tokens.iter().map(|point| value(&point.attributes, "gen_ai.token.type").unwrap()).collect();
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["input", "output"]);
        let sum: f64 = tokens.iter().filter_map(|point| point.sum).sum();
        let counted =
            |kind: &str| stage.metric(&format!("mai_tokens_total{{client=\"app\",kind=\"{kind}\",route=\"chat\"}}"));
        assert!((sum - counted("prompt") - counted("completion")).abs() < 1e-9);
        let [chunk] = &points(&collector, "gen_ai.client.operation.time_to_first_chunk")[..] else {
            panic!("one series")
        };
        assert!((chunk.min.unwrap() - 0.05).abs() < 0.01, "{chunk:?}");
        let [request] = &points(&collector, "http.server.request.duration")[..] else { panic!("one series") };
        says(&request.attributes, &[("http.route", "/v1/chat/completions"), ("http.response.status_code", "200")]);
    });
}

fn dropped(stage: &Stage, reason: &str) -> f64 {
    stage.metric(&format!("mai_telemetry_dropped_total{{reason=\"{reason}\"}}"))
}

#[test]
fn a_collector_that_is_out_is_asked_again_and_costs_no_call_anything() {
    story(async {
        let (stage, collector, _) = stage();
        let busy = Reply::status(503).header("retry-after", "7");
        collector.play(busy);
        stage.ask(question()).await;
        seconds(4).await;
        collector.play(taken());
        assert_eq!(collector.calls().len(), 1, "not before it asked for");
        seconds(5).await;
        let sent = spans(&collector);
        assert_eq!(sent.len(), 4, "the same two spans, twice: {sent:?}");
        assert_eq!(sent[..2], sent[2..]);
        assert_eq!(stage.metric("mai_telemetry_sent_total"), 2.0);
        assert_eq!(dropped(&stage, "given_up"), 0.0);
    });
}

#[test]
fn a_collector_that_asks_for_hours_is_left_alone_for_minutes_and_costs_nothing() {
    story(async {
        let (stage, collector, _) = stage();
        collector.play(Reply::status(429).header("retry-after", "7200"));
        stage.ask(question()).await;
        seconds(20).await;
        let posts = collector.calls().len();
        assert_eq!(spans(&collector).len(), 2);
        for _ in 0..5 {
            stage.ask(question()).await;
            seconds(50).await;
        }
        assert_eq!(collector.calls().len(), posts, "neither spans nor metrics are posted meanwhile");
        assert_eq!((dropped(&stage, "given_up"), dropped(&stage, "queue_full")), (0.0, 0.0));
        collector.play(taken());
        seconds(60).await;
        assert_eq!((stage.metric("mai_telemetry_sent_total"), dropped(&stage, "given_up")), (12.0, 0.0));
    });
}

#[test]
fn a_collector_that_asks_for_hours_again_and_again_costs_what_has_waited_too_long_and_is_not_stormed() {
    story(async {
        let (stage, collector, _) = stage();
        collector.play(Reply::status(503).header("retry-after", "7200"));
        stage.ask(question()).await;
        seconds(5).await;
        stage.ask(question()).await;
        seconds(3_600).await;
        let posts = spans(&collector).len() / 2;
        assert!((4..=7).contains(&posts), "{posts} posts within an hour");
        assert_eq!((dropped(&stage, "given_up"), stage.metric("mai_telemetry_sent_total")), (4.0, 0.0));
    });
}

#[test]
fn a_collector_that_stays_away_costs_spans_which_are_counted() {
    story(async {
        let stage = Stage::set(&told(""));
        stage.host("a", pleasant());
        stage.export();
        stage.ask(question()).await;
        seconds(400).await;
        assert_eq!((dropped(&stage, "given_up"), stage.metric("mai_telemetry_sent_total")), (2.0, 0.0));
    });
}

#[test]
fn what_a_collector_refuses_or_rejects_is_counted_and_not_sent_again() {
    story(async {
        let (stage, collector, _) = stage();
        collector.play(Reply::status(400));
        stage.ask(question()).await;
        seconds(60).await;
        assert_eq!((spans(&collector).len(), dropped(&stage, "refused")), (2, 2.0));
        let partial = ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess { rejected_spans: 1, error_message: "too old".into() }),
        };
        let reply = Reply::pieces([partial.encode_to_vec()]).header("content-type", "application/x-protobuf");
        collector.play(reply);
        stage.ask(question()).await;
        seconds(60).await;
        assert_eq!((dropped(&stage, "rejected"), stage.metric("mai_telemetry_sent_total")), (1.0, 1.0));
    });
}

#[test]
fn a_reload_sends_telemetry_elsewhere_or_nowhere() {
    story(async {
        let (stage, collector, _) = stage();
        let other = stage.host("other:4318", taken());
        stage.ask(question()).await;
        seconds(2).await;
        stage.reload(&told("").replace("otel", "other"));
        stage.ask(question()).await;
        seconds(2).await;
        assert_eq!((spans(&collector).len(), spans(&other).len()), (2, 2));
        stage.reload(USUAL);
        stage.ask(question()).await;
        seconds(60).await;
        assert_eq!((spans(&collector).len(), spans(&other).len()), (2, 2));
    });
}

#[test]
fn what_is_there_at_the_end_is_sent_within_a_bounded_time() {
    story(async {
        let (stage, collector, _) = stage();
        stage.ask(question()).await;
        stage.live.gather();
        assert!(stage.live.telemetry.flush(Duration::from_secs(3)).await);
        assert_eq!(spans(&collector).len(), 2);
        assert!(!points(&collector, "http.server.request.duration").is_empty());
        let (stage, collector, _) = self::stage();
        collector.play(Reply::hang());
        stage.ask(question()).await;
        stage.live.gather();
        assert!(!stage.live.telemetry.flush(Duration::from_secs(3)).await);
    });
}

#[test]
fn the_gateway_s_own_calls_are_children_of_the_call_that_they_serve() {
    story(async {
        let stage = Stage::set(
            r#"
telemetry: { otlp: "http://otel:4318" }
providers:
  - { name: a, base_url: "http://a/v1" }
  - { name: e, base_url: "http://e/v1" }
routes:
  - name: chat
    upstreams: [{ provider: a, model: model-a }]
    cache: { mode: semantic, semantic: { route: emb, threshold: 0.9 } }
  - { name: emb, match: { path: /v1/embeddings }, upstreams: [{ provider: e, model: embed }] }
clients: [{ name: app, keys: [sk-app], routes: [chat] }]
"#,
        );
        let collector = stage.host("otel:4318", taken());
        stage.host("a", pleasant());
        let e = stage.host("e", Script::new());
        stage.export();
        stage.ask(question()).await;
        seconds(2).await;
        let spans = spans(&collector);
        let [server] = of_kind(&spans, SpanKind::Server)[..] else { panic!("one call: {spans:?}") };
        let tries = of_kind(&spans, SpanKind::Client);
        assert!(tries.iter().all(|span| span.parent_span_id == server.span_id && span.trace_id == server.trace_id));
        let own =
            tries.iter().find(|span| value(&span.attributes, "mai.own").is_some()).expect("the question's vector");
        assert_eq!(own.name, "embeddings embed");
        says(&own.attributes, &[("mai.route", "emb"), ("server.address", "e")]);
        let sent = e.calls()[0].request.header("traceparent").unwrap().to_owned();
        assert!(sent.contains(&hex(&own.span_id)));
        assert_eq!(tries.len(), 2);
    });
}

#[test]
fn a_copy_of_a_call_is_no_part_of_its_trace() {
    story(async {
        let config = told("")
            .replace("tier: 1 }]\n  - name: embedding", "tier: 1 }]\n    mirror: { to: b }\n  - name: embedding");
        let stage = Stage::set(&config);
        let collector = stage.host("otel:4318", taken());
        let [_, b] = ["a", "b"].map(|name| stage.host(name, pleasant()));
        stage.export();
        stage.ask(question().header("traceparent", PARENT).header("tracestate", "app=q1")).await;
        b.has_calls(1).await;
        seconds(2).await;
        assert_eq!(spans(&collector).len(), 2);
        let copy = &b.calls()[0].request;
        assert_eq!((copy.header("traceparent"), copy.header("tracestate")), (None, None));
    });
}

#[test]
fn a_call_whose_caller_leaves_is_told_too() {
    story(async {
        let (stage, collector, [a, _]) = stage();
        a.play(Reply::hang());
        let mut caller = stage.caller();
        caller.begin(&question().key(KEY)).await;
        a.has_calls(1).await;
        drop(caller);
        seconds(30).await;
        let spans = spans(&collector);
        let [server] = of_kind(&spans, SpanKind::Server)[..] else { panic!("one call: {spans:?}") };
        says(
            &server.attributes,
            &[("mai.outcome", "caller_gone"), ("http.response.status_code", ""), ("error.type", "")],
        );
        let [attempt] = of_kind(&spans, SpanKind::Client)[..] else { panic!("one try: {spans:?}") };
        says(&attempt.attributes, &[("error.type", "caller_gone")]);
    });
}

#[test]
fn tries_that_another_call_made_for_this_one_too_are_links() {
    story(async {
        let config = told("").replace(
            "match: { path: /v1/embeddings }",
            "match: { path: /v1/embeddings }\n    batch: { max_inputs: 8, wait: 20ms }",
        );
        let stage = Stage::set(&config);
        let collector = stage.host("otel:4318", taken());
        let a = stage.host("a", pleasant());
        stage.export();
        let ask = |text: &str| embeddings("embedding", text);
        let (first, second) = tokio::join!(stage.ask(ask("one").header("traceparent", PARENT)), stage.ask(ask("two")));
        assert_eq!((first.status, second.status, a.calls().len()), (200, 200, 1));
        seconds(2).await;
        let spans = spans(&collector);
        let [attempt] = of_kind(&spans, SpanKind::Client)[..] else { panic!("one try for both: {spans:?}") };
        let linked: Vec<_> = spans.iter().filter(|span| !span.links.is_empty()).collect();
        let [follower] = linked[..] else { panic!("one follows: {spans:?}") };
        let link = &follower.links[0];
        assert_eq!((&link.trace_id, &link.span_id), (&attempt.trace_id, &attempt.span_id));
        assert_ne!(follower.trace_id, attempt.trace_id);
    });
}

#[test]
fn of_traces_that_begin_here_a_share_is_recorded() {
    story(async {
        let stage = Stage::set(&told(", sample: 0"));
        let collector = stage.host("otel:4318", taken());
        let a = stage.host("a", pleasant());
        stage.export();
        stage.ask(question()).await;
        stage.ask(question().header("traceparent", PARENT)).await;
        seconds(20).await;
        let spans = spans(&collector);
        assert!(spans.len() == 2 && spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:?}");
        assert!(a.calls()[0].request.header("traceparent").unwrap().ends_with("-02"));
        assert_eq!(points(&collector, "http.server.request.duration")[0].count, 2, "metrics count every call");
    });
}
