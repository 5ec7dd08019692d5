#![allow(clippy::unwrap_used)]

use std::time::Duration;

use http::Request;

use super::*;

fn caller(version: Version, fields: &[(&str, &str)]) -> Option<RpcCaller> {
    let builder =
        fields.iter().fold(Request::builder().version(version), |builder, (name, value)| builder.header(*name, *value));
    RpcCaller::of(&builder.body(()).unwrap().into_parts().0, ErrorFormat::Auto).map(|caller| *caller)
}

#[test]
fn protocols_are_told_by_content_type_and_version() {
    let of = |version, kind| caller(version, &[("content-type", kind)]).map(|caller| caller.protocol);
    for kind in ["application/grpc", "application/grpc+proto", "application/grpc;x=1", "Application/GRPC ; x"] {
        assert_eq!(of(Version::HTTP_2, kind), Some(Protocol::Grpc), "{kind}");
        assert_eq!(of(Version::HTTP_11, kind), None, "{kind}");
        assert!(is_rpc_type(kind.as_bytes()));
    }
    for (kind, protocol) in [
        ("application/grpc-web", Some(Protocol::GrpcWeb)),
        ("application/grpc-web+proto", Some(Protocol::GrpcWeb)),
        ("application/grpc-web-text+proto", Some(Protocol::GrpcWebText)),
        ("application/connect+json", Some(Protocol::ConnectStream)),
        ("application/connect", None),
        ("application/grpcx", None),
        ("application/json", None),
    ] {
        assert_eq!(of(Version::HTTP_11, kind), protocol, "{kind}");
        assert!(protocol.is_none() || is_rpc_type(kind.as_bytes()), "{kind}");
    }
    let versioned =
        |version| caller(Version::HTTP_11, &[("content-type", "application/json"), (CONNECT_VERSION, version)]);
    assert_eq!(versioned("1").map(|caller| caller.protocol), Some(Protocol::ConnectUnary));
    assert!(versioned("2").is_none());
}

fn local(status: u16, body: &'static str) -> Response<Body> {
    let mut response = Response::builder().status(status).header("content-length", body.len()).header("x-kept", "1");
    response.extensions_mut().unwrap().insert(LocalReply { reason: "test" });
    response.body(Bytes::from(body).into()).unwrap()
}

fn denied(status: u16, body: &'static str, retry: RetryAdvice) -> Response<Body> {
    let mut response = local(status, body);
    response.extensions_mut().insert(Refusal {
        status: StatusCode::TOO_MANY_REQUESTS,
        reason: "rate-limited",
        format: ErrorFormat::Auto,
        is_denial: true,
        retry: Some(retry),
        rule: None,
    });
    response
}

fn grpc() -> RpcCaller {
    caller(Version::HTTP_2, &[("content-type", "application/grpc")]).unwrap()
}

#[test]
fn each_status_has_its_code() {
    for (status, code) in [
        (400, 13),
        (401, 16),
        (403, 7),
        (404, 12),
        (413, 8),
        (429, 13),
        (431, 8),
        (500, 13),
        (502, 14),
        (503, 14),
        (504, 4),
    ] {
        let mut response = local(status, "");
        grpc().translate(&mut response);
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], code.to_string(), "{status}");
        let never = response.headers().get("grpc-retry-pushback-ms").is_some_and(|value| value == "-1");
        assert_eq!(never, [413, 431].contains(&status), "{status}");
    }
    let mut denial = denied(500, "", RetryAdvice::Never);
    grpc().translate(&mut denial);
    assert_eq!(
        (denial.headers()["grpc-status"].as_bytes(), denial.headers()["x-kept"].as_bytes()),
        (&b"8"[..], &b"1"[..])
    );
}

#[test]
fn responses_of_upstreams_and_successes_are_unchanged() {
    for mut response in [local(200, "ok"), Response::builder().status(503).body(Body::default()).unwrap()] {
        let before = (response.status(), response.headers().clone());
        grpc().translate(&mut response);
        assert_eq!((response.status(), response.headers().clone()), before);
    }
    let mut response = denied(429, "", RetryAdvice::Never);
    response.extensions_mut().get_mut::<Refusal>().unwrap().format = ErrorFormat::Http;
    grpc().translate(&mut response);
    assert_eq!(response.status(), 429);
}

#[test]
fn a_message_is_the_text_of_the_body_in_percent_encoding_and_bounded() {
    let text = |body: &'static str| {
        let mut response = denied(429, body, RetryAdvice::Never);
        grpc().translate(&mut response);
        response.headers()["grpc-message"].to_str().unwrap().to_owned()
    };
    assert_eq!(text("100 % spent\nwait\n"), "100 %25 spent%0Await");
    assert_eq!(text("é"), "%C3%A9");
    assert_eq!(text(""), "Too Many Requests");
    let long: &'static str = "é".repeat(1000).leak();
    assert_eq!(text(long).len(), 512 * 6);
}

#[test]
fn the_time_of_a_retry_is_rounded_up_to_milliseconds_and_fits_in_32_bits() {
    for (wait, millis) in [(Duration::from_micros(1_200_001), "1201"), (Duration::from_secs(90 * 86_400), "2147483647")]
    {
        let mut response = denied(429, "", RetryAdvice::After(wait));
        grpc().translate(&mut response);
        assert_eq!(response.headers()["grpc-retry-pushback-ms"], millis);
    }
    // As the library of Protocol Buffers for Python writes it.
    let details = grpc::status_details(8, "no", Duration::from_millis(1500));
    let any = b"\x0a\x28type.googleapis.com/google.rpc.RetryInfo\x12\x0a\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01";
    assert_eq!(details, [&b"\x08\x08\x12\x02no\x1a"[..], &[any.len() as u8], any].concat());
}

#[test]
fn an_empty_retry_delay_of_connect_is_a_message_too() {
    let mut response = denied(200, "spent", RetryAdvice::After(Duration::ZERO));
    caller(Version::HTTP_11, &[("content-type", "application/proto"), (CONNECT_VERSION, "1")])
        .unwrap()
        .translate(&mut response);
    assert_eq!(
        (response.status().as_u16(), response.headers()["content-type"].as_bytes()),
        (429, &b"application/json"[..])
    );
    let error: serde_json::Value = serde_json::from_slice(response.body().whole().unwrap()).unwrap();
    assert_eq!(
        error,
        json!({"code": "resource_exhausted", "message": "spent", "details": [{"type": grpc::RETRY_INFO, "value": "CgA"}]})
    );
}
