#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::{AllOf, Predicate};
use crate::{HostPort, PredicateError, RequestView, Variables};

mod addresses;
mod combinations;
mod display;
mod header_values;
mod time;
mod value_regex;
mod version;
mod weight;

/// 2027-01-21T00:42:47.789Z.
const NOW_MS: i64 = 1_800_492_167_789;

/// A request that tests vary; by default a GET of `/` from 127.0.0.1.
struct Request {
    method: Method,
    path: &'static str,
    query: Option<&'static str>,
    headers: HeaderMap,
    remote_addr: IpAddr,
    random: u64,
}

impl Request {
    fn get() -> Self {
        Self {
            method: Method::GET,
            path: "/",
            query: None,
            headers: HeaderMap::new(),
            remote_addr: IpAddr::V4(Ipv4Addr::LOCALHOST),
            random: 0,
        }
    }

    fn header(mut self, name: &'static str, value: &'static [u8]) -> Self {
        self.headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
        self
    }

    fn view(&self) -> RequestView<'_> {
        RequestView {
            method: &self.method,
            path: self.path,
            query: self.query,
            headers: &self.headers,
            forwarded_for: &self.headers,
            remote_addr: self.remote_addr,
            now_ms: || NOW_MS,
            random: self.random,
        }
    }

    fn meets(&self, predicate: &Result<Predicate, PredicateError>) -> bool {
        predicate.as_ref().unwrap().matches(&self.view())
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn the_first_matching_path_pattern_sets_the_variables() {
    let predicate = Predicate::path(&texts(&["/b", "/{first}/**", "/a/{second}"]), false).unwrap();
    let request = Request { path: "/a/1", ..Request::get() };
    assert!(predicate.matches(&request.view()));
    let mut variables = Variables::new();
    predicate.capture_variables(&request.view(), &mut variables);
    assert_eq!(variables, [("first".into(), "a".to_owned())]);
}

#[test]
fn path_ignores_a_trailing_slash_only_if_configured() {
    let request = Request { path: "/red/1/", ..Request::get() };
    assert!(request.meets(&Predicate::path(&texts(&["/red/{s}"]), true)));
    assert!(!request.meets(&Predicate::path(&texts(&["/red/{s}"]), false)));
}

#[test]
fn methods_are_case_sensitive_and_a_preflight_is_options() {
    let predicate = Predicate::method(&texts(&["get", "PURGE"]));
    assert!(Request::get().meets(&predicate));
    for (method, expected) in [("PURGE", true), ("purge", false), ("OPTIONS", false), ("get", false)] {
        let request = Request { method: Method::from_bytes(method.as_bytes()).unwrap(), ..Request::get() };
        assert_eq!(request.meets(&predicate), expected, "{method}");
    }
}

#[test]
fn host_requires_the_field_and_includes_the_port() {
    let predicate = Predicate::host(&texts(&["**.a.org", "**.foo.org:*"]), HostPort::Included);
    assert!(!Request::get().meets(&predicate));
    for (host, expected) in
        [("www.foo.org:8080", true), ("foo.org", false), ("a.org", true), ("a.org:80", false), ("A.org", false)]
    {
        assert_eq!(Request::get().header("host", host.as_bytes()).meets(&predicate), expected, "{host}");
    }
}

#[test]
fn a_pattern_without_a_port_matches_any_port() {
    let predicate = Predicate::host(&texts(&["{name}.foo.org", "**.bar.org:*", "x.baz.org:81"]), HostPort::Optional);
    for (host, expected) in [
        ("www.foo.org", true),
        ("www.foo.org:80", true),
        ("www.foo.org:443", true),
        ("www.foo.org:", true),
        ("www.foo.org:8080", true),
        ("www.foo.org:x", false),
        ("www.bar.org:80", true),
        ("www.bar.org", false),
        ("x.baz.org:81", true),
        ("x.baz.org:82", false),
        ("x.baz.org", false),
    ] {
        assert_eq!(Request::get().header("host", host.as_bytes()).meets(&predicate), expected, "{host}");
    }
    let mut variables = Variables::new();
    predicate.unwrap().capture_variables(&Request::get().header("host", b"www.foo.org:8080").view(), &mut variables);
    assert_eq!(variables, [("name".into(), "www".to_owned())]);
}

#[test]
fn host_without_port_ignores_the_port() {
    let predicate = Predicate::host(&texts(&["**.foo.org", "{name}.bar"]), HostPort::Ignored);
    for (host, expected) in
        [("www.foo.org:8080", true), ("foo.org", true), ("foo.org:", true), ("foo.org:x", false), ("a.bar:1", true)]
    {
        assert_eq!(Request::get().header("host", host.as_bytes()).meets(&predicate), expected, "{host}");
    }
    let mut variables = Variables::new();
    predicate.unwrap().capture_variables(&Request::get().header("host", b"a.bar:1").view(), &mut variables);
    assert_eq!(variables, [("name".into(), "a".to_owned())]);
}

#[test]
fn query_without_an_expression_requires_only_the_parameter() {
    let predicate = Predicate::query("green", None);
    for (query, expected) in [
        (None, false),
        (Some(""), false),
        (Some("green"), true),
        (Some("green="), true),
        (Some("a=b&green=1"), true),
        (Some("gr%65en"), true),
        (Some("Green"), false),
        (Some("a=green"), false),
    ] {
        assert_eq!(Request { query, ..Request::get() }.meets(&predicate), expected, "{query:?}");
    }
}

#[test]
fn query_with_an_expression_requires_one_whole_value_that_matches() {
    let predicate = Predicate::query("red", Some("gree.( x)?"));
    for (query, expected) in [
        ("red=green", true),
        ("red=greet", true),
        ("red=greenish", false),
        ("red=a&red=green", true),
        ("red=green+x", true),
        ("red=green%20x", true),
        ("red=green%2Bx", false),
        ("red", false),
        ("red=", false),
    ] {
        assert_eq!(Request { query: Some(query), ..Request::get() }.meets(&predicate), expected, "{query}");
    }
    let any = Predicate::query("red", Some(".*"));
    for (query, expected) in [("red=", true), ("red", false), ("red=%", true), ("red=%zz&%", true), ("=red", false)] {
        assert_eq!(Request { query: Some(query), ..Request::get() }.meets(&any), expected, "{query}");
    }
}

#[test]
fn the_cache_of_expressions_survives_more_than_its_capacity() {
    let of = |index: usize| Predicate::query("q", Some(&format!("a{index}"))).unwrap();
    let all: Vec<Predicate> = (0..1_100).chain(0..1_100).map(of).collect();
    for (place, predicate) in all.iter().enumerate() {
        let value = format!("q=a{}", place % 1_100);
        assert!(predicate.matches(&RequestView { query: Some(&value), ..Request::get().view() }), "{value}");
    }
}
