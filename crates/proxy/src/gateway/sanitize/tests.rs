#![allow(clippy::unwrap_used)]
use http::Request;
use tollgate_filters::context::ReceivedPath;

use crate::gateway::sanitize::*;

const RULES: SanitizeRules =
    SanitizeRules { underscores: Underscores::Drop, keeps_client_cert: false, path: PathRules::STRICT };

fn head(target: &str, fields: &[(&'static str, &str)]) -> Parts {
    let mut request = Request::builder().uri(target);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn sanitized(target: &str, fields: &[(&'static str, &str)]) -> Result<Parts, Failure> {
    let mut head = head(target, fields);
    sanitize(&mut head, RULES, false)?;
    Ok(head)
}

#[test]
fn an_ordinary_request_is_unchanged() {
    let head = sanitized("/a/b?c=d", &[("host", "example.org:8080")]).unwrap();
    assert_eq!(head.uri, "/a/b?c=d");
    assert_eq!(head.headers[HOST], "example.org:8080");
}

#[test]
fn an_invalid_missing_or_second_host_is_refused() {
    for fields in [
        &[][..],
        &[("host", "a"), ("host", "a")],
        &[("host", "a b")],
        &[("host", "user@a")],
        &[("host", "a:80x")],
        &[("host", "a:08080")],
        &[("host", "a/b")],
        &[("host", "[::1")],
        &[("host", "%61")],
        &[("host", "a,b")],
        &[("host", "ex%61mple.com:80")],
        &[("host", "a%2Eb")],
        &[("host", "a%00")],
        &[("host", "[fe80::1%25lo]")],
        &[("host", "a..example")],
        &[("host", "a.example..")],
        &[("host", ".a.example:80")],
        &[("host", "[api.example.org]")],
        &[("host", "[api.example.org]:80")],
        &[("host", "[10.0.0.1]")],
        &[("host", "[v1.api.example.org]")],
        &[("host", "[]")],
        &[("host", "[::1]a")],
        &[("host", "[::1]]")],
        &[("host", "")],
    ] {
        assert!(matches!(sanitized("/", fields), Err(Failure::Ambiguous(_))), "{fields:?}");
    }
    for host in [".", ".:80"] {
        assert!(matches!(sanitized("/", &[("host", host)]), Err(Failure::Ambiguous(_))), "{host}");
    }
    for host in ["a", "a.b:1", "[::1]:8080", "127.0.0.1", "xn--a"] {
        assert!(sanitized("/", &[("host", host)]).is_ok(), "{host}");
    }
}

#[test]
fn a_standard_method_in_another_case_is_refused() {
    for (method, is_refused) in
        [("post", true), ("Get", true), ("pATCH", true), ("trace", true), ("connect", true), ("POST", false)]
            .into_iter()
            .chain([("purge", false), ("PURGE", false), ("posts", false), ("PROPFIND", false)])
    {
        let mut head = head("/", &[("host", "a")]);
        head.method = method.parse().unwrap();
        assert_eq!(matches!(sanitize(&mut head, RULES, false), Err(Failure::BadRequest(_))), is_refused, "{method}");
    }
}

#[test]
fn the_authority_of_an_absolute_target_replaces_host() {
    let head = sanitized("http://a.example/x?y", &[("host", "b.example")]).unwrap();
    assert_eq!(head.uri, "/x?y");
    assert_eq!(head.headers[HOST], "a.example");
    assert_eq!(sanitized("http://a.example", &[("host", "a.example")]).unwrap().uri, "/");
    assert!(sanitized("http://u:p@a.example/", &[("host", "a.example")]).is_err());
}

#[test]
fn every_host_that_counts_as_normal_is_in_normal_form() {
    for host in ["a", "a.b:1", "A.b", "a.b.", "a.b.:1", "[::1]", "[0::1]:2", "a_b", "127.0.0.1:8080", "a:"] {
        let is_normal = host_form(host.as_bytes()) == Some(HostForm::Normal);
        assert!(!is_normal || normalize_host(host) == host, "{host}");
    }
    assert_eq!(host_form(b"a.b:80"), Some(HostForm::Normal), "without another look");
}

#[test]
fn the_host_is_in_normal_form() {
    for (host, expected) in [
        ("A.Example.", "a.example"),
        ("a.EXAMPLE.:8080", "a.example:8080"),
        ("a.example.:8080", "a.example:8080"),
        ("[0::1]", "[::1]"),
        ("a.example:", "a.example"),
    ] {
        assert_eq!(sanitized("/", &[("host", host)]).unwrap().headers[HOST], expected);
        assert_eq!(sanitized(&format!("http://{host}/"), &[("host", "b")]).unwrap().headers[HOST], expected);
    }
}

#[test]
fn chunked_is_the_only_transfer_encoding() {
    let ok = sanitized("/", &[("host", "a"), ("transfer-encoding", "Chunked")]);
    assert!(ok.is_ok());
    for value in ["gzip, chunked", "x, chunked", "chunked, chunked", "\tchunked\u{b}", "identity", "chunked;q=1"] {
        let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) else { continue };
        let mut head = head("/", &[("host", "a")]);
        head.headers.insert(TRANSFER_ENCODING, value.clone());
        assert!(matches!(sanitize(&mut head, RULES, false), Err(Failure::TransferEncoding)), "{value:?}");
    }
    let both = sanitized("/", &[("host", "a"), ("transfer-encoding", "chunked"), ("content-length", "3")]);
    assert!(matches!(both, Err(Failure::Ambiguous(_))));
}

#[test]
fn the_path_is_normalized_and_the_spelling_kept() {
    let spelling = |head: &Parts| head.extensions.get::<ReceivedPath>().map(|ReceivedPath(path)| path.to_string());
    for (target, normal, received) in [
        ("/a?b", "/a?b", None),
        ("/a//b/../%63?x=//..", "/a/c?x=//..", None),
        ("//a/%7E?x=//", "/a/~?x=//", Some("//a/%7E")),
        ("http://a//b", "/b", Some("//b")),
        ("http://a/b", "/b", None),
        ("/a?é", "/a?%C3%A9", None),
    ] {
        let head = sanitized(target, &[("host", "a")]).unwrap();
        assert_eq!((head.uri.to_string().as_str(), spelling(&head).as_deref()), (normal, received), "{target}");
    }
    assert!(matches!(sanitized("/a%2Fb", &[("host", "a")]), Err(Failure::BadPath(_))));
    assert!(matches!(sanitized("/../a", &[("host", "a")]), Err(Failure::BadPath(_))));
}

#[test]
fn max_forwards_is_decremented_and_answered_at_zero() {
    let mut last = head("/", &[("host", "a"), ("max-forwards", "0")]);
    last.method = Method::OPTIONS;
    assert!(matches!(sanitize(&mut last, RULES, false), Err(Failure::OptionsOfGateway)));
    let mut more = head("/", &[("host", "a"), ("max-forwards", "2")]);
    more.method = Method::OPTIONS;
    sanitize(&mut more, RULES, false).unwrap();
    assert_eq!(more.headers[MAX_FORWARDS], "1");
}

#[test]
fn cookie_fields_of_http2_become_one() {
    let mut request = head("http://a/", &[("cookie", "a=1"), ("cookie", "b=2"), ("cookie", "c=3")]);
    request.version = Version::HTTP_2;
    sanitize(&mut request, RULES, false).unwrap();
    assert_eq!(request.headers.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2; c=3"]);
}

#[test]
fn only_a_trusted_peer_reports_the_client() {
    let fields = [
        ("host", "a"),
        ("x-forwarded-for", "1.2.3.4"),
        ("x-forwarded-for", "5.6.7.8"),
        ("forwarded", "for=1.2.3.4"),
        ("x-forwarded-prefix", "/a"),
        ("x-forwarded", "1"),
    ];
    let untrusted = sanitized("/", &fields).unwrap();
    assert_eq!(untrusted.headers.keys().collect::<Vec<_>>(), ["host", "x-forwarded"]);
    let mut trusted = head("/", &fields);
    sanitize(&mut trusted, RULES, true).unwrap();
    assert_eq!(trusted.headers.len(), fields.len());
}
