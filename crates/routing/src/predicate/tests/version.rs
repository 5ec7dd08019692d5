use std::sync::Arc;

use http::HeaderName;

use super::{Predicate, Request};
use crate::{ApiVersions, Version, VersionSource};

fn from(source: VersionSource) -> ApiVersions {
    ApiVersions { sources: vec![source], ..ApiVersions::default() }
}

fn from_header() -> ApiVersions {
    from(VersionSource::Header(HeaderName::from_static("x-version")))
}

fn request(version: &'static str) -> Request {
    Request::get().header("x-version", version.as_bytes())
}

fn meets(required: &str, versions: ApiVersions, request: &Request) -> bool {
    request.meets(&Predicate::version(required, Arc::new(versions)))
}

fn version(text: &str) -> Version {
    Version::parse(text).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn versions_are_compared_as_numbers() {
    for (required, requested, expected) in [
        ("1.3", "1.3", true),
        ("1.3", "1.3.0", true),
        ("1", "v1.0.0", true),
        ("v1.3", "1.3", true),
        ("1.3", "1.4", false),
        ("1.3", "1.30", false),
        ("1.1+", "1.1", true),
        ("1.1+", "1.10.7", true),
        ("1.1+", "2", true),
        ("1.1+", "1.0.9", false),
        ("1.9+", "1.10", true),
        ("1.3", "1.3-beta", false),
        ("1.3", "1.3.0.0", false),
        ("1.3", "latest", false),
        ("1.3", "", false),
        ("1.3", "99999999999", false),
    ] {
        assert_eq!(meets(required, from_header(), &request(requested)), expected, "{required} {requested}");
    }
    for text in ["", "x", "1.x", "1..2", "1.2.3.4", "+", "1++"] {
        let error = Predicate::version(text, Arc::default()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{text}` is not a version: ")), "{error}");
    }
}

#[test]
fn a_request_without_a_version_matches_or_uses_the_default() {
    assert!(meets("1.3", from_header(), &Request::get()));
    let required = ApiVersions { required: true, ..from_header() };
    assert!(!meets("1.3", required, &Request::get()));
    let default = || ApiVersions { default: Some(version("1.2")), ..from_header() };
    assert!(!meets("1.3", default(), &Request::get()));
    assert!(meets("1.2", default(), &Request::get()));
    assert!(meets("1.3", default(), &request("1.3")));
}

#[test]
fn an_unsupported_version_matches_only_a_route_that_names_it() {
    let supported = |detect_supported| ApiVersions {
        supported: vec![version("1"), version("1.5")],
        detect_supported,
        ..from_header()
    };
    for (required, requested, detect, expected) in [
        ("1.1+", "1.5", true, true),
        ("1.1+", "1.6", true, false),
        ("1.1+", "1.1", true, true),
        ("1.1+", "1.1", false, false),
    ] {
        assert_eq!(
            meets(required, supported(detect), &request(requested)),
            expected,
            "{required} {requested} {detect}"
        );
    }
}

#[test]
fn versions_are_read_from_headers_parameters_segments_and_media_types() {
    let query = || from(VersionSource::Query("v".to_owned()));
    assert!(meets("1.3", query(), &Request { query: Some("a=b&v=1.3"), ..Request::get() }));
    assert!(!meets("1.3", query(), &Request { query: Some("v=1.4&v=1.3"), ..Request::get() }));
    assert!(
        meets("1.3", query(), &Request { query: Some("v"), ..Request::get() }),
        "a parameter without a value names no version"
    );

    let segment = || from(VersionSource::PathSegment(1));
    assert!(meets("1.3", segment(), &Request { path: "/api/v1.3/x", ..Request::get() }));
    assert!(!meets("1.3", segment(), &Request { path: "/api/v1.4/x", ..Request::get() }));
    assert!(!meets("1.3", segment(), &Request { path: "/api/orders", ..Request::get() }));
    assert!(meets("1.3", segment(), &Request { path: "/api", ..Request::get() }), "a missing segment names no version");

    let media = || {
        let media_type = "application/json".to_owned();
        from(VersionSource::MediaType { media_type, parameter: "v".to_owned() })
    };
    for (field, value, expected) in [
        ("accept", "application/json;v=1.3", true),
        ("accept", "text/html;v=1.4, application/json; q=1; V=\"1.3\"", true),
        ("accept", "*/*;v=1.3", true),
        ("accept", "application/*;v=1.4", false),
        ("accept", "text/html;v=1.4", true),
        ("content-type", "Application/JSON;v=1.4", false),
    ] {
        assert_eq!(meets("1.3", media(), &Request::get().header(field, value.as_bytes())), expected, "{value}");
    }
}

#[test]
fn the_first_source_with_a_value_counts() {
    let header = VersionSource::Header(HeaderName::from_static("x-version"));
    let versions = ApiVersions { sources: vec![header, VersionSource::PathSegment(0)], ..ApiVersions::default() };
    assert!(meets("1.3", versions.clone(), &Request { path: "/v2", ..request("1.3") }));
    assert!(meets("2", versions, &Request { path: "/v2", ..Request::get() }));
}
