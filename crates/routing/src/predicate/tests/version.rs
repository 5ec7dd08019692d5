use std::sync::Arc;

use http::HeaderName;

use super::super::{ApiVersions, Version, VersionSource};
use super::{Predicate, PredicateError, Request};

fn from(source: VersionSource) -> ApiVersions {
    ApiVersions { sources: vec![source], ..ApiVersions::default() }
}

fn from_header() -> ApiVersions {
    from(VersionSource::Header(HeaderName::from_static("x-version")))
}

fn asks(version: &'static str) -> Request {
    Request::get().header("x-version", version.as_bytes())
}

fn meets(wanted: &str, versions: ApiVersions, request: &Request) -> bool {
    request.meets(&Predicate::version(wanted, Arc::new(versions)))
}

fn version(text: &str) -> Version {
    Version::parse(text).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn versions_are_numbers_and_not_texts() {
    for (wanted, asked, expected) in [
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
        assert_eq!(meets(wanted, from_header(), &asks(asked)), expected, "{wanted} {asked}");
    }
    for text in ["", "x", "1.x", "1..2", "1.2.3.4", "+", "1++"] {
        let expected = PredicateError::Version { text: text.to_owned() };
        assert_eq!(Predicate::version(text, Arc::default()).unwrap_err(), expected);
    }
}

#[test]
fn a_request_without_a_version_matches_or_has_the_default() {
    assert!(meets("1.3", from_header(), &Request::get()));
    let required = ApiVersions { required: true, ..from_header() };
    assert!(!meets("1.3", required, &Request::get()));
    let default = || ApiVersions { default: Some(version("1.2")), ..from_header() };
    assert!(!meets("1.3", default(), &Request::get()));
    assert!(meets("1.2", default(), &Request::get()));
    assert!(meets("1.3", default(), &asks("1.3")));
}

#[test]
fn a_version_that_is_not_supported_matches_nothing_but_what_names_it() {
    let supported = |detects| ApiVersions { supported: vec![version("1"), version("1.5")], detects, ..from_header() };
    for (wanted, asked, detects, expected) in [
        ("1.1+", "1.5", true, true),
        ("1.1+", "1.6", true, false),
        ("1.1+", "1.1", true, true),
        ("1.1+", "1.1", false, false),
    ] {
        assert_eq!(meets(wanted, supported(detects), &asks(asked)), expected, "{wanted} {asked} {detects}");
    }
}

#[test]
fn a_version_stands_in_a_header_a_parameter_a_segment_or_a_media_type() {
    let query = || from(VersionSource::Query("v".to_owned()));
    assert!(meets("1.3", query(), &Request { query: Some("a=b&v=1.3"), ..Request::get() }));
    assert!(!meets("1.3", query(), &Request { query: Some("v=1.4&v=1.3"), ..Request::get() }));
    assert!(meets("1.3", query(), &Request { query: Some("v"), ..Request::get() }), "no value is no version");

    let segment = || from(VersionSource::PathSegment(1));
    assert!(meets("1.3", segment(), &Request { path: "/api/v1.3/x", ..Request::get() }));
    assert!(!meets("1.3", segment(), &Request { path: "/api/v1.4/x", ..Request::get() }));
    assert!(!meets("1.3", segment(), &Request { path: "/api/orders", ..Request::get() }));
    assert!(meets("1.3", segment(), &Request { path: "/api", ..Request::get() }), "no segment is no version");

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
fn the_first_place_that_has_something_counts() {
    let header = VersionSource::Header(HeaderName::from_static("x-version"));
    let versions = ApiVersions { sources: vec![header, VersionSource::PathSegment(0)], ..ApiVersions::default() };
    assert!(meets("1.3", versions.clone(), &Request { path: "/v2", ..asks("1.3") }));
    assert!(meets("2", versions, &Request { path: "/v2", ..Request::get() }));
}
