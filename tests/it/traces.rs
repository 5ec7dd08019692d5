//! Traces: spans as a collector receives them, and the context that upstreams get.

use std::net::TcpListener;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;

use crate::support::gateway::Gateway;
use crate::support::redis::Redis;
use crate::support::upstream::{Upstream, response};
use crate::support::{eventually, free_address};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// Configuration of traces to `collector`.
pub(crate) fn traced(collector: &Upstream, probability: f64) -> String {
    format!(
        "management: {{tracing: {{sampling: {{probability: {probability}}}}}, otlp: {{tracing: {{endpoint: \
         '{}/v1/traces', headers: {{X-Key: secret-of-the-collector}}, timeout: 5s}}}}, \
         opentelemetry: {{resource-attributes: {{service.name: edge}}}}}}\n",
        collector.uri()
    )
}

/// Spans that `collector` has received.
fn spans(collector: &Upstream) -> Vec<Span> {
    let exported = collector.requests().into_iter().flat_map(|request| {
        assert_eq!((request.target(), request.header("content-type")), ("/v1/traces", Some("application/x-protobuf")));
        assert_eq!(request.header("x-key"), Some("secret-of-the-collector"));
        ExportTraceServiceRequest::decode(&*request.body).unwrap().resource_spans
    });
    let exported = exported.flat_map(|resource| {
        let attributes = resource.resource.unwrap().attributes;
        assert_eq!(text(&attributes, "service.name").as_deref(), Some("edge"));
        resource.scope_spans
    });
    exported.flat_map(|scope| scope.spans).collect()
}

/// Waits for `count` spans, in the order of their starts.
pub(crate) fn wait_for(collector: &Upstream, count: usize) -> Vec<Span> {
    eventually("the spans arrive", || spans(collector).len() >= count);
    let mut spans = spans(collector);
    assert_eq!(spans.len(), count, "{spans:#?}");
    spans.sort_by_key(|span| span.start_time_unix_nano);
    spans
}

/// Returns the value of an attribute as text.
fn text(attributes: &[opentelemetry_proto::tonic::common::v1::KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    Some(match found.value.clone()?.value? {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => panic!("{name}: {other:?}"),
    })
}

pub(crate) fn attribute(span: &Span, name: &str) -> String {
    text(&span.attributes, name).unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_sampled_context_is_continued_through_limiter_and_upstream() {
    let (collector, upstream, redis) = (Upstream::ok("{}"), Upstream::ok("x"), Redis::start());
    let gateway = Gateway::start(&format!(
        "{}redis: {{url: '{}'}}\nroutes:\n- {{id: orders, uri: '{}', predicates: ['Path=/orders/{{id}}'], filters: \
         [{{name: RequestRateLimiter, args: {{replenish-rate: 1, burst-capacity: 1, key-resolver: ip}}}}]}}\n",
        traced(&collector, 0.0),
        redis.url(),
        upstream.uri(),
    ));
    eventually("Redis is connected", || gateway.metric("tollgate_redis_connections", &[]) > 0.0);
    let fields = [("traceparent", SAMPLED), ("tracestate", "a=1,b=2"), ("user-agent", "test")];
    let answer = gateway.connect().request("GET", "/orders/7?token=hidden", &fields, b"");
    assert_eq!(answer.status, 200);
    let spans = wait_for(&collector, 3);
    let [server, limiter, attempt] = &spans[..] else { panic!() };

    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE && span.trace_state == "a=1,b=2"));
    assert_eq!((server.name.as_str(), server.kind()), ("GET /orders/{id}", SpanKind::Server));
    assert_eq!(hex(&server.parent_span_id), "b7ad6b7169203331");
    for (name, value) in [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("http.route", "/orders/{id}"),
        ("url.path", "/orders/7"),
        ("url.scheme", "http"),
        ("network.protocol.version", "1.1"),
        ("client.address", "127.0.0.1"),
        ("user_agent.original", "test"),
        ("tollgate.route", "orders"),
    ] {
        assert_eq!(attribute(server, name), value, "{name}");
    }
    assert!(!format!("{spans:?}").contains("hidden"), "the query may hold secrets");

    assert_eq!((limiter.name.as_str(), limiter.kind()), ("RequestRateLimiter", SpanKind::Client));
    for (name, value) in [
        ("tollgate.verdict", "allowed"),
        ("tollgate.source", "redis"),
        ("db.system.name", "redis"),
        ("tollgate.rule", "orders"),
    ] {
        assert_eq!(attribute(limiter, name), value, "{name}");
    }
    assert_eq!((attempt.name.as_str(), attempt.kind()), ("GET", SpanKind::Client));
    assert_eq!(attribute(attempt, "http.response.status_code"), "200");
    assert_eq!(attribute(attempt, "server.port"), upstream.address.port().to_string());
    for child in [limiter, attempt] {
        assert_eq!(child.parent_span_id, server.span_id);
        assert!(
            server.start_time_unix_nano <= child.start_time_unix_nano
                && child.start_time_unix_nano <= child.end_time_unix_nano
        );
        assert!(child.end_time_unix_nano <= server.end_time_unix_nano);
    }
    assert!(limiter.end_time_unix_nano <= attempt.start_time_unix_nano);

    let received = &upstream.requests()[0];
    assert_eq!(received.all("traceparent"), [format!("00-{TRACE}-{}-01", hex(&attempt.span_id))]);
    assert_eq!(received.header("tracestate"), Some("a=1,b=2"));
    eventually("the export is counted", || gateway.metric("tollgate_trace_spans_exported_total", &[]) == 3.0);
}

#[test]
fn a_denial_ends_with_the_span_of_its_limiter() {
    let collector = Upstream::ok("{}");
    let gateway = Gateway::start(&format!(
        "{}routes:\n- {{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{{name: RequestRateLimiter, args: \
         {{key-resolver: 'header:x-key', limits: [{{name: day, algorithm: fixed-window, limit: 1, window: 1d}}, \
         {{name: burst, replenish-rate: 9, burst-capacity: 9}}]}}}}]}}\n",
        traced(&collector, 1.0)
    ));
    for status in [200, 429] {
        assert_eq!(gateway.connect().request("GET", "/a", &[("x-key", "k")], b"").status, status);
    }
    let spans = wait_for(&collector, 4);
    let limiters: Vec<_> = spans.iter().filter(|span| span.name == "RequestRateLimiter").collect();
    let shown =
        |span: &Span| ["tollgate.rule", "tollgate.verdict", "tollgate.source"].map(|name| attribute(span, name));
    assert_eq!(limiters[0].kind(), SpanKind::Internal);
    assert_eq!(shown(limiters[1]), ["day", "denied", "memory"]);
    let denied = spans.iter().find(|span| attribute(span, "http.response.status_code") == "429").unwrap();
    assert!(denied.parent_span_id.is_empty(), "it is a root");
    assert!(denied.status.is_none(), "a denial is no error of the gateway");
}

#[test]
fn each_limiter_of_a_route_is_one_span_whatever_it_decides() {
    let collector = Upstream::ok("{}");
    let gateway = Gateway::start(&format!(
        "{}routes:\n- {{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{{name: RequestRateLimiter, args: \
         {{key-resolver: 'header:x-key', limits: [{{name: day, algorithm: fixed-window, limit: 9, window: 1d}}, \
         {{name: tried, algorithm: fixed-window, limit: 1, window: 1d, mode: observe}}]}}}}, {{name: RequestRateLimiter, \
         args: {{replenish-rate: 9, burst-capacity: 9, key-resolver: 'header:x-user'}}}}]}}\n",
        traced(&collector, 1.0)
    ));
    for (status, fields) in [(200, &[("x-key", "k"), ("x-user", "u")][..]), (403, &[("x-key", "k")])] {
        assert_eq!(gateway.connect().request("GET", "/a", fields, b"").status, status);
    }
    let spans = wait_for(&collector, 5);
    let limiters: Vec<_> = spans.iter().filter(|span| span.name == "RequestRateLimiter").collect();
    let shown =
        |span: &&Span| ["tollgate.rule", "tollgate.verdict", "tollgate.source"].map(|name| attribute(span, name));
    let expected = [["day", "allowed", "memory"], ["a#2", "allowed", "memory"], ["tried", "observed", "memory"]];
    assert_eq!(limiters.iter().map(shown).collect::<Vec<_>>(), expected, "without a key there is no decision");
    for pair in limiters.windows(2) {
        assert!(pair[0].end_time_unix_nano <= pair[1].start_time_unix_nano, "{pair:?}");
    }
}

#[test]
fn each_attempt_is_a_span() {
    let collector = Upstream::ok("{}");
    let upstream = Upstream::start(|_| response(503, &[], b"busy"));
    let gateway = Gateway::start(&format!(
        "{}upstreams: {{pool: {{endpoints: ['{}'], balance: round-robin}}}}\nroutes:\n\
         - {{id: again, uri: 'lb://pool', predicates: [Path=/again], filters: [{{name: Retry, args: {{retries: 2, statuses: \
         SERVICE_UNAVAILABLE}}}}]}}\n- {{id: gone, uri: 'http://{}', predicates: [Path=/gone]}}\n",
        traced(&collector, 1.0),
        upstream.uri(),
        free_address(),
    ));
    assert_eq!(gateway.get("/again").status, 503);
    let spans = wait_for(&collector, 4);
    let attempts: Vec<_> = spans.iter().filter(|span| span.kind() == SpanKind::Client).collect();
    assert_eq!(
        attempts.iter().map(|span| attribute(span, "http.request.resend_count")).collect::<Vec<_>>(),
        ["", "1", "2"]
    );
    let sent: Vec<_> =
        upstream.requests().iter().map(|request| request.header("traceparent").unwrap().to_owned()).collect();
    for (attempt, sent) in attempts.iter().zip(&sent) {
        assert_eq!(attribute(attempt, "error.type"), "503");
        assert_eq!(*sent, format!("00-{}-{}-03", hex(&attempt.trace_id), hex(&attempt.span_id)));
    }
    assert_eq!((attempts.len(), sent.len()), (3, 3));
    let server = spans.iter().find(|span| span.kind() == SpanKind::Server).unwrap();
    assert_eq!((server.status.as_ref().unwrap().code, attribute(server, "error.type").as_str()), (2, "503"));

    assert_eq!(gateway.get("/gone").status, 502);
    eventually("the failed attempt arrives", || super::traces::spans(&collector).len() == 6);
    let failed = spans_of(&collector, "/gone");
    assert_eq!(failed.len(), 2);
    let attempt = failed.iter().find(|span| span.kind() == SpanKind::Client).unwrap();
    assert_eq!((attempt.status.as_ref().unwrap().code, attribute(attempt, "error.type").is_empty()), (2, false));
}

/// Spans of the trace whose server span has `path`.
fn spans_of(collector: &Upstream, path: &str) -> Vec<Span> {
    let all = spans(collector);
    let server = all.iter().find(|span| attribute(span, "url.path") == path).unwrap();
    all.iter().filter(|span| span.trace_id == server.trace_id).cloned().collect()
}

#[test]
fn the_decision_of_the_client_holds_and_new_traces_follow_the_ratio() {
    let (collector, upstream) = (Upstream::ok("{}"), Upstream::ok("x"));
    let to = |probability| {
        Gateway::start(&format!(
            "{}routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]\n",
            traced(&collector, probability),
            upstream.uri()
        ))
    };
    let (always, never) = (to(1.0), to(0.0));
    let send = |gateway: &Gateway, path: &str, fields: &[(&str, &str)]| {
        assert_eq!(gateway.connect().request("GET", path, fields, b"").status, 200);
        upstream.requests().into_iter().rev().find(|request| request.target() == path).unwrap()
    };
    let kept = send(&always, "/unsampled", &[("traceparent", UNSAMPLED), ("tracestate", "a=1")]);
    assert_eq!((kept.all("traceparent"), kept.all("tracestate")), (vec![UNSAMPLED], vec!["a=1"]));
    let random = send(&never, "/random", &[("traceparent", &SAMPLED.replace("-01", "-07"))]);
    assert!(random.header("traceparent").is_some_and(|sent| sent.ends_with("-03")), "{random:?}");
    assert_eq!(send(&never, "/never", &[]).header("traceparent"), None);
    let discarded = send(&never, "/discarded", &[("traceparent", "00-0-0-01"), ("tracestate", "a=1")]);
    assert_eq!((discarded.header("traceparent"), discarded.header("tracestate")), (None, None));
    let restarted = send(&always, "/invalid", &[("traceparent", "00-0-0-01"), ("tracestate", "a=1")]);
    let [begun] = restarted.all("traceparent")[..] else { panic!("{restarted:?}") };
    assert!(begun.ends_with("-03") && restarted.header("tracestate").is_none(), "its id is random: {restarted:?}");
    wait_for(&collector, 4);
    assert_eq!(spans_of(&collector, "/invalid").len(), 2);
}

#[test]
fn without_a_collector_the_context_passes_unchanged() {
    let upstream = Upstream::ok("x");
    let gateway = Gateway::to(&upstream.uri());
    for fields in [&[("traceparent", SAMPLED), ("tracestate", "a=1")][..], &[]] {
        gateway.connect().request("GET", "/", fields, b"");
    }
    let [first, second] = &upstream.requests()[..] else { panic!() };
    assert_eq!((first.header("traceparent"), first.header("tracestate")), (Some(SAMPLED), Some("a=1")));
    assert_eq!(second.header("traceparent"), None);
    assert!(!gateway.admin("/metrics").text().contains("tollgate_trace_"));
}

#[test]
fn a_dead_collector_costs_spans_and_no_request() {
    // It accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gateway = Gateway::start(&format!(
        "management: {{tracing: {{sampling: {{probability: 1}}}}, otlp: {{tracing: {{endpoint: 'http://{}/', timeout: 1s}}}}}}\n\
         routes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n",
        silent.local_addr().unwrap()
    ));
    let mut client = gateway.connect();
    eventually("the queue overflows", || {
        for _ in 0..1000 {
            assert_eq!(client.request("GET", "/", &[], b"").status, 200);
        }
        gateway.metric("tollgate_trace_spans_dropped_total", &["queue_full"]) > 0.0
    });
    eventually("batches fail", || gateway.metric("tollgate_trace_spans_dropped_total", &["export_failed"]) > 0.0);
    assert!(gateway.logged("spans dropped").contains("timed out after"));
    assert_eq!(gateway.metric("tollgate_trace_spans_exported_total", &[]), 0.0);
}

#[test]
fn spans_are_sent_before_the_gateway_exits() {
    let collector = Upstream::ok("{}");
    let mut gateway = Gateway::start(&format!(
        "{}routes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n",
        traced(&collector, 1.0)
    ));
    assert_eq!(gateway.get("/last").status, 200);
    gateway.signal("TERM");
    assert!(gateway.wait().success());
    assert_eq!(spans_of(&collector, "/last").len(), 1);
}
