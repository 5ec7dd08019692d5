#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;

use bytes::Bytes;
use http::Method;
use http_body_util::Full;
use tower::{Layer, ServiceExt, service_fn};

use super::*;

fn names(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn policy(settings: Settings) -> Policy {
    Policy::new(&settings).unwrap()
}

fn shop() -> Settings {
    Settings {
        allowed_origins: names(&["https://shop.example/"]),
        allowed_origin_patterns: names(&["https://*.partner.example"]),
        allowed_methods: names(&["GET", "POST"]),
        allowed_headers: names(&["X-A", "content-type"]),
        exposed_headers: names(&["X-B", "X-C"]),
        allow_credentials: true,
        max_age_secs: Some(600),
        ..Settings::default()
    }
}

fn request(method: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).header("host", "api");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

fn values<'h>(headers: &'h HeaderMap, name: &str) -> Vec<&'h str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

const VARIES: [&str; 3] = ["Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"];
const SHOP: (&str, &str) = ("origin", "https://shop.example");
const POST: (&str, &str) = ("access-control-request-method", "POST");

#[test]
fn a_preflight_response_lists_the_allowed_values() {
    let requested = ("access-control-request-headers", "x-a, X-Unknown , Content-Type");
    let Verdict::Preflight(headers) = policy(shop()).evaluate(&request("OPTIONS", &[SHOP, POST, requested]), "http")
    else {
        panic!("no preflight")
    };
    assert_eq!(values(&headers, "access-control-allow-origin"), ["https://shop.example"]);
    assert_eq!(values(&headers, "access-control-allow-methods"), ["GET,POST"]);
    assert_eq!(values(&headers, "access-control-allow-headers"), ["x-a, Content-Type"]);
    assert_eq!(values(&headers, "access-control-expose-headers"), ["X-B, X-C"]);
    assert_eq!(values(&headers, "access-control-allow-credentials"), ["true"]);
    assert_eq!(values(&headers, "access-control-max-age"), ["600"]);
    assert_eq!(values(&headers, "vary"), VARIES);
}

#[test]
fn stars_allow_the_requested_values() {
    let stars = Settings {
        allowed_origins: names(&["*"]),
        allowed_methods: names(&["*"]),
        allowed_headers: names(&["*"]),
        ..Settings::default()
    };
    let preflight = request(
        "OPTIONS",
        &[("origin", "null"), ("access-control-request-method", "BREW"), ("access-control-request-headers", "x-y")],
    );
    let Verdict::Preflight(headers) = policy(stars.clone()).evaluate(&preflight, "http") else {
        panic!("no preflight")
    };
    assert_eq!(values(&headers, "access-control-allow-origin"), ["*"]);
    assert_eq!(values(&headers, "access-control-allow-methods"), ["BREW"]);
    assert_eq!(values(&headers, "access-control-allow-headers"), ["x-y"]);
    assert_eq!(headers.len(), 6);
    assert_eq!(
        Policy::new(&Settings { allow_credentials: true, ..stars.clone() }).unwrap_err(),
        PolicyError::CredentialsForAnyOrigin
    );
    assert_eq!(
        Policy::new(&Settings { allow_private_network: true, ..stars }).unwrap_err(),
        PolicyError::PrivateNetworkForAnyOrigin
    );
    let by_pattern =
        Settings { allowed_origin_patterns: names(&["*"]), allow_credentials: true, ..Settings::default() };
    let Verdict::Allowed(headers) = policy(by_pattern).evaluate(&request("GET", &[SHOP]), "http") else {
        panic!("denied")
    };
    assert_eq!(values(&headers, "access-control-allow-origin"), ["https://shop.example"]);
}

#[test]
fn only_allowed_requests_are_forwarded() {
    let get = ("access-control-request-method", "GET");
    let headers = ("access-control-request-headers", "x-unknown");
    for (method, fields, expected) in [
        ("GET", vec![], "plain"),
        ("OPTIONS", vec![], "plain"),
        ("GET", vec![SHOP], "allowed"),
        ("GET", vec![("origin", "HTTPS://SHOP.EXAMPLE")], "allowed"),
        ("POST", vec![("origin", "https://a.partner.example")], "allowed"),
        ("DELETE", vec![SHOP], "denied"),
        ("OPTIONS", vec![SHOP], "denied"),
        ("GET", vec![("origin", "https://evil.example")], "denied"),
        ("GET", vec![("origin", "null")], "denied"),
        ("GET", vec![("origin", "shop.example")], "denied"),
        ("OPTIONS", vec![SHOP, get], "preflight"),
        ("OPTIONS", vec![SHOP, ("access-control-request-method", "DELETE")], "denied"),
        ("OPTIONS", vec![SHOP, ("access-control-request-method", "get")], "denied"),
        ("OPTIONS", vec![SHOP, get, headers], "denied"),
        ("OPTIONS", vec![("origin", "https://evil.example"), get], "denied"),
        // The same origin, or the same host behind a proxy that terminates TLS.
        ("DELETE", vec![("origin", "http://api")], "plain"),
        ("DELETE", vec![("origin", "https://api:443")], "plain"),
        ("OPTIONS", vec![("origin", "http://api"), get], "preflight"),
        ("GET", vec![("origin", "http://api:81")], "denied"),
    ] {
        let found = match policy(shop()).evaluate(&request(method, &fields), "http") {
            Verdict::Allowed(headers) if headers.contains_key("access-control-allow-origin") => "allowed",
            Verdict::Allowed(headers) => {
                assert_eq!(values(&headers, "vary"), VARIES);
                "plain"
            }
            Verdict::Preflight(_) => "preflight",
            Verdict::Denied(..) => "denied",
        };
        assert_eq!(found, expected, "{method} {fields:?}");
    }
    let Verdict::Denied(Refusal::Origin, _) = policy(Settings::default()).evaluate(&request("GET", &[SHOP]), "http")
    else {
        panic!("only listed origins are allowed")
    };
}

#[test]
fn a_private_network_is_allowed_if_requested() {
    let settings = Settings { allow_private_network: true, ..shop() };
    let requests_it = ("access-control-request-private-network", "true");
    let Verdict::Preflight(headers) =
        policy(settings).evaluate(&request("OPTIONS", &[SHOP, POST, requests_it]), "http")
    else {
        panic!("no preflight")
    };
    assert_eq!(values(&headers, "access-control-allow-private-network"), ["true"]);
}

#[test]
fn invalid_names_are_errors() {
    let wrong = |settings: Settings| Policy::new(&settings).unwrap_err().to_string();
    assert_eq!(
        wrong(Settings { allowed_methods: names(&["GET POST"]), ..Settings::default() }),
        "`GET POST` is not a method"
    );
    assert_eq!(
        wrong(Settings { allowed_headers: names(&["a b"]), ..Settings::default() }),
        "`a b` is not a header name"
    );
    assert_eq!(wrong(Settings { exposed_headers: names(&["é"]), ..Settings::default() }), "`é` is not a header name");
}

#[tokio::test]
async fn policy_headers_precede_the_upstreams_and_are_added_to_local_responses() {
    let upstream = |local: bool| {
        service_fn(move |_: Request<()>| async move {
            let mut response = Response::new(Full::<Bytes>::default());
            if local {
                response.extensions_mut().insert(LocalReply { reason: "rate-limited" });
            } else {
                response.headers_mut().insert("access-control-allow-origin", http::HeaderValue::from_static("*"));
                response.headers_mut().append("vary", http::HeaderValue::from_static("Accept"));
                response.headers_mut().append("vary", http::HeaderValue::from_static("Origin"));
            }
            Ok::<_, Infallible>(response)
        })
    };
    let cors = CorsLayer::new(SinglePolicy(Arc::new(policy(shop()))));
    for (upstream_headers, origins) in [
        (UpstreamHeaders::Keep, &["https://shop.example", "*"][..]),
        (UpstreamHeaders::Replace, &["https://shop.example"]),
    ] {
        let service = cors.layer(PolicyHeadersLayer::new(upstream_headers).layer(upstream(false)));
        let through = service.oneshot(request("GET", &[SHOP])).await.unwrap();
        assert_eq!(values(through.headers(), "access-control-allow-origin"), origins);
        assert_eq!(values(through.headers(), "vary"), [VARIES.as_slice(), &["Accept"]].concat());
    }
    let local = cors.layer(upstream(true)).oneshot(request("GET", &[SHOP])).await.unwrap();
    assert_eq!(values(local.headers(), "access-control-allow-origin"), ["https://shop.example"]);
    let refused =
        cors.layer(upstream(false)).oneshot(request("GET", &[("origin", "https://evil.example")])).await.unwrap();
    assert_eq!((refused.status().as_u16(), LocalReply::marks(&refused)), (403, true));
    assert_eq!(values(refused.headers(), "vary"), VARIES);
}
