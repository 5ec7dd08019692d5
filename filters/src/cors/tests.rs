#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;

use http::Method;
use http_body_util::Full;
use tower::{ServiceExt, service_fn};

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
fn a_preflight_is_answered_with_what_is_allowed() {
    let asked = ("access-control-request-headers", "x-a, X-Unknown , Content-Type");
    let Verdict::Preflight(headers) = policy(shop()).judge(&request("OPTIONS", &[SHOP, POST, asked]), "http") else {
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
fn stars_allow_what_is_asked_for() {
    let stars = Settings {
        allowed_origins: names(&["*"]),
        allowed_methods: names(&["*"]),
        allowed_headers: names(&["*"]),
        ..Settings::default()
    };
    let asked = request(
        "OPTIONS",
        &[("origin", "null"), ("access-control-request-method", "BREW"), ("access-control-request-headers", "x-y")],
    );
    let Verdict::Preflight(headers) = policy(stars.clone()).judge(&asked, "http") else { panic!("no preflight") };
    assert_eq!(values(&headers, "access-control-allow-origin"), ["*"]);
    assert_eq!(values(&headers, "access-control-allow-methods"), ["BREW"]);
    assert_eq!(values(&headers, "access-control-allow-headers"), ["x-y"]);
    assert_eq!(headers.len(), 6);
    assert_eq!(
        Policy::new(&Settings { allow_credentials: true, ..stars.clone() }).unwrap_err(),
        PolicyError::CredentialsForEveryone
    );
    assert_eq!(
        Policy::new(&Settings { allow_private_network: true, ..stars }).unwrap_err(),
        PolicyError::PrivateNetworkForEveryone
    );
    let by_pattern =
        Settings { allowed_origin_patterns: names(&["*"]), allow_credentials: true, ..Settings::default() };
    let Verdict::Passes(headers) = policy(by_pattern).judge(&request("GET", &[SHOP]), "http") else {
        panic!("refused")
    };
    assert_eq!(values(&headers, "access-control-allow-origin"), ["https://shop.example"]);
}

#[test]
fn what_is_not_allowed_is_refused_and_the_rest_passes() {
    let get = ("access-control-request-method", "GET");
    let headers = ("access-control-request-headers", "x-unknown");
    for (method, fields, expected) in [
        ("GET", vec![], "plain"),
        ("OPTIONS", vec![], "plain"),
        ("GET", vec![SHOP], "granted"),
        ("GET", vec![("origin", "HTTPS://SHOP.EXAMPLE")], "granted"),
        ("POST", vec![("origin", "https://a.partner.example")], "granted"),
        ("DELETE", vec![SHOP], "refused"),
        ("OPTIONS", vec![SHOP], "refused"),
        ("GET", vec![("origin", "https://evil.example")], "refused"),
        ("GET", vec![("origin", "null")], "refused"),
        ("GET", vec![("origin", "shop.example")], "refused"),
        ("OPTIONS", vec![SHOP, get], "preflight"),
        ("OPTIONS", vec![SHOP, ("access-control-request-method", "DELETE")], "refused"),
        ("OPTIONS", vec![SHOP, ("access-control-request-method", "get")], "refused"),
        ("OPTIONS", vec![SHOP, get, headers], "refused"),
        ("OPTIONS", vec![("origin", "https://evil.example"), get], "refused"),
        // Of the same origin, or of what looks like it behind somebody who ends TLS.
        ("DELETE", vec![("origin", "http://api")], "plain"),
        ("DELETE", vec![("origin", "https://api:443")], "plain"),
        ("OPTIONS", vec![("origin", "http://api"), get], "preflight"),
        ("GET", vec![("origin", "http://api:81")], "refused"),
    ] {
        let found = match policy(shop()).judge(&request(method, &fields), "http") {
            Verdict::Passes(headers) if headers.contains_key("access-control-allow-origin") => "granted",
            Verdict::Passes(headers) => {
                assert_eq!(values(&headers, "vary"), VARIES);
                "plain"
            }
            Verdict::Preflight(_) => "preflight",
            Verdict::Refused(_) => "refused",
        };
        assert_eq!(found, expected, "{method} {fields:?}");
    }
    let Verdict::Refused(_) = policy(Settings::default()).judge(&request("GET", &[SHOP]), "http") else {
        panic!("nothing is allowed that is not named")
    };
}

#[test]
fn a_private_network_is_opened_to_who_asks() {
    let settings = Settings { allow_private_network: true, ..shop() };
    let asks = ("access-control-request-private-network", "true");
    let Verdict::Preflight(headers) = policy(settings).judge(&request("OPTIONS", &[SHOP, POST, asks]), "http") else {
        panic!("no preflight")
    };
    assert_eq!(values(&headers, "access-control-allow-private-network"), ["true"]);
}

#[test]
fn names_that_are_none_are_refused() {
    let wrong = |settings: Settings| Policy::new(&settings).unwrap_err().to_string();
    assert_eq!(
        wrong(Settings { allowed_methods: names(&["GET POST"]), ..Settings::default() }),
        "`GET POST` is not a method"
    );
    assert_eq!(
        wrong(Settings { allowed_headers: names(&["a b"]), ..Settings::default() }),
        "`a b` is not a header's name"
    );
    assert_eq!(wrong(Settings { exposed_headers: names(&["é"]), ..Settings::default() }), "`é` is not a header's name");
}

#[tokio::test]
async fn the_upstreams_headers_come_behind_and_local_answers_get_theirs_too() {
    let upstream = |local: bool| {
        service_fn(move |_: Request<()>| async move {
            let mut response = Response::new(Full::<Bytes>::default());
            if local {
                response.extensions_mut().insert(LocalReply { reason: "rate-limited" });
            } else {
                response.headers_mut().insert("access-control-allow-origin", HeaderValue::from_static("*"));
                response.headers_mut().append("vary", HeaderValue::from_static("Accept"));
                response.headers_mut().append("vary", HeaderValue::from_static("Origin"));
            }
            Ok::<_, Infallible>(response)
        })
    };
    let cors = CorsLayer::new(Everywhere(Arc::new(policy(shop()))));
    let through = cors.layer(GrantLayer.layer(upstream(false))).oneshot(request("GET", &[SHOP])).await.unwrap();
    assert_eq!(values(through.headers(), "access-control-allow-origin"), ["https://shop.example", "*"]);
    assert_eq!(values(through.headers(), "vary"), [VARIES.as_slice(), &["Accept"]].concat());
    let local = cors.layer(upstream(true)).oneshot(request("GET", &[SHOP])).await.unwrap();
    assert_eq!(values(local.headers(), "access-control-allow-origin"), ["https://shop.example"]);
    let refused =
        cors.layer(upstream(false)).oneshot(request("GET", &[("origin", "https://evil.example")])).await.unwrap();
    assert_eq!((refused.status().as_u16(), LocalReply::marks(&refused)), (403, true));
    assert_eq!(values(refused.headers(), "vary"), VARIES);
}
