//! Trace contexts of Zipkin, in one field and in several.

use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Request, Upstream};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// Returns the request that an upstream gets for one with `fields`.
fn forwarded(propagation: &str, fields: &[(&str, &str)]) -> (Request, bool) {
    let (collector, upstream) = (Upstream::ok("{}"), Upstream::ok("x"));
    let gateway = Gateway::start(&format!(
        "management: {{tracing: {{sampling: {{probability: 0}}, propagation: {propagation}}}, otlp: {{tracing: {{endpoint: \
         '{}/v1/traces'}}}}}}\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        collector.uri(),
        upstream.uri(),
    ));
    assert_eq!(gateway.connect().request("GET", "/x", fields, b"").status, 200);
    let request = upstream.requests().remove(0);
    let is_sampled = request.header("b3").or(request.header("traceparent")).is_some_and(|field| {
        let is_continued = !field.contains(SPAN);
        is_continued && field.contains(TRACE)
    }) || request.header("x-b3-spanid").is_some_and(|span| span != SPAN);
    if is_sampled {
        eventually("the spans arrive", || !collector.requests().is_empty());
    }
    (request, is_sampled)
}

#[test]
fn a_context_in_b3_is_continued_in_the_formats_asked_for() {
    let single = format!("{TRACE}-{SPAN}-1");
    let several = [("X-B3-TraceId", TRACE), ("X-B3-SpanId", SPAN), ("X-B3-Sampled", "1")];
    let (request, is_sampled) = forwarded("{type: B3}", &[("b3", &single)]);
    let field = request.header("b3").unwrap();
    assert!(is_sampled && field.starts_with(TRACE) && field.ends_with("-1"), "{field}");
    assert_eq!(request.header("traceparent"), None);
    let (request, is_sampled) = forwarded("{type: [W3C, B3_MULTI]}", &several);
    assert!(is_sampled && request.header("traceparent").unwrap().starts_with(&format!("00-{TRACE}-")));
    assert_eq!((request.header("x-b3-traceid"), request.header("x-b3-sampled")), (Some(TRACE), Some("1")));
    let (request, is_sampled) = forwarded("{consume: 'W3C,B3', produce: W3C}", &[("b3", &single)]);
    assert!(is_sampled && request.header("traceparent").unwrap().starts_with(&format!("00-{TRACE}-")));
    assert_eq!(request.header("b3"), None, "it names the span of the client");
}

#[test]
fn the_decision_of_a_client_in_b3_holds_and_is_passed_on() {
    let single = format!("{TRACE}-{SPAN}-0");
    let (request, is_sampled) = forwarded("{type: B3}", &[("b3", &single)]);
    assert_eq!((request.header("b3"), is_sampled), (Some(&*single), false), "as it is");
    let (request, is_sampled) = forwarded("{consume: B3, produce: W3C}", &[("b3", &single)]);
    let translated = format!("00-{TRACE}-{SPAN}-00");
    assert_eq!((request.header("traceparent"), is_sampled), (Some(&*translated), false));
    let (request, is_sampled) = forwarded("{type: B3}", &[("b3", "0")]);
    assert_eq!((request.header("b3"), is_sampled), (Some("0"), false));
}

#[test]
fn without_being_asked_the_gateway_continues_no_b3() {
    let single = format!("{TRACE}-{SPAN}-1");
    let (request, is_sampled) = forwarded("{}", &[("b3", &single)]);
    assert_eq!((request.header("b3"), request.header("traceparent"), is_sampled), (Some(&*single), None, false));
    let (request, _) = forwarded("{type: B3}", &[("b3", "nonsense")]);
    assert_eq!(request.header("b3"), None, "an invalid context is not forwarded");
}
