//! Denials as bytes, and when they stay HTTP.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{denying, denying_yaml};
use crate::access_log::lines;
use crate::support::client::Response;
use crate::support::gateway::{Gateway, run};

fn post(gateway: &Gateway, fields: &[(&str, &str)]) -> Response {
    gateway.connect().request("POST", "/denied/x", fields, b"\0\0\0\0\0")
}

#[test]
fn grpc_web_has_its_trailers_in_the_body_in_binary_and_in_text() {
    let gateway = denying("");
    let trailers = b"grpc-status: 8\r\ngrpc-message: Too Many Requests\r\ngrpc-retry-pushback-ms: -1\r\n";
    let frame = [&[0x80, 0, 0, 0, trailers.len() as u8], &trailers[..]].concat();
    for (kind, body) in [
        ("application/grpc-web+proto", frame.clone()),
        ("application/grpc-web-text", STANDARD.encode(&frame).into_bytes()),
    ] {
        let answer = post(&gateway, &[("Content-Type", kind)]);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)));
        assert_eq!(answer.body, body, "{}", answer.text());
        assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
    }
}

#[test]
fn the_fallback_of_a_breaker_is_an_error_of_the_protocol_too() {
    let gateway = Gateway::start(
        "routes:\n\
         - {id: a, uri: 'http://127.0.0.1:1', predicates: [Path=/denied/**], filters: [{name: CircuitBreaker, args: {fallbackUri: \
           'forward:/sorry'}}]}\n\
         - {id: sorry, uri: 'no:', predicates: [Path=/sorry], filters: [SetStatus=503, 'AddResponseHeader=X-Sorry,1']}\n",
    );
    let answer = post(&gateway, &[("Content-Type", "application/grpc-web")]);
    assert_eq!((answer.status, answer.header("x-sorry")), (200, Some("1")));
    assert!(answer.text().contains("grpc-status: 14\r\ngrpc-message: Service Unavailable"), "{}", answer.text());
}

#[test]
fn connect_has_its_error_as_json_or_as_the_end_of_the_stream() {
    let gateway = denying(", body: {text: spent}");
    let unary = post(&gateway, &[("Content-Type", "application/json"), ("Connect-Protocol-Version", "1")]);
    assert_eq!((unary.status, unary.header("content-type")), (429, Some("application/json")));
    assert_eq!(unary.text(), r#"{"code":"resource_exhausted","message":"spent"}"#);
    let stream = post(&gateway, &[("Content-Type", "application/connect+json"), ("Connect-Protocol-Version", "1")]);
    assert_eq!((stream.status, stream.header("content-type")), (200, Some("application/connect+json")));
    let json = br#"{"error":{"code":"resource_exhausted","message":"spent"}}"#;
    assert_eq!(stream.body, [&[2, 0, 0, 0, json.len() as u8], &json[..]].concat());
}

#[test]
fn other_requests_and_other_formats_get_http() {
    let gateway = denying("");
    // Trailers of gRPC need HTTP/2.
    for fields in [&[("Content-Type", "application/grpc")][..], &[("Content-Type", "application/json")], &[]] {
        assert_eq!(post(&gateway, fields).status, 429);
    }
    let web = [("Content-Type", "application/grpc-web")];
    assert_eq!(post(&denying(", error-format: http"), &web).status, 429);
    let http = format!("server: {{error-format: http}}\n{}", denying_yaml(""));
    assert_eq!(post(&Gateway::start(&http), &web).status, 429);
    let auto = format!("server: {{error-format: http}}\n{}", denying_yaml(", error-format: auto"));
    let gateway = Gateway::start(&auto);
    assert_eq!(post(&gateway, &web).status, 200);
    assert_eq!(gateway.connect().request("POST", "/none", &web, b"").status, 404);
}

#[test]
fn a_spring_file_answers_grpc_as_spring_does() {
    let gateway = Gateway::start(
        "spring.cloud.gateway.routes: [{id: a, uri: 'no://op', predicates: [Path=/denied/**], filters: [\
         {name: RequestRateLimiter, args: {keyResolver: 'route', redis-rate-limiter.replenishRate: 1, \
         redis-rate-limiter.burstCapacity: 1, redis-rate-limiter.requestedTokens: 2, store: memory}}]}]",
    );
    assert_eq!(post(&gateway, &[("Content-Type", "application/grpc-web")]).status, 429);
}

#[test]
fn the_access_log_has_the_status_without_the_translation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = format!("access-log: {{output: '{}', format: json}}\n", path.display());
    let gateway = Gateway::start(&(log + &denying_yaml("")));
    assert_eq!(post(&gateway, &[("Content-Type", "application/grpc-web")]).status, 200);
    let line: serde_json::Value = serde_json::from_str(&lines(&path, 1)[0]).unwrap();
    assert_eq!((&line["status"], &line["reason"]), (&429.into(), &"rate-limited".into()));
}

#[test]
fn check_names_routes_to_grpc_services_whose_denials_are_http() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("application.yml");
    let notes = |limiter: &str, http2: &str| {
        let yaml = format!(
            "spring.cloud.gateway.routes: [{{id: orders, uri: 'http://127.0.0.1:1', predicates: [Path=/a], metadata: {{http2: {http2}}}, \
             filters: [{{name: RequestRateLimiter, args: {{keyResolver: route, redis-rate-limiter.replenishRate: 1, \
             redis-rate-limiter.burstCapacity: 1, store: memory{limiter}}}}}]}}]"
        );
        std::fs::write(&config, yaml).unwrap();
        let (_, text, errors) = run(&["check", "--offline", config.to_str().unwrap()]);
        (text + &errors).contains("denied gRPC calls of `orders` get HTTP 429")
    };
    assert!(notes("", "prior-knowledge"));
    assert!(!notes("", "auto"));
    assert!(!notes(", error-format: auto", "prior-knowledge"));
}
